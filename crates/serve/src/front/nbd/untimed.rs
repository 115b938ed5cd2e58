//! Timing off: every connection has a thread that reads, does and answers, with no hand-over in between.
//!
//! A thread looks for more requests for a moment before it sleeps, as waking up costs more than most requests do; but
//! only while every such thread has a processor to itself. One that gives way and comes back late shares its processor
//! with somebody who works: it sleeps for a while then, as those who wake up are let in at once, and those who give way
//! are not.
//!
//! A thread that is faster than its client would answer every request by itself: each answer costs the client a message
//! of the kernel's to release, and each look for the next request holds a lock that the client needs to send it. So
//! requests are left in the socket until the client has read half of the answers that wait for it. A client with one
//! request under way loses nothing by that, as it reads an answer before it asks again.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::export::{Command, Export};
use super::session::{Session, Wanted, apply};
use super::socket::Stream;
use super::wire::{PAYLOAD_BYTES_MAX, Status};
use super::{ExportSocket, HANDSHAKE_MAX, count};
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::history::Ticket;
use crate::device::tally::{Tally, locked};
use crate::device::{Device, Stop};
use crate::front::pace::LOOK_FOR;
use crate::model::wall::{Wait, span};

/// Longer than the machine's own small works take; a turn of Linux's scheduler is longer.
const AWAY_MIN: Duration = Duration::from_micros(500);
/// How long a thread sleeps instead of looking once somebody has come: long beside one turn of a scheduler.
const NO_LOOKING: Duration = Duration::from_millis(20);
/// Answers are sent no later than at this many bytes, or after this many requests: few enough for a client that has
/// more under way to be reading some answers while others are made.
const ANSWERS_BYTES_MAX: usize = 256 << 10;
const ANSWERS_MAX: usize = 8;

/// Requests of one connection that a fault delays, beyond which its next ones wait in its socket.
const HELD_MAX: usize = 64;

/// Connections that are open, those that have ever been, and processors that they share.
#[derive(Debug)]
struct Connections {
    open: AtomicUsize,
    ever: AtomicU64,
    processors: usize,
}

impl Connections {
    /// One processor is the clients', unless this process has been given only one, which is then its own.
    fn has_room_to_spin(&self) -> bool {
        self.open.load(Ordering::Relaxed) < self.processors.max(2)
    }
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ExportSocket], wait: Wait) -> io::Result<()> {
    let processors = thread::available_parallelism().map_or(1, |number| number.get());
    let connections = Connections { open: AtomicUsize::new(0), ever: AtomicU64::new(0), processors };
    thread::scope(|scope| {
        let ended = accept(device, served, wait, &connections, scope);
        // Whatever has ended this, connections end with it.
        device.stop.request();
        ended
    })
}

fn accept<'scope>(
    device: &'scope Device,
    served: &'scope [ExportSocket],
    wait: Wait,
    connections: &'scope Connections,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<()> {
    while !device.stop.is_requested() {
        sleep(served.iter().map(|one| PollFd::new(&one.listener, PollFlags::IN)).collect(), &device.stop, None)?;
        for one in served {
            let Some((stream, session)) = one.accept(connections.open.load(Ordering::Relaxed)) else { continue };
            connections.open.fetch_add(1, Ordering::Relaxed);
            let number = connections.ever.fetch_add(1, Ordering::Relaxed);
            let builder = thread::Builder::new().name(String::from("nbd connection"));
            let begun = builder.spawn_scoped(scope, move || {
                let tally = device.tallies.open();
                let may_look_at = Cell::new(Instant::now());
                let connection = Connection {
                    device,
                    export: &one.export,
                    stream: &stream,
                    tally: &tally,
                    may_look_at,
                    came: Instant::now(),
                    unanswered: RefCell::default(),
                    number,
                    held: RefCell::default(),
                };
                // A connection that breaks ends, and nothing else does.
                let _ = connection.run(session, wait, connections);
                device.tallies.close(&tally);
                connections.open.fetch_sub(1, Ordering::Relaxed);
            });
            // One for which the system has no thread has been closed, and the others have theirs.
            if begun.is_err() {
                connections.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Sleep until one of the sockets is ready, it is time to stop, or so much time is over.
fn sleep<'a>(mut sockets: Vec<PollFd<'a>>, stop: &'a Stop, time: Option<Duration>) -> io::Result<()> {
    sockets.push(PollFd::new(stop, PollFlags::IN));
    let time = time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    match rustix::event::poll(&mut sockets, time.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        other => other.map(drop).map_err(io::Error::from),
    }
}

struct Connection<'a> {
    device: &'a Device,
    export: &'a Export,
    stream: &'a Stream,
    tally: &'a Arc<Mutex<Tally>>,
    /// When its thread may look for requests instead of sleeping.
    may_look_at: Cell<Instant>,
    came: Instant,
    /// Requests of a history whose answers have not been sent.
    unanswered: RefCell<Vec<Ticket>>,
    /// Counted from 0 in the order in which they have come.
    number: u64,
    /// Requests that a fault delays, with their data.
    held: RefCell<DelayQueue<(Wanted, Vec<u8>)>>,
}

impl Connection<'_> {
    fn run(&self, mut session: Session, wait: Wait, connections: &Connections) -> io::Result<()> {
        let mut batch = Vec::new();
        loop {
            self.send(&mut session)?;
            if session.is_closed() || !self.receive(&mut session, wait, connections)? {
                return Ok(());
            }
            self.work(&mut session, &mut batch)?;
        }
    }

    /// Wait for bytes; false at the end of the connection, or of the server.
    fn receive(&self, session: &mut Session, wait: Wait, connections: &Connections) -> io::Result<bool> {
        let since = Instant::now();
        let may_look = || {
            let has_room = wait != Wait::Block && connections.has_room_to_spin();
            has_room && since >= self.may_look_at.get() && since.elapsed() < LOOK_FOR
        };
        self.let_client_read(may_look);
        loop {
            if !self.held.borrow().is_empty() {
                return self.receive_while_holding(session);
            }
            if let Some(bytes) = self.stream.read(session.room()?)? {
                session.input.filled(bytes);
                return Ok(bytes > 0);
            }
            if self.device.stop.is_requested() {
                return Ok(false);
            }
            if may_look() {
                self.give_way();
                continue;
            }
            if !self.wait_for(PollFlags::IN, session)? {
                return Ok(false);
            }
        }
    }

    /// The same while a fault delays requests: wait for bytes, if they may come, or until one of these is due.
    #[cold]
    fn receive_while_holding(&self, session: &mut Session) -> io::Result<bool> {
        let is_full = self.is_full();
        let due = self.held.borrow().due_in();
        if !is_full && let Some(bytes) = self.stream.read(session.room()?)? {
            session.input.filled(bytes);
            return Ok(bytes > 0);
        }
        let flags = if is_full { PollFlags::empty() } else { PollFlags::IN };
        sleep(vec![PollFd::from_borrowed_fd(self.stream.as_fd(), flags)], &self.device.stop, due)?;
        Ok(!self.device.stop.is_requested())
    }

    /// Whether a fault delays as many requests as may be.
    fn is_full(&self) -> bool {
        let held = self.held.borrow();
        let bytes: usize = held.iter().map(|(_, data)| data.len()).sum();
        held.len() >= HELD_MAX || bytes >= PAYLOAD_BYTES_MAX as usize
    }

    /// Sleep until the socket is ready; false if the client has taken too long to choose its export.
    fn wait_for(&self, flags: PollFlags, session: &Session) -> io::Result<bool> {
        let socket = vec![PollFd::from_borrowed_fd(self.stream.as_fd(), flags)];
        if !session.is_shaking_hands() {
            sleep(socket, &self.device.stop, None)?;
            return Ok(true);
        }
        let left = HANDSHAKE_MAX.saturating_sub(self.came.elapsed());
        sleep(socket, &self.device.stop, Some(left))?;
        Ok(self.came.elapsed() < HANDSHAKE_MAX)
    }

    /// Wait until half of what the client has not read yet is read.
    fn let_client_read(&self, may_look: impl Fn() -> bool) {
        let unread = self.stream.unread_bytes();
        while self.stream.unread_bytes() > unread / 2 && may_look() {
            self.give_way();
        }
    }

    /// Whoever else wants this processor gets it.
    fn give_way(&self) {
        let left = Instant::now();
        thread::yield_now();
        if left.elapsed() > AWAY_MIN {
            self.may_look_at.set(left + NO_LOOKING);
        }
    }

    /// Do everything that has come, send the answers, and count.
    fn work(&self, session: &mut Session, batch: &mut Vec<Wanted>) -> io::Result<()> {
        let arrived = Instant::now();
        let mut errors = 0;
        while let Some((wanted, data)) = self.held.borrow_mut().take_due() {
            errors += u64::from(!self.finish(session, &wanted, &data, FaultEffect::default()));
            batch.push(wanted);
        }
        while let Some(wanted) = self.next(session, &mut errors) {
            let Some(is_fine) = self.serve(session, &wanted) else { continue };
            errors += u64::from(!is_fine);
            batch.push(wanted);
            if batch.len().is_multiple_of(ANSWERS_MAX) || session.output.data().len() >= ANSWERS_BYTES_MAX {
                self.send(session)?;
            }
        }
        self.send(session)?;
        self.count(arrived, batch, errors);
        batch.clear();
        Ok(())
    }

    /// The next request, if it has come whole and may be taken.
    #[inline]
    fn next(&self, session: &mut Session, errors: &mut u64) -> Option<Wanted> {
        if !self.held.borrow().is_empty() && self.is_full() {
            return None;
        }
        session.next(self.export, errors)
    }

    /// Do one request and prepare its answer; false if it has failed, and nothing if a fault keeps it.
    #[inline]
    fn serve(&self, session: &mut Session, wanted: &Wanted) -> Option<bool> {
        let Wanted { command, cookie, offset, bytes } = *wanted;
        if let Some(record) = &self.device.record {
            record.note(command.action(), offset, bytes.into());
        }
        if let Some(fate) = self.device.faults.match_request(self.number, || wanted.io()) {
            return self.suffer(session, wanted, fate);
        }
        if command == Command::Read {
            return Some(session.answer_read(cookie, offset, bytes, &self.device.store));
        }
        let payload = command.payload_bytes(bytes);
        let status = self.apply(wanted, &session.input.data()[..payload]);
        session.input.consume(payload);
        session.answer(cookie, status);
        Some(status == Status::Ok)
    }

    /// The same with a request that has met a fault.
    #[cold]
    fn suffer(&self, session: &mut Session, wanted: &Wanted, fate: FaultOutcome) -> Option<bool> {
        let payload = wanted.command.payload_bytes(wanted.bytes);
        let data = session.input.data()[..payload].to_vec();
        session.input.consume(payload);
        match fate {
            FaultOutcome::Hangs => None,
            FaultOutcome::Delayed(time) => {
                self.held.borrow_mut().keep(time, (*wanted, data));
                None
            }
            FaultOutcome::Executed(effect) => Some(self.finish(session, wanted, &data, effect)),
        }
    }

    /// Do a request that has been taken, in which something may go wrong; false if it has failed.
    #[cold]
    fn finish(&self, session: &mut Session, wanted: &Wanted, data: &[u8], effect: FaultEffect) -> bool {
        let Wanted { command, cookie, offset, bytes } = *wanted;
        if command == Command::Read && effect.succeeds() {
            let mut answer = || session.answer_read(cookie, offset, bytes, &self.device.store);
            return (!effect.repeats_completion || answer()) && answer();
        }
        let torn = wanted.torn(effect, data, self.export.geometry.block_bytes);
        let status = torn.filter(|_| command != Command::Read).map(|(wanted, data)| self.apply(&wanted, data));
        let status = if effect.fails { Status::Io } else { status.unwrap_or(Status::Ok) };
        if !effect.drops_completion {
            session.answer(cookie, status);
        }
        if effect.repeats_completion {
            session.answer(cookie, status);
        }
        status == Status::Ok
    }

    /// Do to the store what a request asks for, and keep it in the history, if there is one.
    fn apply(&self, wanted: &Wanted, data: &[u8]) -> Status {
        let store = &self.device.store;
        let Some((history, asked)) = self.device.history.as_ref().zip(wanted.command.asked()) else {
            return apply(wanted, data, store);
        };
        let range = (wanted.offset, wanted.bytes);
        let (status, ticket) =
            history.note((asked, wanted.command.is_durable()), range, store, || apply(wanted, data, store));
        self.unanswered.borrow_mut().push(ticket);
        status
    }

    /// Send all of the output, however long the client takes for it.
    fn send(&self, session: &mut Session) -> io::Result<()> {
        if let Some(history) = &self.device.history {
            history.answered(self.unanswered.borrow_mut().drain(..));
        }
        while !self.stream.send(&mut session.output)? {
            if self.device.stop.is_requested() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if !self.wait_for(PollFlags::OUT, session)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    fn count(&self, arrived: Instant, batch: &[Wanted], errors: u64) {
        if batch.is_empty() && errors == 0 {
            return;
        }
        let latency = span(arrived.elapsed());
        let mut tally = locked(self.tally);
        tally.errors += errors;
        batch.iter().for_each(|wanted| count(&mut tally, wanted, latency));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::history::History;
    use crate::device::recording::{Durability, DurabilityRules, RecordedEvent};
    use crate::device::store::{Geometry, Store};
    use crate::front::nbd::client::Client;
    use crate::front::nbd::socket::Listener;
    use crate::front::nbd::uri::Uri;
    use crate::front::nbd::wire::{Request, command};

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 4096, block_bytes: 512 };

    /// A device that keeps a history.
    fn device() -> Device {
        let stop = Arc::new(Stop::new().unwrap());
        let rules = DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush };
        Device {
            drive: Arc::new(phaselink_core::drive::Drive::shipped("nvme").unwrap()),
            store: Arc::new(Store::in_memory(GEOMETRY).unwrap()),
            tallies: Arc::default(),
            record: None,
            history: Some(Arc::new(History::new(GEOMETRY.capacity_bytes, rules, 1 << 20, Arc::clone(&stop)))),
            faults: Arc::default(),
            stop,
        }
    }

    /// A host that has not seen the answer of a write does not know that a flush covers it.
    #[test]
    fn what_came_in_one_piece_is_answered_in_one_piece_and_so_a_history_has_it() {
        let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
        let uri = listener.uri();
        let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: false };
        let (device, served) = (device(), [ExportSocket { listener, export }]);
        thread::scope(|scope| {
            let server = scope.spawn(|| serve(&device, &served, Wait::Block));
            let _stop = device.stop.at_the_end();
            let mut client = Client::connect(&uri).unwrap();
            let write = Request { flags: 0, command: command::WRITE, cookie: 1, offset: 0, length: 512 };
            client.ask(&write, &[7; 512]);
            client.ask(&Request { command: command::FLUSH, cookie: 2, length: 0, ..write }, b"");
            client.send().unwrap();
            let mut answers = 0;
            while answers < 2 {
                client.sleep(None).unwrap();
                client.receive().unwrap();
                while client.answer(|_| 0).unwrap().is_some() {
                    answers += 1;
                }
            }
            device.stop.request();
            server.join().unwrap().unwrap();
        });
        let events = device.history.as_ref().unwrap().finish().unwrap().events;
        assert_eq!(
            events,
            [
                RecordedEvent::Arrived(0),
                RecordedEvent::Arrived(1),
                RecordedEvent::Completed(0),
                RecordedEvent::Completed(1)
            ]
        );
    }
}
