//! Start-Gap wear levelling: one spare line and two registers instead of a table of lines.
//!
//! Qureshi et al., "Enhancing lifetime and security of PCM-based main memory with Start-Gap wear leveling", MICRO 2009,
//! section 3. A region of N lines has N + 1 slots; the one without a line is the gap. The gap moves down by a slot when
//! its neighbour's line is copied into it, and from slot 0 to slot N; then every line has moved up by one, which the
//! register Start counts.
//!
//! ```text
//!     slot   0 1 2 3 4        slot   0 1 2 3 4        slot   0 1 2 3 4
//!            A B C D .               A B C . D   ...         D A B C .
//!            Start 0, Gap 4          Start 0, Gap 3          Start 1, Gap 4, after 5 moves
//! ```

/// Region of lines. Its public fields are everything that has to survive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartGap {
    /// Number of lines of the region, at least one; there is one slot more.
    pub lines: u64,
    /// Number of slots by which all lines have moved, modulo the number of lines.
    pub start: u64,
    /// Slot without a line.
    pub gap: u64,
    /// Number of writes since the last move of the gap.
    pub writes: u32,
}

/// Copy of a line from one slot to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineMove {
    /// Slot that the line leaves, which becomes the gap.
    pub from: u64,
    /// Slot that was the gap.
    pub to: u64,
}

impl StartGap {
    /// Creates a region that has seen no write.
    ///
    /// # Panics
    /// If it has no line, or more than 2^62.
    pub fn new(lines: u64) -> StartGap {
        assert!((1..=1 << 62).contains(&lines), "a region of {lines} lines");
        StartGap { lines, start: 0, gap: lines, writes: 0 }
    }

    /// Returns the slot that holds a line, which must be below the number of lines.
    pub fn slot(&self, line: u64) -> u64 {
        debug_assert!(line < self.lines);
        let turned = (line + self.start) % self.lines;
        let slot = turned + u64::from(turned >= self.gap);
        assert_ne!(slot, self.gap, "line {line} lies in the gap");
        slot
    }

    /// Returns the line that a slot holds; `None` for the gap. The inverse of [`StartGap::slot`].
    pub fn line(&self, slot: u64) -> Option<u64> {
        if slot == self.gap {
            return None;
        }
        let turned = slot - u64::from(slot > self.gap);
        Some((turned + self.lines - self.start) % self.lines)
    }

    /// Counts a write to the region, and moves the gap every `interval` writes.
    pub fn on_write(&mut self, interval: u32) -> Option<LineMove> {
        self.writes += 1;
        if self.writes < interval {
            return None;
        }
        self.writes = 0;
        Some(self.move_gap())
    }

    /// Moves the gap by one slot. Returns the copy of a line that this needs.
    pub fn move_gap(&mut self) -> LineMove {
        let to = self.gap;
        if self.gap == 0 {
            self.gap = self.lines;
            self.start = (self.start + 1) % self.lines;
        } else {
            self.gap -= 1;
        }
        LineMove { from: self.gap, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    /// Contents of a region's slots: the line that was copied into each.
    fn contents(region: &StartGap) -> Vec<Option<u64>> {
        (0..=region.lines).map(|slot| region.line(slot)).collect()
    }

    fn copy(slots: &mut [Option<u64>], moved: LineMove) {
        slots[moved.to as usize] = slots[moved.from as usize].take();
    }

    #[test]
    fn region_of_four_lines_moves_as_in_the_figure_of_the_paper() {
        let mut region = StartGap::new(4);
        assert_eq!(contents(&region), [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(region.move_gap(), LineMove { from: 3, to: 4 });
        assert_eq!(contents(&region), [Some(0), Some(1), Some(2), None, Some(3)]);
        for _ in 0..4 {
            region.move_gap();
        }
        assert_eq!((region.start, region.gap), (1, 4));
        assert_eq!(contents(&region), [Some(3), Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn gap_moves_exactly_at_the_last_write_of_an_interval() {
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
        fn lines_and_slots_without_the_gap_are_a_bijection(lines in 1u64..200, moves in 0u32..50_000) {
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
        fn every_line_moves_once_in_as_many_moves_as_there_are_lines(lines in 1u64..100, before in 0u32..5000) {
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
