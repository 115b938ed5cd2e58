//! Keys of what lies between a drive's protocol and its memory: its processors, its write buffer, and the translation layer
//! of flash.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The drive's own processors and its logic, between protocol and memory.
    pub struct Controller ("controller") {
        /// Processors that take commands in turn
        cores => cores: u16 = 1, 1..=1024;
        /// Time of one of them for a read
        read_core_ns => read_core: Span = ZERO, ZERO..=LONGEST;
        /// Time of one of them for a write
        write_core_ns => write_core: Span = ZERO, ZERO..=LONGEST;
        /// What else a read takes there, in logic that works on many commands at a time
        read_pipeline_ns => read_pipeline: Span = ZERO, ZERO..=LONGEST;
        /// What else a write takes there, likewise
        write_pipeline_ns => write_pipeline: Span = ZERO, ZERO..=LONGEST;
    }
}

section! {
    /// Buffers: that in front of flash, for writes until they are in the cells and for reads ahead; and whether those of any memory outlive power.
    pub struct Buffer ("buffer") {
        /// What of it writes may take; a write that finds no room waits for a program to end
        capacity_kib => capacity_kib: u64 = 0, 0..=1 << 32;
        /// What a write takes, however long it is
        command_ns => command: Span = ZERO, ZERO..=LONGEST;
        /// What each 4 KiB of it take of the buffer's memory
        page_ns => page: Span = ZERO, ZERO..=LONGEST;
        /// Whether what is acknowledged from buffers outlives power, so that a flush need not wait for the cells
        power_loss_protection => power_loss_protection: bool = true, any();
        /// How far reads are fetched ahead that follow each other's addresses, or 0 for not at all
        read_ahead_kib => read_ahead_kib: u32 = 0, 0..=1 << 20;
    }
}

section! {
    /// The translation layer: where writes go in flash, and how blocks become free again.
    pub struct Translation ("translation") {
        /// `page` for units that go anywhere, `none` for addresses that stay in their places
        mapping => mapping: Mapping = Mapping::None, any();
        /// Bytes that are mapped together
        unit_bytes => unit_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
        /// Spare capacity as a share of the user's
        over_provisioning => over_provisioning: f64 = 0.07, 0.0..=10.0;
        /// Which block is cleaned next: `greedy` (with the fewest valid units), `fifo` (the oldest) or `d-choices` (the emptiest of some)
        cleaning => cleaning: Cleaning = Cleaning::Greedy, any();
        /// Blocks from which `d-choices` takes the emptiest
        choices => choices: u32 = 10, 1..=1024;
        /// Erases that a block may lag behind before it is cleaned however full, so that all wear alike; 0 for any number
        wear_gap_erases => wear_gap_erases: u32 = 0, 0..=1 << 30;
        /// What is on the drive at first: `none`, `sequential` (each unit once, in order) or `random` (the steady state of random overwrites)
        precondition => precondition: Precondition = Precondition::None, any();
    }
}

/// How addresses find their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    None,
    Page,
}

names! { Mapping { "none" => None, "page" => Page } }

/// Which block is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    Greedy,
    Fifo,
    DChoices,
}

names! { Cleaning { "greedy" => Greedy, "fifo" => Fifo, "d-choices" => DChoices } }

/// What is on a drive at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    None,
    Sequential,
    Random,
}

names! { Precondition { "none" => None, "sequential" => Sequential, "random" => Random } }
