//! Limits of a controller, which its drive determines: queues and their entries, bytes of a command, logical blocks,
//! optional features.

use super::kind::NamespaceKind;
use crate::drive::Drive;
use crate::number::{low_u8, low_u16};
use crate::protocol::nvme::config::DataPointerFormat;
use crate::protocol::nvme::spec::{PAGE_BYTES, Status};

/// Limits against which a controller checks commands, and which it reports to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of namespaces (NN). They are adjacent on the drive and have the same size.
    pub namespaces: u32,
    /// Number of logical blocks of one namespace (NSZE).
    pub blocks: u64,
    /// Base-2 logarithm of the logical block size in bytes (LBADS).
    pub block_shift: u32,
    /// Maximum number of bytes that one command transfers (MDTS).
    pub transfer_bytes_max: u32,
    /// Number of I/O queue pairs.
    pub queue_pairs: u32,
    /// Number of entries of each I/O queue.
    pub queue_entries: u32,
    /// True if the data pointer of a command may be a scatter-gather list (SGL) instead of PRP entries.
    pub takes_segments: bool,
    /// Kind of the namespaces, with the limits of what they store.
    pub kind: NamespaceKind,
}

impl Limits {
    /// Limits of a small controller with one namespace of 1 MiB, for tests of commands.
    #[cfg(test)]
    pub(in crate::protocol::nvme) const SMALL: Limits = Limits {
        namespaces: 1,
        blocks: 2048,
        block_shift: 9,
        transfer_bytes_max: 64 << 10,
        queue_pairs: 1,
        queue_entries: 16,
        takes_segments: false,
        kind: NamespaceKind::PLAIN,
    };

    /// Returns the limits of a drive as the modelled driver sees it, with one namespace.
    pub fn of(drive: &Drive) -> Limits {
        let nvme = &drive.nvme;
        Limits {
            namespaces: 1,
            blocks: drive.media.capacity_bytes() / u64::from(nvme.block_bytes),
            block_shift: nvme.block_bytes.trailing_zeros(),
            transfer_bytes_max: nvme.max_transfer_kib * 1024,
            queue_pairs: nvme.queue_pairs,
            queue_entries: nvme.queue_entries,
            takes_segments: nvme.data_pointer == DataPointerFormat::Sgl,
            kind: NamespaceKind::of(drive),
        }
    }

    /// Returns the limits of a drive as real hosts see it: data pointers may be PRP entries or SGLs, and the capacity
    /// is divided into `nvme.namespaces` namespaces.
    pub fn of_real_hosts(drive: &Drive) -> Limits {
        Limits { takes_segments: true, ..Limits::of(drive) }.divided(drive.nvme.namespaces)
    }

    /// Returns these limits with the capacity divided equally into this number of namespaces.
    pub fn divided(self, namespaces: u32) -> Limits {
        Limits { namespaces, blocks: self.blocks / u64::from(namespaces), ..self }
    }

    /// Returns the capacity of one namespace in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }

    /// True if a namespace with this identifier exists; identifiers count from 1.
    #[inline]
    pub fn has_namespace(&self, namespace: u32) -> bool {
        namespace.wrapping_sub(1) < self.namespaces
    }

    /// Returns the offset in bytes on the drive at which a namespace begins; the namespace must exist.
    #[inline]
    pub fn start(&self, namespace: u32) -> u64 {
        u64::from(namespace - 1) * self.capacity_bytes()
    }

    /// Returns MDTS: base-2 logarithm of the number of memory pages that one command may transfer. Returns none if the
    /// field cannot hold the limit: a single page would be 0, which means that there is no limit.
    pub fn mdts_field(&self) -> Option<u8> {
        let pages = u64::from(self.transfer_bytes_max) / PAGE_BYTES;
        (pages.is_power_of_two() && pages > 1).then(|| low_u8(pages.trailing_zeros()))
    }

    /// Returns MSSRL: the maximum number of logical blocks of one source range of a Copy. A range is no longer than a
    /// transfer, so that no copy needs a larger buffer.
    pub fn copy_source_blocks_max(&self) -> u32 {
        (self.transfer_bytes_max >> self.block_shift).min(u16::MAX.into())
    }

    /// Returns MCL: the maximum number of logical blocks that one Copy writes (assumed: eight of the longest source
    /// ranges).
    pub fn copy_blocks_max(&self) -> u32 {
        self.copy_source_blocks_max() * 8
    }

    /// Returns CAP.MQES: the maximum number of entries of a queue, counted from 0.
    pub fn entries_field(&self) -> u16 {
        low_u16(self.queue_entries - 1)
    }

    /// Returns the value of feature Number of Queues: I/O submission queues in the low half, I/O completion queues in
    /// the high half, counted from 0 (section 5.27.1.5).
    pub fn number_of_queues_field(&self) -> u32 {
        let most = self.queue_pairs - 1;
        most | most << 16
    }

    /// Returns the number of entries of an I/O queue to be created, which dword 10 counts from 0 (sections 5.4 and
    /// 5.5).
    ///
    /// # Errors
    /// Invalid Queue Size for fewer than two entries, since one entry of a full queue stays free, or for more than the
    /// controller allows.
    pub fn check_queue_entries(&self, counted_from_zero: u16) -> Result<u32, Status> {
        let entries = u32::from(counted_from_zero) + 1;
        if (2..=self.queue_entries).contains(&entries) { Ok(entries) } else { Err(Status::INVALID_QUEUE_SIZE) }
    }

    /// Returns the offset in bytes on the drive of logical block `slba` of an [existing](Limits::has_namespace)
    /// namespace, for an access of `blocks` blocks.
    ///
    /// # Errors
    /// LBA Out of Range if the namespace ends before the last of the blocks.
    #[inline]
    pub fn place(&self, namespace: u32, slba: u64, blocks: u32) -> Result<u64, Status> {
        match slba.checked_add(blocks.into()) {
            Some(end) if end <= self.blocks => Ok(self.start(namespace) + (slba << self.block_shift)),
            _ => Err(Status::LBA_OUT_OF_RANGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(change: impl Fn(&mut Drive)) -> Limits {
        let mut drive = Drive::shipped("nvme").expect("it is shipped");
        change(&mut drive);
        Limits::of(&drive)
    }

    #[test]
    fn identify_fields_equal_the_drives_keys() {
        let limits = limits(|drive| {
            (drive.nvme.queue_pairs, drive.nvme.queue_entries, drive.nvme.max_transfer_kib) = (4, 64, 64);
        });
        assert_eq!(
            (limits.number_of_queues_field(), limits.entries_field(), limits.mdts_field()),
            (0x3_0003, 63, Some(4))
        );
        assert_eq!(limits.check_queue_entries(63), Ok(64));
        for entries in [0, 64, u16::MAX] {
            assert_eq!(limits.check_queue_entries(entries), Err(Status::INVALID_QUEUE_SIZE), "{entries}");
        }
    }

    #[test]
    fn one_page_transfers_have_no_mdts_value() {
        assert_eq!(limits(|drive| drive.nvme.max_transfer_kib = 4).mdts_field(), None);
        assert_eq!(limits(|drive| drive.nvme.max_transfer_kib = 2048).mdts_field(), Some(9));
    }

    #[test]
    fn block_ranges_end_at_the_namespace_end() {
        let limits = Limits { blocks: 100, block_shift: 9, ..limits(|_| ()) };
        assert_eq!(limits.place(1, 99, 1), Ok(99 * 512));
        for (slba, blocks) in [(99, 2), (100, 1), (u64::MAX, 1), (u64::MAX, 65536)] {
            assert_eq!(limits.place(1, slba, blocks), Err(Status::LBA_OUT_OF_RANGE), "{slba} {blocks}");
        }
    }

    #[test]
    fn namespaces_are_consecutive_and_disjoint() {
        let limits = Limits { blocks: 100, block_shift: 9, ..limits(|_| ()) }.divided(3);
        assert_eq!((limits.blocks, limits.place(1, 32, 1), limits.place(3, 32, 1)), (33, Ok(32 * 512), Ok(98 * 512)));
        assert_eq!(limits.place(2, 33, 1), Err(Status::LBA_OUT_OF_RANGE), "it is the third one's");
        let there: Vec<u32> =
            [0, 1, 3, 4, u32::MAX].into_iter().filter(|number| limits.has_namespace(*number)).collect();
        assert_eq!(there, [1, 3]);
    }
}
