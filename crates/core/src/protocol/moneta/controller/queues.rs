//! Request queues of the Moneta device, from which the scoreboard takes pieces of requests in turn.

use std::collections::VecDeque;

use crate::request::DataDirection;

/// Queue of requests by their tags, with the number of free transfer buffers for pieces of these requests.
#[derive(Clone, Debug)]
struct Queue {
    tags: VecDeque<u8>,
    buffers_free: u32,
}

/// Request queues of the device: one for all requests, or one for reads and one for writes.
#[derive(Clone, Debug)]
pub(super) struct RequestQueues {
    queues: [Queue; 2],
    split: bool,
    /// True if a request goes to the back of its queue after each of its pieces; false if it stays at the head.
    fair: bool,
    /// Number of the request queue from which the next piece is taken, if it has one and a transfer buffer is free.
    turn: usize,
}

impl RequestQueues {
    /// Returns empty request queues, with all transfer buffers of the Moneta device free.
    pub(super) fn new(moneta: &crate::protocol::moneta::config::Moneta) -> RequestQueues {
        let each = u32::from(moneta.transfer_buffers);
        let buffers = if moneta.split_queues { [each, each] } else { [2 * each, 0] };
        let queue = |buffers_free| Queue { tags: VecDeque::new(), buffers_free };
        RequestQueues { queues: buffers.map(queue), split: moneta.split_queues, fair: moneta.fair, turn: 0 }
    }

    /// Returns the number of the queue for requests of this direction: 1 for writes if reads and writes have a queue
    /// each, else 0.
    pub(super) fn number(&self, direction: DataDirection) -> usize {
        usize::from(self.split && direction == DataDirection::Write)
    }

    /// Adds a request to the back of the queue for its direction.
    pub(super) fn push(&mut self, direction: DataDirection, tag: u8) {
        let number = self.number(direction);
        self.queues[number].tags.push_back(tag);
    }

    /// Puts a request back into its queue after one of its pieces has been taken: at the back if queues are fair, else
    /// at the head.
    pub(super) fn return_to_queue(&mut self, direction: DataDirection, tag: u8) {
        let number = self.number(direction);
        let tags = &mut self.queues[number].tags;
        if self.fair { tags.push_back(tag) } else { tags.push_front(tag) }
    }

    /// Takes a transfer buffer and returns the tag of the request whose next piece uses it; none if no queue has both.
    /// Queues take turns.
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

    /// Frees a transfer buffer that pieces of requests in this direction use.
    pub(super) fn free_transfer_buffer(&mut self, direction: DataDirection) {
        let number = self.number(direction);
        self.queues[number].buffers_free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(split: bool, fair: bool, buffers: u8) -> RequestQueues {
        let moneta = crate::protocol::moneta::config::Moneta {
            split_queues: split,
            fair,
            transfer_buffers: buffers,
            ..crate::protocol::moneta::config::Moneta::default()
        };
        RequestQueues::new(&moneta)
    }

    /// Returns the tags in the order in which the queues serve them. The request with tag 0 has three pieces, the
    /// others have one.
    fn drawn(mut queues: RequestQueues) -> Vec<u8> {
        queues.push(DataDirection::Read, 0);
        queues.push(DataDirection::Read, 1);
        queues.push(DataDirection::Write, 2);
        let mut rest = 2;
        let mut drawn = Vec::new();
        while let Some(tag) = queues.draw() {
            drawn.push(tag);
            if tag == 0 && rest > 0 {
                rest -= 1;
                queues.return_to_queue(DataDirection::Read, 0);
            }
        }
        drawn
    }

    #[test]
    fn large_request_keeps_the_queue_head_or_goes_to_the_back() {
        assert_eq!(drawn(queues(false, false, 32)), [0, 0, 0, 1, 2]);
        assert_eq!(drawn(queues(false, true, 32)), [0, 1, 2, 0, 0]);
    }

    #[test]
    fn split_request_queues_take_turns() {
        assert_eq!(drawn(queues(true, false, 32)), [0, 2, 0, 0, 1]);
    }

    #[test]
    fn no_piece_is_taken_without_a_transfer_buffer() {
        let mut queues = queues(true, false, 1);
        queues.push(DataDirection::Read, 0);
        queues.push(DataDirection::Read, 1);
        assert_eq!((queues.draw(), queues.draw()), (Some(0), None));
        queues.free_transfer_buffer(DataDirection::Write);
        assert_eq!(queues.draw(), None);
        queues.free_transfer_buffer(DataDirection::Read);
        assert_eq!(queues.draw(), Some(1));
    }
}
