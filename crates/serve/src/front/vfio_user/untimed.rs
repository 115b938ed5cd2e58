//! Timing off: device threads look at the queues and do what they find, straight on the store.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::rules::Action;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::Op;

use super::crew::{Crew, Handed, Lane};
use super::division::Division;
use super::front::{self, ControllerSocket, Disk, Origin, Place, Posts, Seat, Unsaved};
use super::reach::Reach;
use super::serve::{self, Execution};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::front::pace::{BATCH, Counter, SLEEP_MAX};
use crate::model::wall::Wait;
use crate::nvme::{Command, CommandProgress, NextCommand, QueueSet};

/// A device thread.
struct Untimed<'a> {
    posts: Posts<'a>,
    executor: Executor<'a>,
}

/// What executing commands takes, beside queues and their host.
struct Executor<'a> {
    device: &'a Device,
    disk: Disk,
    space: Vec<u8>,
    /// Commands that have been taken and not done, empty between queues.
    ahead: Vec<Ahead>,
    /// Commands that a fault delays.
    held: DelayQueue<(Origin, Command)>,
    counter: Counter<'a>,
}

/// A command on its way, with when it was begun if its latency is measured, and what has become of it.
struct Ahead {
    command: Command,
    started: Option<Instant>,
    /// What goes wrong with it.
    effect: FaultEffect,
    /// Nothing, if its data is out of this thread's reach.
    done: Option<Result<(), Status>>,
}

impl Ahead {
    #[inline]
    fn begin(command: Command, effect: FaultEffect, counter: &mut Counter<'_>) -> Ahead {
        let started = counter.begin();
        counter.executed();
        Ahead { command, started, effect, done: None }
    }
}

/// Commands that are taken before the first of them is done, so that the ways of their data through the machine overlap,
/// and answered together, so that the line of their completion entries goes to the client once.
const AHEAD: usize = 8;

/// Serve until the device is told to stop, on up to so many threads, among which queues are divided.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wait: Wait, threads: usize) -> io::Result<()> {
    let division = Division::new(served, threads)?;
    let crews = division.crews();
    let mut posts = division.posts(&crews, wait);
    let own = posts.remove(0);
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let others = posts.into_iter().map(|posts| {
            let builder = thread::Builder::new().name(String::from("vfio-user device"));
            builder.spawn_scoped(scope, move || serve_some(device, served, posts, wait))
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        let served = serve_some(device, served, own, wait);
        let joined = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of vfio-user has failed"))));
        joined.collect::<Vec<_>>().into_iter().fold(served, io::Result::and)
    })
}

/// One thread.
fn serve_some(device: &Device, served: &[ControllerSocket], posts: Posts, wait: Wait) -> io::Result<()> {
    let _stop = device.stop.at_the_end();
    let wakeup = posts.wakeup;
    thread::scope(|scope| {
        let executor = Executor {
            device,
            disk: Disk::of_store(scope, &device.store, || wakeup.signal())?,
            space: front::space(served),
            ahead: Vec::with_capacity(AHEAD),
            held: DelayQueue::default(),
            counter: Counter::open(device),
        };
        serve::run(device, wait, &mut Untimed { posts, executor })
    })
}

impl<'a> Execution<'a> for Untimed<'a> {
    #[inline]
    fn round(&mut self) -> bool {
        self.take_handed() | self.commit() | self.begin_late() | self.look()
    }

    #[inline]
    fn posts(&mut self) -> &mut Posts<'a> {
        &mut self.posts
    }

    fn count_undefined(&mut self) {
        self.posts.count_undefined(self.executor.counter.counts());
    }

    fn rest(&mut self, _wait: Wait) -> Duration {
        self.executor.counter.show();
        self.executor.held.no_longer_than(SLEEP_MAX)
    }
}

impl Untimed<'_> {
    /// Look at every queue; whether anything was there.
    #[inline]
    fn look(&mut self) -> bool {
        let Untimed { posts: Posts { fronts, seats, .. }, executor } = self;
        let mut found = false;
        for (place, front) in fronts.iter_mut().enumerate() {
            found |= front.administer(|status| executor.count_error(status));
            let origin = Origin { place: Place::Front(place), client: front.clients_ever };
            let crew = front.crew();
            let Some((sets, client)) = front.own() else { continue };
            for set in sets {
                found |= executor.serve(origin, crew, set, client);
            }
        }
        for (place, seat) in seats.iter().enumerate() {
            let Some(mut entered) = seat.slot.enter() else { continue };
            let Some(lane) = &mut *entered else { continue };
            let Lane { set, host, client, .. } = &mut **lane;
            let origin = Origin { place: Place::Seat(place), client: *client };
            found |= executor.serve(origin, seat.crew, set, host);
            lane.tell(seat.crew);
        }
        found
    }

    /// Do what other threads have left; whether there was anything.
    #[inline]
    fn take_handed(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.posts.fronts.len() {
            for (client, handed) in self.posts.fronts[place].crew().take_handed() {
                self.on_handed(Origin { place: Place::Front(place), client }, handed);
                any = true;
            }
        }
        any
    }

    #[cold]
    fn on_handed(&mut self, origin: Origin, handed: Handed) {
        let Untimed { posts, executor } = self;
        let Place::Front(place) = origin.place else { return };
        let front = &mut posts.fronts[place];
        match handed {
            // The controller follows at its next turn.
            Handed::News => front.come_home(),
            Handed::Commit(command, flushed, started) => {
                let status = front.commit(origin.client, &command, flushed);
                executor.count(&command, status, started);
            }
            // There is no model.
            Handed::Due(_) => {}
            Handed::Perform(command, started) => {
                // It may have to be asked for.
                front.come_home();
                let crew = front.crew();
                let Some((set, client)) = front.at_home(origin.client, &command) else { return };
                let command = set.recheck(&command, client);
                executor.ahead.push(Ahead { command, started, effect: FaultEffect::default(), done: None });
                executor.do_ahead(origin, crew, set, client);
                set.send_interrupts(client);
            }
        }
    }

    /// Answer what has become durable; whether anything has.
    #[inline]
    fn commit(&mut self) -> bool {
        let Untimed { posts, executor } = self;
        let mut any = false;
        while let Some((unsaved, flushed)) = executor.disk.take_done() {
            if let Some((command, status, started)) = posts.commit(unsaved, flushed) {
                executor.count(&command, status, started);
            }
            any = true;
        }
        any
    }

    /// Do what a fault has delayed; whether there was anything.
    #[inline]
    fn begin_late(&mut self) -> bool {
        let Untimed { posts: Posts { fronts, seats, .. }, executor } = self;
        let mut any = false;
        while let Some((origin, command)) = executor.held.take_due() {
            any = true;
            match origin.place {
                Place::Front(place) => {
                    let crew = fronts[place].crew();
                    if let Some((set, client)) = fronts[place].at_home(origin.client, &command) {
                        executor.do_late(origin, crew, command, set, client);
                    }
                }
                Place::Seat(place) => {
                    let Seat { crew, slot, .. } = seats[place];
                    match slot.enter().as_deref_mut().and_then(Option::as_mut) {
                        Some(lane) if lane.client == origin.client => {
                            executor.do_late(origin, crew, command, &mut lane.set, &mut lane.host);
                        }
                        _ => crew.hand(origin.client, Handed::Perform(command, None)),
                    }
                }
            }
        }
        any
    }
}

impl Executor<'_> {
    /// Look at the queues of a set; whether anything was there.
    #[inline]
    fn serve(&mut self, origin: Origin, crew: &Crew, set: &mut QueueSet, host: &mut impl Reach) -> bool {
        set.io_queues().fold(false, |found, queue| self.serve_queue(origin, crew, queue, set, host) | found)
    }

    #[inline]
    fn serve_queue(
        &mut self,
        origin: Origin,
        crew: &Crew,
        queue: u16,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) -> bool {
        if !set.poll_doorbell(queue, host) {
            return false;
        }
        let mut left = BATCH;
        loop {
            self.take_ahead(origin, crew, queue, &mut left, set, host);
            if self.ahead.is_empty() {
                break;
            }
            self.do_ahead(origin, crew, set, host);
        }
        set.send_interrupts(host);
        left < BATCH
    }

    /// Take commands that have been seen, no more than are `left`, until there are as many as may be ahead.
    #[inline]
    fn take_ahead(
        &mut self,
        origin: Origin,
        crew: &Crew,
        queue: u16,
        left: &mut u32,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) {
        while self.ahead.len() < AHEAD && *left > 0 {
            let NextCommand::Io(command) = set.next_io_command(queue, host) else { return };
            *left -= 1;
            note(self.device, &command);
            if host.take_out_of_reach() {
                crew.hand(origin.client, Handed::Perform(command, None));
                continue;
            }
            set.prefetch(&command, host, &self.device.store);
            match meet(self.device, &command, queue) {
                None => self.ahead.push(Ahead::begin(command, FaultEffect::default(), &mut self.counter)),
                Some(FaultOutcome::Executed(effect)) => {
                    self.ahead.push(Ahead::begin(command, effect, &mut self.counter))
                }
                Some(FaultOutcome::Delayed(time)) => self.held.keep(time, (origin, command)),
                Some(FaultOutcome::Hangs) => set.drop_command(&command),
            }
        }
    }

    /// Move the data of what has been taken, and answer it; what is out of reach is left to the thread with the socket.
    #[inline]
    fn do_ahead(&mut self, origin: Origin, crew: &Crew, set: &mut QueueSet, host: &mut impl Reach) {
        self.perform(set, host);
        let mut ahead = std::mem::take(&mut self.ahead);
        for one in ahead.drain(..) {
            match one.done {
                Some(done) => self.finish(origin, one, done, set, host),
                None => crew.hand(origin.client, Handed::Perform(one.command, one.started)),
            }
        }
        self.ahead = ahead;
    }

    #[inline]
    fn perform(&mut self, set: &mut QueueSet, host: &mut impl Reach) {
        let (store, space) = (&self.device.store, &mut self.space);
        for Ahead { command, done, effect, .. } in &mut self.ahead {
            let performed = match *effect == FaultEffect::default() {
                true => set.perform(command, host, store, space),
                false => set.perform_with_fault(command, *effect, host, store, space),
            };
            *done = (!host.take_out_of_reach()).then_some(performed);
        }
    }

    #[inline]
    fn finish(
        &mut self,
        origin: Origin,
        one: Ahead,
        done: Result<(), Status>,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) {
        let Ahead { command, started, effect, .. } = one;
        if effect.drops_completion {
            return set.drop_command(&command);
        }
        if effect.repeats_completion {
            set.complete_again(&command, done, host);
        }
        match set.complete(&command, done, host) {
            CommandProgress::Completed(status) => self.count(&command, status, started),
            CommandProgress::NeedsFlush => self.disk.ask(Unsaved { origin, command, started }),
        }
    }

    /// Do a command that a fault has delayed.
    #[cold]
    fn do_late(&mut self, origin: Origin, crew: &Crew, command: Command, set: &mut QueueSet, host: &mut impl Reach) {
        self.ahead.push(Ahead { command, started: None, effect: FaultEffect::default(), done: None });
        self.do_ahead(origin, crew, set, host);
        set.send_interrupts(host);
    }

    fn count_error(&mut self, status: Status) {
        self.counter.counts().errors += u64::from(status != Status::SUCCESS);
    }

    #[inline]
    fn count(&mut self, command: &Command, status: Status, started: Option<Instant>) {
        self.count_error(status);
        let counter = &mut self.counter;
        let Ok(checked) = &command.checked else { return };
        match checked.action {
            Action::Read | Action::Compare | Action::Verify => counter.count(Op::Read, checked.bytes, started),
            Action::Write { .. } | Action::Copy { .. } => counter.count(Op::Write, checked.bytes, started),
            Action::Flush => counter.counts().flushes += 1,
            Action::Zero { .. } | Action::Deallocate { .. } => counter.counts().discards += 1,
        }
    }
}

/// What becomes of a command of this queue, if it meets a fault: the first I/O queue is thread 0.
#[inline]
pub(super) fn meet(device: &Device, command: &Command, queue: u16) -> Option<FaultOutcome> {
    device.faults.match_request(u64::from(queue) - 1, || command.io())
}

/// Record a command, if that is wanted; one that is refused has not asked for anything.
#[inline]
pub(super) fn note(device: &Device, command: &Command) {
    let (Some(record), Ok(checked)) = (&device.record, &command.checked) else { return };
    match &checked.action {
        Action::Deallocate { .. } => {
            command.ranges.iter().for_each(|(offset, bytes)| record.note(command.trace_name(), *offset, *bytes));
        }
        Action::Copy { .. } => {
            command.ranges.iter().for_each(|(offset, bytes)| record.note("read", *offset, *bytes));
            record.note(command.trace_name(), checked.offset, checked.bytes.into());
        }
        _ => record.note(command.trace_name(), checked.offset, checked.bytes.into()),
    }
}
