//! DMA engine of a device: the time that user data spends between the controller and the link.
//!
//! Data for host memory, and reads of data from there, come with a descriptor. For data to the host, the engine takes
//! in the descriptor, fetches the data from the device's own memory, and moves it to the link in pieces. For data from
//! the host, it sends as many reads at a time as it may, moves the data away from the link, and stores it, which may be
//! slower than the link.
//!
//! Transfers arrive whole at the controller, whatever reads they are cut into, and no posted packet behind data passes
//! that data. Commands, completion entries and messages bypass the engine.

use std::collections::VecDeque;

use super::bursts::BurstTable;
use super::data_link::DataLink;
use super::{Arrival, config};
use crate::ledger::Stage;
use crate::number::{index, narrow};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{BurstId, Direction, Kind, Packet};

/// Step of the DMA engine that a burst of user data is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DmaEngineStep {
    /// The burst bypasses the DMA engine, or is on the wires.
    #[default]
    None,
    /// Data for host memory is being fetched from the device's memory.
    Fetch,
    /// Data for host memory is being moved to the link.
    Move,
    /// The descriptor of a read of host memory is being processed.
    Descriptor,
    /// A read of host memory, or the completion of one, is on the link.
    OnLink,
    /// Data from host memory is being stored in the device's memory.
    Store,
}

/// State of one burst in the DMA engine: its current step and its transfer.
#[derive(Clone, Copy, Debug, Default)]
struct DmaBurst {
    step: DmaEngineStep,
    /// Transfer that a read of host memory belongs to, as an index into the table of transfers.
    transfer: u32,
}

/// Transfer of user data from host memory to the device, which the DMA engine cuts into reads.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// Read of the whole transfer, as the controller sent it.
    packet: Packet,
    /// Number of bytes of the transfer that are not stored in the device's memory yet.
    bytes_left: u32,
    /// Number of bytes of the transfer that have not arrived yet; counted only if transfers are stored whole.
    bytes_due: u32,
}

/// Read of host memory that the DMA engine has yet to start, because its limit of reads in flight is reached.
#[derive(Clone, Copy, Debug)]
struct PendingHostRead {
    /// Transfer that the read belongs to, as an index into the table of transfers.
    transfer: u32,
    /// Offset of the read's first byte within its transfer, in bytes.
    start: u32,
    /// Size of the read in bytes.
    bytes: u32,
}

/// DMA engine of a device, with the transfers that are in flight.
#[derive(Clone, Debug)]
pub(super) struct DmaEngine {
    config: config::Dma,
    request_bytes: u32,
    /// Number of further reads of host memory that the engine may start: its limit less the reads in flight.
    reads_free: u32,
    /// Time at which the engine's data mover is free, by direction. It moves one transfer at a time; a half-duplex
    /// mover uses the first entry for both directions.
    free_at: [Time; 2],
    /// Time at which the device's own memory, which both directions share, is free.
    memory_free_at: Time,
    states: Vec<DmaBurst>,
    transfers: Table<Transfer>,
    pending: VecDeque<PendingHostRead>,
    /// Bursts of data for host memory, and packets that must not pass them, in order; true if the burst is ready to be
    /// sent.
    posted: VecDeque<(BurstId, bool)>,
}

/// Parts of the link and of the machine that the DMA engine and the switch read and change.
pub(super) struct LinkAndMachineParts<'a> {
    pub bursts: &'a mut BurstTable,
    pub data_link: &'a mut DataLink,
    pub shared: &'a mut Shared,
}

impl LinkAndMachineParts<'_> {
    fn send(&mut self, now: Time, id: BurstId) {
        self.data_link.send_on(now, id, self.bursts, &mut self.shared.scheduler);
    }
}

impl DmaEngine {
    /// Creates the DMA engine that `config` describes; `None` if the device has none.
    pub(super) fn of(config: &config::Dma, link: &config::Link) -> Option<DmaEngine> {
        let engine = || DmaEngine {
            config: config.clone(),
            request_bytes: match config.request_bytes {
                0 => link.max_read_request_bytes,
                bytes => bytes.min(link.max_read_request_bytes),
            },
            reads_free: if config.requests == 0 { u32::MAX } else { config.requests.into() },
            free_at: [Time::ZERO; 2],
            memory_free_at: Time::ZERO,
            states: Vec::new(),
            transfers: Table::default(),
            pending: VecDeque::new(),
            posted: VecDeque::new(),
        };
        config.is_there().then(engine)
    }

    /// Takes a burst from the controller: fetches data for the host, cuts a read of user data into reads, or sends
    /// other packets on.
    pub(super) fn on_send(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) {
        let packet = ends.bursts[id].packet;
        match packet.kind {
            Kind::MemoryWrite if packet.user_data => {
                self.posted.push_back((id, false));
                let fetch = self.config.fetch + time_at_rate(packet.bytes, self.config.fetch_bytes_per_ns);
                self.begin_step(id, DmaEngineStep::Fetch, 0, now + self.config.descriptor + fetch, ends);
            }
            Kind::MemoryRead if packet.user_data => {
                ends.bursts.vacate(id);
                self.cut_into_host_reads(packet);
                self.start_pending_reads(now, ends);
            }
            _ => self.send_behind_data(now, id, &packet, ends),
        }
    }

    /// Ends the current step of a burst, and starts the next one. Returns the transfer that is now complete at the
    /// controller, if any.
    pub(super) fn on_step(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) -> Option<Arrival> {
        match self.states[index(id)].step {
            DmaEngineStep::Fetch => self.move_fetched_data(now, id, ends),
            DmaEngineStep::Move => self.on_moved(now, id, ends),
            DmaEngineStep::Descriptor => self.on_descriptor(now, id, ends),
            DmaEngineStep::Store => return self.end_stored_read(now, id, ends),
            step @ (DmaEngineStep::None | DmaEngineStep::OnLink) => {
                unreachable!("a burst in step {step:?} has no end to handle")
            }
        }
        None
    }

    /// True if `arrival` includes the last packet of the completion of one of the engine's reads.
    pub(super) fn completes_own_read(&self, arrival: Arrival, bursts: &BurstTable) -> bool {
        let flight = &bursts[arrival.packet];
        let is_whole = arrival.first + arrival.count == flight.count();
        let states = self.states.get(index(arrival.packet));
        is_whole
            && flight.packet.direction == Direction::Down
            && states.is_some_and(|it| it.step == DmaEngineStep::OnLink)
    }

    /// Starts to move the data of a completed read away from the link, and to store it in the device's memory.
    pub(super) fn on_answer(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) {
        let bytes = ends.bursts[id].packet.bytes;
        let transfer = self.states[index(id)].transfer;
        let is_partial = !bytes.is_multiple_of(self.config.word_bytes);
        let moved = self.config.from_host
            + self.data_move_time(bytes)
            + if is_partial { self.config.piece } else { Span::ZERO };
        let (started, ended) = self.occupy(now, Direction::Down, moved, bytes);
        let stored = self.storable_bytes(transfer, bytes);
        let until = ended.max(started + time_at_rate(stored, self.config.store_bytes_per_ns));
        self.begin_step(id, DmaEngineStep::Store, transfer, until, ends);
    }

    fn begin_step(
        &mut self,
        id: BurstId,
        step: DmaEngineStep,
        transfer: u32,
        until: Time,
        ends: &mut LinkAndMachineParts,
    ) {
        let place = index(id);
        if self.states.len() <= place {
            self.states.resize(place + 1, DmaBurst::default());
        }
        self.states[place] = DmaBurst { step, transfer };
        ends.shared.scheduler.at(until, Event::Dma(id));
    }

    /// Returns the number of bytes to store after `bytes` of a transfer have arrived. If transfers are stored whole:
    /// none, and all of them after the last.
    fn storable_bytes(&mut self, transfer: u32, bytes: u32) -> u32 {
        if !self.config.store_whole {
            return bytes;
        }
        let Transfer { packet, bytes_due, .. } = &mut self.transfers[index(transfer)];
        *bytes_due -= bytes;
        if *bytes_due == 0 { packet.bytes } else { 0 }
    }

    /// Occupies the data mover for `time`, and the device's memory for `bytes`. Returns when the mover starts, and when
    /// both are free again.
    fn occupy(&mut self, now: Time, direction: Direction, time: Span, bytes: u32) -> (Time, Time) {
        let part = if self.config.full_duplex { direction as usize } else { 0 };
        let started = now.max(self.free_at[part]);
        let memory = time_at_rate(bytes, self.config.memory_bytes_per_ns);
        if !memory.is_zero() {
            self.memory_free_at = started.max(self.memory_free_at) + memory;
        }
        let ended = (started + time).max(self.memory_free_at);
        self.free_at[part] = ended;
        (started, ended)
    }

    fn data_move_time(&self, bytes: u32) -> Span {
        self.config.piece * u64::from(bytes.div_ceil(self.config.piece_bytes))
    }

    /// Returns the time to move `bytes` of data to the link, in pieces of the size and time configured for this
    /// direction.
    fn time_to_send(&self, bytes: u32) -> Span {
        let dma = &self.config;
        let piece = if dma.to_host_piece.is_zero() { dma.piece } else { dma.to_host_piece };
        let size = if dma.to_host_piece_bytes == 0 { dma.piece_bytes } else { dma.to_host_piece_bytes };
        piece * u64::from(bytes.div_ceil(size))
    }

    /// Starts to move fetched data to the link. Its burst may be sent once the link will not run out of data.
    fn move_fetched_data(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) {
        let Packet { bytes, chunk_bytes, .. } = ends.bursts[id].packet;
        let whole = self.config.to_host + self.time_to_send(bytes);
        let first = self.config.to_host + self.time_to_send(bytes.min(chunk_bytes));
        let (started, ended) = self.occupy(now, Direction::Up, whole, bytes);
        let flows = ends.data_link.earliest_stream_start(bytes, chunk_bytes.max(1), started + first, ended);
        self.begin_step(id, DmaEngineStep::Move, 0, flows, ends);
    }

    fn on_moved(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) {
        self.states[index(id)] = DmaBurst::default();
        let waiting = self.posted.iter_mut().find(|(waiting, _)| *waiting == id);
        waiting.expect("moved data is in the queue of posted packets").1 = true;
        while let Some(&(id, true)) = self.posted.front() {
            self.posted.pop_front();
            ends.shared.requests.charge_stage_until(ends.bursts[id].packet.request, Stage::Dma, now);
            ends.send(now, id);
        }
    }

    /// Sends a packet that bypasses the engine at once, or queues it behind data that it must not pass.
    fn send_behind_data(&mut self, now: Time, id: BurstId, packet: &Packet, ends: &mut LinkAndMachineParts) {
        let stays_behind = packet.kind == Kind::MemoryWrite || packet.behind_writes;
        match stays_behind && !self.posted.is_empty() {
            true => self.posted.push_back((id, true)),
            false => ends.send(now, id),
        }
    }

    /// Cuts a transfer from host memory into reads of at most the configured size, which wait to be started.
    fn cut_into_host_reads(&mut self, packet: Packet) {
        let all = packet.bytes;
        let transfer = self.transfers.insert(Transfer { packet, bytes_left: all, bytes_due: all });
        let (mut start, cut) = (0, u64::from(self.request_bytes));
        while start < packet.bytes {
            let to_cut = narrow::<u32, u64>(cut - (packet.address + u64::from(start)) % cut);
            let bytes = to_cut.min(packet.bytes - start);
            self.pending.push_back(PendingHostRead { transfer, start, bytes });
            start += bytes;
        }
    }

    /// Starts pending reads of host memory, up to the limit of reads in flight; each begins with its descriptor.
    fn start_pending_reads(&mut self, now: Time, ends: &mut LinkAndMachineParts) {
        while self.reads_free > 0
            && let Some(pending) = self.pending.pop_front()
        {
            self.reads_free -= 1;
            let id = ends.bursts.occupy();
            ends.bursts[id].packet = self.host_read_burst(&pending);
            self.begin_step(id, DmaEngineStep::Descriptor, pending.transfer, now + self.config.descriptor, ends);
        }
    }

    /// Returns the burst of one read of a transfer. Only the last read carries the request, so that its time counts for
    /// the whole transfer.
    fn host_read_burst(&self, pending: &PendingHostRead) -> Packet {
        let packet = self.transfers[index(pending.transfer)].packet;
        let is_last = pending.start + pending.bytes == packet.bytes;
        Packet {
            address: packet.address + u64::from(pending.start),
            device_offset: packet.device_offset + u64::from(pending.start),
            bytes: pending.bytes,
            chunk_bytes: packet.chunk_bytes.min(self.request_bytes),
            request: packet.request.filter(|_| is_last),
            ..packet
        }
    }

    fn on_descriptor(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) {
        let state = &mut self.states[index(id)];
        state.step = DmaEngineStep::OnLink;
        let whole = &self.transfers[index(state.transfer)].packet;
        let packet = ends.bursts[id].packet;
        if packet.address == whole.address {
            ends.shared.requests.charge_stage_until(whole.request, Stage::Dma, now);
        }
        self.send_behind_data(now, id, &packet, ends);
    }

    /// Ends a read whose data is in the device's memory, and starts pending reads. Returns the whole transfer as an
    /// arrival if that was its last read.
    fn end_stored_read(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) -> Option<Arrival> {
        let DmaBurst { transfer, .. } = std::mem::take(&mut self.states[index(id)]);
        self.reads_free += 1;
        self.start_pending_reads(now, ends);
        let stored = ends.bursts[id].packet.bytes;
        let Transfer { packet, bytes_left, .. } = &mut self.transfers[index(transfer)];
        *bytes_left = bytes_left.checked_sub(stored).expect("a transfer stores no more bytes than were requested");
        if *bytes_left > 0 {
            ends.bursts.vacate(id);
            return None;
        }
        let (kind, direction) = (Kind::Completion, Direction::Down);
        ends.bursts[id].packet = Packet { kind, direction, ..*packet };
        ends.shared.requests.charge_stage_until(packet.request, Stage::Dma, now);
        self.transfers.vacate(transfer);
        Some(Arrival { packet: id, first: 0, count: ends.bursts[id].count() })
    }
}

/// Returns the time that `bytes` take at a rate in bytes per nanosecond; zero at rate 0, which stands for no limit.
fn time_at_rate(bytes: u32, bytes_per_ns: f64) -> Span {
    match bytes_per_ns {
        0.0 => Span::ZERO,
        rate => Span::from_ns_f64(f64::from(bytes) / rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(config: config::Dma) -> DmaEngine {
        let config = config::Dma { piece: Span::from_ns(8), piece_bytes: 64, full_duplex: true, ..config };
        DmaEngine::of(&config, &config::Link::default()).expect("pieces take time")
    }

    #[test]
    fn pieces_to_the_host_can_have_their_own_size_and_time() {
        let plain = engine(config::Dma::default());
        assert_eq!((plain.time_to_send(129), plain.data_move_time(129)), (Span::from_ns(24), Span::from_ns(24)));
        let own = config::Dma { to_host_piece: Span::from_ns(17), to_host_piece_bytes: 128, ..config::Dma::default() };
        assert_eq!(engine(own).time_to_send(129), Span::from_ns(34));
    }

    #[test]
    fn device_memory_delays_transfers_of_both_directions() {
        let shared = config::Dma { memory_bytes_per_ns: 8.0, ..config::Dma::default() };
        let mut engine = engine(shared);
        let at = |ns: u64| Time::ZERO + Span::from_ns(ns);
        assert_eq!(engine.occupy(at(0), Direction::Up, Span::from_ns(10), 128), (at(0), at(16)));
        assert_eq!(engine.occupy(at(0), Direction::Down, Span::from_ns(10), 128), (at(0), at(32)));
    }

    #[test]
    fn whole_stored_transfer_waits_for_its_last_request() {
        let whole = config::Dma { store_whole: true, ..config::Dma::default() };
        let mut engine = engine(whole);
        let packet = Packet { bytes: 1024, ..Packet::default() };
        let transfer = engine.transfers.insert(Transfer { packet, bytes_left: 1024, bytes_due: 1024 });
        assert_eq!([engine.storable_bytes(transfer, 512), engine.storable_bytes(transfer, 512)], [0, 1024]);
    }
}
