//! Device reads of a write's data from host memory, in closed form: one after the other, as tags and wires allow.
//!
//! Wires and host memory serve the reads in order, so that a recurrence gives the times of each. They equal those of a
//! simulation in which nothing else is in flight.

use std::collections::VecDeque;

use super::Parts;
use crate::config::LinkEventGranularity;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::wire::{FlowControlClass, Wire};
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// One of the device's reads of a write's data from host memory, with the times of its requests and completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataRead {
    /// Bytes that the device reads from host memory.
    pub bytes: u32,
    /// Time at which the device issued this read of host memory.
    pub asked: Time,
    /// Time at which the read's requests start on the wire. The next field is the time at which the last of them has
    /// arrived.
    requested: Time,
    arrived: Time,
    /// Time at which the read's completions start on the wire.
    answered: Time,
    /// Time at which all data of the read has arrived in the device.
    pub there: Time,
}

/// Wire of one direction. `owed` lists DLLPs that it must send for packets of the other direction: earliest time and
/// duration of each.
#[derive(Clone, Debug, Default)]
struct WireOccupancy {
    wire: Wire,
    owed: VecDeque<(Time, Span)>,
}

/// Pipeline of the device's reads of a write's data: free tags, both wires, and the reads in flight.
#[derive(Clone, Debug)]
pub(crate) struct DataReadPipeline<'a> {
    parts: &'a Parts<'a>,
    /// Number of free read tags. The next field lists times at which completions return tags, and how many.
    tags_free: u32,
    tags_back: VecDeque<(Time, u32)>,
    waiting: VecDeque<(Time, u32)>,
    requested: VecDeque<DataRead>,
    up: WireOccupancy,
    down: WireOccupancy,
}

impl<'a> DataReadPipeline<'a> {
    /// Returns an empty pipeline of device reads in which all read tags are free.
    pub(crate) fn new(parts: &'a Parts<'a>) -> DataReadPipeline<'a> {
        DataReadPipeline {
            parts,
            tags_free: parts.drive.link.read_tags.into(),
            tags_back: VecDeque::new(),
            waiting: VecDeque::new(),
            requested: VecDeque::new(),
            up: WireOccupancy::default(),
            down: WireOccupancy::default(),
        }
    }

    /// Issues a device read of `bytes` bytes at `now`. It starts after all reads issued before.
    pub(crate) fn issue(&mut self, now: Time, bytes: u32) {
        self.waiting.push_back((now, bytes));
    }

    /// Runs the pipeline until the oldest read completes, and returns that read. `None` if no read is in flight. The
    /// burst that can start first goes first, because the other wire may have to send DLLPs for it.
    pub(crate) fn complete_oldest_read(&mut self) -> Option<DataRead> {
        loop {
            match (self.next_request_start(), self.next_completion_start()) {
                (Some(request), Some(answer)) if request > answer => return self.send_completions(answer),
                (Some(request), _) => self.send_read_requests(request),
                (None, Some(answer)) => return self.send_completions(answer),
                (None, None) => return None,
            }
        }
    }

    /// Returns the time at which the requests of the next read can start on the wire. `None` if it never gets its tags.
    fn next_request_start(&self) -> Option<Time> {
        let &(asked, bytes) = self.waiting.front()?;
        let (mut free, mut since) = (self.tags_free, Time::ZERO);
        let mut back = self.tags_back.iter();
        while free < self.tags(bytes) {
            let &(at, tags) = back.next()?;
            (free, since) = (free + tags, at);
        }
        Some(asked.max(since).max(self.up.wire.free_at()))
    }

    fn send_read_requests(&mut self, ready: Time) {
        let Some((asked, bytes)) = self.waiting.pop_front() else { return };
        while self.tags_free < self.tags(bytes)
            && let Some((_, tags)) = self.tags_back.pop_front()
        {
            self.tags_free += tags;
        }
        self.tags_free -= self.tags(bytes);
        let requests = self.parts.write_data_read_requests(bytes);
        let (requested, end) = self.up.send(ready, FlowControlClass::NonPosted, self.parts.on_wire(&requests));
        let arrived = end + self.parts.link.one_way();
        self.down.add_ack_time(arrived, self.parts, &requests);
        self.requested.push_back(DataRead { bytes, asked, requested, arrived, answered: arrived, there: arrived });
    }

    /// Returns the time at which the completions of the oldest requested read can start on the wire. Host memory is
    /// read from the arrival of the first request on.
    fn next_completion_start(&self) -> Option<Time> {
        let read = self.requested.front()?;
        let requests = self.parts.write_data_read_requests(read.bytes);
        let first = read.arrived - (self.parts.on_wire(&requests) - self.parts.link.burst_packet_times(&requests).0);
        let ready = (first + self.parts.root_complex.data_read_latency()).max(read.arrived);
        Some(ready.max(self.down.wire.free_at()))
    }

    fn send_completions(&mut self, ready: Time) -> Option<DataRead> {
        let mut read = self.requested.pop_front()?;
        let answers = self.parts.write_data_completions(read.bytes);
        let (answered, end) = self.down.send(ready, FlowControlClass::Completion, self.parts.on_wire(&answers));
        (read.answered, read.there) = (answered, end + self.parts.link.one_way());
        self.up.add_ack_time(read.there, self.parts, &answers);
        self.tags_back.push_back((read.there, self.tags(read.bytes)));
        Some(read)
    }

    /// Returns the number of tags that a read of `bytes` bytes holds: one per request, at most all tags of the link.
    fn tags(&self, bytes: u32) -> u32 {
        self.parts.write_data_read_requests(bytes).count().min(self.parts.drive.link.read_tags.into())
    }
}

impl WireOccupancy {
    /// Adds the acknowledgements and credit updates for packets that arrive at `arrived`. With granularity "packet",
    /// they fit into gaps between packets and cost nothing here.
    fn add_ack_time(&mut self, arrived: Time, parts: &Parts, packet: &Packet) {
        if parts.drive.link.granularity != LinkEventGranularity::Packet {
            self.owed.push_back((arrived, parts.link.acknowledgement_time(packet.kind) * u64::from(packet.count())));
        }
    }

    /// Puts packets on the wire, at `ready` or as soon as it is free. Returns the times at which they start and end.
    fn send(&mut self, ready: Time, class: FlowControlClass, length: Span) -> (Time, Time) {
        while let Some(&(since, span)) = self.owed.front()
            && since <= ready
        {
            self.owed.pop_front();
            self.wire.add_ack_time(span);
        }
        let start = self.wire.start_time(ready);
        self.wire.occupy_single(class, start + length);
        (start, start + length)
    }
}

impl DataRead {
    /// Adds the times of this device read to `ledger`: waits, its requests and its data on the wires, and host memory.
    pub(crate) fn charge(&self, parts: &Parts, ledger: &mut Ledger) {
        ledger.until(Stage::LinkWait, self.requested);
        ledger.spend(Stage::Transfer, parts.on_wire(&parts.write_data_read_requests(self.bytes)));
        ledger.until(Stage::Propagation, self.arrived);
        ledger.until(Stage::HostRead, self.answered);
        ledger.spend(Stage::Transfer, parts.on_wire(&parts.write_data_completions(self.bytes)));
        ledger.until(Stage::Propagation, self.there);
    }
}

impl Parts<'_> {
    /// Adds to a request's ledger of stage times the least time of a device read from host memory. `first_bytes` is the
    /// size of its first piece; `answers` is the wire time of all completions.
    pub fn charge_least_data_read_time(&self, first_bytes: u32, answers: Span, ledger: &mut Ledger) {
        let requests = self.write_data_read_requests(first_bytes);
        ledger.spend(Stage::Transfer, self.on_wire(&requests));
        ledger.spend(Stage::Propagation, self.link.one_way());
        ledger.spend(Stage::HostRead, self.host_memory_read_time(first_bytes));
        ledger.spend(Stage::Transfer, answers);
        ledger.spend(Stage::Propagation, self.link.one_way());
    }
}
