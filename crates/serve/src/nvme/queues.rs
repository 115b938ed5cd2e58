//! Submission and completion queues in a host's memory (Base Specification 2.0, section 3.3).
//!
//! The core's [rules](phaselink_core::protocol::nvme::rules::queues) keep the indices: which entry is next, and if a
//! queue is full.

use std::collections::VecDeque;

use phaselink_core::number::{index, length};
use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::rules::queues::{
    CompletionQueueRing, InvalidDoorbell, SubmissionQueueRing, wrapped,
};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};

use super::arbitration::QueuePriorityClass;
use super::host::{Host, UnreachableMemory};
use crate::device::faults::DelayedCompletionPart;
use crate::device::tally::ConsumedCompletionCounts;

/// Raw bytes of a submission queue entry.
pub type SubmissionEntryBytes = [u8; SUBMISSION_ENTRY_BYTES];

/// Offset in a completion queue entry of the byte whose lowest bit is the phase tag.
const PHASE_AT: usize = 14;
/// Number of submission queue entries that are prefetched ahead of the one being fetched.
pub(super) const ENTRIES_AHEAD: u32 = 8;

/// Submission queue in a host's memory, as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionQueue {
    base: u64,
    /// Head and tail indices of the queue.
    pub ring: SubmissionQueueRing,
    /// Identifier of the completion queue to which completions of this queue's commands are posted.
    pub completion_queue: u16,
    /// Last value of the tail doorbell. An invalid value is reported only when it changes.
    last_doorbell: u32,
    /// Number that tells this queue from an earlier or later one with the same identifier.
    pub generation: u32,
    /// Priority class, which matters only with weighted round robin arbitration.
    pub priority: QueuePriorityClass,
    /// Number of entries that the host has submitted by doorbell values seen so far and that have not been fetched.
    announced: u32,
    /// True if an injected fault hides the doorbell's new value from the device.
    is_late: bool,
}

impl SubmissionQueue {
    /// Returns an empty queue whose entries begin at host address `base`.
    pub fn new(base: u64, entries: u32, completion_queue: u16, generation: u32) -> SubmissionQueue {
        SubmissionQueue {
            base,
            ring: SubmissionQueueRing::new(entries),
            completion_queue,
            last_doorbell: 0,
            generation,
            priority: QueuePriorityClass::default(),
            announced: 0,
            is_late: false,
        }
    }

    /// Sets the queue's priority class.
    pub fn with_priority_class(self, priority: QueuePriorityClass) -> SubmissionQueue {
        SubmissionQueue { priority, ..self }
    }

    /// Returns the host address of the queue and its length in bytes.
    pub fn memory_range(&self) -> (u64, usize) {
        (self.base, index(self.ring.entries()) * SUBMISSION_ENTRY_BYTES)
    }

    /// Sets the tail to the value of the tail doorbell, unless an injected fault hides the doorbell. Returns true if
    /// the host has submitted more entries than the queue has room for.
    ///
    /// # Errors
    ///
    /// If the value is not below the queue's size; the tail then stays as it is.
    #[inline]
    pub fn set_tail_from_doorbell(
        &mut self,
        queue: u16,
        value: u32,
        host: &mut impl Host,
    ) -> Result<bool, InvalidDoorbell> {
        if value == self.last_doorbell {
            return Ok(false);
        }
        let overruns = self.count_new_entries(value);
        self.last_doorbell = value;
        if self.is_late || host.is_doorbell_late(queue) {
            self.is_late = true;
            return if value < self.ring.entries() { Ok(overruns) } else { Err(InvalidDoorbell) };
        }
        self.ring.ring(value).map(|()| overruns)
    }

    /// Sets the tail to the last doorbell value when the fault that hid the doorbell ends.
    pub fn read_late_doorbell(&mut self) {
        self.is_late = false;
        // An invalid value was already reported when the doorbell was written, so ignore the error.
        let _ = self.ring.ring(self.last_doorbell);
    }

    /// Adds the entries that a new doorbell value submits to the count. Returns true if the queue has no room for them.
    fn count_new_entries(&mut self, value: u32) -> bool {
        let entries = self.ring.entries();
        if value >= entries || self.last_doorbell >= entries {
            self.announced = self.unfetched_entries();
            return false;
        }
        self.announced += wrapped(value + entries - self.last_doorbell, entries);
        let overruns = self.announced >= entries;
        if overruns {
            self.announced = wrapped(value + entries - self.ring.head(), entries);
        }
        overruns
    }

    /// Prefetches submitted entries after the next one, up to the end of the ring. The host has just written their
    /// cache lines, and loading one after the other would take longer than the commands.
    #[inline]
    pub fn prefetch(&self, host: &mut impl Host) {
        let next = self.ring.head() + 1;
        let entries = self.unfetched_entries().min(ENTRIES_AHEAD).min(self.ring.entries() - next + 1);
        if entries > 1 {
            host.prefetch(self.address(next), (entries - 1) * SUBMISSION_ENTRY_BYTES as u32);
        }
    }

    /// Returns the number of entries that the host has submitted and the device has not fetched.
    #[inline]
    fn unfetched_entries(&self) -> u32 {
        wrapped(self.ring.tail() + self.ring.entries() - self.ring.head(), self.ring.entries())
    }

    #[inline]
    fn address(&self, slot: u32) -> u64 {
        entry_address(self.base, slot, SUBMISSION_ENTRY_BYTES)
    }

    /// Returns the host addresses of up to `most` submitted entries, the next one first.
    #[inline]
    pub fn next_entry_addresses(&self, most: u32) -> impl Iterator<Item = u64> {
        let (head, entries, base) = (self.ring.head(), self.ring.entries(), self.base);
        let address = move |ahead| entry_address(base, wrapped(head + ahead, entries), SUBMISSION_ENTRY_BYTES);
        (0..self.unfetched_entries().min(most)).map(address)
    }

    /// Copies the next entry from host memory into `bytes`; returns false if the queue is empty.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped. The commands in the queue are lost.
    #[inline]
    pub fn fetch(&mut self, bytes: &mut SubmissionEntryBytes, host: &mut impl Host) -> Result<bool, UnreachableMemory> {
        let Some((slot, _)) = self.ring.take(1) else { return Ok(false) };
        self.announced = self.announced.saturating_sub(1);
        if self.unfetched_entries() >= ENTRIES_AHEAD {
            let later = wrapped(slot + ENTRIES_AHEAD, self.ring.entries());
            host.prefetch(self.address(later), SUBMISSION_ENTRY_BYTES as u32);
        }
        host.read(self.address(slot), bytes)?;
        Ok(true)
    }
}

/// Completion queue in a host's memory, as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionQueue {
    base: u64,
    /// Head and tail indices and phase tag of the queue.
    pub ring: CompletionQueueRing,
    /// Last value of the head doorbell. An invalid value is reported only when it changes.
    last_doorbell: u32,
    /// Interrupt vector of the queue, or none if interrupts are disabled for it.
    pub vector: Option<u16>,
    /// True if a completion has been posted since the last interrupt.
    pub interrupt_pending: bool,
    /// Completions that wait for a free entry, because the queue was full.
    held: VecDeque<Done>,
    /// Number of submission queues whose completions are posted to this queue.
    pub users: u32,
    /// Number of newest entries for which no interrupt has been sent.
    unsignalled: u32,
    /// Statistics of the entries that the host has consumed since they were last returned.
    taken: ConsumedCompletionCounts,
    /// Entries that an injected fault has written incompletely and that are not completed yet.
    spoiled: Vec<IncompleteCompletion>,
}

/// Completion queue entry that is still to be written to host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwrittenCompletion {
    /// Host address of the entry.
    pub address: u64,
    /// Bytes of the entry.
    pub bytes: [u8; COMPLETION_ENTRY_BYTES],
}

/// Completion queue entry that an injected fault has written without its first dword or its phase tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IncompleteCompletion {
    slot: u32,
    missing: DelayedCompletionPart,
    /// Complete entry, which is written when the fault ends.
    bytes: [u8; COMPLETION_ENTRY_BYTES],
}

impl CompletionQueue {
    /// Returns an empty queue whose entries begin at host address `base`.
    pub fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        CompletionQueue {
            base,
            ring: CompletionQueueRing::new(entries),
            last_doorbell: 0,
            vector,
            interrupt_pending: false,
            held: VecDeque::new(),
            users: 0,
            unsignalled: 0,
            taken: ConsumedCompletionCounts::default(),
            spoiled: Vec::new(),
        }
    }

    /// Returns the host address of the queue and its length in bytes.
    pub fn memory_range(&self) -> (u64, usize) {
        (self.base, index(self.ring.entries()) * COMPLETION_ENTRY_BYTES)
    }

    /// Sets the head to the value of the head doorbell, and counts the entries that the host has consumed.
    ///
    /// # Errors
    ///
    /// If the value does not lie between the head and the tail.
    #[inline]
    pub fn set_head_from_doorbell(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value == self.last_doorbell {
            return Ok(());
        }
        self.last_doorbell = value;
        let (before, unread) = (self.ring.head(), self.ring.unread());
        self.ring.ring(value)?;
        let taken = unread - self.ring.unread();
        let after_interrupt = taken.min(unread - self.unsignalled);
        self.unsignalled -= taken - after_interrupt;
        self.taken.after_interrupt += u64::from(after_interrupt);
        self.taken.polled += u64::from(taken - after_interrupt);
        if !self.spoiled.is_empty() {
            self.count_taken_incomplete(before, taken);
        }
        Ok(())
    }

    /// Counts the incomplete entries among the `count` entries from slot `first` on that the host has consumed.
    #[cold]
    fn count_taken_incomplete(&mut self, first: u32, count: u32) {
        let entries = self.ring.entries();
        for entry in self.spoiled.extract_if(.., |entry| wrapped(entry.slot + entries - first, entries) < count) {
            match entry.missing {
                DelayedCompletionPart::FirstWord => self.taken.torn += 1,
                DelayedCompletionPart::Phase => self.taken.stale += 1,
            }
        }
    }

    /// Returns statistics of the entries that the host has consumed since the last call.
    #[inline]
    pub fn take_completion_counts(&mut self) -> ConsumedCompletionCounts {
        std::mem::take(&mut self.taken)
    }

    /// Records that an interrupt has been sent for all entries so far.
    #[inline]
    pub fn note_interrupt_sent(&mut self) {
        self.unsignalled = 0;
    }

    /// Returns true if the head doorbell must be polled although the queue is not full: completions wait for a free
    /// entry, or the host may consume an incomplete entry.
    #[inline]
    pub fn needs_head_polling(&self) -> bool {
        self.holds_completions() || !self.spoiled.is_empty()
    }

    /// Returns true if completions wait for a free entry.
    #[inline]
    pub fn holds_completions(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the next free entry for a completion. Returns what is to be written there; none if the completion is held
    /// until the host has freed an entry, or an injected fault has written it.
    ///
    /// # Errors
    /// If the fault's entry cannot be written since the queue's memory is no longer mapped.
    #[inline]
    pub fn place(
        &mut self,
        completion: Done,
        host: &mut impl Host,
    ) -> Result<Option<UnwrittenCompletion>, UnreachableMemory> {
        if self.ring.is_full() || !self.held.is_empty() {
            self.held.push_back(completion);
            return Ok(None);
        }
        let (slot, phase) = self.ring.post();
        let placed = UnwrittenCompletion {
            address: entry_address(self.base, slot, COMPLETION_ENTRY_BYTES),
            bytes: completion.entry(phase).encode(),
        };
        let fault = host.completion_fault(placed.address);
        self.unsignalled += 1;
        self.interrupt_pending = true;
        let Some(fault) = fault else { return Ok(Some(placed)) };
        self.post_incomplete(slot, fault.missing, placed.bytes, host)?;
        Ok(None)
    }

    /// Writes a completion queue entry with its first dword or phase tag as they were before, for an injected fault.
    #[cold]
    fn post_incomplete(
        &mut self,
        slot: u32,
        missing: DelayedCompletionPart,
        bytes: [u8; COMPLETION_ENTRY_BYTES],
        host: &mut impl Host,
    ) -> Result<(), UnreachableMemory> {
        let address = entry_address(self.base, slot, COMPLETION_ENTRY_BYTES);
        let mut spoiled = bytes;
        match missing {
            DelayedCompletionPart::FirstWord => host.read(address, &mut spoiled[..4])?,
            DelayedCompletionPart::Phase => spoiled[PHASE_AT] ^= 1,
        }
        self.spoiled.push(IncompleteCompletion { slot, missing, bytes });
        host.post(address, &spoiled)
    }

    /// Completes an incomplete entry at host address `address` unless the host has consumed it, and marks another
    /// interrupt as pending. Returns false if the address is not in this queue.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped.
    pub fn complete_entry_at(&mut self, address: u64, host: &mut impl Host) -> Result<bool, UnreachableMemory> {
        let place = |slot| entry_address(self.base, slot, COMPLETION_ENTRY_BYTES);
        if !(place(0)..place(self.ring.entries())).contains(&address) {
            return Ok(false);
        }
        if let Some(found) = self.spoiled.iter().position(|entry| place(entry.slot) == address) {
            host.post(address, &self.spoiled.remove(found).bytes)?;
            self.interrupt_pending = true;
        }
        Ok(true)
    }

    /// Posts held completions, as far as the queue has free entries.
    ///
    /// # Errors
    /// If the queue's memory is no longer mapped.
    pub fn post_held(&mut self, host: &mut impl Host) -> Result<(), UnreachableMemory> {
        let mut held = std::mem::take(&mut self.held);
        while !self.ring.is_full() {
            let Some(completion) = held.pop_front() else { break };
            if let Some(placed) = self.place(completion, host)? {
                host.post(placed.address, &placed.bytes)?;
            }
        }
        self.held = held;
        Ok(())
    }
}

#[inline]
fn entry_address(base: u64, slot: u32, entry_bytes: usize) -> u64 {
    base.wrapping_add(u64::from(slot) * length(entry_bytes))
}
