//! Keys of a drive file that describe the components between protocol and memory: processors, write buffer, and flash
//! translation layer.

use crate::config::policies::PolicyName;
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The drive's own processors and hardwired logic, between protocol and memory.
    pub struct Controller ("controller") {
        /// Number of the drive's processor cores, which take commands in turn
        cores => cores: u16 = 1, 1..=1024;
        /// Processor time that one of the drive's cores spends on a read command
        read_core_ns => read_core: Span = ZERO, ZERO..=LONGEST;
        /// Processor time that one of the drive's cores spends on a write command
        write_core_ns => write_core: Span = ZERO, ZERO..=LONGEST;
        /// Latency that the drive's hardwired logic adds to a read; many commands pass it at a time
        read_pipeline_ns => read_pipeline: Span = ZERO, ZERO..=LONGEST;
        /// Latency that the drive's hardwired logic adds to a write; many commands pass it at a time
        write_pipeline_ns => write_pipeline: Span = ZERO, ZERO..=LONGEST;
        /// Spread of both latencies: each command takes a random time within this share of them; 0: none
        pipeline_spread => pipeline_spread: f64 = 0.0, 0.0..=1.0;
    }
}

section! {
    /// The drive's buffer: a write buffer and read-ahead cache in front of flash, and whether buffered writes to any memory survive a power loss.
    pub struct Buffer ("buffer") {
        /// Capacity of the write buffer in front of flash; a write that finds no room waits until a program operation ends
        capacity_kib => capacity_kib: u64 = 0, 0..=1 << 32;
        /// Time of the write buffer for each write command, whatever its length
        command_ns => command: Span = ZERO, ZERO..=LONGEST;
        /// Time of the write buffer's memory for each 4 KiB of a write
        page_ns => page: Span = ZERO, ZERO..=LONGEST;
        /// True if acknowledged writes in the drive's buffers survive a power loss, so that a flush need not wait for the memory cells
        power_loss_protection => power_loss_protection: bool = true, any();
        /// Number of KiB that the drive reads ahead of sequential reads; 0: no read-ahead
        read_ahead_kib => read_ahead_kib: u32 = 0, 0..=1 << 20;
    }
}

section! {
    /// The flash translation layer: where writes go in flash, and how blocks become free again.
    pub struct Translation ("translation") {
        /// Mapping of logical addresses to flash: `page` (each unit of `unit_bytes` is mapped anywhere by a table) or `none` (every address has a fixed place)
        mapping => mapping: Mapping = Mapping::None, any();
        /// Size of the unit that one entry of the mapping table maps
        unit_bytes => unit_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
        /// Over-provisioning: flash beyond the user capacity, as a share of the user capacity
        over_provisioning => over_provisioning: f64 = 0.07, 0.0..=2.0;
        /// Policy that separates writes into streams, chooses their blocks, and chooses the victim blocks of garbage collection; the documentation has a page about policies
        policy => policy: PolicyName = PolicyName::Greedy, any();
        /// Turn of garbage collection's reads on a die: `queued` (behind everything that the die is to do, as nobody waits for them) or `first` (as host reads, so that dies need not wait for data to program)
        collection_reads => collection_reads: CollectionReads = CollectionReads::Queued, any();
        /// Number of random blocks among which the policy `d-choices` picks the one with the fewest valid units
        choices => choices: u32 = 10, 1..=1024;
        /// Part of the mapping table that the drive's memory holds; the rest is read from flash as it is needed, and changed parts are written back; 0: all of the table
        map_cache_kib => map_cache_kib: u64 = 0, 0..=1 << 32;
        /// Capacity of a cache of blocks beside the others that are used with one bit a cell: the user's writes go there while it has room, and it is folded in idle time; 0: no such cache
        slc_cache_mib => slc_cache_mib: u64 = 0, 0..=1 << 30;
        /// Time without a request after which garbage collection begins in idle time; 0: never
        idle_us => idle: Span = ZERO, ZERO..=LONGEST;
        /// Number of erased blocks, more than those that garbage collection keeps in reserve, at which collection in idle time ends
        idle_blocks => idle_blocks: u32 = 4, 1..=1 << 20;
        /// Wear levelling: largest number of erases by which a block may lag behind the most worn one before it is collected however many units are valid; 0: no limit
        wear_gap_erases => wear_gap_erases: u32 = 0, 0..=1 << 30;
        /// State of the drive at the start of a run: `none` (empty), `sequential` (each unit written once, in order), `random` (steady state of random overwrites) or `auto` (`random` for jobs that write at random and are measured in the steady state, otherwise `sequential`)
        precondition => precondition: Precondition = Precondition::None, any();
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
pub enum CollectionReads {
    /// Garbage collection's reads wait behind all operations queued on the die.
    Queued,
    /// Garbage collection's reads go before operations that have not begun, as host reads do.
    First,
}

names! { CollectionReads { "queued" => Queued, "first" => First } }

names! { Precondition { "none" => None, "sequential" => Sequential, "random" => Random, "auto" => Auto } }
