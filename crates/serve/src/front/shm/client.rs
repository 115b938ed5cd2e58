//! Client as the device sees it: memory with arbitrary content, and the checks of the commands in it.

use std::io;
use std::sync::atomic::Ordering;

use phaselink_client::chunk::{self, AHEAD_BYTES, COMMAND_WORDS, Word};
use phaselink_client::shared::memory::Memory;
use phaselink_core::number::{index, short_length};
use phaselink_core::request::{Io, Op};
use phaselink_ring::command::{COMMAND_BYTES, Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{self, Layout, QueueOffsets, words};
use phaselink_ring::status::Status;

use super::share::DriveRange;
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreCopyDirection, copy};

/// Distance, in entries, of the ring entry that is prefetched together with a fetched command, for rings in which many
/// commands wait.
const ENTRIES_AHEAD: u32 = 3;

/// Ring of one client queue, with the position up to which it has been read. It fills cache lines of its own, as
/// another thread may write the ring beside it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct ClientQueueRing {
    places: QueueOffsets,
    head: u32,
    pass: u8,
    /// Number of commands in flight, which is never larger than the number of slots.
    in_flight: u32,
    /// Turn of the queue, which selects the modelled thread that submits its requests.
    turn: u16,
}

/// Compile-time check that the state of a ring fills whole cache lines, wherever it is allocated.
const _: () = assert!(align_of::<ClientQueueRing>() >= 64 && size_of::<ClientQueueRing>().is_multiple_of(64));

/// Client with a mapping of its memory, and those of its queues that one device thread owns.
#[derive(Debug)]
#[repr(align(64))]
pub struct Client {
    /// Number of the client, which is never used again, so that a request whose client has gone finds no client.
    pub number: u64,
    memory: Memory,
    layout: Layout,
    part: DriveRange,
    /// Rings of those queues of the client that this device thread owns.
    rings: Vec<ClientQueueRing>,
}

/// Command that has passed all checks, with its range on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedCommand {
    /// Operation of the command: read, write or flush.
    pub operation: Operation,
    /// Offset on the drive, in bytes, of the first byte that the command reads or writes.
    pub offset: u64,
    /// Length of the command's range on the drive, in bytes.
    pub bytes: u32,
    /// Index of the command's queue, among those of its client that the device thread owns.
    pub queue: u32,
    /// Instant of the submission according to the client, in nanoseconds of the system's monotonic clock.
    pub asked_ns: u64,
    /// Number of the slot whose buffer and status word the command uses.
    pub slot: u16,
    attempt: u8,
}

impl CheckedCommand {
    /// Returns operation, offset and length of the command.
    #[inline]
    pub fn io(&self) -> Io {
        match self.operation {
            Operation::Read => Io { op: Op::Read, offset: self.offset, bytes: self.bytes },
            Operation::Write => Io { op: Op::Write, offset: self.offset, bytes: self.bytes },
            Operation::Flush => Io::flush(),
        }
    }
}

/// Result of an attempt to take a command from a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEntry {
    /// No command: the ring is empty, or all slots are in flight.
    Nothing,
    /// Invalid command, which has been completed with an error if it names a slot of the queue.
    Refused,
    /// A valid command, which is now in flight.
    Command(CheckedCommand),
}

impl Client {
    /// Makes a client with memory of this layout and access to a part of the drive. `queues` are those of its queues
    /// that the thread owns; from here on they are counted from 0.
    pub fn new(
        number: u64,
        memory: Memory,
        layout: Layout,
        part: DriveRange,
        queues: impl IntoIterator<Item = u32>,
    ) -> Client {
        let ring =
            |queue| ClientQueueRing { places: layout.places(queue), head: 0, pass: FIRST_PASS, in_flight: 0, turn: 0 };
        Client { number, memory, layout, part, rings: queues.into_iter().map(ring).collect() }
    }

    /// Returns the number of the client's queues that the device thread owns.
    #[inline]
    pub fn queues(&self) -> u32 {
        short_length(self.rings.len())
    }

    /// Takes the next command of a queue, if there is one and not all slots are in flight, and checks it.
    #[inline]
    pub fn take_command(&mut self, queue: u32) -> RingEntry {
        let ring = &mut self.rings[index(queue)];
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
                self.rings[index(queue)].in_flight += 1;
                RingEntry::Command(checked)
            }
            Err(status) => {
                self.complete_with_error_status(queue, &bytes, status);
                RingEntry::Refused
            }
        }
    }

    #[inline]
    fn places(&self, queue: u32) -> &QueueOffsets {
        &self.rings[index(queue)].places
    }

    /// Prefetches what the transfer of a command needs: the bytes of the store, and the cache lines of the client's
    /// buffer.
    #[inline]
    pub fn prefetch_data(&self, command: &CheckedCommand, store: &Store) {
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

    /// Returns true if a command waits in a queue. A thread that is about to sleep calls this; the command stays there.
    pub fn has_command(&self, queue: u32) -> bool {
        let ring = &self.rings[index(queue)];
        chunk::take(self.memory.words(ring.places.entry(ring.head), COMMAND_WORDS), ring.pass).is_some()
    }

    /// Checks a command, of which `command` is a private copy that the client cannot change.
    #[inline]
    fn check(&self, queue: u32, command: &[u8; COMMAND_BYTES]) -> Result<CheckedCommand, Status> {
        let asked_ns = layout::load_submission_time_ns(command);
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

    /// Completes an invalid command with an error in the slot that it names, if the queue has such a slot.
    #[cold]
    fn complete_with_error_status(&self, queue: u32, bytes: &[u8; COMMAND_BYTES], status: Status) {
        // `decode` refuses the command only for its operation, so replace that to get the other fields.
        let mut named = *bytes;
        named[0] = Operation::Read as u8;
        let Some(Command { slot, attempt, .. }) = Command::decode(&named) else { return };
        if u32::from(slot) < self.layout.slots() {
            self.answer(queue, slot, attempt, status);
        }
    }

    /// Executes a command other than a flush, and completes it. `space` is a buffer for its data.
    ///
    /// # Panics
    /// If the command is a flush, which the caller must execute.
    #[inline]
    pub fn execute(&mut self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let status = self.transfer(command, store, space);
        self.finish(command, status, 0);
        status
    }

    /// Moves the data of a command other than a flush, and returns the status for its completion. `space` is a buffer
    /// for the data.
    ///
    /// # Panics
    /// As [`Client::execute`].
    #[inline]
    pub fn transfer(&self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let CheckedCommand { operation, offset, bytes, queue, slot, .. } = *command;
        let buffer = self.memory.words(self.places(queue).buffer(slot.into()), words(bytes));
        let space = &mut space[..index(bytes)];
        let done = match operation {
            Operation::Read => {
                let forwarded =
                    store.lend(offset, bytes, StoreCopyDirection::Read, |words| chunk::forward(buffer, words));
                forwarded.map_or_else(|| store.read(offset, space).map(|()| chunk::deliver(buffer, space)), Ok)
            }
            Operation::Write => {
                let copied = store
                    .lend(offset, bytes, StoreCopyDirection::Write, |words| copy::copy_words_into_store(buffer, words));
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

    /// Completes a command with `status`. The client treats it as completed `latency_ns` nanoseconds after its
    /// submission.
    #[inline]
    pub fn finish(&mut self, command: &CheckedCommand, status: Status, latency_ns: u64) {
        let latency = self.memory.word(self.places(command.queue).latency(command.slot.into()));
        latency.store(latency_ns, Ordering::Relaxed);
        self.answer(command.queue, command.slot, command.attempt, status);
        self.rings[index(command.queue)].in_flight -= 1;
    }

    /// Releases a command that a fault never lets complete. The client may use the slot again, if it gives up the
    /// command.
    pub fn forget(&mut self, command: &CheckedCommand) {
        self.rings[index(command.queue)].in_flight -= 1;
    }

    /// Moves as much of a command's data as the effect of a fault allows, and returns the status for the completion.
    /// The data of a read is itself its completion, so that none moves if the completion fails or is dropped.
    #[cold]
    pub fn transfer_data_with_fault(
        &self,
        effect: FaultEffect,
        command: &CheckedCommand,
        store: &Store,
        space: &mut [u8],
    ) -> Status {
        let bytes = effect.kept_bytes(command.bytes, self.part.block_bytes);
        let done = match command.operation {
            Operation::Read if effect.reports_success() => self.transfer(command, store, space),
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

    /// Tells the client, by the mode word of each queue, if it must ring a doorbell after a submission.
    pub fn tell_mode(&self, mode: u8) {
        for queue in 0..self.queues() {
            self.memory.word(self.places(queue).mode_word).store(mode.into(), Ordering::SeqCst);
        }
    }

    /// Returns the turn of a queue, which selects the modelled thread that submits the queue's requests.
    #[inline]
    pub fn turn(&self, queue: u32) -> u16 {
        self.rings[index(queue)].turn
    }

    /// Sets the turn of a queue, which selects the modelled thread that submits the queue's requests.
    pub fn set_submitting_thread_turn(&mut self, queue: u32, turn: u16) {
        self.rings[index(queue)].turn = turn;
    }
}

/// Returns the status of a command for the result of an operation on the store.
pub fn status(done: io::Result<()>) -> Status {
    done.map_or_else(|error| Status::from_error(&error), |()| Status::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Client {
        /// Returns the numbers (address / 64) of the cache lines of server memory that a device thread writes for this
        /// client's requests. A test proves by them that no two threads share a line.
        pub fn written_server_cache_lines(&self) -> impl Iterator<Item = usize> {
            let lines = |start: usize, bytes: usize| start / 64..(start + bytes).div_ceil(64);
            let rings = lines(self.rings.as_ptr() as usize, size_of_val(&self.rings[..]));
            lines(&raw const *self as usize, size_of::<Client>()).chain(rings)
        }

        /// Returns the numbers (offset / 64) of the cache lines of the client's memory that a device thread writes for
        /// its requests. A test proves by them that no two threads share a line.
        pub fn written_client_cache_lines(&self) -> impl Iterator<Item = u64> {
            self.rings.iter().flat_map(|ClientQueueRing { places, .. }| {
                let slots = (0..self.layout.slots()).flat_map(|slot| {
                    let (buffer, bytes) = (places.buffer(slot), u64::from(self.layout.transfer_bytes));
                    (buffer / 64..(buffer + bytes).div_ceil(64))
                        .chain([places.status(slot) / 64, places.latency(slot) / 64])
                });
                slots.chain([places.mode_word / 64])
            })
        }
    }

    #[test]
    fn each_shm_queue_uses_the_thread_turn_set_for_it() {
        let layout = Layout { queues: 3, entries: 8, transfer_bytes: 512 };
        let (memory, _) = Memory::create(layout.memory_bytes()).unwrap();
        let part = DriveRange { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let mut client = Client::new(1, memory, layout, part, 0..3);
        (0..3).for_each(|queue| client.set_submitting_thread_turn(queue, 10 + queue as u16));
        assert_eq!([0, 1, 2].map(|queue| client.turn(queue)), [10, 11, 12]);
    }
}
