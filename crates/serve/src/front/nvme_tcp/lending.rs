//! The poll groups that serve one controller: the owner, which has the admin queue, and the borrowers of I/O queues.
//!
//! A borrower has the connections of its queues: it receives commands, executes them and sends the responses. The owner
//! takes the queues back for everything that changes the controller (admin commands, properties, new connections and
//! those that have ended), and lends them again.

use phaselink_core::number::length;

use super::accept::Arrival;
use super::host::QueueConnections;
use crate::device::wakeup::Wakeup;
use crate::front::lifecycle::RequestInFlight;
use crate::front::nvme_command::{CommandRequest, HandOver};
use crate::front::poll_group::{QueueHandover, QueueOwner, owner};
use crate::nvme::QueueSet;

/// Queues of a controller with their connections, which a thread borrows.
#[derive(Debug)]
pub(super) struct LentConnections {
    /// Number of the host among all that the controller's place has had.
    pub client: u64,
    pub set: Box<QueueSet>,
    pub host: QueueConnections,
    /// True if the owner has been told that it is needed.
    is_reported: bool,
}

impl LentConnections {
    pub(super) fn new(client: u64, set: Box<QueueSet>, host: QueueConnections) -> LentConnections {
        LentConnections { client, set, host, is_reported: false }
    }

    /// Tells the owner, once, that these queues need it.
    pub(super) fn call_owner(&mut self, groups: &PlaceGroups<'_>) {
        if !std::mem::replace(&mut self.is_reported, true) {
            groups.handover.put(OwnerMessage::Attention);
        }
    }
}

/// OwnerMessage to the thread that owns a controller.
#[derive(Debug)]
pub(super) enum OwnerMessage {
    /// A host has sent Connect.
    Arrival(Box<Arrival>),
    /// Lent queues need their owner: a connection has ended, or a command is not for the queues.
    Attention,
    /// A request whose queue has been taken back from its borrower.
    Request(Box<RequestInFlight<CommandRequest>>),
}

#[derive(Debug)]
struct SlotOfBorrower<'a> {
    slot: QueueOwner<LentConnections>,
    wakeup: &'a Wakeup,
}

/// Poll groups that serve the controller of one place.
#[derive(Debug)]
pub(super) struct PlaceGroups<'a> {
    borrowers: Vec<SlotOfBorrower<'a>>,
    pub handover: QueueHandover<'a, OwnerMessage>,
}

impl<'a> PlaceGroups<'a> {
    /// Divides the queues of the controller in a place into `sets` sets among the threads that have these wake-ups.
    pub(super) fn new(place: usize, sets: usize, wakeups: &[&'a Wakeup]) -> PlaceGroups<'a> {
        let wakeup = |set| wakeups[group_of(place, set, wakeups.len())];
        let borrower = |set| SlotOfBorrower { slot: QueueOwner::default(), wakeup: wakeup(set) };
        PlaceGroups { borrowers: (1..sets).map(borrower).collect(), handover: QueueHandover::new(wakeup(0)) }
    }

    /// Returns the number of sets of queues.
    #[inline]
    pub(super) fn sets(&self) -> usize {
        self.borrowers.len() + 1
    }

    /// Returns the slot by which a set of queues is lent. Sets count from 1, as the owner keeps set 0.
    pub(super) fn slot(&self, set: usize) -> &QueueOwner<LentConnections> {
        &self.borrowers[set - 1].slot
    }

    /// Lends a set of queues (counted from 1) to its borrower, and wakes the borrower.
    pub(super) fn lend(&self, set: usize, queues: LentConnections) {
        self.slot(set).lend(queues);
        self.borrowers[set - 1].wakeup.wake();
    }
}

impl HandOver for PlaceGroups<'_> {
    #[cold]
    fn hand_over(&self, request: RequestInFlight<CommandRequest>) {
        self.handover.put(OwnerMessage::Request(Box::new(request)));
    }
}

/// Returns the index of the poll group, out of `groups`, that serves a set of the queues of the controller in a place.
pub(super) fn group_of(place: usize, set: usize, groups: usize) -> usize {
    owner(length(place), length(set), groups)
}
