//! Get LBA Status, and the log page LBA Status Information. Both report the blocks of a namespace that cannot be read
//! since a host has written them with Write Uncorrectable (NVM Command Set Specification 1.0, sections 4.1.4 and
//! 4.2.1).

use phaselink_core::number::{low_u8, short_length, wide_index};
use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::spec::fields::block_status as fields;
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{
    BlockStatusElement, BlockStatusList, BlockStatusLog, BlockStatusRange,
};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry, admin};

use super::admin::{AdminCommandOutcome, LOG_BYTES_MAX, LogPageRange};
use super::command::copy_out;
use super::controller::{Controller, PendingWork};
use super::host::AdminHost;
use super::subsystem::Namespace;
use crate::device::store::Store;

/// Action type (ATYPE) of Get LBA Status that scans the range for unreadable blocks; `REPORT` lists the known ones.
/// Both have one result here, since the store knows all of them.
const SCAN: u32 = 0x10;
const REPORT: u32 = 0x11;
/// Completion condition (CMPC) of Get LBA Status if its list has no room for all descriptors; `COMPLETE` if it has.
const INCOMPLETE: u8 = 1;
const COMPLETE: u8 = 2;
/// Most ranges of one namespace that the log page LBA Status Information lists. With more, it lists none, and hosts use
/// Get LBA Status.
const LOG_RANGES_MAX: usize = 255;
/// Number of ranges that the log page reports for a namespace with more than [`LOG_RANGES_MAX`] of them.
const TOO_MANY: u32 = u32::MAX;

/// Range of a namespace's blocks: number of the first block, and number of blocks.
type BlockRange = (u64, u64);

impl Controller {
    /// Checks Get LBA Status and queues it, since only the store knows the unreadable blocks.
    ///
    /// # Errors
    ///
    /// Invalid Namespace, also for the identifier of all
    /// namespaces. Invalid Field for a reserved action type or a list beyond [`LOG_BYTES_MAX`]. LBA Out of Range.
    pub(super) fn queue_block_status(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        if command.namespace_id == ALL_NAMESPACES {
            return Err(Status::INVALID_NAMESPACE);
        }
        self.check_namespace_attached(command.namespace_id)?;
        let blocks = self.identity.subsystem.namespace(command.namespace_id)?.blocks();
        let length = u64::from(command.get(fields::COUNT));
        if !matches!(command.get(fields::ACTION), SCAN | REPORT) || status_buffer_bytes(command) > LOG_BYTES_MAX {
            return Err(Status::INVALID_FIELD);
        }
        if command.slba().checked_add(length.max(1)).is_none_or(|end| end > blocks) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        self.pending.push_back(PendingWork::ReportBlocks { command: Box::new(*command) });
        Ok(AdminCommandOutcome::Pending)
    }

    /// Executes a queued Get LBA Status, or a queued Get Log Page of LBA Status Information: copies its list or log
    /// page to the host.
    pub(super) fn execute_block_status(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
        store: &Store,
    ) -> Result<u32, Status> {
        match command.opcode {
            admin::GET_LOG_PAGE => {
                let part = LogPageRange::of(command)?.cut(self.status_log(store))?;
                copy_out(command, host, &part)?;
            }
            _ => copy_out(command, host, &self.lba_status_list(command, store)?)?,
        }
        Ok(0)
    }

    /// Returns the list of Get LBA Status, with as many descriptors of unreadable ranges as the host's buffer has room
    /// for.
    fn lba_status_list(&self, command: &SubmissionEntry, store: &Store) -> Result<Vec<u8>, Status> {
        let namespace = self.identity.subsystem.namespace(command.namespace_id)?;
        let (first, length) = (command.slba(), u64::from(command.get(fields::COUNT)));
        let end = if length == 0 { namespace.blocks() } else { first + length };
        let ranges = unreadable(&namespace, (first, end - first), store);
        let mut list = vec![0; wide_index(status_buffer_bytes(command))];
        let room = list.len().saturating_sub(BlockStatusList::BYTES) / BlockStatusRange::BYTES;
        let listed = &ranges[..ranges.len().min(room)];
        let condition = if listed.len() < ranges.len() { INCOMPLETE } else { COMPLETE };
        let header = BlockStatusList::zeros()
            .with(BlockStatusList::RANGES, short_length(listed.len()))
            .with(BlockStatusList::CONDITION, condition);
        let bytes = header.into_bytes().into_iter().chain(listed.iter().flat_map(lba_status_descriptor));
        list.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(list)
    }

    /// Returns the log page LBA Status Information, with an element for each attached namespace that has unreadable
    /// blocks.
    fn status_log(&self, store: &Store) -> Vec<u8> {
        let (mut page, mut elements, mut blocks) = (vec![0; BlockStatusLog::BYTES], 0_u32, 0);
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
            let count = if is_listed { short_length(ranges.len()) } else { TOO_MANY };
            let element = BlockStatusElement::zeros()
                .with(BlockStatusElement::NAMESPACE, id)
                .with(BlockStatusElement::RANGES, count)
                .with(BlockStatusElement::ACTION, low_u8(REPORT));
            page.extend(element.into_bytes());
            page.extend(ranges.iter().filter(|_| is_listed).flat_map(lba_status_descriptor));
        }
        let length = short_length(page.len());
        let mut header = BlockStatusLog::over(&mut page[..]);
        header.set(BlockStatusLog::LENGTH, length);
        header.set(BlockStatusLog::ELEMENTS, elements);
        header.set(BlockStatusLog::BLOCKS, u32::try_from(blocks).unwrap_or(u32::MAX));
        // The generation number counts changes since the server started.
        header.set(BlockStatusLog::GENERATION, store.unreadable_change_count());
        page
    }
}

/// Returns the size in bytes of the host's buffer for Get LBA Status.
fn status_buffer_bytes(command: &SubmissionEntry) -> u64 {
    (u64::from(command.get(fields::DWORDS)) + 1) * 4
}

/// Returns the ranges of unreadable blocks within a range of a namespace's blocks. One unreadable byte makes its block
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

/// Returns the LBA status descriptor of a range: first block and number of blocks; the other fields are 0.
fn lba_status_descriptor((first, blocks): &BlockRange) -> [u8; BlockStatusRange::BYTES] {
    let blocks = u32::try_from(*blocks).unwrap_or(u32::MAX);
    let range = BlockStatusRange::zeros().with(BlockStatusRange::FIRST, *first);
    range.with(BlockStatusRange::COUNT, blocks).into_bytes()
}
