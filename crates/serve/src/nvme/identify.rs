//! What Identify returns (Base Specification 2.0, section 5.17; NVM Command Set Specification 1.0, section 4.1.5).

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::rules::command::COPY_SOURCES_MAX;
use phaselink_core::protocol::nvme::spec::Status;

use super::{ABORTS_MAX, EVENTS_MAX, LOGGED_ERRORS, VERSION};

/// Bytes of every such structure.
pub const BYTES: usize = 4096;
/// PCI vendor, as the configuration space has it too: "pl", which no vendor has (assumed).
pub const VENDOR: u16 = 0x706c;

/// CNS values (figure 273).
mod cns {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const ACTIVE_NAMESPACES: u8 = 0x02;
    pub(super) const NAMESPACE_IDS: u8 = 0x03;
    pub(super) const NVM_NAMESPACE: u8 = 0x05;
    pub(super) const NVM_CONTROLLER: u8 = 0x06;
    pub(super) const NVM_ACTIVE_NAMESPACES: u8 = 0x07;
    pub(super) const NAMESPACE_STATUS: u8 = 0x08;
    pub(super) const COMMAND_SETS: u8 = 0x1c;
}

/// OACS: Format NVM, Doorbell Buffer Config.
const OPTIONAL_ADMIN: u16 = 1 << 1 | 1 << 8;
/// ONCS: Compare, Dataset Management, Write Zeroes, Timestamp, Verify, Copy.
const OPTIONAL_COMMANDS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;
/// WCTEMP and CCTEMP, in kelvin (assumed, as usual: 70 and 85 degrees).
const WARNING_KELVIN: u16 = 343;
const CRITICAL_KELVIN: u16 = 358;

/// Who a controller says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    model: String,
    serial: String,
    pub limits: Limits,
}

impl Identity {
    /// A drive of this name with these limits, behind one of several front-ends; the same ones every time.
    pub fn new(name: &str, limits: Limits, front: usize) -> Identity {
        let capacity_bytes = limits.blocks << limits.block_shift;
        let hash = crc32fast::hash(format!("{name} {capacity_bytes}").as_bytes());
        Identity { model: format!("phaselink {name}"), serial: format!("{hash:08x}-{front}"), limits }
    }

    /// The structure that CNS, CSI and namespace ask for.
    ///
    /// # Errors
    /// Invalid Field for one that is not there, Invalid Namespace where the namespace is not.
    pub fn answer(&self, cns: u8, command_set: u8, namespace: u32) -> Result<Box<[u8; BYTES]>, Status> {
        let mut page = Box::new([0; BYTES]);
        match cns {
            cns::CONTROLLER => self.controller(&mut page),
            cns::COMMAND_SETS => page[0] = 1,
            cns::NAMESPACE => self.namespace(self.existing(namespace)?, &mut page),
            cns::NAMESPACE_IDS => self.namespace_ids(self.existing(namespace)?, &mut page),
            cns::NAMESPACE_STATUS => namespace_status(self.existing(namespace)?, &mut page),
            cns::ACTIVE_NAMESPACES => self.active_namespaces(namespace, &mut page)?,
            cns::NVM_ACTIVE_NAMESPACES | cns::NVM_CONTROLLER | cns::NVM_NAMESPACE if command_set != 0 => {
                return Err(Status::INVALID_FIELD);
            }
            cns::NVM_ACTIVE_NAMESPACES => self.active_namespaces(namespace, &mut page)?,
            // Nothing in it is limited further, or protected.
            cns::NVM_CONTROLLER => {}
            cns::NVM_NAMESPACE => {
                self.existing(namespace)?;
            }
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(page)
    }

    /// Figure 275.
    fn controller(&self, page: &mut [u8; BYTES]) {
        put(page, 0, VENDOR.to_le_bytes());
        put(page, 2, VENDOR.to_le_bytes());
        text(&mut page[4..24], &self.serial);
        text(&mut page[24..64], &self.model);
        text(&mut page[64..72], env!("CARGO_PKG_VERSION"));
        page[77] = self.limits.transfer_field().unwrap_or(0);
        put(page, 80, VERSION.to_le_bytes());
        // An I/O controller (CNTRLTYPE).
        page[111] = 1;
        put(page, 256, OPTIONAL_ADMIN.to_le_bytes());
        page[258] = ABORTS_MAX - 1;
        page[259] = EVENTS_MAX - 1;
        // One firmware slot, which is read-only (FRMW).
        page[260] = 1 | 1 << 1;
        // Commands Supported and Effects, and log pages from an offset on (LPA).
        page[261] = 1 << 1 | 1 << 2;
        page[262] = LOGGED_ERRORS as u8 - 1;
        put(page, 266, WARNING_KELVIN.to_le_bytes());
        put(page, 268, CRITICAL_KELVIN.to_le_bytes());
        put(page, 320, super::KEEP_ALIVE_TENTHS.to_le_bytes());
        // Sizes of entries, least and most (SQES, CQES).
        page[512] = 0x66;
        page[513] = 0x44;
        put(page, 516, self.limits.namespaces.to_le_bytes());
        put(page, 520, OPTIONAL_COMMANDS.to_le_bytes());
        // A volatile write cache; Flush may name all namespaces (VWC).
        page[525] = 1 | 0b11 << 1;
        // Copy takes sources of format 0 (OCFS).
        page[534] = 1;
        // Scatter-gather lists, at any address and of any length; no bit buckets (SGLS).
        put(page, 536, u32::from(self.limits.takes_segments).to_le_bytes());
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", self.uuid_text());
        page[768..][..name.len()].copy_from_slice(name.as_bytes());
    }

    /// NVM Command Set Specification, figure 97.
    fn namespace(&self, _: Existing, page: &mut [u8; BYTES]) {
        for at in [0, 8, 16] {
            put(page, at, self.limits.blocks.to_le_bytes());
        }
        // Deallocated blocks read as zeros, and Write Zeroes may deallocate (DLFEAT).
        page[33] = 0b001 | 1 << 3;
        // What a Copy may bring (MSSRL, MCL, MSRC).
        put(page, 74, (self.limits.copy_source_blocks_max() as u16).to_le_bytes());
        put(page, 76, self.limits.copy_blocks_max().to_le_bytes());
        page[80] = COPY_SOURCES_MAX as u8 - 1;
        page[130] = self.limits.block_shift as u8;
    }

    /// A namespace's UUID (figure 277, type 3).
    fn namespace_ids(&self, Existing(namespace): Existing, page: &mut [u8; BYTES]) {
        page[..2].copy_from_slice(&[3, 16]);
        page[4..20].copy_from_slice(&self.uuid(namespace));
        // The command set: NVM (type 4).
        page[20..22].copy_from_slice(&[4, 1]);
    }

    /// RFC 9562, version 8: made from the serial number and a namespace's, so that it stays the same; that of the first is
    /// the controller's as well.
    fn uuid(&self, namespace: u32) -> [u8; 16] {
        let mut uuid = [0; 16];
        let further = if namespace == 1 { String::new() } else { format!(" {namespace}") };
        for (place, part) in uuid.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let name = format!("{} {} {place}{further}", self.model, self.serial);
            *part = crc32fast::hash(name.as_bytes()).to_be_bytes();
        }
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    fn uuid_text(&self) -> String {
        let hex: String = self.uuid(1).iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    fn existing(&self, namespace: u32) -> Result<Existing, Status> {
        if self.limits.has_namespace(namespace) { Ok(Existing(namespace)) } else { Err(Status::INVALID_NAMESPACE) }
    }

    /// Identifiers above the one given; the two highest numbers are none to start from.
    fn active_namespaces(&self, above: u32, page: &mut [u8; BYTES]) -> Result<(), Status> {
        if above >= 0xffff_fffe {
            return Err(Status::INVALID_NAMESPACE);
        }
        let active = above.saturating_add(1)..=self.limits.namespaces;
        page.as_chunks_mut::<4>().0.iter_mut().zip(active).for_each(|(entry, id)| *entry = id.to_le_bytes());
        Ok(())
    }
}

/// A namespace that is there.
struct Existing(u32);

/// Ready (figure 280, NSTAT).
fn namespace_status(_: Existing, page: &mut [u8; BYTES]) {
    page[14] = 1;
}

fn put<const N: usize>(page: &mut [u8; BYTES], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

/// Text is padded with spaces (section 1.4.2).
fn text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let bytes = text.bytes().map(|byte| if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'?' });
    field.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
}
