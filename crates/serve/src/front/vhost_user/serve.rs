//! The device thread: one loop over the rings of all clients, with the model or without it.
//!
//! With timing on, reads, writes and zeroing (which is a write: the drives have no command for it) enter the modelled host's
//! software when they are found, and bytes move when the model has completed them. Flushes, discards and names cost no
//! modelled time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::engine::Completed;
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::blk::{Command, Status, Wanted};
use super::control::{self, Client, Shared};
use super::ring::Request;
use super::{Socket, data};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::flusher::Flusher;
use crate::device::tally::locked;
use crate::device::wakeup::{Wakeup, clear};
use crate::front::model::Model;
use crate::front::pace::{BATCH, Chores, Counter, Patience, SLEEP_MAX};
use crate::model::wall::{IDLE_MAX, Wait};

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// Place of the socket.
    socket: usize,
    /// Number of its client, which may be another by now.
    client: u64,
    ring: usize,
}

/// A request that is in the model.
struct UnderWay {
    origin: Origin,
    request: Request,
    arrived: Time,
    /// What goes wrong with it.
    effect: FaultEffect,
}

/// A request that waits for the disk.
struct Saved {
    origin: Origin,
    request: Request,
    took: Took,
    effect: FaultEffect,
}

/// How long a request takes.
#[derive(Clone, Copy)]
enum Took {
    /// Since then, if it is measured.
    Measured(Option<Instant>),
    /// What the model has said.
    Modelled(Span),
}

struct Server<'a> {
    device: &'a Device,
    clients: &'a [Arc<Shared>],
    wakeup: &'a Wakeup,
    model: Option<Model<'a>>,
    /// By token.
    requests: Table<Option<UnderWay>>,
    /// Requests that a fault delays.
    held: DelayQueue<(Origin, Request)>,
    flusher: Flusher<Saved>,
    waiting_for_disk: usize,
    space: Vec<u8>,
    counter: Counter<'a>,
    patience: Patience,
    /// Whether any ring may have requests.
    any_active: bool,
    /// Looking for clients that do not end what they say.
    chores: Chores,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system gives no thread, or cannot wait.
pub(super) fn serve(device: &Device, sockets: &[Socket], model: Option<Model<'_>>, wait: Wait) -> io::Result<()> {
    let clients: Vec<Arc<Shared>> = sockets.iter().map(|_| Arc::new(Shared::new(device))).collect();
    let wakeup = Wakeup::new()?;
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        for (socket, shared) in sockets.iter().zip(&clients) {
            let builder = thread::Builder::new().name(String::from("vhost-user client"));
            builder.spawn_scoped(scope, || {
                // A socket that cannot be waited for has no clients any more, and the others have theirs.
                let _ = control::run(socket, shared, &wakeup, &device.stop);
            })?;
        }
        let mut server = Server {
            device,
            clients: &clients,
            wakeup: &wakeup,
            model,
            requests: Table::default(),
            held: DelayQueue::default(),
            flusher: Flusher::of_store(scope, &device.store, || wakeup.signal())?,
            waiting_for_disk: 0,
            space: Vec::new(),
            counter: Counter::open(device),
            patience: Patience::default(),
            any_active: false,
            chores: Chores::new(Instant::now()),
        };
        let ended = server.run(wait);
        for shared in &clients {
            shared.forget();
            shared.watch(true);
        }
        ended
    })
}

impl Server<'_> {
    fn run(&mut self, wait: Wait) -> io::Result<()> {
        while !self.device.stop.is_requested() {
            self.advance();
            while let Some((saved, flushed)) = self.flusher.take_done() {
                self.on_saved(saved, status(flushed));
            }
            while let Some((origin, request)) = self.held.take_due() {
                self.on_late(origin, request);
            }
            if self.look() {
                self.patience.renew();
            } else {
                self.rest(wait)?;
            }
            if self.chores.are_due(Instant::now()) {
                self.clients.iter().for_each(|shared| shared.watch(false));
            }
        }
        Ok(())
    }

    /// Let everything happen that is due in the model.
    fn advance(&mut self) {
        let Some(model) = &mut self.model else { return };
        model.advance(self.any_active);
        while let Some(done) = self.model.as_mut().and_then(Model::take_completed) {
            self.on_completed(done);
        }
    }

    /// Look at every ring; whether anything was there.
    fn look(&mut self) -> bool {
        let (clients, mut found) = (self.clients, false);
        self.any_active = false;
        for (socket, shared) in clients.iter().enumerate() {
            let mut client = locked(&shared.client);
            for ring in 0..client.rings.len() {
                if client.rings[ring].is_active() {
                    self.any_active = true;
                    let origin = Origin { socket, client: client.number, ring };
                    found |= self.look_at(origin, &mut client);
                }
                let Client { memory, rings, .. } = &mut *client;
                rings[ring].signal(memory.guest());
            }
        }
        found
    }

    fn look_at(&mut self, origin: Origin, client: &mut Client) -> bool {
        let geometry = self.device.store.geometry();
        let mut found = false;
        client.rings[origin.ring].look(client.memory.guest());
        for _ in 0..BATCH {
            let Client { memory, rings, .. } = &mut *client;
            let Some(request) = rings[origin.ring].take(memory.guest(), geometry) else { break };
            found = true;
            self.begin(origin, request, client);
        }
        found
    }

    /// A request has been found: it is done now, or when the model says.
    fn begin(&mut self, origin: Origin, request: Request, client: &mut Client) {
        self.note(&request);
        match self.device.faults.match_request(origin.ring as u64, || io(&request)) {
            None => self.ask(origin, request, client, FaultEffect::default()),
            Some(FaultOutcome::Executed(effect)) => self.ask(origin, request, client, effect),
            Some(FaultOutcome::Delayed(time)) => self.held.keep(time, (origin, request)),
            Some(FaultOutcome::Hangs) => client.rings[origin.ring].forget(),
        }
    }

    /// A request that a fault has delayed begins, unless its client has gone.
    #[cold]
    fn on_late(&mut self, origin: Origin, request: Request) {
        let clients = self.clients;
        let mut client = locked(&clients[origin.socket].client);
        if client.number == origin.client {
            self.ask(origin, request, &mut client, FaultEffect::default());
        }
    }

    /// A request is done now, or enters the model.
    fn ask(&mut self, origin: Origin, request: Request, client: &mut Client, effect: FaultEffect) {
        let io = io(&request);
        let Some((model, io)) = self.model.as_mut().zip(io) else {
            let took = Took::Measured(io.and_then(|_| self.counter.begin()));
            return self.perform(origin, request, client, took, effect);
        };
        let token = self.requests.insert(None);
        let arrived = model.ask(origin.socket + origin.ring, io, token);
        self.requests[token as usize] = Some(UnderWay { origin, request, arrived, effect });
    }

    fn note(&self, request: &Request) {
        let (Some(record), Ok(wanted)) = (&self.device.record, request.wanted) else { return };
        let action = wanted.command.action();
        match wanted.command {
            Command::Name => {}
            Command::Discard => {
                request.ranges.iter().for_each(|range| record.note(action, range.offset, range.bytes.into()));
            }
            _ => record.note(action, wanted.offset, wanted.bytes.into()),
        }
    }

    /// Move the bytes of a request, and answer it, unless its answer waits for the disk.
    fn perform(&mut self, origin: Origin, request: Request, client: &mut Client, took: Took, effect: FaultEffect) {
        let Client { memory, .. } = &*client;
        let name = self.clients[origin.socket].name();
        let done = data::perform(&request, effect, memory.guest(), &self.device.store, name, &mut self.space);
        if effect.drops_completion {
            return client.rings[origin.ring].forget();
        }
        let waits = match request.wanted.map(|wanted| wanted.command) {
            Ok(Command::Flush) => true,
            Ok(Command::Write | Command::Zero | Command::Discard) => !client.flushes(),
            _ => false,
        };
        if waits && done.is_ok() {
            self.waiting_for_disk += 1;
            return self.flusher.ask(Saved { origin, request, took, effect });
        }
        self.answer(origin, &request, client, done, (took, effect));
    }

    fn answer(
        &mut self,
        origin: Origin,
        request: &Request,
        client: &mut Client,
        done: Result<u32, Status>,
        (took, effect): (Took, FaultEffect),
    ) {
        self.count(request, done.is_ok(), took);
        let Client { memory, rings, .. } = &mut *client;
        let (status, bytes) = done.map_or_else(|status| (status, 0), |bytes| (Status::Ok, bytes));
        let ring = &mut rings[origin.ring];
        ring.answer(memory.guest(), request, status, bytes);
        if effect.repeats_completion {
            ring.answer_again(memory.guest(), request, status, bytes);
        }
        if ring.under_way == 0 && !ring.is_started {
            ring.signal(memory.guest());
            self.clients[origin.socket].quiet.notify_all();
        }
    }

    /// What a request has written is on the disk, or will never be.
    fn on_saved(&mut self, saved: Saved, done: Result<u32, Status>) {
        self.waiting_for_disk -= 1;
        let Saved { origin, request, took, effect } = saved;
        let mut client = locked(&self.clients[origin.socket].client);
        if client.number == origin.client {
            self.answer(origin, &request, &mut client, done, (took, effect));
        }
    }

    /// The model says that a request is done: now its bytes move.
    fn on_completed(&mut self, done: Completed) {
        let request = self.requests[done.token as usize].take().expect("a request completes once");
        self.requests.vacate(done.token);
        let UnderWay { origin, request, arrived, effect } = request;
        let lag = self.model.as_ref().map(Model::last_lag);
        lag.into_iter().for_each(|lag| self.counter.counts().lag.record(lag));
        let mut client = locked(&self.clients[origin.socket].client);
        // Nobody has asked, if the client has gone since.
        if client.number == origin.client {
            self.perform(origin, request, &mut client, Took::Modelled(done.at.since(arrived)), effect);
        }
    }

    fn count(&mut self, request: &Request, is_fine: bool, took: Took) {
        self.counter.counts().errors += u64::from(!is_fine);
        let Ok(Wanted { command, bytes, .. }) = request.wanted else { return };
        let op = match command {
            Command::Read => Op::Read,
            Command::Write => Op::Write,
            Command::Flush => return self.counter.counts().flushes += 1,
            Command::Discard | Command::Zero => return self.counter.counts().discards += 1,
            Command::Name => return,
        };
        match took {
            Took::Measured(started) => self.counter.count(op, bytes, started),
            Took::Modelled(latency) => self.counter.counts().direction(op).count(bytes, latency),
        }
        self.counter.executed();
    }

    /// Sleep, if that is due, until something comes.
    fn rest(&mut self, wait: Wait) -> io::Result<()> {
        let time = self.idle_for(wait);
        if time.is_zero() {
            std::hint::spin_loop();
            return Ok(());
        }
        self.counter.show();
        let Some(kicks) = self.listen() else { return Ok(()) };
        let mut polled = vec![PollFd::new(self.wakeup, PollFlags::IN), PollFd::new(&*self.device.stop, PollFlags::IN)];
        polled.extend(kicks.iter().map(|kick| PollFd::new(&**kick, PollFlags::IN)));
        let wakeup = self.model.as_ref().and_then(Model::wakeup);
        polled.extend(wakeup.map(|wakeup| PollFd::from_borrowed_fd(wakeup, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        self.patience.renew();
        clear(self.wakeup);
        kicks.iter().for_each(clear);
        if let Some(model) = &self.model {
            model.silence();
        }
        Ok(())
    }

    /// How long to sleep, unless something comes.
    fn idle_for(&mut self, wait: Wait) -> Duration {
        let until_disk = if self.waiting_for_disk > 0 { IDLE_MAX } else { SLEEP_MAX };
        let until_disk = self.held.no_longer_than(until_disk);
        match wait {
            _ if !self.any_active && self.requests.is_empty() => until_disk,
            Wait::Spin => Duration::ZERO,
            Wait::Block => self.model.as_ref().map_or(until_disk, |model| model.idle_for().min(until_disk)),
            Wait::Adaptive if self.requests.is_empty() && self.patience.is_over(wait) => until_disk,
            Wait::Adaptive => Duration::ZERO,
        }
    }

    /// Have clients kick from now on; the descriptors for that, unless there is something already.
    fn listen(&self) -> Option<Vec<Arc<OwnedFd>>> {
        let mut kicks = Vec::new();
        for shared in self.clients {
            let mut client = locked(&shared.client);
            let Client { memory, rings, .. } = &mut *client;
            for ring in rings.iter_mut().filter(|ring| ring.is_active()) {
                if ring.listen(memory.guest()) {
                    return None;
                }
                kicks.extend(ring.kick.clone());
            }
        }
        Some(kicks)
    }
}

/// What a request is to a memory, if it moves data or zeros there.
fn io(request: &Request) -> Option<Io> {
    let Wanted { command, offset, bytes } = request.wanted.ok()?;
    let op = match command {
        Command::Read => Op::Read,
        Command::Write | Command::Zero => Op::Write,
        Command::Flush | Command::Discard | Command::Name => return None,
    };
    Some(Io { op, offset, bytes })
}

/// What the client is told of what the disk has said.
fn status(done: io::Result<()>) -> Result<u32, Status> {
    done.map(|()| 0).map_err(|_| Status::IoError)
}
