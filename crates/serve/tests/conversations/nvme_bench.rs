//! The NVMe controller alone, on a host that is an array, with a driver that asks what a test wants.

use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::nvme::array_host::ArrayHost;
use phaselink_serve::nvme::{Command, CommandProgress, Controller, Identity, NextCommand};

pub(crate) const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
pub(crate) const BLOCKS: u64 = 2048;
pub(crate) const LIMITS: Limits = Limits {
    namespaces: 1,
    blocks: BLOCKS,
    block_shift: 9,
    transfer_bytes_max: 128 << 10,
    queue_pairs: 32,
    queue_entries: 1024,
    takes_segments: true,
    kind: NamespaceKind::PLAIN,
};
pub(crate) const PAGE: u64 = 4096;
/// Where things are in the host's memory.
pub(crate) const ADMIN_QUEUE: u64 = PAGE;
pub(crate) const ADMIN_ANSWERS: u64 = 2 * PAGE;
pub(crate) const QUEUE: u64 = 3 * PAGE;
pub(crate) const ANSWERS: u64 = 4 * PAGE;
pub(crate) const LISTS: u64 = 8 * PAGE;
pub(crate) const DATA: u64 = 64 * PAGE;
pub(crate) const MEMORY: usize = 1 << 20;
pub(crate) const ENTRIES: u32 = 16;

/// A queue pair as its driver keeps it.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub number: u16,
    pub commands: u64,
    pub answers: u64,
    pub tail: u32,
    pub head: u32,
    pub phase: bool,
}

/// A host with its driver, and the controller.
pub(crate) struct Bench {
    pub machine: ArrayHost,
    pub controller: Controller,
    pub store: Store,
    pub space: Vec<u8>,
    pub admin: Pair,
    pub io: Pair,
}

/// The fields of a command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fields {
    pub opcode: u8,
    pub flags: u8,
    pub id: u16,
    pub namespace: u32,
    pub dwords_2_3: u64,
    pub metadata: u64,
    pub prp: [u64; 2],
    pub dwords: [u32; 6],
}

impl Fields {
    pub(crate) fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&[self.opcode, self.flags]);
        bytes[2..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.dwords_2_3.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.metadata.to_le_bytes());
        for (place, prp) in self.prp.iter().enumerate() {
            bytes[24 + place * 8..][..8].copy_from_slice(&prp.to_le_bytes());
        }
        for (place, dword) in self.dwords.iter().enumerate() {
            bytes[40 + place * 4..][..4].copy_from_slice(&dword.to_le_bytes());
        }
        bytes
    }
}

pub(crate) fn pair(number: u16, commands: u64, answers: u64) -> Pair {
    Pair { number, commands, answers, tail: 0, head: 0, phase: true }
}

/// Store in memory of a controller with these limits.
fn store_of(limits: Limits) -> Store {
    let store = Store::in_memory(GEOMETRY).unwrap();
    match limits.kind {
        NamespaceKind::Blocks(_) => store,
        NamespaceKind::Zoned(zones) => store.with_zones(zones.layout).unwrap(),
        NamespaceKind::Keyed(keys) => store.with_keys(keys.layout).unwrap(),
    }
}

impl Bench {
    /// A controller that has not been enabled.
    pub(crate) fn off() -> Bench {
        Bench::controller_off_with_limits(LIMITS)
    }

    /// The same with other limits.
    pub(crate) fn controller_off_with_limits(limits: Limits) -> Bench {
        Bench {
            machine: ArrayHost::new(MEMORY, &limits),
            controller: Controller::new(Identity::new("test", limits, 0)),
            store: store_of(limits),
            space: vec![0; LIMITS.transfer_bytes_max as usize],
            admin: pair(0, ADMIN_QUEUE, ADMIN_ANSWERS),
            io: pair(1, QUEUE, ANSWERS),
        }
    }

    /// The same whose queues are divided into so many sets.
    pub(crate) fn divided(sets: usize) -> Bench {
        let bench = Bench::off();
        let mut bench = Bench { controller: bench.controller.with_queue_sets(sets), ..bench };
        bench.enable();
        bench
    }

    /// One that has its admin queue.
    pub(crate) fn enabled() -> Bench {
        let mut bench = Bench::off();
        bench.enable();
        bench
    }

    /// One with a queue pair, too.
    pub(crate) fn new() -> Bench {
        Bench::with(LIMITS)
    }

    /// The same with other limits.
    pub(crate) fn with(limits: Limits) -> Bench {
        let mut bench = Bench::controller_off_with_limits(limits);
        bench.enable();
        assert_eq!(bench.administer(create_completion_queue(1, ENTRIES)).status, Status::SUCCESS);
        assert_eq!(bench.administer(create_submission_queue(1, ENTRIES)).status, Status::SUCCESS);
        bench
    }

    pub(crate) fn enable(&mut self) {
        self.admin = pair(0, ADMIN_QUEUE, ADMIN_ANSWERS);
        self.io = pair(1, QUEUE, ANSWERS);
        self.machine.memory[..LISTS as usize].fill(0);
        self.set(0x24, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        self.set(0x28, ADMIN_QUEUE as u32);
        self.set(0x30, ADMIN_ANSWERS as u32);
        // If the controller does not support the NVM command set alone, select all supported command sets.
        let sets = if self.get(4) >> 5 & 1 == 0 { 0b110 << 4 } else { 0 };
        self.set(0x14, 1 | sets | 6 << 16 | 4 << 20);
        assert_eq!(self.get(0x1c), 1);
    }

    pub(crate) fn set(&mut self, register: u64, value: u32) {
        self.machine.registers.write(register, &value.to_le_bytes());
        self.controller.update(&mut self.machine, &self.store);
    }

    pub(crate) fn get(&self, register: u64) -> u32 {
        let mut bytes = [0; 4];
        self.machine.registers.read(register, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Do all that has been rung for.
    pub(crate) fn step(&mut self) {
        self.controller.update(&mut self.machine, &self.store);
        for queue in self.controller.queues() {
            loop {
                match self.controller.next_command(queue, &mut self.machine) {
                    NextCommand::None => break,
                    NextCommand::Admin(_) => {}
                    NextCommand::Io(command) => drop(self.execute(&command)),
                }
            }
        }
        self.controller.send_interrupts(&mut self.machine);
        self.controller.update(&mut self.machine, &self.store);
    }

    /// Execute a command; one that waits for the disk does not wait long.
    pub(crate) fn execute(&mut self, command: &Command) -> Status {
        match self.controller.execute(command, &mut self.machine, &self.store, &mut self.space) {
            CommandProgress::Completed(status) => status,
            CommandProgress::NeedsFlush => {
                self.controller.complete_flushed(command, self.store.flush(), &mut self.machine)
            }
        }
    }

    pub(crate) fn submit(&mut self, mut pair: Pair, fields: Fields) -> Pair {
        let at = (pair.commands + u64::from(pair.tail) * 64) as usize;
        self.machine.memory[at..at + 64].copy_from_slice(&fields.bytes());
        pair.tail = (pair.tail + 1) % ENTRIES;
        self.machine.doorbells[usize::from(pair.number)].0 = pair.tail;
        pair
    }

    /// The next answer, if it is there.
    pub(crate) fn reap(&mut self, pair: &mut Pair) -> Option<CompletionEntry> {
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

    pub(crate) fn administer(&mut self, fields: Fields) -> CompletionEntry {
        self.admin = self.submit(self.admin, fields);
        self.step();
        let mut pair = self.admin;
        let answer = self.reap(&mut pair).expect("an answer");
        self.admin = pair;
        assert_eq!(answer.command_id, fields.id);
        answer
    }

    pub(crate) fn ask(&mut self, fields: Fields) -> CompletionEntry {
        self.io = self.submit(self.io, fields);
        self.step();
        let mut pair = self.io;
        let answer = self.reap(&mut pair).expect("an answer");
        self.io = pair;
        answer
    }

    pub(crate) fn identify(&mut self, cns: u32, namespace: u32) -> (Status, Vec<u8>) {
        self.identify_command_set(cns, 0, namespace)
    }

    /// Asks for a data structure of a command set.
    pub(crate) fn identify_command_set(&mut self, cns: u32, command_set: u32, namespace: u32) -> (Status, Vec<u8>) {
        self.machine.memory[DATA as usize..][..4096].fill(0xee);
        let dwords = [cns, command_set << 24, 0, 0, 0, 0];
        let fields = Fields { opcode: admin::IDENTIFY, namespace, prp: [DATA, 0], dwords, ..Fields::default() };
        let status = self.administer(fields).status;
        (status, self.machine.memory[DATA as usize..][..4096].to_vec())
    }
}

pub(crate) fn create_completion_queue(number: u32, entries: u32) -> Fields {
    let opcode = admin::CREATE_COMPLETION_QUEUE;
    let dwords = [number | (entries - 1) << 16, 0b11 | 1 << 16, 0, 0, 0, 0];
    Fields { opcode, prp: [ANSWERS, 0], dwords, ..Fields::default() }
}

pub(crate) fn create_submission_queue(number: u32, entries: u32) -> Fields {
    let opcode = admin::CREATE_SUBMISSION_QUEUE;
    let dwords = [number | (entries - 1) << 16, 1 | 1 << 16, 0, 0, 0, 0];
    Fields { opcode, prp: [QUEUE, 0], dwords, ..Fields::default() }
}

pub(crate) fn transfer(opcode: u8, slba: u64, blocks: u32, prp: [u64; 2]) -> Fields {
    let dwords = [slba as u32, (slba >> 32) as u32, blocks - 1, 0, 0, 0];
    Fields { opcode, namespace: 1, prp, dwords, ..Fields::default() }
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
