//! Data structures of the Identify command (Base Specification 2.0, section 5.17; NVM Command Set Specification 1.0,
//! section 4.1.5).

use std::sync::Arc;

use phaselink_core::number::{index, low_u8, low_u16};
use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::commands::{Action, COPY_SOURCES_MAX};
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::rules::protection::{
    BYTE_ALIGNED_METADATA, METADATA_CAPABILITIES, PROTECTION_CAPABILITIES,
};
use phaselink_core::protocol::nvme::spec::Status;

use super::event_log;
use super::kinds::KindRow;
use super::limits::{ABORTS_MAX, ERROR_LOG_ENTRIES, EVENT_REQUESTS_MAX, KEEP_ALIVE_TENTHS, VERSION};
use super::subsystem::{BlockFormat, LbaFormat, Namespace, NamespaceView, Subsystem};

/// Length in bytes of every Identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;
/// PCI vendor identifier, also in the PCI configuration space: "pl", which no vendor has (assumed).
pub const VENDOR: u16 = 0x706c;

/// Values of the CNS field (figure 273).
mod cns {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const ACTIVE_NAMESPACES: u8 = 0x02;
    pub(super) const NAMESPACE_IDS: u8 = 0x03;
    pub(super) const SET_NAMESPACE: u8 = 0x05;
    pub(super) const SET_CONTROLLER: u8 = 0x06;
    pub(super) const SET_ACTIVE_NAMESPACES: u8 = 0x07;
    pub(super) const NAMESPACE_STATUS: u8 = 0x08;
    pub(super) const ALLOCATED_NAMESPACES: u8 = 0x10;
    pub(super) const ALLOCATED_NAMESPACE: u8 = 0x11;
    pub(super) const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    pub(super) const CONTROLLERS: u8 = 0x13;
    pub(super) const ENDURANCE_GROUPS: u8 = 0x19;
    pub(super) const COMMAND_SETS: u8 = 0x1c;
}

/// Fields of an Identify command that select a data structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentifySelection {
    /// Controller or Namespace Structure (CNS).
    pub cns: u8,
    /// Command Set Identifier (CSI).
    pub command_set: u8,
    /// Namespace identifier (NSID).
    pub namespace: u32,
    /// First controller of a list (CNTID).
    pub first_controller: u16,
    /// First endurance group of a list (CNSSID).
    pub first_group: u16,
}

/// Identifier of the controller (CNTLID). Hosts see it as the only controller of its NVM subsystem.
pub(super) const CONTROLLER_ID: u16 = 0;
/// Sanitize capabilities (SANICAP) of the controller. Sanitize supports Block Erase alone, and does not additionally
/// modify the media if the host sets No-Deallocate After Sanitize.
pub(super) const SANITIZE_CAPABILITIES: u32 = 1 << 1 | 1 << 30;

/// Bit of ONCS that announces the feature Timestamp.
const ONCS_TIMESTAMP: u16 = 1 << 6;
/// Warning composite temperature (WCTEMP) in kelvin: 70 degrees Celsius (assumed).
const WARNING_KELVIN: u16 = 343;
/// Critical composite temperature (CCTEMP) in kelvin: 85 degrees Celsius (assumed).
const CRITICAL_KELVIN: u16 = 358;

/// Identity of a controller: model, serial number, limits and namespaces that it reports.
#[derive(Clone, Debug)]
pub struct Identity {
    model: String,
    serial: String,
    /// Limits of commands, queues and namespaces.
    pub limits: Limits,
    /// State that all controllers of the drive share: namespaces, sanitize state and event log.
    pub subsystem: Arc<Subsystem>,
    /// Index of the controller among those of the drive.
    pub(super) number: u32,
    /// Atomic write unit in bytes: a power cut leaves a write that crosses no multiple of it all old or all new.
    atomic_bytes: u32,
}

impl Identity {
    /// Returns the identity of a drive's controller in front-end number `front`. The serial number depends on the
    /// arguments alone.
    pub fn new(name: &str, limits: Limits, front: usize) -> Identity {
        let capacity_bytes = limits.blocks << limits.block_shift;
        let hash = crc32fast::hash(format!("{name} {capacity_bytes}").as_bytes());
        let (model, serial) = (format!("phaselink {name}"), format!("{hash:08x}-{front}"));
        let subsystem = Arc::new(Subsystem::new(&limits));
        Identity { model, serial, limits, subsystem, number: front as u32, atomic_bytes: 0 }
    }

    /// Replaces the identity's namespaces by those of `subsystem`, which other controllers of the drive have too.
    pub fn sharing(self, subsystem: &Arc<Subsystem>) -> Identity {
        Identity { subsystem: Arc::clone(subsystem), ..self }
    }

    /// Returns a view of the namespaces that are attached to this controller.
    pub(super) fn namespaces(&self) -> NamespaceView {
        NamespaceView::new(&self.subsystem, self.number)
    }

    /// Returns the row of the kind of the drive's namespaces.
    pub(super) fn kind_row(&self) -> &'static KindRow {
        KindRow::of(&self.limits.kind)
    }

    /// Sets the atomic write unit that the controller reports, in bytes.
    pub fn with_atomic_bytes(self, atomic_bytes: u32) -> Identity {
        Identity { atomic_bytes, ..self }
    }

    /// Returns the atomic write unit in blocks of a size, less 1, as fields of Identify hold it.
    fn atomic_field(&self, block_shift: u32) -> u16 {
        low_u16((self.atomic_bytes >> block_shift).saturating_sub(1))
    }

    /// Returns the data structure that an Identify command selects. `optional_admin_bits` is OACS.
    ///
    /// # Errors
    /// Invalid Field if the controller does not support the structure, Invalid Namespace if the namespace does not
    /// exist.
    pub fn structure(
        &self,
        selected: IdentifySelection,
        optional_admin_bits: u16,
    ) -> Result<Box<[u8; IDENTIFY_BYTES]>, Status> {
        let IdentifySelection { cns, command_set, namespace, first_controller, first_group } = selected;
        let (row, mut page) = (self.kind_row(), Box::new([0; IDENTIFY_BYTES]));
        check_command_set(row, cns, command_set)?;
        match cns {
            cns::CONTROLLER => self.controller(optional_admin_bits, &mut page),
            cns::COMMAND_SETS => page[0] = row.command_sets.iter().fold(0, |sets, (set, _)| sets | 1 << set),
            // Capabilities that are common to all namespaces.
            cns::NAMESPACE if namespace == ALL_NAMESPACES => self.capabilities(self.subsystem.own_format(), &mut page),
            cns::NAMESPACE => self.namespace(self.active(namespace)?, &mut page),
            cns::ALLOCATED_NAMESPACE => self.namespace(self.allocated(namespace)?, &mut page),
            cns::NAMESPACE_IDS => self.namespace_ids(namespace, self.existing(namespace)?, &mut page),
            cns::NAMESPACE_STATUS => {
                namespace_status(self.existing(namespace)?, &mut page);
                put(&mut page, 12, row.endurance_group().to_le_bytes());
            }
            cns::SET_ACTIVE_NAMESPACES | cns::SET_CONTROLLER | cns::SET_NAMESPACE if command_set != 0 => {
                self.structure_of_set(selected, &mut page)?;
            }
            cns::ACTIVE_NAMESPACES | cns::SET_ACTIVE_NAMESPACES => {
                // Both lists are equal for the NVM command set. A drive with zones or keys has no namespaces of that
                // set.
                let has_other_set = cns == cns::SET_ACTIVE_NAMESPACES && row.command_set() != 0;
                let is_listed = |it: &Namespace| it.is_attached(self.number) && !has_other_set;
                self.list_namespaces(namespace, is_listed, &mut page)?;
            }
            cns::ALLOCATED_NAMESPACES => self.list_namespaces(namespace, |_| true, &mut page)?,
            cns::CONTROLLERS_OF_NAMESPACE => {
                let is_attached = self.allocated(namespace)?.is_some_and(|it| it.is_attached(self.number));
                list_controllers(is_attached && first_controller == 0, &mut page);
            }
            cns::CONTROLLERS => list_controllers(first_controller == 0, &mut page),
            cns::ENDURANCE_GROUPS if !row.endurance_groups.is_empty() => {
                // The list has one group, if the command starts at or before it.
                page[0] = u8::from(first_group <= row.endurance_group());
                put(&mut page, 2, row.endurance_group().to_le_bytes());
            }
            // No further limits. Protection information has only guards of 16 bits.
            cns::SET_CONTROLLER => {}
            cns::SET_NAMESPACE => {
                self.existing(namespace)?;
            }
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(page)
    }

    /// Fills a data structure of the command set of zones, or of keys and values. Invalid Field if the drive does not
    /// have that set.
    fn structure_of_set(&self, selected: IdentifySelection, page: &mut [u8; IDENTIFY_BYTES]) -> Result<(), Status> {
        let IdentifySelection { cns, command_set, namespace, .. } = selected;
        if command_set != self.kind_row().command_set() {
            return Err(Status::INVALID_FIELD);
        }
        match cns {
            cns::SET_ACTIVE_NAMESPACES => {
                self.list_namespaces(namespace, |it| it.is_attached(self.number), page)?;
            }
            cns::SET_CONTROLLER => {
                self.limits.kind.identify_controller(self.limits.transfer_bytes_max, &mut page[..]);
            }
            _ => {
                self.existing(namespace)?;
                self.limits.kind.identify_namespace(self.subsystem.kind.used_key_bytes(), &mut page[..]);
            }
        }
        Ok(())
    }

    /// Fills the data structure of Identify Controller (figure 275).
    fn controller(&self, optional_admin_bits: u16, page: &mut [u8; IDENTIFY_BYTES]) {
        put(page, 0, VENDOR.to_le_bytes());
        put(page, 2, VENDOR.to_le_bytes());
        text(&mut page[4..24], &self.serial);
        text(&mut page[24..64], &self.model);
        text(&mut page[64..72], env!("CARGO_PKG_VERSION"));
        page[77] = self.limits.transfer_field().unwrap_or(0);
        put(page, 80, VERSION.to_le_bytes());
        put(page, 78, CONTROLLER_ID.to_le_bytes());
        // Namespace Attribute Notices (OAES).
        put(page, 92, (1_u32 << 8).to_le_bytes());
        kind_fields(self.kind_row(), page);
        // Controller type: I/O controller (CNTRLTYPE).
        page[111] = 1;
        put(page, 256, optional_admin_bits.to_le_bytes());
        page[258] = ABORTS_MAX - 1;
        page[259] = EVENT_REQUESTS_MAX - 1;
        // One firmware slot, which is read-only (FRMW).
        page[260] = 1 | 1 << 1;
        // Log page attributes: Commands Supported and Effects, extended offsets, Telemetry, Persistent Event Log (LPA,
        // PELS).
        page[261] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
        put(page, 352, event_log::LOG_UNITS.to_le_bytes());
        put(page, 280, u128::from(self.subsystem.capacity_bytes()).to_le_bytes());
        put(page, 296, u128::from(self.subsystem.unallocated_bytes()).to_le_bytes());
        put(page, 328, SANITIZE_CAPABILITIES.to_le_bytes());
        page[262] = ERROR_LOG_ENTRIES as u8 - 1;
        put(page, 266, WARNING_KELVIN.to_le_bytes());
        put(page, 268, CRITICAL_KELVIN.to_le_bytes());
        put(page, 320, KEEP_ALIVE_TENTHS.to_le_bytes());
        // Smallest and largest sizes of queue entries, as powers of two (SQES, CQES).
        page[512] = 0x66;
        page[513] = 0x44;
        put(page, 516, self.limits.namespaces.to_le_bytes());
        put(page, 520, (self.optional_io_commands() | ONCS_TIMESTAMP).to_le_bytes());
        // Volatile write cache; Flush accepts the broadcast namespace identifier (VWC).
        page[525] = 1 | 0b11 << 1;
        // Atomic write units in normal operation and at power failure (AWUN, AWUPF). They must hold for every format,
        // so use the largest blocks, which give the fewest.
        let shifts = self.subsystem.formats().into_iter().map(|format| format.block_shift);
        let largest = shifts.max().unwrap_or(self.limits.block_shift);
        let atomic = self.atomic_field(largest);
        put(page, 526, atomic.to_le_bytes());
        put(page, 528, atomic.to_le_bytes());
        put(page, 536, self.segments().to_le_bytes());
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", self.uuid_text());
        page[768..][..name.len()].copy_from_slice(name.as_bytes());
    }

    /// Returns the support for scatter-gather lists (SGLS): data of any address and length, metadata at any address,
    /// and no bit buckets.
    fn segments(&self) -> u32 {
        if self.limits.takes_segments { 1 | BYTE_ALIGNED_METADATA } else { 0 }
    }

    /// Returns the bits of ONCS that announce optional I/O commands.
    fn optional_io_commands(&self) -> u16 {
        let rows = Action::ROWS.iter().filter(|row| self.limits.kind.offers(row.set));
        optional_bits(rows.map(|row| row.optional_bit))
    }

    /// Fills Identify Namespace (NVM Command Set Specification 1.0, figure 97). Without a namespace, leaves zeros.
    fn namespace(&self, namespace: Option<Namespace>, page: &mut [u8; IDENTIFY_BYTES]) {
        let Some(namespace) = namespace else { return };
        for at in [0, 8, 16] {
            put(page, at, namespace.blocks().to_le_bytes());
        }
        put(page, 48, u128::from(namespace.bytes).to_le_bytes());
        put(page, 102, self.kind_row().endurance_group().to_le_bytes());
        self.capabilities(namespace.format, page);
    }

    /// Fills the fields of Identify Namespace that depend on the namespace's format, not on its size.
    fn capabilities(&self, format: BlockFormat, page: &mut [u8; IDENTIFY_BYTES]) {
        self.formats(format, page);
        let block_shift = format.block_shift;
        // Deallocated blocks read as zeros with a guard of ones, and Write Zeroes may deallocate (DLFEAT).
        page[33] = 0b001 | 1 << 3;
        let atomic = self.atomic_field(block_shift);
        if atomic > 0 {
            // Atomic write units and boundaries of the namespace; no atomic write may cross a boundary (NSABP; NAWUN,
            // NAWUPF, NABSN, NABSPF).
            page[24] = 1 << 1;
            for at in [34, 36, 40, 44] {
                put(page, at, atomic.to_le_bytes());
            }
        }
        // Limits of Copy (MSSRL, MCL, MSRC).
        let limits = Limits { block_shift, ..self.limits };
        put(page, 74, (limits.copy_source_blocks_max() as u16).to_le_bytes());
        put(page, 76, limits.copy_blocks_max().to_le_bytes());
        page[80] = low_u8(COPY_SOURCES_MAX) - 1;
    }

    /// Fills the fields of Identify Namespace about LBA formats, metadata and protection information (NLBAF, FLBAS, MC,
    /// DPC, DPS, LBAF).
    fn formats(&self, format: BlockFormat, page: &mut [u8; IDENTIFY_BYTES]) {
        let formats = self.subsystem.formats();
        page[25] = formats.len() as u8 - 1;
        page[26] = formats.iter().position(|other| *other == format.lba_format()).unwrap_or(0) as u8;
        if formats.iter().any(|format| format.metadata_bytes > 0) {
            (page[27], page[28]) = (METADATA_CAPABILITIES, PROTECTION_CAPABILITIES);
        }
        page[29] = format.metadata_fields().1;
        for (at, LbaFormat { block_shift, metadata_bytes }) in (128..).step_by(4).zip(formats) {
            page[at + 2] = low_u8(block_shift);
            page[at] = metadata_bytes;
        }
    }

    /// Fills the list of namespace identification descriptors with the UUID (figure 277, type 3) and the command set
    /// (type 4).
    fn namespace_ids(&self, id: u32, namespace: Namespace, page: &mut [u8; IDENTIFY_BYTES]) {
        page[..2].copy_from_slice(&[3, 16]);
        page[4..20].copy_from_slice(&self.uuid(id, namespace.generation));
        // Command set identifier (type 4): NVM, Zoned Namespace or Key Value.
        page[20..22].copy_from_slice(&[4, 1]);
        page[24] = self.kind_row().command_set();
    }

    /// Returns the UUID of a namespace (RFC 9562, version 8). It is derived from model, serial number, identifier and
    /// generation, so that it never changes and is never used again. The UUID of the first namespace 1 also names the
    /// controller.
    fn uuid(&self, namespace: u32, generation: u32) -> [u8; 16] {
        let mut uuid = [0; 16];
        let further = match (namespace, generation) {
            (1, 0) => String::new(),
            (_, 0) => format!(" {namespace}"),
            _ => format!(" {namespace} {generation}"),
        };
        for (place, part) in uuid.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let name = format!("{} {} {place}{further}", self.model, self.serial);
            *part = crc32fast::hash(name.as_bytes()).to_be_bytes();
        }
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    fn uuid_text(&self) -> String {
        let hex: String = self.uuid(1, 0).iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Returns the namespace with an identifier, attached or not, or none if it does not exist. Invalid Namespace if
    /// the identifier is out of range.
    fn allocated(&self, id: u32) -> Result<Option<Namespace>, Status> {
        let found = self.subsystem.namespaces().get(index(id.wrapping_sub(1))).copied();
        found.ok_or(Status::INVALID_NAMESPACE)
    }

    /// Returns the namespace with an identifier, or none if it does not exist or is not attached to the controller.
    /// Invalid Namespace if the identifier is out of range.
    fn active(&self, id: u32) -> Result<Option<Namespace>, Status> {
        Ok(self.allocated(id)?.filter(|namespace| namespace.is_attached(self.number)))
    }

    /// Returns the namespace with an identifier. Invalid Field if it does not exist or is not attached to the
    /// controller.
    fn existing(&self, id: u32) -> Result<Namespace, Status> {
        self.active(id)?.ok_or(Status::INVALID_FIELD)
    }

    /// Fills a list with the identifiers greater than `above` of the namespaces for which `is_listed` is true. Invalid
    /// Namespace if `above` is one of the two highest values.
    fn list_namespaces(
        &self,
        above: u32,
        is_listed: impl Fn(&Namespace) -> bool,
        page: &mut [u8; IDENTIFY_BYTES],
    ) -> Result<(), Status> {
        if above >= 0xffff_fffe {
            return Err(Status::INVALID_NAMESPACE);
        }
        let namespaces = self.subsystem.namespaces();
        let numbered = (1..).zip(&namespaces).filter(|(_, it)| it.as_ref().is_some_and(&is_listed));
        let listed = numbered.map(|(id, _)| id).filter(|id: &u32| *id > above);
        page.as_chunks_mut::<4>().0.iter_mut().zip(listed).for_each(|(entry, id)| *entry = id.to_le_bytes());
        Ok(())
    }
}

/// Fills the fields of Identify Controller that the kind of the namespaces decides: attributes of the controller (CTRATT),
/// identifier of the last endurance group (ENDGIDMAX), and formats of the sources of Copy (OCFS).
fn kind_fields(row: &KindRow, page: &mut [u8; IDENTIFY_BYTES]) {
    put(page, 96, row.attributes.to_le_bytes());
    put(page, 340, row.endurance_group().to_le_bytes());
    page[534] = row.copy_formats;
}

/// Refuses with Invalid Field a data structure about logical blocks if the drive has keys and values in their place.
fn check_command_set(row: &KindRow, cns: u8, command_set: u8) -> Result<(), Status> {
    let is_about_blocks = match cns {
        cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => true,
        cns::SET_CONTROLLER | cns::SET_NAMESPACE => command_set == 0,
        _ => false,
    };
    if is_about_blocks { row.commands_of(0).map(drop).ok_or(Status::INVALID_FIELD) } else { Ok(()) }
}

/// Fills a controller list (section 4.4.1) with the only controller, or leaves it empty.
fn list_controllers(is_listed: bool, page: &mut [u8; IDENTIFY_BYTES]) {
    page[0] = u8::from(is_listed);
    put(page, 2, CONTROLLER_ID.to_le_bytes());
}

/// Fills the I/O Command Set Independent Identify Namespace structure with the status "ready" (figure 280, NSTAT).
fn namespace_status(_: Namespace, page: &mut [u8; IDENTIFY_BYTES]) {
    page[14] = 1;
}

fn put<const N: usize>(page: &mut [u8; IDENTIFY_BYTES], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

/// Returns OACS or ONCS from the numbers of the bits that announce commands.
pub(super) fn optional_bits(bits: impl Iterator<Item = Option<u16>>) -> u16 {
    bits.flatten().fold(0, |set, bit| set | 1 << bit)
}

/// Copies a text into a field of ASCII characters and pads it with spaces (section 1.4.2). Other characters become
/// question marks.
fn text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let bytes = text.bytes().map(|byte| if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'?' });
    field.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
}
