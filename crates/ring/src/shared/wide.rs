//! Copies of whole cache lines by vectors, between memory that others may be reading and writing.
//!
//! A store waits in the processor until its line is there, and some seventy can wait. By words these are nine lines, by
//! vectors of half a line thirty-six: enough to have as many lines on their way as a processor can. Two pinned threads
//! have come from 4.2 to 5.4 million transfers of 512 bytes a second by that, and from 0.84 to 1.2 of 4 KiB.
//!
//! The language has no atomic access wider than a word, and no other that may meet a peer's; instructions written out
//! are what its memory model leaves to the processor's. On x86-64, vectors are loaded and stored in order with all other
//! accesses, and tear at most into words: as relaxed words do.

/// Copy `lines` cache lines if the processor has vectors, and return how many have been copied: all, or none.
///
/// # Safety
/// `from` may be read and `into` written for so many lines. Either may be shared with others, if all of them make do
/// with words that are old or new.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn copy(from: *const u8, into: *mut u8, lines: usize) -> usize {
    if lines == 0 || !std::arch::is_x86_feature_detected!("avx") {
        return 0;
    }
    // SAFETY: the caller's, for `lines` times 64 bytes; the processor has the instructions.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovdqu ymm0, [rsi]",
            "vmovdqu ymm1, [rsi + 32]",
            "vmovdqu [rdi], ymm0",
            "vmovdqu [rdi + 32], ymm1",
            "add rsi, 64",
            "add rdi, 64",
            "dec rcx",
            "jnz 2b",
            // Upper halves that are left behind slow the next instructions that know of lower ones alone.
            "vzeroupper",
            inout("rsi") from => _,
            inout("rdi") into => _,
            inout("rcx") lines => _,
            // The vectors, all of whose upper halves are gone.
            clobber_abi("C"),
            options(nostack),
        );
    }
    lines
}

#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy(_from: *const u8, _into: *mut u8, _lines: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use crate::chunk;

    fn words(values: impl Iterator<Item = u64>) -> Vec<AtomicU64> {
        values.map(AtomicU64::new).collect()
    }

    /// Around every boundary of lines and chunks, and at places that are no beginning of a line.
    #[test]
    fn copies_of_every_length_are_whole_and_end_where_they_should() {
        for count in (1..70).chain(503..522).chain(1015..1034) {
            let values = || (0..count).map(|word| u64::MAX - word);
            let bytes: Vec<u8> = values().flat_map(u64::to_le_bytes).collect();
            for first in 0..9 {
                let buffers = [(); 3].map(|()| words((0..count + 16).map(|_| 7)));
                let place = first..first + count as usize;
                chunk::copy_in(&buffers[0][place.clone()], &bytes);
                chunk::deliver(&buffers[1][place.clone()], &bytes);
                chunk::forward(&buffers[2][place.clone()], &words(values()));
                for buffer in &buffers {
                    let mut found = vec![0; bytes.len() + 8];
                    chunk::copy_out(&buffer[place.clone()], &mut found);
                    assert_eq!(found, [&bytes[..], &[0; 8]].concat(), "{count} words at {first}");
                    let rest = buffer[..first].iter().chain(&buffer[place.end..]);
                    assert!(rest.into_iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 7));
                }
            }
        }
    }
}
