//! Where the units of a block lie: dies, planes, and the page of a word line.
//!
//! A block of the translation layer is one block of every plane of every die. Units fill it in order: a *row*, which is a
//! page of all planes of a die, then the row of the next channel. When the channels have one each, the next page of their
//! word lines follows; when the word lines are whole, they are programmed, and the next dies of the channels are in turn.
//! The part of a block that is programmed together is a *line*.

use super::die::Planes;
use crate::config;
use crate::media::translation::Place;

/// How units are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub unit_bytes: u32,
    pub channels: u32,
    pub dies_per_channel: u32,
    pub planes: u32,
    /// Units of a row, and rows of a word line.
    pub row_units: u32,
    pub pages_per_line: u32,
    pub block_units: u32,
}

/// A row: what one array read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub die: u32,
    /// Which bit of its cells.
    pub page: u32,
    /// Told apart from others of the same die.
    pub number: u32,
}

impl Layout {
    /// The layout of a description that has been checked.
    pub fn of(media: &config::Media, translation: &config::Translation) -> Layout {
        let pages_per_line = media.program_bytes / media.stripe_bytes;
        let row_units = media.stripe_bytes / translation.unit_bytes;
        let word_lines = media.block_pages / pages_per_line.max(1);
        let dies = u32::from(media.channels) * u32::from(media.banks_per_channel);
        Layout {
            unit_bytes: translation.unit_bytes,
            channels: media.channels.into(),
            dies_per_channel: media.banks_per_channel.into(),
            planes: media.planes.into(),
            row_units,
            pages_per_line,
            block_units: dies.saturating_mul(word_lines).saturating_mul(pages_per_line).saturating_mul(row_units),
        }
    }

    /// Units that are programmed together, by one die of each channel.
    pub fn line_units(&self) -> u32 {
        self.channels * self.row_units * self.pages_per_line
    }

    /// The row of a unit.
    pub fn row(&self, place: Place) -> Row {
        let number = place.position / self.row_units;
        let (round, channel) = (number / self.channels, number % self.channels);
        let (line, page) = (round / self.pages_per_line, round % self.pages_per_line);
        Row { die: self.die(place.block, line, channel), page, number }
    }

    /// The planes of units from one to another in a row.
    pub fn planes(&self, first: u32, last: u32) -> Planes {
        let plane = |position: u32| (position % self.row_units * self.planes / self.row_units) as usize;
        Planes { first: plane(first), last: plane(last) }
    }

    /// The die of a channel that a line of a block lies on. Blocks begin with different ones.
    pub fn die(&self, block: u32, line: u32, channel: u32) -> u32 {
        (line.wrapping_add(block) % self.dies_per_channel) * self.channels + channel
    }

    /// Units of a channel in a line of which the first `units` are filled.
    pub fn channel_units(&self, units: u32, channel: u32) -> u32 {
        let round = self.channels * self.row_units;
        let rest = (units % round).saturating_sub(channel * self.row_units).min(self.row_units);
        units / round * self.row_units + rest
    }
}
