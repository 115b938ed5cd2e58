//! The poll groups that serve one controller: the owner, which has the admin queue, and the borrowers of I/O queues.
//!
//! A borrower has the connections of its queues: it receives commands, executes them and sends the responses. The owner
//! takes the queues back for everything that changes the controller (admin commands, properties, new connections and
//! those that have ended), and lends them again.

use phaselink_core::number::length;

use super::accept::Arrival;
use super::host::OwnedQueueConnections;
use crate::device::wakeup::Wakeup;
use crate::front::lifecycle::RequestInFlight;
use crate::front::nvme_command::{CommandRequest, HandOver};
use crate::front::poll_group::{LentQueueOwner, PollGroupMailbox, owner};
use crate::nvme::QueueSet;

/// Queues of a controller with their connections, which a thread borrows.
#[derive(Debug)]
pub(super) struct LentConnections {
    /// Number of the host among all that the controller's place has had.
    pub client: u64,
    pub set: Box<QueueSet>,
    pub host: OwnedQueueConnections,
    /// True if the owner has been told that it is needed.
    is_reported: bool,
}

impl LentConnections {
    pub(super) fn new(client: u64, set: Box<QueueSet>, host: OwnedQueueConnections) -> LentConnections {
        LentConnections { client, set, host, is_reported: false }
    }

    /// Tells the owner, once, that these queues need it.
    pub(super) fn notify_owner_once(&mut self, groups: &ControllerPollGroups<'_>) {
        if !std::mem::replace(&mut self.is_reported, true) {
            groups.handover.put(ControllerOwnerMessage::Attention);
        }
    }
}

/// OwnerMessage to the thread that owns a controller.
#[derive(Debug)]
pub(super) enum ControllerOwnerMessage {
    /// A host has sent Connect.
    Arrival(Box<Arrival>),
    /// Lent queues need their owner: a connection has ended, or a command is not for the queues.
    Attention,
    /// A request whose queue has been taken back from its borrower.
    Request(Box<RequestInFlight<CommandRequest>>),
}

#[derive(Debug)]
struct BorrowerSlot<'a> {
    slot: LentQueueOwner<LentConnections>,
    wakeup: &'a Wakeup,
}

/// Poll groups that serve the controller of one place.
#[derive(Debug)]
pub(super) struct ControllerPollGroups<'a> {
    borrowers: Vec<BorrowerSlot<'a>>,
    pub handover: PollGroupMailbox<'a, ControllerOwnerMessage>,
}

impl<'a> ControllerPollGroups<'a> {
    /// Divides the queues of the controller in a place into `sets` sets among the threads that have these wake-ups.
    pub(super) fn new(place: usize, sets: usize, wakeups: &[&'a Wakeup]) -> ControllerPollGroups<'a> {
        let wakeup = |set| wakeups[group_of(place, set, wakeups.len())];
        let borrower = |set| BorrowerSlot { slot: LentQueueOwner::default(), wakeup: wakeup(set) };
        ControllerPollGroups {
            borrowers: (1..sets).map(borrower).collect(),
            handover: PollGroupMailbox::new(wakeup(0)),
        }
    }

    /// Returns the number of sets of queues.
    #[inline]
    pub(super) fn sets(&self) -> usize {
        self.borrowers.len() + 1
    }

    /// Returns the slot by which a set of queues is lent. Sets count from 1, as the owner keeps set 0.
    pub(super) fn slot(&self, set: usize) -> &LentQueueOwner<LentConnections> {
        &self.borrowers[set - 1].slot
    }

    /// Lends a set of queues (counted from 1) to its borrower, and wakes the borrower.
    pub(super) fn lend(&self, set: usize, queues: LentConnections) {
        self.slot(set).lend(queues);
        self.borrowers[set - 1].wakeup.wake();
    }
}

impl HandOver for ControllerPollGroups<'_> {
    #[cold]
    fn hand_over(&self, request: RequestInFlight<CommandRequest>) {
        self.handover.put(ControllerOwnerMessage::Request(Box::new(request)));
    }
}

/// Returns the index of the poll group, out of `groups`, that serves a set of the queues of the controller in a place.
pub(super) fn group_of(place: usize, set: usize, groups: usize) -> usize {
    owner(length(place), length(set), groups)
}
