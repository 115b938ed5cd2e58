//! Requests by the slot of the command that carries them.

use crate::request::RequestId;

/// Table from the slots of a device's queues to requests: drivers fill it, and controllers charge their time with it. A model's
/// own bookkeeping, which no packet carries.
#[derive(Clone, Debug, Default)]
pub struct SlotBindings {
    queues: Vec<Vec<Option<RequestId>>>,
}

impl SlotBindings {
    /// Notes that the command in `slot` of `queue` carries `request`.
    #[inline(always)]
    pub fn bind(&mut self, queue: usize, slot: usize, request: RequestId) {
        self.bind_maybe(queue, slot, Some(request));
    }

    /// Notes which request the command in `slot` of `queue` carries, if any.
    #[inline(always)]
    pub fn bind_maybe(&mut self, queue: usize, slot: usize, request: Option<RequestId>) {
        match self.queues.get_mut(queue).and_then(|slots| slots.get_mut(slot)) {
            Some(bound) => *bound = request,
            None => self.bind_first(queue, slot, request),
        }
    }

    /// Makes room for a slot that no command has been in, and fills it.
    #[cold]
    #[inline(never)]
    fn bind_first(&mut self, queue: usize, slot: usize, request: Option<RequestId>) {
        if self.queues.len() <= queue {
            self.queues.resize(queue + 1, Vec::new());
        }
        let slots = &mut self.queues[queue];
        if slots.len() <= slot {
            // Room for some more: a deeper queue is to find its slots there.
            slots.resize((slot + 1).next_multiple_of(8), None);
        }
        slots[slot] = request;
    }

    /// Request that the command in `slot` of `queue` carries, if any.
    pub fn bound(&self, queue: usize, slot: usize) -> Option<RequestId> {
        *self.queues.get(queue)?.get(slot)?
    }
}
