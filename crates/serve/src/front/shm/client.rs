//! A client as the device sees it: memory that says anything, and what may be made of it.

use std::io;
use std::sync::atomic::Ordering;

use phaselink_core::request::{Io, Op};
use phaselink_ring::chunk::{self, AHEAD_BYTES, COMMAND_WORDS, Word};
use phaselink_ring::command::{COMMAND_BYTES, Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{self, Layout, QueueOffsets, words};
use phaselink_ring::shared::memory::Memory;
use phaselink_ring::status::Status;

use super::share::SharePart;
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreAccess, copy};

/// Distance of the ring entry that is loaded into the cache together with a fetched command, for rings in which many commands
/// wait.
const ENTRIES_AHEAD: u32 = 3;

/// Queue of a client, and how far its ring has been read. The structure fills cache lines of its own, as the queue beside it
/// may be another thread's.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct QueueRing {
    places: QueueOffsets,
    head: u32,
    pass: u8,
    /// Number of commands in flight: no more than slots.
    in_flight: u32,
    /// Turn of its requests among the modelled threads.
    turn: u16,
}

/// A ring fills its lines, wherever it is allocated.
const _: () = assert!(align_of::<QueueRing>() >= 64 && size_of::<QueueRing>().is_multiple_of(64));

/// Client, with those of its queues that one device thread owns, and a mapping of its memory.
#[derive(Debug)]
#[repr(align(64))]
pub struct Client {
    /// Number that is never used again, so that a request whose client has gone finds nobody.
    pub number: u64,
    memory: Memory,
    layout: Layout,
    part: SharePart,
    /// Queues of this thread.
    rings: Vec<QueueRing>,
}

/// Checked command, with its place on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedCommand {
    /// Operation.
    pub operation: Operation,
    /// First byte on the drive.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Queue of the command.
    pub queue: u32,
    /// Instant of the submission, as the client says, in nanoseconds of the system's clock.
    pub asked_ns: u64,
    /// Slot of its buffer.
    pub slot: u16,
    attempt: u8,
}

impl CheckedCommand {
    /// Returns operation, place and size.
    #[inline]
    pub fn io(&self) -> Io {
        match self.operation {
            Operation::Read => Io { op: Op::Read, offset: self.offset, bytes: self.bytes },
            Operation::Write => Io { op: Op::Write, offset: self.offset, bytes: self.bytes },
            Operation::Flush => Io::flush(),
        }
    }
}

/// Result of a look at a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEntry {
    /// The ring is empty, or all slots are in use.
    Nothing,
    /// Invalid command, which has been completed with an error if it named a slot.
    Refused,
    /// A valid command.
    Command(CheckedCommand),
}

impl Client {
    /// Makes a client with memory of this layout and a part of the drive, with these of its queues, which are counted from 0
    /// from here on.
    pub fn new(
        number: u64,
        memory: Memory,
        layout: Layout,
        part: SharePart,
        queues: impl IntoIterator<Item = u32>,
    ) -> Client {
        let ring = |queue| QueueRing { places: layout.places(queue), head: 0, pass: FIRST_PASS, in_flight: 0, turn: 0 };
        Client { number, memory, layout, part, rings: queues.into_iter().map(ring).collect() }
    }

    /// Returns the number of queues.
    #[inline]
    pub fn queues(&self) -> u32 {
        self.rings.len() as u32
    }

    /// Takes the next command of a queue, if there is one and a slot for it.
    #[inline]
    pub fn take(&mut self, queue: u32) -> RingEntry {
        let ring = &mut self.rings[queue as usize];
        if ring.in_flight >= self.layout.slots() {
            return RingEntry::Nothing;
        }
        let entry = self.memory.words(ring.places.entry(ring.head), COMMAND_WORDS);
        let Some(bytes) = chunk::take(entry, ring.pass) else { return RingEntry::Nothing };
        (ring.head, ring.pass) = next_entry(ring.head, ring.pass, self.layout.entries);
        let later = (ring.head + ENTRIES_AHEAD) % self.layout.entries;
        self.memory.word(ring.places.entry(later)).prefetch();
        match self.check(queue, &bytes) {
            Ok(checked) => {
                self.rings[queue as usize].in_flight += 1;
                RingEntry::Command(checked)
            }
            Err(status) => {
                self.refuse(queue, &bytes, status);
                RingEntry::Refused
            }
        }
    }

    #[inline]
    fn places(&self, queue: u32) -> &QueueOffsets {
        &self.rings[queue as usize].places
    }

    /// Begins to load into the cache what a command needs: the store's bytes, and the client's lines.
    #[inline]
    pub fn prefetch(&self, command: &CheckedCommand, store: &Store) {
        let CheckedCommand { operation, offset, bytes, queue, slot, .. } = *command;
        let buffer = self.memory.words(self.places(queue).buffer(slot.into()), words(bytes));
        match operation {
            Operation::Read => {
                store.prefetch(offset, bytes.min(AHEAD_BYTES as u32));
                chunk::prefetch_to_write(buffer);
            }
            Operation::Write => {
                store.prefetch_to_write(offset, bytes);
                chunk::prefetch(&buffer[..words(bytes.min(AHEAD_BYTES as u32))]);
            }
            Operation::Flush => {}
        }
    }

    /// Returns true if a queue has a command, for a thread that is about to sleep.
    pub fn has_command(&self, queue: u32) -> bool {
        let ring = &self.rings[queue as usize];
        chunk::take(self.memory.words(ring.places.entry(ring.head), COMMAND_WORDS), ring.pass).is_some()
    }

    /// Checks a private copy of a command.
    #[inline]
    fn check(&self, queue: u32, command: &[u8; COMMAND_BYTES]) -> Result<CheckedCommand, Status> {
        let asked_ns = layout::stamped_ns(command);
        let command = &Command::decode(command).ok_or(Status::Invalid)?;
        let &Command { operation, slot, attempt, offset, bytes, buffer, .. } = command;
        let is_own = u32::from(slot) < self.layout.slots() && buffer == self.places(queue).buffer(slot.into());
        if !is_own {
            return Err(Status::Invalid);
        }
        let checked = CheckedCommand { operation, offset: self.part.start, bytes, queue, asked_ns, slot, attempt };
        match operation {
            Operation::Flush if bytes == 0 => return Ok(checked),
            Operation::Flush => return Err(Status::Invalid),
            Operation::Write if !self.part.writes => return Err(Status::ReadOnly),
            _ => {}
        }
        if bytes > self.layout.transfer_bytes || !command.is_within(self.part.bytes, self.part.block_bytes) {
            return Err(Status::Invalid);
        }
        Ok(CheckedCommand { offset: self.part.start + offset, ..checked })
    }

    /// Completes an invalid command with an error, in the slot that it names, if that is one.
    #[cold]
    fn refuse(&self, queue: u32, bytes: &[u8; COMMAND_BYTES], status: Status) {
        // Any operation reads back the rest of the command.
        let mut named = *bytes;
        named[0] = Operation::Read as u8;
        let Some(Command { slot, attempt, .. }) = Command::decode(&named) else { return };
        if u32::from(slot) < self.layout.slots() {
            self.answer(queue, slot, attempt, status);
        }
    }

    /// Executes a command and completes it. `space` has room for the largest transfer.
    ///
    /// # Panics
    /// If it is a flush: [`Clients::flush`](super::clients::Clients::flush) sees to these.
    #[inline]
    pub fn execute(&mut self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let status = self.transfer(command, store, space);
        self.finish(command, status, 0);
        status
    }

    /// Moves the data of a command, and returns the status that it is to be completed with.
    ///
    /// # Panics
    /// As [`Client::execute`].
    #[inline]
    pub fn transfer(&self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let CheckedCommand { operation, offset, bytes, queue, slot, .. } = *command;
        let buffer = self.memory.words(self.places(queue).buffer(slot.into()), words(bytes));
        let space = &mut space[..bytes as usize];
        let done = match operation {
            Operation::Read => {
                let forwarded = store.lend(offset, bytes, StoreAccess::Read, |words| chunk::forward(buffer, words));
                forwarded.map_or_else(|| store.read(offset, space).map(|()| chunk::deliver(buffer, space)), Ok)
            }
            Operation::Write => {
                let copied = store.lend(offset, bytes, StoreAccess::Write, |words| copy::into_store(buffer, words));
                copied.map_or_else(
                    || {
                        chunk::copy_out(buffer, space);
                        store.write(offset, space)
                    },
                    Ok,
                )
            }
            Operation::Flush => unreachable!("a flush moves no data"),
        };
        status(done)
    }

    /// Completes a command, which its client takes for completed `latency_ns` after the submission.
    #[inline]
    pub fn finish(&mut self, command: &CheckedCommand, status: Status, latency_ns: u64) {
        let latency = self.memory.word(self.places(command.queue).latency(command.slot.into()));
        latency.store(latency_ns, Ordering::Relaxed);
        self.answer(command.queue, command.slot, command.attempt, status);
        self.rings[command.queue as usize].in_flight -= 1;
    }

    /// Forgets a command that is never completed: its client may use the slot again, if it gives the command up.
    pub fn forget(&mut self, command: &CheckedCommand) {
        self.rings[command.queue as usize].in_flight -= 1;
    }

    /// Moves as much of a command's data as the effect of a fault lets it, and returns the status. The data of a read is its
    /// completion, so none of it moves if that fails or is dropped. A completion that is repeated is the same word again.
    #[cold]
    pub fn transfer_with(
        &self,
        effect: FaultEffect,
        command: &CheckedCommand,
        store: &Store,
        space: &mut [u8],
    ) -> Status {
        let bytes = effect.kept_bytes(command.bytes, self.part.block_bytes);
        let done = match command.operation {
            Operation::Read if effect.succeeds() => self.transfer(command, store, space),
            Operation::Write if bytes > 0 => self.transfer(&CheckedCommand { bytes, ..*command }, store, space),
            _ => Status::Success,
        };
        if effect.fails { Status::Failed } else { done }
    }

    #[inline]
    fn answer(&self, queue: u32, slot: u16, attempt: u8, status: Status) {
        let word = self.memory.word(self.places(queue).status(slot.into()));
        word.store(status.word(attempt), Ordering::Release);
    }

    /// Tells clients by the mode word if they have to ring a doorbell.
    pub fn tell_mode(&self, mode: u8) {
        for queue in 0..self.queues() {
            self.memory.word(self.places(queue).mode_word).store(mode.into(), Ordering::SeqCst);
        }
    }

    /// Returns the turn of a queue's requests among the modelled threads.
    #[inline]
    pub fn turn(&self, queue: u32) -> u16 {
        self.rings[queue as usize].turn
    }

    /// Sets the turn of a queue's requests among the modelled threads.
    pub fn set_turn(&mut self, queue: u32, turn: u16) {
        self.rings[queue as usize].turn = turn;
    }
}

#[cfg(test)]
impl Client {
    /// Returns the cache lines of this process's memory that serving requests writes.
    pub fn lines_written(&self) -> impl Iterator<Item = usize> {
        let lines = |start: usize, bytes: usize| start / 64..(start + bytes).div_ceil(64);
        let rings = lines(self.rings.as_ptr() as usize, size_of_val(&self.rings[..]));
        lines(&raw const *self as usize, size_of::<Client>()).chain(rings)
    }

    /// Returns the cache lines of the client's memory that serving requests writes.
    pub fn lines_shared(&self) -> impl Iterator<Item = u64> {
        self.rings.iter().flat_map(|QueueRing { places, .. }| {
            let slots = (0..self.layout.slots()).flat_map(|slot| {
                let (buffer, bytes) = (places.buffer(slot), u64::from(self.layout.transfer_bytes));
                (buffer / 64..(buffer + bytes).div_ceil(64))
                    .chain([places.status(slot) / 64, places.latency(slot) / 64])
            });
            slots.chain([places.mode_word / 64])
        })
    }
}

/// Returns the status for the result of the store.
pub fn status(done: io::Result<()>) -> Status {
    done.map_or_else(|error| Status::from_error(&error), |()| Status::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_keeps_the_turn_that_it_was_given() {
        let layout = Layout { queues: 3, entries: 8, transfer_bytes: 512 };
        let (memory, _) = Memory::create(layout.memory_bytes()).unwrap();
        let part = SharePart { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let mut client = Client::new(1, memory, layout, part, 0..3);
        (0..3).for_each(|queue| client.set_turn(queue, 10 + queue as u16));
        assert_eq!([0, 1, 2].map(|queue| client.turn(queue)), [10, 11, 12]);
    }
}
