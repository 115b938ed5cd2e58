//! Request queues of the scoreboard, and the order in which it serves them.

use std::collections::VecDeque;

use crate::request::DataDirection;

/// Queue of tags, with the transfer buffers for its pieces.
#[derive(Clone, Debug)]
struct Queue {
    tags: VecDeque<u8>,
    buffers_free: u32,
}

/// Request queues: one for all requests, or one for reads and one for writes.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: [Queue; 2],
    split: bool,
    /// True if the rest of a request goes to the back of its queue.
    fair: bool,
    /// Number of the queue that is served next.
    turn: usize,
}

impl Queues {
    /// Returns empty queues with all transfer buffers free.
    pub(super) fn new(moneta: &crate::protocol::moneta::config::Moneta) -> Queues {
        let each = u32::from(moneta.transfer_buffers);
        let buffers = if moneta.split_queues { [each, each] } else { [2 * each, 0] };
        let queue = |buffers_free| Queue { tags: VecDeque::new(), buffers_free };
        Queues { queues: buffers.map(queue), split: moneta.split_queues, fair: moneta.fair, turn: 0 }
    }

    /// Returns the number of the queue for requests of this direction.
    pub(super) fn number(&self, direction: DataDirection) -> usize {
        usize::from(self.split && direction == DataDirection::Write)
    }

    /// Adds a new request.
    pub(super) fn push(&mut self, direction: DataDirection, tag: u8) {
        let number = self.number(direction);
        self.queues[number].tags.push_back(tag);
    }

    /// Returns a request to its queue after a piece of it has been taken.
    pub(super) fn put_back(&mut self, direction: DataDirection, tag: u8) {
        let number = self.number(direction);
        let tags = &mut self.queues[number].tags;
        if self.fair { tags.push_back(tag) } else { tags.push_front(tag) }
    }

    /// Takes a transfer buffer and the request whose piece uses it; queues take turns.
    pub(super) fn draw(&mut self) -> Option<u8> {
        for number in [self.turn, 1 - self.turn] {
            let queue = &mut self.queues[number];
            if queue.buffers_free > 0
                && let Some(tag) = queue.tags.pop_front()
            {
                queue.buffers_free -= 1;
                self.turn = 1 - number;
                return Some(tag);
            }
        }
        None
    }

    /// Frees a transfer buffer.
    pub(super) fn free_buffer(&mut self, direction: DataDirection) {
        let number = self.number(direction);
        self.queues[number].buffers_free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(split: bool, fair: bool, buffers: u8) -> Queues {
        let moneta = crate::protocol::moneta::config::Moneta {
            split_queues: split,
            fair,
            transfer_buffers: buffers,
            ..crate::protocol::moneta::config::Moneta::default()
        };
        Queues::new(&moneta)
    }

    /// Draw until nothing is left; the request with tag 0 has three pieces, others have one.
    fn drawn(mut queues: Queues) -> Vec<u8> {
        queues.push(DataDirection::Read, 0);
        queues.push(DataDirection::Read, 1);
        queues.push(DataDirection::Write, 2);
        let mut rest = 2;
        let mut drawn = Vec::new();
        while let Some(tag) = queues.draw() {
            drawn.push(tag);
            if tag == 0 && rest > 0 {
                rest -= 1;
                queues.put_back(DataDirection::Read, 0);
            }
        }
        drawn
    }

    #[test]
    fn a_large_request_keeps_the_head_or_goes_to_the_back() {
        assert_eq!(drawn(queues(false, false, 32)), [0, 0, 0, 1, 2]);
        assert_eq!(drawn(queues(false, true, 32)), [0, 1, 2, 0, 0]);
    }

    #[test]
    fn split_queues_take_turns() {
        assert_eq!(drawn(queues(true, false, 32)), [0, 2, 0, 0, 1]);
    }

    #[test]
    fn nothing_is_drawn_without_a_buffer_of_its_queue() {
        let mut queues = queues(true, false, 1);
        queues.push(DataDirection::Read, 0);
        queues.push(DataDirection::Read, 1);
        assert_eq!((queues.draw(), queues.draw()), (Some(0), None));
        queues.free_buffer(DataDirection::Write);
        assert_eq!(queues.draw(), None);
        queues.free_buffer(DataDirection::Read);
        assert_eq!(queues.draw(), Some(1));
    }
}
