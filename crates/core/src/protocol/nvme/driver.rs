//! NVMe driver of the simulated host: queues in host memory, doorbell writes, and the consumption of completion queue
//! entries.

use crate::drive::Drive;
use crate::media::keys::Key;
use crate::number::{index, length, low_u16};
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::halves;
use crate::protocol::halves::Driver as _;
use crate::protocol::ports::{HostPorts, Settled};
use crate::protocol::real_hosts::{HostCommand, HostQueues};
use crate::request::Io;
use std::collections::VecDeque;

use super::commands::command::{NAMESPACE, encode_dataset_range};
use super::commands::opcode;
use super::commands::{CommandSet, RANGE_BYTES};
use super::real_host::RealHost;
use super::rules::key_value::with_key_fields;
use super::rules::placement::directed_write;
use super::rules::protection::protected;
use super::rules::queues::wrapped;
use super::rules::zones::RESET;
use super::rules::{NamespaceKind, ShadowDoorbellPages, shadow};
use super::spec::fields::{key, ranges, zones};
use super::spec::{
    COMPLETION_ENTRY_BYTES, CompletionEntry, PAGE_BYTES, PSDT_SGL, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry,
    completion_doorbell, submission_doorbell,
};
use super::zone_locks::ZoneWriteLocks;
use super::{Role, controller::Controller};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::memory::HostMemory;
use crate::protocol::nvme::config::DataPointerFormat;
use crate::protocol::ports::queue_of;
use crate::request::{NamedWritePlace, Op, Request, RequestId};
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Queue pair with the driver's state: the addresses of the queues, their pointers, and the command identifiers with
/// their buffers.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) submission_base: u64,
    pub(super) completion_base: u64,
    pub(super) entries: u32,
    pub(super) tail: u32,
    pub(super) completion_head: u32,
    pub(super) phase: bool,
    /// True if the threads of the queue poll for completions and consume several before they write the completion queue
    /// head doorbell.
    is_batch_polled: bool,
    /// Number of completions consumed since the last write of the completion queue head doorbell; counted only if
    /// `is_batch_polled`.
    collected: u32,
    /// Event index of the submission queue as the controller last wrote it. The driver writes the doorbell register
    /// only if the new tail passes this index (shadow doorbells).
    event_index: u32,
    /// First command identifier that has never been used.
    fresh_id: u32,
    /// Command identifiers that have been used and are free again.
    free_ids: Vec<u16>,
    /// Requests that wait for a free command identifier, in the order of their submission.
    waiting: VecDeque<RequestId>,
    /// Requests in flight by command identifier; grows with the identifiers that have been used.
    requests: CommandSlots<RequestId>,
    /// Address of the data buffers in host memory: one of the largest transfer size for each command identifier.
    buffers: u64,
    /// Address of the PRP lists in host memory: one for each command identifier, `page_list_stride` bytes apart.
    page_lists: u64,
    page_list_stride: u64,
    /// Address of the metadata buffers in host memory: one for each command identifier, `metadata_stride` bytes apart.
    metadata: u64,
    /// Size of a metadata buffer in bytes; 0 if the driver transfers no metadata.
    metadata_stride: u64,
    /// Address of the Dataset Management range lists, one list of one range for each command identifier. Allocated by
    /// the first command that needs one.
    ranges: Option<u64>,
}

/// NVMe driver of the simulated host: writes commands and doorbells, and consumes completion queue entries.
#[derive(Clone, Debug)]
pub struct Driver {
    queues: Vec<Queue>,
    max_transfer_bytes: u32,
    /// Largest request in bytes that fits one command, whether the command is a Read, a Write or a Zone Append.
    whole_bytes_max: u32,
    /// Base-2 logarithm of the logical block size in bytes.
    block_shift: u32,
    data_pointer: DataPointerFormat,
    /// Largest write in bytes that fits one command.
    write_bytes_max: u32,
    /// Kind of the namespace.
    kind: NamespaceKind,
    /// True if a failed command is a valid result of its request: a key-value drive does not have the key.
    completes_failed: bool,
    /// True if every read and write is a plain Read or Write with PRP entries: no zones, placement, keys, protection
    /// information or SGLs.
    is_plain: bool,
    mmio_write: Span,
    /// Addresses of the shadow doorbells in host memory; none if the driver writes doorbell registers only.
    shadow: Option<ShadowDoorbellPages>,
    /// Commands in flight of real hosts, whose drivers write the commands instead of this driver; none while this
    /// driver writes them.
    real_host: Option<RealHost>,
    completion_doorbells: bool,
    /// Locks of zones that are written at their write pointers.
    zone_locks: ZoneWriteLocks,
    /// Number of doorbell register writes since the start, tails and heads together.
    pub doorbells: u64,
}

impl Driver {
    /// Returns a driver for this drive and creates its queue pairs in host memory and in the controller. Sets up shadow
    /// doorbells if the drive has them.
    pub fn new(drive: &Drive, controller: &mut Controller, memory: &mut HostMemory) -> Driver {
        let max_transfer_bytes = drive.nvme.max_transfer_kib * 1024;
        let entries = drive.nvme.queue_entries;
        let queues = (0..drive.nvme.queue_pairs)
            .map(|_| {
                let metadata_bytes = drive.nvme.metadata_bytes(max_transfer_bytes);
                let queue = Queue::new(entries, [max_transfer_bytes, metadata_bytes], drive.nvme.data_pointer, memory);
                controller.create_queue(queue.submission_base, queue.completion_base, entries);
                queue
            })
            .collect();
        let pairs = drive.nvme.queue_pairs;
        let shadow = drive.nvme.shadow_doorbells.then(|| allocate_shadow_doorbells(pairs, memory));
        controller.set_shadow_doorbells(shadow);
        // Behind a network, doorbell writes are part of the target cores' work.
        let mmio_write = if drive.fabric.is_there() { Span::ZERO } else { drive.host.register_write_time() };
        let kind = NamespaceKind::of(drive);
        let write_bytes_max = kind.append_bytes_max(max_transfer_bytes);
        Driver {
            queues,
            max_transfer_bytes,
            whole_bytes_max: max_transfer_bytes.min(write_bytes_max),
            write_bytes_max,
            block_shift: drive.nvme.block_bytes.trailing_zeros(),
            data_pointer: drive.nvme.data_pointer,
            kind,
            completes_failed: kind.offers(CommandSet::Keys),
            is_plain: kind == NamespaceKind::PLAIN && drive.nvme.data_pointer == DataPointerFormat::Prp,
            mmio_write,
            shadow,
            real_host: None,
            completion_doorbells: drive.nvme.completion_doorbells,
            zone_locks: ZoneWriteLocks::new(drive.zones.zone_bytes()),
            doorbells: 0,
        }
    }

    /// Returns, for each queue, the table of requests by command identifier, so that a test can corrupt it.
    #[cfg(test)]
    pub(crate) fn requests_for_tests(&mut self) -> impl Iterator<Item = &mut Vec<Option<RequestId>>> {
        self.queues.iter_mut().map(|queue| queue.requests.slots_for_tests())
    }

    /// Returns the address of the first I/O queue's shadow tail doorbell; none if the drive has no shadow doorbells.
    #[cfg(test)]
    pub(crate) fn shared_tail_for_tests(&self) -> Option<u64> {
        self.shadow.map(|shadow| shadow.tail(1))
    }

    /// Announces a submission queue's new tail to the controller. Writes the shadow doorbell if there is one, and the
    /// doorbell register unless the event index makes that unnecessary.
    fn announce(&mut self, number: u16, old: u32, tail: u32, ports: &mut HostPorts) {
        if let Some(shadow) = self.shadow {
            ports.memory.write(shadow.tail(u32::from(number) + 1), &tail.to_le_bytes());
            if !shadow::must_ring(self.queues[usize::from(number)].event_index, old, tail) {
                return;
            }
        }
        self.ring(submission_doorbell(u32::from(number) + 1), tail, ports);
    }

    /// Handles a completion queue entry that has become visible in host memory. A polling thread consumes it at once; a
    /// sleeping thread consumes it in its interrupt handler.
    fn on_entry_settled(&mut self, now: Time, packet: &Packet, polling: bool, ports: &mut HostPorts) {
        let number = low_u16(packet.token.context);
        if let Some(host) = &mut self.real_host {
            return host.on_entry_settled(now, number, &mut self.queues[usize::from(number)], ports);
        }
        if polling || self.queues[usize::from(number)].is_batch_polled {
            return self.reap(now, number, Stage::CompletionEntry, ports);
        }
        let mut bytes = [0; COMPLETION_ENTRY_BYTES];
        ports.memory.read(packet.address, &mut bytes);
        let command = usize::from(CompletionEntry::decode(&bytes).command_id);
        let request = self.queues[usize::from(number)].requests.get(command);
        ports.shared.requests.charge(request, Stage::CompletionEntry, now);
    }

    /// Stores the event index that the controller has just written to host memory.
    #[cold]
    fn on_event_index(&mut self, packet: &Packet, memory: &HostMemory) {
        let mut event = [0; 4];
        memory.read(packet.address, &mut event);
        self.queues[index(packet.token.context)].event_index = u32::from_le_bytes(event);
    }

    /// Consumes all new entries of a completion queue and completes their requests. Announces the new head, or leaves
    /// that for later if the thread first collects several completions. Then submits requests that waited for a command
    /// identifier.
    fn reap(&mut self, now: Time, number: u16, stage: Stage, ports: &mut HostPorts) {
        let Some(queue) = self.queues.get_mut(usize::from(number)) else { return };
        let mut reaped = 0;
        let mut unlocked = Vec::new();
        while let Some(entry) = queue.next_entry(ports.memory) {
            assert!(u32::from(entry.submission_head) < queue.entries, "SQHD is beyond the submission queue");
            let request = queue.requests.complete(usize::from(entry.command_id));
            queue.free_ids.push(entry.command_id);
            ports.shared.requests.charge(Some(request), stage, now);
            unlocked.extend(self.zone_locks.release(request));
            match entry.status == Status::SUCCESS || self.completes_failed {
                true => ports.complete(request),
                false => ports.complete_as_refused(request),
            }
            reaped += 1;
        }
        let (head, freed) = (queue.completion_head, reaped.min(queue.waiting.len()));
        let later = queue.is_batch_polled && self.shadow.is_none();
        queue.collected += if later { reaped as u32 } else { 0 };
        match self.shadow {
            // Write the doorbell now: parts that wait for submission need free completion entries, and the thread
            // collects nothing until the last part completes.
            None if later && freed > 0 && self.completion_doorbells => {
                queue.collected = 0;
                self.ring(completion_doorbell(u32::from(number) + 1), head, ports);
            }
            None if later => {}
            Some(shadow) => ports.memory.write(shadow.head(u32::from(number) + 1), &head.to_le_bytes()),
            None if reaped > 0 && self.completion_doorbells => {
                self.ring(completion_doorbell(u32::from(number) + 1), head, ports);
            }
            None => {}
        }
        for _ in 0..freed {
            let request = self.queues[usize::from(number)].waiting.pop_front().expect("as many wait");
            self.submit(now, request, ports);
        }
        for request in unlocked {
            self.submit(now, request, ports);
        }
    }

    /// Locks the zone of a request that writes at a write pointer or resets such a zone. Returns false, and keeps the
    /// request until the zone is free, if an earlier one has the lock. True for all other requests.
    fn lock_zone_if_needed(&mut self, request: RequestId, ports: &HostPorts) -> bool {
        let Request { io, target, .. } = &ports.shared.requests[request];
        *target != NamedWritePlace::WritePointer || self.zone_locks.lock(io.offset, request)
    }

    /// Writes a request's command into the next slot of its submission queue. Queues the request instead if no command
    /// identifier is free.
    #[inline(always)]
    fn enqueue(&mut self, number: usize, request: RequestId, ports: &mut HostPorts) {
        let io = ports.shared.requests[request].io;
        if !self.is_plain && !self.lock_zone_if_needed(request, ports) {
            return;
        }
        let queue = &mut self.queues[number];
        let Some(id) = queue.free_ids.pop().or_else(|| queue.fresh_id()) else {
            return queue.waiting.push_back(request);
        };
        queue.requests.submit(usize::from(id), request);
        let buffer = queue.buffers + u64::from(id) * u64::from(self.max_transfer_bytes);
        ports.shared.requests[request].buffer = buffer;
        ports.fill_write_buffer(request);
        let entry = match io.op {
            Op::Read | Op::Write if self.is_plain => {
                queue.transfer_entry(id, &io, buffer, self.block_shift, ports.memory)
            }
            _ => self.entry_of_rare_request(number, id, request, ports),
        };
        let queue = &mut self.queues[number];
        let slot = queue.tail;
        ports.memory.put(queue.submission_base + u64::from(slot) * length(SUBMISSION_ENTRY_BYTES), || entry.encode());
        ports.slots.bind(number, index(slot), request);
        queue.tail = wrapped(slot + 1, queue.entries);
    }

    /// Returns the submission queue entry of a request that is not a plain Read or Write with PRP entries. Its
    /// operation has no data, or the drive has zones, placement, keys, protection information or SGLs.
    #[inline(never)]
    fn entry_of_rare_request(
        &mut self,
        number: usize,
        id: u16,
        request: RequestId,
        ports: &mut HostPorts,
    ) -> SubmissionEntry {
        let request = &ports.shared.requests[request];
        let (io, buffer, target) = (request.io, request.buffer, request.target);
        let queue = &mut self.queues[number];
        let (slba, blocks) = (io.offset >> self.block_shift, io.bytes >> self.block_shift);
        let of_blocks = |opcode, slba, queue: &mut Queue, memory: &mut HostMemory| {
            let (flags, pointer) = match self.data_pointer {
                DataPointerFormat::Prp => (0, queue.pages(id, buffer, io.bytes, memory)),
                DataPointerFormat::Sgl => (PSDT_SGL, (buffer, io.bytes.into())),
            };
            SubmissionEntry { flags, ..data_transfer_entry(opcode, id, pointer) }.of_blocks(slba, blocks)
        };
        let memory = &mut *ports.memory;
        match (&self.kind, io.op) {
            (NamespaceKind::Keyed(_), Op::Read | Op::Write) => {
                key_value_entry(of_blocks(opcode::READ, slba, queue, memory), &io)
            }
            (NamespaceKind::Keyed(_), _) => {
                key_value_entry(SubmissionEntry { command_id: id, ..Default::default() }, &io)
            }
            (NamespaceKind::Zoned(_), Op::Discard) => zone_reset_entry(id, slba),
            (NamespaceKind::Zoned(_), Op::Write) if target == NamedWritePlace::WritePointer => {
                of_blocks(opcode::WRITE, slba, queue, memory)
            }
            // Use Zone Append, because writes in flight at the same time may be executed in any order.
            (NamespaceKind::Zoned(zones), Op::Write) => {
                of_blocks(opcode::ZONE_APPEND, slba - slba % zones.layout.zone_blocks, queue, memory)
            }
            (NamespaceKind::Zoned(_), Op::Read) => of_blocks(opcode::READ, slba, queue, memory),
            (NamespaceKind::Blocks(parts), op) => {
                let entry = match op {
                    Op::Read => of_blocks(opcode::READ, slba, queue, memory),
                    Op::Write => of_blocks(opcode::WRITE, slba, queue, memory),
                    _ => queue.entry_without_data(id, op, slba, blocks, memory),
                };
                let entry = if parts.metadata.is_some() { queue.protected(id, entry) } else { entry };
                match (&parts.placement, target) {
                    (Some(limits), NamedWritePlace::Handle(place)) => directed_write(entry, limits, place),
                    _ => entry,
                }
            }
            (NamespaceKind::Zoned(_), op) => queue.entry_without_data(id, op, slba, blocks, memory),
        }
    }

    /// Writes a value to the doorbell register at this bus address and counts the write.
    fn ring(&mut self, address: u64, value: u32, ports: &mut HostPorts) {
        self.doorbells += 1;
        let token = Role::DOORBELL.token(0);
        ports.link.write(Direction::Down, address, &value.to_le_bytes(), token, ports.shared);
    }
}

impl halves::Driver for Driver {
    #[inline]
    fn submit_work(&self, _: &Io, thread: u16, ledger: &mut Ledger) {
        let number = queue_of(thread, self.queues.len());
        let tail = self.queues[number].tail;
        let rings = self.shadow.is_none() || shadow::must_ring(self.queues[number].event_index, tail, tail + 1);
        ledger.spend(Stage::Driver, if rings { self.mmio_write } else { Span::ZERO });
    }

    fn complete_work(&self, _: &Io, ledger: &mut Ledger) {
        let rings = self.shadow.is_none() && self.completion_doorbells;
        ledger.spend(Stage::Driver, if rings { self.mmio_write } else { Span::ZERO });
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    fn whole_bytes_max(&self) -> u32 {
        self.whole_bytes_max
    }

    /// Returns the most bytes that one command of this operation covers. A write to a drive with zones is a Zone Append
    /// with a limit of its own. Dataset Management counts the blocks of a range in 32 bits, and Write Zeroes in 16 (NVM
    /// Command Set Specification 1.0, sections 3.2.3 and 3.2.8).
    fn max_command_bytes(&self, op: Op) -> u32 {
        match op {
            Op::Write => self.write_bytes_max,
            Op::Read | Op::Flush => self.max_transfer_bytes,
            Op::Discard => u32::MAX,
            Op::WriteZeroes => 1 << (16 + self.block_shift).min(31),
        }
    }

    fn submit(&mut self, now: Time, request: RequestId, ports: &mut HostPorts) {
        self.submit_together(now, &[request], ports);
    }

    /// Submits several requests of one thread and announces all of them with one doorbell write.
    fn submit_together(&mut self, _: Time, requests: &[RequestId], ports: &mut HostPorts) {
        let Some(&first) = requests.first() else { return };
        let number = queue_of(ports.shared.requests[first].thread, self.queues.len());
        let old = self.queues[number].tail;
        for &request in requests {
            self.enqueue(number, request, ports);
        }
        let tail = self.queues[number].tail;
        if tail != old {
            self.announce(number as u16, old, tail, ports);
        }
    }

    fn begin_polling(&mut self, thread: u16) -> u16 {
        let number = queue_of(thread, self.queues.len());
        self.queues[number].is_batch_polled = true;
        number as u16
    }

    fn acknowledge(&mut self, thread: u16, ports: &mut HostPorts) {
        let number = queue_of(thread, self.queues.len());
        let queue = &mut self.queues[number];
        if std::mem::take(&mut queue.collected) > 0 && self.completion_doorbells {
            let head = queue.completion_head;
            Driver::ring(self, completion_doorbell(number as u32 + 1), head, ports);
        }
    }

    fn acknowledge_work(&self) -> Span {
        if self.shadow.is_none() && self.completion_doorbells { self.mmio_write } else { Span::ZERO }
    }

    // Inlined: called for the data of every read and for every completion entry.
    #[inline(always)]
    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts) {
        match Role::of(&settled.packet) {
            Role::DATA => settled.charge_data(now, ports.shared),
            Role::COMPLETION => self.on_entry_settled(now, &settled.packet, polling, ports),
            Role::EVENT_INDEX => self.on_event_index(&settled.packet, ports.memory),
            _ => {}
        }
    }

    fn on_handled(&mut self, now: Time, vector: u16, ports: &mut HostPorts) -> Option<Time> {
        self.reap(now, vector, Stage::Interrupt, ports);
        None
    }

    fn real_hosts(&mut self) -> Option<&mut dyn HostQueues> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("doorbells", self.doorbells)]
    }
}

impl HostQueues for Driver {
    fn hand_queues_to_real_hosts(&mut self) {
        self.real_host = Some(RealHost::new(self.queues.len()));
        self.shadow = None;
    }

    fn begin_queue(&mut self, number: u16, entries: u32, ports: &mut HostPorts) -> bool {
        let Some(host) = self.real_host.as_ref().filter(|host| host.is_idle(number)) else { return false };
        host.begin(entries, &mut self.queues[usize::from(number)], ports);
        true
    }

    fn room(&self, number: u16) -> usize {
        self.real_host.as_ref().map_or(0, |host| host.room(number, &self.queues[usize::from(number)]))
    }

    fn place(&mut self, now: Time, thread: u16, command: &HostCommand, ports: &mut HostPorts) -> u32 {
        let host = self.real_host.as_mut().expect("the queues belong to real hosts");
        host.place(now, thread, command, &mut self.queues[usize::from(command.queue)], ports)
    }

    fn ring(&mut self, number: u16, ports: &mut HostPorts) {
        let tail = self.queues[usize::from(number)].tail;
        Driver::ring(self, submission_doorbell(u32::from(number) + 1), tail, ports);
    }

    fn completion_entry(&self, number: u16, slot: u32, memory: &HostMemory) -> [u8; COMPLETION_ENTRY_BYTES] {
        let mut bytes = [0; COMPLETION_ENTRY_BYTES];
        let base = self.queues[usize::from(number)].completion_base;
        memory.read(base + u64::from(slot) * length(COMPLETION_ENTRY_BYTES), &mut bytes);
        bytes
    }
}

impl Queue {
    /// Returns an empty queue pair, allocated in host memory. Each command identifier has buffers for this many bytes
    /// of data and metadata.
    fn new(
        entries: u32,
        [max_transfer_bytes, metadata_bytes]: [u32; 2],
        data_pointer: DataPointerFormat,
        memory: &mut HostMemory,
    ) -> Queue {
        let commands = u64::from(entries - 1);
        let page_list_stride = match data_pointer {
            DataPointerFormat::Prp => (u64::from(max_transfer_bytes) / PAGE_BYTES * 8).next_power_of_two(),
            DataPointerFormat::Sgl => 0,
        };
        Queue {
            submission_base: memory.allocate_zeroed(u64::from(entries) * length(SUBMISSION_ENTRY_BYTES)),
            completion_base: memory.allocate_zeroed(u64::from(entries) * length(COMPLETION_ENTRY_BYTES)),
            entries,
            tail: 0,
            completion_head: 0,
            phase: true,
            is_batch_polled: false,
            collected: 0,
            event_index: 0,
            fresh_id: 0,
            free_ids: Vec::new(),
            waiting: VecDeque::new(),
            requests: CommandSlots::new(0),
            buffers: memory.reserve(commands * u64::from(max_transfer_bytes)),
            page_lists: memory.allocate_zeroed(commands * page_list_stride),
            page_list_stride,
            metadata: memory.reserve(commands * u64::from(metadata_bytes)),
            metadata_stride: metadata_bytes.into(),
            ranges: None,
        }
    }

    /// Returns the next command identifier that has never been used, or none if all are in use. A queue with `entries`
    /// slots holds at most `entries - 1` commands.
    #[cold]
    fn fresh_id(&mut self) -> Option<u16> {
        let id = Some(self.fresh_id).filter(|id| id + 1 < self.entries)?;
        self.fresh_id += 1;
        self.requests.grow();
        Some(low_u16(id))
    }

    /// Returns PRP1 and PRP2 for a page-aligned buffer. If the buffer has more than two pages, writes the command's PRP
    /// list, and PRP2 points to it (section 4.1.1).
    fn pages(&self, id: u16, buffer: u64, bytes: u32, memory: &mut HostMemory) -> (u64, u64) {
        let pages = u64::from(bytes).div_ceil(PAGE_BYTES);
        if pages <= 2 {
            return (buffer, if pages == 2 { buffer + PAGE_BYTES } else { 0 });
        }
        let list = self.page_lists + u64::from(id) * self.page_list_stride;
        for page in 1..pages {
            memory.write(list + (page - 1) * 8, &(buffer + page * PAGE_BYTES).to_le_bytes());
        }
        (buffer, list)
    }

    /// Returns the Read or Write command that transfers a request's logical blocks to or from its buffer.
    #[inline(always)]
    fn transfer_entry(
        &self,
        id: u16,
        io: &Io,
        buffer: u64,
        block_shift: u32,
        memory: &mut HostMemory,
    ) -> SubmissionEntry {
        let opcode = if io.op == Op::Read { opcode::READ } else { opcode::WRITE };
        let pages = self.pages(id, buffer, io.bytes, memory);
        data_transfer_entry(opcode, id, pages).of_blocks(io.offset >> block_shift, io.bytes >> block_shift)
    }

    /// Returns the command with the protection information fields and metadata buffer set, if it is a Read, Write or
    /// Write Zeroes; other commands are unchanged.
    #[cold]
    fn protected(&self, id: u16, entry: SubmissionEntry) -> SubmissionEntry {
        let buffer = self.metadata + u64::from(id) * self.metadata_stride;
        match entry.opcode {
            opcode::READ | opcode::WRITE => protected(entry, (self.metadata_stride > 0).then_some(buffer), true),
            opcode::WRITE_ZEROES => protected(entry, None, false),
            _ => entry,
        }
    }

    /// Returns the command of an operation without a data buffer: Flush, Write Zeroes, or Dataset Management with a
    /// list of one range. A Flush has no logical blocks (NVM Express Base Specification 2.0, section 7.1).
    #[cold]
    fn entry_without_data(
        &mut self,
        id: u16,
        op: Op,
        slba: u64,
        blocks: u32,
        memory: &mut HostMemory,
    ) -> SubmissionEntry {
        let entry = SubmissionEntry { command_id: id, namespace_id: NAMESPACE, ..SubmissionEntry::default() };
        match op {
            Op::Discard => {
                let room = u64::from(self.entries) * u64::from(RANGE_BYTES);
                let base = *self.ranges.get_or_insert_with(|| memory.allocate_zeroed(room));
                let prp1 = base + u64::from(id) * u64::from(RANGE_BYTES);
                memory.write(prp1, &encode_dataset_range(slba, blocks));
                SubmissionEntry { opcode: opcode::DATASET_MANAGEMENT, prp1, ..entry }.with(ranges::DEALLOCATE, 1)
            }
            Op::WriteZeroes => SubmissionEntry { opcode: opcode::WRITE_ZEROES, ..entry }.of_blocks(slba, blocks),
            Op::Flush => SubmissionEntry { opcode: opcode::FLUSH, ..entry },
            Op::Read | Op::Write => unreachable!("a {} has data", op.name()),
        }
    }

    /// Consumes the next completion queue entry and advances the head, or returns none if the entry's phase tag says
    /// that it is not new.
    pub(super) fn next_entry(&mut self, memory: &HostMemory) -> Option<CompletionEntry> {
        let mut bytes = [0; COMPLETION_ENTRY_BYTES];
        memory.read(self.completion_base + u64::from(self.completion_head) * length(bytes.len()), &mut bytes);
        let entry = CompletionEntry::decode(&bytes);
        if entry.phase != self.phase {
            return None;
        }
        self.completion_head = wrapped(self.completion_head + 1, self.entries);
        self.phase ^= self.completion_head == 0;
        Some(entry)
    }
}

/// Returns a command with this opcode and data pointer, whose logical blocks are still to be set.
#[inline(always)]
fn data_transfer_entry(opcode: u8, command_id: u16, (prp1, prp2): (u64, u64)) -> SubmissionEntry {
    SubmissionEntry { opcode, command_id, namespace_id: NAMESPACE, prp1, prp2, ..SubmissionEntry::default() }
}

/// Returns the Key Value command for a request: Retrieve, Store or Delete of the key that the request's offset stands
/// for, with the entry's data pointer. A Flush has no key.
#[cold]
fn key_value_entry(entry: SubmissionEntry, io: &Io) -> SubmissionEntry {
    let entry = SubmissionEntry { namespace_id: NAMESPACE, dwords: [0; 6], ..entry };
    let opcode = match io.op {
        Op::Read => opcode::RETRIEVE,
        Op::Write => opcode::STORE,
        Op::Discard => opcode::DELETE,
        Op::Flush => return SubmissionEntry { opcode: opcode::FLUSH, ..entry },
        Op::WriteZeroes => unreachable!("values are not filled with zeros"),
    };
    with_key_fields(SubmissionEntry { opcode, ..entry }.with(key::BYTES, io.bytes), Key::of_number(io.offset))
}

/// Returns the Zone Management Send command that resets the zone whose first logical block is `slba`.
#[cold]
fn zone_reset_entry(command_id: u16, slba: u64) -> SubmissionEntry {
    let entry = SubmissionEntry { opcode: opcode::ZONE_MANAGEMENT_SEND, command_id, ..SubmissionEntry::default() };
    SubmissionEntry { namespace_id: NAMESPACE, ..entry }.at_first_block(slba).with(zones::ACTION, RESET)
}

/// Allocates pages in host memory for the shadow doorbells and event indexes of the admin queue and this number of I/O
/// queue pairs.
fn allocate_shadow_doorbells(queue_pairs: u32, memory: &mut HostMemory) -> ShadowDoorbellPages {
    let bytes = ShadowDoorbellPages::bytes(queue_pairs + 1);
    ShadowDoorbellPages { doorbells: memory.allocate_zeroed(bytes), event_index: memory.allocate_zeroed(bytes) }
}
