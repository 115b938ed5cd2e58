//! Simulated DC Express driver: marks receive buffers with tags, writes commands into a queue, and polls the tags,
//! which arriving data overwrites.
//!
//! The driver runs in the application's own address space (section 4: mmap of a kernel buffer) or below the light block
//! driver. Reads need neither doorbell nor completion queue.

mod abandoned;
mod buffers;

use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::number::{index, length, low_u16};
use crate::protocol::halves::{self, Driver as _};
use crate::request::Io;
use std::collections::VecDeque;

use phaselink_ring::command::{COMMAND_BYTES, Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::MODE_DOORBELL;
#[cfg(test)]
use phaselink_ring::trailer::{self, Tag, TagWidth};

use super::endpoint::Endpoint;
use super::{ReadIdentity, Role, doorbell};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::rate::WireRate;
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::dc_express::config::IncompleteTagChoice;
use crate::protocol::nvme::driver::Driver as NvmeDriver;
use crate::protocol::ports::{HostPorts, Settled, queue_of};
use crate::random::Random;
#[cfg(test)]
use crate::request::Request;
use crate::request::RequestId;
use crate::request::{DataDirection, Op};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Direction, packets};

/// Read command in flight, and the number of its data packets that have arrived.
#[derive(Clone, Copy, Debug)]
struct Read {
    request: RequestId,
    attempt: u8,
    started: Time,
    settled: u32,
    /// Incomplete tag: the value with which the driver has marked every chunk of the read's buffer.
    tag: u64,
    /// True if the read's last packet was seen before an earlier one. Set only in runs with data.
    oops: bool,
    /// True if another attempt has replaced this one. The slot stays occupied until all data of this attempt has
    /// arrived.
    abandoned: bool,
}

impl Read {
    fn new(request: RequestId, attempt: u8) -> Read {
        Read { request, attempt, started: Time::ZERO, settled: 0, tag: 0, oops: false, abandoned: false }
    }
}

/// Command queue as the driver sees it: its memory, tail, slots and reads in flight.
#[derive(Clone, Debug)]
struct Queue {
    base: u64,
    mode_word: u64,
    buffers: u64,
    entries: u32,
    tail: u32,
    pass: u8,
    free_slots: Vec<u16>,
    /// Requests and parts of split requests that wait for a free slot. Abandoned attempts can hold slots, too.
    waiting: VecDeque<RequestId>,
    reads: CommandSlots<Read>,
}

/// Simulated DC Express driver: its command queues for reads, and an NVMe driver for writes.
#[derive(Clone, Debug)]
pub struct Driver {
    /// NVMe driver that submits writes.
    pub nvme: NvmeDriver,
    queues: Vec<Queue>,
    chunk_bytes: u32,
    /// Processor time to write one tag into a receive buffer, or to check one.
    tag_time: Span,
    /// Processor time of a read command beside its tags, which occupies the core without delaying the read.
    command_time: Span,
    tag: u64,
    tag_bits: u8,
    tag_choice: IncompleteTagChoice,
    /// Natural logarithm of the probability that a packet's data does not end in a random tag.
    spared_ln: f64,
    random: Random,
    /// Time after which a read counts as stuck: maximum queue depth times maximum latency (section 3.1).
    timeout: Span,
    watching: bool,
    first_binding: usize,
    /// Counters of the DC Express driver since the start of the run.
    pub counts: Counts,
}

/// Counters of the DC Express driver: packets out of order, tag collisions, time-outs and late packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of reads whose last packet was visible in host memory before an earlier one.
    pub oops: u64,
    /// Number of reads with a packet whose data ended in the read's tag, so that the driver took it for missing.
    pub tag_collisions: u64,
    /// Number of times that a stuck read was repeated after a time-out.
    pub tag_timeouts: u64,
    /// Number of data packets that arrived after their read had been abandoned.
    pub late_packets: u64,
}

impl Driver {
    /// Returns a driver with no command in flight. Allocates its command queues in host memory and creates them in the
    /// endpoint.
    pub fn new(
        drive: &Drive,
        nvme: NvmeDriver,
        endpoint: &mut Endpoint,
        seed: u64,
        memory: &mut HostMemory,
        shared: &mut Shared,
    ) -> Driver {
        let config = &drive.dc_express;
        let ratio = drive.host.nominal_clock_ratio();
        let mut random = Random::stream(seed, "incomplete tags");
        let queues = (0..config.queue_pairs)
            .map(|_| {
                let queue = Queue::new(config.queue_entries, nvme.max_transfer_bytes(), memory);
                endpoint.create_queue(queue.base, queue.mode_word, queue.entries, shared);
                queue
            })
            .collect();
        Driver {
            nvme,
            queues,
            chunk_bytes: drive.link.max_payload_bytes,
            tag_time: config.tag.scale(ratio),
            command_time: config.command.scale(ratio),
            tag: random.bits(),
            tag_bits: config.tag_bits,
            tag_choice: config.tag_choice,
            spared_ln: libm::log1p(-libm::exp2(-f64::from(config.tag_bits))),
            random,
            timeout: max_latency(drive) * u64::from(config.queue_entries),
            watching: false,
            first_binding: index(drive.nvme.queue_pairs),
            counts: Counts::default(),
        }
    }

    /// Returns the tag of the next read and the random source of later tags for modification, so that a test can inject
    /// faults.
    #[cfg(test)]
    pub(crate) fn tags_for_tests(&mut self) -> (&mut u64, &mut Random) {
        (&mut self.tag, &mut self.random)
    }

    /// Returns the requests of the reads in flight that have not been abandoned, for tests.
    #[cfg(test)]
    pub(crate) fn reads_for_tests(&self) -> Vec<RequestId> {
        let reads = self.queues.iter().flat_map(|queue| queue.reads.iter());
        reads.filter(|read| !read.abandoned).map(|read| read.request).collect()
    }

    /// Overwrites the tags that are left in a read's buffer if its last chunk has lost its tag. A test thereby sees a
    /// driver that checks only the last chunk.
    #[cfg(test)]
    pub(crate) fn overlook_chunks(&self, id: RequestId, request: &Request, memory: &mut HostMemory) {
        let of = |queue: &Queue| queue.reads.iter().find(|read| read.request == id).copied();
        let Some(read) = self.queues.iter().find_map(of) else { return };
        let tag = Tag { value: read.tag, width: TagWidth::from_bits(self.tag_bits).unwrap() };
        let (address, bytes) = (request.buffer, request.io.bytes as usize);
        let chunks = bytes.div_ceil(self.chunk_bytes as usize);
        let place = |chunk| trailer::place(chunk, bytes, self.chunk_bytes as usize, tag.width);
        let ends = |chunk, memory: &HostMemory| {
            let mut found = [0; 8];
            let found = &mut found[..place(chunk).len()];
            memory.read(address + place(chunk).start as u64, found);
            tag.ends(found)
        };
        if address == 0 || ends(chunks - 1, memory) {
            return;
        }
        for chunk in (0..chunks - 1).filter(|chunk| ends(*chunk, memory)).collect::<Vec<_>>() {
            let other = (!tag.value).to_le_bytes();
            memory.write(address + place(chunk).start as u64, &other[..place(chunk).len()]);
        }
    }

    fn chunks(&self, bytes: u32) -> u32 {
        packets(bytes, self.chunk_bytes)
    }

    /// Writes the command of the read in `slot` into the queue, with a new buffer tag. Also writes the doorbell if the
    /// endpoint has asked for doorbells.
    #[inline(always)]
    fn enqueue(&mut self, now: Time, number: usize, slot: u16, ports: &mut HostPorts) {
        let own_tag = self.own_tag();
        let queue = &mut self.queues[number];
        let read = queue.reads.get_mut(usize::from(slot));
        read.started = now;
        // With real data, `mark` derives the tag from the endpoint's announcement and the attempt.
        if ports.data.is_none() {
            read.tag = own_tag;
        }
        let (request, attempt) = (read.request, read.attempt);
        let buffer = queue.buffers + u64::from(slot) * u64::from(self.nvme.max_transfer_bytes());
        ports.shared.requests[request].buffer = buffer;
        let io = ports.shared.requests[request].io;
        let tag = if ports.data.is_some() { self.mark(number, slot, ports) } else { own_tag };
        let queue = &mut self.queues[number];
        let (operation, pass) = (Operation::Read, queue.pass);
        let command = Command { operation, pass, slot, attempt, offset: io.offset, bytes: io.bytes, buffer, tag };
        ports.memory.put(queue.base + u64::from(queue.tail) * length(COMMAND_BYTES), || command.encode());
        ports.slots.bind(self.first_binding + number, index(queue.tail), request);
        (queue.tail, queue.pass) = next_entry(queue.tail, queue.pass, queue.entries);
        let mut mode = [0];
        ports.memory.read(queue.mode_word, &mut mode);
        if mode[0] == MODE_DOORBELL {
            self.ring(number, ports);
        }
        self.set_stuck_read_timer(now, ports);
    }

    #[inline(never)]
    fn ring(&mut self, number: usize, ports: &mut HostPorts) {
        self.nvme.doorbells += 1;
        let token = Role::DOORBELL.token(0);
        ports.link.write(Direction::Down, doorbell(number as u32), &[0; 4], token, ports.shared);
    }

    /// Returns the current random tag of the driver, cut to the tag width.
    fn own_tag(&self) -> u64 {
        self.tag & (u64::MAX >> (64 - u32::from(self.tag_bits)))
    }

    /// Handles packets of a read's data that have become visible in its buffer. Completes the read once all of them
    /// have arrived and no tag is left.
    fn on_data_settled(&mut self, now: Time, settled: &Settled, ports: &mut HostPorts) {
        let Settled { packet, first, count, burst_count: total } = *settled;
        let name = ReadIdentity::unpack(packet.token.context);
        let read = self.queues[usize::from(name.queue)].reads.get_mut(usize::from(name.slot));
        read.settled += count;
        assert!(read.settled <= total, "no more packets of a read arrive than it has");
        if read.abandoned {
            return self.on_abandoned_packets(now, name, count, total, ports);
        }
        if ports.data.is_some() {
            return self.on_bytes_settled(now, name, total, ports);
        }
        if read.settled < total {
            // The driver checks the last chunk first. If that chunk has lost its tag, other chunks may still have
            // theirs (figure 1d of the paper).
            self.counts.oops += u64::from(first + count == total);
        } else if self.draw_tag_collision(total) {
            self.on_tag_collision(now, name, ports);
        } else {
            self.finish(now, name, ports);
        }
    }

    /// Completes a read whose packets have all arrived and have overwritten all tags, and frees its slot.
    #[inline(always)]
    fn finish(&mut self, now: Time, name: ReadIdentity, ports: &mut HostPorts) {
        let request = self.queues[usize::from(name.queue)].reads.complete(usize::from(name.slot)).request;
        ports.shared.requests.charge(Some(request), Stage::Settle, now);
        ports.complete(request);
        self.release(now, name, ports);
    }

    /// Counts a tag collision: all packets of a read have arrived, but one of them ends in the tag. The driver repeats
    /// the read after the time-out.
    #[cold]
    #[inline(never)]
    fn on_tag_collision(&mut self, now: Time, name: ReadIdentity, ports: &mut HostPorts) {
        let read = self.queues[usize::from(name.queue)].reads.get(usize::from(name.slot));
        ports.shared.requests.charge(read.map(|read| read.request), Stage::Settle, now);
        self.counts.tag_collisions += 1;
    }

    /// Frees a slot and submits the next request that waits for a slot, if there is one.
    fn release(&mut self, now: Time, name: ReadIdentity, ports: &mut HostPorts) {
        let queue = &mut self.queues[usize::from(name.queue)];
        queue.free_slots.push(name.slot);
        if !queue.waiting.is_empty() {
            self.submit_next(now, usize::from(name.queue), ports);
        }
    }

    #[inline(never)]
    fn submit_next(&mut self, now: Time, number: usize, ports: &mut HostPorts) {
        if let Some(request) = self.queues[number].waiting.pop_front() {
            self.submit(now, request, ports);
        }
    }

    /// True if one of a read's packets happens to end in its tag. In runs without data, a random number decides: each
    /// packet ends in any value with equal probability. The deterministic strategies never choose a stored value.
    fn draw_tag_collision(&mut self, packets: u32) -> bool {
        let spared_ln = f64::from(packets) * self.spared_ln;
        if self.tag_choice != IncompleteTagChoice::Random || spared_ln > -1e-12 {
            return false;
        }
        // The exact probability is slightly below `-spared_ln`. Compare with that first, because it is cheap and nearly
        // always decides.
        let draw = self.random.unit();
        draw < -spared_ln && draw < -libm::expm1(spared_ln)
    }

    /// Sets the timer that looks for stuck reads, unless it is set already.
    fn set_stuck_read_timer(&mut self, now: Time, ports: &mut HostPorts) {
        if !std::mem::replace(&mut self.watching, true) {
            ports.shared.scheduler.after(now, self.timeout, Event::Driver);
        }
    }

    #[cold]
    fn retry(&mut self, now: Time, number: usize, slot: u16, ports: &mut HostPorts) {
        let read = self.queues[number].reads.get_mut(usize::from(slot));
        let bytes = ports.shared.requests[read.request].io.bytes;
        if read.settled < bytes.div_ceil(self.chunk_bytes) {
            return self.abandon(now, number, slot, ports);
        }
        self.counts.tag_timeouts += 1;
        self.tag = self.random.bits();
        read.attempt = read.attempt.wrapping_add(1);
        (read.settled, read.oops) = (0, false);
        ports.shared.requests.charge_stage_until(Some(read.request), Stage::Timeout, now);
        self.enqueue(now, number, slot, ports);
    }
}

impl halves::Driver for Driver {
    #[inline(always)]
    fn submit_work(&self, io: &Io, thread: u16, ledger: &mut Ledger) {
        match io.op.direction() {
            DataDirection::Read => ledger.spend(Stage::Mark, self.tag_time * u64::from(self.chunks(io.bytes))),
            DataDirection::Write => self.nvme.submit_work(io, thread, ledger),
        }
    }

    fn complete_work(&self, io: &Io, ledger: &mut Ledger) {
        match io.op.direction() {
            DataDirection::Read => ledger.spend(Stage::Check, self.tag_time * u64::from(self.chunks(io.bytes))),
            DataDirection::Write => self.nvme.complete_work(io, ledger),
        }
    }

    /// Returns the processor time of reads that does not delay them; for writes, that of the NVMe driver.
    fn overlapped_work(&self, io: &Io) -> Span {
        match io.op.direction() {
            DataDirection::Read if io.bytes <= self.nvme.max_transfer_bytes() => self.command_time,
            DataDirection::Read => self.command_time * u64::from(io.bytes.div_ceil(self.nvme.max_transfer_bytes())),
            DataDirection::Write => self.nvme.overlapped_work(io),
        }
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.nvme.max_transfer_bytes()
    }

    fn submit(&mut self, now: Time, request: RequestId, ports: &mut HostPorts) {
        let crate::request::Request { thread, io, .. } = ports.shared.requests[request];
        if io.op != Op::Read {
            return self.nvme.submit(now, request, ports);
        }
        let number = queue_of(thread, self.queues.len());
        let queue = &mut self.queues[number];
        let Some(slot) = queue.free_slots.pop() else { return queue.waiting.push_back(request) };
        queue.reads.submit(usize::from(slot), Read::new(request, 0));
        self.enqueue(now, number, slot, ports);
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts) {
        match Role::of(&settled.packet) {
            Role::DATA => self.on_data_settled(now, settled, ports),
            _ => self.nvme.on_settled(now, settled, polling, ports),
        }
    }

    fn on_handled(&mut self, now: Time, vector: u16, ports: &mut HostPorts) -> Option<Time> {
        self.nvme.on_handled(now, vector, ports)
    }

    fn on_timer(&mut self, now: Time, ports: &mut HostPorts) {
        self.watching = false;
        let mut oldest = None;
        for number in 0..self.queues.len() {
            for slot in 0..self.queues[number].reads.slots() {
                let read = self.queues[number].reads.get(slot).filter(|read| !read.abandoned);
                let Some(read) = read else { continue };
                if now.since(read.started) >= self.timeout {
                    self.retry(now, number, slot as u16, ports);
                    oldest = Some(oldest.unwrap_or(now));
                } else {
                    oldest = Some(oldest.map_or(read.started, |at: Time| at.min(read.started)));
                }
            }
        }
        if let Some(oldest) = oldest {
            self.watching = true;
            ports.shared.scheduler.at(oldest + self.timeout, Event::Driver);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("doorbells", self.nvme.doorbells),
            ("oops", self.counts.oops),
            ("tag_collisions", self.counts.tag_collisions),
            ("tag_timeouts", self.counts.tag_timeouts),
            ("late_packets", self.counts.late_packets),
        ]
    }
}

/// Returns the longest time that one read may take: the configured one, or a sum of its steps if it has to wait for a
/// write in the same bank.
fn max_latency(drive: &Drive) -> Span {
    let config = drive.dc_express.max_latency;
    if !config.is_zero() {
        return config;
    }
    let (media, link) = (&drive.media, &drive.link);
    let bytes = f64::from(drive.nvme.max_transfer_kib * 1024);
    let wire = WireRate::new(link).bytes_per_ns().min(media.bus_bytes_per_ns);
    let units = (drive.nvme.max_transfer_kib * 1024).div_ceil(media.program_bytes);
    let hops = link.one_way_packet_time() * 4;
    let transfer = Span::from_ns_f64(2.0 * bytes / wire);
    media.command * 2 + media.read + media.program * u64::from(units) + transfer + hops
}

impl Queue {
    fn new(entries: u32, max_transfer_bytes: u32, memory: &mut HostMemory) -> Queue {
        let slots = entries.min(1 << 16) - 1;
        Queue {
            base: memory.allocate_zeroed(u64::from(entries) * length(COMMAND_BYTES)),
            mode_word: memory.allocate_zeroed(64),
            buffers: memory.reserve(u64::from(slots) * u64::from(max_transfer_bytes)),
            entries,
            tail: 0,
            pass: FIRST_PASS,
            free_slots: (0..low_u16(slots)).rev().collect(),
            waiting: VecDeque::new(),
            reads: CommandSlots::new(index(slots)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_timeout_covers_the_sum_of_its_parts() {
        let mut drive = Drive::shipped("dc-express").unwrap();
        (drive.dc_express.max_latency, drive.nvme.max_transfer_kib) = (Span::ZERO, 4);
        let (media, link) = (&mut drive.media, &mut drive.link);
        (media.command, media.read, media.program) = (Span::from_ns(100), Span::from_ns(1_000), Span::from_us(10));
        (media.program_bytes, media.bus_bytes_per_ns) = (1024, 0.5);
        (link.one_way, link.hop, link.hops) = (Span::from_ns(200), Span::from_ns(25), 2);
        // Two media commands (for the read and for a write before it), the array read, the four program units of that
        // write, both transfers, and two round trips on the link.
        assert_eq!(max_latency(&drive), Span::from_ns(2 * 100 + 1_000 + 4 * 10_000 + 2 * 8_192 + 4 * 250));
        drive.dc_express.max_latency = Span::from_us(7);
        assert_eq!(max_latency(&drive), Span::from_us(7), "what is described holds");
    }
}
