//! A DMA engine: moves pieces in the order of its request queue.
//!
//! Pieces of one direction follow each other without a pause. At a change of direction the engine lets what is under
//! way arrive first, so that an engine for reads and writes uses one direction of the link at a time: this is what
//! holds a combined workload to the throughput of reads or writes alone (MON), and what two queues with an engine each
//! do away with. That the cause is this one is assumed.

use std::collections::VecDeque;

use super::Piece;
use crate::request::DataDirection;
use crate::table::Table;

/// One engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Dma {
    /// Pieces in the order in which the scoreboard took them.
    line: VecDeque<(u32, DataDirection)>,
    under_way: u32,
    last_direction: Option<DataDirection>,
}

impl Dma {
    /// The scoreboard has taken a piece.
    pub(super) fn line_up(&mut self, piece: u32, direction: DataDirection) {
        self.line.push_back((piece, direction));
    }

    /// The next piece to move, if it may start now; it is under way from then on.
    pub(super) fn start(&mut self, pieces: &Table<Piece>) -> Option<u32> {
        let &(piece, direction) = self.line.front()?;
        let is_ready = direction == DataDirection::Write || pieces[piece as usize].buffered;
        let turns_round = self.under_way > 0 && self.last_direction != Some(direction);
        if !is_ready || turns_round {
            return None;
        }
        self.line.pop_front();
        self.under_way += 1;
        self.last_direction = Some(direction);
        Some(piece)
    }

    /// A piece has arrived.
    pub(super) fn end(&mut self) {
        self.under_way -= 1;
    }
}
