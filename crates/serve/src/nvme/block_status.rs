//! Get LBA Status and the log page LBA Status Information: the blocks of a namespace that cannot be read, as a host has written them
//! uncorrectable (NVM Command Set Specification 1.0, sections 4.1.4 and 4.2.1).

use phaselink_core::protocol::nvme::rules::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry, admin};

use super::admin::{AdminOutcome, LOG_BYTES_MAX, LogPart};
use super::command::copy_out;
use super::controller::{Controller, PendingWork};
use super::host::AdminHost;
use super::subsystem::Namespace;
use crate::device::store::Store;

/// Action types (ATYPE): scan the range for blocks that cannot be read, or report those that are known. The store knows all of them.
const SCAN: u32 = 0x10;
const REPORT: u32 = 0x11;
/// Completion conditions (CMPC): descriptors are left over, or all are in the list.
const INCOMPLETE: u8 = 1;
const COMPLETE: u8 = 2;
/// Bytes of the header of a list, and of the log page, and of a descriptor of a range in either.
const LIST_HEADER_BYTES: usize = 8;
const LOG_HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;
/// Most ranges of a namespace in the log page: beyond them, its element says that it has no ranges, and hosts ask for them by the command.
const LOG_RANGES_MAX: usize = 255;
/// Number of ranges in the element of a namespace that has more of them than the log page lists.
const TOO_MANY: u32 = u32::MAX;

/// Blocks of a namespace: the first one, and their number.
type BlockRange = (u64, u64);

impl Controller {
    /// Accepts Get LBA Status, which the store answers.
    ///
    /// # Errors
    /// Invalid Opcode if the drive stores values by their keys, Invalid Field for an action type that is reserved, LBA Out of Range, Invalid
    /// Namespace, also for all namespaces.
    pub(super) fn begin_block_status(&mut self, command: &SubmissionEntry) -> Result<AdminOutcome, Status> {
        if self.identity.limits.key_value.is_some() {
            return Err(Status::INVALID_OPCODE);
        }
        if command.namespace_id == ALL_NAMESPACES {
            return Err(Status::INVALID_NAMESPACE);
        }
        self.check_attached(command.namespace_id)?;
        let blocks = self.identity.subsystem.namespace(command.namespace_id)?.blocks();
        let length = u64::from(command.dwords[3] & 0xffff);
        if !matches!(command.dwords[3] >> 24, SCAN | REPORT) || list_bytes(command) > LOG_BYTES_MAX {
            return Err(Status::INVALID_FIELD);
        }
        if command.slba().checked_add(length.max(1)).is_none_or(|end| end > blocks) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        self.pending.push_back(PendingWork::ReportBlocks { command: Box::new(*command) });
        Ok(AdminOutcome::Pending)
    }

    /// Answers Get LBA Status, or returns a part of the log page.
    pub(super) fn report_blocks(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
        store: &Store,
    ) -> Result<u32, Status> {
        match command.opcode {
            admin::GET_LOG_PAGE => {
                let part = LogPart::of(command)?.cut(self.status_log(store))?;
                copy_out(command, host, &part)?;
            }
            _ => copy_out(command, host, &self.status_list(command, store)?)?,
        }
        Ok(0)
    }

    /// Returns the list of Get LBA Status: as many descriptors as the host has room for.
    fn status_list(&self, command: &SubmissionEntry, store: &Store) -> Result<Vec<u8>, Status> {
        let namespace = self.identity.subsystem.namespace(command.namespace_id)?;
        let (first, length) = (command.slba(), u64::from(command.dwords[3] & 0xffff));
        let end = if length == 0 { namespace.blocks() } else { first + length };
        let ranges = unreadable(&namespace, (first, end - first), store);
        let mut list = vec![0; list_bytes(command) as usize];
        let room = list.len().saturating_sub(LIST_HEADER_BYTES) / RANGE_BYTES;
        let listed = &ranges[..ranges.len().min(room)];
        let condition = if listed.len() < ranges.len() { INCOMPLETE } else { COMPLETE };
        let header = [&(listed.len() as u32).to_le_bytes()[..], &[condition, 0, 0, 0]].concat();
        let bytes = header.into_iter().chain(listed.iter().flat_map(descriptor));
        list.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(list)
    }

    /// Returns the log page LBA Status Information: an element for each namespace with blocks that cannot be read.
    fn status_log(&self, store: &Store) -> Vec<u8> {
        let (mut page, mut elements, mut blocks) = (vec![0; LOG_HEADER_BYTES], 0_u32, 0);
        let namespaces = self.identity.subsystem.namespaces();
        let attached = (1_u32..).zip(&namespaces).filter_map(|(id, namespace)| Some((id, namespace.as_ref()?)));
        for (id, namespace) in attached.filter(|(_, namespace)| namespace.is_attached(self.identity.number)) {
            let ranges = unreadable(namespace, (0, namespace.blocks()), store);
            if ranges.is_empty() {
                continue;
            }
            elements += 1;
            blocks += ranges.iter().map(|(_, blocks)| blocks).sum::<u64>();
            let is_listed = ranges.len() <= LOG_RANGES_MAX;
            let count = if is_listed { ranges.len() as u32 } else { TOO_MANY };
            page.extend([id, count, REPORT, 0].into_iter().flat_map(u32::to_le_bytes));
            page.extend(ranges.iter().filter(|_| is_listed).flat_map(descriptor));
        }
        let length = page.len() as u32;
        page[..4].copy_from_slice(&length.to_le_bytes());
        page[4..8].copy_from_slice(&elements.to_le_bytes());
        page[8..12].copy_from_slice(&u32::try_from(blocks).unwrap_or(u32::MAX).to_le_bytes());
        // LSGC: the number of changes since the server has started.
        page[14..LOG_HEADER_BYTES].copy_from_slice(&store.unreadable_changes().to_le_bytes());
        page
    }
}

/// Returns the bytes that a host has room for: MNDW, in dword 12, counts dwords from 0.
fn list_bytes(command: &SubmissionEntry) -> u64 {
    (u64::from(command.dwords[2]) + 1) * 4
}

/// Returns the ranges of a namespace's unreadable blocks, as far as they are among these blocks. One unreadable byte makes its block
/// unreadable.
fn unreadable(namespace: &Namespace, (first, blocks): BlockRange, store: &Store) -> Vec<BlockRange> {
    let shift = namespace.format.block_shift;
    let start = namespace.start + (first << shift);
    let in_blocks = |(from, to): (u64, u64)| {
        let (from, to) = ((from - namespace.start) >> shift, (to - namespace.start).div_ceil(1 << shift));
        (from, to - from)
    };
    store.unreadable_ranges(start, blocks << shift).into_iter().map(in_blocks).collect()
}

/// Returns the descriptor of a range: first block and number of blocks; the other fields are 0.
fn descriptor((first, blocks): &BlockRange) -> [u8; RANGE_BYTES] {
    let blocks = u32::try_from(*blocks).unwrap_or(u32::MAX);
    let mut bytes = [0; RANGE_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..12].copy_from_slice(&blocks.to_le_bytes());
    bytes
}
