//! Garbage collection in closed form: a recurrence over the operations of one channel's dies gives the time of a round.
//!
//! Each line that the host fills begins a round. In it, a part of a victim block is read, row by row from all dies.
//! Once all of it has been read, the lines that its valid units fill are programmed. Dies serve operations in the order
//! of submission, so that dies with fewer programs in a round wait for the others. This bounds the rate at which a
//! drive takes lines, and its dies are not always busy.
//!
//! ```text
//!     die 0   read read | program program | read read | program .........|
//!     die 1   read read | program ........| read read | program program  |    . waits
//!             <------- round ------------>
//! ```
//!
//! All channels do the same at the same time.

use crate::config;
use crate::media::flash::FlashCosts;
use crate::media::flash::layout::FlashUnitLayout;
use crate::media::timing::ChannelBus;
use crate::number::index;
use crate::time::{Span, Time};

/// Number of rounds before the dies reach their steady state. The next constant is the number of rounds that are
/// averaged.
const FIRST_ROUNDS: u32 = 16;
const ROUNDS: u32 = 128;

/// Work queue of one flash die: start of its last operation, and end of all its operations.
#[derive(Clone, Copy, Debug, Default)]
struct DieQueue {
    /// Start of the die's last queued operation. From then on its registers can take data for the next one.
    last_begins_at: Time,
    over_at: Time,
}

/// Dies of one channel with their bus, and the work of garbage collection for each line that the host writes.
#[derive(Clone, Debug)]
struct CollectionRounds {
    dies: Vec<DieQueue>,
    bus: ChannelBus,
    costs: FlashCosts,
    pages_per_line: u32,
    /// Number of page transfers on the bus for one program.
    program_pages: u32,
    /// Bus time of one page transfer.
    page_transfer: Span,
    /// Number of array reads in a round.
    reads: f64,
    /// Bus time of the data of one array read.
    read_transfer: Span,
    /// Number of flash lines that the valid units moved in a round fill.
    lines: f64,
}

impl DieQueue {
    fn enqueue(&mut self, ready_at: Time, length: Span) -> Time {
        self.last_begins_at = self.over_at.max(ready_at);
        self.over_at = self.last_begins_at + length;
        self.over_at
    }
}

/// Returns the mean time of a garbage collection round at this write amplification. In a round, the host fills one
/// line.
pub(super) fn round_time(media: &config::Media, translation: &config::Translation, amplification: f64) -> Span {
    let (costs, layout) = (FlashCosts::of(&media.in_the_mean()), FlashUnitLayout::of(media, translation));
    let row_units = f64::from(layout.row_units);
    // A victim block has a valid share of 1 - 1/amplification, so one row read moves that share of the row's units, but
    // at least one.
    let row_valid = ((1.0 - 1.0 / amplification) * row_units).max(1.0);
    let lines = amplification - 1.0;
    let pages_per_line = layout.pages_per_line;
    let mut rounds = CollectionRounds {
        dies: vec![DieQueue::default(); usize::from(media.banks_per_channel)],
        bus: ChannelBus::default(),
        costs,
        pages_per_line,
        program_pages: pages_per_line * layout.planes,
        page_transfer: costs.bus.transfer_time(media.stripe_bytes / layout.planes),
        reads: lines * f64::from(pages_per_line) * row_units / row_valid,
        read_transfer: costs.bus.transfer_time((row_valid * f64::from(layout.unit_bytes)) as u32),
        lines,
    };
    let began_at = rounds.run(0..FIRST_ROUNDS);
    let mean = rounds.run(FIRST_ROUNDS..FIRST_ROUNDS + ROUNDS).since(began_at) / u64::from(ROUNDS);
    // An erase block spans all dies, so its erase time is divided among all lines of the block.
    let lines_per_block = f64::from(layout.block_units) / f64::from(layout.line_units());
    mean + (costs.erase * u64::from(layout.block_erases)).scale(amplification / lines_per_block)
}

impl CollectionRounds {
    /// Runs rounds of garbage collection. Returns the time at which all dies have finished.
    fn run(&mut self, rounds: std::ops::Range<u32>) -> Time {
        let first = |round: u32, each: f64| (f64::from(round) * each) as u32;
        for round in rounds {
            let there_at = (first(round, self.reads)..first(round + 1, self.reads)).map(|read| self.read(read));
            let there_at = there_at.max().unwrap_or(Time::ZERO);
            for line in first(round, self.lines)..first(round + 1, self.lines) {
                self.program(line, there_at);
            }
            self.program(round, Time::ZERO);
        }
        self.dies.iter().map(|die| die.over_at).max().unwrap_or(Time::ZERO)
    }

    /// Reads one row of the victim block. Returns the time at which its data is in the buffer.
    fn read(&mut self, row: u32) -> Time {
        let (now, die) = (self.now(), index(row / self.pages_per_line) % self.dies.len());
        let array = self.costs.reads[index(row % self.pages_per_line)];
        let read_at = self.dies[die].enqueue(Time::ZERO, self.costs.command + array);
        self.bus.reserve(now, read_at, self.read_transfer) + self.read_transfer
    }

    /// Programs a line whose data is available at `at`. Its pages cross the bus with a gap of one page's time between
    /// them.
    fn program(&mut self, line: u32, at: Time) {
        let (now, die) = (self.now(), index(line) % self.dies.len());
        let mut ready = self.dies[die].last_begins_at.max(at);
        let mut crossed = ready;
        for _ in 0..self.program_pages {
            crossed = self.bus.reserve(now, ready, self.page_transfer) + self.page_transfer;
            ready = crossed + self.page_transfer;
        }
        self.dies[die].enqueue(crossed, self.costs.program);
    }

    /// Returns the earliest time for which a new bus transfer can still be requested: the earliest start of any die's
    /// last operation.
    fn now(&self) -> Time {
        self.dies.iter().map(|die| die.last_begins_at).min().unwrap_or(Time::ZERO)
    }
}
