//! The NVMe controller alone, on a host that is an array: what each malformed field gets, what survives what.

use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin, opcode};
use phaselink_serve::nvme::registers::Registers;
use phaselink_serve::nvme::{Controller, Host, Identity, QUEUE_PAIRS_MAX, TRANSFER_BYTES_MAX, Taken, Unreachable};
use phaselink_serve::store::{Geometry, Store};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const BLOCKS: u64 = 2048;
const PAGE: u64 = 4096;
/// Where things are in the host's memory.
const ADMIN_QUEUE: u64 = PAGE;
const ADMIN_ANSWERS: u64 = 2 * PAGE;
const QUEUE: u64 = 3 * PAGE;
const ANSWERS: u64 = 4 * PAGE;
const LISTS: u64 = 8 * PAGE;
const DATA: u64 = 64 * PAGE;
const MEMORY: usize = 1 << 20;
const ENTRIES: u32 = 16;

/// The host.
struct Machine {
    memory: Vec<u8>,
    doorbells: [(u32, u32); QUEUE_PAIRS_MAX + 1],
    registers: Registers,
    interrupts: Vec<u16>,
}

impl Machine {
    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Unreachable> {
        let start = usize::try_from(address).map_err(|_| Unreachable)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.memory.len()).ok_or(Unreachable)?;
        Ok(start..end)
    }

    fn word(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.memory[address as usize..][..4].try_into().unwrap())
    }
}

impl Host for Machine {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let range = self.range(address, from.len())?;
        self.memory[range].copy_from_slice(from);
        Ok(())
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable> {
        self.write(address, entry)
    }

    fn peek(&mut self, address: u64) -> Option<u32> {
        self.range(address, 4).ok().map(|range| u32::from_le_bytes(self.memory[range].try_into().unwrap()))
    }

    fn poke(&mut self, address: u64, value: u32) {
        let _ = self.write(address, &value.to_le_bytes());
    }

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.doorbells[usize::from(queue)]
    }

    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        let pair = &mut self.doorbells[usize::from(queue)];
        *pair = (if tail { 0 } else { pair.0 }, if head { 0 } else { pair.1 });
    }

    fn interrupt(&mut self, vector: u16) {
        self.interrupts.push(vector);
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }
}

/// A queue pair as its driver keeps it.
#[derive(Clone, Copy)]
struct Pair {
    number: u16,
    commands: u64,
    answers: u64,
    tail: u32,
    head: u32,
    phase: bool,
}

/// A host with its driver, and the controller.
struct Bench {
    machine: Machine,
    controller: Controller,
    store: Store,
    space: Vec<u8>,
    admin: Pair,
    io: Pair,
}

/// The fields of a command.
#[derive(Clone, Copy, Default)]
struct Fields {
    opcode: u8,
    flags: u8,
    id: u16,
    namespace: u32,
    prp: [u64; 2],
    dwords: [u32; 6],
}

impl Fields {
    fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&[self.opcode, self.flags]);
        bytes[2..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        for (place, prp) in self.prp.iter().enumerate() {
            bytes[24 + place * 8..][..8].copy_from_slice(&prp.to_le_bytes());
        }
        for (place, dword) in self.dwords.iter().enumerate() {
            bytes[40 + place * 4..][..4].copy_from_slice(&dword.to_le_bytes());
        }
        bytes
    }
}

fn pair(number: u16, commands: u64, answers: u64) -> Pair {
    Pair { number, commands, answers, tail: 0, head: 0, phase: true }
}

impl Bench {
    /// A controller that has not been enabled.
    fn off() -> Bench {
        let machine = Machine {
            memory: vec![0; MEMORY],
            doorbells: [(0, 0); QUEUE_PAIRS_MAX + 1],
            registers: Registers::default(),
            interrupts: Vec::new(),
        };
        Bench {
            machine,
            controller: Controller::new(Identity::new("test", GEOMETRY, 0).unwrap()),
            store: Store::in_memory(GEOMETRY).unwrap(),
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            admin: pair(0, ADMIN_QUEUE, ADMIN_ANSWERS),
            io: pair(1, QUEUE, ANSWERS),
        }
    }

    /// One that has its admin queue.
    fn enabled() -> Bench {
        let mut bench = Bench::off();
        bench.enable();
        bench
    }

    /// One with a queue pair, too.
    fn new() -> Bench {
        let mut bench = Bench::enabled();
        assert_eq!(bench.administer(create_completion_queue(1, ENTRIES)).status, Status::SUCCESS);
        assert_eq!(bench.administer(create_submission_queue(1, ENTRIES)).status, Status::SUCCESS);
        bench
    }

    fn enable(&mut self) {
        self.admin = pair(0, ADMIN_QUEUE, ADMIN_ANSWERS);
        self.io = pair(1, QUEUE, ANSWERS);
        self.machine.memory[..LISTS as usize].fill(0);
        self.set(0x24, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        self.set(0x28, ADMIN_QUEUE as u32);
        self.set(0x30, ADMIN_ANSWERS as u32);
        self.set(0x14, 1 | 6 << 16 | 4 << 20);
        assert_eq!(self.get(0x1c), 1);
    }

    fn set(&mut self, register: u64, value: u32) {
        self.machine.registers.write(register, &value.to_le_bytes());
        self.controller.update(&mut self.machine, &self.store);
    }

    fn get(&self, register: u64) -> u32 {
        let mut bytes = [0; 4];
        self.machine.registers.read(register, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Do all that has been rung for.
    fn step(&mut self) {
        self.controller.update(&mut self.machine, &self.store);
        for queue in self.controller.queues() {
            loop {
                match self.controller.take(queue, &mut self.machine) {
                    Taken::Nothing => break,
                    Taken::Answered(_) => {}
                    Taken::Order(order) => {
                        self.controller.perform(&order, &mut self.machine, &self.store, &mut self.space);
                    }
                }
            }
        }
        self.controller.signal(&mut self.machine);
        self.controller.update(&mut self.machine, &self.store);
    }

    fn submit(&mut self, mut pair: Pair, fields: Fields) -> Pair {
        let at = (pair.commands + u64::from(pair.tail) * 64) as usize;
        self.machine.memory[at..at + 64].copy_from_slice(&fields.bytes());
        pair.tail = (pair.tail + 1) % ENTRIES;
        self.machine.doorbells[usize::from(pair.number)].0 = pair.tail;
        pair
    }

    /// The next answer, if it is there.
    fn reap(&mut self, pair: &mut Pair) -> Option<CompletionEntry> {
        let at = (pair.answers + u64::from(pair.head) * 16) as usize;
        let entry = CompletionEntry::decode(self.machine.memory[at..].first_chunk().unwrap());
        if entry.phase != pair.phase {
            return None;
        }
        pair.head = (pair.head + 1) % ENTRIES;
        pair.phase ^= pair.head == 0;
        self.machine.doorbells[usize::from(pair.number)].1 = pair.head;
        Some(CompletionEntry { status: entry.status.kind(), ..entry })
    }

    fn administer(&mut self, fields: Fields) -> CompletionEntry {
        self.admin = self.submit(self.admin, fields);
        self.step();
        let mut pair = self.admin;
        let answer = self.reap(&mut pair).expect("an answer");
        self.admin = pair;
        assert_eq!(answer.command_id, fields.id);
        answer
    }

    fn ask(&mut self, fields: Fields) -> CompletionEntry {
        self.io = self.submit(self.io, fields);
        self.step();
        let mut pair = self.io;
        let answer = self.reap(&mut pair).expect("an answer");
        self.io = pair;
        answer
    }

    fn identify(&mut self, cns: u32, namespace: u32) -> (Status, Vec<u8>) {
        self.machine.memory[DATA as usize..][..4096].fill(0xee);
        let fields = Fields {
            opcode: admin::IDENTIFY,
            namespace,
            prp: [DATA, 0],
            dwords: [cns, 0, 0, 0, 0, 0],
            ..Fields::default()
        };
        let status = self.administer(fields).status;
        (status, self.machine.memory[DATA as usize..][..4096].to_vec())
    }
}

fn create_completion_queue(number: u32, entries: u32) -> Fields {
    let opcode = admin::CREATE_COMPLETION_QUEUE;
    let dwords = [number | (entries - 1) << 16, 0b11 | 1 << 16, 0, 0, 0, 0];
    Fields { opcode, prp: [ANSWERS, 0], dwords, ..Fields::default() }
}

fn create_submission_queue(number: u32, entries: u32) -> Fields {
    let opcode = admin::CREATE_SUBMISSION_QUEUE;
    let dwords = [number | (entries - 1) << 16, 1 | 1 << 16, 0, 0, 0, 0];
    Fields { opcode, prp: [QUEUE, 0], dwords, ..Fields::default() }
}

fn transfer(opcode: u8, slba: u64, blocks: u32, prp: [u64; 2]) -> Fields {
    let dwords = [slba as u32, (slba >> 32) as u32, blocks - 1, 0, 0, 0];
    Fields { opcode, namespace: 1, prp, dwords, ..Fields::default() }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn identify_tells_what_the_controller_and_its_namespace_are() {
    let mut bench = Bench::enabled();
    let (status, page) = bench.identify(1, 0);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!((page[77], page[111], page[512], page[513]), (5, 1, 0x66, 0x44));
    assert_eq!(u16::from_le_bytes([page[256], page[257]]), 1 << 8);
    assert!(page[24..64].starts_with(b"phaselink test "));
    let (status, page) = bench.identify(0, 1);
    assert_eq!((status, u64_at(&page, 0), page[130]), (Status::SUCCESS, BLOCKS, 9));
    let (_, page) = bench.identify(2, 0);
    assert_eq!(page[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let (_, page) = bench.identify(2, 1);
    assert_eq!(page, vec![0; 4096]);
    let (_, page) = bench.identify(3, 1);
    assert_eq!((&page[..2], page[10] >> 4, &page[20..22]), (&[3, 16][..], 8, &[4, 1][..]));
    assert_eq!(bench.identify(8, 1).1[14], 1);
    assert_eq!(bench.identify(0x1c, 0).1[0], 1);
    for (cns, namespace, expected) in [
        (0, 0, Status::INVALID_NAMESPACE),
        (0, 2, Status::INVALID_NAMESPACE),
        (0, u32::MAX, Status::INVALID_NAMESPACE),
        (2, u32::MAX - 1, Status::INVALID_NAMESPACE),
        (3, 7, Status::INVALID_NAMESPACE),
        (0x55, 1, Status::INVALID_FIELD),
        (6, 1, Status::SUCCESS),
    ] {
        assert_eq!(bench.identify(cns, namespace).0, expected, "{cns:x} {namespace}");
    }
}

#[test]
fn queues_are_created_and_deleted_only_as_the_specification_allows() {
    let mut bench = Bench::enabled();
    let base = create_completion_queue(1, ENTRIES);
    let with = |change: fn(&mut Fields)| {
        let mut fields = base;
        change(&mut fields);
        fields
    };
    for (fields, expected) in [
        (create_completion_queue(0, ENTRIES), Status::INVALID_QUEUE_ID),
        (create_completion_queue(QUEUE_PAIRS_MAX as u32 + 1, ENTRIES), Status::INVALID_QUEUE_ID),
        (create_completion_queue(1, 1), Status::INVALID_QUEUE_SIZE),
        (create_completion_queue(1, 1025), Status::INVALID_QUEUE_SIZE),
        (with(|fields| fields.prp[0] += 8), Status::INVALID_PRP_OFFSET),
        (with(|fields| fields.dwords[1] &= !1), Status::INVALID_FIELD),
        (with(|fields| fields.dwords[1] |= 99 << 16), Status::INVALID_INTERRUPT_VECTOR),
        (with(|fields| fields.flags = 0x40), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 1), Status::INVALID_FIELD),
        (create_submission_queue(1, ENTRIES), Status::COMPLETION_QUEUE_INVALID),
        (base, Status::SUCCESS),
        (base, Status::INVALID_QUEUE_ID),
        (create_submission_queue(0, ENTRIES), Status::INVALID_QUEUE_ID),
        (
            Fields { dwords: [1 | 15 << 16, 1, 0, 0, 0, 0], ..create_submission_queue(1, ENTRIES) },
            Status::INVALID_QUEUE_ID,
        ),
        (create_submission_queue(1, ENTRIES), Status::SUCCESS),
        (create_submission_queue(1, ENTRIES), Status::INVALID_QUEUE_ID),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
    let delete = |opcode, number| Fields { opcode, dwords: [number, 0, 0, 0, 0, 0], ..Fields::default() };
    for (opcode, number, expected) in [
        (admin::DELETE_COMPLETION_QUEUE, 0, Status::INVALID_QUEUE_ID),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE_DELETION),
        (admin::DELETE_COMPLETION_QUEUE, 60000, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 0, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 2, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 1, Status::SUCCESS),
        (admin::DELETE_SUBMISSION_QUEUE, 1, Status::INVALID_QUEUE_ID),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::SUCCESS),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE_ID),
    ] {
        assert_eq!(bench.administer(delete(opcode, number)).status, expected, "{opcode:x} {number}");
    }
}

#[test]
fn malformed_commands_of_a_queue_get_the_status_that_the_specification_asks_for() {
    let mut bench = Bench::new();
    let read = transfer(opcode::READ, 0, 8, [DATA, 0]);
    let with = |change: fn(&mut Fields)| {
        let mut fields = read;
        change(&mut fields);
        fields
    };
    let far = 1 << 40;
    for (fields, expected) in [
        (read, Status::SUCCESS),
        (with(|fields| fields.opcode = 0x77), Status::INVALID_OPCODE),
        (with(|fields| fields.flags = 0x40), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 0xc0), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 0x02), Status::INVALID_FIELD),
        (with(|fields| fields.namespace = 0), Status::INVALID_NAMESPACE),
        (with(|fields| fields.namespace = u32::MAX), Status::INVALID_NAMESPACE),
        (transfer(opcode::READ, BLOCKS - 8, 8, [DATA, 0]), Status::SUCCESS),
        (transfer(opcode::READ, BLOCKS - 7, 8, [DATA, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::READ, u64::MAX, 8, [DATA, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::READ, 0, 257, [DATA, LISTS]), Status::INVALID_FIELD),
        (transfer(opcode::READ, 0, 8, [DATA + 2, 0]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 16, [DATA, DATA + 512]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 24, [DATA, LISTS + 4]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 24, [DATA, far]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::READ, 0, 8, [far, 0]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::WRITE, 0, 8, [far, 0]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::FLUSH, 0, 1, [0, 0]), Status::SUCCESS),
        (Fields { namespace: u32::MAX, ..transfer(opcode::FLUSH, 0, 1, [0, 0]) }, Status::SUCCESS),
        (Fields { namespace: 2, ..transfer(opcode::FLUSH, 0, 1, [0, 0]) }, Status::INVALID_NAMESPACE),
        (transfer(opcode::WRITE_ZEROES, BLOCKS, 1, [0, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::WRITE_ZEROES, 0, BLOCKS as u32, [0, 0]), Status::SUCCESS),
    ] {
        assert_eq!(bench.ask(fields).status, expected, "{:x} {:?}", fields.opcode, fields.dwords);
    }
}

#[test]
fn features_are_checked_and_forgotten_at_a_reset() {
    let mut bench = Bench::enabled();
    let set = |feature, value| Fields {
        opcode: admin::SET_FEATURES,
        prp: [DATA, 0],
        dwords: [feature, value, 0, 0, 0, 0],
        ..Fields::default()
    };
    let get = |feature, value| Fields { opcode: admin::GET_FEATURES, ..set(feature, value) };
    assert_eq!(bench.administer(set(7, 3 | 500 << 16)).result, 3 | 31 << 16);
    for (fields, expected) in [
        (set(7, 0xffff), Status::INVALID_FIELD),
        (set(2, 1), Status::INVALID_FIELD),
        (set(9, 33), Status::INVALID_FIELD),
        (get(9, 33), Status::INVALID_FIELD),
        (set(4, 1 << 16), Status::INVALID_FIELD),
        (get(0x0f, 0), Status::INVALID_FIELD),
        (set(0x0f, 0), Status::INVALID_FIELD),
        (set(1 | 1 << 31, 0), Status::FEATURE_NOT_SAVEABLE),
        (get(1 | 1 << 8, 0), Status::INVALID_FIELD),
        (Fields { namespace: 1, ..set(1, 0) }, Status::FEATURE_NOT_OF_NAMESPACE),
        (set(0x0b, 0x11f), Status::SUCCESS),
        (set(0x16, 0), Status::SUCCESS),
        (get(0x16, 0), Status::SUCCESS),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
    assert_eq!(bench.administer(get(0x0b, 0)).result, 0x11f);
    assert_eq!(bench.administer(create_completion_queue(4, ENTRIES)).status, Status::SUCCESS);
    assert_eq!(bench.administer(set(7, 0)).status, Status::COMMAND_SEQUENCE_ERROR);
    bench.set(0x14, 0);
    assert_eq!(bench.get(0x1c), 0);
    bench.enable();
    assert_eq!(bench.administer(get(0x0b, 0)).result, 0);
}

#[test]
fn data_goes_through_lists_of_pages_that_chain_and_begin_anywhere() {
    let mut bench = Bench::new();
    let bytes: Vec<u8> = (0..128 << 10_u32).map(|place| (place * 7 / 3) as u8).collect();
    // The pages in reverse; the list begins two entries before the end of a page, so that it chains after one of them.
    let pages: Vec<u64> = (0..32).map(|place| DATA + (31 - place) * PAGE).collect();
    let list = LISTS + PAGE - 16;
    let mut entries = pages[1..].to_vec();
    entries.insert(1, LISTS + 2 * PAGE);
    for (place, entry) in entries.iter().enumerate() {
        let at = if place < 2 { list + place as u64 * 8 } else { LISTS + 2 * PAGE + (place as u64 - 2) * 8 };
        bench.machine.memory[at as usize..][..8].copy_from_slice(&entry.to_le_bytes());
    }
    for (page, data) in pages.iter().zip(bytes.chunks(4096)) {
        bench.machine.memory[*page as usize..][..4096].copy_from_slice(data);
    }
    assert_eq!(bench.ask(transfer(opcode::WRITE, 100, 256, [pages[0], list])).status, Status::SUCCESS);
    let mut held = vec![0; bytes.len()];
    bench.store.read(100 * 512, &mut held).unwrap();
    assert_eq!(held, bytes);
    bench.machine.memory[DATA as usize..].fill(0);
    assert_eq!(bench.ask(transfer(opcode::READ, 100, 256, [pages[0], list])).status, Status::SUCCESS);
    for (page, data) in pages.iter().zip(bytes.chunks(4096)) {
        assert_eq!(&bench.machine.memory[*page as usize..][..4096], data);
    }
    // A page list that points at itself from its last entry would go on for ever, were that allowed.
    let circle = LISTS + PAGE - 8;
    bench.machine.memory[circle as usize..][..8].copy_from_slice(&circle.to_le_bytes());
    assert_eq!(bench.ask(transfer(opcode::READ, 0, 24, [DATA, circle])).status, Status::INVALID_PRP_OFFSET);
}

#[test]
fn compare_zeroes_and_deallocation_do_what_they_say() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..4096].fill(5);
    assert_eq!(bench.ask(transfer(opcode::WRITE, 8, 8, [DATA, 0])).status, Status::SUCCESS);
    assert_eq!(bench.ask(transfer(opcode::COMPARE, 8, 8, [DATA, 0])).status, Status::SUCCESS);
    assert_eq!(bench.ask(transfer(opcode::COMPARE, 9, 8, [DATA, 0])).status, Status::COMPARE_FAILURE);
    assert_eq!(bench.ask(transfer(opcode::WRITE_ZEROES, 9, 1, [0, 0])).status, Status::SUCCESS);
    let ranges = [[0_u32, 1, 10, 0], [0, 2, 14, 0]];
    for (place, word) in ranges.as_flattened().iter().enumerate() {
        bench.machine.memory[LISTS as usize + place * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let deallocate = Fields {
        opcode: opcode::DATASET_MANAGEMENT,
        namespace: 1,
        prp: [LISTS, 0],
        dwords: [1, 4, 0, 0, 0, 0],
        ..Fields::default()
    };
    assert_eq!(bench.ask(deallocate).status, Status::SUCCESS);
    let mut held = [0; 4096];
    bench.store.read(4096, &mut held).unwrap();
    let blocks: Vec<u8> = held.chunks(512).map(|block| block[0]).collect();
    assert_eq!(blocks, [5, 0, 0, 5, 5, 5, 0, 0]);
    bench.machine.memory[LISTS as usize + 8..][..4].copy_from_slice(&(BLOCKS as u32).to_le_bytes());
    assert_eq!(bench.ask(deallocate).status, Status::LBA_OUT_OF_RANGE);
}

#[test]
fn a_full_completion_queue_holds_commands_back_until_the_host_has_read() {
    let mut bench = Bench::new();
    let mut pair = bench.io;
    for round in 0..3 {
        for _ in 0..ENTRIES - 1 {
            pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        }
        bench.step();
        // One more than there is room for waits for its turn.
        pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        bench.step();
        let mut reaped = 0;
        let mut reader = pair;
        while bench.reap(&mut reader).is_some() {
            reaped += 1;
        }
        assert_eq!(reaped, ENTRIES - 1, "round {round}");
        bench.step();
        assert!(bench.reap(&mut reader).is_some() && bench.reap(&mut reader).is_none());
        pair = reader;
    }
}

#[test]
fn doorbells_that_make_no_sense_are_told_once_until_the_log_has_been_read() {
    let mut bench = Bench::new();
    let wait = Fields { opcode: admin::ASYNC_EVENT_REQUEST, id: 77, ..Fields::default() };
    for _ in 0..5 {
        bench.admin = bench.submit(bench.admin, wait);
    }
    bench.step();
    let mut pair = bench.admin;
    assert_eq!(bench.reap(&mut pair).unwrap().status, Status::ASYNC_EVENT_LIMIT_EXCEEDED);
    assert!(bench.reap(&mut pair).is_none());
    bench.machine.doorbells[1].0 = ENTRIES;
    bench.step();
    bench.machine.doorbells[1].0 = ENTRIES + 1;
    bench.step();
    let told = bench.reap(&mut pair).unwrap();
    // An error, of a doorbell's value; page 1 says more.
    assert_eq!((told.command_id, told.status, told.result), (77, Status::SUCCESS, 0x0001_0100));
    assert!(bench.reap(&mut pair).is_none());
    bench.admin = pair;
    let log = Fields {
        opcode: admin::GET_LOG_PAGE,
        prp: [DATA, 0],
        dwords: [1 | 15 << 16, 0, 0, 0, 0, 0],
        ..Fields::default()
    };
    bench.admin = bench.submit(bench.admin, log);
    bench.step();
    let mut pair = bench.admin;
    assert_eq!(bench.reap(&mut pair).unwrap().command_id, 0);
    assert_eq!(bench.reap(&mut pair).unwrap().command_id, 77);
    bench.admin = pair;
    // The queue goes on where it was.
    bench.machine.doorbells[1].0 = 0;
    assert_eq!(bench.ask(transfer(opcode::READ, 0, 1, [DATA, 0])).status, Status::SUCCESS);
    // Aborting a request ends it, and says so.
    let abort = Fields { opcode: admin::ABORT, id: 9, dwords: [77 << 16, 0, 0, 0, 0, 0], ..Fields::default() };
    bench.admin = bench.submit(bench.admin, abort);
    bench.step();
    let mut pair = bench.admin;
    let (first, second) = (bench.reap(&mut pair).unwrap(), bench.reap(&mut pair).unwrap());
    assert_eq!((first.command_id, first.status), (77, Status::ABORT_REQUESTED));
    assert_eq!((second.command_id, second.result), (9, 0));
}

#[test]
fn what_is_told_between_commands_interrupts_too() {
    let mut bench = Bench::new();
    let wait = Fields { opcode: admin::ASYNC_EVENT_REQUEST, ..Fields::default() };
    bench.admin = bench.submit(bench.admin, wait);
    // More answers than there is room for: the last one is held.
    for place in 0..ENTRIES {
        let at = (QUEUE + u64::from(place) * 64) as usize;
        bench.machine.memory[at..at + 64].copy_from_slice(&transfer(opcode::READ, 0, 1, [DATA, 0]).bytes());
    }
    bench.machine.doorbells[1].0 = ENTRIES - 1;
    let mut orders = Vec::new();
    for _ in 0..ENTRIES - 1 {
        let Taken::Order(order) = bench.controller.take(1, &mut bench.machine) else { panic!("an order") };
        orders.push(order);
    }
    bench.machine.doorbells[1].0 = 0;
    let Taken::Order(order) = bench.controller.take(1, &mut bench.machine) else { panic!("an order") };
    orders.push(order);
    for order in &orders {
        bench.controller.perform(order, &mut bench.machine, &bench.store, &mut bench.space);
    }
    bench.step();
    bench.machine.interrupts.clear();
    bench.machine.doorbells[1].1 = 4;
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1]);
    bench.machine.registers.strange_doorbell = true;
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1, 0]);
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1, 0]);
}

#[test]
fn shadow_doorbells_are_followed_and_the_host_is_asked_to_ring_before_a_sleep() {
    let mut bench = Bench::new();
    let (shadow, events) = (LISTS, LISTS + PAGE);
    let share = Fields { opcode: admin::DOORBELL_BUFFER_CONFIG, prp: [shadow, events], ..Fields::default() };
    assert_eq!(bench.administer(Fields { prp: [shadow + 4, events], ..share }).status, Status::INVALID_PRP_OFFSET);
    assert_eq!(bench.administer(Fields { prp: [1 << 40, events], ..share }).status, Status::INVALID_FIELD);
    assert_eq!(bench.administer(share).status, Status::SUCCESS);
    let mut pair = bench.submit(bench.io, transfer(opcode::READ, 0, 1, [DATA, 0]));
    bench.step();
    assert!(bench.reap(&mut pair.clone()).is_none(), "the register no longer counts");
    bench.machine.memory[shadow as usize + 8] = 1;
    assert!(bench.controller.ask_to_ring(&mut bench.machine));
    bench.step();
    assert_eq!(bench.reap(&mut pair).unwrap().status, Status::SUCCESS);
    assert!(!bench.controller.ask_to_ring(&mut bench.machine));
    assert_eq!(bench.machine.word(events + 8), 1);
}

#[test]
fn what_a_host_has_done_before_a_reset_answers_nobody_after_it() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..512].fill(9);
    bench.io = bench.submit(bench.io, transfer(opcode::READ, 0, 1, [DATA, 0]));
    let Taken::Order(order) = bench.controller.take(1, &mut bench.machine) else { panic!("an order") };
    bench.set(0x14, 0);
    bench.enable();
    let status = bench.controller.perform(&order, &mut bench.machine, &bench.store, &mut bench.space);
    assert_eq!((status, bench.machine.memory[DATA as usize]), (Status::ABORT_REQUESTED, 9));
}

#[test]
fn shutting_down_is_reported_and_a_strange_configuration_is_fatal() {
    let mut bench = Bench::new();
    bench.set(0x14, 1 | 6 << 16 | 4 << 20 | 1 << 14);
    assert_eq!(bench.get(0x1c), 0b1001);
    bench.set(0x14, 0);
    assert_eq!(bench.get(0x1c), 0);
    bench.set(0x14, 1 | 3 << 7);
    assert_eq!(bench.get(0x1c), 0b10);
}

#[test]
fn queues_whose_memory_has_gone_are_fatal_and_a_reset_helps() {
    let mut bench = Bench::new();
    let memory = std::mem::replace(&mut bench.machine.memory, vec![0; 64]);
    bench.machine.doorbells[1].0 = 1;
    bench.step();
    assert_eq!(bench.get(0x1c) & 2, 2);
    bench.machine.memory = memory;
    bench.set(0x14, 0);
    bench.enable();
    assert_eq!(bench.identify(1, 0).0, Status::SUCCESS);
}

#[test]
fn log_pages_are_handed_out_in_parts() {
    let mut bench = Bench::new();
    bench.ask(transfer(opcode::READ, BLOCKS, 1, [DATA, 0]));
    let log = |page: u32, words: u32, offset: u32| Fields {
        opcode: admin::GET_LOG_PAGE,
        prp: [DATA, LISTS],
        dwords: [page | (words - 1) << 16, 0, offset, 0, 0, 0],
        ..Fields::default()
    };
    assert_eq!(bench.administer(log(1, 16, 0)).status, Status::SUCCESS);
    let page = &bench.machine.memory[DATA as usize..][..64];
    assert_eq!((u64_at(page, 0), u64_at(page, 16), page[8]), (1, BLOCKS, 1));
    assert_eq!(bench.administer(log(5, 1, opcode::WRITE as u32 * 4 + 1024)).status, Status::SUCCESS);
    assert_eq!(bench.machine.word(DATA), 0b11);
    for (fields, expected) in [
        (log(0, 256, 0), Status::SUCCESS),
        (log(2, 128, 0), Status::SUCCESS),
        (log(3, 128, 0), Status::SUCCESS),
        (log(0x12, 256, 0), Status::SUCCESS),
        (log(0x70, 1, 0), Status::INVALID_LOG_PAGE),
        (log(2, 1, 516), Status::INVALID_FIELD),
        (log(2, 1, 2), Status::INVALID_FIELD),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a host writes: an answer or none, and never a panic.
    #[test]
    fn random_commands_and_registers_do_no_harm(
        steps in prop::collection::vec((0_u8..6, any::<[u8; 32]>(), any::<u32>(), 0_u64..0x80), 1..60)
    ) {
        let mut bench = Bench::new();
        for (kind, noise, value, register) in steps {
            let mut bytes = [0; 64];
            bytes[..32].copy_from_slice(&noise);
            bytes[32..].copy_from_slice(&noise);
            match kind {
                0 => bench.machine.registers.write(register, &value.to_le_bytes()),
                1 => bench.machine.doorbells[value as usize % 3] = (value % 20, value >> 8 & 31),
                2 => bench.machine.memory[register as usize * 512..][..32].copy_from_slice(&noise),
                _ => {
                    // Mostly commands that exist, with numbers that are not far off.
                    bytes[0] %= 16;
                    bytes[1] &= 0x3c;
                    bytes[4..8].copy_from_slice(&(value % 3).to_le_bytes());
                    for at in [27, 35, 28, 36, 29, 30, 31, 37, 38, 39, 26, 34, 44, 45, 46, 47] {
                        bytes[at] = if at == 26 || at == 34 { bytes[at] & 15 } else { 0 };
                    }
                    let queue = u16::from(kind == 3);
                    if let Taken::Order(order) = bench.controller.execute(queue, 2, &bytes, &mut bench.machine) {
                        bench.controller.perform(&order, &mut bench.machine, &bench.store, &mut bench.space);
                    }
                }
            }
            bench.step();
        }
    }
}
