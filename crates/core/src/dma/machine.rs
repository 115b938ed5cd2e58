//! Machine whose device does nothing but transfer data, with its link, root complex and host memory.

use super::{Op, Question};
use crate::drive::Drive;
use crate::ledger::{DirectionOutcome, JobOutcome, Outcome};
use crate::link::root_complex::RootComplex;
use crate::link::{Arrival, Link};
use crate::memory::HostMemory;
use crate::number::index;
use crate::protocol::reads::Reads;
use crate::random::Random;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::{BurstId, Direction, Kind, Packet, Token};

/// Roles of packets in their tokens.
mod role {
    pub(super) const READ: u8 = 0;
    pub(super) const WRITE: u8 = 1;
    /// Write of a write-read pair, whose end is not measured.
    pub(super) const PUSHED: u8 = 2;
}

/// Device with its DMA engine, link and root complex, which makes transfers without commands.
pub(super) struct DmaMachine<'a> {
    device: &'a Drive,
    question: &'a Question,
    seed: u64,
    shared: Shared,
    memory: HostMemory,
    link: Link,
    root_complex: RootComplex,
    /// True if every posted write of the device is in memory a fixed time after its arrival.
    settles_alike: bool,
    reads: Reads,
    random: Random,
    window: u64,
    /// Instant at which each transfer in flight was given to the DMA engine, by its slot.
    started: Vec<Time>,
    begun: u64,
    done: u64,
    /// Number of transfers that are not counted (warm-up); `counted_from` is when the last of them was done.
    warm_up: u64,
    counted_from: Time,
    read: DirectionOutcome,
    write: DirectionOutcome,
}

impl<'a> DmaMachine<'a> {
    /// Returns an idle machine that is to make the transfers of `question`.
    pub(super) fn new(device: &'a Drive, question: &'a Question, seed: u64) -> DmaMachine<'a> {
        let mut memory = HostMemory::default();
        let Drive { link, root_complex, host, power, dma, .. } = device;
        let root = RootComplex::new(root_complex, link, host, power, seed);
        let settle = root.settle_time();
        let lanes = Link::new(link, root_complex.write_accept, settle.unwrap_or_default(), seed);
        DmaMachine {
            link: if question.direct { lanes } else { lanes.with_dma(dma, link) },
            root_complex: root,
            settles_alike: settle.is_some(),
            reads: Reads::at(link),
            random: Random::stream(seed, "dma window"),
            window: memory.reserve(question.window_bytes.max(question.unit_bytes())),
            started: vec![Time::ZERO; index(question.outstanding)],
            begun: 0,
            done: 0,
            warm_up: question.transfers / 4,
            counted_from: Time::ZERO,
            read: DirectionOutcome::default(),
            write: DirectionOutcome::default(),
            shared: Shared::default(),
            memory,
            device,
            question,
            seed,
        }
    }

    /// Makes all transfers of the warm-up and all that count, and returns their results.
    pub(super) fn run(mut self) -> Outcome {
        for place in 0..self.question.outstanding {
            self.begin_transfer(Time::ZERO, place);
        }
        let all = self.warm_up + self.question.transfers;
        while self.done < all {
            assert!(self.shared.scheduler.is_due(Time::NEVER), "a transfer is under way");
            let (now, event) = self.shared.scheduler.take();
            self.route(now, event);
        }
        self.dma_transfer_outcome()
    }

    fn route(&mut self, now: Time, event: Event) {
        let DmaMachine { shared, memory, link, root_complex, .. } = self;
        match event {
            Event::Wire(wire) => link.on_wire(now, wire.into(), shared),
            Event::Arrive(packet) => {
                if let Some(arrival) = link.on_arrival(now, packet, shared) {
                    self.on_arrival(now, arrival);
                }
            }
            Event::Dma(packet) => {
                if let Some(arrival) = link.on_dma(now, packet, shared) {
                    self.on_arrival(now, arrival);
                }
            }
            Event::Recheck(packet) => root_complex.sample_host_memory(now, packet, link, memory, shared),
            Event::ReadDone(packet) => root_complex.on_answer(now, packet, link, shared),
            Event::Settle(packet) => {
                let count = link.bursts[packet].count();
                self.on_settle(now, packet, count);
            }
            Event::SettleOne { packet, .. } => self.on_settle(now, packet, 1),
            other => unreachable!("nobody here waits for {other:?}"),
        }
    }

    /// Handles packets at the far end of the link. Those from the device go to the root complex, or straight to host
    /// memory if all writes settle alike. The last packet to the device ends its read.
    fn on_arrival(&mut self, now: Time, arrival: Arrival) {
        let flight = &self.link.bursts[arrival.packet];
        let (packet, is_last) = (flight.packet, arrival.first + arrival.count == flight.count());
        match (packet.direction, packet.kind) {
            (Direction::Down, _) if is_last => {
                self.link.bursts.vacate(arrival.packet);
                self.reads.answered(packet.bytes, &mut self.link, &mut self.shared);
                self.on_done(now, packet.token);
            }
            (Direction::Down, _) => {}
            (Direction::Up, Kind::MemoryWrite) if self.settles_alike => {
                self.on_settle(now, arrival.packet, arrival.count);
            }
            (Direction::Up, _) => {
                self.root_complex.on_arrival(now, arrival, &mut self.link, &self.memory, &mut self.shared)
            }
        }
    }

    /// Handles `count` packets of a write that are in host memory now. The last one of the burst ends the transfer.
    fn on_settle(&mut self, now: Time, id: BurstId, count: u32) {
        let token = self.link.bursts[id].packet.token;
        if self.root_complex.on_settle(id, count, &mut self.link, &mut self.memory) {
            self.link.bursts.vacate(id);
            self.on_done(now, token);
        }
    }

    /// Gives the DMA engine the next transfer, at a random address in the window of host memory. `place` is its slot.
    fn begin_transfer(&mut self, now: Time, place: u32) {
        let unit = self.random.bits() % self.question.units();
        let address = self.window + unit * self.question.unit_bytes();
        self.started[index(place)] = now;
        self.begun += 1;
        match self.question.op {
            Op::Read => self.send_dma_read(address, place, false),
            Op::Write => self.send_dma_write(address, place, role::WRITE),
            Op::Both if self.begun % 2 == 1 => self.send_dma_read(address, place, false),
            Op::Both => self.send_dma_write(address, place, role::WRITE),
            Op::WriteRead => {
                self.send_dma_write(address, place, role::PUSHED);
                self.send_dma_read(address, place, true);
            }
        }
    }

    fn send_dma_read(&mut self, address: u64, place: u32, behind_writes: bool) {
        let token = Token { role: role::READ, context: place };
        let packet = Packet::read(address, self.question.bytes, self.reads.request_bytes_max(), token);
        let packet = Packet { behind_writes, ..packet.user_data(0, None) };
        self.reads.request(packet, &mut self.link, &mut self.shared);
    }

    fn send_dma_write(&mut self, address: u64, place: u32, role: u8) {
        let (bytes, chunk_bytes) = (self.question.bytes, self.device.link.max_payload_bytes);
        let token = Token { role, context: place };
        let packet = Packet::write(Direction::Up, address, bytes, chunk_bytes, token);
        self.link.send(packet.user_data(0, None), &mut self.shared);
    }

    /// Counts a transfer that is done, unless it belongs to the warm-up, and begins the next one in its slot.
    fn on_done(&mut self, now: Time, token: Token) {
        let direction = match token.role {
            role::READ => &mut self.read,
            role::WRITE => &mut self.write,
            _ => return,
        };
        self.done += 1;
        if self.done > self.warm_up {
            direction.ios += 1;
            direction.bytes += u64::from(self.question.bytes);
            direction.total.record_at(now.since(self.started[index(token.context)]), now);
        } else if self.done == self.warm_up {
            self.counted_from = now;
        }
        self.begin_transfer(now, token.context);
    }

    fn dma_transfer_outcome(mut self) -> Outcome {
        let now = self.shared.scheduler.now();
        let runtime = now.since(self.counted_from);
        (self.read.runtime, self.write.runtime) = (runtime, runtime);
        let job = JobOutcome {
            options: Vec::new(),
            name: String::from(self.question.op.word()),
            iodepth: self.question.outstanding,
            threads: 1,
            read: self.read,
            write: self.write,
            ..JobOutcome::default()
        };
        Outcome {
            drive: self.device.name.clone(),
            seed: self.seed,
            elapsed: now.since(Time::ZERO),
            jobs: vec![job],
            upstream: self.link.usage(Direction::Up),
            downstream: self.link.usage(Direction::Down),
            counters: vec![("iommu_walks", self.root_complex.walks())],
            events: self.shared.scheduler.events,
            finished: true,
            ..Outcome::default()
        }
    }
}
