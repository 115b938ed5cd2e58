//! The threads that serve one controller: who has which of its queues just now.
//!
//! ```text
//!    thread with the socket                        another device thread
//!    messages, admin queue, its own queues         its queues of this controller
//!      lend: queues and what serves them  ──slot──>  look, execute, answer, interrupt
//!      come home: all of them             <─slot───  between two of its rounds
//!      what takes the socket              <─mailbox─ commands out of its reach, queues that have failed
//! ```
//!
//! Whatever changes queues, the client's memory or its interrupts (messages but rings, admin commands, a reset, the client's end)
//! is done while all queues are at home, so that it meets no command half done and needs no lock. For a request, nothing is
//! written that another of these threads writes: a slot's lock is its thread's, as long as nobody wants what is in it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use phaselink_core::protocol::nvme::spec::Status;

use super::modelled::Due;
use super::reach::Mapped;
use crate::device::mailbox::Mailbox;
use crate::device::tally::locked;
use crate::device::wakeup::Wakeup;
use crate::nvme::{Command, QueueSet};

/// Queues of a client, with what another thread than that of the socket needs to serve them.
#[derive(Debug)]
pub struct Lane {
    /// Which client of its controller.
    pub client: u64,
    pub set: Box<QueueSet>,
    pub host: Mapped,
    /// The client can ring by memory alone, which wakes nobody.
    pub rings_unheard: bool,
    /// The controller has been told that there is something to follow.
    pub is_told: bool,
}

impl Lane {
    /// Tell the controller, once, that there is something to follow.
    #[inline]
    pub fn tell(&mut self, crew: &Crew) {
        if self.set.has_errors() && !std::mem::replace(&mut self.is_told, true) {
            crew.hand(self.client, Handed::News);
        }
    }

    /// Answer a command that has waited for the disk.
    pub fn commit(&mut self, command: &Command, flushed: io::Result<()>) -> Status {
        let status = self.set.complete_flushed(command, flushed, &mut self.host);
        self.set.send_interrupts(&mut self.host);
        status
    }
}

/// A flag on a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// Where queues are for another thread, while they are lent.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    lane: Mutex<Option<Box<Lane>>>,
    wanted: Flag,
}

impl Slot {
    /// What is in the slot, for a round of the thread that it is for: nothing while it is at home, or wanted there.
    #[inline]
    pub fn enter(&self) -> Option<MutexGuard<'_, Option<Box<Lane>>>> {
        if self.wanted.0.load(Ordering::Relaxed) {
            return None;
        }
        self.lane.try_lock().ok().filter(|lane| lane.is_some())
    }

    fn put(&self, lane: Lane) {
        *locked(&self.lane) = Some(Box::new(lane));
    }

    /// Without the flag, a thread that goes in again at once would keep others out.
    fn take(&self) -> Option<Box<Lane>> {
        self.wanted.0.store(true, Ordering::Relaxed);
        let lane = locked(&self.lane).take();
        self.wanted.0.store(false, Ordering::Relaxed);
        lane
    }
}

/// What a thread leaves to the one with the socket.
#[derive(Debug)]
pub(super) enum Handed {
    /// There is something for the controller to follow.
    News,
    /// A command to be done, for what it takes is out of reach.
    Perform(Command, Option<Instant>),
    /// A command to be answered, since the disk has done its part; its queue was not there.
    Commit(Command, io::Result<()>, Option<Instant>),
    /// A command that the model has decided upon.
    Due(Box<Due>),
}

/// The threads of a controller, beside the one with its socket.
#[derive(Debug)]
pub struct Crew<'a> {
    /// Where each finds its queues, and its wakeup.
    slots: Vec<(Slot, &'a Wakeup)>,
    /// What is left for the thread with the socket, with the number of its client.
    handed: Mailbox<(u64, Handed)>,
    wakeup: &'a Wakeup,
}

impl<'a> Crew<'a> {
    /// Of the threads with these wakeups, behind the one with the first.
    pub fn new(wakeup: &'a Wakeup, others: impl Iterator<Item = &'a Wakeup>) -> Crew<'a> {
        Crew { slots: others.map(|wakeup| (Slot::default(), wakeup)).collect(), handed: Mailbox::default(), wakeup }
    }

    /// Sets of queues: one for each thread.
    pub fn sets(&self) -> usize {
        self.slots.len() + 1
    }

    /// Where a thread finds its queues, counted from 0 behind the one with the socket.
    pub fn slot(&self, number: usize) -> &Slot {
        &self.slots[number].0
    }

    /// Lend a set, which is counted from 1, to its thread.
    pub fn lend(&self, set: usize, lane: Lane) {
        let (slot, wakeup) = &self.slots[set - 1];
        slot.put(lane);
        wakeup.wake();
    }

    /// What is lent of a set, if anything is.
    pub fn take(&self, set: usize) -> Option<Box<Lane>> {
        self.slots[set - 1].0.take()
    }

    /// Doorbells have been rung.
    pub fn wake(&self) {
        self.slots.iter().for_each(|(_, wakeup)| wakeup.wake());
    }

    /// Leave something to the thread with the socket.
    pub(super) fn hand(&self, client: u64, handed: Handed) {
        self.handed.put((client, handed));
        self.wakeup.wake();
    }

    /// Whether anything has been left.
    pub fn has_handed(&self) -> bool {
        self.handed.has_any()
    }

    /// What has been left.
    #[inline]
    pub(super) fn take_handed(&self) -> Vec<(u64, Handed)> {
        self.handed.take()
    }
}
