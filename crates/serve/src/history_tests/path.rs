//! Path of a host to the drive: a controller, and the driver of the host at its queues.

use std::fmt;

use phaselink_core::number::{index, length, short_length, wide_index};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, SubmissionEntry, admin};

use super::run::LIMITS;
use crate::device::store::Store;
use crate::nvme::array_host::ArrayHost;
use crate::nvme::{Command, CommandProgress, Controller, NextCommand};

/// Number of commands that a host has in flight on a path.
pub(super) const SLOTS: usize = 2;
/// Number of entries of each queue.
const ENTRIES: u32 = 16;
const PAGE: u64 = 4096;
/// Addresses of the queues in the host's memory: of each pair, the submission and the completion queue.
const QUEUES: [(u64, u64); 2] = [(PAGE, 2 * PAGE), (3 * PAGE, 4 * PAGE)];
/// Address of the data of admin commands, and of the first command.
const ADMIN_DATA: u64 = 8 * PAGE;
const DATA: u64 = 9 * PAGE;
const MEMORY_BYTES: usize = 16 << 12;
/// Registers of the controller: configuration, admin queue attributes, and addresses of the admin queues.
const CONFIGURATION: u64 = 0x14;
const QUEUE_SIZES: u64 = 0x24;
const QUEUE_ADDRESSES: [u64; 2] = [0x28, 0x30];
/// Entries of 64 and 16 bytes, and Enable.
const ENABLED: u32 = 6 << 16 | 4 << 20 | 1;
const HOST_IDENTIFIER: u32 = 0x81;
/// Number of bytes of a log page that the host reads.
const LOG_BYTES: u32 = 64;

/// Places of a queue pair at which its driver writes and reads next.
#[derive(Clone, Copy, Debug)]
struct QueuePairPositions {
    tail: u32,
    head: u32,
    phase: bool,
}

const START: QueuePairPositions = QueuePairPositions { tail: 0, head: 0, phase: true };

/// Path of a host: its controller, memory, and commands in flight.
pub(super) struct HostPath {
    controller: Controller,
    machine: ArrayHost,
    pairs: [QueuePairPositions; 2],
    /// Call of each slot, whose number is the identifier of its command.
    slots: [Option<usize>; SLOTS],
    /// Commands that the controller has fetched and not executed, each with its call; those of queues that are gone have none.
    fetched: Vec<(Option<usize>, Box<Command>)>,
    space: Vec<u8>,
}

impl fmt::Debug for HostPath {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let (pairs, slots, fetched) = (&self.pairs, &self.slots, self.fetched.len());
        let (doorbells, registers) = (&self.machine.doorbells[..2], &self.machine.registers);
        write!(to, "{pairs:?}, slots {slots:?}, {fetched} fetched, doorbells {doorbells:?}, {registers:?}")
    }
}

impl HostPath {
    /// Returns a path with a controller after power-on.
    pub(super) fn new(controller: Controller) -> HostPath {
        HostPath {
            controller,
            machine: ArrayHost::new(MEMORY_BYTES, &LIMITS),
            pairs: [START; 2],
            slots: [None; SLOTS],
            fetched: Vec::new(),
            space: vec![0; index(LIMITS.transfer_bytes_max)],
        }
    }

    /// Resets the controller, creates a queue pair, and names the host.
    pub(super) fn connect(&mut self, host: &[u8; 16], store: &Store) {
        self.set(CONFIGURATION, 0, store);
        self.pairs = [START; 2];
        self.machine.memory[..wide_index(ADMIN_DATA)].fill(0);
        self.set(QUEUE_SIZES, (ENTRIES - 1) | (ENTRIES - 1) << 16, store);
        let (submission, completion) = QUEUES[0];
        for (register, address) in QUEUE_ADDRESSES.into_iter().zip([submission, completion]) {
            self.set(register, short_length(wide_index(address)), store);
        }
        self.set(CONFIGURATION, ENABLED, store);
        let size = 1 | (ENTRIES - 1) << 16;
        let (submission, completion) = QUEUES[1];
        for (opcode, address, flags) in
            [(admin::CREATE_COMPLETION_QUEUE, completion, 1), (admin::CREATE_SUBMISSION_QUEUE, submission, 1 | 1 << 16)]
        {
            let dwords = [size, flags, 0, 0, 0, 0];
            let create = SubmissionEntry { opcode, prp1: address, dwords, ..SubmissionEntry::default() };
            assert_eq!(self.execute_admin_command(create, store), Status::SUCCESS, "queues of this size are allowed");
        }
        self.machine.memory[wide_index(ADMIN_DATA)..][..16].copy_from_slice(host);
        let dwords = [HOST_IDENTIFIER, 1, 0, 0, 0, 0];
        let name = SubmissionEntry { opcode: admin::SET_FEATURES, dwords, ..SubmissionEntry::default() };
        assert_eq!(self.execute_admin_command(name, store), Status::SUCCESS, "a host may name itself");
    }

    fn set(&mut self, register: u64, value: u32, store: &Store) {
        self.machine.registers.write(register, &value.to_le_bytes());
        self.controller.update(&mut self.machine, store);
    }

    /// Executes an admin command with its data, if any, at a place of its own.
    fn execute_admin_command(&mut self, mut entry: SubmissionEntry, store: &Store) -> Status {
        if entry.prp1 == 0 {
            entry.prp1 = ADMIN_DATA;
        }
        self.ring(0, entry);
        self.controller.update(&mut self.machine, store);
        while !matches!(self.controller.next_command(0, &mut self.machine), NextCommand::None) {}
        self.controller.update(&mut self.machine, store);
        self.completion(0).expect("admin commands complete at once").status.kind()
    }

    /// Reads a log page of the namespaces.
    ///
    /// # Errors
    /// The status with which the controller refuses.
    pub(super) fn read_log(&mut self, page: u32, store: &Store) -> Result<Vec<u8>, Status> {
        let dwords = [page | (LOG_BYTES / 4 - 1) << 16, 0, 0, 0, 0, 0];
        let namespace_id = u32::MAX;
        let log = SubmissionEntry { opcode: admin::GET_LOG_PAGE, namespace_id, dwords, ..SubmissionEntry::default() };
        match self.execute_admin_command(log, store) {
            Status::SUCCESS => Ok(self.machine.memory[wide_index(ADMIN_DATA)..][..index(LOG_BYTES)].to_vec()),
            status => Err(status),
        }
    }

    /// Returns a slot without a command.
    pub(super) fn free_command_slot(&self) -> Option<usize> {
        self.slots.iter().position(Option::is_none)
    }

    /// Submits the command of a call in a slot.
    pub(super) fn submit(&mut self, slot: usize, call: usize, mut entry: SubmissionEntry, data: &[u8]) {
        let address = DATA + length(slot) * PAGE;
        self.machine.memory[wide_index(address)..][..data.len()].copy_from_slice(data);
        (entry.prp1, entry.command_id) = (address, u16::try_from(slot).unwrap_or_default());
        self.slots[slot] = Some(call);
        self.ring(1, entry);
    }

    fn ring(&mut self, queue: usize, entry: SubmissionEntry) {
        let pair = &mut self.pairs[queue];
        let at = wide_index(QUEUES[queue].0 + u64::from(pair.tail) * 64);
        self.machine.memory[at..at + 64].copy_from_slice(&entry.encode());
        pair.tail = (pair.tail + 1) % ENTRIES;
        self.machine.doorbells[queue].0 = pair.tail;
    }

    /// Lets the controller fetch one command. Returns its call if it was refused; none if there is no command.
    pub(super) fn fetch(&mut self, store: &Store) -> Option<Option<usize>> {
        self.controller.update(&mut self.machine, store);
        match self.controller.next_command(1, &mut self.machine) {
            NextCommand::Io(command) => {
                let call = self.slots[usize::from(command.entry().command_id)];
                let refused = call.filter(|_| command.checked.is_err());
                self.fetched.push((call, command));
                Some(refused)
            }
            _ => None,
        }
    }

    /// Returns the number of commands that the controller has fetched and not executed.
    pub(super) fn in_hand(&self) -> usize {
        self.fetched.len()
    }

    /// Executes one of the fetched commands. Returns its call, unless the host has lost it.
    pub(super) fn execute(&mut self, place: usize, store: &Store) -> Option<usize> {
        let (call, command) = self.fetched.swap_remove(place);
        let progress = self.controller.execute(&command, &mut self.machine, store, &mut self.space);
        if progress == CommandProgress::NeedsFlush {
            self.controller.complete_flushed(&command, store.flush(), &mut self.machine);
        }
        call
    }

    /// Returns call, status and slot of the next completion.
    pub(super) fn reap(&mut self) -> Option<(usize, Status, usize)> {
        let completion = self.completion(1)?;
        let slot = usize::from(completion.command_id);
        let call = self.slots[slot].take().expect("a command completes once");
        Some((call, completion.status.kind(), slot))
    }

    fn completion(&mut self, queue: usize) -> Option<CompletionEntry> {
        let pair = &mut self.pairs[queue];
        let at = wide_index(QUEUES[queue].1 + u64::from(pair.head) * 16);
        let entry = CompletionEntry::decode(self.machine.memory[at..].first_chunk()?);
        if entry.phase != pair.phase {
            return None;
        }
        pair.head = (pair.head + 1) % ENTRIES;
        pair.phase ^= pair.head == 0;
        self.machine.doorbells[queue].1 = pair.head;
        Some(entry)
    }

    /// Returns the first bytes of the data of a slot.
    pub(super) fn data(&self, slot: usize, bytes: u32) -> &[u8] {
        &self.machine.memory[wide_index(DATA + length(slot) * PAGE)..][..index(bytes)]
    }

    /// Forgets all commands in flight, as a host does that resets the controller. Returns their calls.
    pub(super) fn lose(&mut self) -> Vec<usize> {
        self.fetched.iter_mut().for_each(|(call, _)| *call = None);
        self.slots.iter_mut().filter_map(Option::take).collect()
    }
}
