//! The device's reads of a write's data: one behind the other, as tags and wires let them pass.
//!
//! The wires and the host's memory serve them in order, so that a recurrence gives the instants of each. Owes its
//! callers those of a simulation in which nothing else is under way.

use std::collections::VecDeque;

use super::Parts;
use crate::config::Granularity;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::wire::{CreditClass, Wire};
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// A read of a piece of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataRead {
    pub bytes: u32,
    /// When the device wanted it.
    pub asked: Time,
    /// When its requests went on the wire, and when the last of them was there.
    requested: Time,
    arrived: Time,
    /// When its data went on the wire, and when the last of it was there.
    answered: Time,
    pub there: Time,
}

/// A wire of one direction, and what it owes for packets that have arrived from the other, from when on.
#[derive(Clone, Debug, Default)]
struct Way {
    wire: Wire,
    owed: VecDeque<(Time, Span)>,
}

/// Reads under way.
#[derive(Clone, Debug)]
pub(crate) struct DataReads<'a> {
    parts: &'a Parts<'a>,
    /// Tags that no read holds, and those that come back with answers.
    tags_free: u32,
    tags_back: VecDeque<(Time, u32)>,
    waiting: VecDeque<(Time, u32)>,
    requested: VecDeque<DataRead>,
    up: Way,
    down: Way,
}

impl<'a> DataReads<'a> {
    /// None yet.
    pub(crate) fn new(parts: &'a Parts<'a>) -> DataReads<'a> {
        DataReads {
            parts,
            tags_free: parts.drive.link.read_tags.into(),
            tags_back: VecDeque::new(),
            waiting: VecDeque::new(),
            requested: VecDeque::new(),
            up: Way::default(),
            down: Way::default(),
        }
    }

    /// The device wants `bytes` more, no sooner than what it wanted before.
    pub(crate) fn ask(&mut self, now: Time, bytes: u32) {
        self.waiting.push_back((now, bytes));
    }

    /// The next read to be answered. What goes on a wire first comes first, as the other wire may owe something for it.
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

    /// When the next requests can go on the wire, if there will be tags for them.
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

    /// When the next answer can go on the wire: the host's memory has been asked since the first of its requests.
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

    /// A read of more requests than there are tags takes all of them.
    fn tags(&self, bytes: u32) -> u32 {
        self.parts.data_read(bytes).count().min(self.parts.drive.link.read_tags.into())
    }
}

impl Way {
    /// Acknowledgements and credits of packets that arrive at `arrived`. Packet by packet they find other gaps.
    fn owe(&mut self, arrived: Time, parts: &Parts, packet: &Packet) {
        if parts.drive.link.granularity != Granularity::Packet {
            self.owed.push_back((arrived, parts.link.acknowledgement_time(packet.kind) * u64::from(packet.count())));
        }
    }

    /// Packets that are ready go on the wire, which is free: when they do, and when they have passed.
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
    /// Charge the journeys of its requests and of its data.
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
    /// The least that reads of these pieces take, from the first request to the last byte.
    pub fn spend_data_reads_least(&self, first_bytes: u32, answers: Span, ledger: &mut Ledger) {
        let requests = self.data_read(first_bytes);
        ledger.spend(Stage::Transfer, self.on_wire(&requests));
        ledger.spend(Stage::Propagation, self.link.one_way());
        ledger.spend(Stage::HostRead, self.data_memory(first_bytes));
        ledger.spend(Stage::Transfer, answers);
        ledger.spend(Stage::Propagation, self.link.one_way());
    }
}
