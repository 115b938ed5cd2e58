//! Execution of a client's messages: one message in, at most one reply out, no socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use phaselink_client::shared::memory::Memory as Page;
use phaselink_core::number::{index, length, low_u32, wide_index};
use phaselink_core::protocol::nvme::rules::Limits;
use serde_json::{Value, json};

use super::interrupts::{self, ClientInterrupts, Outcome, Setting};
use super::memory::{Memory, REGIONS_MAX, RegionRefusalReason, RegionRequest};
use super::pci::{
    CONFIGURATION_BYTES, HEADER_BYTES as CONFIGURATION_HEADER_BYTES, PciConfigurationSpace, REGISTERS_BYTES,
    VECTORS_BYTES,
};
use super::wire::{BITMAP_BYTES_MAX, DESCRIPTORS_MAX, Fields, HEADER_BYTES, Header, TRANSFER_BYTES_MAX, command};
use crate::nvme::image::{ImageField, ImageReader, ImageRefusal};
use crate::nvme::registers::{ControllerRegisters, REGISTER_BYTES};
use crate::nvme::{interrupt_vectors, strict};

/// Version of the vfio-user protocol: 0.1, as major and minor number.
const MAJOR: u16 = 0;
const MINOR: u16 = 1;

/// Number of regions that VFIO knows of a PCI device (vfio.h): six BARs, the ROM, the configuration space and VGA.
const REGIONS: u32 = 9;
const BAR_REGISTERS: u32 = 0;
const BAR_VECTORS: u32 = 4;
const CONFIGURATION: u32 = 7;

/// Flags of VFIO_REGION_INFO: a region's access, and if it can be mapped and has capabilities.
const REGION_READ: u32 = 1;
const REGION_WRITE: u32 = 1 << 1;
const REGION_MMAP: u32 = 1 << 2;
const REGION_CAPS: u32 = 1 << 3;
/// Length in bytes of VFIO_REGION_INFO. `SPARSE_BYTES` is that of the capability that says which part of a region can
/// be mapped.
const REGION_INFO_BYTES: u32 = 32;
const SPARSE_BYTES: u32 = 32;
const SPARSE_ID: u16 = 1;

/// Flags of VFIO_DEVICE_INFO: the device can be reset, and is a PCI device.
const DEVICE_FLAGS: u32 = 1 | 1 << 1;

/// Flags of VFIO_USER_DMA_MAP: the device may read or write the region.
const MAP_READ: u32 = 1;
const MAP_WRITE: u32 = 1 << 1;
/// Flag of VFIO_USER_DMA_UNMAP: removes all regions of the client's memory.
const UNMAP_ALL: u32 = 1 << 1;

/// Length in bytes of a message that writes one doorbell: header, place in a region, and value.
pub const RING_BYTES: usize = HEADER_BYTES + 16 + 4;

/// Linux error number with which a message of the client is refused.
type Refused = i32;

/// Reply to a vfio-user message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the reply, with its header.
    pub bytes: Vec<u8>,
    /// True if the descriptor of the doorbell page is sent with the reply.
    pub with_doorbells: bool,
}

/// Protocol state of a vfio-user client, with the state of the PCI device that it sees.
#[derive(Debug)]
pub struct Session {
    has_version: bool,
    /// Maximum number of bytes in one DMA message that the client accepts (`max_data_xfer_size`).
    pub transfer_bytes_max: usize,
    /// Registers of the NVMe controller.
    pub registers: ControllerRegisters,
    /// Number of I/O queue pairs.
    queue_pairs: u32,
    configuration: PciConfigurationSpace,
    /// Table of interrupt vectors (MSI-X), which only the client evaluates: it is stored here.
    vectors: Vec<u8>,
    /// File as large as BAR 0, of which only the doorbell page is used.
    doorbells: Arc<DoorbellPage>,
    doorbells_fd: OwnedFd,
    /// True if clients may map the doorbell page. They then write doorbells without a message, which wakes no thread.
    is_mappable: bool,
    /// Memory to which the client has given the device access.
    pub memory: Memory,
    /// Eventfds for the client's interrupts.
    pub interrupts: ClientInterrupts,
}

impl Session {
    /// Makes the state of a device with these limits, before the first message.
    ///
    /// # Errors
    /// If the system has no memory file left.
    pub fn new(is_mappable: bool, limits: &Limits) -> io::Result<Session> {
        let (doorbells, doorbells_fd) = Page::create(REGISTERS_BYTES)?;
        Ok(Session {
            has_version: false,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            registers: ControllerRegisters::new(limits),
            queue_pairs: limits.queue_pairs,
            configuration: PciConfigurationSpace::new(interrupt_vectors(limits)),
            vectors: vec![0; wide_index(VECTORS_BYTES)],
            doorbells: Arc::new(DoorbellPage(doorbells)),
            doorbells_fd,
            is_mappable,
            memory: Memory::default(),
            interrupts: ClientInterrupts::new(interrupt_vectors(limits)),
        })
    }

    /// Returns true if the client has negotiated a version.
    pub fn has_version(&self) -> bool {
        self.has_version
    }

    /// Returns the descriptor of the doorbell page, which a reply may carry to the client.
    pub fn doorbells_fd(&self) -> &OwnedFd {
        &self.doorbells_fd
    }

    /// Returns the doorbell page, for threads that serve queues of the client.
    pub fn doorbells(&self) -> &Arc<DoorbellPage> {
        &self.doorbells
    }

    /// Returns true if a message only writes doorbells.
    pub fn only_rings(message: &[u8]) -> bool {
        let Some((header, payload)) = message.split_first_chunk::<HEADER_BYTES>() else { return false };
        let header = Header::decode(header);
        let access = RegionAccess::read(&mut Fields(payload));
        let is_of_doorbells = |access: RegionAccess| access.region == BAR_REGISTERS && access.offset >= REGISTER_BYTES;
        header.command == command::REGION_WRITE && !header.is_reply() && access.is_ok_and(is_of_doorbells)
    }

    /// Executes one message (header and payload) with the descriptors that came with it, and returns the reply, if the
    /// client wants one. Accepts any bytes.
    pub fn on_message(&mut self, message: &[u8], fds: Vec<OwnedFd>) -> Option<Reply> {
        let (header, payload) = message.split_first_chunk::<HEADER_BYTES>()?;
        let header = Header::decode(header);
        let answer = self.answer(&header, Fields(payload), fds);
        if header.needs_no_reply() {
            return None;
        }
        Some(match answer {
            Ok(answer) => {
                let head = header.reply(answer.payload.len()).encode();
                Reply { bytes: [&head[..], &answer.payload].concat(), with_doorbells: answer.with_doorbells }
            }
            Err(error) => Reply { bytes: header.refusal(error).encode().to_vec(), with_doorbells: false },
        })
    }

    fn answer(&mut self, header: &Header, payload: Fields, fds: Vec<OwnedFd>) -> Result<ReplyPayload, Refused> {
        if header.is_reply() || !self.has_version && header.command != command::VERSION {
            return Err(libc::EINVAL);
        }
        match header.command {
            command::VERSION => self.negotiate_version(payload),
            command::DMA_MAP => self.map(payload, &fds),
            command::DMA_UNMAP => self.unmap(payload),
            command::DEVICE_GET_INFO => device_info(payload),
            command::DEVICE_GET_REGION_INFO => self.region_info(payload),
            command::DEVICE_GET_IRQ_INFO => self.interrupt_info(payload),
            command::DEVICE_SET_IRQS => self.set_interrupts(payload, fds),
            command::REGION_READ => self.region_read(payload),
            command::REGION_WRITE => self.region_write(payload),
            command::REGION_WRITE_MULTI => self.write_region_multiple(payload),
            command::DEVICE_RESET => {
                self.reset();
                Ok(ReplyPayload::default())
            }
            // Memory regions for interrupt descriptors are optional, and not supported. The controller answers messages of
            // migration.
            _ => Err(libc::ENOTSUP),
        }
    }

    /// Negotiates the version: the major numbers must be equal, and the smaller minor number holds. A client that sends
    /// no capabilities gets none in the reply.
    fn negotiate_version(&mut self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let (major, minor) = payload.u16().zip(payload.u16()).ok_or(libc::EINVAL)?;
        if major != MAJOR {
            return Err(libc::ENOTSUP);
        }
        let mut answer = [major.to_le_bytes(), minor.min(MINOR).to_le_bytes()].concat();
        let said = payload.0.split(|byte| *byte == 0).next().unwrap_or_default();
        if !said.is_empty() {
            let said: Value = serde_json::from_slice(said).map_err(|_| libc::EINVAL)?;
            let wanted = said["capabilities"]["max_data_xfer_size"].as_u64().unwrap_or(u64::MAX);
            self.transfer_bytes_max = wide_index(wanted.clamp(1, length(TRANSFER_BYTES_MAX)));
            answer.extend(server_capabilities(&said).to_string().bytes());
            answer.push(0);
        }
        self.has_version = true;
        Ok(answer.into())
    }

    fn map(&mut self, mut payload: Fields, fds: &[OwnedFd]) -> Result<ReplyPayload, Refused> {
        let mut read = || Some((payload.u32()?, payload.u32()?, payload.u64()?, payload.u64()?, payload.u64()?));
        let (_, flags, offset, start, bytes) = read().ok_or(libc::EINVAL)?;
        let (readable, writable) = (flags & MAP_READ != 0, flags & MAP_WRITE != 0);
        let wanted = RegionRequest { start, bytes, offset, readable, writable };
        let mapped = self.memory.map(&wanted, fds.first());
        self.registers.note(mapped == Err(RegionRefusalReason::Exists), &strict::DMA_OVERLAP);
        mapped.map_err(error_number)?;
        Ok(ReplyPayload::default())
    }

    fn unmap(&mut self, payload: Fields) -> Result<ReplyPayload, Refused> {
        let mut fields = payload;
        let mut read = || Some((fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?));
        let (_, flags, start, bytes) = read().ok_or(libc::EINVAL)?;
        match flags {
            0 => self.memory.unmap(start, bytes).map_err(error_number)?,
            UNMAP_ALL if start == 0 && bytes == 0 => self.memory.clear(),
            // Written pages are reported by the feature of migration, not by a flag of this message.
            _ => return Err(libc::EINVAL),
        }
        Ok(payload.0[..24].to_vec().into())
    }

    fn region_info(&self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let mut read = || Some((payload.u32()?, payload.u32()?, payload.u32()?));
        let (room, _, region) = read().ok_or(libc::EINVAL)?;
        let bytes = region_bytes(region).ok_or(libc::EINVAL)?;
        let is_mappable = self.is_mappable && region == BAR_REGISTERS;
        let flags = match (bytes, is_mappable) {
            (0, _) => 0,
            (_, false) => REGION_READ | REGION_WRITE,
            (_, true) => REGION_READ | REGION_WRITE | REGION_MMAP | REGION_CAPS,
        };
        let needed = REGION_INFO_BYTES + if is_mappable { SPARSE_BYTES } else { 0 };
        let capability_at = if is_mappable { REGION_INFO_BYTES } else { 0 };
        let mut answer: Vec<u8> =
            [needed, flags, region, capability_at].into_iter().flat_map(u32::to_le_bytes).collect();
        answer.extend([bytes, 0].into_iter().flat_map(u64::to_le_bytes));
        // A client whose buffer is too small reads the needed size from this reply and asks again.
        if is_mappable && room >= needed {
            answer.extend([SPARSE_ID, 1].into_iter().flat_map(u16::to_le_bytes));
            answer.extend([0, 1, 0_u32].into_iter().flat_map(u32::to_le_bytes));
            answer.extend([REGISTER_BYTES, REGISTERS_BYTES - REGISTER_BYTES].into_iter().flat_map(u64::to_le_bytes));
        }
        Ok(ReplyPayload { payload: answer, with_doorbells: is_mappable })
    }

    fn set_interrupts(&mut self, mut payload: Fields, fds: Vec<OwnedFd>) -> Result<ReplyPayload, Refused> {
        let mut read = || Some([payload.u32()?, payload.u32()?, payload.u32()?, payload.u32()?, payload.u32()?]);
        let [_, flags, kind, start, count] = read().ok_or(libc::EINVAL)?;
        let setting = Setting { flags, kind, start, count, data: payload.0 };
        match self.interrupts.set(&setting, fds) {
            Ok(Outcome::Applied) => {}
            Ok(Outcome::Unmasked) => self.registers.interrupts_unmasked = true,
            Err(interrupts::InvalidInterruptSetting) => return Err(libc::EINVAL),
        }
        Ok(ReplyPayload::default())
    }

    fn interrupt_info(&self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let mut read = || Some((payload.u32()?, payload.u32()?, payload.u32()?));
        let (_, _, kind) = read().ok_or(libc::EINVAL)?;
        if kind >= interrupts::KINDS {
            return Err(libc::EINVAL);
        }
        let (flags, count) = self.interrupts.info(kind);
        Ok([16, flags, kind, count].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>().into())
    }

    fn region_read(&mut self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let access = RegionAccess::read(&mut payload)?;
        let mut answer = access.encode();
        let from = answer.len();
        answer.resize(from + index(access.count), 0);
        let (offset, into) = (access.offset, &mut answer[from..]);
        match access.region {
            // The doorbell page is write-only, so reads return only the controller registers.
            BAR_REGISTERS => self.registers.read(offset, into),
            BAR_VECTORS => into.copy_from_slice(&self.vectors[wide_index(offset)..][..into.len()]),
            CONFIGURATION => self.configuration.read(offset, into),
            _ => {}
        }
        Ok(answer.into())
    }

    fn region_write(&mut self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let access = RegionAccess::read(&mut payload)?;
        let from = payload.bytes(index(access.count)).ok_or(libc::EINVAL)?;
        self.write(&access, from);
        Ok(access.encode().into())
    }

    /// Executes several writes of up to 8 bytes each, in order, until one is invalid.
    fn write_region_multiple(&mut self, mut payload: Fields) -> Result<ReplyPayload, Refused> {
        let count = payload.u64().ok_or(libc::EINVAL)?;
        for _ in 0..count {
            let access = RegionAccess::read(&mut payload)?;
            let from = payload.bytes(8).ok_or(libc::EINVAL)?;
            self.write(&access, from.get(..index(access.count)).ok_or(libc::EINVAL)?);
        }
        Ok(count.to_le_bytes().to_vec().into())
    }

    fn write(&mut self, access: &RegionAccess, from: &[u8]) {
        let offset = access.offset;
        match access.region {
            BAR_REGISTERS if offset < REGISTER_BYTES => {
                let is_masking = self.configuration.is_msix_enabled() && ControllerRegisters::is_interrupt_mask(offset);
                self.registers.note(is_masking, &strict::MASK_WITH_VECTORS);
                self.registers.write(offset, from);
            }
            BAR_REGISTERS => self.write_doorbell_registers(offset - REGISTER_BYTES, from),
            BAR_VECTORS => self.vectors[wide_index(offset)..][..from.len()].copy_from_slice(from),
            CONFIGURATION => self.write_configuration_space(offset, from),
            _ => {}
        }
    }

    /// Writes the configuration space, and resets the device if the write asks for it (function-level reset).
    fn write_configuration_space(&mut self, offset: u64, from: &[u8]) {
        if self.configuration.write(offset, from) {
            self.reset();
        }
    }

    /// Writes doorbells, which are 4 bytes apart and 4 bytes long (NVMe over PCIe Transport Specification 1.0, section
    /// 3.1.2.1). Any other access has no effect.
    fn write_doorbell_registers(&mut self, offset: u64, from: &[u8]) {
        let (words, rest) = from.as_chunks::<4>();
        if !offset.is_multiple_of(4) || !rest.is_empty() {
            return self.registers.note(true, &strict::DOORBELL_ACCESS);
        }
        for (number, word) in (offset / 4..).zip(words) {
            let value = u64::from(u32::from_le_bytes(*word));
            match u16::try_from(number / 2) {
                Ok(queue) if u32::from(queue) <= self.queue_pairs => {
                    let shift = number % 2 * 32;
                    if self.registers.is_strict() {
                        self.check_doorbell_write(queue, shift, value);
                    }
                    self.doorbells.set(queue, 0xffff_ffff << shift, value << shift);
                }
                _ => {
                    self.registers.invalid_doorbell = true;
                    self.registers.note(true, &strict::DOORBELL_OF_NO_QUEUE);
                }
            }
        }
    }

    /// Reports a doorbell write whose effect the specification leaves undefined: before the controller is ready, or
    /// without a change.
    fn check_doorbell_write(&mut self, queue: u16, shift: u64, value: u64) {
        let (tail, head) = self.doorbells.tail_and_head_doorbells(queue);
        let known = u64::from(if shift == 0 { tail } else { head });
        let is_ready = self.registers.is_ready();
        self.registers.note(!is_ready, &strict::DOORBELL_BEFORE_READY);
        self.registers.note(is_ready && known == value, &strict::DOORBELL_STALE);
    }

    /// Resets the device to its state after power-on, except for the client's memory and interrupts.
    fn reset(&mut self) {
        self.registers.reset_device();
        self.configuration = self.configuration.reset();
        self.vectors.as_mut_slice().fill(0);
    }
}

/// Registers and PCI device of another server, which have been checked and are not in force yet.
#[derive(Debug)]
pub(super) struct MovedSession {
    registers: ControllerRegisters,
    configuration: PciConfigurationSpace,
    vectors: Vec<u8>,
    doorbells: Vec<(u32, u32)>,
}

impl Session {
    /// Appends registers, configuration space, interrupt vectors and doorbells to the image of a device.
    pub(super) fn put_image(&self, image: &mut Vec<u8>) {
        self.registers.put(image);
        self.configuration.bytes().put(image);
        self.vectors.put(image);
        let queues = (0..).zip(0..=self.queue_pairs).map(|(queue, _)| self.doorbells.tail_and_head_doorbells(queue));
        queues.collect::<Vec<_>>().put(image);
    }

    /// Reads registers and PCI device from an image.
    ///
    /// # Errors
    /// If a part is incomplete or invalid, or belongs to another device.
    pub(super) fn of_image(&self, image: &mut ImageReader<'_>) -> Result<MovedSession, ImageRefusal> {
        let mut registers = self.registers.clone();
        registers.fill(image)?;
        let mut bytes = [0; CONFIGURATION_HEADER_BYTES];
        bytes.fill(image)?;
        let configuration = self.configuration.with_bytes(bytes);
        let configuration = configuration.ok_or_else(|| ImageRefusal::of_field("the configuration space"))?;
        let (vectors, doorbells): (Vec<u8>, Vec<(u32, u32)>) = image.field()?;
        let is_valid = registers.has_capabilities_of(&self.registers)
            && vectors.len() == self.vectors.len()
            && length(doorbells.len()) == u64::from(self.queue_pairs) + 1;
        let moved = MovedSession { registers, configuration, vectors, doorbells };
        is_valid.then_some(moved).ok_or_else(|| ImageRefusal::of_field("a register of the device"))
    }

    /// Puts registers and PCI device from an image in force.
    pub(super) fn put_in_force(&mut self, moved: MovedSession) {
        self.registers = moved.registers;
        self.configuration = moved.configuration;
        self.vectors = moved.vectors;
        for (queue, (tail, head)) in (0..).zip(moved.doorbells) {
            self.doorbells.set(queue, u64::MAX, u64::from(tail) | u64::from(head) << 32);
        }
    }
}

/// Page of a controller's doorbells, which the client may have mapped.
#[derive(Debug)]
pub struct DoorbellPage(Page);

impl DoorbellPage {
    /// Returns the doorbells of a queue pair: submission queue tail and completion queue head.
    #[inline]
    pub fn tail_and_head_doorbells(&self, queue: u16) -> (u32, u32) {
        // The halves are in this order only on little-endian machines, on which all NVMe hosts of this server run.
        let both = self.0.word(doorbell_at(queue)).load(Ordering::Acquire);
        (low_u32(both), low_u32(both >> 32))
    }

    /// Sets the doorbells of a queue pair (tail in the low 32 bits, head in the high) to `value` where `mask` has ones.
    pub fn set(&self, queue: u16, mask: u64, value: u64) {
        let word = self.0.word(doorbell_at(queue));
        let merge = |old: u64| Some(old & !mask | value & mask);
        // If the client keeps writing to the word, its value stays.
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, merge);
    }
}

/// Payload of a reply, and whether the descriptor of the doorbell page is sent with it.
#[derive(Debug, Default)]
struct ReplyPayload {
    payload: Vec<u8>,
    with_doorbells: bool,
}

impl From<Vec<u8>> for ReplyPayload {
    fn from(payload: Vec<u8>) -> ReplyPayload {
        ReplyPayload { payload, with_doorbells: false }
    }
}

/// Range of a region that a message reads or writes, which lies within the region.
#[derive(Clone, Copy, Debug)]
struct RegionAccess {
    offset: u64,
    region: u32,
    count: u32,
}

impl RegionAccess {
    fn read(payload: &mut Fields) -> Result<RegionAccess, Refused> {
        let mut read = || Some((payload.u64()?, payload.u32()?, payload.u32()?));
        let (offset, region, count) = read().ok_or(libc::EINVAL)?;
        let bytes = region_bytes(region).ok_or(libc::EINVAL)?;
        match offset.checked_add(count.into()) {
            Some(end) if end <= bytes => Ok(RegionAccess { offset, region, count }),
            _ => Err(libc::EINVAL),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let RegionAccess { offset, region, count } = self;
        [&offset.to_le_bytes()[..], &region.to_le_bytes(), &count.to_le_bytes()].concat()
    }
}

/// Returns the size of a region in bytes; none if VFIO knows no such region.
fn region_bytes(region: u32) -> Option<u64> {
    match region {
        BAR_REGISTERS => Some(REGISTERS_BYTES),
        BAR_VECTORS => Some(VECTORS_BYTES),
        CONFIGURATION => Some(CONFIGURATION_BYTES),
        _ => (region < REGIONS).then_some(0),
    }
}

/// Returns the capabilities of the server for the version reply. `write_multiple` is among them if the client has
/// offered it.
fn server_capabilities(said: &Value) -> Value {
    let mut capabilities = json!({
        "max_msg_fds": DESCRIPTORS_MAX,
        "max_data_xfer_size": TRANSFER_BYTES_MAX,
        "max_dma_maps": REGIONS_MAX,
        "pgsizes": 4096,
        "migration": { "pgsize": 4096, "max_bitmap_size": BITMAP_BYTES_MAX },
    });
    if said["capabilities"]["write_multiple"] == true {
        capabilities["write_multiple"] = true.into();
    }
    json!({ "capabilities": capabilities })
}

fn device_info(mut payload: Fields) -> Result<ReplyPayload, Refused> {
    let room = payload.u32().ok_or(libc::EINVAL)?;
    if room < 16 {
        return Err(libc::EINVAL);
    }
    let answer = [16, DEVICE_FLAGS, REGIONS, interrupts::KINDS];
    Ok(answer.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>().into())
}

fn error_number(refusal: RegionRefusalReason) -> Refused {
    match refusal {
        RegionRefusalReason::Invalid => libc::EINVAL,
        RegionRefusalReason::Exists => libc::EEXIST,
        RegionRefusalReason::TooMany => libc::ENOSPC,
        RegionRefusalReason::Missing => libc::ENOENT,
    }
}

fn doorbell_at(queue: u16) -> u64 {
    REGISTER_BYTES + u64::from(queue) * 8
}
