//! Timing on: the device thread has the model, and answers when that says.
//!
//! A real host has its own driver, which takes the place of the modelled one: what it has rung for enters the model at the
//! doorbell's packet. The model then has the very bytes that were read, the command's and those of its lists of pages; its
//! controller fetches them over the link, asks the same rules about them as the served one, moves the data and posts the
//! completion entry. When that is in the model's memory, the data is moved here, the real entry posted and the interrupt
//! sent. Commands that are refused take their time like the others, and so do flushes and deallocations.
//!
//! Not counted, and on top of it: the time from the host's doorbell to this thread's seeing it, the copying of data, and
//! the way of the interrupt through the system into the virtual machine. The lag is how much later than the model's
//! instant this thread came to a completion. A tail that was found in shadow doorbells enters as if it had been rung;
//! doorbells of completion queues take no room on the modelled link.
//!
//! Admin commands cost no modelled time. Each queue of each host is a queue of the model.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phaselink_core::config::Wait as Waiting;
use phaselink_core::drive::Drive;
use phaselink_core::engine::Completed;
use phaselink_core::protocol::nvme::rules::Action;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::protocol::real_hosts::HostCommand;
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use super::front::{self, ControllerSocket, Disk, Front};
use super::serve::{self, Execution};
use super::untimed::note;
use crate::device::Device;
use crate::device::tally::{Tally, locked};
use crate::front::pace::{BATCH, SLEEP_MAX};
use crate::model::wall::{Wait, Wall};
use crate::nvme::{Command, Executed, Taken};

/// A command in the model.
struct UnderWay {
    place: usize,
    /// Which client of that front: commands of one that has gone are nobody's.
    client: u64,
    command: Command,
    arrived: Time,
}

/// The device thread.
struct Modelled<'a> {
    device: &'a Device,
    wall: &'a mut Wall,
    fronts: Vec<Front<'a>>,
    disk: Disk,
    /// Whose queue each of the model's is: client of its front, and generation.
    queues: Vec<Option<(u64, u32)>>,
    /// By token.
    commands: Table<Option<UnderWay>>,
    space: Vec<u8>,
    tally: Arc<Mutex<Tally>>,
}

/// The drive with queues for so many hosts, and nothing of their software.
pub fn behind_the_doorbell(drive: &Drive, hosts: usize) -> Drive {
    let mut drive = drive.clone();
    drive.nvme.queue_pairs *= hosts as u32;
    drive.stack.stages.clear();
    drive.stack.copy_bytes_per_ns = 0.0;
    let host = &mut drive.host;
    host.wait = Waiting::Spin;
    for cost in [
        &mut host.poll,
        &mut host.mmio_write,
        &mut host.context_switch,
        &mut host.interrupt,
        &mut host.idle_exit,
        &mut host.interrupt_handler,
        &mut host.wake,
    ] {
        *cost = Span::ZERO;
    }
    drive
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wall: &mut Wall, wait: Wait) -> io::Result<()> {
    let tally = device.tallies.open();
    let ended = thread::scope(|scope| {
        let mut modelled = Modelled {
            device,
            wall,
            fronts: served.iter().map(|served| Front::new(served, wait)).collect(),
            disk: Disk::new(scope, &device.store)?,
            queues: vec![None; served.len() * device.drive.nvme.queue_pairs as usize],
            commands: Table::default(),
            space: front::space(served),
            tally: Arc::clone(&tally),
        };
        serve::run(device, wait, &mut modelled)
    });
    device.tallies.close(&tally);
    ended
}

impl<'a> Execution<'a> for Modelled<'a> {
    fn round(&mut self) -> bool {
        self.wall.advance();
        self.complete() | self.commit() | self.look()
    }

    fn parts(&mut self) -> (&mut [Front<'a>], &Disk) {
        (&mut self.fronts, &self.disk)
    }

    fn rest(&mut self, wait: Wait) -> Duration {
        let time = if front::is_alone(&self.fronts) { SLEEP_MAX } else { self.wall.rest_for(wait).min(SLEEP_MAX) };
        if wait == Wait::Block { time.max(Duration::from_micros(1)) } else { time }
    }
}

impl Modelled<'_> {
    /// Answer what the model has completed; whether anything was.
    fn complete(&mut self) -> bool {
        let mut any = false;
        while let Some(done) = self.wall.take_completed() {
            any = true;
            self.on_completed(done);
        }
        any
    }

    fn on_completed(&mut self, done: Completed) {
        let UnderWay { place, client, command, arrived } =
            self.commands[done.token as usize].take().expect("a command completes once");
        self.commands.vacate(done.token);
        let front = &mut self.fronts[place];
        let is_there = front.clients_ever == client;
        let Some(connection) = front.client.as_mut().filter(|_| is_there) else { return };
        let executed = front.controller.execute(&command, connection, &self.device.store, &mut self.space);
        front.controller.signal(connection);
        let mut tally = locked(&self.tally);
        match (command.checked.as_ref().map(|checked| checked.action), command.io()) {
            (Err(_), _) => {}
            (Ok(Action::Flush), _) => tally.flushes += 1,
            (Ok(Action::Zero { .. }), _) | (Ok(_), None) => tally.discards += 1,
            (Ok(_), Some(io)) => tally.direction(io.op).count(io.bytes, done.at.since(arrived)),
        }
        tally.lag.record(self.wall.last_lag());
        drop(tally);
        self.on_executed(place, command, executed);
    }

    /// A command has been executed: what is to be durable waits for the disk, while others are served.
    fn on_executed(&mut self, place: usize, command: Command, executed: Executed) {
        match executed {
            Executed::Answered(status) => self.count_error(status),
            Executed::WaitsForDisk => self.disk.save(&self.fronts, place, command, None),
        }
    }

    fn count_error(&self, status: Status) {
        locked(&self.tally).errors += u64::from(status != Status::SUCCESS);
    }

    /// Answer what has become durable; whether anything has.
    fn commit(&mut self) -> bool {
        let mut any = false;
        while let Some((_, status)) = self.disk.commit(&mut self.fronts) {
            self.count_error(status);
            any = true;
        }
        any
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.fronts.len() {
            for queue in self.fronts[place].controller.queues() {
                found |= self.look_at(place, queue);
            }
            let Front { controller, client, .. } = &mut self.fronts[place];
            client.iter_mut().for_each(|client| controller.signal(client));
        }
        found
    }

    fn look_at(&mut self, place: usize, queue: u16) -> bool {
        if queue > 0 {
            return self.look_at_commands(place, queue);
        }
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return false };
        let taken = controller.take(queue, client);
        if let Taken::Answered(status) = taken {
            self.count_error(status);
        }
        taken != Taken::Nothing
    }

    /// Take what has been rung for, as much as the model's queue has room for, and let it enter there with one ring.
    fn look_at_commands(&mut self, place: usize, queue: u16) -> bool {
        let number = self.number(place, queue);
        let Front { controller, client, clients_ever, .. } = &mut self.fronts[place];
        let (Some(client), Some((generation, entries))) = (client, controller.submission_queue(queue)) else {
            return false;
        };
        let owner = Some((*clients_ever, generation));
        if self.queues[usize::from(number)] != owner && self.wall.begin_queue(number, entries) {
            self.queues[usize::from(number)] = owner;
        }
        let mut batch = Vec::new();
        while batch.len() < self.wall.room(number).min(BATCH as usize) {
            let Taken::Command(command) = controller.take(queue, client) else { break };
            batch.push(command);
        }
        let found = !batch.is_empty();
        if found {
            self.submit(place, number, batch);
        }
        found
    }

    /// The model's number of a front's queue.
    fn number(&self, place: usize, queue: u16) -> u16 {
        place as u16 * self.device.drive.nvme.queue_pairs as u16 + queue - 1
    }

    fn submit(&mut self, place: usize, number: u16, batch: Vec<Command>) {
        let tokens: Vec<u32> = batch.iter().map(|_| self.commands.insert(None)).collect();
        let commands = batch.iter().zip(&tokens).map(|(command, token)| HostCommand {
            queue: number,
            entry: &command.bytes,
            lists: command.lists.as_deref(),
            io: command.io(),
            token: *token,
        });
        let arrived = self.wall.ring(number, commands);
        let client = self.fronts[place].clients_ever;
        for (command, token) in batch.into_iter().zip(tokens) {
            note(self.device, &command);
            self.commands[token as usize] = Some(UnderWay { place, client, command, arrived });
        }
    }
}
