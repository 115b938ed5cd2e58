//! Table from command slots to requests, by which a controller charges its time to the request of a command.

use crate::request::RequestId;

/// Table from the queue and slot of a command to the request that the command carries. Drivers fill the table, and
/// controllers charge their time by it. No packet carries its content; it is bookkeeping of the simulator.
#[derive(Clone, Debug, Default)]
pub struct SlotRequestTable {
    queues: Vec<Vec<Option<RequestId>>>,
}

impl SlotRequestTable {
    /// Records that the command in `slot` of `queue` carries `request`, so that the controller can charge its time to
    /// it.
    #[inline(always)]
    pub fn bind(&mut self, queue: usize, slot: usize, request: RequestId) {
        self.bind_optional_request(queue, slot, Some(request));
    }

    /// Records that the command in `slot` of `queue` carries `request`, or no request.
    #[inline(always)]
    pub fn bind_optional_request(&mut self, queue: usize, slot: usize, request: Option<RequestId>) {
        match self.queues.get_mut(queue).and_then(|slots| slots.get_mut(slot)) {
            Some(bound) => *bound = request,
            None => self.grow_and_bind(queue, slot, request),
        }
    }

    /// Grows the table up to a slot that is used for the first time, and stores that slot's request, or none.
    #[cold]
    #[inline(never)]
    fn grow_and_bind(&mut self, queue: usize, slot: usize, request: Option<RequestId>) {
        if self.queues.len() <= queue {
            self.queues.resize(queue + 1, Vec::new());
        }
        let slots = &mut self.queues[queue];
        if slots.len() <= slot {
            // Add eight slots at a time, because a queue that gets deeper soon uses the next ones.
            slots.resize((slot + 1).next_multiple_of(8), None);
        }
        slots[slot] = request;
    }

    /// Returns the request that the command in `slot` of `queue` carries, if any.
    pub fn bound(&self, queue: usize, slot: usize) -> Option<RequestId> {
        *self.queues.get(queue)?.get(slot)?
    }
}
