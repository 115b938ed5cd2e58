//! A queue pair of one thread: commands into the ring, data by its tags, writes by their status.

use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_ring::chunk::{self, COMMAND_WORDS};
use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{self, MODE_DOORBELL, QueueOffsets, words};
use phaselink_ring::shared::clock;
use phaselink_ring::status::Status;
use phaselink_ring::trailer::{Tag, TagSource};

use crate::connection::Connection;

/// Looks at a slot in vain before the clock is asked, and whoever else wants the processor: some microseconds.
const LOOKS: u32 = 1024;
/// A read that takes longer may be stuck: beyond what a device takes whose thread has not been put aside.
const TIMEOUT: Duration = Duration::from_millis(1);
/// Time-outs double up to this: the device is slow, not the tag wrong.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Data that is due so soon is copied out, and what is left of the time is waited for: what a page takes to copy
/// (measured: 70 to 130 ns).
const COPY_NS: u64 = 150;

/// A place of a queue that a command uses until it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u16);

impl Slot {
    /// The slot of this number, of which [`Queue::complete`] checks that something is under way in it.
    pub fn from_number(number: u16) -> Slot {
        Slot(number)
    }

    /// Its number, below the depth of the queue.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A command under way.
#[derive(Debug)]
struct Asked {
    offset: u64,
    tag: u64,
    bytes: u32,
    operation: Operation,
    /// When, where the device would like to know.
    asked_ns: u64,
    /// Data that is not due yet has been fetched.
    is_near: bool,
    looks: u32,
    /// Once the clock has been asked. Most commands are complete before.
    late: Option<Box<Late>>,
}

/// A command that takes long.
#[derive(Debug)]
struct Late {
    since: Instant,
    /// What the clock may show since then before something is wrong.
    timeout: Duration,
}

/// A queue pair. It belongs to one thread at a time; each thread takes one of its own.
#[derive(Debug)]
pub struct Queue {
    connection: Arc<Connection>,
    places: QueueOffsets,
    tail: u32,
    pass: u8,
    free: Vec<u16>,
    asked: Vec<Option<Asked>>,
    /// By slot: how often it has been used, so that a status is known from an old one.
    attempts: Vec<u8>,
    /// By slot: the tag, and the length in bytes, for which a free buffer is marked already.
    marked: Vec<Option<(u64, u32)>>,
    tags: TagSource,
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
            asked: (0..slots).map(|_| None).collect(),
            attempts: vec![0; slots.into()],
            marked: vec![None; slots.into()],
            tags: TagSource::random(welcome.tag_width, seed),
            collisions: 0,
            connection,
        }
    }

    /// Commands that can be under way.
    pub fn depth(&self) -> usize {
        self.asked.len()
    }

    /// The longest transfer of one command.
    pub fn transfer_bytes_max(&self) -> u32 {
        self.connection.welcome.layout.transfer_bytes
    }

    /// Reads whose data ended in the tag, and that were read again with another one.
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Use this tag for the next reads, to see what happens to data that ends in it.
    #[doc(hidden)]
    pub fn replace_tags(&mut self, tags: TagSource) {
        self.tags = tags;
    }

    /// Start a read; none if the queue is full.
    ///
    /// # Errors
    /// If it is longer than [`Queue::transfer_bytes_max`], or no whole number of sectors.
    pub fn submit_read(&mut self, offset: u64, bytes: u32) -> io::Result<Option<Slot>> {
        self.submit(Operation::Read, offset, bytes, &[])
    }

    /// Start a write; none if the queue is full.
    ///
    /// # Errors
    /// As [`Queue::submit_read`].
    pub fn submit_write(&mut self, offset: u64, data: &[u8]) -> io::Result<Option<Slot>> {
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.submit(Operation::Write, offset, bytes, data)
    }

    /// Start a flush of everything that has been completed so far; none if the queue is full.
    ///
    /// # Errors
    /// None yet.
    pub fn submit_flush(&mut self) -> io::Result<Option<Slot>> {
        self.submit(Operation::Flush, 0, 0, &[])
    }

    /// Whether the command in `slot` is complete. If so, data of a read has been copied to `into`, as much as fits, and
    /// the slot is free.
    ///
    /// # Errors
    /// What the device says of this command, whose slot is then free; or that the device has gone.
    pub fn complete(&mut self, slot: Slot, into: &mut [u8]) -> io::Result<bool> {
        let Some(Some(asked)) = self.asked.get(usize::from(slot.0)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing is under way in this slot"));
        };
        if self.connection.welcome.modelled {
            return self.complete_in_time(slot.0, into);
        }
        if asked.operation == Operation::Read {
            let buffer = self.buffer(slot.0, asked.bytes);
            if !chunk::is_complete(buffer, self.tag(asked.tag)) {
                return self.look_closer(slot.0);
            }
            chunk::copy_out(buffer, into);
            self.mark_ahead(slot.0, asked.bytes);
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

    /// The same where the model says when a command is over. Its data comes as soon as the device can, and its status
    /// once the model has decided, with the latency; this thread is who waits for the rest of it, so that neither the
    /// way through real memory nor the copying comes on top.
    fn complete_in_time(&mut self, slot: u16, into: &mut [u8]) -> io::Result<bool> {
        let &Asked { tag, bytes, operation, asked_ns, is_near, .. } =
            self.asked[usize::from(slot)].as_ref().expect("checked by the caller");
        let (buffer, tag) = (self.buffer(slot, bytes), self.tag(tag));
        let Some(status) = self.status(slot) else {
            if operation == Operation::Read && !is_near && chunk::is_complete(buffer, tag) {
                chunk::prefetch(buffer);
                self.asked_mut(slot).is_near = true;
            }
            return self.look_closer(slot);
        };
        if status == Status::Success {
            let latency = self.connection.memory.word(self.places.latency(slot.into()));
            let latency_ns = latency.load(Ordering::Relaxed).saturating_sub(self.connection.looks_ns);
            let due_ns = asked_ns.saturating_add(latency_ns);
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

    /// Read, and wait for it.
    ///
    /// # Errors
    /// What the device says, or that it has gone.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let step = self.transfer_bytes_max() as usize;
        for (at, piece) in (offset..).step_by(step).zip(into.chunks_mut(step)) {
            self.run(Operation::Read, at, piece.len() as u32, &[], piece)?;
        }
        Ok(())
    }

    /// Write, and wait for it.
    ///
    /// # Errors
    /// As [`Queue::read`].
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let step = self.transfer_bytes_max() as usize;
        for (at, piece) in (offset..).step_by(step).zip(data.chunks(step)) {
            self.run(Operation::Write, at, piece.len() as u32, piece, &mut [])?;
        }
        Ok(())
    }

    /// Everything written so far survives the end of the machine when this returns.
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
        let asked_ns = self.now_ns();
        let Some(slot) = self.free.pop() else { return Ok(None) };
        if !data.is_empty() {
            self.marked[usize::from(slot)] = None;
            chunk::copy_in(self.buffer(slot, bytes), data);
        }
        let tag = self.fresh_tag();
        self.asked[usize::from(slot)] =
            Some(Asked { offset, tag, bytes, operation, asked_ns, is_near: false, looks: 0, late: None });
        self.enqueue(slot);
        Ok(Some(Slot(slot)))
    }

    /// The instant for a command's stamp, where the device would like one.
    #[inline]
    fn now_ns(&self) -> u64 {
        if self.connection.welcome.modelled { clock::now_ns() } else { 0 }
    }

    fn fresh_tag(&self) -> u64 {
        self.tags.current().expect("random tags never run out")
    }

    /// The next read into this buffer is likely to be as long as the last one. A command is not seen before the mark,
    /// whose line the device has: marked now, it comes back while the caller looks at its data.
    #[inline]
    fn mark_ahead(&mut self, slot: u16, bytes: u32) {
        let tag = self.fresh_tag();
        chunk::mark(self.buffer(slot, bytes), self.tag(tag));
        self.marked[usize::from(slot)] = Some((tag, bytes));
    }

    fn tag(&self, value: u64) -> Tag {
        Tag { value, width: self.connection.welcome.tag_width }
    }

    /// Put the command of `slot` into the ring.
    #[inline]
    fn enqueue(&mut self, slot: u16) {
        let place = usize::from(slot);
        let &Asked { offset, tag, bytes, operation, asked_ns, .. } =
            self.asked[place].as_ref().expect("set by the caller");
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
        layout::stamp(&mut command, asked_ns);
        chunk::publish(entry, &command);
        (self.tail, self.pass) = next_entry(self.tail, self.pass, connection.welcome.layout.entries);
        if connection.welcome.doorbells {
            self.ring_if_asked();
        }
    }

    /// A device that is about to sleep says so, and looks once more: either it sees the command, or this sees the word.
    fn ring_if_asked(&self) {
        fence(Ordering::SeqCst);
        let mode = self.connection.memory.word(self.places.mode_word);
        if mode.load(Ordering::Relaxed) == u64::from(MODE_DOORBELL) {
            self.connection.ring();
        }
    }

    fn asked_mut(&mut self, slot: u16) -> &mut Asked {
        self.asked[usize::from(slot)].as_mut().expect("checked by the caller")
    }

    /// A command is still not complete: after many looks, see whether something is wrong with it.
    #[inline]
    fn look_closer(&mut self, slot: u16) -> io::Result<bool> {
        let asked = self.asked_mut(slot);
        asked.looks += 1;
        if asked.looks.is_multiple_of(LOOKS) { self.on_many_looks(slot) } else { Ok(false) }
    }

    #[cold]
    fn on_many_looks(&mut self, slot: u16) -> io::Result<bool> {
        let start = || Box::new(Late { since: Instant::now(), timeout: TIMEOUT });
        let late = self.asked_mut(slot).late.get_or_insert_with(start);
        if late.since.elapsed() < late.timeout {
            thread::yield_now();
            return Ok(false);
        }
        late.since = Instant::now();
        self.on_timeout(slot)
    }

    /// A read takes too long: it was refused, its data ends in the tag, or the device is slow or gone.
    fn on_timeout(&mut self, slot: u16) -> io::Result<bool> {
        let status = self.status(slot);
        let &mut Asked { operation, bytes, tag, ref mut late, .. } = self.asked_mut(slot);
        match status {
            Some(Status::Success) if operation != Operation::Read => Ok(false),
            Some(Status::Success) => {
                // The status is behind the data, so that the tags are looked at for the last time here.
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

    /// The data ends in the tag: read again with another one.
    fn retry(&mut self, slot: u16) {
        self.collisions += 1;
        self.tags.renew();
        let (tag, asked_ns) = (self.fresh_tag(), self.now_ns());
        let asked = self.asked_mut(slot);
        (asked.tag, asked.asked_ns, asked.is_near, asked.looks) = (tag, asked_ns, false, 0);
        self.enqueue(slot);
    }

    fn release(&mut self, slot: u16) {
        self.asked[usize::from(slot)] = None;
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
