//! Submission and completion queues in a host's memory (Base Specification 2.0, section 3.3); which of their entries is
//! next, and when they are full, [the rules](phaselink_core::protocol::nvme::rules::queues) say.

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::rules::queues::{CompletionRing, InvalidDoorbell, SubmissionRing};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};

use super::command::Bytes;
use super::host::{Host, Unreachable};

/// A queue of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionQueue {
    base: u64,
    pub ring: SubmissionRing,
    pub completion_queue: u16,
    /// The doorbell as seen last, so that a value that makes no sense is reported once.
    seen: u32,
    /// Of this very queue, so that what outlives it can be told from what belongs to its successor of the same number.
    pub generation: u32,
}

impl SubmissionQueue {
    /// An empty queue.
    pub fn new(base: u64, entries: u32, completion_queue: u16, generation: u32) -> SubmissionQueue {
        SubmissionQueue { base, ring: SubmissionRing::new(entries), completion_queue, seen: 0, generation }
    }

    /// Its address, and how many bytes it has.
    pub fn place(&self) -> (u64, usize) {
        (self.base, self.ring.entries() as usize * SUBMISSION_ENTRY_BYTES)
    }

    /// The host's tail is `value`.
    ///
    /// # Errors
    /// If there is no such entry; the queue then goes on with what it knew.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value == self.seen {
            return Ok(());
        }
        self.seen = value;
        self.ring.ring(value)
    }

    /// A private copy of the next command, if there is one.
    ///
    /// # Errors
    /// If the queue is not there any more. Its commands are lost, as nobody knows what they were.
    #[inline]
    pub fn fetch(&mut self, host: &mut impl Host) -> Result<Option<Bytes>, Unreachable> {
        let Some((slot, _)) = self.ring.take(1) else { return Ok(None) };
        let mut bytes = [0; SUBMISSION_ENTRY_BYTES];
        host.read(entry(self.base, slot, SUBMISSION_ENTRY_BYTES), &mut bytes)?;
        Ok(Some(bytes))
    }
}

/// A queue of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionQueue {
    base: u64,
    pub ring: CompletionRing,
    seen: u32,
    /// The vector to interrupt with, if any.
    pub vector: Option<u16>,
    /// Something has been posted since the host was last interrupted.
    pub interrupt_pending: bool,
    /// Answers that found no room.
    held: VecDeque<Done>,
    /// Submission queues that answer here.
    pub users: u32,
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        CompletionQueue {
            base,
            ring: CompletionRing::new(entries),
            seen: 0,
            vector,
            interrupt_pending: false,
            held: VecDeque::new(),
            users: 0,
        }
    }

    /// Its address, and how many bytes it has.
    pub fn place(&self) -> (u64, usize) {
        (self.base, self.ring.entries() as usize * COMPLETION_ENTRY_BYTES)
    }

    /// The host's head is `value`.
    ///
    /// # Errors
    /// If no entry from the head on up to the tail is that one.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value == self.seen {
            return Ok(());
        }
        self.seen = value;
        self.ring.ring(value)
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
    pub fn post(&mut self, answer: Done, host: &mut impl Host) -> Result<(), Unreachable> {
        if self.ring.is_full() || !self.held.is_empty() {
            self.held.push_back(answer);
            return Ok(());
        }
        let (slot, phase) = self.ring.post();
        host.post(entry(self.base, slot, COMPLETION_ENTRY_BYTES), &answer.entry(phase).encode())?;
        self.interrupt_pending = true;
        Ok(())
    }

    /// Post what waits, as far as there is room now.
    ///
    /// # Errors
    /// As [`CompletionQueue::post`].
    pub fn release(&mut self, host: &mut impl Host) -> Result<(), Unreachable> {
        let mut held = std::mem::take(&mut self.held);
        while !self.ring.is_full() {
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
