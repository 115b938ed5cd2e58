//! Words of shared memory as `AtomicU64`, and copies of many words by a chosen method.

use std::sync::atomic::{AtomicU64, Ordering};

use super::wide;
pub use super::wide::{CopyMethod, fence_streams};
use crate::chunk::{LINE_BYTES, LINE_WORDS, Word, copy_words, load_words, store_words};
use phaselink_ring::layout::WORD_BYTES;

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch(&self) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint without effect on memory or registers.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(self).cast()) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch_to_write(&self) {
        let word = std::ptr::from_ref(self);
        // The compiler's prefetch for writing becomes one for reading unless PREFETCHW is enabled, so write the
        // instruction here. Processors without it ignore it (Intel's manual, volume 2, PREFETCHW).
        // SAFETY: a prefetch is a hint without effect on memory or registers.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn load_all(words: &[AtomicU64], into: &mut [u8]) {
        let lines = words.len().min(into.len() / WORD_BYTES) / LINE_WORDS;
        // SAFETY: both ranges have at least `lines` cache lines. `into` is a mutable borrow, so it does not overlap the
        // shared words.
        let done = unsafe { wide::copy(CopyMethod::Vectors, words.as_ptr().cast(), into.as_mut_ptr(), lines) };
        load_words(&words[done * LINE_WORDS..], &mut into[done * LINE_BYTES..]);
    }

    #[inline]
    fn store_all(words: &[AtomicU64], from: &[u8]) {
        copy_to_words(CopyMethod::Vectors, from, words);
    }

    #[inline]
    fn copy_all(from: &[AtomicU64], into: &[AtomicU64]) {
        copy(CopyMethod::Vectors, from, into);
    }
}

/// Copies words that other threads may be changing to other words. The number of words is that of the shorter slice. A
/// later store with release makes them visible, after [`fence_streams`] if they have been streamed.
#[inline]
pub fn copy(method: CopyMethod, from: &[AtomicU64], into: &[AtomicU64]) {
    let lines = from.len().min(into.len()) / LINE_WORDS;
    // SAFETY: both ranges have at least `lines` cache lines, and atomics may be written through a shared reference. If
    // the ranges overlap, the result depends on the order of copies, but every word stays valid.
    let done = unsafe { wide::copy(method, from.as_ptr().cast(), into.as_ptr().cast::<u8>().cast_mut(), lines) };
    copy_words(&from[done * LINE_WORDS..], &into[done * LINE_WORDS..]);
}

/// Copies bytes to words that other threads may be reading. The number of words is that of the shorter slice. A later
/// store with release makes them visible, after [`fence_streams`] if they have been streamed.
#[inline]
pub fn copy_to_words(method: CopyMethod, from: &[u8], into: &[AtomicU64]) {
    let lines = into.len().min(from.len() / WORD_BYTES) / LINE_WORDS;
    // SAFETY: both ranges have at least `lines` cache lines, and atomics may be written through a shared reference.
    let done = unsafe { wide::copy(method, from.as_ptr(), into.as_ptr().cast::<u8>().cast_mut(), lines) };
    store_words(&into[done * LINE_WORDS..], &from[done * LINE_BYTES..]);
}
