//! Raw rate of the wire: the time that bytes take on it.

use crate::config;
use crate::number::{real, whole};
use crate::time::Span;

/// Symbols between skip ordered sets and symbols in each, generations 1 and 2: the longest interval that the
/// specification allows (PCI Express Base Specification 6.0, section 4.2.7.3).
const SKIP_8B10B: (u64, u64) = (1538, 4);
/// Blocks between skip ordered sets and blocks in each, generation 3 and later: one block in at most 375 (section
/// 4.2.7.4).
const SKIP_128B130B: (u64, u64) = (375, 1);
/// Bytes of a flit, and the number of them that carry packets (section 4.2.3.4: 6 B of DLLP, 8 B of CRC, 6 B of FEC).
const FLIT: (u64, u64) = (256, 236);

/// Wire time of one byte as an exact fraction of picoseconds: `ps / bytes`.
#[derive(Clone, Copy, Debug)]
pub struct WireRate {
    ps: u64,
    bytes: u64,
}

impl WireRate {
    /// Computes the wire rate of a link less its encoding, and less its skip ordered sets if the description counts
    /// them.
    pub fn new(link: &config::Link) -> WireRate {
        let lanes = u64::from(link.lanes);
        // Time in picoseconds in which one lane transfers `bytes`, encoding included: 8b/10b, 128b/130b, or flits.
        let (ps, bytes) = match link.generation {
            // A rate given in the drive file, exact to one part in 10^9.
            _ if link.lane_bytes_per_ns > 0.0 => (whole((1e9 / link.lane_bytes_per_ns).round()), 1_000_000),
            1 => (4_000, 1),
            2 => (2_000, 1),
            generation @ 3..=5 => (130 * (1_000 >> (generation - 3)), 128),
            6 => (125 * FLIT.0, FLIT.1),
            // Generation 7 has twice the symbol rate of generation 6 with flits of the same size (PCI Express Base
            // Specification 7.0, section 4.2).
            _ => (125 * FLIT.0, 2 * FLIT.1),
        };
        let (every, skip) = match (link.skip_ordered_sets, link.generation) {
            (false, _) => (1, 0),
            (true, 1 | 2) => SKIP_8B10B,
            (true, _) => SKIP_128B130B,
        };
        WireRate { ps: ps * (every + skip), bytes: bytes * lanes * every }
    }

    /// Returns the time that `bytes` take on the wire, rounded up to a picosecond.
    pub fn time(&self, bytes: u32) -> Span {
        Span::from_ps((u64::from(bytes) * self.ps).div_ceil(self.bytes))
    }

    /// Returns the rate of the wire in bytes per nanosecond.
    pub fn bytes_per_ns(&self) -> f64 {
        real(self.bytes) * 1e3 / real(self.ps)
    }
}

/// Returns the number of packets that one ACK acknowledges on a busy link: the AckFactor of tables 3-7 and 3-8 of the
/// PCI Express Base Specification (4.0, section 3.6.3.1) by width and payload size. UpdateFC packets keep the same
/// pace.
pub fn ack_factor(lanes: u8, max_payload_bytes: u32) -> f64 {
    match (max_payload_bytes, lanes) {
        (128 | 256, ..=4) => 1.4,
        (128 | 256, 8) => 2.5,
        (128 | 256, _) => 3.0,
        (512, ..=4) => 1.0,
        (_, ..=8) => 1.0,
        (_, _) => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire_rate_of(generation: u8, lanes: u8, skip_ordered_sets: bool) -> WireRate {
        WireRate::new(&config::Link { generation, lanes, skip_ordered_sets, ..Default::default() })
    }

    #[test]
    fn write_of_128_bytes_takes_76_ns_on_gen2_x4() {
        assert_eq!(wire_rate_of(2, 4, false).time(152), Span::from_ns(76));
    }

    #[test]
    fn link_generations_have_the_specified_rates() {
        let rates = [0.25, 0.5, 0.984_615, 1.969_231, 3.938_462, 7.375, 14.75];
        for (generation, expected) in (1..=7).zip(rates) {
            let found = wire_rate_of(generation, 1, false).bytes_per_ns();
            assert!((found - expected).abs() < 1e-6, "generation {generation}: {found}");
        }
    }

    #[test]
    fn skip_ordered_sets_cost_a_quarter_percent() {
        for generation in 1..=7 {
            let ratio =
                wire_rate_of(generation, 4, false).bytes_per_ns() / wire_rate_of(generation, 4, true).bytes_per_ns();
            assert!((1.0025..1.0027).contains(&ratio), "generation {generation}: {ratio}");
        }
    }
}
