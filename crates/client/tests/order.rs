//! The order of memory accesses, explored in every interleaving and with every value that the memory model allows: the
//! functions are those that serve, on loom's words instead of the processor's.

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use phaselink_client::chunk::{self, CHUNK_WORDS, COMMAND_WORDS, Word};
use phaselink_ring::command::{Command, FIRST_PASS, Operation};
use phaselink_ring::status::Status;
use phaselink_ring::trailer::{Tag, TagWidth};

const TAG: Tag = Tag { value: 0xfeed, width: TagWidth::Bits32 };
/// One chunk and the beginning of another, to have two trailers with few words.
const WORDS: usize = CHUNK_WORDS + 2;

/// A word of the model.
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

struct Shared {
    /// Whether the device's data comes from bytes of its own, or from words that others may be changing.
    from_words: bool,
    entry: Vec<Modelled>,
    buffer: Vec<Modelled>,
    status: Modelled,
}

fn modelled(words: usize) -> Vec<Modelled> {
    (0..words).map(|_| Modelled(AtomicU64::new(0))).collect()
}

fn shared(from_words: bool) -> Arc<Shared> {
    Arc::new(Shared {
        from_words,
        entry: modelled(COMMAND_WORDS),
        buffer: modelled(WORDS),
        status: Modelled(AtomicU64::new(0)),
    })
}

fn data() -> Vec<u8> {
    (1..=WORDS as u64).flat_map(u64::to_le_bytes).collect()
}

fn command(operation: Operation) -> Command {
    let bytes = 8 * WORDS as u32;
    let (pass, offset, tag) = (FIRST_PASS, 1 << 40, TAG.value);
    Command { operation, pass, slot: 3, attempt: 1, offset, bytes, buffer: 77, tag }
}

/// The device: a look or two at the ring, and what it finds.
fn device(shared: &Shared) {
    for _ in 0..2 {
        let Some(bytes) = chunk::take(&shared.entry, FIRST_PASS) else {
            thread::yield_now();
            continue;
        };
        let found = Command::decode(&bytes).expect("a command is seen whole");
        assert_eq!(found, command(found.operation));
        if found.operation == Operation::Read {
            deliver(shared);
        } else {
            let mut found = vec![0; 8 * WORDS];
            chunk::copy_out(&shared.buffer, &mut found);
            assert_eq!(found, data(), "data of a write is there with its command");
        }
        shared.status.store(Status::Success.word(1), Ordering::Release);
        return;
    }
}

fn deliver(shared: &Shared) {
    if shared.from_words {
        let words: Vec<_> = (1..=WORDS as u64).map(|word| Modelled(AtomicU64::new(word))).collect();
        chunk::forward(&shared.buffer, &words);
    } else {
        chunk::deliver(&shared.buffer, &data());
    }
}

fn explore(from_words: bool, host: fn(&Shared)) {
    let mut model = loom::model::Builder::new();
    // There is one hand-over in each direction, so more than two preemptions cannot show further behaviour.
    model.preemption_bound = Some(2);
    // Each access to a word counts as one branch.
    model.max_branches = 16 * WORDS;
    model.check(move || {
        let shared = shared(from_words);
        let there = Arc::clone(&shared);
        let device = thread::spawn(move || device(&there));
        host(&shared);
        device.join().unwrap();
    });
}

fn read_until_complete(shared: &Shared) {
    chunk::mark(&shared.buffer, TAG);
    chunk::publish(&shared.entry, &command(Operation::Read).encode());
    for _ in 0..2 {
        if chunk::is_complete(&shared.buffer, TAG) {
            let mut found = vec![0; 8 * WORDS];
            chunk::copy_out(&shared.buffer, &mut found);
            assert_eq!(found, data());
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn read_with_cleared_tags_has_all_its_data() {
    explore(false, read_until_complete);
}

#[test]
fn read_from_shared_words_has_all_its_data() {
    explore(true, read_until_complete);
}

#[test]
fn status_is_visible_only_after_its_data() {
    explore(false, |shared| {
        chunk::mark(&shared.buffer, TAG);
        chunk::publish(&shared.entry, &command(Operation::Read).encode());
        if shared.status.load(Ordering::Acquire) == Status::Success.word(1) {
            assert!(chunk::is_complete(&shared.buffer, TAG), "a tag that stands now is the data's own");
        }
    });
}

#[test]
fn write_data_is_visible_with_its_command() {
    explore(false, |shared| {
        chunk::copy_in(&shared.buffer, &data());
        chunk::publish(&shared.entry, &command(Operation::Write).encode());
    });
}

#[test]
#[should_panic(expected = "as it should be")]
fn loom_finds_a_trailer_stored_without_release() {
    explore_unordered();
}

/// The same with the device's mistake: the trailer is stored relaxed.
fn explore_unordered() {
    loom::model(|| {
        let words = Arc::new(modelled(2));
        let there = Arc::clone(&words);
        words[1].store(TAG.value << 32, Ordering::Relaxed);
        let device = thread::spawn(move || {
            there[0].store(5, Ordering::Relaxed);
            there[1].store(6, Ordering::Relaxed);
        });
        if chunk::is_complete(&words, TAG) && words[1].load(Ordering::Relaxed) == 6 {
            assert_eq!(words[0].load(Ordering::Relaxed), 5, "as it should be");
        }
        device.join().unwrap();
    });
}
