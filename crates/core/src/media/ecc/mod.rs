//! Error correction of a sector that lies in nine chips, over real bytes.
//!
//! The card of the PSS paper stores a sector of 512 bytes in eight chips of 64 and "for ECC and metadata" uses one
//! more, with "a two-level error-coding scheme" (section 2): an efficiency of 8/9. The paper names no codes. The eight
//! chips are full of user bytes, so that both levels share the 512 bits of the spare chip:
//!
//! | bits | for |
//! |-----:|-----|
//! | 507 | level 1, bits: a BCH code over GF(2^13) that corrects 39 wrong bits anywhere in the nine chips (39 * 13) |
//! | 5 | a factor (x + 1)(x^4 + x + 1) of the generator: even weights, so that 40 wrong bits are always noticed |
//! | 512 | level 2, chips: all of them together restore any one chip that is known to have failed |
//! | 0 | metadata: an address is covered by the code without being stored |
//!
//! Level 2 costs no further bits. The generator has degree 512, and words that are multiples of a polynomial of degree
//! r with a constant term restore any run of r lost bits: the run is the remainder of what is left, divided by a power
//! of x. Each chip holds such a run.
//!
//! No code can do more. Read as a code of nine symbols, eight of which are free, this one has distance two, the
//! Singleton bound. A code that restores a whole chip has no bit left for anything else: metadata, the search for a
//! chip that failed unnoticed, or a check of the other eight chips while one is restored. `docs/ecc.md` compares the
//! alternatives.
//!
//! [`SectorCodec`] encodes and decodes. [`inject`] damages sectors and counts the outcomes of decoding. [`rates`]
//! computes the rate of uncorrectable errors from a raw bit error rate, [`endurance`] the raw bit error rate after a
//! number of write cycles, [`latency`] the time that a decoder in logic takes.

mod bch;
pub mod endurance;
mod field;
mod inject;
pub mod latency;
pub mod rates;
mod remainder;
mod sector;

pub use inject::{DecodeOutcomeCounts, SectorDamage, SectorDecodeOutcome, inject};
pub use sector::{
    CHIP_BYTES, CHIPS, CORRECTED_BITS, Chips, DATA_CHIPS, DecodeVerdict, SECTOR_BYTES, STORED_BITS, SectorCodec,
};

#[cfg(test)]
mod tests;

/// Returns the argument in `low..high` at which the increasing `function` passes `target`, to the last bits of a
/// double. The interval must be no wider than 128.
fn find_crossing(mut low: f64, mut high: f64, target: f64, function: impl Fn(f64) -> f64) -> f64 {
    // 60 halvings of an interval of at most 128 reach the 53 bits of a double.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if function(middle) < target { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
