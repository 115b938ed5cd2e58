//! DMA engine, which moves pieces in the order of its request queue.
//!
//! Pieces of one direction follow each other without a pause. At a change of direction the engine first lets the pieces
//! in flight arrive, so that an engine for reads and writes uses one direction of the link at a time. This limits a
//! combined workload to the throughput of reads or writes alone (MON); two queues with an engine each avoid it. That
//! this is the cause is assumed.

use std::collections::VecDeque;

use super::Piece;
use crate::request::DataDirection;
use crate::table::Table;

/// DMA engine of one request queue.
#[derive(Clone, Debug, Default)]
pub(super) struct DataMover {
    /// Pieces in the order in which the scoreboard took them.
    line: VecDeque<(u32, DataDirection)>,
    under_way: u32,
    last_direction: Option<DataDirection>,
}

impl DataMover {
    /// Adds a piece that the scoreboard has taken.
    pub(super) fn line_up(&mut self, piece: u32, direction: DataDirection) {
        self.line.push_back((piece, direction));
    }

    /// Starts the next piece, if it may move now; it is in flight from then on.
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

    /// Notes that a piece has arrived.
    pub(super) fn end(&mut self) {
        self.under_way -= 1;
    }
}
