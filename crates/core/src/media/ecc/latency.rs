//! Clocks of a decoder in the logic of the card, for `media` to charge.
//!
//! No paper gives them. This is a decoder of the usual three stages, sized for the card's Zynq-7045 (218,600 six-input
//! look-up tables, DS190): one for the card, since 75 k reads/s of eight sectors (PSS, section 3) leave it 1.67 us for a
//! sector. The remainder is formed while the bytes arrive and costs nothing after the last of them.

use super::sector::{CHIPS, CORRECTED_BITS, STORED_BITS, Verdict};

/// Clock of the decoder: usual for this logic (assumed).
pub const CLOCK_HZ: u64 = 200_000_000;

/// Last word into the remainder, two levels of "is it zero" over 512 bits, decision (assumed).
const CHECK: u64 = 4;
/// The remainder's values at 39 points, each a sum of some 256 bits: four levels of six-input tables (6^4 > 256).
const EVALUATE: u64 = 4;
/// Inversion-free Berlekamp-Massey: 39 steps, each a product and a sum.
const LOCATE: u64 = 2 * CORRECTED_BITS as u64;
/// Positions that the root search tries in a clock. 32 * 39 constant multipliers of some 20 tables each are 25 k of the
/// tables, 11 % (assumed).
const POSITIONS_A_CLOCK: u64 = 32;
const SEARCH: u64 = (STORED_BITS as u64).div_ceil(POSITIONS_A_CLOCK);
/// Words by which the remainder goes back for each chip behind the restored one, one a clock.
const BACK_A_CHIP: u64 = 8;

/// Clocks from the last byte of a sector to its verdict; the bytes are right then.
pub fn clocks(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::Clean => CHECK,
        Verdict::Corrected { .. } | Verdict::Uncorrectable => CHECK + EVALUATE + LOCATE + SEARCH,
        Verdict::Restored { chip } => CHECK + BACK_A_CHIP * (CHIPS - 1 - chip) as u64,
    }
}

/// The same in nanoseconds: 20 for a clean sector, 1150 for one with wrong bits, 20 to 340 for a restored chip.
pub fn nanoseconds(verdict: Verdict) -> u64 {
    clocks(verdict) * (1_000_000_000 / CLOCK_HZ)
}

/// The mean over sectors at a raw bit error rate.
pub fn mean_nanoseconds(raw_bit_error_rate: f64) -> f64 {
    let damaged = super::rates::tail(STORED_BITS, raw_bit_error_rate, 0);
    let (clean_ns, damaged_ns) = (nanoseconds(Verdict::Clean), nanoseconds(Verdict::Uncorrectable));
    clean_ns as f64 + damaged * (damaged_ns - clean_ns) as f64
}
