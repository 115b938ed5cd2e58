//! Latency of an ECC decoder in the logic of the card, which the memory model adds to reads.
//!
//! No paper gives it. This is a decoder of the usual three stages, sized for the card's Zynq-7045 (218,600 six-input
//! look-up tables, DS190): one for the card, since 75 k reads/s of eight sectors (PSS, section 3) leave it 1.67 us for
//! a sector. The remainder is formed while the bytes arrive and costs nothing after the last of them.

use super::sector::{CHIPS, CORRECTED_BITS, DecodeVerdict, STORED_BITS};
use crate::number::{length, real};

/// Clock frequency of the ECC decoder in Hz: usual for logic of this kind (assumed).
pub const CLOCK_HZ: u64 = 200_000_000;

/// Number of clocks that the decoder takes to find a sector clean: last word into the remainder, two levels of "is it
/// zero" over 512 bits, decision (assumed).
const CHECK: u64 = 4;
/// Number of clocks to evaluate the remainder at 39 points, each a sum of some 256 bits: four levels of six-input
/// tables (6^4 > 256).
const EVALUATE: u64 = 4;
/// Number of clocks that inversion-free Berlekamp-Massey takes to compute the error locator: 39 steps, each a product
/// and a sum.
const LOCATE: u64 = 2 * length(CORRECTED_BITS);
/// Number of bit positions that the root search tries in one clock. 32 * 39 constant multipliers of some 20 tables each
/// are 25 k of the tables, 11 % (assumed).
const POSITIONS_A_CLOCK: u64 = 32;
/// Number of clocks that the decoder's root search takes for all bits of a sector.
const SEARCH: u64 = (STORED_BITS as u64).div_ceil(POSITIONS_A_CLOCK);
/// Number of clocks that the decoder takes for each chip that follows a restored chip: the remainder is moved back by
/// the chip's words, one per clock.
const BACK_A_CHIP: u64 = 8;

/// Returns the number of decoder clocks from the last byte of a sector to its verdict. The bytes are corrected by then.
pub fn clocks(verdict: DecodeVerdict) -> u64 {
    match verdict {
        DecodeVerdict::Clean => CHECK,
        DecodeVerdict::Corrected { .. } | DecodeVerdict::Uncorrectable => CHECK + EVALUATE + LOCATE + SEARCH,
        DecodeVerdict::Restored { chip } => CHECK + BACK_A_CHIP * length(CHIPS - 1 - chip),
    }
}

/// Returns the latency of the ECC decoder in nanoseconds: 20 for a clean sector, 1150 for a sector with wrong bits, 20
/// to 340 for a restored chip.
pub fn nanoseconds(verdict: DecodeVerdict) -> u64 {
    clocks(verdict) * (1_000_000_000 / CLOCK_HZ)
}

/// Returns the mean decoder latency in nanoseconds over sectors with this raw bit error rate. Failed chips are not part
/// of the mean.
pub fn mean_decode_ns(raw_bit_error_rate: f64) -> f64 {
    let damaged = super::rates::probability_more_wrong(STORED_BITS, raw_bit_error_rate, 0);
    let (clean_ns, damaged_ns) = (nanoseconds(DecodeVerdict::Clean), nanoseconds(DecodeVerdict::Uncorrectable));
    real(clean_ns) + damaged * real(damaged_ns - clean_ns)
}
