//! Layout of a block's units over dies, planes, and pages of a word line.
//!
//! A block of the translation layer is one block of every plane of every die. Units fill it in order: first a *row*,
//! which is one page of all planes of a die, then the row of the next channel. When each channel has one row, the next
//! page of their word lines follows. When the word lines are full, they are programmed together, and the next dies of
//! the channels follow. The part of a block that is programmed together is a *line*.
//!
//! ```text
//!     2 channels, 2 pages per word line:   units go  row 0 -> row 1 -> row 2 -> row 3 -> row 4 ...
//!     channel 0, die 0   page 0: row 0   page 1: row 2  \
//!     channel 1, die 0   page 0: row 1   page 1: row 3  /  one line, programmed together
//!     channel 0, die 1   page 0: row 4   ...               the next line
//! ```

use super::die::Planes;
use crate::config;
use crate::media::translation::UnitLocation;
use crate::number::index;

/// Layout of units on the dies of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLayout {
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Number of channels.
    pub channels: u32,
    /// Number of dies on each channel.
    pub dies_per_channel: u32,
    /// Number of planes of each die.
    pub planes: u32,
    /// Number of units of a row.
    pub row_units: u32,
    /// Number of pages of a word line (bits of a cell), each of which is a row.
    pub pages_per_line: u32,
    /// Number of units of a block.
    pub block_units: u32,
    /// Number of the first block that is used with one bit a cell: one page of its word lines.
    pub first_slc: u32,
}

/// Page of a word line that stands for the only one of a block that is used with one bit a cell.
pub const SLC_PAGE: u32 = 3;

/// Row of units that one array read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashRow {
    /// Die that holds the row.
    pub die: u32,
    /// Page of the word line: bit of the cells that hold the row.
    pub page: u32,
    /// Number of the row within its block.
    pub number: u32,
}

impl FlashLayout {
    /// Computes the layout of a description that has been checked.
    pub fn of(media: &config::Media, translation: &config::Translation) -> FlashLayout {
        let pages_per_line = media.program_bytes / media.stripe_bytes;
        let row_units = media.stripe_bytes / translation.unit_bytes;
        let word_lines = media.block_pages / pages_per_line.max(1);
        let dies = u32::from(media.channels) * u32::from(media.banks_per_channel);
        FlashLayout {
            unit_bytes: translation.unit_bytes,
            channels: media.channels.into(),
            dies_per_channel: media.banks_per_channel.into(),
            planes: media.planes.into(),
            row_units,
            pages_per_line,
            block_units: dies.saturating_mul(word_lines).saturating_mul(pages_per_line).saturating_mul(row_units),
            first_slc: u32::MAX,
        }
    }

    /// Returns the number of units that are programmed together, by one die of each channel.
    pub fn line_units(&self) -> u32 {
        self.channels * self.row_units * self.pages_per_line
    }

    /// Returns the number of units that are programmed together in a block.
    pub fn line_units_of(&self, block: u32) -> u32 {
        if self.is_slc(block) { self.channels * self.row_units } else { self.line_units() }
    }

    /// Returns true if a block is used with one bit a cell.
    pub fn is_slc(&self, block: u32) -> bool {
        block >= self.first_slc && block != UnitLocation::NONE.block
    }

    /// Returns the row of a unit.
    pub fn row(&self, place: UnitLocation) -> FlashRow {
        let number = place.position / self.row_units;
        let (round, channel) = (number / self.channels, number % self.channels);
        if self.is_slc(place.block) {
            return FlashRow { die: self.die(place.block, round, channel), page: SLC_PAGE, number };
        }
        let (line, page) = (round / self.pages_per_line, round % self.pages_per_line);
        FlashRow { die: self.die(place.block, line, channel), page, number }
    }

    /// Returns the planes of the units from position `first` to position `last` in a row.
    pub fn planes(&self, first: u32, last: u32) -> Planes {
        let plane = |position: u32| index(position % self.row_units * self.planes / self.row_units);
        Planes { first: plane(first), last: plane(last) }
    }

    /// Returns the die of a channel that a line of a block lies on. Blocks begin with different dies.
    pub fn die(&self, block: u32, line: u32, channel: u32) -> u32 {
        (line.wrapping_add(block) % self.dies_per_channel) * self.channels + channel
    }

    /// Returns the number of units on one channel in a line whose first `units` are filled.
    pub fn channel_units(&self, units: u32, channel: u32) -> u32 {
        let round = self.channels * self.row_units;
        let rest = (units % round).saturating_sub(channel * self.row_units).min(self.row_units);
        units / round * self.row_units + rest
    }
}
