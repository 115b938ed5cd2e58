//! Start-Gap wear levelling: one spare line and two registers instead of a table of lines.
//!
//! Qureshi et al., "Enhancing lifetime and security of PCM-based main memory with Start-Gap wear leveling", MICRO 2009,
//! section 3. A region of N lines has N + 1 slots; the slot without a line is the gap. A move copies the line of the
//! slot below into the gap, so that the gap moves down by one slot, or from slot 0 to slot N. After N + 1 moves every
//! line has moved up by one slot, which the register Start counts.
//!
//! ```text
//!     slot   0 1 2 3 4        slot   0 1 2 3 4        slot   0 1 2 3 4
//!            A B C D .               A B C . D   ...         D A B C .
//!            Start 0, Gap 4          Start 0, Gap 3          Start 1, Gap 4, after 5 moves
//! ```

/// Start-Gap region: lines that rotate through one slot more than there are lines. Its public fields are all its state
/// that has to survive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartGap {
    /// Number of lines in a Start-Gap region, at least one. The region has one slot more.
    pub lines: u64,
    /// Number of slots by which all lines of a Start-Gap region have moved up, modulo the number of lines (register
    /// Start).
    pub start: u64,
    /// Number of the slot in a Start-Gap region that holds no line (register Gap).
    pub gap: u64,
    /// Number of writes to a Start-Gap region since the last move of its gap.
    pub writes: u32,
}

/// Copy of a line from one slot of a Start-Gap region to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedLine {
    /// Number of the slot that the copied line leaves, which becomes the gap of its Start-Gap region.
    pub from: u64,
    /// Number of the slot that receives the copied line; it was the gap of its Start-Gap region before.
    pub to: u64,
}

impl StartGap {
    /// Creates a Start-Gap region that has had no write.
    ///
    /// # Panics
    /// If `lines` is 0 or above 2^62.
    pub fn new(lines: u64) -> StartGap {
        assert!((1..=1 << 62).contains(&lines), "a region of {lines} lines");
        StartGap { lines, start: 0, gap: lines, writes: 0 }
    }

    /// Returns the number of the slot that holds `line`, which must be below the number of lines.
    pub fn slot(&self, line: u64) -> u64 {
        debug_assert!(line < self.lines);
        let turned = (line + self.start) % self.lines;
        let slot = turned + u64::from(turned >= self.gap);
        assert_ne!(slot, self.gap, "line {line} lies in the gap");
        slot
    }

    /// Returns the line that a slot of the region holds; `None` for the gap. The inverse of [`StartGap::slot`].
    pub fn line(&self, slot: u64) -> Option<u64> {
        if slot == self.gap {
            return None;
        }
        let turned = slot - u64::from(slot > self.gap);
        Some((turned + self.lines - self.start) % self.lines)
    }

    /// Counts a write to the region. Every `interval` writes, moves the gap and returns the copy of a line that this
    /// needs; `None` otherwise.
    pub fn on_write(&mut self, interval: u32) -> Option<CopiedLine> {
        self.writes += 1;
        if self.writes < interval {
            return None;
        }
        self.writes = 0;
        Some(self.move_region_gap())
    }

    /// Moves the gap of the region by one slot, from slot 0 to the last slot. Returns the copy of a line that this
    /// needs.
    pub fn move_region_gap(&mut self) -> CopiedLine {
        let to = self.gap;
        if self.gap == 0 {
            self.gap = self.lines;
            self.start = (self.start + 1) % self.lines;
        } else {
            self.gap -= 1;
        }
        CopiedLine { from: self.gap, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    /// Returns the line that each slot of a region holds, in the order of slots; `None` for the gap.
    fn lines_by_slot(region: &StartGap) -> Vec<Option<u64>> {
        (0..=region.lines).map(|slot| region.line(slot)).collect()
    }

    fn copy(slots: &mut [Option<u64>], moved: CopiedLine) {
        slots[moved.to as usize] = slots[moved.from as usize].take();
    }

    #[test]
    fn region_of_four_lines_moves_as_published() {
        let mut region = StartGap::new(4);
        assert_eq!(lines_by_slot(&region), [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(region.move_region_gap(), CopiedLine { from: 3, to: 4 });
        assert_eq!(lines_by_slot(&region), [Some(0), Some(1), Some(2), None, Some(3)]);
        for _ in 0..4 {
            region.move_region_gap();
        }
        assert_eq!((region.start, region.gap), (1, 4));
        assert_eq!(lines_by_slot(&region), [Some(3), Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn gap_moves_at_the_last_write_of_its_interval() {
        let mut region = StartGap::new(8);
        let moves: Vec<bool> = (0..200).map(|_| region.on_write(100).is_some()).collect();
        let at: Vec<usize> = (0..200).filter(|write| moves[*write]).collect();
        assert_eq!(at, [99, 199]);
    }

    #[test]
    fn lines_are_found_after_a_million_gap_moves() {
        let mut region = StartGap::new(37);
        let mut slots = lines_by_slot(&region);
        let mut random = Random::stream(1, "moves");
        for round in 0..1_000_000_u32 {
            let moved = region.move_region_gap();
            copy(&mut slots, moved);
            let line = random.bits() % region.lines;
            assert_eq!(slots[region.slot(line) as usize], Some(line), "after {round} moves");
        }
        assert_eq!(lines_by_slot(&region), slots);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn lines_and_occupied_slots_are_a_bijection(lines in 1u64..200, moves in 0u32..50_000) {
            let mut region = StartGap::new(lines);
            (0..moves).for_each(|_| { region.move_region_gap(); });
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
        fn all_lines_move_once_per_rotation(lines in 1u64..100, before in 0u32..5000) {
            let mut region = StartGap::new(lines);
            (0..before).for_each(|_| { region.move_region_gap(); });
            let mut next = || {
                let moved = region.move_region_gap();
                region.line(moved.to).unwrap()
            };
            let mut moved: Vec<_> = (0..lines).map(|_| next()).collect();
            moved.sort();
            prop_assert_eq!(moved, (0..lines).collect::<Vec<_>>());
        }
    }
}
