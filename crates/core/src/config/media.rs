//! Keys of a drive file that describe the memory medium.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// The memory medium behind the drive's controller.
    pub struct Media ("media") {
        /// Technology of the drive's memory cells: `pcm` (phase-change memory), `dram`, `nand` (flash), or `disk`
        /// (magnetic disks, each of whose arms is a bank)
        technology => technology: Technology = Technology::Pcm, any();
        /// Capacity of the drive for user data
        capacity_mib => capacity_mib: u64 = 640, 1..=1 << 40;
        /// Capacity of all flash cells of the drive together; 0: `media.capacity_mib`, and
        /// `translation.over_provisioning` beyond it
        raw_mib => raw_mib: u64 = 0, 0..=1 << 41, needs Translation;
        /// Number of independent memory channels of the drive
        channels => channels: u16 = 1, 1..=1024;
        /// Number of memory banks (flash dies) on each channel, which share the channel's bus
        banks_per_channel => banks_per_channel: u16 = 4, 1..=1024;
        /// Stripe of the memory: number of consecutive bytes in one bank before the next channel follows
        stripe_bytes => stripe_bytes: u32 = 4096, 8..=1 << 26;
        /// Time of an array read of the memory: from the cells into the row buffer
        read_ns => read: Span = ns(110), ZERO..=LONGEST;
        /// Time of the bus commands and row overhead of one access to a memory bank
        command_ns => command: Span = ns(194), ZERO..=LONGEST;
        /// Transfer rate of one memory channel's bus, in bytes a nanosecond
        bus_bytes_per_ns => bus_bytes_per_ns: f64 = 2.0, 1e-6..=1e9;
        /// Time of an array write of the memory: one program unit (`media.program_bytes`) of a bank
        program_ns => program: Span = us(120), ZERO..=LONGEST;
        /// Program unit of the memory: number of bytes that one array write programs in a bank at once
        program_bytes => program_bytes: u32 = 4096, 1..=1 << 26;
        /// Time at which the drive acknowledges a write: `early` (data is in a buffer of the controller or in the row
        /// buffers) or `late` (cells are programmed)
        acknowledge => acknowledge: Acknowledge = Acknowledge::Late, any();
        /// Number of bytes of a stripe in each memory chip of a bank, which one access moves; 0: the chips of a bank
        /// act as one
        chip_bytes => chip_bytes: u32 = 0, 0..=1 << 20;
        /// Number of memory chips of a stripe beyond the data chips, for error correction codes and metadata
        spare_chips => spare_chips: u8 = 0, 0..=64, with chip_bytes;
        /// Number of buses of each memory channel, over which the chips of a stripe are distributed;
        /// `media.bus_bytes_per_ns` is the rate of each bus
        buses_per_channel => buses_per_channel: u8 = 1, 1..=64, with chip_bytes;
        /// Number of bits that a memory bus moves in one clock cycle, from which the length of a cycle follows
        bus_bits_per_clock => bus_bits_per_clock: u16 = 8, 1..=1024;
        /// Number of memory bus clock cycles for command and address before the data of each chip
        command_clocks => command_clocks: u16 = 0, 0..=1024, with chip_bytes;
        /// Number of memory bus clock cycles between address and data of each chip's read; `media.read_ns` overlaps
        /// with these cycles
        dummy_clocks => dummy_clocks: u16 = 0, 0..=1024, with chip_bytes;
        /// Duration of the pulse that programs a phase-change memory cell to zero (RESET); 0: unknown
        reset_ns => reset: Span = ZERO, ZERO..=LONGEST;
        /// Duration of the pulse that programs a phase-change memory cell to one (SET); 0: unknown
        set_ns => set: Span = ZERO, ZERO..=LONGEST;
        /// Number of cells of a memory chip that receive a programming pulse at a time, limited by the chip's supply
        /// current
        program_group_cells => program_group_cells: u32 = 1, 1..=1 << 30;
        /// Data of writes, for memory whose programming time depends on the data: `typical` (takes `media.program_ns`),
        /// `zeros`, `ones` or `random`
        data_pattern => data_pattern: WrittenDataPattern = WrittenDataPattern::Typical, any();
        /// True if a write of the memory reads the old data first and programs only the cells that differ
        /// (data-comparison write)
        write_difference => write_difference: bool = false, any();
        /// Fraction of a write's memory cells whose new value differs from the stored value
        difference_ratio => difference_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time to check and correct the data of a read by its error correction code, after the transfer from the
        /// memory
        ecc_decode_ns => ecc_decode: Span = ZERO, ZERO..=LONGEST;
        /// Time from one housekeeping pause of the whole memory medium to the next; 0: no pauses
        housekeeping_interval_us => housekeeping_interval: Span = ZERO, ZERO..=LONGEST;
        /// Duration of a housekeeping pause of the memory medium, in which no access starts
        housekeeping_us => housekeeping: Span = ZERO, ZERO..=LONGEST;
        /// Wear levelling within each memory bank: `none`, `start-gap` or `randomised-start-gap` (Qureshi et al., MICRO
        /// 2009)
        wear_levelling => wear_levelling: WearLevelling = WearLevelling::None, any();
        /// Size of the memory line that wear levelling moves and whose writes count against `media.endurance_cycles`,
        /// in bytes; 0: a whole stripe
        wear_line_bytes => wear_line_bytes: u32 = 0, 0..=1 << 26;
        /// Number of regions of a memory bank for start-gap wear levelling; each region has a spare line and moves its
        /// own gap
        wear_regions_per_bank => wear_regions_per_bank: u32 = 1, 1..=1 << 16;
        /// Number of writes to a region after which start-gap wear levelling moves its gap by one line
        gap_write_interval => gap_write_interval: u32 = 100, 1..=1 << 30;
        /// Number of writes that a line of the memory endures; 0: no limit
        endurance_cycles => endurance_cycles: u64 = 0, 0..=1 << 50;
        /// Flash: number of planes of a bank (die), which program and erase together; each holds one page of a stripe
        planes => planes: u8 = 1, 1..=16, needs Flash;
        /// Flash: `together` if all planes of a bank read the same page number at a time, `independent` if each can read another page
        plane_reads => plane_reads: ReadablePages = ReadablePages::Together, any(), needs Flash;
        /// Flash: wires that carry the command of an access for `command_ns`: `unlimited` (each die has its own), `separate` (one command bus for each channel, beside its data bus) or `shared` (the channel's data bus)
        command_bus => command_bus: CommandBusSharing = CommandBusSharing::Unlimited, any(), needs Flash;
        /// Flash: number of pages that a die takes or gives over the channel's data bus in one go; data of host reads
        /// goes before the next ones, but not between these
        transfer_pages => transfer_pages: u32 = 1, 1..=64, needs Flash;
        /// Flash: number of pages of a block in one plane
        block_pages => block_pages: u32 = 256, 1..=1 << 20, needs Flash;
        /// Flash with two or three bits a cell: time of an array read of the page in a cell's second bit; 0: as `read_ns`
        read_centre_ns => read_centre: Span = ZERO, ZERO..=LONGEST, needs Flash SecondBit;
        /// Flash with three bits a cell: time of an array read of the page in a cell's third bit; 0: as `read_ns`
        read_upper_ns => read_upper: Span = ZERO, ZERO..=LONGEST, needs Flash ThirdBit;
        /// Flash: time to erase a block in all planes of a bank
        erase_ns => erase: Span = ZERO, ZERO..=LONGEST, needs Flash;
        /// Flash: time to suspend a program or erase operation for a read; 0: reads wait until the operation ends
        suspend_ns => suspend: Span = ZERO, ZERO..=LONGEST, needs Flash;
        /// Flash: length of the pulses of an erase, which is suspended for a read only between two of them; 0: an erase
        /// is suspended in `media.suspend_ns`, as a program
        erase_pulse_ns => erase_pulse: Span = ZERO, ZERO..=LONGEST, needs Flash, with suspend_ns;
        /// Flash: largest number of times that one program or erase operation is suspended for reads; once it is
        /// reached, reads wait until the operation ends. 0: no limit
        suspensions_max => suspensions_max: u32 = 0, 0..=1 << 20, needs Flash, with suspend_ns;
        /// Spread of array reads of the memory: each takes a random time within this fraction of the mean; 0: none
        read_spread => read_spread: f64 = 0.0, 0.0..=1.0;
        /// Spread of array writes and erases of the memory: each takes a random time within this fraction of the mean;
        /// 0: none
        program_spread => program_spread: f64 = 0.0, 0.0..=1.0;
        /// Fraction of array reads whose data cannot be corrected, so that the drive repeats the read of the cells; 0:
        /// none
        read_retry_rate => read_retry_rate: f64 = 0.0, 0.0..=0.9;
        /// Fraction of repeated reads of memory cells after which the drive repeats the read once more, at most 16
        /// times
        read_retry_again => read_retry_again: f64 = 0.0, 0.0..=0.9;
        /// Time of a repeated read of the memory cells, including the controller's work for the repetition; 0: as an
        /// array read
        read_retry_ns => read_retry: Span = ZERO, ZERO..=LONGEST;
        /// Flash: time to program a word line of a block that is used with one bit a cell, in all planes of a bank
        slc_program_ns => slc_program: Span = ZERO, ZERO..=LONGEST, needs Flash SlcCache;
        /// Flash: array read time of a page of a block that is used with one bit a cell; 0: as `read_ns`
        slc_read_ns => slc_read: Span = ZERO, ZERO..=LONGEST, needs Flash SlcCache;
        /// Energy to read one bit of the memory, in picojoules, cells and row buffer together; 0: unknown
        read_pj_per_bit => read_pj_per_bit: f64 = 0.0, 0.0..=1e9;
        /// Energy to write one bit of the memory, in picojoules, cells and row buffer together; 0: unknown
        write_pj_per_bit => write_pj_per_bit: f64 = 0.0, 0.0..=1e9;
    }
    conditions [
        Media::check_stripe,
        Media::check_chips_fill_stripe,
        Media::check_spread_of_chips,
        Media::check_pattern,
        Media::check_housekeeping,
        Media::check_wear_line,
    ]
}

impl Media {
    /// Checks that a stripe of the memory is no larger than the memory's capacity.
    fn check_stripe(&self) -> Option<BrokenCondition> {
        let (stripe, capacity) = (self.stripe_bytes, self.capacity_mib);
        BrokenCondition::when(
            u64::from(stripe) > capacity << 20,
            &["media.stripe_bytes", "media.capacity_mib"],
            format!("media.stripe_bytes is {stripe} with media.capacity_mib {capacity}"),
            String::from("a stripe no larger than the capacity"),
        )
    }

    /// Checks that a stripe of the memory consists of whole chips.
    fn check_chips_fill_stripe(&self) -> Option<BrokenCondition> {
        let (chip, stripe) = (self.chip_bytes, self.stripe_bytes);
        BrokenCondition::when(
            chip > 0 && !stripe.is_multiple_of(chip),
            &["media.chip_bytes", "media.stripe_bytes"],
            format!("media.chip_bytes is {chip} with media.stripe_bytes {stripe}"),
            String::from("media.stripe_bytes that is a multiple of media.chip_bytes"),
        )
    }

    /// Checks that reads have no spread in time if memory chips are modelled one by one, because these read in step.
    fn check_spread_of_chips(&self) -> Option<BrokenCondition> {
        let media = self;
        let is_given = media.read_spread > 0.0 || media.read_retry_rate > 0.0;
        BrokenCondition::when(
            is_given && media.chip_bytes > 0,
            &["media.read_spread", "media.read_retry_rate", "media.chip_bytes"],
            String::from("a spread of reads is given with media.chip_bytes, whose chips read in step"),
            String::from("media.chip_bytes = 0, or media.read_spread = 0 and media.read_retry_rate = 0"),
        )
    }

    /// Checks that the durations of both programming pulses are given if the time of a write depends on its data.
    fn check_pattern(&self) -> Option<BrokenCondition> {
        let media = self;
        let data_matters = media.data_pattern != WrittenDataPattern::Typical || media.write_difference;
        BrokenCondition::when(
            data_matters && (media.reset.is_zero() || media.set.is_zero()),
            &["media.data_pattern", "media.write_difference", "media.reset_ns", "media.set_ns"],
            String::from("the time of a write depends on its data, but media.reset_ns or media.set_ns is 0"),
            String::from(
                "media.reset_ns and media.set_ns above 0, or media.data_pattern = \"typical\" and media.write_difference = false",
            ),
        )
    }

    /// Checks that a housekeeping pause of the memory is shorter than the interval between pauses.
    fn check_housekeeping(&self) -> Option<BrokenCondition> {
        let (pause, interval) = (self.housekeeping, self.housekeeping_interval);
        BrokenCondition::when(
            pause >= interval && !(pause.is_zero() && interval.is_zero()),
            &["media.housekeeping_us", "media.housekeeping_interval_us"],
            format!(
                "media.housekeeping_us is {} with media.housekeeping_interval_us {}",
                pause.as_us(),
                interval.as_us()
            ),
            String::from("a pause shorter than the interval"),
        )
    }

    /// Checks that a stripe of the memory consists of whole wear-levelling lines.
    fn check_wear_line(&self) -> Option<BrokenCondition> {
        let (line, stripe) = (self.wear_line_bytes, self.stripe_bytes);
        BrokenCondition::when(
            line > 0 && !stripe.is_multiple_of(line),
            &["media.wear_line_bytes", "media.stripe_bytes"],
            format!("media.wear_line_bytes is {line} with media.stripe_bytes {stripe}"),
            String::from("media.stripe_bytes that is a multiple of media.wear_line_bytes"),
        )
    }
}

impl Media {
    /// Returns the number of banks (flash dies) of all channels together.
    pub fn banks(&self) -> u32 {
        u32::from(self.channels) * u32::from(self.banks_per_channel)
    }

    /// True if the memory is NAND flash.
    pub fn is_nand(&self) -> bool {
        self.technology == Technology::Nand
    }

    /// Returns the number of bits of a flash cell, each of which belongs to another page of a word line.
    pub fn bits_per_cell(&self) -> u32 {
        self.program_bytes / self.stripe_bytes
    }

    /// True if writes are acknowledged as soon as their data is in a buffer.
    pub fn acknowledges_early(&self) -> bool {
        self.acknowledge == Acknowledge::Early
    }

    /// Returns the drive's capacity for user data in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_mib << 20
    }
}

/// Technology of the memory cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technology {
    /// Phase-change memory.
    Pcm,
    /// Dynamic RAM.
    Dram,
    /// NAND flash.
    Nand,
    /// Magnetic disks, each of whose arms is a bank.
    Disk,
}

names! { Technology { "pcm" => Pcm, "dram" => Dram, "nand" => Nand, "disk" => Disk } }

/// Pages that the planes of a flash bank can read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadablePages {
    /// All planes of a bank read pages of one number at a time.
    Together,
    /// Each plane of a bank can read a different page at a time.
    Independent,
}

names! { ReadablePages { "together" => Together, "independent" => Independent } }

/// Wires that carry the commands of a channel's flash dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandBusSharing {
    /// Each die has its own wires, so that no command waits for another.
    Unlimited,
    /// Each channel has a command bus beside its data bus.
    Separate,
    /// Commands of flash dies use the channel's data bus.
    Shared,
}

names! { CommandBusSharing { "unlimited" => Unlimited, "separate" => Separate, "shared" => Shared } }

/// Time at which the drive acknowledges a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// Write is acknowledged as soon as its data is in a buffer.
    Early,
    /// Write is acknowledged only after its cells are programmed.
    Late,
}

names! { Acknowledge { "early" => Early, "late" => Late } }

/// Data that writes carry, for memory whose programming time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenDataPattern {
    /// Writes carry typical data, which takes the programming time `program_ns`.
    Typical,
    /// Writes carry zero bits only.
    Zeros,
    /// Writes carry one bits only.
    Ones,
    /// Writes carry random bits.
    Random,
}

names! { WrittenDataPattern { "typical" => Typical, "zeros" => Zeros, "ones" => Ones, "random" => Random } }

/// Wear levelling: method by which writes are spread over the lines of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearLevelling {
    /// No wear levelling: every line keeps its position.
    None,
    /// Start-gap wear levelling: a spare line moves through the region (Qureshi et al., MICRO 2009).
    StartGap,
    /// Start-gap wear levelling behind a random permutation of the lines.
    RandomisedStartGap,
}

names! {
    WearLevelling {
        "none" => None,
        "start-gap" => StartGap,
        "randomised-start-gap" => RandomisedStartGap,
    }
}
