//! DMA engine of the Moneta device, which moves pieces of requests between transfer buffers and host memory in the
//! order of its request queue.
//!
//! Pieces of one direction follow each other without a pause. At a change of direction, the engine first lets the
//! pieces in flight arrive, so that it uses one direction of the link at a time. This limits a mix of reads and writes
//! to the throughput of reads or writes alone (MON); two queues with an engine each avoid it. The cause is assumed.

use std::collections::VecDeque;

use super::Piece;
use crate::number::index;
use crate::request::DataDirection;
use crate::table::Table;

/// DMA engine of one request queue: pieces that wait for it, and number of pieces in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueDmaEngine {
    /// Pieces that wait for the engine, in the order in which the scoreboard took them, with their directions.
    line: VecDeque<(u32, DataDirection)>,
    under_way: u32,
    last_direction: Option<DataDirection>,
}

impl QueueDmaEngine {
    /// Adds a piece of a request to the end of the engine's queue, once the piece has a transfer buffer.
    pub(super) fn line_up(&mut self, piece: u32, direction: DataDirection) {
        self.line.push_back((piece, direction));
    }

    /// Starts and returns the next piece in the engine's queue; none if it may not move yet. A read's piece must be in
    /// its transfer buffer, and a change of direction must wait for the pieces in flight.
    pub(super) fn start(&mut self, pieces: &Table<Piece>) -> Option<u32> {
        let &(piece, direction) = self.line.front()?;
        let is_ready = direction == DataDirection::Write || pieces[index(piece)].buffered;
        let turns_round = self.under_way > 0 && self.last_direction != Some(direction);
        if !is_ready || turns_round {
            return None;
        }
        self.line.pop_front();
        self.under_way += 1;
        self.last_direction = Some(direction);
        Some(piece)
    }

    /// Notes that a piece of a request has arrived at the far end of the link: the engine has one piece less in flight.
    pub(super) fn end(&mut self) {
        self.under_way -= 1;
    }
}
