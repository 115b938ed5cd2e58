//! A device's DMA engine: what user data cost between the controller and the link.
//!
//! Data for host memory, and requests for data from there, come with a descriptor. The engine takes it in, fetches the data
//! from the device's own memory, and moves them to the link piece by piece; for what comes from host memory it sends as many
//! requests as it may, moves the data away from the link, and stores them, which may be slower than the link. What it owes the
//! controller: transfers arrive whole, whatever requests they are cut into, and nothing that is posted behind
//! data passes them. Commands, completions and messages do not go through it.

use std::collections::VecDeque;

use super::bursts::Bursts;
use super::lanes::Lanes;
use super::{Arrival, config};
use crate::ledger::Stage;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, PacketId};

/// What the engine is doing about a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Nothing: it is none of the engine's, or travels.
    #[default]
    None,
    /// Data for host memory are being fetched.
    Fetch,
    /// They are being moved to the link.
    Move,
    /// The descriptor of a request is being taken in.
    Descriptor,
    /// The request is under way, or what it asked for.
    UnderWay,
    /// What it asked for is being stored.
    Store,
}

/// A burst as the engine knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    step: Step,
    /// The transfer that a request belongs to.
    transfer: u32,
}

/// A transfer from host memory.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// What the controller has asked for.
    packet: Packet,
    /// Requests of it whose data are not stored.
    left: u32,
}

/// A request that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    transfer: u32,
    /// First byte within its transfer.
    start: u32,
    bytes: u32,
}

/// The engine.
#[derive(Clone, Debug)]
pub(super) struct DmaEngine {
    config: config::Dma,
    request_bytes: u32,
    /// Requests that may be made beside those under way.
    requests_free: u32,
    /// When the part that moves pieces, one transfer at a time, is free, by direction; of one part the first counts.
    free_at: [Time; 2],
    known: Vec<Known>,
    transfers: Table<Transfer>,
    wanted: VecDeque<Wanted>,
    /// Data for host memory and all that is posted behind them, and whether each may go.
    posted: VecDeque<(PacketId, bool)>,
}

/// What the engine stands between, and what all share.
pub(super) struct Ends<'a> {
    pub bursts: &'a mut Bursts,
    pub lanes: &'a mut Lanes,
    pub shared: &'a mut Shared,
}

impl Ends<'_> {
    fn send(&mut self, now: Time, id: PacketId) {
        self.lanes.send_on(now, id, self.bursts, &mut self.shared.scheduler);
    }
}

impl DmaEngine {
    /// That of a description, if it has one.
    pub(super) fn of(config: &config::Dma, link: &config::Link) -> Option<DmaEngine> {
        let engine = || DmaEngine {
            config: config.clone(),
            request_bytes: match config.request_bytes {
                0 => link.max_read_request_bytes,
                bytes => bytes.min(link.max_read_request_bytes),
            },
            requests_free: if config.requests == 0 { u32::MAX } else { config.requests.into() },
            free_at: [Time::ZERO; 2],
            known: Vec::new(),
            transfers: Table::default(),
            wanted: VecDeque::new(),
            posted: VecDeque::new(),
        };
        config.is_there().then(engine)
    }

    /// The controller sends a burst.
    pub(super) fn on_send(&mut self, now: Time, id: PacketId, ends: &mut Ends) {
        let packet = ends.bursts[id].packet;
        match packet.kind {
            Kind::MemoryWrite if packet.user_data => {
                self.posted.push_back((id, false));
                self.enter(id, Step::Fetch, 0, now + self.config.descriptor + self.config.fetch, ends);
            }
            Kind::MemoryRead if packet.user_data => {
                ends.bursts.vacate(id);
                self.want(packet);
                self.take_in(now, ends);
            }
            _ => self.follow(now, id, &packet, ends),
        }
    }

    /// The engine is done with a step of a burst: what has arrived by that, if a transfer has.
    pub(super) fn on_step(&mut self, now: Time, id: PacketId, ends: &mut Ends) -> Option<Arrival> {
        match self.known[id as usize].step {
            Step::Fetch => self.on_fetched(now, id, ends),
            Step::Move => self.on_moved(now, id, ends),
            Step::Descriptor => self.on_descriptor(now, id, ends),
            Step::Store => return self.on_stored(now, id, ends),
            step @ (Step::None | Step::UnderWay) => unreachable!("{step:?} ends by itself"),
        }
        None
    }

    /// Whether this is the whole answer to one of its requests.
    pub(super) fn takes(&self, arrival: Arrival, bursts: &Bursts) -> bool {
        let flight = &bursts[arrival.packet];
        let is_whole = arrival.first + arrival.count == flight.count();
        let known = self.known.get(arrival.packet as usize);
        is_whole && flight.packet.direction == Direction::Down && known.is_some_and(|it| it.step == Step::UnderWay)
    }

    /// All that a request has asked for is here: it is moved away from the link, and stored.
    pub(super) fn on_answer(&mut self, now: Time, id: PacketId, ends: &mut Ends) {
        let bytes = ends.bursts[id].packet.bytes;
        let transfer = self.known[id as usize].transfer;
        let is_partial = !bytes.is_multiple_of(self.config.word_bytes);
        let moved =
            self.config.from_host + self.pieces(bytes) + if is_partial { self.config.piece } else { Span::ZERO };
        let started = self.occupy(now, Direction::Down, moved);
        self.enter(id, Step::Store, transfer, started + moved.max(self.storing(bytes)), ends);
    }

    fn enter(&mut self, id: PacketId, step: Step, transfer: u32, until: Time, ends: &mut Ends) {
        let place = id as usize;
        if self.known.len() <= place {
            self.known.resize(place + 1, Known::default());
        }
        self.known[place] = Known { step, transfer };
        ends.shared.scheduler.at(until, Event::Dma(id));
    }

    /// Keep the part that moves pieces for so long: from when on.
    fn occupy(&mut self, now: Time, direction: Direction, time: Span) -> Time {
        let part = if self.config.full_duplex { direction as usize } else { 0 };
        let started = now.max(self.free_at[part]);
        self.free_at[part] = started + time;
        started
    }

    fn pieces(&self, bytes: u32) -> Span {
        self.config.piece * u64::from(bytes.div_ceil(self.config.piece_bytes))
    }

    fn storing(&self, bytes: u32) -> Span {
        match self.config.store_bytes_per_ns {
            0.0 => Span::ZERO,
            rate => Span::from_ns_f64(f64::from(bytes) / rate),
        }
    }

    /// Data are out of the device's own memory: they pass, and may go as soon as the link will not run out of them.
    fn on_fetched(&mut self, now: Time, id: PacketId, ends: &mut Ends) {
        let Packet { bytes, chunk_bytes, .. } = ends.bursts[id].packet;
        let whole = self.config.to_host + self.pieces(bytes);
        let first = self.config.to_host + self.pieces(bytes.min(chunk_bytes));
        let started = self.occupy(now, Direction::Up, whole);
        let flows = ends.lanes.stream_start(bytes, chunk_bytes.max(1), started + first, started + whole);
        self.enter(id, Step::Move, 0, flows, ends);
    }

    fn on_moved(&mut self, now: Time, id: PacketId, ends: &mut Ends) {
        self.known[id as usize] = Known::default();
        let waiting = self.posted.iter_mut().find(|(waiting, _)| *waiting == id);
        waiting.expect("what is moved is posted").1 = true;
        while let Some(&(id, true)) = self.posted.front() {
            self.posted.pop_front();
            ends.shared.requests.charge_late(ends.bursts[id].packet.request, Stage::Dma, now);
            ends.send(now, id);
        }
    }

    /// What is none of the engine's goes at once, but not past data if it must not.
    fn follow(&mut self, now: Time, id: PacketId, packet: &Packet, ends: &mut Ends) {
        let stays_behind = packet.kind == Kind::MemoryWrite || packet.behind_writes;
        match stays_behind && !self.posted.is_empty() {
            true => self.posted.push_back((id, true)),
            false => ends.send(now, id),
        }
    }

    /// Cut a transfer from host memory into requests.
    fn want(&mut self, packet: Packet) {
        let transfer = self.transfers.insert(Transfer { packet, left: 0 });
        let (mut start, cut) = (0, u64::from(self.request_bytes));
        while start < packet.bytes {
            let to_cut = (cut - (packet.address + u64::from(start)) % cut) as u32;
            let bytes = to_cut.min(packet.bytes - start);
            self.wanted.push_back(Wanted { transfer, start, bytes });
            self.transfers[transfer as usize].left += 1;
            start += bytes;
        }
    }

    /// Take in the descriptors of as many requests as may be under way.
    fn take_in(&mut self, now: Time, ends: &mut Ends) {
        while self.requests_free > 0
            && let Some(wanted) = self.wanted.pop_front()
        {
            self.requests_free -= 1;
            let id = ends.bursts.occupy();
            ends.bursts[id].packet = self.request(&wanted);
            self.enter(id, Step::Descriptor, wanted.transfer, now + self.config.descriptor, ends);
        }
    }

    /// The packets that ask for a part of a transfer; the time of the last part is the time of the whole.
    fn request(&self, wanted: &Wanted) -> Packet {
        let packet = self.transfers[wanted.transfer as usize].packet;
        let is_last = wanted.start + wanted.bytes == packet.bytes;
        Packet {
            address: packet.address + u64::from(wanted.start),
            device_offset: packet.device_offset + u64::from(wanted.start),
            bytes: wanted.bytes,
            chunk_bytes: packet.chunk_bytes.min(self.request_bytes),
            request: packet.request.filter(|_| is_last),
            ..packet
        }
    }

    fn on_descriptor(&mut self, now: Time, id: PacketId, ends: &mut Ends) {
        let known = &mut self.known[id as usize];
        known.step = Step::UnderWay;
        let whole = &self.transfers[known.transfer as usize].packet;
        let packet = ends.bursts[id].packet;
        if packet.address == whole.address {
            ends.shared.requests.charge_late(whole.request, Stage::Dma, now);
        }
        self.follow(now, id, &packet, ends);
    }

    /// What a request asked for is stored; with the last of them the transfer has arrived.
    fn on_stored(&mut self, now: Time, id: PacketId, ends: &mut Ends) -> Option<Arrival> {
        let Known { transfer, .. } = std::mem::take(&mut self.known[id as usize]);
        self.requests_free += 1;
        self.take_in(now, ends);
        let Transfer { packet, left } = &mut self.transfers[transfer as usize];
        *left -= 1;
        if *left > 0 {
            ends.bursts.vacate(id);
            return None;
        }
        let (kind, direction) = (Kind::Completion, Direction::Down);
        ends.bursts[id].packet = Packet { kind, direction, ..*packet };
        ends.shared.requests.charge_late(packet.request, Stage::Dma, now);
        self.transfers.vacate(transfer);
        Some(Arrival { packet: id, first: 0, count: ends.bursts[id].count() })
    }
}
