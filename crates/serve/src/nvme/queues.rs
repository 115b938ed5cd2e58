//! Submission and completion queues as the controller keeps them (Base Specification 2.0, section 3.3).

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, CompletionEntry, SUBMISSION_ENTRY_BYTES};

use super::command::Bytes;
use super::host::{Host, Unreachable};

/// What a host has written that no queue can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangeValue;

/// A queue of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionQueue {
    base: u64,
    pub entries: u32,
    pub completion_queue: u16,
    pub head: u32,
    tail: u32,
    /// The doorbell as seen last, so that a value that makes no sense is reported once.
    seen: u32,
    /// Of this very queue, so that what outlives it can be told from what belongs to its successor of the same number.
    pub generation: u32,
}

impl SubmissionQueue {
    /// An empty queue.
    pub fn new(base: u64, entries: u32, completion_queue: u16, generation: u32) -> SubmissionQueue {
        SubmissionQueue { base, entries, completion_queue, head: 0, tail: 0, seen: 0, generation }
    }

    /// The host's tail is `value`.
    ///
    /// # Errors
    /// If there is no such entry; the queue then goes on with what it knew.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), StrangeValue> {
        if value == self.seen {
            return Ok(());
        }
        self.seen = value;
        if value >= self.entries {
            return Err(StrangeValue);
        }
        self.tail = value;
        Ok(())
    }

    /// The tail that the controller knows.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Whether there are commands.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// A private copy of the next command.
    ///
    /// # Errors
    /// If the queue is not there any more. Its commands are lost, as nobody knows what they were.
    #[inline]
    pub fn fetch(&mut self, host: &mut impl Host) -> Result<Bytes, Unreachable> {
        let mut bytes = [0; SUBMISSION_ENTRY_BYTES];
        let read = host.read(entry(self.base, self.head, SUBMISSION_ENTRY_BYTES), &mut bytes);
        self.head = if self.head + 1 == self.entries { 0 } else { self.head + 1 };
        read.map(|()| bytes)
    }
}

/// A queue of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionQueue {
    base: u64,
    entries: u32,
    tail: u32,
    head: u32,
    seen: u32,
    phase: bool,
    /// The vector to interrupt with, if any.
    pub vector: Option<u16>,
    /// Something has been posted since the host was last interrupted.
    pub is_news: bool,
    /// Answers that found no room.
    held: VecDeque<CompletionEntry>,
    /// Submission queues that answer here.
    pub users: u32,
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        CompletionQueue {
            base,
            entries,
            tail: 0,
            head: 0,
            seen: 0,
            phase: true,
            vector,
            is_news: false,
            held: VecDeque::new(),
            users: 0,
        }
    }

    /// The host's head is `value`.
    ///
    /// # Errors
    /// If no entry from the head on up to the tail is that one.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), StrangeValue> {
        if value == self.seen {
            return Ok(());
        }
        self.seen = value;
        let ahead = |place: u32| (place + self.entries - self.head) % self.entries;
        if value >= self.entries || ahead(value) > ahead(self.tail) {
            return Err(StrangeValue);
        }
        self.head = value;
        Ok(())
    }

    /// The head that the controller knows.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Whether the host has not yet seen everything.
    pub fn has_unseen(&self) -> bool {
        self.head != self.tail
    }

    /// Whether another answer would overwrite one that the host has not read.
    #[inline]
    pub fn is_full(&self) -> bool {
        let next = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
        next == self.head
    }

    /// Whether answers wait for room.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Post an answer, or keep it until there is room.
    ///
    /// # Errors
    /// If the queue's memory is not there any more.
    #[inline]
    pub fn post(&mut self, answer: CompletionEntry, host: &mut impl Host) -> Result<(), Unreachable> {
        if self.is_full() || !self.held.is_empty() {
            self.held.push_back(answer);
            return Ok(());
        }
        let bytes = CompletionEntry { phase: self.phase, ..answer }.encode();
        host.post(entry(self.base, self.tail, COMPLETION_ENTRY_BYTES), &bytes)?;
        self.tail = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
        self.phase ^= self.tail == 0;
        self.is_news = true;
        Ok(())
    }

    /// Post what waits, as far as there is room now.
    ///
    /// # Errors
    /// As [`CompletionQueue::post`].
    pub fn release(&mut self, host: &mut impl Host) -> Result<(), Unreachable> {
        let mut held = std::mem::take(&mut self.held);
        while !self.is_full() {
            let Some(answer) = held.pop_front() else { break };
            self.post(answer, host)?;
        }
        self.held = held;
        Ok(())
    }
}

#[inline]
fn entry(base: u64, place: u32, bytes: usize) -> u64 {
    base.wrapping_add(u64::from(place) * bytes as u64)
}
