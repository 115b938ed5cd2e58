//! Images of a drive against an enumeration of its legal states that shares nothing with it: every set of parts, straight from the
//! words of the specifications. What the drive makes of it is a record that is shortened, with failed writes and flushes behind
//! durable ones, so that the enumeration of recordings alone would not do.

use std::collections::{BTreeMap, BTreeSet};

use phaselink_embed::{Description, Drive, Operation, Span, Ticket, Time};

/// Blocks that operations are about, and bytes of a block: the least that is written as a whole.
const BLOCKS: usize = 4;
const BLOCK: u32 = 512;
/// Most parts of open changes for which all sets are made.
const PARTS_MAX: usize = 12;

/// One byte stands for a block.
type State = [u8; BLOCKS];

/// Change that was submitted.
#[derive(Clone, Debug)]
struct Change {
    first: usize,
    blocks: usize,
    value: u8,
    is_durable: bool,
    completed: Option<usize>,
}

/// Everything that a program knows of what it has submitted.
#[derive(Default)]
struct Log {
    events: usize,
    changes: Vec<Change>,
    /// Flushes: event of the submission, and true once it has completed.
    flushes: Vec<(usize, bool)>,
    tickets: BTreeMap<Ticket, Submitted>,
}

#[derive(Clone, Copy)]
enum Submitted {
    Change(usize),
    Flush(usize),
}

impl Log {
    fn event(&mut self) -> usize {
        self.events += 1;
        self.events
    }

    /// Takes the completions that have come.
    fn take(&mut self, drive: &mut Drive) {
        while let Some(done) = drive.next_completion() {
            assert!(done.status().is_success());
            let event = self.event();
            match self.tickets.remove(&done.ticket()) {
                Some(Submitted::Change(place)) => self.changes[place].completed = Some(event),
                Some(Submitted::Flush(place)) => self.flushes[place].1 = true,
                None => panic!("a completion of nothing"),
            }
        }
    }

    fn submit(&mut self, drive: &mut Drive, number: u64) {
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let event = self.event();
        let (first, value) = ((random >> 8) as usize % BLOCKS, 1 + (number % 250) as u8);
        let blocks = if random & 1 == 1 { 2.min(BLOCKS - first) } else { 1 };
        let (offset, bytes) = (first as u64 * u64::from(BLOCK), blocks as u32 * BLOCK);
        let data = vec![value; bytes as usize];
        let (operation, value) = match random >> 1 & 7 {
            0 | 1 => (Operation::flush(), None),
            2 => (Operation::discard(offset, bytes), Some(0)),
            3 => (Operation::write_zeroes(offset, bytes), Some(0)),
            _ => (Operation::write(offset, &data), Some(value)),
        };
        let is_durable = value.is_some() && random >> 4 & 7 == 0;
        let operation = if is_durable { operation.durable() } else { operation };
        let queue = (random >> 12 & 1) as u16;
        let ticket = drive.submit(drive.now(), queue, operation).unwrap();
        let submitted = match value {
            Some(value) => {
                self.changes.push(Change { first, blocks, value, is_durable, completed: None });
                Submitted::Change(self.changes.len() - 1)
            }
            None => {
                self.flushes.push((event, false));
                Submitted::Flush(self.flushes.len() - 1)
            }
        };
        self.tickets.insert(ticket, submitted);
    }

    /// True if a change must be there, by the words of the specifications.
    fn must_be_there(&self, change: &Change, is_protected: bool) -> bool {
        let Some(completed) = change.completed else { return false };
        let is_flushed = self.flushes.iter().any(|(submitted, is_done)| *is_done && *submitted > completed);
        is_protected || change.is_durable || is_flushed
    }

    /// Returns every state that a power cut may leave; none if they are too many.
    fn legal_states(&self, is_protected: bool) -> Option<BTreeSet<State>> {
        let open: Vec<bool> = self.changes.iter().map(|change| !self.must_be_there(change, is_protected)).collect();
        let parts: usize =
            self.changes.iter().zip(&open).filter(|(_, is_open)| **is_open).map(|(it, _)| it.blocks).sum();
        let state = |there: u64| {
            let (mut state, mut bit) = ([0; BLOCKS], 0);
            for (change, is_open) in self.changes.iter().zip(&open) {
                for block in 0..change.blocks {
                    if !is_open || there >> bit & 1 == 1 {
                        state[change.first + block] = change.value;
                    }
                    bit += usize::from(*is_open);
                }
            }
            state
        };
        (parts <= PARTS_MAX).then(|| (0..1 << parts).map(state).collect())
    }
}

fn states(drive: &Drive) -> BTreeSet<State> {
    let images = drive.images(1 << (PARTS_MAX + 1), 1).unwrap();
    let state = |image: &phaselink_embed::LegalImage| {
        let mut bytes = [0; BLOCKS * BLOCK as usize];
        image.read(0, &mut bytes).unwrap();
        std::array::from_fn(|block| bytes[block * BLOCK as usize])
    };
    images.iter().map(state).collect()
}

#[test]
fn legal_images_at_any_instant_are_exactly_the_specified_states() {
    for (name, is_protected) in [("tlc-gen4", false), ("tlc-gen5", true)] {
        let (mut compared, mut most) = (0, 0);
        for seed in 0..12u64 {
            let description = Description::shipped(name).unwrap().with("nvme.block_bytes=512").unwrap();
            let mut drive = description.with_power_cuts().seed(seed + 1).open().unwrap();
            assert_eq!((drive.block_bytes(), drive.is_volatile()), (BLOCK, !is_protected));
            let mut log = Log::default();
            for step in 0..400u64 {
                let number = seed << 32 | step;
                log.submit(&mut drive, number);
                let pause = [0, 0, 3, 40, 900][(number.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as usize % 5];
                drive.advance(drive.now() + Span::from_us(pause)).unwrap();
                log.take(&mut drive);
                if let Some(legal) = log.legal_states(is_protected) {
                    assert_eq!(states(&drive), legal, "{name}, seed {seed}, step {step}");
                    (compared, most) = (compared + 1, most.max(legal.len()));
                }
            }
            drive.advance(Time::ZERO + Span::from_s(1)).unwrap();
        }
        assert!(compared > 100 && most > 20, "{name}: {compared} instants with up to {most} states");
    }
}
