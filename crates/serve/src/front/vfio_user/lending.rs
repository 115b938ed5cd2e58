//! The poll groups that serve one controller: the owner, which has the client's socket, and the borrowers of its
//! queues.
//!
//! ```text
//!    owner                                          borrower
//!    messages, admin queue, its own queues          queues that it polls
//!      lend: queues and what serves them  ──slot──>   fetch, execute, complete, interrupt
//!      take back: all of them             <─slot───   between two of its rounds
//!      what takes the socket              <─handover─ requests out of its reach, queues that have failed
//! ```
//!
//! A client whose memory has to be asked for over the socket can let its owner wait. Where a thread owns the sockets of
//! several controllers, such a client leaves it with its controller, after the first wait, for a thread of its own:
//!
//! ```text
//!    home: the owner at first                       spare thread: asleep until then
//!      the controller with its client    ──aside──>   owner of this controller alone, which lends nothing
//!      requests that were in flight      ──aside──>
//!    the controller, when the client has <─handover─
//!    gone; the next client leaves at once
//! ```
//!
//! Whatever changes queues, the client's memory or its interrupts (messages but doorbells, admin commands, a reset, the
//! client's end) is done while the owner has all queues. So it finds no command half executed, and needs no lock.

use phaselink_core::number::{index, length};
use phaselink_core::protocol::nvme::rules::Limits;

use super::controller::ControllerState;
use super::reach::Mapped;
use crate::device::wakeup::Wakeup;
use crate::front::lifecycle::RequestInFlight;
use crate::front::nvme_command::{CommandRequest, HandOver};
use crate::front::poll_group::{LentQueueOwner, PollGroupMailbox, owner};
use crate::nvme::QueueSet;

/// Set of a client's queues, with the access to the client's memory that a borrower needs. A borrower is a device
/// thread that serves queues of a controller that another thread owns.
#[derive(Debug)]
pub(super) struct LentQueues {
    /// Number of the client among all that its controller has had.
    pub client: u64,
    pub set: Box<QueueSet>,
    pub host: Mapped,
    /// True if the client can write doorbells in mapped memory, which wakes no thread.
    pub rings_silently: bool,
    /// True if the controller's owner has been told of an error in these queues.
    is_reported: bool,
}

impl LentQueues {
    /// Makes a set of queues ready for a borrower (a device thread other than the controller's owner), which reaches
    /// the client's memory by `host`.
    pub(super) fn new(client: u64, set: Box<QueueSet>, host: Mapped, rings_silently: bool) -> LentQueues {
        LentQueues { client, set, host, rings_silently, is_reported: false }
    }

    /// Tells the controller's owner, once, if these queues have had an error that the controller must handle.
    #[inline]
    pub(super) fn report(&mut self, groups: &ControllerGroups<'_>) {
        if self.set.has_reportable_errors() && !std::mem::replace(&mut self.is_reported, true) {
            groups.handover.put(ControllerHandover::QueueError);
        }
    }
}

/// Message from another thread to a thread that has a controller.
#[derive(Debug)]
pub(super) enum ControllerHandover {
    /// Lent queues have had an error that the controller must handle: a failed queue, or an invalid doorbell.
    QueueError,
    /// A request whose queue has been taken back from the borrower, or whose data the borrower cannot reach.
    Request(Box<RequestInFlight<CommandRequest>>),
    /// The controller itself, with its client if there is one.
    Controller(Box<ControllerState>),
}

/// Slot by which one poll group borrows queues, and the wake-up of its thread.
#[derive(Debug)]
struct QueueBorrower<'a> {
    slot: LentQueueOwner<LentQueues>,
    wakeup: &'a Wakeup,
}

/// Poll groups that serve one controller: its owner, the borrowers of its queues, and perhaps a spare thread.
#[derive(Debug)]
pub(super) struct ControllerGroups<'a> {
    borrowers: Vec<QueueBorrower<'a>>,
    pub handover: PollGroupMailbox<'a, ControllerHandover>,
    /// Handover to the spare thread, for a client that lets its owner wait; none if the owner has no other clients.
    pub spare_thread: Option<PollGroupMailbox<'a, ControllerHandover>>,
}

impl<'a> ControllerGroups<'a> {
    /// Divides the queues of a controller with these limits among the threads that have these wake-ups.
    pub(super) fn new(controller: usize, limits: &Limits, wakeups: &[&'a Wakeup]) -> ControllerGroups<'a> {
        let sets = wakeups.len().min(index(limits.queue_pairs));
        let wakeup = |set| wakeups[group_of(controller, set, wakeups.len())];
        let borrower = |set| QueueBorrower { slot: LentQueueOwner::default(), wakeup: wakeup(set) };
        let borrowers = (1..sets).map(borrower).collect();
        ControllerGroups { borrowers, handover: PollGroupMailbox::new(wakeup(0)), spare_thread: None }
    }

    /// Gives the controller a spare thread with this wake-up, or none.
    pub(super) fn with_spare_thread(self, wakeup: Option<&'a Wakeup>) -> ControllerGroups<'a> {
        ControllerGroups { spare_thread: wakeup.map(PollGroupMailbox::new), ..self }
    }

    /// Returns the number of sets into which the controller's queues are divided: one for each poll group.
    #[inline]
    pub(super) fn sets(&self) -> usize {
        self.borrowers.len() + 1
    }

    /// Returns the slot by which a set of queues is lent. Sets count from 1, as the owner keeps set 0.
    pub(super) fn slot(&self, set: usize) -> &LentQueueOwner<LentQueues> {
        &self.borrowers[set - 1].slot
    }

    /// Lends a set of queues (counted from 1) to its borrower, and wakes the borrower.
    pub(super) fn lend(&self, set: usize, queues: LentQueues) {
        self.slot(set).lend(queues);
        self.borrowers[set - 1].wakeup.wake();
    }

    /// Wakes all borrowers of the controller's queues, since the client has written doorbells.
    pub(super) fn wake(&self) {
        self.borrowers.iter().for_each(|borrower| borrower.wakeup.wake());
    }
}

impl HandOver for ControllerGroups<'_> {
    #[cold]
    fn hand_over(&self, request: RequestInFlight<CommandRequest>) {
        self.handover.put(ControllerHandover::Request(Box::new(request)));
    }
}

/// Returns the index of the poll group, out of `groups`, that serves a set of a controller's queues. Controllers with
/// one queue are divided as a whole; those with many have queues on all threads.
pub(super) fn group_of(controller: usize, set: usize, groups: usize) -> usize {
    owner(length(controller), length(set), groups)
}
