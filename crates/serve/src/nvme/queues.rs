//! Submission and completion queues in a host's memory (Base Specification 2.0, section 3.3).
//!
//! The [rules](phaselink_core::protocol::nvme::rules::queues) keep the indices: which entry is next, and when a queue is full.

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::rules::queues::{CompletionRing, InvalidDoorbell, SubmissionRing, wrapped};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};

use super::host::{Host, Unreachable};

/// Bytes of a submission queue entry.
pub type EntryBytes = [u8; SUBMISSION_ENTRY_BYTES];

/// Number of entries that are loaded into the cache ahead of the one that is fetched.
const ENTRIES_AHEAD: u32 = 8;

/// Submission queue of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionQueue {
    base: u64,
    /// Head and tail of the queue.
    pub ring: SubmissionRing,
    /// Identifier of the completion queue that completions of these commands are posted to.
    pub completion_queue: u16,
    /// Last value of the tail doorbell, so that an invalid value is reported only once.
    last_doorbell: u32,
    /// Number that tells this queue from an earlier or later one with the same identifier.
    pub generation: u32,
}

impl SubmissionQueue {
    /// Returns an empty queue whose entries begin at host address `base`.
    pub fn new(base: u64, entries: u32, completion_queue: u16, generation: u32) -> SubmissionQueue {
        SubmissionQueue { base, ring: SubmissionRing::new(entries), completion_queue, last_doorbell: 0, generation }
    }

    /// Returns the host address of the queue and its length in bytes.
    pub fn memory_range(&self) -> (u64, usize) {
        (self.base, self.ring.entries() as usize * SUBMISSION_ENTRY_BYTES)
    }

    /// Sets the tail to the value of the tail doorbell.
    ///
    /// # Errors
    /// If the queue has no such entry; the tail then stays as it is.
    #[inline]
    pub fn set_tail(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value == self.last_doorbell {
            return Ok(());
        }
        self.last_doorbell = value;
        self.ring.ring(value)
    }

    /// Prefetches the entries behind the next one, as far as they lie before the end of the ring. Each is a cache line that the
    /// host has just written; loaded one after the other, they would take longer than the commands.
    #[inline]
    pub fn prefetch(&self, host: &mut impl Host) {
        let next = self.ring.head() + 1;
        let entries = self.waiting().min(ENTRIES_AHEAD).min(self.ring.entries() - next + 1);
        if entries > 1 {
            host.prefetch(self.address(next), (entries - 1) * SUBMISSION_ENTRY_BYTES as u32);
        }
    }

    /// Returns the number of entries that the host has submitted and that have not been taken.
    #[inline]
    fn waiting(&self) -> u32 {
        wrapped(self.ring.tail() + self.ring.entries() - self.ring.head(), self.ring.entries())
    }

    #[inline]
    fn address(&self, slot: u32) -> u64 {
        entry_address(self.base, slot, SUBMISSION_ENTRY_BYTES)
    }

    /// Takes the next entry off the queue and returns a private copy, or none if the queue is empty.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped. The commands in the queue are lost.
    #[inline]
    pub fn fetch(&mut self, host: &mut impl Host) -> Result<Option<EntryBytes>, Unreachable> {
        let Some((slot, _)) = self.ring.take(1) else { return Ok(None) };
        if self.waiting() >= ENTRIES_AHEAD {
            let later = wrapped(slot + ENTRIES_AHEAD, self.ring.entries());
            host.prefetch(self.address(later), SUBMISSION_ENTRY_BYTES as u32);
        }
        let mut bytes = [0; SUBMISSION_ENTRY_BYTES];
        host.read(self.address(slot), &mut bytes)?;
        Ok(Some(bytes))
    }
}

/// Completion queue of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionQueue {
    base: u64,
    /// Head, tail and phase tag of the queue.
    pub ring: CompletionRing,
    /// Last value of the head doorbell, so that an invalid value is reported only once.
    last_doorbell: u32,
    /// Interrupt vector of the queue, or none if interrupts are disabled for it.
    pub vector: Option<u16>,
    /// True if a completion has been posted since the last interrupt.
    pub interrupt_pending: bool,
    /// Completions that wait because the queue was full.
    held: VecDeque<Done>,
    /// Number of submission queues whose completions are posted to this queue.
    pub users: u32,
}

impl CompletionQueue {
    /// Returns an empty queue whose entries begin at host address `base`.
    pub fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        CompletionQueue {
            base,
            ring: CompletionRing::new(entries),
            last_doorbell: 0,
            vector,
            interrupt_pending: false,
            held: VecDeque::new(),
            users: 0,
        }
    }

    /// Returns the host address of the queue and its length in bytes.
    pub fn memory_range(&self) -> (u64, usize) {
        (self.base, self.ring.entries() as usize * COMPLETION_ENTRY_BYTES)
    }

    /// Sets the head to the value of the head doorbell.
    ///
    /// # Errors
    /// If the value does not lie between the head and the tail.
    #[inline]
    pub fn set_head(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value == self.last_doorbell {
            return Ok(());
        }
        self.last_doorbell = value;
        self.ring.ring(value)
    }

    /// Returns true if completions wait because the queue was full.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Posts a completion, or holds it until the host has freed an entry.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped.
    #[inline]
    pub fn post(&mut self, completion: Done, host: &mut impl Host) -> Result<(), Unreachable> {
        if self.ring.is_full() || !self.held.is_empty() {
            self.held.push_back(completion);
            return Ok(());
        }
        let (slot, phase) = self.ring.post();
        host.post(entry_address(self.base, slot, COMPLETION_ENTRY_BYTES), &completion.entry(phase).encode())?;
        self.interrupt_pending = true;
        Ok(())
    }

    /// Posts held completions, as far as the queue has free entries.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped.
    pub fn post_held(&mut self, host: &mut impl Host) -> Result<(), Unreachable> {
        let mut held = std::mem::take(&mut self.held);
        while !self.ring.is_full() {
            let Some(completion) = held.pop_front() else { break };
            self.post(completion, host)?;
        }
        self.held = held;
        Ok(())
    }
}

#[inline]
fn entry_address(base: u64, slot: u32, entry_bytes: usize) -> u64 {
    base.wrapping_add(u64::from(slot) * entry_bytes as u64)
}
