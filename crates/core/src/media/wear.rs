//! Wear levelling of a memory, and the number of writes to each of its lines.
//!
//! Each bank levels its own lines, in one region or several. A line stays in its bank, so that the interleaving over
//! channels, and with it the parallelism of a request, is kept. A gap moves with one read and one write of its bank.
//! The randomiser, if there is one, spreads the lines of a bank over all its regions.
//!
//! The memory for this state grows with the number of lines that are written, not with the capacity.

use std::collections::BTreeMap;

use super::geometry::BankRequestPiece;
use super::randomiser::LineRandomiser;
use super::start_gap::StartGap;
use crate::config::{self, WearLevelling};
use crate::random::Random;
use crate::table::NumberHashMap;

/// Start-Gap wear levelling of a memory: the regions of all banks, and the number of writes to each slot.
#[derive(Clone, Debug)]
pub struct StartGapWear {
    layout: WearLineLayout,
    /// Number of writes to a region between two moves of its gap.
    interval: u32,
    /// Key of the randomiser; `None` without one. The key and [`StartGapWear::regions`] are all the state that has to survive a
    /// loss of power.
    pub key: Option<u64>,
    randomiser: Option<LineRandomiser>,
    /// Start-Gap regions that have been written, by the number of the bank and of the region in the bank.
    pub regions: BTreeMap<(u32, u64), StartGap>,
    /// Number of writes to each slot, copies of lines included, by bank, region and slot.
    pub line_writes: NumberHashMap<(u32, u64, u64), u64>,
}

/// Division of each bank into lines and Start-Gap regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WearLineLayout {
    /// Number of bytes in a line, the unit of wear levelling.
    pub line_bytes: u32,
    /// Number of lines in each bank.
    pub lines_per_bank: u64,
    /// Number of lines in each region of a bank, except for the last region, which may have fewer.
    pub lines_per_region: u64,
}

impl WearLineLayout {
    /// Computes the lines and regions of each bank from a media configuration.
    pub fn of(media: &config::Media) -> WearLineLayout {
        let line_bytes = if media.wear_line_bytes > 0 { media.wear_line_bytes } else { media.stripe_bytes };
        let banks = u64::from(media.banks());
        // The capacity is at most 2^60 bytes, so the shift does not overflow.
        let bank_bytes = (media.capacity_mib << 20).div_ceil(banks);
        let lines_per_bank = bank_bytes.div_ceil(u64::from(line_bytes));
        let regions = u64::from(media.wear_regions_per_bank);
        WearLineLayout { line_bytes, lines_per_bank, lines_per_region: lines_per_bank.div_ceil(regions) }
    }

    /// Returns the number of Start-Gap regions in each bank.
    pub fn regions(&self) -> u64 {
        self.lines_per_bank.div_ceil(self.lines_per_region)
    }

    /// Returns the number of lines in region number `region` of a bank.
    pub fn lines_of(&self, region: u64) -> u64 {
        self.lines_per_region.min(self.lines_per_bank - region * self.lines_per_region)
    }
}

/// Creates the permutation that shuffles the lines of each bank, from a key that `seed` determines. Returns the key and
/// the permutation.
pub fn randomiser(layout: &WearLineLayout, seed: u64) -> (u64, LineRandomiser) {
    let key = Random::stream(seed, "shuffle of lines").bits();
    (key, LineRandomiser::new(layout.lines_per_bank, key))
}

impl StartGapWear {
    /// Creates the wear levelling of a media configuration, with no line written yet; `None` if the configuration has
    /// none.
    pub fn of(media: &config::Media, seed: u64) -> Option<StartGapWear> {
        let layout = WearLineLayout::of(media);
        let shuffle = match media.wear_levelling {
            WearLevelling::None => return None,
            WearLevelling::StartGap => None,
            WearLevelling::RandomisedStartGap => Some(randomiser(&layout, seed)),
        };
        Some(StartGapWear {
            layout,
            interval: media.gap_write_interval,
            key: shuffle.map(|(key, _)| key),
            randomiser: shuffle.map(|(_, randomiser)| randomiser),
            regions: BTreeMap::new(),
            line_writes: NumberHashMap::default(),
        })
    }

    /// Returns the number of bytes in a line, the unit of wear levelling.
    pub fn line_bytes(&self) -> u32 {
        self.layout.line_bytes
    }

    /// Counts a write to each line that a piece touches, and moves the gaps whose interval has ended. Returns the
    /// number of moves.
    pub fn on_write(&mut self, piece: BankRequestPiece) -> u32 {
        let line_bytes = u64::from(self.layout.line_bytes);
        let first = piece.bank_offset / line_bytes;
        let last = piece.bank_offset.saturating_add(u64::from(piece.bytes).saturating_sub(1)) / line_bytes;
        (first..=last).map(|line| u32::from(self.count_line_write(piece.bank, line))).sum()
    }

    /// Returns the region of a bank, and the slot in the region, that now hold line `line` of the bank.
    pub fn place(&self, bank: u32, line: u64) -> (u64, u64) {
        let (region, index) = self.region(line);
        let slot = self.regions.get(&(bank, region)).map_or(index, |region| region.slot(index));
        (region, slot)
    }

    /// Returns the number of writes to the slot that has been written most, copies of lines included.
    pub fn most_line_writes(&self) -> u64 {
        self.line_writes.values().copied().max().unwrap_or(0)
    }

    /// Compares the write counts of the slots with the registers of the Start-Gap regions. Each write counts at a slot,
    /// and so does each copy of a line when a gap moves. Returns a description of the first region whose counts and
    /// registers disagree; `None` if all agree.
    pub fn inconsistency(&self) -> Option<String> {
        let mut counts: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for (&(bank, number, _), writes) in &self.line_writes {
            *counts.entry((bank, number)).or_default() += writes;
        }
        self.regions.iter().find_map(|(&(bank, number), region)| {
            let counted = counts.get(&(bank, number)).copied().unwrap_or(0);
            // `start` advances once per round of the gap and wraps at the number of lines, so compare it modulo the
            // lines.
            let moves = (counted - u64::from(region.writes)) / (u64::from(self.interval) + 1);
            let (round, within) = (moves / (region.lines + 1), moves % (region.lines + 1));
            let is_right = counted == moves * (u64::from(self.interval) + 1) + u64::from(region.writes)
                && (region.start, region.gap) == (round % region.lines, region.lines - within);
            let StartGap { start, gap, writes, .. } = *region;
            let found = format!(
                "region {number} of bank {bank} has been written {counted} times, and has start {start}, gap {gap} and {writes} \
                 writes since it moved"
            );
            (!is_right).then_some(found)
        })
    }

    /// Plants a fault in a test: undoes the last move of a gap in the registers of one region, but not in the write
    /// counts. Returns true if there was a move.
    #[cfg(test)]
    pub(crate) fn undo_last_gap_move(&mut self) -> bool {
        let moved = self.regions.values_mut().find(|region| region.writes == 0 && region.gap < region.lines);
        moved.map(|region| region.gap += 1).is_some()
    }

    /// Counts one write of a line, in its slot and in its region. Returns true if the gap of the region moved.
    fn count_line_write(&mut self, bank: u32, line: u64) -> bool {
        let (number, index) = self.region(line);
        let lines = self.layout.lines_of(number);
        let region = self.regions.entry((bank, number)).or_insert_with(|| StartGap::new(lines));
        let slot = region.slot(index);
        let moved = region.on_write(self.interval);
        *self.line_writes.entry((bank, number, slot)).or_insert(0) += 1;
        if let Some(moved) = moved {
            *self.line_writes.entry((bank, number, moved.to)).or_insert(0) += 1;
        }
        moved.is_some()
    }

    /// Returns the region of a bank that holds `line`, and the number of the line in the region. Lines beyond the
    /// capacity wrap around; the protocol refuses them before.
    fn region(&self, line: u64) -> (u64, u64) {
        let line = line % self.layout.lines_per_bank;
        let line = self.randomiser.map_or(line, |randomiser| randomiser.forward(line));
        (line / self.layout.lines_per_region, line % self.layout.lines_per_region)
    }
}
