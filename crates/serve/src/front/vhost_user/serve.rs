//! Requests of virtio rings, and the poll groups that own them: all rings of a socket's client belong to one group.
//!
//! With timing on, requests enter the modelled host's software; the ranges of a discard enter one after the other. A
//! write of a driver without flushes is followed by a flush in the model. Reads of the device's name take no modelled
//! time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::number::{index, length};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::Span;
use rustix::event::PollFd;

use super::blk::{BlockRequest, Command, Status};
use super::control::{self, Client, Shared, VhostSocket};
use super::data::GuestTransfer;
use super::ring;
use crate::device::Device;
use crate::device::faults::FaultEffect;
use crate::device::record::Record;
use crate::device::store::Store;
use crate::device::tally::locked;
use crate::device::wakeup::clear;
use crate::front::lifecycle::{
    Completion, Delivery, Endpoint, Fetch, Request, RequestClass, RequestInFlight, RequestLifecycle, Resume,
};
use crate::front::model::Submission;
use crate::front::poll_group::{FrontEnd, owner, readable, run_all};
use crate::front::service::FrontEndService;

/// Identifier of a ring: its socket, client and index. No ring has it any more once the client has gone.
#[derive(Clone, Copy, Debug)]
struct RingIdentifier {
    /// Index of the socket among those of its poll group.
    socket: usize,
    /// Number of the client among all that the socket has had.
    client: u64,
    ring: usize,
}

/// Request that has been taken from a ring, with the ring's identifier.
#[derive(Debug)]
struct RingRequest {
    place: RingIdentifier,
    request: ring::Request,
    /// True if the driver has not negotiated flushes, so that its changes must be durable when they complete.
    writes_through: bool,
}

impl RingRequest {
    fn command(&self) -> Option<Command> {
        self.request.wanted.ok().map(|wanted| wanted.command)
    }

    /// Returns true if the request changes data, and the change must be durable when it completes.
    fn must_be_durable_at_completion(&self) -> bool {
        self.writes_through && matches!(self.command(), Some(Command::Write | Command::Zero | Command::Discard))
    }

    /// Returns a part of the request, counted from 0, as one operation: each range of a discard, or the request itself,
    /// and then a flush if it must be durable. Returns none if there is no such part.
    fn part(&self, part: usize) -> Option<Io> {
        let parts = if self.command() == Some(Command::Discard) { self.request.ranges.len() } else { 1 };
        match self.request.ranges.get(part) {
            Some(range) if part < parts => Some(Io { offset: range.offset, bytes: range.bytes, ..self.io()? }),
            _ if part < parts => self.io(),
            _ => (part == parts && self.must_be_durable_at_completion()).then(Io::flush),
        }
    }
}

impl Request for RingRequest {
    /// Result of a request: the number of data bytes that the guest has received, or the error status.
    type Status = Result<u32, Status>;

    fn io(&self) -> Option<Io> {
        let BlockRequest { command, offset, bytes } = self.request.wanted.ok()?;
        let op = match command {
            Command::Read => Op::Read,
            Command::Write => Op::Write,
            Command::Flush => return Some(Io::flush()),
            Command::Discard => Op::Discard,
            Command::Zero => Op::WriteZeroes,
            Command::Name => return None,
        };
        Some(Io { op, offset, bytes })
    }

    fn class(&self) -> Option<RequestClass> {
        let io = self.io()?;
        let discarded = || self.request.ranges.iter().map(|range| u64::from(range.bytes)).sum();
        Some(if io.op == Op::Discard { RequestClass { op: io.op, bytes: discarded() } } else { io.into() })
    }

    fn thread(&self) -> u64 {
        length(self.place.ring)
    }

    fn note(&self, record: &Record) {
        (0..).map_while(|part| self.part(part)).for_each(|io| record.note(io));
    }

    fn submission(&self, part: usize) -> Option<Submission> {
        self.part(part).map(|io| Submission::Software { turn: self.place.socket + self.place.ring, io })
    }
}

/// Access to the rings of a client, whose lock the device thread holds.
struct LockedRing<'a> {
    place: RingIdentifier,
    client: MutexGuard<'a, Client>,
    shared: &'a Shared,
}

impl LockedRing<'_> {
    fn write(&mut self, request: &RingRequest, done: Result<u32, Status>) -> bool {
        let Client { memory, rings, .. } = &mut *self.client;
        let ring = &mut rings[request.place.ring];
        let (status, bytes) = done.map_or_else(|status| (status, 0), |bytes| (Status::Ok, bytes));
        ring.answer(memory.guest(), &request.request, status, bytes);
        if ring.in_flight == 0 && !ring.is_started {
            ring.signal(memory.guest());
            self.shared.quiet.notify_all();
        }
        done.is_ok()
    }
}

impl Endpoint<RingRequest> for LockedRing<'_> {
    #[inline]
    fn fetch(&mut self, queue: u32, store: &Store) -> Fetch<RingRequest> {
        let place = RingIdentifier { ring: index(queue), ..self.place };
        let writes_through = !self.client.flushes();
        let Client { memory, rings, .. } = &mut *self.client;
        match rings[place.ring].take(memory.guest(), store.geometry()) {
            Some(request) => Fetch::Request(RingRequest { place, request, writes_through }),
            None => Fetch::Nothing,
        }
    }

    fn transfer(
        &mut self,
        request: &RingRequest,
        effect: FaultEffect,
        device: &Device,
        space: &mut Vec<u8>,
    ) -> Option<Result<u32, Status>> {
        let mut transfer = GuestTransfer { memory: self.client.memory.guest(), store: &device.store, space };
        Some(transfer.perform(&request.request, effect, self.shared.name()))
    }

    fn complete(&mut self, request: &RingRequest, done: Result<u32, Status>, _: Span, _: &Device) -> Completion {
        let must_be_durable = request.command() == Some(Command::Flush) || request.must_be_durable_at_completion();
        if must_be_durable && done.is_ok() {
            Completion::AfterFlush
        } else {
            Completion::Written(self.write(request, done))
        }
    }

    fn repeat(&mut self, request: &RingRequest, done: Result<u32, Status>, _: &Device) {
        let Client { memory, rings, .. } = &mut *self.client;
        let (status, bytes) = done.map_or_else(|status| (status, 0), |bytes| (Status::Ok, bytes));
        rings[request.place.ring].repeat_completion(memory.guest(), &request.request, status, bytes);
    }

    fn commit(&mut self, request: &RingRequest, flushed: io::Result<()>, _: Span) -> bool {
        self.write(request, flushed.map(|()| 0).map_err(|_| Status::IoError))
    }

    fn abandon(&mut self, request: &RingRequest) {
        self.client.rings[request.place.ring].forget();
    }
}

/// Sockets of vhost-user whose rings one device thread polls.
struct RingPollGroup<'a> {
    sockets: Vec<&'a Shared>,
    /// True if the latest polling round has found a ring that is set up, started and enabled.
    has_active_rings: bool,
    /// Descriptors by which guests announce requests during a sleep.
    kicks: Vec<Arc<OwnedFd>>,
}

impl<'a> RingPollGroup<'a> {
    fn endpoint(&self, socket: usize) -> LockedRing<'a> {
        let shared = self.sockets[socket];
        let client = locked(&shared.client);
        LockedRing { place: RingIdentifier { socket, client: client.number, ring: 0 }, client, shared }
    }
}

impl Resume<RingRequest> for RingPollGroup<'_> {
    fn resume(&mut self, life: &mut RequestLifecycle<'_, RingRequest>, request: RequestInFlight<RingRequest>) {
        let RingIdentifier { socket, client, .. } = request.request().place;
        let mut endpoint = self.endpoint(socket);
        if endpoint.client.number == client {
            life.advance(&mut endpoint, request);
        }
    }

    fn has_clients(&self) -> bool {
        self.has_active_rings
    }
}

impl FrontEnd for RingPollGroup<'_> {
    type Request = RingRequest;
    const DELIVERY: Delivery = Delivery::AtInstant;
    const ROUNDS_PER_ATTENTION: u32 = 512;

    /// Disconnects clients that have begun a message and not completed it in time.
    fn attend(&mut self, _: &mut RequestLifecycle<'_, RingRequest>) -> bool {
        self.sockets.iter().for_each(|shared| shared.watch(false));
        false
    }

    fn fetch(&mut self, life: &mut RequestLifecycle<'_, RingRequest>) -> bool {
        let mut found = false;
        self.has_active_rings = false;
        for socket in 0..self.sockets.len() {
            let mut endpoint = self.endpoint(socket);
            for ring in 0..endpoint.client.rings.len() {
                if endpoint.client.rings[ring].is_active() {
                    self.has_active_rings = true;
                    let Client { memory, rings, .. } = &mut *endpoint.client;
                    rings[ring].look(memory.guest());
                    found |= life.fetch_and_execute_batch(&mut endpoint, ring as u32);
                }
                let Client { memory, rings, .. } = &mut *endpoint.client;
                rings[ring].signal(memory.guest());
            }
        }
        found
    }

    fn prepare_sleep(&mut self, _: &mut Duration) -> Option<Vec<PollFd<'_>>> {
        for shared in &self.sockets {
            let mut client = locked(&shared.client);
            let Client { memory, rings, .. } = &mut *client;
            for ring in rings.iter_mut().filter(|ring| ring.is_active()) {
                if ring.listen(memory.guest()) {
                    return None;
                }
                self.kicks.extend(ring.kick.clone());
            }
        }
        Some(self.kicks.iter().map(|kick| readable(kick.as_fd())).collect())
    }

    fn end_sleep(&mut self) {
        self.kicks.drain(..).for_each(clear);
    }
}

/// Serves the clients of `sockets` until the device is told to stop. Sockets are divided among the device threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait.
pub(super) fn serve(service: &FrontEndService<'_>, sockets: &[VhostSocket]) -> io::Result<Option<Outcome>> {
    let device = service.device;
    let clients: Vec<Arc<Shared>> = sockets.iter().map(|_| Arc::new(Shared::new(device))).collect();
    let groups = service.groups(service.device_threads.min(sockets.len()));
    let number = groups.len();
    thread::scope(|scope| {
        let _stop = device.stop.stop_when_dropped();
        for (place, (socket, shared)) in sockets.iter().zip(&clients).enumerate() {
            let wakeup = groups[owner(0, length(place), number)].wakeup;
            let builder = thread::Builder::new().name(String::from("vhost-user client"));
            builder.spawn_scoped(scope, move || {
                // If this socket fails, only its clients are affected, so ignore the error.
                let _ = control::run(socket, shared, wakeup, &device.stop);
            })?;
        }
        let groups = groups.into_iter().enumerate().map(|(place, group)| {
            let sockets = clients.iter().skip(place).step_by(number).map(Arc::as_ref).collect();
            move || group.run(RingPollGroup { sockets, has_active_rings: false, kicks: Vec::new() })
        });
        let ended = run_all(device, "vhost-user", groups.collect());
        for shared in &clients {
            shared.forget();
            shared.watch(true);
        }
        ended
    })
}
