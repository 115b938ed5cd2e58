//! Slots of operations, from their submission until their completion is taken. A free slot is reused with its buffer,
//! so that operations allocate nothing once there are enough slots.

use std::collections::VecDeque;

use phaselink_core::ledger::StageTimes;
use phaselink_core::number::{index, low_u32, short_length};
use phaselink_core::time::Time;

use crate::misuse::Misuse;
use crate::operation::{OperationKind, Status, Ticket};
use crate::overlap::Covered;

/// State of a slot: vacant, or the progress of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The slot has no operation.
    Vacant,
    /// The drive executes the operation's command.
    InFlight,
    /// The drive executes the flush after a durable write.
    Flushing,
    /// The operation has completed, and its completion has not been taken.
    Completed,
}

/// Slot of an operation: its parameters, state, data and result.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Number of operations that have left this slot, which makes tickets unique.
    generation: u32,
    /// Number of operations that were submitted before this one.
    sequence: u64,
    pub(crate) state: SlotState,
    pub(crate) kind: OperationKind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_durable: bool,
    pub(crate) drive: u16,
    pub(crate) thread: u16,
    pub(crate) submitted: Time,
    pub(crate) at: Time,
    pub(crate) status: Status,
    /// Data of a write until its completion, and data of a read after its completion.
    pub(crate) data: Vec<u8>,
    /// Number of the operation in the record for power cuts.
    pub(crate) recorded: u64,
    /// Parts of a change that have no effect, since younger changes to the same blocks have completed first.
    pub(crate) covered: Covered,
    pub(crate) stages: Option<Box<StageTimes>>,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            generation: 0,
            sequence: 0,
            state: SlotState::Vacant,
            kind: OperationKind::Flush,
            offset: 0,
            bytes: 0,
            is_durable: false,
            drive: 0,
            thread: 0,
            submitted: Time::ZERO,
            at: Time::ZERO,
            status: Status::Success,
            data: Vec::new(),
            recorded: 0,
            covered: Covered::default(),
            stages: None,
        }
    }
}

/// All slots, with the order of completions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Tickets of completed operations, in order. Completions that were taken by their tickets are skipped.
    completed: VecDeque<Ticket>,
    in_flight: usize,
    submitted: u64,
}

impl Slots {
    /// Returns the number of operations in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Assigns a slot to a newly submitted operation, and returns the slot's index.
    pub(crate) fn occupy(&mut self) -> u32 {
        self.in_flight += 1;
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            short_length(self.slots.len()) - 1
        });
        let slot = &mut self.slots[index(place)];
        (slot.state, slot.sequence) = (SlotState::InFlight, self.submitted);
        self.submitted += 1;
        place
    }

    /// Returns the ticket of the operation in a slot.
    pub(crate) fn ticket(&self, place: u32) -> Ticket {
        Ticket(u64::from(self.slots[index(place)].generation) << 32 | u64::from(place))
    }

    /// Returns the ticket of the operation that has just left a slot.
    pub(crate) fn taken_ticket(&self, place: u32) -> Ticket {
        let generation = self.slots[index(place)].generation.wrapping_sub(1);
        Ticket(u64::from(generation) << 32 | u64::from(place))
    }

    pub(crate) fn get(&self, place: u32) -> &Slot {
        &self.slots[index(place)]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[index(place)]
    }

    /// Completes the operation in a slot, with its time and status.
    pub(crate) fn complete(&mut self, place: u32, at: Time, status: Status) {
        let slot = &mut self.slots[index(place)];
        (slot.state, slot.at, slot.status) = (SlotState::Completed, at, status);
        self.in_flight -= 1;
        self.completed.push_back(self.ticket(place));
    }

    /// Returns the index of the slot that holds a ticket's operation.
    ///
    /// # Errors
    ///
    /// If the ticket names no operation.
    pub(crate) fn place(&self, ticket: Ticket) -> Result<u32, Misuse> {
        let place = low_u32(ticket.0);
        let slot = self.slots.get(index(place)).ok_or(Misuse::UnknownTicket(ticket))?;
        let is_known = slot.state != SlotState::Vacant && self.ticket(place) == ticket;
        is_known.then_some(place).ok_or(Misuse::UnknownTicket(ticket))
    }

    /// Takes the earliest completion and returns its slot, or returns none if there is none.
    pub(crate) fn take_next(&mut self) -> Option<u32> {
        loop {
            let ticket = self.completed.pop_front()?;
            if let Ok(place) = self.place(ticket) {
                self.vacate(place);
                return Some(place);
            }
        }
    }

    /// Takes the completion of the operation in a slot. Taken completions are removed from the queue when they reach
    /// its front, or when it grows too long.
    pub(crate) fn take(&mut self, place: u32) {
        self.vacate(place);
        while self.completed.front().is_some_and(|ticket| self.place(*ticket).is_err()) {
            self.completed.pop_front();
        }
        // A completion that is never taken must not keep all later ones in the queue.
        if self.completed.len() > 64 + 2 * self.slots.len() {
            let completed = std::mem::take(&mut self.completed);
            self.completed = completed.into_iter().filter(|ticket| self.place(*ticket).is_ok()).collect();
        }
    }

    /// Frees a slot. Its content stays readable until its next use.
    fn vacate(&mut self, place: u32) {
        let slot = &mut self.slots[index(place)];
        slot.state = SlotState::Vacant;
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(place);
    }

    /// Returns the slots of all operations in flight, in the order of their submission.
    pub(crate) fn flying(&self) -> Vec<u32> {
        let is_flying = |slot: &Slot| matches!(slot.state, SlotState::InFlight | SlotState::Flushing);
        let mut places: Vec<u32> =
            (0..short_length(self.slots.len())).filter(|place| is_flying(&self.slots[index(*place)])).collect();
        places.sort_unstable_by_key(|place| self.slots[index(*place)].sequence);
        places
    }
}
