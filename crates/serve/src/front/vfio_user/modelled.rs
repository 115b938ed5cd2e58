//! Timing on: device threads answer when the model says, which is that of a single one, or another thread's for several.
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
//!
//! Several device threads stamp what was rung for with the clock and send it, by the same bytes, to the thread of the engine. Its
//! instants come back, and all else is as it is with one: the ways between the threads are part of what the engine runs ahead for.

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

use super::crew::{Crew, Handed, Lane};
use super::division::Division;
use super::front::{self, ControllerSocket, Disk, Origin, Place, Posts, Unsaved};
use super::reach::Reach;
use super::serve::{self, Execution};
use super::untimed::{meet, note};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::tally::{Tally, locked};
use crate::front::engine_thread;
use crate::front::pace::{BATCH, SLEEP_MAX, exchange_of_words};
use crate::model::commands::SentCommand;
use crate::model::remote::{Exchange, Remote};
use crate::model::wall::{IDLE_MAX, Wait, Wall};
use crate::nvme::{Command, CommandProgress, NextCommand, QueueSet};

/// How long a command waits that a fault has delayed until its queue of the model is full.
const NO_ROOM: Duration = Duration::from_micros(10);

/// A command in the model.
#[derive(Debug)]
pub(super) struct UnderWay {
    origin: Origin,
    command: Command,
    arrived: Time,
    /// What goes wrong with it.
    effect: FaultEffect,
}

/// A command of which all is done but its answer, which is due at an instant of the model.
#[derive(Debug)]
pub(super) struct Due {
    at: Time,
    under_way: UnderWay,
    /// Nothing, if its data has yet to be moved.
    done: Option<Result<(), Status>>,
}

/// Who says when commands are over: an engine on this thread, or on another. Its instants are the engine's, or the clock's.
enum Model<'a> {
    /// With whose queue each of the model's is.
    Own(&'a mut Wall, Vec<Option<u64>>),
    Remote(Box<Remote<'a>>),
}

/// A queue of the model, for commands of a host's queue that has so many entries; whose it is, of all there have been.
#[derive(Clone, Copy, Debug)]
struct ModelQueue {
    number: u16,
    owner: u64,
    entries: u32,
}

impl Model<'_> {
    /// The clock's instant.
    fn clock_now(&self) -> Time {
        match self {
            Model::Own(wall, _) => wall.clock().now(),
            Model::Remote(remote) => remote.clock().now(),
        }
    }

    fn now(&self) -> Time {
        match self {
            Model::Own(wall, _) => wall.now(),
            Model::Remote(remote) => remote.clock().now(),
        }
    }

    /// What turns out to have been rung since the clock showed `looked` is to be found in the model's future. `clients` says
    /// whether anything may.
    fn expect(&mut self, looked: Time, clients: impl FnOnce() -> bool) {
        match self {
            Model::Own(wall, _) => wall.idle_until(wall.model_time(looked)),
            Model::Remote(remote) => remote.expect(clients()),
        }
    }

    /// How many more commands may be sent to a queue; another thread's engine keeps what has no room.
    fn room(&mut self, queue: ModelQueue) -> usize {
        let Model::Own(wall, owners) = self else { return usize::MAX };
        let owner = &mut owners[usize::from(queue.number)];
        if *owner != Some(queue.owner) && wall.begin_queue(queue.number, queue.entries) {
            *owner = Some(queue.owner);
        }
        wall.room(queue.number)
    }

    /// Commands with their tokens enter a queue, as rung for when the clock showed `rung`; when that is.
    fn ring(&mut self, rung: Time, queue: ModelQueue, commands: &[(&Command, u32)]) -> Time {
        match self {
            Model::Own(wall, _) => {
                let commands = commands.iter().map(|(command, token)| HostCommand {
                    queue: queue.number,
                    entry: &command.bytes,
                    lists: command.lists.as_deref(),
                    io: command.io(),
                    token: *token,
                });
                wall.ring(rung, queue.number, commands)
            }
            Model::Remote(remote) => {
                for (place, (command, token)) in commands.iter().enumerate() {
                    remote.send(&SentCommand {
                        rung,
                        queue: queue.number,
                        owner: queue.owner,
                        entries: queue.entries,
                        token: *token,
                        io: command.io(),
                        entry: command.bytes,
                        lists: command.lists.clone(),
                        has_more: place + 1 < commands.len(),
                    });
                }
                rung
            }
        }
    }

    /// The next command that is known to be over, maybe before it is.
    fn take_known(&mut self, now: Time) -> Option<Completed> {
        match self {
            Model::Own(wall, _) => {
                let done = wall.run_ahead(now)?;
                wall.pass_on();
                Some(done)
            }
            Model::Remote(remote) => remote.take_known(),
        }
    }

    /// How long nothing comes from it, for a thread that waits like this.
    fn rest_for(&self, wait: Wait) -> Duration {
        match self {
            Model::Own(wall, _) => wall.rest_for(wait),
            Model::Remote(remote) if remote.is_idle() => Duration::MAX,
            // Results wake nobody: they are looked for.
            Model::Remote(_) if wait == Wait::Block => IDLE_MAX / 100,
            Model::Remote(_) => Duration::ZERO,
        }
    }
}

/// A device thread.
struct Modelled<'a> {
    posts: Posts<'a>,
    executor: Executor<'a>,
    /// When the queues were looked at last, on the clock.
    looked: Time,
}

/// What executing commands takes, beside queues and their host.
struct Executor<'a> {
    device: &'a Device,
    model: Model<'a>,
    disk: Disk,
    /// By token.
    commands: Table<Option<UnderWay>>,
    /// In the order of their instants.
    due: VecDeque<Due>,
    /// Commands that a fault delays.
    held: DelayQueue<(Origin, Command)>,
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

/// Serve on this thread, which has the engine, until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wall: &mut Wall, wait: Wait) -> io::Result<()> {
    let division = Division::new(served, 1)?;
    let crews = division.crews();
    let posts = division.posts(&crews, wait).remove(0);
    let owners = vec![None; served.len() * device.drive.nvme.queue_pairs as usize];
    serve_some(device, served, posts, Model::Own(wall, owners), exchange_of_words(), wait)
}

/// Serve on up to so many threads, among which queues are divided; the engine has another one.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve_divided(
    device: &Device,
    served: &[ControllerSocket],
    wall: &mut Wall,
    exchange: &Exchange,
    wait: Wait,
    threads: usize,
) -> io::Result<()> {
    let division = Division::new(served, threads)?;
    let crews = division.crews();
    let way = exchange_of_words();
    let mut posts = division.posts(&crews, wait);
    let own = posts.remove(0);
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let spawn = |name| thread::Builder::new().name(String::from(name));
        let engine = spawn("vfio-user model").spawn_scoped(scope, || {
            let _stop = device.stop.at_the_end();
            engine_thread::run(device, wall, Vec::new(), exchange, wait);
        })?;
        let model = || Model::Remote(Box::new(Remote::new(exchange)));
        let others = posts.into_iter().map(|posts| {
            let serve = move || serve_some(device, served, posts, model(), way, wait);
            spawn("vfio-user device").spawn_scoped(scope, serve)
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        let ended = serve_some(device, served, own, model(), way, wait);
        let failed = || io::Error::other("a thread of vfio-user has failed");
        let joined = others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(failed())));
        let ended = joined.collect::<Vec<_>>().into_iter().fold(ended, io::Result::and);
        engine.join().map_err(|_| failed()).and(ended)
    })
}

/// One thread. `way` is what a word takes from one processor to another and back.
fn serve_some<'a>(
    device: &'a Device,
    served: &[ControllerSocket],
    posts: Posts<'a>,
    model: Model<'a>,
    way: Span,
    wait: Wait,
) -> io::Result<()> {
    let _stop = device.stop.at_the_end();
    let tally = device.tallies.open();
    let (wakeup, looked) = (posts.wakeup, model.clock_now());
    let ended = thread::scope(|scope| {
        let executor = Executor {
            device,
            model,
            disk: Disk::of_store(scope, &device.store, || wakeup.signal())?,
            commands: Table::default(),
            due: VecDeque::new(),
            held: DelayQueue::default(),
            way,
            space: front::space(served),
            tally: Arc::clone(&tally),
        };
        serve::run(device, wait, &mut Modelled { posts, executor, looked })
    });
    device.tallies.close(&tally);
    ended
}

impl<'a> Execution<'a> for Modelled<'a> {
    fn round(&mut self) -> bool {
        let (before, looked) = (self.looked, self.executor.model.clock_now());
        let Modelled { posts, executor, .. } = self;
        executor.model.expect(before, || !posts.is_alone());
        // Halfway between the look that has found it and the one before.
        let rung = before + Span::from_ps(looked.since(before).as_ps() / 2);
        let found =
            self.take_handed(looked) | self.look(rung) | self.begin_late(looked) | self.complete() | self.commit();
        self.looked = looked;
        found
    }

    fn posts(&mut self) -> &mut Posts<'a> {
        &mut self.posts
    }

    fn rest(&mut self, wait: Wait) -> Duration {
        let Executor { model, due, held, .. } = &self.executor;
        let time = match due.front() {
            Some(_) if wait == Wait::Adaptive => Duration::ZERO,
            Some(due) => Duration::from_nanos(due.at.since(model.now()).as_ps() / 1000),
            None if self.posts.is_alone() => SLEEP_MAX,
            None => model.rest_for(wait).min(SLEEP_MAX),
        };
        let time = held.no_longer_than(time);
        if wait == Wait::Block { time.max(Duration::from_micros(1)) } else { time }
    }

    fn count_undefined(&mut self) {
        self.posts.count_undefined(&mut locked(&self.executor.tally));
    }

    /// What has woken the thread has been rung for just now.
    fn slept(&mut self) {
        self.looked = self.executor.model.clock_now();
    }
}

impl Modelled<'_> {
    /// Look at every queue; what is there has been `rung` for. Whether anything was there.
    fn look(&mut self, rung: Time) -> bool {
        let Modelled { posts: Posts { fronts, seats, .. }, executor, .. } = self;
        let mut found = false;
        for (place, front) in fronts.iter_mut().enumerate() {
            found |= front.administer(|status| executor.count_error(status));
            let origin = Origin { place: Place::Front(place), client: front.clients_ever };
            let (crew, controller) = (front.crew(), front.number);
            let Some((sets, client)) = front.own() else { continue };
            for set in sets {
                found |= executor.look(origin, crew, controller, rung, set, client);
                set.send_interrupts(client);
            }
        }
        for (place, seat) in seats.iter().enumerate() {
            let Some(mut entered) = seat.slot.enter() else { continue };
            let Some(lane) = &mut *entered else { continue };
            let Lane { set, host, client, .. } = &mut **lane;
            let origin = Origin { place: Place::Seat(place), client: *client };
            found |= executor.look(origin, seat.crew, seat.controller, rung, set, host);
            set.send_interrupts(host);
            lane.tell(seat.crew);
        }
        found
    }

    /// Do what other threads have left; whether there was anything.
    fn take_handed(&mut self, now: Time) -> bool {
        let mut any = false;
        for place in 0..self.posts.fronts.len() {
            for (client, handed) in self.posts.fronts[place].crew().take_handed() {
                self.on_handed(Origin { place: Place::Front(place), client }, handed, now);
                any = true;
            }
        }
        any
    }

    #[cold]
    fn on_handed(&mut self, origin: Origin, handed: Handed, now: Time) {
        let Modelled { posts, executor, .. } = self;
        let Place::Front(place) = origin.place else { return };
        let front = &mut posts.fronts[place];
        match handed {
            // The controller follows at its next turn.
            Handed::News => front.come_home(),
            Handed::Commit(command, flushed, _) => {
                let status = front.commit(origin.client, &command, flushed);
                executor.count_error(status);
            }
            Handed::Perform(command, _) => {
                // It may have to be asked for.
                front.come_home();
                let controller = front.number;
                let Some((set, client)) = front.at_home(origin.client, &command) else { return };
                let command = set.recheck(&command, client);
                let Some(queue) = executor.model_queue(controller, origin.client, command.queue(), set) else { return };
                executor.submit(origin, queue, now, vec![(command, FaultEffect::default())]);
            }
            Handed::Due(due) => {
                front.come_home();
                let Due { at, under_way, done } = *due;
                let under_way = UnderWay { origin, ..under_way };
                match done {
                    None => self.on_known(at, under_way),
                    Some(done) => executor.keep_due(Due { at, under_way, done: Some(done) }),
                }
            }
        }
    }

    /// Move the data of what is known to be over, and answer what is due; whether anything was.
    fn complete(&mut self) -> bool {
        let mut now = self.executor.model.now();
        let mut any = false;
        while let Some(Completed { token, at, .. }) = self.executor.model.take_known(now) {
            let commands = &mut self.executor.commands;
            let under_way = commands[token as usize].take().expect("a command completes once");
            commands.vacate(token);
            self.on_known(at, under_way);
            any = true;
        }
        now = self.executor.model.now();
        while self.executor.due.front().is_some_and(|due| due.at <= now + self.executor.way) {
            let due = self.executor.due.pop_front().expect("there is a first");
            self.finish(due);
            now = self.executor.model.now();
            any = true;
        }
        any
    }

    /// A command is over at an instant: its data moves now. What is not here, or out of reach, is left to the thread with the
    /// socket.
    fn on_known(&mut self, at: Time, under_way: UnderWay) {
        let Modelled { posts: Posts { fronts, seats, .. }, executor, .. } = self;
        let Origin { place, client } = under_way.origin;
        let (done, crew) = match place {
            Place::Front(place) => {
                let crew = fronts[place].crew();
                let Some((set, host)) = fronts[place].at_home(client, &under_way.command) else { return };
                (executor.perform(&under_way, set, host), crew)
            }
            Place::Seat(place) => {
                let seat = seats[place];
                let mut entered = seat.slot.enter();
                let lane = entered.as_deref_mut().and_then(Option::as_mut).filter(|lane| lane.client == client);
                (lane.and_then(|lane| executor.perform(&under_way, &mut lane.set, &mut lane.host)), seat.crew)
            }
        };
        let due = Due { at, under_way, done };
        if due.done.is_some() { executor.keep_due(due) } else { crew.hand(client, Handed::Due(Box::new(due))) }
    }

    /// Answer a command that is due.
    fn finish(&mut self, due: Due) {
        let Modelled { posts: Posts { fronts, seats, .. }, executor, .. } = self;
        let Origin { place, client } = due.under_way.origin;
        match place {
            Place::Front(place) => {
                if let Some((set, host)) = fronts[place].at_home(client, &due.under_way.command) {
                    executor.finish(due, set, host);
                }
            }
            Place::Seat(place) => {
                let seat = seats[place];
                let mut entered = seat.slot.enter();
                match entered.as_deref_mut().and_then(Option::as_mut).filter(|lane| lane.client == client) {
                    Some(lane) => executor.finish(due, &mut lane.set, &mut lane.host),
                    None => seat.crew.hand(client, Handed::Due(Box::new(due))),
                }
            }
        }
    }

    /// Answer what has become durable; whether anything has.
    fn commit(&mut self) -> bool {
        let Modelled { posts, executor, .. } = self;
        let mut any = false;
        while let Some((unsaved, flushed)) = executor.disk.take_done() {
            if let Some((_, status, _)) = posts.commit(unsaved, flushed) {
                executor.count_error(status);
            }
            any = true;
        }
        any
    }

    /// Let what a fault has delayed enter the model, now; whether there was anything.
    #[inline]
    fn begin_late(&mut self, now: Time) -> bool {
        let Modelled { posts: Posts { fronts, .. }, executor, .. } = self;
        let mut any = false;
        // Faults of requests are met where one thread has all queues.
        while let Some((origin, command)) = executor.held.take_due() {
            any = true;
            let Place::Front(place) = origin.place else { continue };
            let controller = fronts[place].number;
            // The command of a client that has gone is nobody's.
            let Some((set, _)) = fronts[place].at_home(origin.client, &command) else { continue };
            let Some(queue) = executor.model_queue(controller, origin.client, command.queue(), set) else { continue };
            if executor.model.room(queue) == 0 {
                executor.held.keep(NO_ROOM, (origin, command));
                break;
            }
            executor.submit(origin, queue, now, vec![(command, FaultEffect::default())]);
        }
        any
    }
}

impl Executor<'_> {
    /// Look at the queues of a set; whether anything was there.
    fn look(
        &mut self,
        origin: Origin,
        crew: &Crew,
        controller: usize,
        rung: Time,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) -> bool {
        set.io_queues().fold(false, |found, queue| {
            let model_queue = self.model_queue(controller, origin.client, queue, set);
            model_queue.is_some_and(|model_queue| self.look_at(origin, crew, queue, model_queue, rung, set, host))
                | found
        })
    }

    /// The model's queue of a controller's, if that is there.
    fn model_queue(&self, controller: usize, client: u64, queue: u16, set: &QueueSet) -> Option<ModelQueue> {
        let (generation, entries) = set.submission_queue(queue)?;
        let number = controller as u16 * self.device.drive.nvme.queue_pairs as u16 + queue - 1;
        Some(ModelQueue { number, owner: client << 32 | u64::from(generation), entries })
    }

    /// Take what has been rung for, as much as the model's queue has room for, and let it enter there with one ring.
    #[expect(clippy::too_many_arguments, reason = "a queue, its host, and where they are")]
    fn look_at(
        &mut self,
        origin: Origin,
        crew: &Crew,
        queue: u16,
        model_queue: ModelQueue,
        rung: Time,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) -> bool {
        if !set.poll_doorbell(queue, host) {
            return false;
        }
        let room = self.model.room(model_queue).min(BATCH as usize);
        let mut batch = Vec::new();
        let mut found = false;
        while batch.len() < room {
            let NextCommand::Io(command) = set.next_io_command(queue, host) else { break };
            found = true;
            if host.take_out_of_reach() {
                crew.hand(origin.client, Handed::Perform(command, None));
                continue;
            }
            match meet(self.device, &command, queue) {
                None => batch.push((command, FaultEffect::default())),
                Some(FaultOutcome::Executed(effect)) => batch.push((command, effect)),
                Some(FaultOutcome::Delayed(time)) => self.held.keep(time, (origin, command)),
                Some(FaultOutcome::Hangs) => set.drop_command(&command),
            }
        }
        if !batch.is_empty() {
            self.submit(origin, model_queue, rung, batch);
        }
        found
    }

    fn submit(&mut self, origin: Origin, queue: ModelQueue, rung: Time, batch: Vec<(Command, FaultEffect)>) {
        let tokens: Vec<u32> = batch.iter().map(|_| self.commands.insert(None)).collect();
        let commands: Vec<(&Command, u32)> =
            batch.iter().map(|(command, _)| command).zip(tokens.iter().copied()).collect();
        let arrived = self.model.ring(rung, queue, &commands);
        for ((command, effect), token) in batch.into_iter().zip(tokens) {
            note(self.device, &command);
            self.commands[token as usize] = Some(UnderWay { origin, command, arrived, effect });
        }
    }

    /// Move the data of a command; what has become of it, unless it is out of reach.
    fn perform(
        &mut self,
        under_way: &UnderWay,
        set: &mut QueueSet,
        host: &mut impl Reach,
    ) -> Option<Result<(), Status>> {
        let UnderWay { command, effect, .. } = under_way;
        let (store, space) = (&self.device.store, &mut self.space);
        let done = match *effect == FaultEffect::default() {
            true => set.perform(command, host, store, space),
            false => set.perform_with_fault(command, *effect, host, store, space),
        };
        (!host.take_out_of_reach()).then_some(done)
    }

    fn keep_due(&mut self, due: Due) {
        let place = self.due.iter().rposition(|other| other.at <= due.at).map_or(0, |before| before + 1);
        self.due.insert(place, due);
    }

    fn finish(&mut self, due: Due, set: &mut QueueSet, host: &mut impl Reach) {
        let Due { at, under_way: UnderWay { origin, command, arrived, effect }, done } = due;
        let done = done.unwrap_or(Ok(()));
        if effect.drops_completion {
            return set.drop_command(&command);
        }
        if effect.repeats_completion {
            set.complete_again(&command, done, host);
        }
        let executed = set.complete(&command, done, host);
        set.send_interrupts(host);
        let lag = self.model.now().since(at);
        let mut tally = locked(&self.tally);
        match (command.checked.as_ref().map(|checked| checked.action), command.io()) {
            (Err(_), _) => {}
            (Ok(Action::Flush), _) => tally.flushes += 1,
            (Ok(Action::Zero { .. }), _) | (Ok(_), None) => tally.discards += 1,
            (Ok(_), Some(io)) => tally.direction(io.op).count(io.bytes, at.since(arrived)),
        }
        tally.lag.record(lag);
        drop(tally);
        match executed {
            CommandProgress::Completed(status) => self.count_error(status),
            // Others are served while the disk takes it.
            CommandProgress::NeedsFlush => self.disk.ask(Unsaved { origin, command, started: None }),
        }
    }

    fn count_error(&self, status: Status) {
        locked(&self.tally).errors += u64::from(status != Status::SUCCESS);
    }
}
