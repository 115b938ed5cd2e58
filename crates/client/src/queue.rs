//! Queue pair of one thread: commands go to the ring, reads complete by their tags, and writes and flushes by their
//! status.

use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use crate::chunk::{self, COMMAND_WORDS};
use crate::shared::clock;
use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{self, MODE_DOORBELL, QueueOffsets, words};
use phaselink_ring::status::Status;
use phaselink_ring::trailer::{ArrivalTagSource, Tag};

use crate::connection::Connection;

/// Number of failed polls of a slot, some microseconds, before the clock is read and the processor is yielded.
const POLLS_PER_CHECK: u32 = 1024;
/// First time-out of a command, after which a read may be stuck. A device whose thread keeps its processor takes less.
const TIMEOUT: Duration = Duration::from_millis(1);
/// Longest time-out of a command. Time-outs double up to this value, since a slow device does not mean a wrong tag.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Time in nanoseconds before the modelled completion at which a thread begins to copy the data: the time to copy a
/// page (measured: 70 to 130 ns).
const COPY_NS: u64 = 150;

/// Slot of a queue that a command occupies until it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u16);

impl Slot {
    /// Returns the slot of this number. [`Queue::complete`] checks that a command is in flight in it.
    pub fn from_number(number: u16) -> Slot {
        Slot(number)
    }

    /// Returns the number of the slot, below the depth of the queue.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// Command in flight, by its slot.
#[derive(Debug)]
struct PendingCommand {
    offset: u64,
    tag: u64,
    bytes: u32,
    operation: Operation,
    /// Submission time in nanoseconds of the steady clock; 0 if timing is off.
    submitted_ns: u64,
    /// True if the data has arrived before its completion time, and its buffer has been prefetched.
    is_near: bool,
    /// Number of polls that have not found the command complete.
    failed_polls: u32,
    /// Time-out of a command that takes long. None before the clock is read, when most commands have completed.
    late: Option<Box<Late>>,
}

/// Time-out of a command that takes long.
#[derive(Debug)]
struct Late {
    since: Instant,
    /// Time after `since` at which the command is examined.
    timeout: Duration,
}

/// Queue pair of a client, which one thread at a time may use.
#[derive(Debug)]
pub struct Queue {
    connection: Arc<Connection>,
    places: QueueOffsets,
    tail: u32,
    pass: u8,
    free: Vec<u16>,
    pending: Vec<Option<PendingCommand>>,
    /// Number of uses of each slot, modulo 256, which distinguishes a new status from an old one.
    attempts: Vec<u8>,
    /// Tag and length in bytes for which the buffer of each free slot is marked already, or none if it is not.
    marked: Vec<Option<(u64, u32)>>,
    tags: ArrivalTagSource,
    collisions: u64,
}

impl Queue {
    pub(crate) fn new(connection: Arc<Connection>, number: u32, seed: u64) -> Queue {
        let welcome = &connection.welcome;
        let slots = welcome.layout.slots() as u16;
        Queue {
            places: welcome.layout.places(number),
            tail: 0,
            pass: FIRST_PASS,
            free: (0..slots).rev().collect(),
            pending: (0..slots).map(|_| None).collect(),
            attempts: vec![0; slots.into()],
            marked: vec![None; slots.into()],
            tags: ArrivalTagSource::random(welcome.tag_width, seed),
            collisions: 0,
            connection,
        }
    }

    /// Returns the maximum number of commands in flight.
    pub fn depth(&self) -> usize {
        self.pending.len()
    }

    /// Returns the maximum length of one command's transfer in bytes.
    pub fn transfer_bytes_max(&self) -> u32 {
        self.connection.welcome.layout.transfer_bytes
    }

    /// Returns the number of reads that were repeated with another tag, because their data ended in the tag.
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Replaces the source of tags, for tests with data that ends in the tag.
    #[doc(hidden)]
    pub fn replace_tags(&mut self, tags: ArrivalTagSource) {
        self.tags = tags;
    }

    /// Submits a read of `bytes` bytes from `offset` on, and returns its slot, or none if the queue is full.
    ///
    /// # Errors
    ///
    /// If the read is longer than [`Queue::transfer_bytes_max`], or no whole number of blocks.
    pub fn submit_read(&mut self, offset: u64, bytes: u32) -> io::Result<Option<Slot>> {
        self.submit(Operation::Read, offset, bytes, &[])
    }

    /// Submits a write of `data` from `offset` on, and returns its slot, or none if the queue is full.
    ///
    /// # Errors
    ///
    /// Errors of [`Queue::submit_read`].
    pub fn submit_write(&mut self, offset: u64, data: &[u8]) -> io::Result<Option<Slot>> {
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.submit(Operation::Write, offset, bytes, data)
    }

    /// Submits a flush of all completed writes, and returns its slot, or none if the queue is full.
    ///
    /// # Errors
    ///
    /// None yet.
    pub fn submit_flush(&mut self) -> io::Result<Option<Slot>> {
        self.submit(Operation::Flush, 0, 0, &[])
    }

    /// Returns true if the command in `slot` has completed. The data of a read is then copied to `into`, as much as
    /// fits, and the slot is free.
    ///
    /// # Errors
    /// The error that the device reports for this command, whose slot is then free; or that the device has gone.
    pub fn complete(&mut self, slot: Slot, into: &mut [u8]) -> io::Result<bool> {
        let Some(Some(pending)) = self.pending.get(usize::from(slot.0)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing is under way in this slot"));
        };
        if self.connection.welcome.modelled {
            return self.complete_at_modelled_time(slot.0, into);
        }
        if pending.operation == Operation::Read {
            let buffer = self.buffer(slot.0, pending.bytes);
            if !chunk::is_complete(buffer, self.tag(pending.tag)) {
                return self.look_closer(slot.0);
            }
            chunk::copy_out(buffer, into);
            self.mark_ahead(slot.0, pending.bytes);
            self.release(slot.0);
            return Ok(true);
        }
        match self.status(slot.0) {
            None => self.look_closer(slot.0),
            Some(status) => {
                self.release(slot.0);
                status.result().map(|()| true)
            }
        }
    }

    /// Checks a command for completion with timing on. Data arrives as soon as the device can send it, and the status
    /// with the modelled latency when the model has decided. This thread spins for the rest of that latency, so that
    /// neither real memory nor the copy adds to it.
    fn complete_at_modelled_time(&mut self, slot: u16, into: &mut [u8]) -> io::Result<bool> {
        let &PendingCommand { tag, bytes, operation, submitted_ns, is_near, .. } =
            self.pending[usize::from(slot)].as_ref().expect("checked by the caller");
        let (buffer, tag) = (self.buffer(slot, bytes), self.tag(tag));
        let Some(status) = self.status(slot) else {
            if operation == Operation::Read && !is_near && chunk::is_complete(buffer, tag) {
                chunk::prefetch(buffer);
                self.pending_mut(slot).is_near = true;
            }
            return self.look_closer(slot);
        };
        if status == Status::Success {
            let latency = self.connection.memory.word(self.places.latency(slot.into()));
            let latency_ns = latency.load(Ordering::Relaxed).saturating_sub(self.connection.clock_reads_ns);
            let due_ns = submitted_ns.saturating_add(latency_ns);
            let mut now_ns = clock::now_ns();
            if now_ns.saturating_add(COPY_NS) < due_ns {
                return Ok(false);
            }
            if operation == Operation::Read {
                if !chunk::is_complete(buffer, tag) {
                    return self.look_closer(slot);
                }
                chunk::copy_out(buffer, into);
            }
            while now_ns < due_ns {
                now_ns = clock::now_ns();
            }
        }
        self.release(slot);
        status.result().map(|()| true)
    }

    /// Reads from `offset` on into `into`, and waits. A long read is split into several commands.
    ///
    /// # Errors
    /// The error that the device reports, or that it has gone.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let step = self.transfer_bytes_max() as usize;
        for (at, piece) in (offset..).step_by(step).zip(into.chunks_mut(step)) {
            self.run(Operation::Read, at, piece.len() as u32, &[], piece)?;
        }
        Ok(())
    }

    /// Writes `data` from `offset` on, and waits. A long write is split into several commands.
    ///
    /// # Errors
    ///
    /// Errors of [`Queue::read`].
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let step = self.transfer_bytes_max() as usize;
        for (at, piece) in (offset..).step_by(step).zip(data.chunks(step)) {
            self.run(Operation::Write, at, piece.len() as u32, piece, &mut [])?;
        }
        Ok(())
    }

    /// Makes everything written so far durable, and waits.
    ///
    /// # Errors
    /// As [`Queue::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.run(Operation::Flush, 0, 0, &[], &mut [])
    }

    fn run(&mut self, operation: Operation, offset: u64, bytes: u32, data: &[u8], into: &mut [u8]) -> io::Result<()> {
        let full = || io::Error::new(io::ErrorKind::ResourceBusy, "the queue is full");
        let slot = self.submit(operation, offset, bytes, data)?.ok_or_else(full)?;
        while !self.complete(slot, into)? {
            hint::spin_loop();
        }
        Ok(())
    }

    fn submit(&mut self, operation: Operation, offset: u64, bytes: u32, data: &[u8]) -> io::Result<Option<Slot>> {
        let welcome = &self.connection.welcome;
        if bytes > welcome.layout.transfer_bytes || !bytes.is_multiple_of(welcome.block_bytes) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the length is too large, or no multiple of a block",
            ));
        }
        let submitted_ns = self.now_ns();
        let Some(slot) = self.free.pop() else { return Ok(None) };
        if !data.is_empty() {
            self.marked[usize::from(slot)] = None;
            chunk::copy_in(self.buffer(slot, bytes), data);
        }
        let tag = self.fresh_tag();
        self.pending[usize::from(slot)] = Some(PendingCommand {
            offset,
            tag,
            bytes,
            operation,
            submitted_ns,
            is_near: false,
            failed_polls: 0,
            late: None,
        });
        self.enqueue(slot);
        Ok(Some(Slot(slot)))
    }

    /// Returns the submission time for a command in nanoseconds, or 0 if timing is off.
    #[inline]
    fn now_ns(&self) -> u64 {
        if self.connection.welcome.modelled { clock::now_ns() } else { 0 }
    }

    fn fresh_tag(&self) -> u64 {
        self.tags.current().expect("random tags never run out")
    }

    /// Marks a slot's buffer ahead of its next read, which is likely to be as long as the last one. The device has the
    /// cache line of the mark, and a command must not be seen before the mark. So the line returns while the caller
    /// uses the data of the last read.
    #[inline]
    fn mark_ahead(&mut self, slot: u16, bytes: u32) {
        let tag = self.fresh_tag();
        chunk::mark(self.buffer(slot, bytes), self.tag(tag));
        self.marked[usize::from(slot)] = Some((tag, bytes));
    }

    fn tag(&self, value: u64) -> Tag {
        Tag { value, width: self.connection.welcome.tag_width }
    }

    /// Writes the command of `slot` into the ring, after marking the buffer of a read, and wakes the device if it
    /// sleeps.
    #[inline]
    fn enqueue(&mut self, slot: u16) {
        let place = usize::from(slot);
        let &PendingCommand { offset, tag, bytes, operation, submitted_ns, .. } =
            self.pending[place].as_ref().expect("set by the caller");
        if operation == Operation::Read && self.marked[place].take() != Some((tag, bytes)) {
            chunk::mark(self.buffer(slot, bytes), self.tag(tag));
        }
        self.attempts[place] = self.attempts[place].wrapping_add(1);
        let (pass, attempt) = (self.pass, self.attempts[place]);
        let connection = &*self.connection;
        let buffer = self.places.buffer(slot.into());
        let command = Command { operation, pass, slot, attempt, offset, bytes, buffer, tag };
        let entry = connection.memory.words(self.places.entry(self.tail), COMMAND_WORDS);
        let mut command = command.encode();
        layout::stamp(&mut command, submitted_ns);
        chunk::publish(entry, &command);
        (self.tail, self.pass) = next_entry(self.tail, self.pass, connection.welcome.layout.entries);
        if connection.welcome.doorbells {
            self.ring_if_asked();
        }
    }

    /// Wakes the device if its mode word says that it sleeps. A device that is about to sleep says so, and polls once
    /// more: either it sees the command, or this thread sees that it sleeps.
    fn ring_if_asked(&self) {
        fence(Ordering::SeqCst);
        let mode = self.connection.memory.word(self.places.mode_word);
        if mode.load(Ordering::Relaxed) == u64::from(MODE_DOORBELL) {
            self.connection.wake_device();
        }
    }

    fn pending_mut(&mut self, slot: u16) -> &mut PendingCommand {
        self.pending[usize::from(slot)].as_mut().expect("checked by the caller")
    }

    /// Counts a failed poll of a command. After many of them, checks if something is wrong with the command.
    #[inline]
    fn look_closer(&mut self, slot: u16) -> io::Result<bool> {
        let pending = self.pending_mut(slot);
        pending.failed_polls += 1;
        if pending.failed_polls.is_multiple_of(POLLS_PER_CHECK) { self.on_many_polls(slot) } else { Ok(false) }
    }

    #[cold]
    fn on_many_polls(&mut self, slot: u16) -> io::Result<bool> {
        let start = || Box::new(Late { since: Instant::now(), timeout: TIMEOUT });
        let late = self.pending_mut(slot).late.get_or_insert_with(start);
        if late.since.elapsed() < late.timeout {
            thread::yield_now();
            return Ok(false);
        }
        late.since = Instant::now();
        self.on_timeout(slot)
    }

    /// Handles the time-out of a command: a read was refused or its data ends in the tag, or the device is slow or
    /// gone.
    fn on_timeout(&mut self, slot: u16) -> io::Result<bool> {
        let status = self.status(slot);
        let &mut PendingCommand { operation, bytes, tag, ref mut late, .. } = self.pending_mut(slot);
        match status {
            Some(Status::Success) if operation != Operation::Read => Ok(false),
            Some(Status::Success) => {
                // The device writes the status after the data, so all tags must be complete by now. If not, the read is
                // repeated.
                if !chunk::is_complete(self.buffer(slot, bytes), self.tag(tag)) {
                    self.retry(slot);
                }
                Ok(false)
            }
            Some(status) => {
                self.release(slot);
                status.result().map(|()| false)
            }
            None => {
                if let Some(late) = late {
                    late.timeout = (late.timeout * 2).min(TIMEOUT_MAX);
                }
                self.connection.check().map(|()| false)
            }
        }
    }

    /// Submits a read again with another tag, because its data ends in the old one.
    fn retry(&mut self, slot: u16) {
        self.collisions += 1;
        self.tags.renew();
        let (tag, submitted_ns) = (self.fresh_tag(), self.now_ns());
        let pending = self.pending_mut(slot);
        (pending.tag, pending.submitted_ns, pending.is_near, pending.failed_polls) = (tag, submitted_ns, false, 0);
        self.enqueue(slot);
    }

    fn release(&mut self, slot: u16) {
        self.pending[usize::from(slot)] = None;
        self.free.push(slot);
    }

    fn buffer(&self, slot: u16, bytes: u32) -> &[AtomicU64] {
        self.connection.memory.words(self.places.buffer(slot.into()), words(bytes))
    }

    #[inline]
    fn status(&self, slot: u16) -> Option<Status> {
        let word = self.connection.memory.word(self.places.status(slot.into())).load(Ordering::Acquire);
        Status::from_word(word, self.attempts[usize::from(slot)])
    }
}
