//! Where components put what they want to happen: events at an instant, and the tables that all of them share.

use std::collections::VecDeque;

use crate::data::Data;
use crate::link::InFlight;
use crate::link::packet::{Packet, Payload};
use crate::memory::HostMemory;
use crate::queue::Queue;
use crate::report::Stage;
use crate::report::stage::Ledger;
use crate::report::trace::Trace;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::workload::{Io, Next, Op};

const _: () = assert!(size_of::<Event>() == 8);

/// Index of a burst in [`Sink::packets`].
pub type PacketId = u32;
/// Index of a request in [`Sink::requests`].
pub type RequestId = u32;

/// Everything that can happen. [`crate::engine::Engine::route`] says who hears of it.
///
/// Kept to eight bytes, as events are copied more than anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// A thread looks for something to do.
    Thread(u16),
    /// A thread takes its request on through the software.
    Walk(u16),
    /// A spinlock that others wait for is released.
    Release(u16),
    /// A thread has finished the work that it was doing.
    WorkDone(u16),
    /// An interrupt reaches its core.
    Interrupt { vector: u16 },
    /// Its handler has run.
    Handled { vector: u16 },
    /// A driver's own timer.
    #[default]
    Driver,
    /// A wire looks at what waits for it.
    Wire(u8),
    /// A burst, or a packet of it, arrives.
    Arrive(PacketId),
    /// A read of the device that had to wait for earlier writes looks into host memory.
    Look(PacketId),
    /// Host memory answers a read of the device.
    Answer(PacketId),
    /// A posted write is in host memory.
    Settle(PacketId),
    /// One packet of a posted burst is.
    SettleOne { place: u16, packet: PacketId },
    /// A controller's own timer.
    Controller { kind: u8, context: u32 },
}

/// A controller's name for one of its timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub kind: u8,
    pub context: u32,
}

/// One request of the application.
#[derive(Clone, Debug)]
pub struct Request {
    pub io: Io,
    pub thread: u16,
    /// What its sender calls it, if it came from outside.
    pub token: Option<u32>,
    /// Bus address of its data buffer.
    pub buffer: u64,
    /// When the application issued it, and when the driver had handed it to the device.
    pub issued: Time,
    pub submitted: Time,
    /// Set once it has its completion: when that became visible.
    pub visible: Time,
    /// Parts of a request larger than one command: the request they belong to, and how many are under way.
    pub parent: Option<RequestId>,
    /// Number of the request in the order of issue.
    pub number: u64,
    pub parts_left: u32,
    pub ledger: Ledger,
}

impl Default for Request {
    /// A place for a request, to be [opened](Request::open).
    fn default() -> Request {
        Request {
            io: Io { op: Op::Read, offset: 0, bytes: 0 },
            thread: 0,
            token: None,
            buffer: 0,
            issued: Time::ZERO,
            submitted: Time::ZERO,
            visible: Time::NEVER,
            parent: None,
            number: 0,
            parts_left: 0,
            ledger: Ledger::default(),
        }
    }
}

impl Request {
    /// A new request in the place of one that is done: number `number`, wanted at `due`, issued at `now`.
    pub fn open(&mut self, number: u64, next: Next, now: Time, thread: u16, token: Option<u32>) {
        (self.number, self.io, self.thread, self.token) = (number, next.io, thread, token);
        (self.issued, self.submitted, self.visible) = (now, now, Time::NEVER);
        (self.buffer, self.parent, self.parts_left) = (0, None, 0);
        self.ledger.open(next.due);
    }
}

/// Events to come, and the tables that components share.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// Events of later instants.
    later: Queue<Event>,
    now: Time,
    pub packets: Table<InFlight>,
    /// Payloads by burst, beside them because few bursts have one whose bytes matter.
    payloads: Vec<Payload>,
    /// Requests whose completion the driver has just found.
    pub completed: VecDeque<RequestId>,
    pub requests: Table<Request>,
    pub memory: HostMemory,
    /// Requests by queue and slot of the command that carries them, so that devices can charge them.
    bindings: Vec<Vec<Option<RequestId>>>,
    pub events: u64,
    /// Number of the request that was issued last.
    pub issued: u64,
    /// The request whose command the device has just accepted.
    pub accepted: Option<RequestId>,
    /// What is recorded for ladders and timelines; by default nothing.
    pub trace: Trace,
    /// The bytes of a run with data.
    pub data: Option<Box<Data>>,
}

impl Sink {
    /// Let `event` happen at `at`; an instant that has passed counts as now.
    #[inline]
    pub fn at(&mut self, at: Time, event: Event) {
        self.later.push(at.max(self.now), event);
    }

    /// Let `event` happen `after` from `now`.
    pub fn after(&mut self, now: Time, after: Span, event: Event) {
        self.at(now + after, event);
    }

    /// The payload of a burst. Whoever sends or answers it fills it before anybody looks.
    #[inline]
    pub fn payload(&mut self, packet: PacketId) -> &mut Payload {
        let place = packet as usize;
        if self.payloads.len() <= place {
            self.payloads.resize_with(place + 1, Payload::default);
        }
        &mut self.payloads[place]
    }

    /// The same at the end of the burst's journey.
    pub fn take_payload(&mut self, packet: PacketId) -> Payload {
        std::mem::take(self.payload(packet))
    }

    /// Write a burst's payload to host memory.
    pub fn store(&mut self, packet: PacketId, address: u64, bytes: u32) {
        self.memory.write(address, &self.payloads[packet as usize].bytes()[..bytes as usize]);
    }

    /// Fill a burst's payload from host memory.
    #[inline(always)]
    pub fn load(&mut self, packet: PacketId, address: u64, bytes: u32) {
        self.payload(packet);
        self.memory.read(address, self.payloads[packet as usize].room(bytes as usize));
    }

    /// The command in `slot` of `queue` carries `request`.
    #[inline(always)]
    pub fn bind(&mut self, queue: usize, slot: usize, request: RequestId) {
        if self.bindings.len() <= queue {
            self.bindings.resize(queue + 1, Vec::new());
        }
        let slots = &mut self.bindings[queue];
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        slots[slot] = Some(request);
    }

    /// The request that the command in `slot` of `queue` carries; none for a command of a real host.
    pub fn bound(&self, queue: usize, slot: usize) -> Option<RequestId> {
        *self.bindings.get(queue)?.get(slot)?
    }

    /// Charge the time up to `until` to a stage of a request, if there is one.
    #[inline]
    pub fn charge(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            self.requests[request as usize].ledger.until(stage, until);
        }
    }

    /// The same for something that may have happened while the request was busy elsewhere: then it costs nothing.
    pub fn charge_late(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            let ledger = &mut self.requests[request as usize].ledger;
            ledger.until(stage, until.max(ledger.cursor()));
        }
    }

    /// A request is about to be submitted, its buffer chosen.
    #[inline]
    pub fn prepare_buffer(&mut self, request: RequestId) {
        if let Some(data) = &mut self.data {
            data.on_submit(request, &self.requests[request as usize], &mut self.memory);
        }
    }

    /// The driver has found a request complete, and its buffer will be used again.
    #[inline]
    pub fn complete(&mut self, request: RequestId) {
        self.completed.push_back(request);
        if let Some(data) = &mut self.data {
            data.on_complete(request, &self.requests[request as usize], &self.memory);
        }
    }

    /// The driver has found a part of a request complete whose buffer is a piece of the whole's.
    pub fn complete_part(&mut self, part: RequestId, whole: RequestId) {
        self.completed.push_back(part);
        let request = &self.requests[whole as usize];
        if let Some(data) = self.data.as_mut().filter(|_| request.parts_left == 1) {
            data.on_complete(whole, request, &self.memory);
        }
    }

    /// A write's data has arrived at the device.
    #[inline]
    pub fn store_user_data(&mut self, packet: &Packet) {
        if let Some(data) = self.data.as_mut().filter(|_| packet.user_data) {
            data.to_device(packet, &self.memory);
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Time> {
        self.later.next_at()
    }

    /// The next event up to `until`, and the clock moved to it.
    #[inline]
    pub fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        let (at, event) = self.later.pop(until)?;
        self.now = at;
        self.events += 1;
        Some((at, event))
    }

    /// The instant of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Move the clock on without an event, for inputs from outside.
    ///
    /// # Panics
    /// If an event before `now` has not been handled.
    pub fn advance(&mut self, now: Time) {
        assert!(self.next_at().is_none_or(|next| next >= now), "the clock may not pass an event");
        self.now = self.now.max(now);
    }
}
