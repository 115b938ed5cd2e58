//! Configuration of the NVMe driver and controller: the keys of section `nvme` in drive files.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// NVMe driver of the simulated host, and controller of the drive.
    pub struct Nvme ("nvme") {
        /// Number of NVMe I/O queue pairs; thread i uses pair i modulo this number (the specification's 65,536 include
        /// the admin queue's)
        queue_pairs => queue_pairs: u32 = 1, 1..=65536;
        /// Number of entries of each NVMe submission and completion queue (NVM Express Base Specification 2.0, section
        /// 3.3.3)
        queue_entries => queue_entries: u32 = 1024, 2..=65536;
        /// Largest number of NVMe submission queue entries that the controller fetches with one read
        fetch_entries => fetch_entries: u8 = 8, 1..=64;
        /// Time in which the NVMe controller parses one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Largest transfer of one NVMe command, in KiB (MDTS); the driver splits larger requests
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        /// True if NVMe completions raise an interrupt message (MSI-X)
        interrupts => interrupts: bool = true, any();
        /// Number of NVMe completions of a queue after which one interrupt announces them, unless `nvme.coalescing_us`
        /// ends before (Interrupt Coalescing, section 5.27.1.6: the aggregation threshold)
        coalescing_entries => coalescing_entries: u16 = 1, 1..=256;
        /// Longest time that an NVMe completion waits for others before an interrupt announces them, in steps of 100 us
        /// (Interrupt Coalescing: the aggregation time)
        coalescing_us => coalescing: Span = ZERO, ZERO..=Span::from_us(25_500);
        /// True if the NVMe driver writes doorbells to a page in host memory that the controller reads (Doorbell Buffer
        /// Config, section 5.8)
        shadow_doorbells => shadow_doorbells: bool = false, any();
        /// True if the NVMe driver writes the completion queue head doorbell; without it, a completion queue as long as
        /// its submission queue cannot overflow
        completion_doorbells => completion_doorbells: bool = true, any();
        /// Format in which an NVMe command describes its data buffer: `prp` (page by page, beyond two pages in a list
        /// that is read separately) or `sgl` (one segment, in the command itself)
        data_pointer => data_pointer: DataPointerFormat = DataPointerFormat::Prp, any();
        /// Size of an NVMe logical block, in bytes: 512 and more as in the specification (LBADS), smaller for models of
        /// byte-addressed memory
        block_bytes => block_bytes: u32 = 512, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Atomic write unit of the drive on power failure, in bytes (AWUPF, NABSPF): a write that crosses no multiple
        /// of it is either all old or all new. 0: one logical block. A simulated power cut may still tear the write
        /// between blocks
        atomic_write_bytes => atomic_write_bytes: u32 = 0, [0, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
        /// Number of NVMe namespaces that real hosts find over vfio-user, which divide the capacity; the simulated
        /// driver uses the whole capacity as one
        namespaces => namespaces: u32 = 1, 1..=256;
        /// NVMe protection information in 8 bytes of metadata of each logical block (NVM Command Set Specification 1.0,
        /// section 5.2): `none` (no metadata), `type1`, `type2` or `type3`
        protection => protection: DriveProtection = DriveProtection::None, any();
        /// Side that makes and checks NVMe protection information: the `host`, whose simulated driver transfers it in a
        /// separate buffer, or the `controller`, which inserts and strips it (PRACT)
        protection_by => protection_by: ProtectionSide = ProtectionSide::Host, any();
    }
}

/// Protection information type of a drive's logical blocks when the drive is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveProtection {
    /// No protection information, and no metadata.
    None,
    /// Protection information type 1: the reference tag is the low 32 bits of the logical block's number.
    Type1,
    /// Protection information type 2: the reference tag of the first logical block is a value in the command, and
    /// increases by one for each further block.
    Type2,
    /// Protection information type 3: reference tags are not checked.
    Type3,
}

names! { DriveProtection { "none" => None, "type1" => Type1, "type2" => Type2, "type3" => Type3 } }

/// Side of the link that generates and checks protection information: the host or the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionSide {
    /// Protection information is generated and checked by the host, whose driver transfers it as metadata.
    Host,
    /// Protection information is inserted by the controller at a write, and checked and stripped at a read (PRACT).
    Controller,
}

names! { ProtectionSide { "host" => Host, "controller" => Controller } }

/// Format in which an NVMe command describes its data buffer (NVM Express Base Specification 2.0, sections 4.1.1 and
/// 4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointerFormat {
    /// Data buffer described by Physical Region Page (PRP) entries, one for each page.
    Prp,
    /// Data buffer described by a scatter-gather list (SGL).
    Sgl,
}

names! { DataPointerFormat { "prp" => Prp, "sgl" => Sgl } }

/// Size of the metadata of a logical block in bytes, all of it protection information, if the block has any (NVM
/// Command Set Specification 1.0, section 5.2.1.1).
pub const METADATA_BYTES: u32 = 8;
/// Maximum number of entries in all submission queues together. If all are used, queues and bookkeeping take 3.2 GB of
/// memory.
const RING_ENTRIES_MAX: u64 = 1 << 25;

impl Nvme {
    /// Returns a violated condition if all queues together have too many entries. Queues take memory as they are used:
    /// 80 bytes for each pair of entries, and 16 for bookkeeping.
    pub(super) fn broken_rings(&self) -> Option<BrokenCondition> {
        let (pairs, entries) = (self.queue_pairs, self.queue_entries);
        BrokenCondition::when(
            u64::from(pairs) * u64::from(entries) > RING_ENTRIES_MAX,
            &["nvme.queue_pairs", "nvme.queue_entries"],
            format!("nvme.queue_pairs is {pairs} with nvme.queue_entries {entries}"),
            format!("at most {RING_ENTRIES_MAX} entries in all queues together"),
        )
    }

    /// Returns a violated condition if the largest transfer has more logical blocks than the 16-bit field of a command
    /// can count (NVM Command Set Specification 1.0, section 3.2.4).
    pub(super) fn broken_blocks(&self) -> Option<BrokenCondition> {
        let (transfer, block) = (self.max_transfer_kib, self.block_bytes);
        BrokenCondition::when(
            transfer * 1024 > block << 16,
            &["nvme.max_transfer_kib", "nvme.block_bytes"],
            format!("nvme.max_transfer_kib is {transfer} with nvme.block_bytes {block}"),
            format!("at most {} KiB, 65536 blocks", block << 6),
        )
    }

    /// Returns a violated condition if the atomic write unit is smaller than a logical block or larger than the largest
    /// transfer.
    pub(super) fn broken_atomicity(&self) -> Option<BrokenCondition> {
        let (atomic, block, transfer) = (self.atomic_write_bytes, self.block_bytes, self.max_transfer_kib * 1024);
        BrokenCondition::when(
            atomic > 0 && !(block..=transfer).contains(&atomic),
            &["nvme.atomic_write_bytes", "nvme.block_bytes", "nvme.max_transfer_kib"],
            format!("nvme.atomic_write_bytes is {atomic}"),
            format!("0, or {block} (a block) to {transfer} (a transfer)"),
        )
    }

    /// Returns a violated condition if interrupt coalescing has only a threshold or only a time, or is set in a drive
    /// without interrupts. The time must also be a multiple of 100 us, the unit of the aggregation time.
    pub(super) fn broken_coalescing(&self) -> Option<BrokenCondition> {
        let steps = self.coalescing.as_ps().is_multiple_of(Span::from_us(100).as_ps());
        let both = (self.coalescing_entries > 1) != self.coalescing.is_zero();
        let found = format!(
            "nvme.coalescing_entries is {} with nvme.coalescing_us {}",
            self.coalescing_entries,
            self.coalescing.as_us()
        );
        BrokenCondition::when(
            !steps || !both || (self.coalescing_entries > 1 && !self.interrupts),
            &["nvme.coalescing_entries", "nvme.coalescing_us", "nvme.interrupts"],
            found,
            String::from("both (2 or more, and multiples of 100 us) in a drive with interrupts, or neither (1 and 0)"),
        )
    }

    /// Returns a violated condition if a drive with zones or keys is divided into several namespaces: zones and keys
    /// need a drive with one namespace.
    pub(super) fn broken_namespaces(&self, has_zones: bool, has_keys: bool) -> Option<BrokenCondition> {
        let (keys, what, section): (&[&str], _, _) = match has_keys {
            true => (&["nvme.namespaces", "key_value.value_max_kib"], "keys and values", "[key_value]"),
            false => (&["nvme.namespaces", "zones.size_mib"], "zones", "[zones]"),
        };
        BrokenCondition::when(
            (has_zones || has_keys) && self.namespaces > 1,
            keys,
            format!("nvme.namespaces is {} in a drive with {what}", self.namespaces),
            format!("nvme.namespaces = 1, or no key of {section}"),
        )
    }

    /// Returns a violated condition if protection information is set for a drive with zones, with keys, or with logical
    /// blocks of less than 512 bytes.
    pub(super) fn check_protection(&self, has_zones: bool, has_keys: bool) -> Option<BrokenCondition> {
        let (keys, found): (&[&str], _) = match (has_zones, has_keys) {
            (true, _) => (&["nvme.protection", "zones.size_mib"], "in a drive with zones"),
            (_, true) => (&["nvme.protection", "key_value.value_max_kib"], "in a drive with keys and values"),
            _ => (&["nvme.protection", "nvme.block_bytes"], "with blocks of less than 512 bytes"),
        };
        BrokenCondition::when(
            self.protection != DriveProtection::None && (has_zones || has_keys || self.block_bytes < 512),
            keys,
            format!("nvme.protection is set {found}"),
            String::from("nvme.protection = \"none\", or logical blocks of 512 bytes and more without zones"),
        )
    }

    /// Returns the bytes of metadata that the modelled driver transfers with this many bytes of data; 0 unless the host
    /// generates protection information.
    pub fn metadata_bytes(&self, data_bytes: u32) -> u32 {
        let is_sent = self.protection != DriveProtection::None && self.protection_by == ProtectionSide::Host;
        if is_sent { data_bytes / self.block_bytes * METADATA_BYTES } else { 0 }
    }

    /// Returns a violated condition if one fetch may read more entries than a submission queue has.
    pub(super) fn broken_fetch(&self) -> Option<BrokenCondition> {
        let (fetch, queue) = (self.fetch_entries, self.queue_entries);
        BrokenCondition::when(
            u32::from(fetch) > queue,
            &["nvme.fetch_entries", "nvme.queue_entries"],
            format!("nvme.fetch_entries is {fetch} with nvme.queue_entries {queue}"),
            String::from("nvme.fetch_entries up to nvme.queue_entries"),
        )
    }
}
