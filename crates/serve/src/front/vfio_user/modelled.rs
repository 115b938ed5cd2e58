//! Timing on: the device thread has the model, and answers when that says.
//!
//! A real host has its own driver, which takes the place of the modelled one: what it has rung for enters the model at the
//! doorbell's packet. The model then has the very bytes that were read, the command's and those of its lists of pages; its
//! controller fetches them over the link, asks the same rules about them as the served one, moves the data and posts the
//! completion entry. When that is in the model's memory, the data is moved here, the real entry posted and the interrupt
//! sent. Commands that are refused take their time like the others, and so do flushes and deallocations.
//!
//! So that real ways do not come on top of modelled ones, a doorbell has been rung halfway between the look that found it
//! and the one before, and its commands enter the model as of then; the engine runs ahead of the clock for a command that
//! is alone; and data moves as soon as the model knows when the command is over, while the completion entry waits until
//! then, less what a word takes from one processor to another, there and back. What is later than that is the lag. Not in
//! it is the way of an interrupt through the system into a virtual machine. A tail that was found in shadow doorbells
//! enters as if it had been rung; doorbells of completion queues take no room on the modelled link.
//!
//! Admin commands cost no modelled time. Each queue of each host is a queue of the model.

use std::collections::VecDeque;
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
use super::untimed::{meet, note};
use crate::device::Device;
use crate::device::faults::{Fate, Held, Mishap};
use crate::device::tally::{Tally, locked};
use crate::front::pace::{BATCH, SLEEP_MAX, exchange_of_words};
use crate::model::wall::{Wait, Wall};
use crate::nvme::{Command, Executed, Taken};

/// How long a command waits that a fault has delayed until its queue of the model is full.
const NO_ROOM: Duration = Duration::from_micros(10);

/// A command in the model.
struct UnderWay {
    place: usize,
    /// Which client of that front: commands of one that has gone are nobody's.
    client: u64,
    command: Command,
    arrived: Time,
    /// What goes wrong with it.
    mishap: Mishap,
}

/// A command of which all is done but its answer, which is due at an instant of the model.
struct Due {
    at: Time,
    under_way: UnderWay,
    done: Result<(), Status>,
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
    /// In the order of their instants.
    due: VecDeque<Due>,
    /// Commands that a fault delays, with the places and numbers of their clients and their queues.
    held: Held<(usize, u64, u16, Command)>,
    /// When the queues were looked at last, on the clock.
    looked: Time,
    /// What a word takes from one processor to another and back.
    way: Span,
    space: Vec<u8>,
    tally: Arc<Mutex<Tally>>,
}

/// The drive with queues for so many hosts, and nothing of their software. Its faults come to it otherwise.
pub fn behind_the_doorbell(drive: &Drive, hosts: usize) -> Drive {
    let mut drive = drive.without_faults();
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
    let wall_now = wall.clock().now();
    let ended = thread::scope(|scope| {
        let mut modelled = Modelled {
            device,
            wall,
            fronts: served.iter().map(|served| Front::new(served, wait)).collect(),
            disk: Disk::new(scope, &device.store)?,
            queues: vec![None; served.len() * device.drive.nvme.queue_pairs as usize],
            commands: Table::default(),
            due: VecDeque::new(),
            held: Held::default(),
            looked: wall_now,
            way: exchange_of_words(),
            space: front::space(served.iter()),
            tally: Arc::clone(&tally),
        };
        serve::run(device, wait, &mut modelled)
    });
    device.tallies.close(&tally);
    ended
}

impl<'a> Execution<'a> for Modelled<'a> {
    fn round(&mut self) -> bool {
        let now = self.wall.clock().now();
        let (before, looked) = (self.looked, now);
        // What turns out to have been rung since the last look is to be found in the model's future.
        self.wall.idle_until(self.wall.model_time(before));
        let found = self.look(before, looked) | self.begin_late(looked) | self.complete() | self.commit();
        self.looked = looked;
        found
    }

    fn parts(&mut self) -> (&mut [Front<'a>], &Disk) {
        (&mut self.fronts, &self.disk)
    }

    fn rest(&mut self, wait: Wait) -> Duration {
        let time = match self.due.front() {
            Some(_) if wait == Wait::Adaptive => Duration::ZERO,
            Some(due) => Duration::from_nanos(due.at.since(self.wall.now()).as_ps() / 1000),
            None if front::is_alone(&self.fronts) => SLEEP_MAX,
            None => self.wall.rest_for(wait).min(SLEEP_MAX),
        };
        let time = self.held.no_longer_than(time);
        if wait == Wait::Block { time.max(Duration::from_micros(1)) } else { time }
    }

    fn count_undefined(&mut self) {
        front::count_undefined(&mut self.fronts, &mut locked(&self.tally));
    }

    /// What has woken the thread has been rung for just now.
    fn slept(&mut self) {
        self.looked = self.wall.clock().now();
    }
}

impl Modelled<'_> {
    /// Move the data of what the model has completed, and answer what is due; whether anything was.
    fn complete(&mut self) -> bool {
        let now = self.wall.now();
        let mut any = false;
        while let Some(done) = self.wall.run_ahead(now) {
            self.wall.pass_on();
            self.perform(done);
            any = true;
        }
        let mut now = self.wall.now();
        while self.due.front().is_some_and(|due| due.at <= now + self.way) {
            let due = self.due.pop_front().expect("there is a first");
            self.finish(due);
            now = self.wall.now();
            any = true;
        }
        any
    }

    fn perform(&mut self, completed: Completed) {
        let under_way = self.commands[completed.token as usize].take().expect("a command completes once");
        self.commands.vacate(completed.token);
        let front = &mut self.fronts[under_way.place];
        let is_there = front.clients_ever == under_way.client;
        let Some(connection) = front.client.as_mut().filter(|_| is_there) else { return };
        let (store, space) = (&self.device.store, &mut self.space);
        let UnderWay { command, mishap, .. } = &under_way;
        let done = match *mishap == Mishap::default() {
            true => front.controller.perform(command, connection, store, space),
            false => front.controller.suffer(command, *mishap, connection, store, space),
        };
        self.due.push_back(Due { at: completed.at, under_way, done });
    }

    fn finish(&mut self, due: Due) {
        let Due { at, under_way: UnderWay { place, client, command, arrived, mishap }, done } = due;
        let front = &mut self.fronts[place];
        let is_there = front.clients_ever == client;
        let Some(connection) = front.client.as_mut().filter(|_| is_there) else { return };
        if mishap.is_untold {
            return front.controller.forget(&command);
        }
        if mishap.repeats {
            front.controller.repeat(&command, done, connection);
        }
        let executed = front.controller.finish(&command, done, connection);
        front.controller.signal(connection);
        let lag = self.wall.now().since(at);
        let mut tally = locked(&self.tally);
        match (command.checked.as_ref().map(|checked| checked.action), command.io()) {
            (Err(_), _) => {}
            (Ok(Action::Flush), _) => tally.flushes += 1,
            (Ok(Action::Zero { .. }), _) | (Ok(_), None) => tally.discards += 1,
            (Ok(_), Some(io)) => tally.direction(io.op).count(io.bytes, at.since(arrived)),
        }
        tally.lag.record(lag);
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

    /// Look at every queue, `now`; what is there has been rung for since the look `before`. Whether anything was there.
    fn look(&mut self, before: Time, now: Time) -> bool {
        let rung = before + Span::from_ps(now.since(before).as_ps() / 2);
        let mut found = false;
        for place in 0..self.fronts.len() {
            for queue in self.fronts[place].controller.queues() {
                found |= self.look_at(place, queue, rung);
            }
            let Front { controller, client, .. } = &mut self.fronts[place];
            client.iter_mut().for_each(|client| controller.signal(client));
        }
        found
    }

    fn look_at(&mut self, place: usize, queue: u16, rung: Time) -> bool {
        if queue > 0 {
            return self.look_at_commands(place, queue, rung);
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
    fn look_at_commands(&mut self, place: usize, queue: u16, rung: Time) -> bool {
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
        let mut found = false;
        while batch.len() < self.wall.room(number).min(BATCH as usize) {
            let Taken::Command(command) = controller.take(queue, client) else { break };
            found = true;
            match meet(self.device, &command, queue) {
                None => batch.push((command, Mishap::default())),
                Some(Fate::Done(mishap)) => batch.push((command, mishap)),
                Some(Fate::Late(time)) => self.held.keep(time, (place, *clients_ever, queue, command)),
                Some(Fate::Never) => controller.forget(&command),
            }
        }
        if !batch.is_empty() {
            self.submit(place, number, rung, batch);
        }
        found
    }

    /// Let what a fault has delayed enter the model, now; whether there was anything.
    #[inline]
    fn begin_late(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((place, client, queue, command)) = self.held.take_due() {
            any = true;
            let number = self.number(place, queue);
            // The command of a client that has gone is nobody's.
            if self.fronts[place].clients_ever != client {
                continue;
            }
            if self.wall.room(number) == 0 {
                self.held.keep(NO_ROOM, (place, client, queue, command));
                break;
            }
            self.submit(place, number, now, vec![(command, Mishap::default())]);
        }
        any
    }

    /// The model's number of a front's queue.
    fn number(&self, place: usize, queue: u16) -> u16 {
        place as u16 * self.device.drive.nvme.queue_pairs as u16 + queue - 1
    }

    fn submit(&mut self, place: usize, number: u16, rung: Time, batch: Vec<(Command, Mishap)>) {
        let tokens: Vec<u32> = batch.iter().map(|_| self.commands.insert(None)).collect();
        let commands = batch.iter().zip(&tokens).map(|((command, _), token)| HostCommand {
            queue: number,
            entry: &command.bytes,
            lists: command.lists.as_deref(),
            io: command.io(),
            token: *token,
        });
        let arrived = self.wall.ring(rung, number, commands);
        let client = self.fronts[place].clients_ever;
        for ((command, mishap), token) in batch.into_iter().zip(tokens) {
            note(self.device, &command);
            self.commands[token as usize] = Some(UnderWay { place, client, command, arrived, mishap });
        }
    }
}
