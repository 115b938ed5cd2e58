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
    counter: Counter<'a>,
}

/// A command on its way, with when it was begun if its latency is measured, and what has become of it.
struct Ahead {
    command: Command,
    started: Option<Instant>,
    done: Result<(), Status>,
}

/// Commands that are taken before the first of them is done, so that the ways of their data through the machine overlap,
/// and answered together, so that the line of their completion entries goes to the client once.
const AHEAD: usize = 8;

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wait: Wait) -> io::Result<()> {
    thread::scope(|scope| {
        let mut untimed = Untimed {
            device,
            fronts: served.iter().map(|served| Front::new(served, wait)).collect(),
            disk: Disk::new(scope, &device.store)?,
            space: front::space(served),
            ahead: Vec::with_capacity(AHEAD),
            counter: Counter::open(device),
        };
        serve::run(device, wait, &mut untimed)
    })
}

impl<'a> Execution<'a> for Untimed<'a> {
    #[inline]
    fn round(&mut self) -> bool {
        self.commit() | self.look()
    }

    #[inline]
    fn parts(&mut self) -> (&mut [Front<'a>], &Disk) {
        (&mut self.fronts, &self.disk)
    }

    fn rest(&mut self, _wait: Wait) -> Duration {
        self.counter.show();
        SLEEP_MAX
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
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return };
        while self.ahead.len() < AHEAD && *left > 0 {
            match controller.take_seen(queue, client) {
                Taken::Nothing => return,
                Taken::Answered(status) => self.counter.counts().errors += u64::from(status != Status::SUCCESS),
                Taken::Command(command) => {
                    note(self.device, &command);
                    controller.prefetch(&command, client, &self.device.store);
                    let started = self.counter.begin();
                    self.counter.executed();
                    self.ahead.push(Ahead { command, started, done: Ok(()) });
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
        for Ahead { command, done, .. } in &mut self.ahead {
            *done = controller.perform(command, client, &self.device.store, &mut self.space);
        }
    }

    /// Answer it.
    #[inline]
    fn finish(&mut self, place: usize) {
        let mut ahead = std::mem::take(&mut self.ahead);
        for Ahead { command, started, done } in ahead.drain(..) {
            let Front { controller, client, .. } = &mut self.fronts[place];
            let Some(client) = client else { continue };
            match controller.finish(&command, done, client) {
                Executed::Answered(status) => count(&mut self.counter, &command, status, started),
                Executed::WaitsForDisk => self.disk.save(&self.fronts, place, command, started),
            }
        }
        self.ahead = ahead;
    }

    #[inline]
    fn signal(&mut self, place: usize) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        client.iter_mut().for_each(|client| controller.signal(client));
    }
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
