//! Keys of the memory.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::time::Span;

section! {
    /// The memory behind the controller.
    pub struct Media ("media") {
        /// Cell technology: `pcm`, `dram`, `nand`, or `disk` for magnetic disks, whose arms are banks
        technology => technology: Technology = Technology::Pcm, any();
        /// User capacity
        capacity_mib => capacity_mib: u64 = 640, 1..=1 << 40;
        /// Independent channels
        channels => channels: u16 = 1, 1..=1024;
        /// Banks on each channel, which share its bus
        banks_per_channel => banks_per_channel: u16 = 4, 1..=1024;
        /// Consecutive bytes that one bank holds before the next channel's turn
        stripe_bytes => stripe_bytes: u32 = 4096, 8..=1 << 26;
        /// Array read: cells into the row buffer
        read_ns => read: Span = ns(110), ZERO..=LONGEST;
        /// Bus commands and row overhead of one access
        command_ns => command: Span = ns(194), ZERO..=LONGEST;
        /// Transfer rate of one channel's bus
        bus_bytes_per_ns => bus_bytes_per_ns: f64 = 2.0, 1e-6..=1e9;
        /// Array write of one program unit
        program_ns => program: Span = us(120), ZERO..=LONGEST;
        /// Bytes that one array write programs in a bank at once
        program_bytes => program_bytes: u32 = 4096, 1..=1 << 26;
        /// When a write is reported done: `early` (data in a buffer: the controller's, or the row buffers) or `late` (cells programmed)
        acknowledge => acknowledge: Acknowledge = Acknowledge::Late, any();
        /// Bytes of a stripe in each chip of a bank, moved in one access; 0 where the chips of a bank act as one
        chip_bytes => chip_bytes: u32 = 0, 0..=1 << 20;
        /// Chips of a stripe beside those of the data, for error correction and metadata
        spare_chips => spare_chips: u8 = 0, 0..=64;
        /// Buses of each channel, over which the chips of a stripe are dealt; `bus_bytes_per_ns` is the rate of each
        buses_per_channel => buses_per_channel: u8 = 1, 1..=64;
        /// Bits that a bus moves in one clock, which gives the length of a clock
        bus_bits_per_clock => bus_bits_per_clock: u16 = 8, 1..=1024;
        /// Clocks of command and address before the data of each chip
        command_clocks => command_clocks: u16 = 0, 0..=1024;
        /// Clocks between address and data of each chip's read; `read_ns` passes within them as far as they reach
        dummy_clocks => dummy_clocks: u16 = 0, 0..=1024;
        /// Pulse that makes a cell a zero, or 0 if unknown
        reset_ns => reset: Span = ZERO, ZERO..=LONGEST;
        /// Pulse that makes a cell a one, or 0 if unknown
        set_ns => set: Span = ZERO, ZERO..=LONGEST;
        /// Cells of a chip that get the same pulse at once: what its supply can drive
        program_group_cells => program_group_cells: u32 = 1, 1..=1 << 30;
        /// Data of writes: `typical` (takes `program_ns`), `zeros`, `ones` or `random`
        data_pattern => data_pattern: DataPattern = DataPattern::Typical, any();
        /// Whether a write reads first and programs only the cells that differ
        write_difference => write_difference: bool = false, any();
        /// Share of the cells of a write that differ from what they hold
        difference_ratio => difference_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time to check and correct the data of a read, after its transfer
        ecc_decode_ns => ecc_decode: Span = ZERO, ZERO..=LONGEST;
        /// Time from one pause of the whole memory for housekeeping to the next, or 0 for none
        housekeeping_interval_us => housekeeping_interval: Span = ZERO, ZERO..=LONGEST;
        /// Length of such a pause, in which no access starts
        housekeeping_us => housekeeping: Span = ZERO, ZERO..=LONGEST;
        /// Wear levelling within each bank: `none`, `start-gap` or `randomised-start-gap` (Qureshi et al., MICRO 2009)
        wear_levelling => wear_levelling: WearLevelling = WearLevelling::None, any();
        /// Line that wear levelling moves and endurance is counted for; 0 for a whole stripe
        wear_line_bytes => wear_line_bytes: u32 = 0, 0..=1 << 26;
        /// Regions of a bank that each have a spare line and move their gap on their own
        wear_regions_per_bank => wear_regions_per_bank: u32 = 1, 1..=1 << 16;
        /// Writes to a region after which its gap moves by a line
        gap_write_interval => gap_write_interval: u32 = 100, 1..=1 << 30;
        /// Writes that a line endures, or 0 for no limit
        endurance_cycles => endurance_cycles: u64 = 0, 0..=1 << 50;
        /// Flash: planes of a bank, which program and erase together, each with a page of a stripe
        planes => planes: u8 = 1, 1..=16;
        /// Flash: whether planes read different pages at a time
        plane_reads => plane_reads: PlaneReads = PlaneReads::Together, any();
        /// Flash: pages of a block in one plane
        block_pages => block_pages: u32 = 256, 1..=1 << 20;
        /// Flash of two and three bits a cell: array read of a page in the second of them, or 0 if as `read_ns`
        read_centre_ns => read_centre: Span = ZERO, ZERO..=LONGEST;
        /// Flash of three bits a cell: array read of a page in the third of them, or 0 if as `read_ns`
        read_upper_ns => read_upper: Span = ZERO, ZERO..=LONGEST;
        /// Flash: erasing a block of all planes of a bank
        erase_ns => erase: Span = ZERO, ZERO..=LONGEST;
        /// Flash: time to suspend a program or an erase for a read, or 0 if reads wait for its end
        suspend_ns => suspend: Span = ZERO, ZERO..=LONGEST;
        /// Energy of a bit that is read, cells and row buffer, or 0 if unknown
        read_pj_per_bit => read_pj_per_bit: f64 = 0.0, 0.0..=1e9;
        /// Energy of a bit that is written, likewise
        write_pj_per_bit => write_pj_per_bit: f64 = 0.0, 0.0..=1e9;
    }
}

impl Media {
    /// Bytes that the drive offers.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_mib << 20
    }
}

/// Cell technology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technology {
    Pcm,
    Dram,
    Nand,
    Disk,
}

names! { Technology { "pcm" => Pcm, "dram" => Dram, "nand" => Nand, "disk" => Disk } }

/// What planes of a bank read at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneReads {
    Together,
    Independent,
}

names! { PlaneReads { "together" => Together, "independent" => Independent } }

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    Early,
    Late,
}

names! { Acknowledge { "early" => Early, "late" => Late } }

/// What writes hold, as far as the time to program it depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPattern {
    Typical,
    Zeros,
    Ones,
    Random,
}

names! { DataPattern { "typical" => Typical, "zeros" => Zeros, "ones" => Ones, "random" => Random } }

/// How writes are spread over lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearLevelling {
    None,
    StartGap,
    RandomisedStartGap,
}

names! {
    WearLevelling {
        "none" => None,
        "start-gap" => StartGap,
        "randomised-start-gap" => RandomisedStartGap,
    }
}
