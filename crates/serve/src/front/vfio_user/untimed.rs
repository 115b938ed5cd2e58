//! Timing off: the device thread looks at the queues and does what it finds, straight on the store.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::rules::Action;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::Op;

use super::front::{self, ControllerSocket, Disk, Front, Unsaved};
use super::serve::{self, Execution};
use crate::device::Device;
use crate::device::faults::{Fate, Held, Mishap};
use crate::front::pace::{BATCH, Counter, SLEEP_MAX};
use crate::model::wall::Wait;
use crate::nvme::{Command, Executed, Taken};

/// The device thread.
struct Untimed<'a> {
    device: &'a Device,
    fronts: Vec<Front<'a>>,
    disk: Disk,
    space: Vec<u8>,
    /// Commands that have been taken and not done, empty between queues.
    ahead: Vec<Ahead>,
    /// Commands that a fault delays, with the places and numbers of their clients.
    held: Held<(usize, u64, Command)>,
    counter: Counter<'a>,
}

/// A command on its way, with when it was begun if its latency is measured, and what has become of it.
struct Ahead {
    command: Command,
    started: Option<Instant>,
    /// What goes wrong with it.
    mishap: Mishap,
    done: Result<(), Status>,
}

impl Ahead {
    #[inline]
    fn begin(command: Command, mishap: Mishap, counter: &mut Counter<'_>) -> Ahead {
        let started = counter.begin();
        counter.executed();
        Ahead { command, started, mishap, done: Ok(()) }
    }
}

/// Commands that are taken before the first of them is done, so that the ways of their data through the machine overlap,
/// and answered together, so that the line of their completion entries goes to the client once.
const AHEAD: usize = 8;

/// Serve until the device is told to stop, on up to so many threads, among which controllers are divided.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wait: Wait, threads: usize) -> io::Result<()> {
    let shares = (0..threads).map(|thread| served.iter().skip(thread).step_by(threads).collect());
    let mut shares: Vec<Vec<&ControllerSocket>> = shares.filter(|share: &Vec<_>| !share.is_empty()).collect();
    let own = shares.drain(..1).flatten().collect();
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let others = shares.into_iter().map(|share| {
            let builder = thread::Builder::new().name(String::from("vfio-user device"));
            builder.spawn_scoped(scope, move || serve_some(device, share, wait))
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        let served = serve_some(device, own, wait);
        let joined = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of vfio-user has failed"))));
        joined.collect::<Vec<_>>().into_iter().fold(served, io::Result::and)
    })
}

/// One thread, which has these controllers.
fn serve_some(device: &Device, served: Vec<&ControllerSocket>, wait: Wait) -> io::Result<()> {
    let _stop = device.stop.at_the_end();
    thread::scope(|scope| {
        let mut untimed = Untimed {
            device,
            fronts: served.iter().map(|served| Front::new(served, wait)).collect(),
            disk: Disk::new(scope, &device.store)?,
            space: front::space(served.iter().copied()),
            ahead: Vec::with_capacity(AHEAD),
            held: Held::default(),
            counter: Counter::open(device),
        };
        serve::run(device, wait, &mut untimed)
    })
}

impl<'a> Execution<'a> for Untimed<'a> {
    #[inline]
    fn round(&mut self) -> bool {
        self.commit() | self.begin_late() | self.look()
    }

    #[inline]
    fn parts(&mut self) -> (&mut [Front<'a>], &Disk) {
        (&mut self.fronts, &self.disk)
    }

    fn count_undefined(&mut self) {
        front::count_undefined(&mut self.fronts, self.counter.counts());
    }

    fn rest(&mut self, _wait: Wait) -> Duration {
        self.counter.show();
        self.held.no_longer_than(SLEEP_MAX)
    }
}

impl Untimed<'_> {
    /// Answer what has become durable; whether anything has.
    #[inline]
    fn commit(&mut self) -> bool {
        let mut any = false;
        while let Some((Unsaved { command, started, .. }, status)) = self.disk.commit(&mut self.fronts) {
            count(&mut self.counter, &command, status, started);
            any = true;
        }
        any
    }

    /// Look at every queue; whether anything was there.
    #[inline]
    fn look(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.fronts.len() {
            for queue in self.fronts[place].controller.queues() {
                found |= self.serve_queue(place, queue);
            }
        }
        found
    }

    #[inline]
    fn serve_queue(&mut self, place: usize, queue: u16) -> bool {
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return false };
        if !controller.look(queue, client) {
            return false;
        }
        let mut left = BATCH;
        loop {
            self.take_ahead(place, queue, &mut left);
            if self.ahead.is_empty() {
                break;
            }
            self.perform(place);
            self.finish(place);
        }
        self.signal(place);
        left < BATCH
    }

    /// Take commands that have been seen, no more than are `left`, until there are as many as may be ahead.
    #[inline]
    fn take_ahead(&mut self, place: usize, queue: u16, left: &mut u32) {
        let Front { controller, client, clients_ever, .. } = &mut self.fronts[place];
        let Some(client) = client else { return };
        while self.ahead.len() < AHEAD && *left > 0 {
            match controller.take_seen(queue, client) {
                Taken::Nothing => return,
                Taken::Answered(status) => self.counter.counts().errors += u64::from(status != Status::SUCCESS),
                Taken::Command(command) => {
                    note(self.device, &command);
                    controller.prefetch(&command, client, &self.device.store);
                    match meet(self.device, &command, queue) {
                        None => self.ahead.push(Ahead::begin(command, Mishap::default(), &mut self.counter)),
                        Some(Fate::Done(mishap)) => {
                            self.ahead.push(Ahead::begin(command, mishap, &mut self.counter));
                        }
                        Some(Fate::Late(time)) => self.held.keep(time, (place, *clients_ever, command)),
                        Some(Fate::Never) => controller.forget(&command),
                    }
                }
            }
            *left -= 1;
        }
    }

    /// Move the data of what has been taken.
    #[inline]
    fn perform(&mut self, place: usize) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return };
        let (store, space) = (&self.device.store, &mut self.space);
        for Ahead { command, done, mishap, .. } in &mut self.ahead {
            *done = match *mishap == Mishap::default() {
                true => controller.perform(command, client, store, space),
                false => controller.suffer(command, *mishap, client, store, space),
            };
        }
    }

    /// Answer it.
    #[inline]
    fn finish(&mut self, place: usize) {
        let mut ahead = std::mem::take(&mut self.ahead);
        for Ahead { command, started, mishap, done } in ahead.drain(..) {
            let Front { controller, client, .. } = &mut self.fronts[place];
            let Some(client) = client else { continue };
            if mishap.is_untold {
                controller.forget(&command);
                continue;
            }
            if mishap.repeats {
                controller.repeat(&command, done, client);
            }
            match controller.finish(&command, done, client) {
                Executed::Answered(status) => count(&mut self.counter, &command, status, started),
                Executed::WaitsForDisk => self.disk.save(&self.fronts, place, command, started),
            }
        }
        self.ahead = ahead;
    }

    /// Do what a fault has delayed; whether there was anything.
    #[inline]
    fn begin_late(&mut self) -> bool {
        let mut any = false;
        while let Some((place, client, command)) = self.held.take_due() {
            // The command of a client that has gone is nobody's.
            if self.fronts[place].clients_ever == client {
                self.ahead.push(Ahead { command, started: None, mishap: Mishap::default(), done: Ok(()) });
                self.perform(place);
                self.finish(place);
                self.signal(place);
            }
            any = true;
        }
        any
    }

    #[inline]
    fn signal(&mut self, place: usize) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        client.iter_mut().for_each(|client| controller.signal(client));
    }
}

/// What becomes of a command of this queue, if it meets a fault: the first I/O queue is thread 0.
#[inline]
pub(super) fn meet(device: &Device, command: &Command, queue: u16) -> Option<Fate> {
    device.faults.meet(u64::from(queue) - 1, || command.io())
}

/// Record a command, if that is wanted; one that is refused has not asked for anything.
#[inline]
pub(super) fn note(device: &Device, command: &Command) {
    let (Some(record), Ok(checked)) = (&device.record, &command.checked) else { return };
    match &checked.action {
        Action::Deallocate { .. } => {
            command.parts.iter().for_each(|(offset, bytes)| record.note(command.word(), *offset, *bytes));
        }
        Action::Copy { .. } => {
            command.parts.iter().for_each(|(offset, bytes)| record.note("read", *offset, *bytes));
            record.note(command.word(), checked.offset, checked.bytes.into());
        }
        _ => record.note(command.word(), checked.offset, checked.bytes.into()),
    }
}

#[inline]
fn count(counter: &mut Counter<'_>, command: &Command, status: Status, started: Option<Instant>) {
    counter.counts().errors += u64::from(status != Status::SUCCESS);
    let Ok(checked) = &command.checked else { return };
    match checked.action {
        Action::Read | Action::Compare | Action::Verify => counter.count(Op::Read, checked.bytes, started),
        Action::Write { .. } | Action::Copy { .. } => counter.count(Op::Write, checked.bytes, started),
        Action::Flush => counter.counts().flushes += 1,
        Action::Zero { .. } | Action::Deallocate { .. } => counter.counts().discards += 1,
    }
}
