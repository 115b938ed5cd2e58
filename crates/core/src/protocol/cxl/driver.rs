//! Simulated host side of CXL.mem: cores whose loads and stores go out line by line, as many at a time as a core has
//! fill buffers.

use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::number::index;
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::halves;
use crate::protocol::ports::{HostPorts, Settled};
use crate::request::Io;
use std::collections::VecDeque;

use super::config::STREAM_LINES;
use super::{Flush, LINE_BYTES, Role};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::{DataDirection, Op};
use crate::request::{Request, RequestId};
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Distance in bytes between the host buffers of two requests: the size of the largest request.
const BUFFER_BYTES: u64 = 1 << 32;

/// Free fill buffers and prefetchers of a core, and the cache line requests that wait for one of them.
#[derive(Clone, Debug)]
struct CxlCore {
    /// Numbers of the core's free fill buffers, counted over the fill buffers and prefetchers of all cores.
    free: Vec<u32>,
    /// Numbers of the core's prefetchers that are free, counted over the fill buffers and prefetchers of all cores.
    ahead: Vec<u32>,
    /// Requests of the core, one for each cache line to load or store, that wait for a fill buffer or prefetcher.
    waiting: VecDeque<RequestId>,
}

/// Loads and stores of all cores: the lines in flight and those that wait.
#[derive(Clone, Debug)]
pub struct Driver {
    cores: Vec<CxlCore>,
    /// Request of the cache line that is in flight in each fill buffer and prefetcher.
    lines: CommandSlots<RequestId>,
    fill_buffers: u32,
    prefetch_lines: u32,
    issue: Span,
    /// True if each write request ends with a deep flush, because only data in the cells counts as written.
    flushes: bool,
    /// Bus address in host memory at which the data buffers of the applications start.
    buffers: u64,
    /// Number of lines that cores have requested from the device by MemRd messages.
    pub loads: u64,
    /// Number of lines that cores have sent to the device by MemWr messages, without flushes.
    pub stores: u64,
}

impl Driver {
    /// Returns idle cores, whose fill buffers and prefetchers are all free. Reserves the applications' data buffers in
    /// host memory.
    pub fn new(drive: &Drive, memory: &mut HostMemory) -> Driver {
        let (cores, fill_buffers) = (u32::from(drive.host.cores), u32::from(drive.cxl.fill_buffers));
        let prefetch_lines = u32::from(drive.cxl.prefetch_lines);
        let places = fill_buffers + prefetch_lines;
        let lines = cores * places;
        let core = |number| {
            let first_ahead = number * places + fill_buffers;
            CxlCore {
                free: (number * places..first_ahead).rev().collect(),
                ahead: (first_ahead..(number + 1) * places).rev().collect(),
                waiting: VecDeque::new(),
            }
        };
        Driver {
            cores: (0..cores).map(core).collect(),
            lines: CommandSlots::new(index(lines)),
            fill_buffers,
            prefetch_lines,
            issue: drive.cxl.issue.scale(drive.host.nominal_clock_ratio()),
            flushes: !drive.media.acknowledges_early(),
            buffers: memory.reserve(1 << 60),
            loads: 0,
            stores: 0,
        }
    }

    /// Sets the bus address of a line within the data buffer of its request. The first line of a request also prepares
    /// that buffer.
    fn prepare_line(&self, line: RequestId, ports: &mut HostPorts) {
        let Request { io, parent, .. } = ports.shared.requests[line];
        let whole = parent.unwrap_or(line);
        let start = ports.shared.requests[whole].io.offset;
        let buffer = self.buffers + u64::from(whole) * BUFFER_BYTES;
        if io.offset == start {
            ports.shared.requests[whole].buffer = buffer;
            ports.fill_write_buffer(whole);
        }
        ports.shared.requests[line].buffer = buffer + (io.offset - start);
    }

    /// Sends the request for a core's next waiting cache line. A fill buffer must be free, or a prefetcher if the line
    /// continues a stream.
    fn issue(&mut self, core: usize, ports: &mut HostPorts) {
        let CxlCore { free, ahead, waiting } = &mut self.cores[core];
        let Some(&line) = waiting.front() else { return };
        let place = free.pop().or_else(|| if is_in_stream(line, ports) { ahead.pop() } else { None });
        let Some(place) = place else { return };
        waiting.pop_front();
        self.send(line, place, ports);
    }

    fn send(&mut self, line: RequestId, place: u32, ports: &mut HostPorts) {
        self.lines.submit(index(place), line);
        let now = ports.shared.scheduler.now();
        ports.shared.requests.charge(Some(line), Stage::FillBuffer, now);
        let Request { io, buffer: address, .. } = ports.shared.requests[line];
        let packet = match io.op.direction() {
            DataDirection::Read => {
                self.loads += 1;
                let packet = Packet::read(address, io.bytes, LINE_BYTES, Role::READ.token(place));
                Packet { direction: Direction::Down, device_offset: io.offset, request: Some(line), ..packet }
            }
            DataDirection::Write => {
                self.stores += 1;
                let token = Role::WRITE.token(place);
                Packet::write(Direction::Down, address, io.bytes, LINE_BYTES, token).user_data(io.offset, Some(line))
            }
        };
        ports.link.send(packet, ports.shared);
    }
}

impl halves::Driver for Driver {
    /// Charges the processor time to issue as many of a request's lines as can be in flight at once. The others are
    /// issued while the core waits.
    fn submit_work(&self, io: &Io, _: u16, ledger: &mut Ledger) {
        ledger.spend(Stage::Driver, self.issue * u64::from((io.bytes / LINE_BYTES).min(self.fill_buffers)));
    }

    fn max_transfer_bytes(&self) -> u32 {
        LINE_BYTES
    }

    /// Submits a line. It is sent at once if a fill buffer of its thread's core is free; otherwise it waits for one.
    fn submit(&mut self, _: Time, line: RequestId, ports: &mut HostPorts) {
        self.prepare_line(line, ports);
        let core = usize::from(ports.shared.requests[line].thread) % self.cores.len();
        self.cores[core].waiting.push_back(line);
        self.issue(core, ports);
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, _polling: bool, ports: &mut HostPorts) {
        let packet = &settled.packet;
        if Role::of(packet) == Role::FLUSHED {
            ports.shared.requests.charge(packet.request, Stage::CompletionEntry, now);
            return packet.request.map_or((), |line| complete(line, ports));
        }
        let place = packet.token.context;
        let line = self.lines.complete(index(place));
        let is_whole = Role::of(packet) == Role::DONE || packet.bytes == ports.shared.requests[line].io.bytes;
        assert!(is_whole, "a load returns its whole line");
        let stage = if Role::of(packet) == Role::DATA { Stage::Settle } else { Stage::CompletionEntry };
        ports.shared.requests.charge(Some(line), stage, now);
        match self.flushes && Role::of(packet) == Role::DONE && is_last(line, ports) {
            true => flush(line, ports),
            false => complete(line, ports),
        }
        let places = self.fill_buffers + self.prefetch_lines;
        let core = &mut self.cores[index(place / places)];
        match place % places < self.fill_buffers {
            true => core.free.push(place),
            false => core.ahead.push(place),
        }
        self.issue(index(place / places), ports);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("loads", self.loads), ("stores", self.stores)]
    }
}

/// True if a line is loaded and enough lines of its request precede it that the core's prefetchers recognise a stream.
fn is_in_stream(line: RequestId, ports: &HostPorts) -> bool {
    let Request { io, parent, .. } = ports.shared.requests[line];
    let start = ports.shared.requests[parent.unwrap_or(line)].io.offset;
    io.op == Op::Read && io.offset - start >= u64::from(STREAM_LINES * LINE_BYTES)
}

/// True if a line is the only outstanding one of its request.
fn is_last(line: RequestId, ports: &HostPorts) -> bool {
    ports.shared.requests[line].parent.is_none_or(|whole| ports.shared.requests[whole].parts_left == 1)
}

/// Sends a deep flush that makes all bytes of a request durable, once its last line has completed.
fn flush(line: RequestId, ports: &mut HostPorts) {
    let Request { parent, buffer, .. } = ports.shared.requests[line];
    let io = ports.shared.requests[parent.unwrap_or(line)].io;
    let token = Role::FLUSH.token(0);
    let packet = Packet::write(Direction::Down, buffer, LINE_BYTES, LINE_BYTES, token);
    let flush = Flush { offset: io.offset, bytes: io.bytes };
    ports.link.send_with(Packet { request: Some(line), ..packet }, &flush.encode(), ports.shared);
}

fn complete(line: RequestId, ports: &mut HostPorts) {
    match ports.shared.requests[line].parent {
        None => ports.complete(line),
        Some(whole) => ports.complete_request_part(line, whole),
    }
}
