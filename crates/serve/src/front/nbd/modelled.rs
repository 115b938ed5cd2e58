//! Timing on: one thread has all connections and, unless another front-end has it, the model. With several device threads,
//! connections are dealt to them, and the model has a thread of its own.
//!
//! A read, a write or a zeroing (which is a write: the drives have no command for it) enters the modelled host's
//! software when it has come whole, and bytes move when the model has completed it. Flushes and trims cost no modelled
//! time, as no drive here models them. Each queue pair of the drive has one modelled thread, which clients share.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::engine::Completed;
use phaselink_core::request::Io;
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::deal::{Card, Deal, Hand, Open};
use super::export::Command;
use super::session::{Session, Wanted, change, status};
use super::socket::Stream;
use super::wire::{PAYLOAD_BYTES_MAX, Status};
use super::{ExportSocket, HANDSHAKE_MAX, count};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::flusher::Flusher;
use crate::device::tally::{Tally, locked};
use crate::front::Service;
use crate::front::model::Model;
use crate::front::pace::{Chores, Patience, SLEEP_MAX};
use crate::model::wall::{IDLE_MAX, Wait};

/// Requests of one client under way; further ones wait in its socket.
const UNDER_WAY_MAX: usize = 1024;

/// A connection.
struct Client<'a> {
    stream: Stream,
    session: Session,
    came: Instant,
    /// Place of what it uses among the exports.
    export: usize,
    /// Whose turn among the modelled threads it is to ask for it.
    turn: usize,
    under_way: usize,
    bytes_under_way: u64,
    /// Counts it, where several threads have some.
    _open: Option<Open<'a>>,
}

/// A request in the model.
struct UnderWay {
    client: u64,
    wanted: Wanted,
    /// Data of a write, until the model says that it has arrived.
    data: Vec<u8>,
    arrived: Time,
    /// What goes wrong with it then.
    effect: FaultEffect,
}

/// Everything of a server with timing.
struct Server<'a> {
    device: &'a Device,
    served: &'a [ExportSocket],
    /// Where connections come from that are dealt, instead of the sockets.
    dealt: Option<(&'a Deal, &'a Hand)>,
    model: Model<'a>,
    /// By number; numbers are never used again, so that a request whose client has gone finds nobody.
    clients: BTreeMap<u64, Client<'a>>,
    clients_ever: u64,
    patience: Patience,
    /// Looking for clients that do not choose their export.
    chores: Chores,
    /// By token.
    requests: Table<Option<UnderWay>>,
    /// Requests that a fault delays, with their clients and data.
    held: DelayQueue<(u64, Wanted, Vec<u8>)>,
    flusher: Flusher<Saved>,
    tally: std::sync::Arc<std::sync::Mutex<Tally>>,
}

/// A request that waits for the disk.
struct Saved {
    client: u64,
    wanted: Wanted,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ExportSocket], model: Model<'_>, wait: Wait) -> io::Result<()> {
    serve_one(device, served, None, model, wait)
}

/// The same on several threads, which ask the model of another.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve_divided(service: &Service<'_>, served: &[ExportSocket]) -> io::Result<()> {
    let Service { device, wait, .. } = *service;
    let deal = Deal::new(service.device_threads)?;
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let serve = |hand| {
            let _stop = device.stop.at_the_end();
            let model = service.remote().ok_or_else(|| io::Error::other("the model has no thread of its own"))?;
            serve_one(device, served, Some((&deal, hand)), Model::remote(model), wait)
        };
        let spawn =
            |hand| thread::Builder::new().name(String::from("nbd device")).spawn_scoped(scope, move || serve(hand));
        let threads = deal.hands.iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        let dealt = deal.run(served, &device.stop);
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of NBD has failed"))));
        joined.collect::<Vec<_>>().into_iter().fold(dealt, io::Result::and)
    })
}

fn serve_one(
    device: &Device,
    served: &[ExportSocket],
    dealt: Option<(&Deal, &Hand)>,
    model: Model<'_>,
    wait: Wait,
) -> io::Result<()> {
    thread::scope(|scope| {
        // The loop looks for what is done whenever it looks for anything: while clients are there, once a millisecond
        // at least.
        let flusher = Flusher::of_store(scope, &device.store, || ())?;
        let mut server = Server {
            device,
            served,
            dealt,
            model,
            clients: BTreeMap::new(),
            clients_ever: 0,
            patience: Patience::default(),
            chores: Chores::new(Instant::now()),
            requests: Table::default(),
            held: DelayQueue::default(),
            flusher,
            tally: device.tallies.open(),
        };
        let ended = server.run(wait);
        device.tallies.close(&server.tally);
        ended
    })
}

impl<'a> Server<'a> {
    fn run(&mut self, wait: Wait) -> io::Result<()> {
        while !self.device.stop.is_requested() {
            self.model.advance(!self.clients.is_empty());
            while let Some(done) = self.model.take_completed() {
                self.on_completed(done);
            }
            while let Some((Saved { client, wanted }, flushed)) = self.flusher.take_done() {
                self.on_saved(client, &wanted, status(flushed));
            }
            while let Some((number, wanted, data)) = self.held.take_due() {
                self.on_late(number, wanted, data);
            }
            self.look(wait)?;
            if self.chores.are_due(Instant::now()) {
                self.clients.retain(|_, client| !client.is_silent());
            }
        }
        Ok(())
    }

    /// See which sockets are ready, and serve these.
    fn look(&mut self, wait: Wait) -> io::Result<()> {
        let idle_for = self.idle_for(wait);
        let (sockets, hand) = match self.dealt {
            None => (self.served, None),
            Some((_, hand)) => (&[][..], Some(hand)),
        };
        let mut polled: Vec<PollFd> = sockets.iter().map(|one| PollFd::new(&one.listener, PollFlags::IN)).collect();
        polled.extend(hand.map(|hand| PollFd::new(hand, PollFlags::IN)));
        let comings = polled.len();
        polled.push(PollFd::new(&*self.device.stop, PollFlags::IN));
        let wakeup = polled.len();
        polled.extend(self.model.wakeup().map(|wakeup| PollFd::from_borrowed_fd(wakeup, PollFlags::IN)));
        let first_client = polled.len();
        polled.extend(self.clients.values().map(Client::polled));
        let timeout = Timespec { tv_sec: 0, tv_nsec: idle_for.subsec_nanos().into() };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        self.patience.renew();
        let any = |fds: &[PollFd]| fds.iter().any(|fd| !fd.revents().is_empty());
        let (accepts, rung) = (any(&polled[..comings]), any(&polled[wakeup..first_client]));
        let ready = polled[first_client..].iter().zip(self.clients.keys()).filter(|(fd, _)| !fd.revents().is_empty());
        let ready: Vec<u64> = ready.map(|(_, number)| *number).collect();
        drop(polled);
        if rung {
            self.model.silence();
        }
        if accepts {
            self.accept();
        }
        for number in ready {
            self.on_ready(number);
        }
        Ok(())
    }

    /// How long to sleep, unless something comes.
    fn idle_for(&mut self, wait: Wait) -> Duration {
        let is_alone = self.clients.is_empty() && self.requests.is_empty();
        let time = match wait {
            _ if is_alone => SLEEP_MAX,
            Wait::Block => self.model.idle_for(),
            Wait::Adaptive if self.requests.is_empty() && self.patience.is_over(wait) => self.nothing_to_do_for(),
            Wait::Adaptive | Wait::Spin => Duration::ZERO,
        };
        self.held.no_longer_than(time)
    }

    /// How long to sleep while nobody asks for anything: what waits for the disk is looked at from time to time.
    fn nothing_to_do_for(&self) -> Duration {
        let waits_for_disk = self.clients.values().any(|client| client.under_way > 0);
        if waits_for_disk { IDLE_MAX } else { SLEEP_MAX }
    }

    fn accept(&mut self) {
        if let Some((deal, hand)) = self.dealt {
            return deal.take(hand).into_iter().for_each(|(card, open)| self.let_in(card, Some(open)));
        }
        for (export, one) in self.served.iter().enumerate() {
            let Some((stream, session)) = one.accept(self.clients.len()) else { continue };
            self.let_in(Card { stream, session, export }, None);
        }
    }

    fn let_in(&mut self, card: Card, open: Option<Open<'a>>) {
        let Card { stream, session, export } = card;
        let number = self.clients_ever;
        self.clients_ever += 1;
        let (turn, came) = (self.model.next_turn(), Instant::now());
        let client = Client { stream, session, came, export, turn, under_way: 0, bytes_under_way: 0, _open: open };
        self.clients.insert(number, client);
        self.on_ready(number);
    }

    /// A client has sent something, or can take more.
    fn on_ready(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let open = client.receive();
        self.take_requests(number);
        self.send(number, open);
    }

    /// Hand what has come whole to the model, as far as the client's share goes.
    fn take_requests(&mut self, number: u64) {
        let mut errors = 0;
        while let Some(client) = self.clients.get_mut(&number).filter(|client| client.may_ask()) {
            let Some(wanted) = client.session.next(&self.served[client.export].export, &mut errors) else { break };
            let payload = wanted.command.payload_bytes(wanted.bytes);
            let data = client.session.input.data()[..payload].to_vec();
            client.session.input.consume(payload);
            if let Some(record) = &self.device.record {
                record.note(wanted.command.action(), wanted.offset, wanted.bytes.into());
            }
            self.submit(number, wanted, data);
        }
        locked(&self.tally).errors += errors;
    }

    fn submit(&mut self, number: u64, wanted: Wanted, data: Vec<u8>) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let Some(io) = wanted.io() else {
            let status = status(change(&wanted, &data, &self.device.store));
            self.count_untimed(&wanted, status);
            return self.answer(number, wanted, status);
        };
        let fate = self.device.faults.match_request(number, || Some(io));
        if fate == Some(FaultOutcome::Hangs) {
            return;
        }
        client.under_way += 1;
        client.bytes_under_way += data.len().max(wanted.payload_back()) as u64;
        match fate {
            None => self.ask(number, wanted, io, data, FaultEffect::default()),
            Some(FaultOutcome::Executed(effect)) => self.ask(number, wanted, io, data, effect),
            Some(FaultOutcome::Delayed(time)) => self.held.keep(time, (number, wanted, data)),
            Some(FaultOutcome::Hangs) => {}
        }
    }

    /// A request that a fault has delayed begins.
    fn on_late(&mut self, number: u64, wanted: Wanted, data: Vec<u8>) {
        if let Some(io) = wanted.io() {
            self.ask(number, wanted, io, data, FaultEffect::default());
        }
    }

    /// A request enters the model.
    fn ask(&mut self, number: u64, wanted: Wanted, io: Io, data: Vec<u8>, effect: FaultEffect) {
        // One whose client has gone meanwhile is nobody's.
        let Some(client) = self.clients.get(&number) else { return };
        let turn = client.turn;
        let token = self.requests.insert(None);
        let arrived = self.model.ask(turn, io, token);
        self.requests[token as usize] = Some(UnderWay { client: number, wanted, data, arrived, effect });
    }

    fn count_untimed(&self, wanted: &Wanted, status: Status) {
        let mut tally = locked(&self.tally);
        count(&mut tally, wanted, Span::ZERO);
        tally.errors += u64::from(status != Status::Ok);
    }

    /// The model says that a request is done: now its bytes move.
    fn on_completed(&mut self, done: Completed) {
        let request = self.requests[done.token as usize].take().expect("a request completes once");
        self.requests.vacate(done.token);
        let UnderWay { client: number, wanted, data, arrived, effect } = request;
        let store = &self.device.store;
        let fine = match (wanted.command, self.clients.get_mut(&number)) {
            _ if effect != FaultEffect::default() => self.suffer(number, wanted, &data, effect),
            (Command::Read, None) => true,
            (Command::Read, Some(client)) => {
                client.session.answer_read(wanted.cookie, wanted.offset, wanted.bytes, store)
            }
            _ => {
                let status = status(change(&wanted, &data, store));
                self.answer(number, wanted, status);
                status == Status::Ok
            }
        };
        self.count(&wanted, done.at, arrived, fine);
        if let Some(client) = self.clients.get_mut(&number) {
            client.under_way -= 1;
            client.bytes_under_way -= data.len().max(wanted.payload_back()) as u64;
            self.go_on(number);
        }
    }

    /// A request is done with which something goes wrong; false if it fails.
    #[cold]
    fn suffer(&mut self, number: u64, wanted: Wanted, data: &[u8], effect: FaultEffect) -> bool {
        let store = &self.device.store;
        if wanted.command == Command::Read && effect.succeeds() {
            let Some(client) = self.clients.get_mut(&number) else { return true };
            let mut answer = || client.session.answer_read(wanted.cookie, wanted.offset, wanted.bytes, store);
            return (!effect.repeats_completion || answer()) && answer();
        }
        let torn = wanted.torn(effect, data, store.geometry().block_bytes);
        let changed = torn.map_or(Ok(()), |(wanted, data)| change(&wanted, data, store));
        let status = if effect.fails { Status::Io } else { status(changed) };
        if let Some(client) = self.clients.get_mut(&number).filter(|_| effect.repeats_completion) {
            client.session.answer(wanted.cookie, status);
        }
        if !effect.drops_completion {
            self.answer(number, wanted, status);
        }
        status == Status::Ok
    }

    /// Answer a request other than a read; one that is to be durable waits for the disk, while others are served.
    fn answer(&mut self, number: u64, wanted: Wanted, status: Status) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let waits = wanted.command == Command::Flush || wanted.command.is_durable();
        if !waits || status != Status::Ok {
            return client.session.answer(wanted.cookie, status);
        }
        client.under_way += 1;
        self.flusher.ask(Saved { client: number, wanted });
    }

    /// What a request has written is on the disk, or will never be.
    fn on_saved(&mut self, number: u64, wanted: &Wanted, status: Status) {
        locked(&self.tally).errors += u64::from(status != Status::Ok);
        if let Some(client) = self.clients.get_mut(&number) {
            client.under_way -= 1;
            client.session.answer(wanted.cookie, status);
            self.go_on(number);
        }
    }

    /// A client has an answer: it may have room for more requests.
    fn go_on(&mut self, number: u64) {
        self.take_requests(number);
        self.send(number, true);
    }

    fn count(&self, wanted: &Wanted, at: Time, arrived: Time, fine: bool) {
        let mut tally = locked(&self.tally);
        count(&mut tally, wanted, at.since(arrived));
        tally.errors += u64::from(!fine);
        tally.lag.record(self.model.last_lag());
    }

    /// Send what there is; a client that has gone, or has had its last answer, is forgotten.
    fn send(&mut self, number: u64, open: bool) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let sent = open && client.stream.send(&mut client.session.output).is_ok();
        let finished = client.session.is_closed() && client.under_way == 0 && client.session.output.is_empty();
        if !sent || finished {
            self.clients.remove(&number);
        }
    }
}

impl Wanted {
    /// Bytes that the answer will have.
    fn payload_back(&self) -> usize {
        if self.command == Command::Read { self.bytes as usize } else { 0 }
    }
}

impl Client<'_> {
    /// What to wait for: requests as long as there is room for them, and room for answers while there are any.
    fn polled(&self) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.may_ask() && !self.session.is_closed());
        flags.set(PollFlags::OUT, !self.session.output.is_empty());
        PollFd::from_borrowed_fd(self.stream.as_fd(), flags)
    }

    /// Whether it has taken too long to choose its export.
    fn is_silent(&self) -> bool {
        self.session.is_shaking_hands() && self.came.elapsed() > HANDSHAKE_MAX
    }

    /// Whether its share of the server's memory has room for another request.
    fn may_ask(&self) -> bool {
        let bytes = self.bytes_under_way + self.session.output.data().len() as u64;
        self.under_way < UNDER_WAY_MAX && bytes < u64::from(PAYLOAD_BYTES_MAX)
    }

    /// Take in what has come; false if the connection is broken or over.
    fn receive(&mut self) -> bool {
        if !self.may_ask() || self.session.is_closed() {
            return true;
        }
        match self.session.room().and_then(|room| self.stream.read(room)) {
            Ok(Some(0)) | Err(_) => false,
            Ok(None) => true,
            Ok(Some(bytes)) => {
                self.session.input.filled(bytes);
                true
            }
        }
    }
}
