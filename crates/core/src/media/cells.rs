//! Program time as a function of data: the pulses that cells get, and the number of cells that are programmed together.
//!
//! A phase-change cell becomes a zero by a short, strong pulse (RESET) and a one by a longer, weaker one (SET). The
//! supply of a chip drives a group of cells at a time, all with the same pulse. Data sheets give the time of a whole
//! buffer of typical data, half zeros and half ones; the part of that time beyond the pulses (verifying, sequencing) is
//! spread evenly over the groups.
//!
//! The P5Q chip programs 64 bytes = 512 cells in 120 us: 234.4 ns a cell. The mean of its pulses of 70 and 120 ns (PSS,
//! section 1) is 95 ns. Two cells at a time would leave 373.8 ns beside the pulse for each group, so the supply drives
//! one cell, and the other 139.4 ns are the 100 ns of the read that verifies it, and 39.4 ns of sequencing. Zeros then
//! take 512 x 209.4 ns = 107.2 us, ones 512 x 259.4 ns = 132.8 us.

use crate::config::{self, WrittenDataPattern};
use crate::problem::BrokenCondition;
use crate::random::Random;
use crate::time::Span;

/// Largest number of cells in a program unit whose random data is drawn bit by bit. Larger units count as half ones,
/// because chance hardly changes their program time.
const DRAWN_CELLS_MAX: u32 = 4096;

/// Cells of one program unit of a chip: their number, their pulses, and the time to program them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Number of cells that hold one program unit, one bit each.
    cells: u32,
    /// Number of cells that a write programs: all cells of the unit, or the configured share of them if only
    /// differences are written.
    changed: u32,
    /// Number of cells that the chip's supply drives at a time, all with the same pulse.
    group: u32,
    /// Length of the pulse that writes a zero into a cell (RESET).
    reset: Span,
    /// Length of the pulse that writes a one into a cell (SET).
    set: Span,
    /// Time to program all cells of a unit with typical data, half zeros and half ones.
    program: Span,
    /// Time of the array read that precedes a write of differences; zero if writes program all cells.
    compare: Span,
}

impl Cells {
    /// Computes the cells of a program unit from a media configuration. Chips are programmed in parallel, so that the
    /// unit is then the share of one chip.
    pub fn of(media: &config::Media) -> Cells {
        let unit_bytes = if media.chip_bytes > 0 { media.chip_bytes } else { media.program_bytes };
        // Both sizes are at most 2^26 bytes, so the number of bits fits.
        let cells = unit_bytes * 8;
        let ratio = if media.write_difference { media.difference_ratio } else { 1.0 };
        Cells {
            cells,
            changed: (f64::from(cells) * ratio).round() as u32,
            group: media.program_group_cells,
            reset: media.reset,
            set: media.set,
            program: media.program,
            compare: if media.write_difference { media.read } else { Span::ZERO },
        }
    }

    /// Checks that the programming pulses of typical data, half zeros and half ones, fit into `program_ns`.
    pub(crate) fn check_pulse_times(media: &config::Media) -> Option<BrokenCondition> {
        let (shortest, program) = (Cells::of(media).typical_pulse_time(), media.program);
        BrokenCondition::when(
            shortest > program,
            &["media.program_ns", "media.reset_ns", "media.set_ns", "media.program_group_cells"],
            format!(
                "media.program_ns is {}, with programming pulses of {} ns in all",
                program.as_ns(),
                shortest.as_ns()
            ),
            String::from("media.program_ns no shorter than the pulses together"),
        )
    }

    /// Returns the mean time to program a unit with data of this pattern, the read before a write of differences
    /// included.
    pub fn program_time(&self, pattern: WrittenDataPattern) -> Span {
        let ones = match pattern {
            WrittenDataPattern::Zeros => 0,
            WrittenDataPattern::Ones => self.changed,
            WrittenDataPattern::Typical | WrittenDataPattern::Random => self.changed / 2,
        };
        self.compare + self.cells_program_time(self.changed - ones, ones)
    }

    /// Draws random data for a unit on each of `chips` chips, and returns the time to program them: the time of the
    /// slowest chip. Returns the mean time if a unit has too many cells to draw.
    pub fn draw_program_time(&self, chips: u32, random: &mut Random) -> Span {
        if self.cells > DRAWN_CELLS_MAX {
            return self.program_time(WrittenDataPattern::Random);
        }
        let times = (0..chips).map(|_| {
            let ones = draw_random_ones(self.changed, random);
            self.cells_program_time(self.changed - ones, ones)
        });
        self.compare + times.max().unwrap_or(Span::ZERO)
    }

    /// Returns the sum of the pulses that program a unit of typical data, without the time for verifying and
    /// sequencing.
    pub fn typical_pulse_time(&self) -> Span {
        let (zeros, ones) = self.typical_cells();
        self.pulse_group_time(self.group_count(zeros), self.group_count(ones))
    }

    fn typical_cells(&self) -> (u32, u32) {
        (self.cells - self.cells / 2, self.cells / 2)
    }

    /// Returns the time to program `zeros` cells to zero and `ones` cells to one. For typical data in all cells this is
    /// exactly the configured program time.
    fn cells_program_time(&self, zeros: u32, ones: u32) -> Span {
        let (zero_groups, one_groups) = (self.group_count(zeros), self.group_count(ones));
        let (typical_zeros, typical_ones) = self.typical_cells();
        let typical_groups = self.group_count(typical_zeros) + self.group_count(typical_ones);
        let beside_pulses = self.program - self.typical_pulse_time();
        let groups = zero_groups + one_groups;
        let ps = u128::from(beside_pulses.as_ps()) * u128::from(groups) / u128::from(typical_groups);
        self.pulse_group_time(zero_groups, one_groups) + Span::from_ps(ps as u64)
    }

    fn group_count(&self, cells: u32) -> u64 {
        u64::from(cells.div_ceil(self.group))
    }

    fn pulse_group_time(&self, zero_groups: u64, one_groups: u64) -> Span {
        self.reset * zero_groups + self.set * one_groups
    }
}

/// Draws `cells` random bits and returns the number of ones among them.
fn draw_random_ones(cells: u32, random: &mut Random) -> u32 {
    let whole = (0..cells / 64).map(|_| random.bits().count_ones()).sum::<u32>();
    match cells % 64 {
        0 => whole,
        rest => whole + (random.bits() >> (64 - rest)).count_ones(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p5q_media() -> config::Media {
        config::Media {
            chip_bytes: 64,
            reset: Span::from_ns(70),
            set: Span::from_ns(120),
            program: Span::from_us(120),
            ..config::Media::default()
        }
    }

    #[test]
    fn zero_and_one_cells_take_25_ns_less_and_more_than_typical() {
        let cells = Cells::of(&p5q_media());
        assert_eq!(cells.program_time(WrittenDataPattern::Typical), Span::from_us(120));
        assert_eq!(cells.program_time(WrittenDataPattern::Zeros), Span::from_us(120) - Span::from_ns(25) * 512);
        assert_eq!(cells.program_time(WrittenDataPattern::Ones), Span::from_us(120) + Span::from_ns(25) * 512);
    }

    #[test]
    fn writing_differences_takes_a_read_and_the_changed_cells() {
        let difference = |ratio| {
            let media = config::Media { write_difference: true, difference_ratio: ratio, ..p5q_media() };
            Cells::of(&media).program_time(WrittenDataPattern::Typical)
        };
        let read = Span::from_ns(110);
        assert_eq!(difference(0.0), read);
        assert_eq!(difference(0.5), read + Span::from_us(60));
        assert_eq!(difference(1.0), read + Span::from_us(120));
    }

    #[test]
    fn cells_of_a_group_share_a_pulse() {
        let media = config::Media { program_group_cells: 256, program: Span::from_ns(190), ..p5q_media() };
        let cells = Cells::of(&media);
        assert_eq!(cells.cells_program_time(256, 256), Span::from_ns(190));
        assert_eq!(cells.cells_program_time(256, 0), Span::from_ns(70));
        assert_eq!(cells.cells_program_time(257, 0), Span::from_ns(140));
        assert_eq!(cells.program_time(WrittenDataPattern::Ones), Span::from_ns(240));
    }

    #[test]
    fn random_data_takes_the_typical_time_on_average() {
        let cells = Cells::of(&p5q_media());
        let mut random = Random::stream(1, "test");
        let mut mean_us = |chips| {
            let total: Span = (0..4000).map(|_| cells.draw_program_time(chips, &mut random)).sum();
            total.as_us() / 4000.0
        };
        // The number of ones in 512 bits has a deviation of 11.31, at 50 ns each. The maximum of nine draws is 1.485
        // deviations above the mean.
        let one = mean_us(1);
        let nine = mean_us(9);
        assert!((one - 120.0).abs() < 0.03, "{one}");
        assert!((nine - (120.0 + 1.485 * 11.31 * 0.05)).abs() < 0.03, "{nine}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn programming_more_cells_takes_no_less_time(zeros in 0u32..512, ones in 0u32..512, group in 1u32..600) {
            let cells = Cells::of(&config::Media { program_group_cells: group, ..p5q_media() });
            prop_assert!(cells.cells_program_time(zeros + 1, ones) >= cells.cells_program_time(zeros, ones));
            prop_assert!(cells.cells_program_time(zeros, ones + 1) >= cells.cells_program_time(zeros, ones));
        }
    }
}
