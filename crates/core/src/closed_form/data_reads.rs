//! Times of the device's reads of a write's data in closed form: one read after the other, as tags and wires allow.
//!
//! Wires and host memory serve the reads in order, so that a recurrence gives the instants of each. They are those of a
//! simulation in which nothing else is in flight.

use std::collections::VecDeque;

use super::Parts;
use crate::config::Granularity;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::wire::{CreditClass, Wire};
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// The device's read of a piece of a write's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataRead {
    /// Length in bytes.
    pub bytes: u32,
    /// Instant at which the device issued the read.
    pub asked: Time,
    /// Instants at which its requests went on the wire, and at which the last of them had arrived.
    requested: Time,
    arrived: Time,
    /// Instants at which its data went on the wire, and at which the last of it had arrived.
    answered: Time,
    /// Instant at which all data is in the device.
    pub there: Time,
}

/// A wire of one direction, with the DLLPs that it has to send for packets that have arrived from the other direction,
/// and the instants from which on.
#[derive(Clone, Debug, Default)]
struct WireDirection {
    wire: Wire,
    owed: VecDeque<(Time, Span)>,
}

/// Reads in flight.
#[derive(Clone, Debug)]
pub(crate) struct DataReads<'a> {
    parts: &'a Parts<'a>,
    /// Free tags, and the tags that completions will return.
    tags_free: u32,
    tags_back: VecDeque<(Time, u32)>,
    waiting: VecDeque<(Time, u32)>,
    requested: VecDeque<DataRead>,
    up: WireDirection,
    down: WireDirection,
}

impl<'a> DataReads<'a> {
    /// Makes an empty set of reads.
    pub(crate) fn new(parts: &'a Parts<'a>) -> DataReads<'a> {
        DataReads {
            parts,
            tags_free: parts.drive.link.read_tags.into(),
            tags_back: VecDeque::new(),
            waiting: VecDeque::new(),
            requested: VecDeque::new(),
            up: WireDirection::default(),
            down: WireDirection::default(),
        }
    }

    /// Issues a read of `bytes`, no sooner than the read before it.
    pub(crate) fn ask(&mut self, now: Time, bytes: u32) {
        self.waiting.push_back((now, bytes));
    }

    /// Completes the next read. The burst that can go on a wire first goes first, because the other wire may have to
    /// send DLLPs for it.
    pub(crate) fn answer(&mut self) -> Option<DataRead> {
        loop {
            match (self.next_request(), self.next_answer()) {
                (Some(request), Some(answer)) if request > answer => return self.send_answer(answer),
                (Some(request), _) => self.send_request(request),
                (None, Some(answer)) => return self.send_answer(answer),
                (None, None) => return None,
            }
        }
    }

    /// Instant at which the next requests can go on the wire, if there will be tags for them.
    fn next_request(&self) -> Option<Time> {
        let &(asked, bytes) = self.waiting.front()?;
        let (mut free, mut since) = (self.tags_free, Time::ZERO);
        let mut back = self.tags_back.iter();
        while free < self.tags(bytes) {
            let &(at, tags) = back.next()?;
            (free, since) = (free + tags, at);
        }
        Some(asked.max(since).max(self.up.wire.free_at()))
    }

    fn send_request(&mut self, ready: Time) {
        let Some((asked, bytes)) = self.waiting.pop_front() else { return };
        while self.tags_free < self.tags(bytes)
            && let Some((_, tags)) = self.tags_back.pop_front()
        {
            self.tags_free += tags;
        }
        self.tags_free -= self.tags(bytes);
        let requests = self.parts.data_read(bytes);
        let (requested, end) = self.up.send(ready, CreditClass::NonPosted, self.parts.on_wire(&requests));
        let arrived = end + self.parts.link.one_way();
        self.down.owe(arrived, self.parts, &requests);
        self.requested.push_back(DataRead { bytes, asked, requested, arrived, answered: arrived, there: arrived });
    }

    /// Instant at which the next completions can go on the wire. Host memory is read from the first of the read's
    /// requests on.
    fn next_answer(&self) -> Option<Time> {
        let read = self.requested.front()?;
        let requests = self.parts.data_read(read.bytes);
        let first = read.arrived - (self.parts.on_wire(&requests) - self.parts.link.packet_times(&requests).0);
        let ready = (first + self.parts.root_complex.data_read_latency()).max(read.arrived);
        Some(ready.max(self.down.wire.free_at()))
    }

    fn send_answer(&mut self, ready: Time) -> Option<DataRead> {
        let mut read = self.requested.pop_front()?;
        let answers = self.parts.data_answer(read.bytes);
        let (answered, end) = self.down.send(ready, CreditClass::Completion, self.parts.on_wire(&answers));
        (read.answered, read.there) = (answered, end + self.parts.link.one_way());
        self.up.owe(read.there, self.parts, &answers);
        self.tags_back.push_back((read.there, self.tags(read.bytes)));
        Some(read)
    }

    /// Number of tags that a read holds; a read with more requests than there are tags holds all of them.
    fn tags(&self, bytes: u32) -> u32 {
        self.parts.data_read(bytes).count().min(self.parts.drive.link.read_tags.into())
    }
}

impl WireDirection {
    /// Adds the acknowledgements and credits for packets that arrive at `arrived`. With granularity "packet", they find
    /// other gaps between packets.
    fn owe(&mut self, arrived: Time, parts: &Parts, packet: &Packet) {
        if parts.drive.link.granularity != Granularity::Packet {
            self.owed.push_back((arrived, parts.link.acknowledgement_time(packet.kind) * u64::from(packet.count())));
        }
    }

    /// Puts packets that are ready on the free wire; returns the instants at which they start and at which they have
    /// passed.
    fn send(&mut self, ready: Time, class: CreditClass, length: Span) -> (Time, Time) {
        while let Some(&(since, span)) = self.owed.front()
            && since <= ready
        {
            self.owed.pop_front();
            self.wire.owe(span);
        }
        let start = self.wire.start_time(ready);
        self.wire.occupy_single(class, start + length);
        (start, start + length)
    }
}

impl DataRead {
    /// Charges the travel times of the read's requests and data to `ledger`.
    pub(crate) fn charge(&self, parts: &Parts, ledger: &mut Ledger) {
        ledger.until(Stage::LinkWait, self.requested);
        ledger.spend(Stage::Transfer, parts.on_wire(&parts.data_read(self.bytes)));
        ledger.until(Stage::Propagation, self.arrived);
        ledger.until(Stage::HostRead, self.answered);
        ledger.spend(Stage::Transfer, parts.on_wire(&parts.data_answer(self.bytes)));
        ledger.until(Stage::Propagation, self.there);
    }
}

impl Parts<'_> {
    /// Charges the least time of reads of these pieces, from the first request to the last byte.
    pub fn spend_data_reads_least(&self, first_bytes: u32, answers: Span, ledger: &mut Ledger) {
        let requests = self.data_read(first_bytes);
        ledger.spend(Stage::Transfer, self.on_wire(&requests));
        ledger.spend(Stage::Propagation, self.link.one_way());
        ledger.spend(Stage::HostRead, self.data_memory(first_bytes));
        ledger.spend(Stage::Transfer, answers);
        ledger.spend(Stage::Propagation, self.link.one_way());
    }
}
