//! Simulated Moneta driver: takes a tag for each request, submits it by register writes, and completes it by its tag in
//! a status register.

mod tags;

use super::{Role, spec};
use crate::config;
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::memory::HostMemory;
use crate::number::{length, low_u8, low_u32};
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::halves;
use crate::protocol::moneta::config::TagPoolLocking;
use crate::protocol::ports::{HostPorts, Settled};
use crate::request::RequestId;
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use crate::tlp::Payload;
use crate::tlp::{Direction, Kind, Packet};
use spec::{BLOCK_BYTES, MonetaRequestWord, WORD_BYTES};
use tags::Tags;

/// Name of the lock around the driver's tags and registers. Linux drivers share this lock with the queue of the block
/// layer's scheduler, if that scheduler is in use.
const LOCK: &str = "queue";

/// Number of cache lines of a request's records that a processor writes when it takes a tag (assumed).
const RECORD_LINES: u8 = 2;

/// Simulated Moneta driver, with the state of its tags, buffers and counters.
#[derive(Clone, Debug)]
pub struct Driver {
    tags: Tags<RequestId>,
    hint: bool,
    /// Request in flight under each tag.
    requests: CommandSlots<RequestId>,
    /// Bus address of the data buffers: one for each tag, of the size of the largest transfer.
    buffers: u64,
    max_transfer_bytes: u32,
    cores: u16,
    request_words: u8,
    spin_up_to_bytes: u32,
    sleep: Span,
    /// Number of writes to device registers that the Moneta driver has sent.
    pub register_writes: u64,
    /// Number of reads of status registers that the Moneta interrupt handler has sent.
    pub status_reads: u64,
    /// Number of times that the driver took a tag which another processor had used last.
    pub foreign_tags: u64,
}

/// Returns the Moneta driver's stages of the software stack, with their processor time, locks and cache lines for which
/// processors contend.
pub fn stages(drive: &Drive) -> Vec<config::StackStage> {
    let moneta = &drive.moneta;
    let issue = config::StackStage {
        name: String::from("issue"),
        submit: drive.host.mmio_write * u64::from(moneta.request_words),
        // Each request is several register writes, and the lock keeps those of two requests apart.
        lock: String::from(if moneta.request_words > 1 { LOCK } else { "" }),
        ..config::StackStage::default()
    };
    let pin = config::StackStage { name: String::from("pin"), submit: moneta.pin, ..config::StackStage::default() };
    [Some(tag_stage(moneta)), moneta.zero_copy.then_some(pin), Some(issue)].into_iter().flatten().collect()
}

/// Returns the software stage that takes a tag at submission and releases it at completion.
fn tag_stage(moneta: &crate::protocol::moneta::config::Moneta) -> config::StackStage {
    let name = String::from("tags");
    // Shared cache lines that are written: the word of free tags and the records of a tag. With a tag hint, each
    // processor reuses its own tags, so no line moves.
    let lines = if moneta.tag_hint { 0 } else { 1 + RECORD_LINES };
    match moneta.tag_pool {
        TagPoolLocking::LockFree => config::StackStage {
            name,
            submit_lines: lines,
            complete_lines: lines.min(1),
            ..config::StackStage::default()
        },
        TagPoolLocking::Locked => config::StackStage {
            name,
            submit: moneta.records / 2 + moneta.lock,
            submit_held: moneta.lock,
            complete: moneta.records / 2 + moneta.lock,
            complete_held: moneta.lock,
            lock: String::from(LOCK),
            submit_lines: lines,
            complete_lines: lines.min(1),
            ..config::StackStage::default()
        },
    }
}

impl Driver {
    /// Returns a driver with no request in flight. Reserves a data buffer for each tag in host memory;
    /// [`Driver::buffers`] returns their addresses.
    pub fn new(drive: &Drive, memory: &mut HostMemory) -> Driver {
        let moneta = &drive.moneta;
        let max_transfer_bytes = moneta.max_transfer_kib * 1024;
        Driver {
            tags: Tags::new(moneta.tags, drive.host.processors()),
            hint: moneta.tag_hint,
            requests: CommandSlots::new(moneta.tags.into()),
            buffers: memory.reserve(u64::from(moneta.tags) * u64::from(max_transfer_bytes)),
            max_transfer_bytes,
            cores: drive.host.processors(),
            request_words: moneta.request_words,
            spin_up_to_bytes: moneta.spin_up_to_bytes,
            sleep: moneta.sleep.scale(drive.host.nominal_clock_ratio()),
            register_writes: 0,
            status_reads: 0,
            foreign_tags: 0,
        }
    }

    /// Returns the bus addresses of the data buffers, in the order of the tags, for the device's table of DMA
    /// addresses.
    pub fn buffers(&self) -> impl Iterator<Item = u64> + '_ {
        (0..length(self.requests.slots())).map(|tag| self.buffer(low_u8(tag)))
    }

    /// Returns the bus address of the data buffer that belongs to a tag.
    fn buffer(&self, tag: u8) -> u64 {
        self.buffers + u64::from(tag) * u64::from(self.max_transfer_bytes)
    }

    /// Writes a 64-bit word to a register of the device, and counts the write.
    fn write(&mut self, register: u64, word: u64, ports: &mut HostPorts) {
        self.register_writes += 1;
        let token = Role::REQUEST.token(0);
        ports.link.write(Direction::Down, register, &word.to_le_bytes(), token, ports.shared);
    }
}

impl halves::Driver for Driver {
    fn complete_work(&self, io: &Io, ledger: &mut Ledger) {
        if io.bytes > self.spin_up_to_bytes {
            ledger.spend(Stage::ContextSwitch, self.sleep);
        }
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    fn submit(&mut self, _: Time, request: RequestId, ports: &mut HostPorts) {
        let crate::request::Request { thread, io, .. } = ports.shared.requests[request];
        let core = thread % self.cores;
        self.foreign_tags +=
            u64::from(self.tags.peek(core, self.hint).is_some_and(|tag| self.tags.was_used_elsewhere(tag, core)));
        let Some(tag) = self.tags.take(core, self.hint) else { return self.tags.wait(request) };
        self.requests.submit(usize::from(tag), request);
        ports.shared.requests[request].buffer = self.buffer(tag);
        ports.fill_write_buffer(request);
        ports.slots.bind(0, tag.into(), request);
        let block = io.offset / u64::from(BLOCK_BYTES);
        let word = MonetaRequestWord { write: io.op == Op::Write, tag, blocks: io.bytes / BLOCK_BYTES, block };
        if self.request_words == 3 {
            self.write(spec::BLOCK_REGISTER, block, ports);
        }
        if self.request_words >= 2 {
            self.write(spec::BUFFER_REGISTER, self.buffer(tag), ports);
        }
        self.write(spec::REQUEST_REGISTER, word.encode(), ports);
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, _polling: bool, ports: &mut HostPorts) {
        if Role::of(&settled.packet) == Role::DATA {
            settled.charge_data(now, ports.shared);
        }
    }

    /// Sends a read of the vector's status register from the interrupt handler. Returns the time at which its
    /// completion arrives if nothing delays it on the link; the processor waits until then.
    fn on_handled(&mut self, now: Time, vector: u16, ports: &mut HostPorts) -> Option<Time> {
        self.status_reads += 1;
        let token = Role::STATUS.token(vector.into());
        let read = Packet::read(spec::status_register(low_u8(vector)), low_u32(WORD_BYTES), low_u32(WORD_BYTES), token);
        ports.link.send(Packet { direction: Direction::Down, ..read }, ports.shared);
        let there = ports.link.packet_time(Kind::MemoryRead, 0) + ports.link.one_way();
        let back = ports.link.packet_time(Kind::Completion, low_u32(WORD_BYTES)) + ports.link.one_way();
        Some(now + there + back)
    }

    /// Completes the request of each tag whose bit is set in the status that the handler has read. Submits waiting
    /// requests to which the tags go.
    fn on_answer(&mut self, now: Time, answer: &Payload, ports: &mut HostPorts) {
        let mut done = answer.u64();
        while done != 0 {
            let tag = low_u8(done.trailing_zeros());
            done &= done - 1;
            let request = self.requests.complete(usize::from(tag));
            self.tags.release(tag);
            ports.shared.requests.charge(Some(request), Stage::Interrupt, now);
            ports.complete(request);
        }
        while let Some(request) = self.tags.next_waiting_request() {
            ports.shared.requests.charge(Some(request), Stage::Queued, now);
            self.submit(now, request, ports);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("register_writes", self.register_writes),
            ("status_reads", self.status_reads),
            ("foreign_tags", self.foreign_tags),
        ]
    }
}
