//! A client as the device sees it: memory that says anything, and what may be made of it.

use std::io;
use std::sync::atomic::Ordering;

use phaselink_core::request::{Io, Op};
use phaselink_ring::chunk::{self, AHEAD_BYTES, COMMAND_WORDS, Word};
use phaselink_ring::command::{COMMAND_BYTES, Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{self, Layout, QueueOffsets, words};
use phaselink_ring::shared::memory::Memory;
use phaselink_ring::status::Status;

use super::share::Part;
use crate::device::faults::FaultEffect;
use crate::device::store::Store;

/// Where many commands wait, the entry so far behind the one that is taken is fetched with it.
const ENTRIES_AHEAD: u32 = 3;

/// One queue, and how far its ring has been read; on lines of its own, as the queue beside it may be another thread's.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Ring {
    places: QueueOffsets,
    head: u32,
    pass: u8,
    /// Commands that have been taken and not been answered: no more than slots.
    under_way: u32,
    /// The model's thread that asks for this client's.
    thread: u16,
}

/// A ring fills its lines, wherever it is allocated.
const _: () = assert!(align_of::<Ring>() >= 64 && size_of::<Ring>().is_multiple_of(64));

/// A client, or as much of it as one device thread has: some of its queues, and a mapping of its memory.
#[derive(Debug)]
#[repr(align(64))]
pub struct Client {
    /// Never used again, so that what completes after its client has gone finds nobody.
    pub number: u64,
    memory: Memory,
    layout: Layout,
    part: Part,
    /// Those of this thread.
    rings: Vec<Ring>,
}

/// A command that has been checked, with its place on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedCommand {
    pub operation: Operation,
    pub offset: u64,
    pub bytes: u32,
    pub queue: u32,
    /// When the client says that it asked.
    pub asked_ns: u64,
    /// The place of its buffer.
    pub slot: u16,
    attempt: u8,
}

impl CheckedCommand {
    /// What it is to a memory, if it moves data.
    pub fn io(&self) -> Option<Io> {
        let op = match self.operation {
            Operation::Read => Op::Read,
            Operation::Write => Op::Write,
            Operation::Flush => return None,
        };
        Some(Io { op, offset: self.offset, bytes: self.bytes })
    }

    /// The same as if it were asked when it is found.
    pub fn without_way(self) -> CheckedCommand {
        CheckedCommand { asked_ns: 0, ..self }
    }
}

/// What a look at a ring has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Nothing,
    /// A command that is not executed; it has been answered if it said where.
    Refused,
    Command(CheckedCommand),
}

impl Client {
    /// A client with memory of this layout and a part of the drive, as far as it is these of its queues. From here on, they
    /// are counted from 0.
    pub fn new(
        number: u64,
        memory: Memory,
        layout: Layout,
        part: Part,
        queues: impl IntoIterator<Item = u32>,
    ) -> Client {
        let ring = |queue| Ring { places: layout.places(queue), head: 0, pass: FIRST_PASS, under_way: 0, thread: 0 };
        Client { number, memory, layout, part, rings: queues.into_iter().map(ring).collect() }
    }

    /// How many queues it has.
    #[inline]
    pub fn queues(&self) -> u32 {
        self.rings.len() as u32
    }

    /// The next command of a queue, if there is one and room for it.
    #[inline]
    pub fn take(&mut self, queue: u32) -> Taken {
        let ring = &mut self.rings[queue as usize];
        if ring.under_way >= self.layout.slots() {
            return Taken::Nothing;
        }
        let entry = self.memory.words(ring.places.entry(ring.head), COMMAND_WORDS);
        let Some(bytes) = chunk::take(entry, ring.pass) else { return Taken::Nothing };
        (ring.head, ring.pass) = next_entry(ring.head, ring.pass, self.layout.entries);
        let later = (ring.head + ENTRIES_AHEAD) % self.layout.entries;
        self.memory.word(ring.places.entry(later)).prefetch();
        match self.check(queue, &bytes) {
            Ok(checked) => {
                self.rings[queue as usize].under_way += 1;
                Taken::Command(checked)
            }
            Err(status) => {
                self.refuse(queue, &bytes, status);
                Taken::Refused
            }
        }
    }

    #[inline]
    fn places(&self, queue: u32) -> &QueueOffsets {
        &self.rings[queue as usize].places
    }

    /// Begin to fetch what executing a command will need: the store's bytes, and the client's lines.
    #[inline]
    pub fn prefetch(&self, command: &CheckedCommand, store: &Store) {
        let CheckedCommand { operation, offset, bytes, queue, slot, .. } = *command;
        if operation == Operation::Read {
            store.prefetch(offset, bytes.min(AHEAD_BYTES as u32));
            let buffer = self.memory.words(self.places(queue).buffer(slot.into()), words(bytes));
            chunk::prefetch_to_write(buffer);
        }
    }

    /// Whether a queue has a command, for a device that is about to sleep.
    pub fn has_command(&self, queue: u32) -> bool {
        let ring = &self.rings[queue as usize];
        chunk::take(self.memory.words(ring.places.entry(ring.head), COMMAND_WORDS), ring.pass).is_some()
    }

    /// What a private copy of a command asks for, if it may.
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

    /// Say no, in the slot that the command names, if it is one.
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

    /// Move the data of a command, answer it, and forget it. `space` has room for the largest transfer.
    ///
    /// # Panics
    /// If it is a flush: [`Clients::flush`](super::clients::Clients::flush) sees to these.
    #[inline]
    pub fn execute(&mut self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let status = self.transfer(command, store, space);
        self.finish(command, status, 0);
        status
    }

    /// Move the data of a command, and do not answer it yet: what the answer will be.
    ///
    /// # Panics
    /// As [`Client::execute`].
    #[inline]
    pub fn transfer(&self, command: &CheckedCommand, store: &Store, space: &mut [u8]) -> Status {
        let CheckedCommand { operation, offset, bytes, queue, slot, .. } = *command;
        let buffer = self.memory.words(self.places(queue).buffer(slot.into()), words(bytes));
        let space = &mut space[..bytes as usize];
        let done = match operation {
            Operation::Read => match store.words(offset, bytes) {
                Some(words) => {
                    chunk::forward(buffer, words);
                    Ok(())
                }
                None => store.read(offset, space).map(|()| chunk::deliver(buffer, space)),
            },
            Operation::Write => {
                chunk::copy_out(buffer, space);
                store.write(offset, space)
            }
            Operation::Flush => unreachable!("a flush moves no data"),
        };
        status(done)
    }

    /// Answer a command, whose client takes it for done `latency_ns` after it was asked, and forget it.
    #[inline]
    pub fn finish(&mut self, command: &CheckedCommand, status: Status, latency_ns: u64) {
        let latency = self.memory.word(self.places(command.queue).latency(command.slot.into()));
        latency.store(latency_ns, Ordering::Relaxed);
        self.answer(command.queue, command.slot, command.attempt, status);
        self.rings[command.queue as usize].under_way -= 1;
    }

    /// A command is never answered: its client may use its slot again, if it gives it up.
    pub fn forget(&mut self, command: &CheckedCommand) {
        self.rings[command.queue as usize].under_way -= 1;
    }

    /// What of a command's data moves if something goes wrong with it, and what its answer will be then. Data of a read is its
    /// answer, so none of it does if that fails or is not told. An answer that is given twice is the same word again.
    #[cold]
    pub fn suffer(&self, command: &CheckedCommand, effect: FaultEffect, store: &Store, space: &mut [u8]) -> Status {
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

    /// Tell the hosts whether to ring.
    pub fn tell_mode(&self, mode: u8) {
        for queue in 0..self.queues() {
            self.memory.word(self.places(queue).mode_word).store(mode.into(), Ordering::SeqCst);
        }
    }

    /// The model's thread for a queue.
    pub fn thread(&self, queue: u32) -> u16 {
        self.rings[queue as usize].thread
    }

    /// Let a queue's requests be those of this thread of the model.
    pub fn set_thread(&mut self, queue: u32, thread: u16) {
        self.rings[queue as usize].thread = thread;
    }
}

#[cfg(test)]
impl Client {
    /// Cache lines of this process's memory that serving requests writes.
    pub fn lines_written(&self) -> impl Iterator<Item = usize> {
        let lines = |start: usize, bytes: usize| start / 64..(start + bytes).div_ceil(64);
        let rings = lines(self.rings.as_ptr() as usize, size_of_val(&self.rings[..]));
        lines(&raw const *self as usize, size_of::<Client>()).chain(rings)
    }

    /// Cache lines of the client's memory that serving requests writes.
    pub fn lines_shared(&self) -> impl Iterator<Item = u64> {
        self.rings.iter().flat_map(|Ring { places, .. }| {
            let slots = (0..self.layout.slots()).flat_map(|slot| {
                let (buffer, bytes) = (places.buffer(slot), u64::from(self.layout.transfer_bytes));
                (buffer / 64..(buffer + bytes).div_ceil(64))
                    .chain([places.status(slot) / 64, places.latency(slot) / 64])
            });
            slots.chain([places.mode_word / 64])
        })
    }
}

/// What becomes of a command whose store has done this.
pub fn status(done: io::Result<()>) -> Status {
    done.map_or_else(|error| Status::from_error(&error), |()| Status::Success)
}

/// fio's word for an operation, in traces.
pub fn action(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "datasync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_the_thread_of_the_model_that_it_was_given() {
        let layout = Layout { queues: 3, entries: 8, transfer_bytes: 512 };
        let (memory, _) = Memory::create(layout.memory_bytes()).unwrap();
        let part = Part { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let mut client = Client::new(1, memory, layout, part, 0..3);
        (0..3).for_each(|queue| client.set_thread(queue, 10 + queue as u16));
        assert_eq!([0, 1, 2].map(|queue| client.thread(queue)), [10, 11, 12]);
    }
}
