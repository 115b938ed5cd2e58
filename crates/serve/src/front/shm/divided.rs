//! Timing on, and several device threads: the model has a thread of its own, behind an [`Exchange`].
//!
//! What [`modelled`](super::modelled) says of the ways of commands and answers holds here as well: a command enters the model
//! as of when it was asked, data moves when the command is found, and the client waits for what is left. The way to the
//! model's thread and back is part of the command's way.
//!
//! [`Exchange`]: crate::model::remote::Exchange

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phaselink_core::engine::Completed;
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::Time;
use phaselink_ring::command::Operation;
use phaselink_ring::layout::TRANSFER_BYTES_MAX;
use phaselink_ring::status::Status;

use super::ShareSocket;
use super::client::{CheckedCommand, Client, Taken, action};
use super::clients::Clients;
use super::modelled::asked;
use super::serve::{self, Execution};
use crate::device::Device;
use crate::device::tally::{Tally, locked};
use crate::front::Service;
use crate::model::remote::Remote;
use crate::model::wall::{IDLE_MAX, Wait};

/// A command in the model.
#[derive(Clone, Copy)]
struct UnderWay {
    client: u64,
    command: CheckedCommand,
    /// What has become of its data.
    status: Status,
    asked: Time,
}

/// What a device thread needs to execute commands.
struct Divided<'a> {
    device: &'a Device,
    model: Remote<'a>,
    /// By token.
    under_way: Table<UnderWay>,
    space: Vec<u8>,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(service: &Service<'_>, sockets: &[ShareSocket]) -> io::Result<()> {
    let wakeups = serve::wakeups(service.device_threads)?;
    let executions = wakeups.iter().map(|wakeup| (wakeup, || Divided::new(service))).collect();
    serve::serve(service.device, sockets, service.wait, executions)
}

impl Execution for Divided<'_> {
    const IS_MODELLED: bool = true;

    /// Queues of new clients get threads of the model in turn.
    fn greet(&mut self, client: &mut Client) {
        for queue in 0..client.queues() {
            client.set_thread(queue, self.model.next_turn() as u16);
        }
    }

    fn round(&mut self, clients: &mut Clients<'_>) -> bool {
        self.model.expect(!clients.clients.is_empty());
        self.look(clients) | self.complete(clients)
    }

    fn flushed(&mut self, status: Status) {
        locked(&self.tally).count_flush(status == Status::Success);
    }

    fn idle_for(&self, wait: Wait) -> Duration {
        match (self.model.is_idle(), wait) {
            (true, _) => Duration::MAX,
            // Results wake nobody: they are looked for.
            (false, Wait::Block) => IDLE_MAX / 100,
            (false, _) => Duration::ZERO,
        }
    }

    fn rested(&mut self) {}
}

impl<'a> Divided<'a> {
    /// # Panics
    /// If the model has no thread of its own.
    fn new(service: &Service<'a>) -> Divided<'a> {
        let Service { device, .. } = *service;
        Divided {
            device,
            model: service.remote().expect("several device threads have the model on a thread of its own"),
            under_way: Table::default(),
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            tally: device.tallies.open(),
        }
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self, clients: &mut Clients<'_>) -> bool {
        clients.round(|clients, place, queue| {
            match clients.clients[place].take(queue) {
                Taken::Nothing => return false,
                Taken::Refused => locked(&self.tally).errors += 1,
                Taken::Command(command) => self.accept(clients, place, command),
            }
            true
        })
    }

    /// A command has been found: the model is asked, and its data moves.
    fn accept(&mut self, clients: &mut Clients<'_>, place: usize, command: CheckedCommand) {
        if let Some(record) = &self.device.record {
            record.note(action(command.operation), command.offset, command.bytes.into());
        }
        if command.operation == Operation::Flush {
            return clients.flush(place, command);
        }
        let client = &clients.clients[place];
        client.prefetch(&command, &self.device.store);
        let clock = self.model.clock();
        let asked = asked(command.asked_ns, clock, clock.now());
        let CheckedCommand { offset, bytes, queue, .. } = command;
        let under_way = UnderWay { client: client.number, command, status: Status::Success, asked };
        let token = self.under_way.insert(under_way);
        self.model.ask_early(asked, client.thread(queue).into(), Io { op: op(&command), offset, bytes }, token);
        self.under_way[token as usize].status = client.transfer(&command, &self.device.store, &mut self.space);
    }

    /// Answer what the model knows; whether there was anything.
    fn complete(&mut self, clients: &mut Clients<'_>) -> bool {
        let mut any = false;
        while let Some(done) = self.model.take_known() {
            self.answer(clients, done);
            any = true;
        }
        any
    }

    fn answer(&mut self, clients: &mut Clients<'_>, done: Completed) {
        let UnderWay { client, command, status, asked } = self.under_way.take(done.token);
        // Nobody waits for it any more.
        let Some(client) = clients.find(client) else { return };
        let latency = done.at.since(asked);
        client.finish(&command, status, latency.as_ps() / 1000);
        let mut tally = locked(&self.tally);
        tally.direction(op(&command)).count(command.bytes, latency);
        tally.errors += u64::from(status != Status::Success);
        tally.lag.record(self.model.clock().now().since(done.at));
    }
}

impl Drop for Divided<'_> {
    fn drop(&mut self) {
        self.device.tallies.close(&self.tally);
    }
}

fn op(command: &CheckedCommand) -> Op {
    if command.operation == Operation::Write { Op::Write } else { Op::Read }
}
