//! Keys of a drive file that describe the components between protocol and memory: processors, write buffer, and flash
//! translation layer.

use crate::config::Media;
use crate::config::policies::TranslationPolicyName;
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::number::{real, whole};
use crate::time::Span;

section! {
    /// The drive's own processors and hardwired logic, between protocol and memory.
    pub struct Controller ("controller") {
        /// Number of processor cores of the drive, which commands use in turn
        cores => cores: u16 = 1, 1..=1024, needs CommandCores;
        /// Processor time that one of the drive's cores spends on a read command
        read_core_ns => read_core: Span = ZERO, ZERO..=LONGEST;
        /// Processor time that one of the drive's cores spends on a write command
        write_core_ns => write_core: Span = ZERO, ZERO..=LONGEST;
        /// Latency that the drive's hardwired logic adds to a read; many commands pass it at a time
        read_pipeline_ns => read_pipeline: Span = ZERO, ZERO..=LONGEST;
        /// Latency that the drive's hardwired logic adds to a write; many commands pass it at a time
        write_pipeline_ns => write_pipeline: Span = ZERO, ZERO..=LONGEST;
        /// Spread of `controller.read_pipeline_ns` and `controller.write_pipeline_ns`: each command takes a random time
        /// within this fraction of the latency; 0: none
        pipeline_spread => pipeline_spread: f64 = 0.0, 0.0..=1.0;
        /// Mean of a random latency that the drive's firmware adds to each command beyond its pipeline, exponentially
        /// distributed: work of the firmware that the command happens to meet; 0: none
        pipeline_tail_ns => pipeline_tail: Span = ZERO, ZERO..=LONGEST;
    }
}

section! {
    /// The drive's buffer: a write buffer and read-ahead cache in front of flash, and whether buffered writes to any memory survive a power loss.
    pub struct Buffer ("buffer") {
        /// Capacity of the drive's write buffer in front of flash, in KiB; a write that finds no room waits until a
        /// program operation ends
        capacity_kib => capacity_kib: u64 = 0, 0..=1 << 32, needs Translation;
        /// Service time of the drive's write buffer for each write command, whatever its length
        command_ns => command: Span = ZERO, ZERO..=LONGEST, needs Translation;
        /// Number of write commands that the drive's write buffer serves at a time, each for `buffer.command_ns`: the
        /// quotient of the two limits write commands a second
        command_servers => command_servers: u16 = 1, 1..=1024, needs Translation;
        /// Service time that a write command adds at the drive's write buffer for each mapping unit
        /// (`translation.unit_bytes`) that it covers only in part: the drive reads, changes and writes the unit
        merge_ns => merge: Span = ZERO, ZERO..=LONGEST, needs Translation;
        /// Service time of the memory of the drive's write buffer for each 4 KiB of a write
        page_ns => page: Span = ZERO, ZERO..=LONGEST, needs Translation;
        /// Time from one write of the mapping's journal to the next; no write enters the drive's buffer while it is
        /// written. 0: the journal stops no writes
        journal_interval_us => journal_interval: Span = ZERO, ZERO..=LONGEST, needs Translation;
        /// Time of one write of the mapping's journal
        journal_us => journal: Span = ZERO, ZERO..=LONGEST, needs Translation, with journal_interval_us;
        /// True if acknowledged writes in the drive's buffers survive a power loss, so that a flush need not wait for the memory cells
        power_loss_protection => power_loss_protection: bool = true, any(), needs EarlyAcknowledge;
        /// Number of KiB that the drive reads ahead of sequential reads; 0: no read-ahead
        read_ahead_kib => read_ahead_kib: u32 = 0, 0..=1 << 20, needs Translation;
    }
}

section! {
    /// Flash translation layer of the drive: the place of writes in flash, and garbage collection.
    pub struct Translation ("translation") {
        /// Mapping of logical addresses to flash: `page` (a table maps each unit of `translation.unit_bytes` to any
        /// place) or `none` (every address has a fixed place)
        mapping => mapping: Mapping = Mapping::None, any();
        /// Size of the unit that one entry of the flash mapping table maps, in bytes
        unit_bytes => unit_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536], needs Translation;
        /// Over-provisioning: flash capacity beyond the user capacity, as a fraction of the user capacity
        over_provisioning => over_provisioning: f64 = 0.07, 0.0..=2.0, needs Translation;
        /// Part of the user capacity that holds data when a run begins, from the first address on. Jobs without a size
        /// access this part alone
        used => used: f64 = 1.0, 0.01..=1.0, needs Translation;
        /// Size of a block of the translation layer, on all dies together, which is erased as a whole: a reclaim unit of
        /// data placement. It has as many flash blocks of each die as it takes. 0: one of each plane of each die
        block_mib => block_mib: u64 = 0, 0..=1 << 24, needs Translation;
        /// Policy of the flash translation layer that separates writes into streams, chooses blocks for them, and
        /// chooses the victim blocks of garbage collection
        policy => policy: TranslationPolicyName = TranslationPolicyName::Greedy, any(), needs Translation;
        /// Priority of garbage collection's reads on a flash die: `queued` (behind all queued operations of the die) or
        /// `first` (before operations that have not begun, so that programs need not wait for their data; such reads
        /// suspend nothing)
        collection_reads => collection_reads: CollectionReadPriority = CollectionReadPriority::Queued, any(), needs Translation;
        /// Largest number of rows (pages of all planes of a die) of one word line that garbage collection reads from a
        /// die in one go; host reads go before the next rows, but not between these
        collection_rows => collection_rows: u32 = 1, 1..=64, needs Translation;
        /// Number of lines (word lines of one die on each channel) that the host writes before garbage collection makes
        /// room again, for all of them at once: 1 collects evenly beside the writes, more stops them for longer
        collection_lines => collection_lines: u32 = 1, 1..=65_536, needs Translation;
        /// Number of random flash blocks among which the garbage collection policy `d-choices` picks the block with the
        /// fewest valid units
        choices => choices: u32 = 10, 1..=1024, needs Translation RandomChoices;
        /// Part of the flash mapping table that the drive's memory holds, in KiB; 0: the whole table. The drive reads
        /// other parts from flash on demand, and writes changed parts back
        map_cache_kib => map_cache_kib: u64 = 0, 0..=1 << 32, needs Translation;
        /// Capacity of the SLC cache, in MiB: separate flash blocks with one bit a cell, to which host writes go while
        /// there is room; 0: no SLC cache. Idle time moves its data to other blocks
        slc_cache_mib => slc_cache_mib: u64 = 0, 0..=1 << 30, needs Translation;
        /// Time without a request after which garbage collection in idle time begins; 0: never
        idle_us => idle: Span = ZERO, ZERO..=LONGEST, needs Translation;
        /// Number of erased flash blocks, beyond the reserve of garbage collection, at which collection in idle time
        /// ends
        idle_blocks => idle_blocks: u32 = 4, 1..=1 << 20, needs Translation, with idle_us;
        /// Wear levelling of flash: largest number of erases by which a block may lag behind the most worn block.
        /// Beyond it, the block is collected whatever its valid count; 0: no limit
        wear_gap_erases => wear_gap_erases: u32 = 0, 0..=1 << 30, needs Translation;
        /// State of the flash drive at the start of a run: `none` (empty), `sequential` (each unit written once, in
        /// order), `random` (steady state of random overwrites) or `auto` (`random` for jobs that write at random and
        /// are measured in the steady state, otherwise `sequential`)
        precondition => precondition: Precondition = Precondition::None, any(), needs Translation;
    }
}

impl Controller {
    /// True if the latencies that the drive adds to its commands vary at random.
    pub fn has_spread(&self) -> bool {
        self.pipeline_spread > 0.0 || !self.pipeline_tail.is_zero()
    }
}

impl Translation {
    /// Returns the flash capacity beyond the user capacity as a share of the user capacity: of the cells that the drive
    /// file gives, or else the over-provisioning.
    pub fn spare_share(&self, media: &Media) -> f64 {
        match media.raw_mib {
            0 => self.over_provisioning,
            raw => real(raw << 20) / real(media.capacity_bytes()) - 1.0,
        }
    }

    /// Returns the part of the user capacity that holds data when a run begins, in MiB.
    pub fn used_mib(&self, media: &Media) -> u64 {
        match self.used {
            1.0 => media.capacity_bytes() >> 20,
            part => whole(real(media.capacity_bytes() >> 20) * part).max(1),
        }
    }

    /// True if the drive has a cache of flash blocks with one bit a cell.
    pub fn has_slc_cache(&self) -> bool {
        self.slc_cache_mib > 0
    }
}

/// Method by which logical addresses are mapped to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Every logical address has a fixed position in flash.
    None,
    /// Mapping table places each unit anywhere in flash.
    Page,
}

names! { Mapping { "none" => None, "page" => Page } }

/// State of a flash drive at the start of a run (preconditioning).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Drive is empty: no unit has been written.
    None,
    /// Every unit of the drive has been written once, in the order of addresses.
    Sequential,
    /// Drive is in the steady state of random overwrites.
    Random,
    /// Jobs of the run decide between random and sequential. A drive without jobs has been written in order.
    Auto,
}

/// Priority of garbage collection's reads on a flash die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionReadPriority {
    /// Garbage collection's reads wait behind all operations queued on the die.
    Queued,
    /// Garbage collection's reads go before operations that have not begun, and suspend none that runs.
    First,
}

names! { CollectionReadPriority { "queued" => Queued, "first" => First } }

names! { Precondition { "none" => None, "sequential" => Sequential, "random" => Random, "auto" => Auto } }
