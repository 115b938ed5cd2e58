//! Layout of a block's mapping units over dies, planes, and pages of a word line.
//!
//! A block of the translation layer is one block of every plane of every die. Units fill it in order: first a *row*,
//! which is one page of all planes of a die, then the row of the next channel. When each channel has one row, the next
//! page of their word lines follows. When the word lines are full, they are programmed together, and the next dies of
//! the channels follow. A *line* is the word lines of a block that are programmed together, one die on each channel.
//!
//! ```text
//!     2 channels, 2 pages per word line:   units go  row 0 -> row 1 -> row 2 -> row 3 -> row 4 ...
//!     channel 0, die 0   page 0: row 0   page 1: row 2  \
//!     channel 1, die 0   page 0: row 1   page 1: row 3  /  one line, programmed together
//!     channel 0, die 1   page 0: row 4   ...               the next line
//! ```

use super::die::PlaneRange;
use crate::config;
use crate::media::translation::FlashUnitLocation;
use crate::number::{index, narrow};

/// Layout of mapping units on the dies of a flash drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashUnitLayout {
    /// Number of bytes in a mapping unit.
    pub unit_bytes: u32,
    /// Number of channels of the drive.
    pub channels: u32,
    /// Number of dies on each channel.
    pub dies_per_channel: u32,
    /// Number of planes of each die.
    pub planes: u32,
    /// Number of mapping units in a row: one page of all planes of a die.
    pub row_units: u32,
    /// Number of pages in a word line, which is the number of bits in a cell. Each page is a row.
    pub pages_per_line: u32,
    /// Number of mapping units in a block, which spans all dies.
    pub block_units: u32,
    /// Number of erase operations of each die that a block takes, one for each of its flash blocks on the die.
    pub block_erases: u32,
    /// Number of the first block that is used as SLC; such a block uses one page of each word line.
    pub first_slc: u32,
}

/// Page number of the rows of an SLC block, which uses one page of each word line; index of the SLC read time.
pub const SLC_PAGE: u32 = 3;

/// Row of mapping units, which one array read brings: one page of all planes of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashRow {
    /// Number of the flash die that holds this row (one page of all its planes), counted over all channels from 0.
    pub die: u32,
    /// Number of the page in its word line: which bit of the cells holds the row.
    pub page: u32,
    /// Number of the row (one page of all planes of a die) within its block, from 0.
    pub number: u32,
}

impl FlashUnitLayout {
    /// Computes the layout of mapping units from a configuration that has been checked, with no SLC blocks.
    pub fn of(media: &config::Media, translation: &config::Translation) -> FlashUnitLayout {
        let pages_per_line = media.bits_per_cell();
        let row_units = media.stripe_bytes / translation.unit_bytes;
        let word_lines = media.block_pages / pages_per_line.max(1);
        let dies = media.banks();
        let flash_block_units =
            dies.saturating_mul(word_lines).saturating_mul(pages_per_line).saturating_mul(row_units);
        let line_units = u32::from(media.channels).saturating_mul(row_units).saturating_mul(pages_per_line).max(1);
        let block_units = match translation.block_mib {
            0 => flash_block_units,
            size => {
                let units = (size << 20) / u64::from(translation.unit_bytes);
                narrow::<u32, u64>(units.min(u32::MAX.into())) / line_units * line_units
            }
        };
        FlashUnitLayout {
            unit_bytes: translation.unit_bytes,
            channels: media.channels.into(),
            dies_per_channel: media.banks_per_channel.into(),
            planes: media.planes.into(),
            row_units,
            pages_per_line,
            block_units,
            block_erases: block_units.div_ceil(flash_block_units.max(1)).max(1),
            first_slc: u32::MAX,
        }
    }

    /// Returns the number of mapping units in a line of an ordinary block: the units that one die of each channel
    /// programs together.
    pub fn line_units(&self) -> u32 {
        self.channels * self.row_units * self.pages_per_line
    }

    /// Returns the number of mapping units in a line of `block`: the units that one die of each channel programs
    /// together. SLC blocks have fewer.
    pub fn units_per_line(&self, block: u32) -> u32 {
        if self.is_slc_block(block) { self.channels * self.row_units } else { self.line_units() }
    }

    /// True if `block` is used as SLC, with one bit in each cell.
    pub fn is_slc_block(&self, block: u32) -> bool {
        block >= self.first_slc && block != FlashUnitLocation::NONE.block
    }

    /// Returns the row that holds the mapping unit at a location: its die, its page and its number in the block.
    pub fn row(&self, place: FlashUnitLocation) -> FlashRow {
        let number = place.position / self.row_units;
        let (round, channel) = (number / self.channels, number % self.channels);
        if self.is_slc_block(place.block) {
            return FlashRow { die: self.die(place.block, round, channel), page: SLC_PAGE, number };
        }
        let (line, page) = (round / self.pages_per_line, round % self.pages_per_line);
        FlashRow { die: self.die(place.block, line, channel), page, number }
    }

    /// Returns the planes that hold the mapping units from position `first` to position `last` of one row.
    pub fn planes(&self, first: u32, last: u32) -> PlaneRange {
        let plane = |position: u32| index(position % self.row_units * self.planes / self.row_units);
        PlaneRange { first: plane(first), last: plane(last) }
    }

    /// Returns the number of the die on `channel` that holds line number `line` of `block`. Successive blocks begin on
    /// different dies.
    pub fn die(&self, block: u32, line: u32, channel: u32) -> u32 {
        (line.wrapping_add(block) % self.dies_per_channel) * self.channels + channel
    }

    /// Returns the number of mapping units that `channel` holds in a line whose first `units` units are filled.
    pub fn units_on_channel(&self, units: u32, channel: u32) -> u32 {
        let round = self.channels * self.row_units;
        let rest = (units % round).saturating_sub(channel * self.row_units).min(self.row_units);
        units / round * self.row_units + rest
    }
}
