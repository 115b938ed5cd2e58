//! Energy of reads and writes of a memory, from the energy per bit.

use super::Media;
use crate::config;
use crate::number::real;

/// Number of bits in a byte.
const BITS: f64 = 8.0;
/// Number of joules in a picojoule.
const PJ: f64 = 1e-12;

impl Media {
    /// Returns the energy of all accesses so far in joules, copies of lines for wear levelling included. `None` if the
    /// configuration gives no energy per bit. Standby and refresh are not counted.
    pub fn joules(&self, config: &config::Media) -> Option<f64> {
        let (read_pj, write_pj) = (config.read_pj_per_bit, config.write_pj_per_bit);
        if read_pj == 0.0 && write_pj == 0.0 {
            return None;
        }
        let moved = self.wear().map_or(0.0, |wear| real(self.activity().gap_moves) * f64::from(wear.line_bytes()));
        let (read, written) = (real(self.activity().read_bytes) + moved, real(self.activity().written_bytes) + moved);
        // A write that programs only the bits that differ reads the old data first.
        let (read, programmed) = match config.write_difference {
            true => (read + written, written * config.difference_ratio),
            false => (read, written),
        };
        Some((read * read_pj + programmed * write_pj) * BITS * PJ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn energy_counts_bits_read_and_programmed_cells() {
        let mut config = config::Media { read_pj_per_bit: 2.0, write_pj_per_bit: 16.0, ..config::Media::default() };
        let mut media = Media::of(&config, 1);
        media.read(Time::ZERO, 0, 1000, 1);
        media.write(Time::ZERO, 4096, 500);
        assert_eq!(media.joules(&config), Some((16_000.0 + 64_000.0) * PJ));
        config.write_difference = true;
        config.difference_ratio = 0.25;
        assert_eq!(media.joules(&config), Some((16_000.0 + 8_000.0 + 16_000.0) * PJ));
        (config.read_pj_per_bit, config.write_pj_per_bit) = (0.0, 0.0);
        assert_eq!(media.joules(&config), None);
    }
}
