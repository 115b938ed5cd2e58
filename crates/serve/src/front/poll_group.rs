//! Poll groups: which thread owns which queue, how a queue is handed over and comes back, and the loop of every device
//! thread.
//!
//! A poll group is a thread with the queues that it polls. A [`PollGroupMailbox`] brings clients, connections and requests
//! to the group that owns them from now on. A [`LentQueueOwner`] holds queues that one group lends to another. Only the
//! present owner enters it, so that a request costs no lock that another thread takes.

use std::hint;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::number::{length, wide_index};
use phaselink_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::lifecycle::{Delivery, Request, RequestLifecycle, Resume};
use super::model::Model;
use crate::clock::Wait;
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::device::mailbox::Mailbox;
use crate::device::pace::{IDLE_ROUNDS_MAX, IdlePollingTimer};
use crate::device::tally::locked;
use crate::device::wakeup::Wakeup;

/// Part of a front-end on one device thread: clients, queues and notifications. The steps of a request are in
/// [`RequestLifecycle`].
pub trait FrontEnd: Resume<Self::Request> {
    /// Type of the front-end's requests.
    type Request: Request;
    /// Order in which a request's bytes move and its completion is written, while timing is on.
    const DELIVERY: Delivery;
    /// Number of polling rounds over the queues for each poll of sockets and handovers.
    const ROUNDS_PER_ATTENTION: u32 = 1;
    /// True if the processor is told to pause between idle rounds. A client on the same core gains; a request that
    /// comes meanwhile waits half a pause longer.
    const PAUSES: bool = true;

    /// Returns the largest number of bytes that one request moves through the thread's buffer.
    fn transfer_bytes_max(&self) -> usize {
        0
    }

    /// Returns the time by which completions are written before their modelled instants: the round trip of a word
    /// between server and client.
    fn completion_lead(&self) -> Span {
        Span::ZERO
    }

    /// Connects and disconnects clients, and handles their messages. Returns true if there was anything to do.
    fn attend(&mut self, life: &mut RequestLifecycle<'_, Self::Request>) -> bool;

    /// Fetches requests from all queues of this thread, and executes them or submits them to the model. Returns true if
    /// there was any.
    fn fetch(&mut self, life: &mut RequestLifecycle<'_, Self::Request>) -> bool;

    /// Returns true if every client that can submit a request also ends the thread's sleep by it.
    fn can_sleep(&self) -> bool {
        true
    }

    /// Asks clients to notify the thread from now on, and polls their queues once more. Returns the descriptors that
    /// end the sleep; none if there is work already. May shorten the `time` of the sleep.
    fn prepare_sleep(&mut self, time: &mut Duration) -> Option<Vec<PollFd<'_>>>;

    /// Tells clients that the thread is awake and needs no notifications.
    fn end_sleep(&mut self) {}

    /// Finishes the front-end's work on this thread, after the device has been told to stop.
    fn end(&mut self, _life: &mut RequestLifecycle<'_, Self::Request>) {}
}

/// Device thread before it runs, with its device, model and wake-up.
#[derive(Debug)]
pub struct PollGroup<'a> {
    /// Device that the thread serves.
    pub device: &'a Device,
    /// Way in which the thread waits for work: spinning, sleeping, or spinning for a moment first.
    pub wait: Wait,
    /// Model that decides when the thread's requests complete.
    pub model: Model<'a>,
    /// Wake-up of the thread, which other threads use when they have left work for it.
    pub wakeup: &'a Wakeup,
}

impl PollGroup<'_> {
    /// Runs the polling loop of `front` on the calling thread until the device is told to stop. Returns the outcome of
    /// the simulation, if this thread ran the engine.
    ///
    /// # Errors
    /// If the system gives no thread, or cannot wait for descriptors.
    pub fn run<F: FrontEnd>(self, mut front: F) -> io::Result<Option<Outcome>> {
        let PollGroup { device, wait, model, wakeup } = self;
        let _stop = device.stop.stop_when_dropped();
        thread::scope(|scope| {
            let flusher = Flusher::flusher_of_store(scope, &device.store, || wakeup.signal())?;
            let mut life = RequestLifecycle::new(device, model, flusher, F::DELIVERY)
                .with_transfer_buffer(front.transfer_bytes_max())
                .with_completion_lead(front.completion_lead());
            poll(&mut front, &mut life, wait, wakeup)?;
            Ok(life.model.outcome())
        })
    }
}

/// Runs poll groups, the first of them on the calling thread, until all have ended.
///
/// # Errors
/// The first error of a group, or that of the system if it gives no thread.
///
/// # Panics
/// If there is no group.
pub(super) fn run_all<G: FnOnce() -> io::Result<Option<Outcome>> + Send>(
    device: &Device,
    name: &str,
    mut groups: Vec<G>,
) -> io::Result<Option<Outcome>> {
    let first = groups.remove(0);
    thread::scope(|scope| {
        let _stop = device.stop.stop_when_dropped();
        let spawn = |group| thread::Builder::new().name(format!("{name} device")).spawn_scoped(scope, group);
        let others = groups.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        let own = first();
        device.stop.request();
        let failed = || io::Error::other(format!("a device thread of {name} has failed"));
        let joined: Vec<_> = others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(failed()))).collect();
        joined.into_iter().fold(own, |ended, other| Ok(ended?.or(other?)))
    })
}

/// Returns the index of the poll group, out of `groups`, that owns a queue of a client. Queues of a client take turns
/// over the groups, and so do clients with one queue.
pub(super) fn owner(client: u64, queue: u64, groups: usize) -> usize {
    wide_index((client + queue) % length(groups))
}

/// Counters of a polling loop, which decide when it polls sockets, and when it yields or sleeps.
struct Rounds {
    wait: Wait,
    since_attention: u32,
    idle: u32,
    patience: IdlePollingTimer,
}

/// Number of polling rounds until sockets are polled again after one of them had a message, as more messages come soon.
const ROUNDS_TO_NEXT_MESSAGE: u32 = 16;

fn poll<F: FrontEnd>(
    front: &mut F,
    life: &mut RequestLifecycle<'_, F::Request>,
    wait: Wait,
    wakeup: &Wakeup,
) -> io::Result<()> {
    let mut rounds =
        Rounds { wait, since_attention: F::ROUNDS_PER_ATTENTION, idle: 0, patience: IdlePollingTimer::default() };
    while !life.device.stop.is_requested() {
        life.record_round_start();
        let mut found = front.fetch(life);
        found |= life.poll(front);
        rounds.since_attention += 1;
        if rounds.since_attention >= F::ROUNDS_PER_ATTENTION || wait == Wait::Block {
            let any = front.attend(life);
            rounds.since_attention =
                if any { F::ROUNDS_PER_ATTENTION.saturating_sub(ROUNDS_TO_NEXT_MESSAGE) } else { 0 };
            found |= any;
        }
        if rounds.are_idle(found) {
            yield_or_sleep_until_work(front, life, &mut rounds, wakeup)?;
        } else if F::PAUSES && !found {
            hint::spin_loop();
        }
    }
    front.end(life);
    Ok(())
}

impl Rounds {
    /// Counts a polling round, which has found work if `found` is true. Returns true if the loop should yield or sleep
    /// now.
    #[inline]
    fn are_idle(&mut self, found: bool) -> bool {
        if found {
            self.idle = 0;
            self.patience.renew();
            return false;
        }
        self.idle += 1;
        let are_idle = self.idle >= IDLE_ROUNDS_MAX || self.wait == Wait::Block;
        if are_idle {
            self.idle = 0;
        }
        are_idle
    }
}

/// Yields the processor once, or sleeps until there may be work for the device thread.
fn yield_or_sleep_until_work<F: FrontEnd>(
    front: &mut F,
    life: &mut RequestLifecycle<'_, F::Request>,
    rounds: &mut Rounds,
    wakeup: &Wakeup,
) -> io::Result<()> {
    life.counter.show();
    let has_clients = front.has_clients() || life.model.has_callers();
    let mut time = life.rest_for(rounds.wait, has_clients);
    let may_sleep = !has_clients || front.can_sleep() && rounds.patience.is_over(rounds.wait);
    if time.is_zero() || !may_sleep {
        thread::yield_now();
        return Ok(());
    }
    wakeup.announce_sleep();
    let slept = match front.prepare_sleep(&mut time) {
        Some(mut polled) if !life.model.listen() => {
            let device = life.device;
            let own = [device.stop.as_fd(), wakeup.as_fd()];
            polled.extend(own.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            sleep(&mut polled, Some(time)).map(|()| true)
        }
        _ => Ok(false),
    };
    wakeup.end_sleep();
    front.end_sleep();
    life.end_sleep();
    if slept? {
        // Most likely a socket ended the sleep, so handle the sockets in the next round.
        rounds.since_attention = F::ROUNDS_PER_ATTENTION;
    }
    Ok(())
}

/// Sleeps until a descriptor is ready, or for `time`. A signal may end the sleep earlier.
///
/// # Errors
/// If the system cannot wait for descriptors.
pub(super) fn sleep(polled: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<()> {
    let time = time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    match rustix::event::poll(polled, time.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        other => other.map(drop).map_err(io::Error::from),
    }
}

/// Mailbox by which clients, connections or requests come to the poll group that owns them from then on.
#[derive(Debug)]
pub struct PollGroupMailbox<'a, T> {
    mailbox: Mailbox<T>,
    wakeup: &'a Wakeup,
}

impl<'a, T> PollGroupMailbox<'a, T> {
    /// Makes an empty mailbox for the thread with this wake-up.
    pub fn new(wakeup: &'a Wakeup) -> PollGroupMailbox<'a, T> {
        PollGroupMailbox { mailbox: Mailbox::default(), wakeup }
    }

    /// Hands `thing` over to the poll group, and wakes the group's thread.
    pub fn put(&self, thing: T) {
        self.mailbox.put(thing);
        self.wakeup.wake();
    }

    /// Takes everything out of the mailbox that has been handed over since the last call.
    #[inline]
    pub fn take(&self) -> Vec<T> {
        self.mailbox.take()
    }

    /// Returns true if the mailbox holds something that the poll group has not taken yet.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.mailbox.has_any()
    }

    /// Wakes the poll group's thread, as one of its clients has submitted something.
    pub fn wake(&self) {
        self.wakeup.wake();
    }
}

/// Boolean flag that fills a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// Queues that one poll group lends to another. The borrower owns them from `enter` until it drops the guard; in
/// between, the lender can take them back.
#[derive(Debug)]
#[repr(align(64))]
pub struct LentQueueOwner<T> {
    lent: Mutex<Option<Box<T>>>,
    is_wanted_back: Flag,
}

impl<T> Default for LentQueueOwner<T> {
    fn default() -> LentQueueOwner<T> {
        LentQueueOwner { lent: Mutex::new(None), is_wanted_back: Flag::default() }
    }
}

impl<T> LentQueueOwner<T> {
    /// Gives the borrower the queues until it drops the returned guard. Returns none if no queues are lent, or the
    /// lender wants them back.
    #[inline]
    pub fn enter(&self) -> Option<MutexGuard<'_, Option<Box<T>>>> {
        if self.is_wanted_back.0.load(Ordering::Relaxed) {
            return None;
        }
        self.lent.try_lock().ok().filter(|lent| lent.is_some())
    }

    /// Lends `queues` to the borrower, which can enter them from now on.
    pub fn lend(&self, queues: T) {
        *locked(&self.lent) = Some(Box::new(queues));
    }

    /// Takes the queues back as soon as the borrower has finished its round; none if no queues were lent. A flag keeps
    /// the borrower out meanwhile, which might otherwise enter again first.
    pub fn take_back(&self) -> Option<Box<T>> {
        self.is_wanted_back.0.store(true, Ordering::Relaxed);
        let queues = locked(&self.lent).take();
        self.is_wanted_back.0.store(false, Ordering::Relaxed);
        queues
    }
}

/// Returns the poll entry of a descriptor that ends a sleep when it is readable.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}
