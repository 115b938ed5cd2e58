//! Wear levelling of a memory, and the number of writes to each of its lines.
//!
//! Every bank levels for itself, in one region or several: a line stays in its bank, so that the interleaving over
//! channels, and with it the parallelism of a request, is kept, and a gap moves with one read and one write of that
//! bank. The randomiser, if there is one, spreads the lines of a bank over all its regions.
//!
//! State grows with the lines that are written, not with the memory.

use std::collections::BTreeMap;

use super::geometry::BankPiece;
use super::randomiser::Randomiser;
use super::start_gap::StartGap;
use crate::config::{self, WearLevelling};
use crate::random::Random;
use crate::table::NumberMap;

/// Start-Gap regions of all banks.
#[derive(Clone, Debug)]
pub struct Wear {
    layout: LineLayout,
    /// Number of writes to a region after which its gap moves.
    interval: u32,
    /// Key of the randomiser, if there is one. Together with [`Wear::regions`] it is everything that has to survive a
    /// loss of power.
    pub key: Option<u64>,
    randomiser: Option<Randomiser>,
    /// Regions that have been written, by bank and number.
    pub regions: BTreeMap<(u32, u64), StartGap>,
    /// Number of writes to each slot, by bank, region and slot.
    pub line_writes: NumberMap<(u32, u64, u64), u64>,
}

/// Division of each bank into lines and regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLayout {
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Number of lines of each bank.
    pub lines_per_bank: u64,
    /// Number of lines of each region but the last, which may have fewer.
    pub lines_per_region: u64,
}

impl LineLayout {
    /// Computes the lines of a description.
    pub fn of(media: &config::Media) -> LineLayout {
        let line_bytes = if media.wear_line_bytes > 0 { media.wear_line_bytes } else { media.stripe_bytes };
        let banks = u64::from(media.channels) * u64::from(media.banks_per_channel);
        // The capacity is at most 2^60 bytes.
        let bank_bytes = (media.capacity_mib << 20).div_ceil(banks);
        let lines_per_bank = bank_bytes.div_ceil(u64::from(line_bytes));
        let regions = u64::from(media.wear_regions_per_bank);
        LineLayout { line_bytes, lines_per_bank, lines_per_region: lines_per_bank.div_ceil(regions) }
    }

    /// Returns the number of regions of a bank.
    pub fn regions(&self) -> u64 {
        self.lines_per_bank.div_ceil(self.lines_per_region)
    }

    /// Returns the number of lines of a region.
    pub fn lines_of(&self, region: u64) -> u64 {
        self.lines_per_region.min(self.lines_per_bank - region * self.lines_per_region)
    }
}

/// Creates the randomiser of a memory's banks, and returns it with its key.
pub fn randomiser(layout: &LineLayout, seed: u64) -> (u64, Randomiser) {
    let key = Random::stream(seed, "shuffle of lines").bits();
    (key, Randomiser::new(layout.lines_per_bank, key))
}

impl Wear {
    /// Creates the wear levelling of a description; `None` if it has none.
    pub fn of(media: &config::Media, seed: u64) -> Option<Wear> {
        let layout = LineLayout::of(media);
        let shuffle = match media.wear_levelling {
            WearLevelling::None => return None,
            WearLevelling::StartGap => None,
            WearLevelling::RandomisedStartGap => Some(randomiser(&layout, seed)),
        };
        Some(Wear {
            layout,
            interval: media.gap_write_interval,
            key: shuffle.map(|(key, _)| key),
            randomiser: shuffle.map(|(_, randomiser)| randomiser),
            regions: BTreeMap::new(),
            line_writes: NumberMap::default(),
        })
    }

    /// Returns the bytes of a line.
    pub fn line_bytes(&self) -> u32 {
        self.layout.line_bytes
    }

    /// Counts the lines that a write touches, and moves the gaps that are due. Returns the number of moves.
    pub fn on_write(&mut self, piece: BankPiece) -> u32 {
        let line_bytes = u64::from(self.layout.line_bytes);
        let first = piece.bank_offset / line_bytes;
        let last = piece.bank_offset.saturating_add(u64::from(piece.bytes).saturating_sub(1)) / line_bytes;
        (first..=last).map(|line| u32::from(self.on_line(piece.bank, line))).sum()
    }

    /// Returns the region and the slot that hold a line of a bank now.
    pub fn place(&self, bank: u32, line: u64) -> (u64, u64) {
        let (region, index) = self.region(line);
        let slot = self.regions.get(&(bank, region)).map_or(index, |region| region.slot(index));
        (region, slot)
    }

    /// Returns the number of writes to the line that has been written most.
    pub fn line_writes_max(&self) -> u64 {
        self.line_writes.values().copied().max().unwrap_or(0)
    }

    /// Returns a description of the first error in the accounts of the regions; `None` if there is none. Each write is
    /// counted at a slot, and so is each copy of a line when the gap moved, which happens once per interval.
    pub fn inconsistency(&self) -> Option<String> {
        let mut counts: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for (&(bank, number, _), writes) in &self.line_writes {
            *counts.entry((bank, number)).or_default() += writes;
        }
        self.regions.iter().find_map(|(&(bank, number), region)| {
            let counted = counts.get(&(bank, number)).copied().unwrap_or(0);
            // Start comes round once in as many rounds of the gap as there are lines, so that only its value modulo the
            // lines is compared.
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

    /// Plants a fault in a test: forgets the last move of a gap. Returns true if there was one.
    #[cfg(test)]
    pub(crate) fn forget_move(&mut self) -> bool {
        let moved = self.regions.values_mut().find(|region| region.writes == 0 && region.gap < region.lines);
        moved.map(|region| region.gap += 1).is_some()
    }

    /// Counts one write of a line. Returns true if a gap moved.
    fn on_line(&mut self, bank: u32, line: u64) -> bool {
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

    /// Returns the region of a line, and its number there. Lines beyond the capacity wrap around: the protocol refuses
    /// them before.
    fn region(&self, line: u64) -> (u64, u64) {
        let line = line % self.layout.lines_per_bank;
        let line = self.randomiser.map_or(line, |randomiser| randomiser.forward(line));
        (line / self.layout.lines_per_region, line % self.layout.lines_per_region)
    }
}
