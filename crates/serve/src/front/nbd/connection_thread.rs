//! Connections while timing is off: the thread of each reads, executes and replies by itself, without a handover.
//!
//! A thread spins for a moment before it sleeps, as a wake-up takes longer than most requests; but only while every
//! such thread has a processor to itself. A thread that yields and comes back late shares its processor with one that
//! works: it sleeps for a while then, as the scheduler lets threads that wake up run at once, and threads that yield
//! not.
//!
//! A thread that is faster than its client would reply to every request by itself: each reply costs the client a
//! message of the kernel's to release, and each look for the next request takes a lock that the client needs to send
//! it. So requests stay in the socket until the client has read half of the replies that wait for it. A client with one
//! request in flight loses nothing by that, as it reads a reply before it sends its next request.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::accept::{ExportSocket, accept};
use super::connection::{ConnectionRequest, HANDSHAKE_MAX, NbdConnection};
use crate::clock::Wait;
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::device::pace::SPIN_TIME;
use crate::front::lifecycle::{Delivery, RequestInFlight, RequestLifecycle, Resume};
use crate::front::model::Model;
use crate::front::poll_group::{readable, sleep};

/// Duration of a yield beyond which another thread must have run on the processor: longer than the kernel's own short
/// work, and shorter than a time slice of Linux's scheduler.
const AWAY_MIN: Duration = Duration::from_micros(500);
/// Time for which a thread sleeps instead of spinning once it shares its processor: several time slices of a scheduler.
const NO_SPINNING: Duration = Duration::from_millis(20);
/// Number of bytes of replies at which they are sent at the latest; `REPLIES_MAX` is the same for the number of
/// requests. They are few enough for a client to read some replies while others are made.
const REPLY_BYTES_MAX: usize = 256 << 10;
const REPLIES_MAX: usize = 8;
/// Number of polls of a socket for each read of it. The other polls only ask the system for the number of received
/// bytes.
const LOOKS_PER_READ: u32 = 64;
/// Number of polls of its socket after which a spinning thread yields the processor once.
const LOOKS_PER_YIELD: u32 = 4;
/// Number of received bytes that are read although the request needs more, so that they are copied while the client
/// sends the rest.
const PIECE_BYTES: usize = 8 << 10;

/// Serves NBD clients with timing off, each connection on a thread of its own, until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub(super) fn serve(device: &Device, served: &[ExportSocket], wait: Wait) -> io::Result<()> {
    let processors = thread::available_parallelism().map_or(1, |number| number.get());
    let open = AtomicUsize::new(0);
    // Leave one processor to the clients. A process that has only one processor may still spin with one connection.
    let has_room_to_spin = || wait != Wait::Block && open.load(Ordering::Relaxed) < processors.max(2);
    thread::scope(|scope| {
        accept(device, served, &open, |connection| {
            let builder = thread::Builder::new().name(String::from("nbd connection"));
            // If a connection fails, or no thread can be created for it, only that connection ends.
            let _ = builder.spawn_scoped(scope, || {
                let flusher = Flusher::in_place(&device.store);
                let life = RequestLifecycle::new(device, Model::None, flusher, Delivery::AtInstant).measuring_all();
                ConnectionThread { connection, may_spin_at: Instant::now(), has_replied: false }
                    .run(life, &has_room_to_spin)
            });
        })
    })
}

/// Thread of one NBD connection, which executes all its requests.
struct ConnectionThread<'a> {
    connection: NbdConnection<'a>,
    /// Instant from which on the thread may spin for requests again instead of sleeping.
    may_spin_at: Instant,
    /// True if replies have been sent since the thread last waited for the client to read them.
    has_replied: bool,
}

impl Resume<ConnectionRequest> for ConnectionThread<'_> {
    fn resume(
        &mut self,
        life: &mut RequestLifecycle<'_, ConnectionRequest>,
        request: RequestInFlight<ConnectionRequest>,
    ) {
        life.advance(&mut self.connection, request);
    }

    fn has_clients(&self) -> bool {
        true
    }
}

impl ConnectionThread<'_> {
    fn run(
        mut self,
        mut life: RequestLifecycle<'_, ConnectionRequest>,
        has_room_to_spin: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        loop {
            self.send(&life)?;
            if self.connection.session.is_closed() || !self.receive(&mut life, has_room_to_spin)? {
                return Ok(());
            }
            self.execute_received_requests(&mut life)?;
        }
    }

    /// Waits until bytes of the client have been read, or until a request that a fault delays is due. Returns false at
    /// the end of the connection or of the server.
    fn receive(
        &mut self,
        life: &mut RequestLifecycle<'_, ConnectionRequest>,
        has_room_to_spin: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let since = Instant::now();
        let may_spin = |thread: &Self| has_room_to_spin() && since >= thread.may_spin_at && since.elapsed() < SPIN_TIME;
        if mem::take(&mut self.has_replied) {
            self.wait_for_client_to_read_replies(may_spin);
        }
        // Allocate the buffer for a large request before its data arrives, so that a client for which there is no
        // memory is disconnected at once.
        if self.connection.session.bytes_missing_for_next_message() > PIECE_BYTES {
            self.connection.session.room()?;
        }
        // If part of a request has arrived, the rest follows soon, so the first poll need not be a read.
        let mut looks = u32::from(!self.connection.session.input.is_empty());
        loop {
            if life.is_waiting() {
                return self.receive_or_wait_for_delayed(life);
            }
            let NbdConnection { session, stream, .. } = &mut self.connection;
            // Only a read shows the end of the connection, so read at the first poll, which may be the only one, and at
            // regular intervals.
            let is_read_due = looks.is_multiple_of(LOOKS_PER_READ);
            if (is_read_due
                || stream.received_unread_bytes() >= session.bytes_missing_for_next_message().min(PIECE_BYTES))
                && let Some(bytes) = stream.read(session.room()?)?
            {
                session.input.filled(bytes);
                return Ok(bytes > 0);
            }
            if life.device.stop.is_requested() {
                return Ok(false);
            }
            looks += 1;
            if may_spin(self) {
                if looks.is_multiple_of(LOOKS_PER_YIELD) {
                    self.yield_processor_or_sleep();
                }
                continue;
            }
            looks = 0;
            life.counter.show();
            if !self.sleep_until_socket_ready(PollFlags::IN, life.device)? {
                return Ok(false);
            }
        }
    }

    /// Waits for bytes of the client, if it may have another request in flight, or until a request that a fault delays
    /// is due. Returns false at the end of the connection or of the server.
    #[cold]
    fn receive_or_wait_for_delayed(&mut self, life: &RequestLifecycle<'_, ConnectionRequest>) -> io::Result<bool> {
        let has_room = self.connection.has_room_for_request();
        if has_room {
            let session = &mut self.connection.session;
            if let Some(bytes) = self.connection.stream.read(session.room()?)? {
                session.input.filled(bytes);
                return Ok(bytes > 0);
            }
        }
        let flags = if has_room { PollFlags::IN } else { PollFlags::empty() };
        let socket = PollFd::from_borrowed_fd(self.connection.stream.as_fd(), flags);
        let stop = &life.device.stop;
        sleep(&mut [socket, readable(stop.as_fd())], Some(life.rest_for(Wait::Block, true)))?;
        Ok(!stop.is_requested())
    }

    /// Sleeps until the socket is ready for `flags` or the device is told to stop. Returns false if the client has
    /// taken too long to choose its export.
    fn sleep_until_socket_ready(&self, flags: PollFlags, device: &Device) -> io::Result<bool> {
        let NbdConnection { stream, session, since, .. } = &self.connection;
        let mut polled = [PollFd::from_borrowed_fd(stream.as_fd(), flags), readable(device.stop.as_fd())];
        let left = session.is_in_nbd_handshake().then(|| HANDSHAKE_MAX.saturating_sub(since.elapsed()));
        sleep(&mut polled, left)?;
        Ok(left.is_none() || since.elapsed() < HANDSHAKE_MAX)
    }

    /// Waits, while `may_spin` allows it, until the client has read half of the reply bytes that are unread now.
    fn wait_for_client_to_read_replies(&mut self, may_spin: impl Fn(&Self) -> bool) {
        let unread = self.connection.stream.unread_sent_bytes();
        while self.connection.stream.unread_sent_bytes() > unread / 2 && may_spin(self) {
            self.yield_processor_or_sleep();
        }
    }

    /// Yields the processor. If another thread runs on it for long, this thread sleeps instead of spinning for a while.
    fn yield_processor_or_sleep(&mut self) {
        let left = Instant::now();
        thread::yield_now();
        if left.elapsed() > AWAY_MIN {
            self.may_spin_at = left + NO_SPINNING;
        }
    }

    /// Executes all requests that have been received, and sends the replies.
    fn execute_received_requests(&mut self, life: &mut RequestLifecycle<'_, ConnectionRequest>) -> io::Result<()> {
        life.poll(self);
        let mut executed: usize = 0;
        while let Some(request) = self.connection.next_request(&mut life.counter) {
            life.begin(&mut self.connection, request);
            life.poll(self);
            executed += 1;
            let reply_bytes = self.connection.session.output.data().len();
            if executed.is_multiple_of(REPLIES_MAX) || reply_bytes >= REPLY_BYTES_MAX {
                self.send(life)?;
            }
        }
        self.send(life)
    }

    /// Sends all prepared replies, and waits for as long as the client takes to read them.
    fn send(&mut self, life: &RequestLifecycle<'_, ConnectionRequest>) -> io::Result<()> {
        self.has_replied |= !self.connection.session.output.is_empty();
        while !self.connection.send(life.device)? {
            if life.device.stop.is_requested() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if !self.sleep_until_socket_ready(PollFlags::OUT, life.device)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::StopRequest;
    use crate::device::history::History;
    use crate::device::store::{Geometry, Store};
    use crate::front::nbd::client::Client;
    use crate::front::nbd::export::Export;
    use crate::front::nbd::socket::Listener;
    use crate::front::nbd::uri::Uri;
    use crate::front::nbd::wire::{Request, command};
    use phaselink_core::crash::recording::{Durability, DurabilityRules, RecordedEventKind};

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 4096, block_bytes: 512 };

    /// Makes a device in memory that keeps a history of its requests.
    fn device() -> Device {
        let stop = Arc::new(StopRequest::new().unwrap());
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

    /// A host that has not seen the reply to a write does not know that a flush covers the write.
    #[test]
    fn requests_sent_in_one_piece_complete_together_in_the_recorded_history() {
        let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
        let uri = listener.uri();
        let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: false };
        let (device, served) = (device(), [ExportSocket { listener, export }]);
        thread::scope(|scope| {
            let server = scope.spawn(|| serve(&device, &served, Wait::Block));
            let _stop = device.stop.stop_when_dropped();
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
                RecordedEventKind::Arrived(0),
                RecordedEventKind::Arrived(1),
                RecordedEventKind::Completed(0),
                RecordedEventKind::Completed(1)
            ]
        );
    }
}
