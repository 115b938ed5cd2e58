//! Timing off: each device thread polls the rings and does what it finds, straight on the store.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use phaselink_core::request::Op;
use phaselink_ring::command::Operation;
use phaselink_ring::layout::TRANSFER_BYTES_MAX;
use phaselink_ring::status::Status;

use super::ShareSocket;
use super::client::{CheckedCommand, Client, Taken, action};
use super::clients::Clients;
use super::serve::{self, Execution};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultOutcome};
use crate::front::pace::{BATCH, Counter};
use crate::model::wall::Wait;

/// Commands that are taken before the first of them is done, so that the ways of their data through the machine overlap:
/// their lines together are about what a processor waits for at a time.
const AHEAD: usize = 8;

/// What the device thread needs to execute commands.
struct Untimed<'a> {
    device: &'a Device,
    space: Vec<u8>,
    /// Commands that have been taken, empty between queues.
    ahead: VecDeque<CheckedCommand>,
    /// Commands that a fault delays, with the numbers of their clients.
    held: DelayQueue<(u64, CheckedCommand)>,
    counter: Counter<'a>,
}

/// Serve until the device is told to stop, on so many threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(device: &Device, sockets: &[ShareSocket], wait: Wait, threads: usize) -> io::Result<()> {
    let wakeups = serve::wakeups(threads)?;
    serve::serve(device, sockets, wait, wakeups.iter().map(|wakeup| (wakeup, || Untimed::new(device))).collect())
}

impl Execution for Untimed<'_> {
    const IS_MODELLED: bool = false;

    fn greet(&mut self, _client: &mut Client) {}

    #[inline]
    fn round(&mut self, clients: &mut Clients<'_>) -> bool {
        self.begin_late(clients) | clients.round(|clients, place, queue| self.serve_queue(clients, place, queue))
    }

    fn flushed(&mut self, status: Status) {
        self.counter.counts().count_flush(status == Status::Success);
    }

    fn idle_for(&self, _wait: Wait) -> Duration {
        self.held.no_longer_than(Duration::MAX)
    }

    fn rested(&mut self) {
        self.counter.show();
    }
}

impl Untimed<'_> {
    fn new(device: &Device) -> Untimed<'_> {
        let space = vec![0; TRANSFER_BYTES_MAX as usize];
        Untimed {
            device,
            space,
            ahead: VecDeque::with_capacity(AHEAD),
            held: DelayQueue::default(),
            counter: Counter::open(device),
        }
    }

    #[inline]
    fn serve_queue(&mut self, clients: &mut Clients<'_>, place: usize, queue: u32) -> bool {
        let mut left = BATCH;
        loop {
            self.take_ahead(&mut clients.clients[place], queue, &mut left);
            let Some(command) = self.ahead.pop_front() else { return left < BATCH };
            self.execute(clients, place, &command);
        }
    }

    /// Take commands, no more than are `left`, until there are as many as may be ahead.
    #[inline]
    fn take_ahead(&mut self, client: &mut Client, queue: u32, left: &mut u32) {
        while self.ahead.len() < AHEAD && *left > 0 {
            match client.take(queue) {
                Taken::Nothing => return,
                Taken::Refused => self.counter.counts().errors += 1,
                Taken::Command(command) => {
                    client.prefetch(&command, &self.device.store);
                    self.ahead.push_back(command);
                }
            }
            *left -= 1;
        }
    }

    #[inline]
    fn execute(&mut self, clients: &mut Clients<'_>, place: usize, command: &CheckedCommand) {
        if let Some(record) = &self.device.record {
            record.note(action(command.operation), command.offset, command.bytes.into());
        }
        if command.operation == Operation::Flush {
            return clients.flush(place, *command);
        }
        if let Some(fate) = self.device.faults.match_request(command.queue.into(), || command.io()) {
            return self.suffer(&mut clients.clients[place], command, fate);
        }
        self.finish(&mut clients.clients[place], command);
    }

    #[inline]
    fn finish(&mut self, client: &mut Client, command: &CheckedCommand) {
        let started = self.counter.begin();
        let status = client.execute(command, &self.device.store, &mut self.space);
        self.counter.counts().errors += u64::from(status != Status::Success);
        let op = if command.operation == Operation::Write { Op::Write } else { Op::Read };
        self.counter.count(op, command.bytes, started);
        self.counter.executed();
    }

    /// A command has met a fault.
    #[cold]
    fn suffer(&mut self, client: &mut Client, command: &CheckedCommand, fate: FaultOutcome) {
        let effect = match fate {
            FaultOutcome::Hangs => return client.forget(command),
            FaultOutcome::Delayed(time) => return self.held.keep(time, (client.number, *command)),
            FaultOutcome::Executed(effect) => effect,
        };
        let status = client.suffer(command, effect, &self.device.store, &mut self.space);
        self.counter.counts().errors += u64::from(status != Status::Success);
        match effect.drops_completion {
            true => client.forget(command),
            false => client.finish(command, status, 0),
        }
    }

    /// Begin what a fault has delayed; whether there was anything.
    #[inline]
    fn begin_late(&mut self, clients: &mut Clients<'_>) -> bool {
        let mut any = false;
        while let Some((number, command)) = self.held.take_due() {
            // The command of a client that has gone is nobody's.
            if let Some(client) = clients.find(number) {
                self.finish(client, &command);
            }
            any = true;
        }
        any
    }
}
