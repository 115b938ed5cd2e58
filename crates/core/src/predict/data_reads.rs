//! The device's reads of a write's data: one behind the other, as tags and wires let them pass.
//!
//! The wires and the host's memory serve them in order, so that a recurrence gives the instants of each. Owes its
//! callers those of a simulation in which nothing else is under way.

use std::collections::VecDeque;

use super::Parts;
use crate::config::Granularity;
use crate::link::packet::Kind;
use crate::link::wire::{Class, Wire};
use crate::report::Stage;
use crate::report::stage::Ledger;
use crate::time::{Span, Time};

/// A read of a piece of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataRead {
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

/// Reads under way.
#[derive(Clone, Debug)]
pub(super) struct DataReads<'a> {
    parts: &'a Parts<'a>,
    tags_free: u32,
    tags_freed: Time,
    waiting: VecDeque<(Time, u32)>,
    requested: VecDeque<DataRead>,
    up_free_at: Time,
    down: Wire,
    /// What requests owe the other wire for their acknowledgement and credits, and from when on.
    owed: VecDeque<(Time, Span)>,
}

impl<'a> DataReads<'a> {
    /// None yet.
    pub fn new(parts: &'a Parts<'a>) -> DataReads<'a> {
        DataReads {
            parts,
            tags_free: parts.drive.link.read_tags.into(),
            tags_freed: Time::ZERO,
            waiting: VecDeque::new(),
            requested: VecDeque::new(),
            up_free_at: Time::ZERO,
            down: Wire::default(),
            owed: VecDeque::new(),
        }
    }

    /// The device wants `bytes` more, no sooner than what it wanted before.
    pub fn ask(&mut self, now: Time, bytes: u32) {
        self.waiting.push_back((now, bytes));
    }

    /// The next read to be answered.
    pub fn answer(&mut self) -> Option<DataRead> {
        self.request();
        let mut read = self.requested.pop_front()?;
        let answers = self.parts.data_answer(read.bytes);
        let first = read.arrived - (self.parts.on_wire(&self.parts.data_read(read.bytes)) - self.each(read.bytes));
        let ready = (first + self.parts.root_complex.read_latency()).max(read.arrived).max(self.down.free_at());
        while let Some((_, span)) = self.owed.pop_front_if(|(since, _)| *since <= ready) {
            self.down.owe(span);
        }
        read.answered = self.down.start_at(ready);
        let end = read.answered + self.parts.on_wire(&answers);
        self.down.occupy_single(Class::Completion, end);
        read.there = end + self.parts.link.one_way();
        (self.tags_free, self.tags_freed) = (self.tags_free + self.tags(read.bytes), read.there);
        Some(read)
    }

    /// Put on the wire what there are tags for.
    fn request(&mut self) {
        while let Some(&(asked, bytes)) = self.waiting.front()
            && self.tags(bytes) <= self.tags_free
        {
            self.waiting.pop_front();
            self.tags_free -= self.tags(bytes);
            let requests = self.parts.data_read(bytes);
            let requested = asked.max(self.tags_freed).max(self.up_free_at);
            self.up_free_at = requested + self.parts.on_wire(&requests);
            let arrived = self.up_free_at + self.parts.link.one_way();
            self.owed.push_back((arrived, self.owed_by(requests.count())));
            self.requested.push_back(DataRead { bytes, asked, requested, arrived, answered: arrived, there: arrived });
        }
    }

    /// Wire time of each request of a read but the last.
    fn each(&self, bytes: u32) -> Span {
        self.parts.link.packet_times(&self.parts.data_read(bytes)).0
    }

    /// A read of more requests than there are tags takes all of them.
    fn tags(&self, bytes: u32) -> u32 {
        self.parts.data_read(bytes).count().min(self.parts.drive.link.read_tags.into())
    }

    /// Wire time that requests owe the other wire once they have arrived. Packet by packet it finds other gaps.
    fn owed_by(&self, requests: u32) -> Span {
        match self.parts.drive.link.granularity {
            Granularity::Packet => Span::ZERO,
            _ => self.parts.link.acknowledgement(Kind::MemoryRead) * u64::from(requests),
        }
    }
}

impl DataRead {
    /// Charge the journeys of its requests and of its data.
    pub fn charge(&self, parts: &Parts, ledger: &mut Ledger) {
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
        ledger.spend(Stage::HostRead, self.host_memory(first_bytes));
        ledger.spend(Stage::Transfer, answers);
        ledger.spend(Stage::Propagation, self.link.one_way());
    }
}
