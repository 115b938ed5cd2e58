//! Start-Gap: one spare line and two registers instead of a table of lines.
//!
//! Qureshi et al., "Enhancing lifetime and security of PCM-based main memory with Start-Gap wear leveling", MICRO
//! 2009, section 3. A region of N lines has N + 1 slots; the one without a line is the gap. The gap moves down by a
//! slot when its neighbour's line is copied into it, and from slot 0 to slot N; then every line has moved up by one,
//! which the register Start counts.
//!
//! ```text
//!     slot   0 1 2 3 4        slot   0 1 2 3 4        slot   0 1 2 3 4
//!            A B C D .               A B C . D   ...         D A B C .
//!            Start 0, Gap 4          Start 0, Gap 3          Start 1, Gap 4, after 5 moves
//! ```

/// A region of lines. Its public fields are all that has to be kept over a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartGap {
    /// Lines of the region, at least one; there is a slot more.
    pub lines: u64,
    /// By how many slots all lines have moved, modulo their number.
    pub start: u64,
    /// The slot without a line.
    pub gap: u64,
    /// Writes since the last move.
    pub writes: u32,
}

/// A line is copied from one slot to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: u64,
    pub to: u64,
}

impl StartGap {
    /// A region that has seen no write. Asserts that it has a line.
    pub fn new(lines: u64) -> StartGap {
        assert!((1..=1 << 62).contains(&lines), "a region of {lines} lines");
        StartGap { lines, start: 0, gap: lines, writes: 0 }
    }

    /// The slot that holds a line, which must be below the number of lines.
    pub fn slot(&self, line: u64) -> u64 {
        debug_assert!(line < self.lines);
        let turned = (line + self.start) % self.lines;
        turned + u64::from(turned >= self.gap)
    }

    /// The line that a slot holds; none in the gap. The inverse of [`StartGap::slot`].
    pub fn line(&self, slot: u64) -> Option<u64> {
        if slot == self.gap {
            return None;
        }
        let turned = slot - u64::from(slot > self.gap);
        Some((turned + self.lines - self.start) % self.lines)
    }

    /// Count a write to the region; every `interval` writes the gap moves.
    pub fn on_write(&mut self, interval: u32) -> Option<Move> {
        self.writes += 1;
        if self.writes < interval {
            return None;
        }
        self.writes = 0;
        Some(self.move_gap())
    }

    /// Move the gap by a slot: the line that must be copied.
    pub fn move_gap(&mut self) -> Move {
        let to = self.gap;
        if self.gap == 0 {
            self.gap = self.lines;
            self.start = (self.start + 1) % self.lines;
        } else {
            self.gap -= 1;
        }
        Move { from: self.gap, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    /// The slots of a region, each with the line that was copied into it.
    fn contents(region: &StartGap) -> Vec<Option<u64>> {
        (0..=region.lines).map(|slot| region.line(slot)).collect()
    }

    fn copy(slots: &mut [Option<u64>], moved: Move) {
        slots[moved.to as usize] = slots[moved.from as usize].take();
    }

    #[test]
    fn the_figure_of_the_paper_comes_out() {
        let mut region = StartGap::new(4);
        assert_eq!(contents(&region), [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(region.move_gap(), Move { from: 3, to: 4 });
        assert_eq!(contents(&region), [Some(0), Some(1), Some(2), None, Some(3)]);
        for _ in 0..4 {
            region.move_gap();
        }
        assert_eq!((region.start, region.gap), (1, 4));
        assert_eq!(contents(&region), [Some(3), Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn the_gap_moves_at_the_last_write_of_an_interval_and_not_one_earlier() {
        let mut region = StartGap::new(8);
        let moves: Vec<bool> = (0..200).map(|_| region.on_write(100).is_some()).collect();
        let at: Vec<usize> = (0..200).filter(|write| moves[*write]).collect();
        assert_eq!(at, [99, 199]);
    }

    #[test]
    fn every_line_is_found_where_it_was_copied_to_after_a_million_moves() {
        let mut region = StartGap::new(37);
        let mut slots = contents(&region);
        let mut random = Random::stream(1, "moves");
        for round in 0..1_000_000_u32 {
            let moved = region.move_gap();
            copy(&mut slots, moved);
            let line = random.bits() % region.lines;
            assert_eq!(slots[region.slot(line) as usize], Some(line), "after {round} moves");
        }
        assert_eq!(contents(&region), slots);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn lines_and_slots_but_the_gap_are_a_bijection(lines in 1u64..200, moves in 0u32..50_000) {
            let mut region = StartGap::new(lines);
            (0..moves).for_each(|_| { region.move_gap(); });
            let mut met = vec![false; lines as usize + 1];
            for line in 0..lines {
                let slot = region.slot(line);
                prop_assert_eq!(region.line(slot), Some(line));
                met[slot as usize] = true;
            }
            let free: Vec<_> = met.iter().enumerate().filter(|(_, met)| !**met).map(|(slot, _)| slot as u64).collect();
            prop_assert_eq!(free, [region.gap]);
        }

        #[test]
        fn a_line_moves_once_in_as_many_moves_as_there_are_lines(lines in 1u64..100, before in 0u32..5000) {
            let mut region = StartGap::new(lines);
            (0..before).for_each(|_| { region.move_gap(); });
            let mut next = || {
                let moved = region.move_gap();
                region.line(moved.to).unwrap()
            };
            let mut moved: Vec<_> = (0..lines).map(|_| next()).collect();
            moved.sort();
            prop_assert_eq!(moved, (0..lines).collect::<Vec<_>>());
        }
    }
}
