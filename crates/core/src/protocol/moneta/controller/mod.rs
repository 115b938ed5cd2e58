//! Simulated Moneta controller: decodes register writes, queues requests, and moves them in pieces through transfer
//! buffers (scoreboard).
//!
//! Every accepted request completes exactly once. Its status bit is set no sooner than its data is on the link (reads)
//! or acknowledged by the memory (writes). A piece of a request takes this path:
//!
//! ```text
//!     read    memory controller ── ring ── transfer buffer ── DMA
//!     write   DMA ── transfer buffer ── ring ── memory controller
//! ```

mod dma;
mod queues;
mod status;

use super::Role;
use super::spec::{self, BLOCK_BYTES, MonetaRequestWord, Register};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::media::BusTransferRate;
use crate::media::timing::ChannelBus;
use crate::number::{index, low_u8};
use crate::protocol::halves;
use crate::protocol::ports::Ports;
use crate::protocol::reads::Reads;
use crate::request::DataDirection;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Payload, Token};
use dma::QueueDmaEngine;
use queues::RequestQueues;
use status::Status;

/// Kinds of timers of the Moneta controller, one for each step of a request or piece.
mod timer {
    /// Timer that expires when a request has left the device's decoding pipeline. Its context is the request's tag.
    pub(super) const DECODED: u8 = 0;
    /// Timer that expires when a read's piece has arrived in its transfer buffer (next constants: a write's piece has
    /// crossed the ring, and the memory has acknowledged it).
    pub(super) const BUFFERED: u8 = 1;
    pub(super) const RELAYED: u8 = 2;
    pub(super) const STORED: u8 = 3;
}

/// Request that the device has accepted and not completed: from its last word until its status bit is set.
#[derive(Clone, Copy, Debug)]
struct Active {
    direction: DataDirection,
    /// First byte of the request on the device.
    offset: u64,
    bytes: u32,
    /// Number of bytes of the request whose transfer has started.
    taken: u32,
    /// Number of pieces of the request that are in flight.
    pieces: u32,
    buffer: u64,
    request: Option<RequestId>,
}

/// Piece of a request in flight (at most `moneta.chunk_bytes`), which occupies a transfer buffer.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tag: u8,
    direction: DataDirection,
    offset: u64,
    bytes: u32,
    buffer: u64,
    /// Request to which the piece's times are charged: set only for the last piece of a request.
    request: Option<RequestId>,
    /// True if the piece's data is in its transfer buffer. Used for reads only.
    buffered: bool,
}

/// Simulated Moneta controller: its registers, request queues, pieces in flight and counters.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Register for the first block of the host's next request.
    block: u64,
    /// Register for the DMA address of the host's next request.
    buffer: u64,
    /// DMA addresses of requests by tag.
    buffers: Vec<u64>,
    request_words: u8,
    active: Vec<Option<Active>>,
    queues: RequestQueues,
    pieces: Table<Piece>,
    /// DMA engines of the Moneta device, one for each request queue.
    dma: [QueueDmaEngine; 2],
    reads: Reads,
    ring: ChannelBus,
    ring_rate: BusTransferRate,
    status: Status,
    pipeline: Span,
    chunk_bytes: u32,
    capacity_bytes: u64,
    max_transfer_bytes: u32,
    max_payload_bytes: u32,
    /// Number of completed requests, including those refused for their size or range.
    pub commands_done: u64,
    /// Number of requests that were refused, because their tag, size or range was invalid.
    pub refused: u64,
    /// Number of pieces of requests (at most `moneta.chunk_bytes` each) for which the device has started a transfer.
    pub pieces_taken: u64,
}

impl Controller {
    /// Returns an idle controller. `buffers` is its table of DMA addresses: the data buffer of each tag.
    pub fn new(drive: &Drive, buffers: Vec<u64>) -> Controller {
        let moneta = &drive.moneta;
        Controller {
            block: 0,
            buffer: 0,
            buffers,
            request_words: moneta.request_words,
            active: vec![None; moneta.tags.into()],
            queues: RequestQueues::new(moneta),
            pieces: Table::default(),
            dma: [QueueDmaEngine::default(), QueueDmaEngine::default()],
            reads: Reads::at(&drive.link),
            ring: ChannelBus::default(),
            ring_rate: BusTransferRate::from_bytes_per_ns(moneta.ring_bytes_per_ns),
            status: Status::new(moneta.interrupt_vectors),
            pipeline: moneta.pipeline,
            chunk_bytes: moneta.chunk_bytes,
            capacity_bytes: drive.media.capacity_bytes(),
            max_transfer_bytes: moneta.max_transfer_kib * 1024,
            max_payload_bytes: drive.link.max_payload_bytes,
            commands_done: 0,
            refused: 0,
            pieces_taken: 0,
        }
    }

    /// Handles a write of a 64-bit word to a register. A write to an address without a register, or for a tag that does
    /// not exist, is ignored.
    fn on_register_word(&mut self, now: Time, address: u64, word: u64, ports: &mut Ports) {
        match spec::register(address) {
            Some(Register::Block) => self.block = word,
            Some(Register::Buffer) => self.buffer = word,
            Some(Register::Request) => self.accept_request_word(now, MonetaRequestWord::decode(word), ports),
            Some(Register::BufferOf(tag)) => {
                if let Some(buffer) = self.buffers.get_mut(usize::from(tag)) {
                    *buffer = word;
                }
            }
            None => {}
        }
    }

    /// Accepts a request whose word the host has written. A request is dropped if its tag is in flight or does not
    /// exist, as no tag could report it. The pipeline processes it next.
    fn accept_request_word(&mut self, now: Time, word: MonetaRequestWord, ports: &mut Ports) {
        let place = usize::from(word.tag);
        if self.active.get(place).is_none_or(Option::is_some) {
            self.refused += 1;
            return;
        }
        let block = if self.request_words == 3 { self.block } else { word.block };
        let active = Active {
            direction: if word.write { DataDirection::Write } else { DataDirection::Read },
            offset: block.saturating_mul(BLOCK_BYTES.into()),
            bytes: word.blocks * BLOCK_BYTES,
            taken: 0,
            pieces: 0,
            buffer: if self.request_words == 1 { self.buffers[place] } else { self.buffer },
            request: ports.slots.bound(0, place),
        };
        self.active[place] = Some(active);
        ports.shared.requests.charge(active.request, Stage::Doorbell, now);
        let decoded = Event::Controller { kind: timer::DECODED, context: word.tag.into() };
        ports.shared.scheduler.after(now, self.pipeline, decoded);
    }

    /// Queues a request that leaves the device's decoding pipeline. Completes it at once as refused if it has no data,
    /// too much data, or a range beyond the device.
    fn on_request_decoded(&mut self, now: Time, tag: u8, ports: &mut Ports) {
        let active = self.active[usize::from(tag)].expect("a request in the pipeline is active");
        ports.shared.requests.charge(active.request, Stage::Parse, now);
        let end = active.offset.saturating_add(active.bytes.into());
        if active.bytes == 0 || active.bytes > self.max_transfer_bytes || end > self.capacity_bytes {
            self.refused += 1;
            return self.finish(now, tag, ports);
        }
        self.queues.push(active.direction, tag);
        self.start_queued_pieces(now, ports);
    }

    /// Takes pieces of queued requests for as long as there are free transfer buffers, and starts them.
    fn start_queued_pieces(&mut self, now: Time, ports: &mut Ports) {
        while let Some(tag) = self.queues.draw() {
            let piece = self.take_next_piece(now, tag, ports.shared);
            let id = self.pieces.insert(piece);
            let engine = self.queues.number(piece.direction);
            self.dma[engine].line_up(id, piece.direction);
            match piece.direction {
                DataDirection::Read => self.read(now, id, ports),
                DataDirection::Write => self.advance(engine, ports),
            }
        }
    }

    /// Takes and returns the next piece of a request. The request goes back to its queue unless this was its last
    /// piece.
    fn take_next_piece(&mut self, now: Time, tag: u8, shared: &mut Shared) -> Piece {
        self.pieces_taken += 1;
        let active = self.active[usize::from(tag)].as_mut().expect("a queued request is active");
        let bytes = self.chunk_bytes.min(active.bytes - active.taken);
        let taken = u64::from(active.taken);
        active.taken += bytes;
        active.pieces += 1;
        let is_last = active.taken == active.bytes;
        let request = active.request.filter(|_| is_last);
        shared.requests.charge(request, Stage::RequestQueue, now);
        let piece = Piece {
            tag,
            direction: active.direction,
            offset: active.offset + taken,
            bytes,
            buffer: active.buffer + taken,
            request,
            buffered: false,
        };
        if !is_last {
            self.queues.return_to_queue(active.direction, tag);
        }
        piece
    }

    /// Starts a read's piece, which goes from the memory over the ring into its transfer buffer.
    fn read(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let piece = self.pieces[index(id)];
        let timing = ports.media.read(now, piece.offset, piece.bytes, piece.bytes);
        ports.shared.requests.charge_media_access(piece.request, timing.stages(timing.last_at));
        let buffered = self.reserve_ring(now, timing.last_at, &piece, ports.shared);
        ports.shared.scheduler.at(buffered, Event::Controller { kind: timer::BUFFERED, context: id });
    }

    /// Reserves the ring for a piece, from `ready` on. Returns the time at which the piece has crossed the ring.
    fn reserve_ring(&mut self, now: Time, ready: Time, piece: &Piece, shared: &mut Shared) -> Time {
        let length = self.ring_rate.transfer_time(piece.bytes);
        let across = self.ring.reserve(now, ready, length) + length;
        shared.requests.charge(piece.request, Stage::Ring, across);
        across
    }

    /// Handles the arrival of a read's piece in its transfer buffer: its DMA engine may send it to the host.
    fn on_piece_buffered(&mut self, id: u32, ports: &mut Ports) {
        self.pieces[index(id)].buffered = true;
        self.advance(self.queues.number(DataDirection::Read), ports);
    }

    /// Lets a DMA engine start the next pieces of its queue that may move now.
    fn advance(&mut self, engine: usize, ports: &mut Ports) {
        while let Some(id) = self.dma[engine].start(&self.pieces) {
            match self.pieces[index(id)].direction {
                DataDirection::Read => self.send_read_piece(id, ports),
                DataDirection::Write => self.request_write_data(id, ports),
            }
        }
    }

    /// Sends a read's piece to the host, and counts the piece as completed.
    fn send_read_piece(&mut self, id: u32, ports: &mut Ports) {
        let piece = self.pieces[index(id)];
        let token = Role::DATA.token(id);
        let packet = Packet::write(Direction::Up, piece.buffer, piece.bytes, self.max_payload_bytes, token);
        ports.link.send(packet.user_data(piece.offset, piece.request), ports.shared);
        // The interrupt message and the status follow the data in order on the link, so count the piece as complete
        // now.
        self.count_completed_piece(ports.shared.scheduler.now(), piece.tag, ports);
    }

    /// Sends a read of host memory for the data of a write's piece.
    fn request_write_data(&mut self, id: u32, ports: &mut Ports) {
        let piece = self.pieces[index(id)];
        let token = Role::READ_DATA.token(id);
        let packet = Packet::read(piece.buffer, piece.bytes, self.reads.request_bytes_max(), token);
        self.reads.request(packet.user_data(piece.offset, piece.request), ports.link, ports.shared);
    }

    /// Handles the arrival of a read's piece at the host. Its transfer buffer is free, and the DMA engine starts the
    /// next transfer.
    fn on_data_delivered(&mut self, now: Time, piece: u32, ports: &mut Ports) {
        self.pieces.vacate(piece);
        self.end_dma_transfer(DataDirection::Read, ports);
        self.queues.free_transfer_buffer(DataDirection::Read);
        self.start_queued_pieces(now, ports);
    }

    /// Handles the arrival of a write's piece in its transfer buffer: the piece crosses the ring, and the DMA engine
    /// starts the next transfer.
    fn on_write_piece_buffered(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        self.reads.answered(packet.bytes, ports.link, ports.shared);
        let id = packet.token.context;
        let piece = self.pieces[index(id)];
        assert_eq!(packet.bytes, piece.bytes, "the host sends as many bytes as a piece asks for");
        let across = self.reserve_ring(now, now, &piece, ports.shared);
        ports.shared.scheduler.at(across, Event::Controller { kind: timer::RELAYED, context: id });
        self.end_dma_transfer(DataDirection::Write, ports);
    }

    /// Ends a transfer of the DMA engine for this direction, and lets the engine start the next one.
    fn end_dma_transfer(&mut self, direction: DataDirection, ports: &mut Ports) {
        let engine = self.queues.number(direction);
        self.dma[engine].end();
        self.advance(engine, ports);
    }

    /// Writes a piece to the media after it has crossed the ring. The piece's transfer buffer is free for another
    /// piece.
    fn write_piece_to_media(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let piece = self.pieces.take(id);
        let timing = ports.media.write(now, piece.offset, piece.bytes);
        ports.shared.requests.charge_media_access(piece.request, timing.stages());
        ports
            .shared
            .scheduler
            .at(timing.acknowledged_at, Event::Controller { kind: timer::STORED, context: piece.tag.into() });
        self.queues.free_transfer_buffer(DataDirection::Write);
        self.start_queued_pieces(now, ports);
    }

    /// Handles the memory's acknowledgement of a write's piece, which completes that piece.
    fn on_stored(&mut self, now: Time, tag: u32, ports: &mut Ports) {
        self.count_completed_piece(now, low_u8(tag), ports);
    }

    /// Counts a completed piece of a request. Completes the request if this was its last outstanding piece.
    fn count_completed_piece(&mut self, now: Time, tag: u8, ports: &mut Ports) {
        let active = self.active[usize::from(tag)].as_mut().expect("a request with pieces is active");
        active.pieces -= 1;
        if active.pieces == 0 && active.taken == active.bytes {
            self.finish(now, tag, ports);
        }
    }

    /// Completes a request that has no piece in flight: sets its status bit, which the host reads.
    fn finish(&mut self, now: Time, tag: u8, ports: &mut Ports) {
        let active = self.active[usize::from(tag)].take().expect("a request is done once");
        assert_eq!(active.pieces, 0, "a request is done when no piece of it is in flight");
        self.commands_done += 1;
        if active.direction == DataDirection::Write {
            // An earlier piece may have been stored after the last one, so charge the media time only up to now.
            ports.shared.requests.charge_stage_until(active.request, Stage::Media, now);
        }
        self.status.set(tag, ports);
    }

    /// Answers the host's read of a status register with its content, and clears the register. The completion stays
    /// behind earlier writes.
    fn on_status_read(&mut self, packet: &Packet, ports: &mut Ports) {
        let Some(vector) = spec::status_vector(packet.address) else { return };
        let done = self.status.read(vector);
        let answer = Packet { kind: Kind::Completion, direction: Direction::Up, behind_writes: true, ..*packet };
        ports.link.send_with(answer, &done.to_le_bytes(), ports.shared);
    }
}

impl halves::Controller for Controller {
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match packet.kind {
            Kind::MemoryWrite => self.on_register_word(now, packet.address, payload.u64(), ports),
            Kind::MemoryRead => self.on_status_read(packet, ports),
            Kind::Completion => self.on_write_piece_buffered(now, packet, ports),
        }
    }

    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        self.on_register_word(now, address, value.into(), ports);
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::DECODED => self.on_request_decoded(now, low_u8(timer.context), ports),
            timer::BUFFERED => self.on_piece_buffered(timer.context, ports),
            timer::RELAYED => self.write_piece_to_media(now, timer.context, ports),
            timer::STORED => self.on_stored(now, timer.context, ports),
            other => unreachable!("the controller has no timer {other}"),
        }
    }

    fn needs_delivery_events(&self) -> bool {
        true
    }

    // Not inlined: only this protocol uses it.
    #[inline(never)]
    fn on_delivered(&mut self, now: Time, token: Token, ports: &mut Ports) {
        if Role(token.role) == Role::DATA {
            self.on_data_delivered(now, token.context, ports);
        }
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("commands", self.commands_done),
            ("interrupts", self.status.interrupts_sent),
            ("pieces", self.pieces_taken),
            ("refused", self.refused),
        ]
    }
}
