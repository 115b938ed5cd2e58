//! Copies between a store and the memory of clients, by the fastest instructions for their length and direction.
//!
//! The fastest method depends on the processor, on the pages of the store, and on whether the working set fits its
//! caches. Nanoseconds of a copy of 4 KiB into the store, by one thread of an AMD EPYC of 2021 with 32 MiB of
//! last-level cache:
//!
//! | working set | vectors | streams | strings |
//! |---|---|---|---|
//! | 8 MiB | 144 | 371 | 212 |
//! | 64 MiB | 407 | 350 | 423 |
//! | 256 MiB | 510 | 318 | 487 |
//!
//! (With a fence after each streamed copy. With one fence for eight copies, each takes 70 to 100 ns less.)
//!
//! On a processor of 2024, the string instruction copies 128 KiB out of the store a fifth faster than any other method;
//! on this one it does not. So each thread measures its own long copies. It uses one method for a long phase, then
//! another for a short phase, and continues with the faster one.

use phaselink_core::number::length;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use phaselink_client::shared::words::{self, CopyMethod, fence_streams};

/// Length in bytes from which copies into the store may use streaming stores. A single shorter copy would wait for the
/// memory at its fence.
const STREAM_BYTES_MIN: usize = 2048;
/// Length in bytes from which copies out of the store may use the string instruction, which has a long start-up time.
const STRING_BYTES_MIN: usize = 16 << 10;
/// Length in bytes from which copies into the store count as long, and are measured separately from shorter ones.
const LONG_BYTES: usize = 16 << 10;

/// Number of bytes that a phase copies by the faster method.
const PHASE_BYTES: usize = 1 << 30;
/// Number of bytes that a phase copies to try the other method: a core's share of the last-level cache. A working set
/// that fits is cached again before copies are measured.
const TRIAL_BYTES: usize = 16 << 20;
/// Number of copies that are measured at the end of a phase.
const MEASURED: usize = 15;

thread_local! {
    /// True if the thread has used streaming stores into a store since the last [`finish`].
    static HAS_STREAMED: Cell<bool> = const { Cell::new(false) };
    static CHOICES: RefCell<CopyMethodChoices> = const { RefCell::new(CopyMethodChoices::new()) };
}

/// Choices of copy methods of one thread: for short and long copies into a store, and long copies out of it.
#[derive(Debug)]
struct CopyMethodChoices {
    short_in: CopyMethodChoice,
    long_in: CopyMethodChoice,
    long_out: CopyMethodChoice,
}

impl CopyMethodChoices {
    const fn new() -> CopyMethodChoices {
        CopyMethodChoices {
            short_in: CopyMethodChoice::new([CopyMethod::Streams, CopyMethod::Vectors]),
            long_in: CopyMethodChoice::new([CopyMethod::Streams, CopyMethod::Vectors]),
            long_out: CopyMethodChoice::new([CopyMethod::Vectors, CopyMethod::Strings]),
        }
    }
}

/// Makes this thread's copies visible to other threads before any later store. The thread calls it before it writes a
/// completion. One call for a batch is cheaper than one for each copy.
#[inline]
pub(crate) fn finish() {
    if HAS_STREAMED.replace(false) {
        fence_streams();
    }
}

/// Copies words that a client may be changing into the store. The number of words is that of the shorter slice.
#[inline]
pub(crate) fn copy_words_into_store(from: &[AtomicU64], stored: &[AtomicU64]) {
    let bytes = from.len().min(stored.len()) * size_of::<u64>();
    copy_in_by_chosen_method(bytes, |method| words::copy(method, from, stored));
}

/// Copies bytes into the store. The number of bytes is that of the shorter slice.
#[inline]
pub(crate) fn copy_bytes_into_store(from: &[u8], stored: &[AtomicU64]) {
    copy_in_by_chosen_method(from.len(), |method| words::copy_to_words(method, from, stored));
}

/// Copies words out of the store into memory that a client may be changing. The number of words is that of the shorter
/// slice.
#[inline]
pub(crate) fn copy_words_out_of_store(stored: &[AtomicU64], into: &[AtomicU64]) {
    let bytes = stored.len().min(into.len()) * size_of::<u64>();
    let copy = |method| words::copy(method, stored, into);
    match bytes >= STRING_BYTES_MIN {
        true => CHOICES.with_borrow_mut(|choices| choices.long_out.run(bytes, copy)),
        false => copy(CopyMethod::Vectors),
    }
}

/// Returns true if a copy of `bytes` bytes into the store loads the overwritten cache lines, so that prefetching them
/// pays.
#[inline]
pub(crate) fn copy_loads_overwritten_lines(bytes: u32) -> bool {
    (bytes as usize) < STREAM_BYTES_MIN
}

#[inline]
fn copy_in_by_chosen_method(bytes: usize, copy: impl Fn(CopyMethod)) {
    if bytes < STREAM_BYTES_MIN {
        return copy(CopyMethod::Vectors);
    }
    HAS_STREAMED.set(true);
    CHOICES.with_borrow_mut(|choices| match bytes < LONG_BYTES {
        true => choices.short_in.run(bytes, copy),
        false => choices.long_in.run(bytes, copy),
    });
}

/// Choice between two copy methods by the measured costs of copies.
#[derive(Debug)]
struct CopyMethodChoice {
    methods: [CopyMethod; 2],
    /// Index in `methods` of the method in use.
    used: usize,
    /// True if this phase tries the method that was slower last time.
    is_trial: bool,
    /// Number of bytes left in the phase before copies are measured.
    left: usize,
    /// Costs of the copies measured in this phase, in picoseconds a byte.
    measured: [u64; MEASURED],
    count: usize,
    /// Median cost of each method when it was last measured, in picoseconds a byte.
    costs: [u64; 2],
}

impl CopyMethodChoice {
    /// Returns a choice that begins with the first method, and tries the second after a short phase.
    const fn new(methods: [CopyMethod; 2]) -> CopyMethodChoice {
        let (measured, costs) = ([0; MEASURED], [u64::MAX; 2]);
        CopyMethodChoice { methods, used: 0, is_trial: false, left: TRIAL_BYTES, measured, count: 0, costs }
    }

    /// Copies by the method in use, and measures the copy at the end of a phase.
    #[inline]
    fn run(&mut self, bytes: usize, copy: impl Fn(CopyMethod)) {
        let method = self.methods[self.used];
        if self.left > bytes {
            self.left -= bytes;
            return copy(method);
        }
        self.measure_copy_cost(bytes, || copy(method));
    }

    /// Measures the cost of a copy up to the time when its stores have left the core.
    #[cold]
    fn measure_copy_cost(&mut self, bytes: usize, copy: impl Fn()) {
        fence(Ordering::SeqCst);
        let started = Instant::now();
        copy();
        fence(Ordering::SeqCst);
        self.note(started.elapsed().as_nanos() as u64 * 1000 / length(bytes));
    }

    /// Adds the cost of a copy in picoseconds a byte. The last one of a phase decides on the method of the next phase.
    fn note(&mut self, cost: u64) {
        self.measured[self.count] = cost;
        self.count += 1;
        if self.count < MEASURED {
            return;
        }
        self.count = 0;
        self.measured.sort_unstable();
        self.costs[self.used] = self.measured[MEASURED / 2];
        let other = 1 - self.used;
        // After each long phase, try the other method for a short phase, since its cost may have changed.
        let ends_trial = self.is_trial;
        self.is_trial = !ends_trial;
        if !ends_trial || self.costs[other] < self.costs[self.used] {
            self.used = other;
        }
        self.left = if self.is_trial { TRIAL_BYTES } else { PHASE_BYTES };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs phases of copies with these costs by method. Returns the method of each long phase.
    fn methods_of_long_phases(
        choice: &mut CopyMethodChoice,
        cost: impl Fn(CopyMethod) -> u64,
        phases: usize,
    ) -> Vec<CopyMethod> {
        let mut found = Vec::new();
        while found.len() < phases {
            (0..MEASURED).for_each(|_| choice.note(cost(choice.methods[choice.used])));
            if !choice.is_trial {
                assert_eq!(choice.left, PHASE_BYTES);
                found.push(choice.methods[choice.used]);
            }
        }
        found
    }

    #[test]
    fn faster_copy_method_is_used_between_trials_and_follows_the_working_set() {
        use CopyMethod::{Streams, Vectors};
        let mut choice = CopyMethodChoice::new([Streams, Vectors]);
        let is_cached = |method| if method == Vectors { 40 } else { 90 };
        let is_not = |method| if method == Vectors { 120 } else { 80 };
        assert_eq!(methods_of_long_phases(&mut choice, is_cached, 3), [Vectors; 3]);
        assert_eq!(methods_of_long_phases(&mut choice, is_not, 3), [Streams; 3]);
        assert_eq!(methods_of_long_phases(&mut choice, is_cached, 2), [Vectors; 2]);
    }

    #[test]
    fn trials_copy_a_sixtieth_of_the_bytes_and_ignore_interrupted_copies() {
        let mut choice = CopyMethodChoice::new([CopyMethod::Streams, CopyMethod::Vectors]);
        methods_of_long_phases(&mut choice, |method| if method == CopyMethod::Vectors { 2 } else { 1 }, 1);
        let (copied, tried) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        while copied.get() < 4 * PHASE_BYTES {
            let is_trial = choice.is_trial;
            choice.run(128 << 10, |_| {
                copied.set(copied.get() + (128 << 10));
                tried.set(tried.get() + if is_trial { 128 << 10 } else { 0 });
            });
        }
        assert!(tried.get() * 50 < copied.get(), "{} of {}", tried.get(), copied.get());
        let mut choice = CopyMethodChoice::new([CopyMethod::Streams, CopyMethod::Vectors]);
        let interrupted = std::cell::Cell::new(0);
        let cost = |method| {
            interrupted.set(interrupted.get() + 1);
            if interrupted.get() % 3 == 0 {
                1_000_000
            } else if method == CopyMethod::Vectors {
                50
            } else {
                60
            }
        };
        assert_eq!(methods_of_long_phases(&mut choice, cost, 3), [CopyMethod::Vectors; 3]);
    }

    #[test]
    fn copies_of_every_length_and_direction_transfer_all_bytes() {
        for count in [0, 1, 8, 63, 64, 255, 256, 257, 2047, 2048, 2049, 16_384] {
            let from: Vec<AtomicU64> = (0..count).map(AtomicU64::new).collect();
            let bytes: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
            let [into, out, of_bytes] = [(); 3].map(|()| (0..count).map(|_| AtomicU64::new(7)).collect::<Vec<_>>());
            copy_words_into_store(&from, &into);
            copy_words_out_of_store(&into, &out);
            copy_bytes_into_store(&bytes, &of_bytes);
            for copied in [into, out, of_bytes] {
                assert!(copied.iter().zip(0..).all(|(word, value)| word.load(Ordering::Relaxed) == value), "{count}");
            }
        }
    }
}
