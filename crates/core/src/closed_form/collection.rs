//! Rounds of garbage collection, as a recurrence over the operations of one channel's dies.
//!
//! Each line of the user begins a round: a part of a victim block is read, row by row from all dies, and the lines that its
//! valid units fill are programmed once all of it has been read. Dies work in the order in which they are asked, so that
//! those with fewer programs in a round wait for the others before the next one. A drive takes no line sooner than that, and its
//! dies are not always busy.
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
use crate::media::flash::layout::FlashLayout;
use crate::media::timing::Bus;
use crate::time::{Span, Time};

/// Rounds until dies are at work as in any later round, and rounds that are measured.
const FIRST_ROUNDS: u32 = 16;
const ROUNDS: u32 = 128;

/// Queue of a die as a round sees it.
#[derive(Clone, Copy, Debug, Default)]
struct DieQueue {
    /// Start of the last operation, at which registers can take data for the next one.
    last_begins_at: Time,
    over_at: Time,
}

/// Dies of one channel with its bus, and the amounts of garbage collection of a line of the user.
#[derive(Clone, Debug)]
struct CollectionRounds {
    dies: Vec<DieQueue>,
    bus: Bus,
    costs: FlashCosts,
    pages_per_line: u32,
    /// Pages of a program on the bus, and the time of one.
    program_pages: u32,
    page_transfer: Span,
    /// Array reads of a round, and the time of one on the bus.
    reads: f64,
    read_transfer: Span,
    /// Lines that the moved units of a round fill.
    lines: f64,
}

impl DieQueue {
    fn enqueue(&mut self, ready_at: Time, length: Span) -> Time {
        self.last_begins_at = self.over_at.max(ready_at);
        self.over_at = self.last_begins_at + length;
        self.over_at
    }
}

/// Returns the mean time of a round of garbage collection, in which the user fills one line, with this write
/// amplification.
pub(super) fn round_time(media: &config::Media, translation: &config::Translation, amplification: f64) -> Span {
    let (costs, layout) = (FlashCosts::of(&media.in_the_mean()), FlashLayout::of(media, translation));
    let row_units = f64::from(layout.row_units);
    // A victim has this share of valid units, so that a row that is read brings as many of its units, or one.
    let row_valid = ((1.0 - 1.0 / amplification) * row_units).max(1.0);
    let lines = amplification - 1.0;
    let pages_per_line = layout.pages_per_line;
    let mut rounds = CollectionRounds {
        dies: vec![DieQueue::default(); usize::from(media.banks_per_channel)],
        bus: Bus::default(),
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
    // All dies erase a block together.
    let lines_per_block = f64::from(layout.block_units) / f64::from(layout.line_units());
    mean + costs.erase.scale(amplification / lines_per_block)
}

impl CollectionRounds {
    /// Runs rounds. Returns the end of all their operations.
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

    /// Reads a row of the victim. Returns when it is in the buffer.
    fn read(&mut self, row: u32) -> Time {
        let (now, die) = (self.now(), (row / self.pages_per_line) as usize % self.dies.len());
        let array = self.costs.reads[(row % self.pages_per_line) as usize];
        let read_at = self.dies[die].enqueue(Time::ZERO, self.costs.command + array);
        self.bus.promise(now, read_at, self.read_transfer) + self.read_transfer
    }

    /// Programs a line with data that is there at `at`, page by page over the bus with a page's time between.
    fn program(&mut self, line: u32, at: Time) {
        let (now, die) = (self.now(), line as usize % self.dies.len());
        let mut ready = self.dies[die].last_begins_at.max(at);
        let mut crossed = ready;
        for _ in 0..self.program_pages {
            crossed = self.bus.promise(now, ready, self.page_transfer) + self.page_transfer;
            ready = crossed + self.page_transfer;
        }
        self.dies[die].enqueue(crossed, self.costs.program);
    }

    /// Earliest instant at which the bus can be asked for another transfer.
    fn now(&self) -> Time {
        self.dies.iter().map(|die| die.last_begins_at).min().unwrap_or(Time::ZERO)
    }
}
