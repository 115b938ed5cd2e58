//! Access of a device thread to a client's memory, doorbells and interrupts.
//!
//! The thread that has the client's socket reaches everything, since it can ask the client. Other threads reach only
//! mapped memory. Whatever else is needed, they leave to the thread with the socket.

use phaselink_core::number::{index, length};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::interrupts::ClientInterrupts;
use super::memory::{AccessTarget, Memory};
use super::session::{DoorbellPage, Session};
use crate::device::faults::{CompletionFault, DelayQueue, Faults, InterruptFault};
use crate::front::nvme_command::QueueHost;
use crate::nvme::host::EndedFault;
use crate::nvme::{Host, UnreachableMemory};

/// Access of one thread to a client. Every type that implements this is a [`Host`].
pub trait ClientAccess {
    /// Returns the client's memory, as this thread sees it.
    fn memory(&mut self) -> &mut Memory;

    /// Reads client memory that is not mapped, by a request to the client.
    ///
    /// # Errors
    /// If the client does not send the memory, or this thread cannot ask the client.
    fn read_remote(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory>;

    /// Writes client memory that is not mapped, by a request to the client.
    ///
    /// # Errors
    /// As [`ClientAccess::read_remote`].
    fn write_remote(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory>;

    /// Returns true if an access has failed since the last call because this thread cannot ask the client.
    fn take_out_of_reach(&mut self) -> bool;

    /// Returns true if the client must leave this thread, which has others to serve. No more commands of the client are
    /// fetched here.
    #[inline]
    fn is_leaving(&self) -> bool {
        false
    }

    /// Returns the page of the client's doorbells.
    fn page(&self) -> &DoorbellPage;

    /// Sends an interrupt to the client by a vector, unless a fault loses it.
    fn send_interrupt(&mut self, vector: u16);

    /// Returns the sender of interrupts, with the faults of completions and doorbells that have not ended.
    fn signals(&mut self) -> &mut InterruptSender;

    /// Reads client memory that lies in several mappings or is not mapped, piece by piece.
    ///
    /// # Errors
    /// If a part of the memory is in no region, or may not be read.
    #[cold]
    fn read_in_pieces(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        let (mut address, mut rest) = (address, into);
        while !rest.is_empty() {
            let (place, here) = self.memory().find(address, rest.len()).ok_or(UnreachableMemory)?;
            let (piece, others) = rest.split_at_mut(here);
            match place {
                AccessTarget::Mapped(mapping, offset) => mapping.read(offset, piece),
                AccessTarget::Remote { readable: true, .. } => self.read_remote(address, piece)?,
                AccessTarget::Remote { .. } => return Err(UnreachableMemory),
            }
            address = address.wrapping_add(length(here));
            rest = others;
        }
        Ok(())
    }

    /// Writes client memory that lies in several mappings or is not mapped, piece by piece.
    ///
    /// # Errors
    /// If a part of the memory is in no region, or may not be written.
    #[cold]
    fn write_in_pieces(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        let (mut address, mut rest) = (address, from);
        while !rest.is_empty() {
            let (place, here) = self.memory().find(address, rest.len()).ok_or(UnreachableMemory)?;
            let (piece, others) = rest.split_at(here);
            match place {
                AccessTarget::Mapped(mapping, offset) if mapping.write(offset, piece) => {}
                AccessTarget::Remote { writable: true, .. } => self.write_remote(address, piece)?,
                _ => return Err(UnreachableMemory),
            }
            address = address.wrapping_add(length(here));
            rest = others;
        }
        Ok(())
    }
}

impl<T: ClientAccess> Host for T {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        if self.read_mapped(address, into) { Ok(()) } else { self.read_in_pieces(address, into) }
    }

    #[inline]
    fn read_mapped(&mut self, address: u64, into: &mut [u8]) -> bool {
        let place = self.memory().mapped(address, into.len());
        place.map(|(mapping, offset)| mapping.read(offset, into)).is_some()
    }

    #[inline]
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        match self.memory().mapped(address, from.len()) {
            Some((mapping, offset)) if mapping.write(offset, from) => Ok(()),
            Some(_) => Err(UnreachableMemory),
            None => self.write_in_pieces(address, from),
        }
    }

    #[inline]
    fn read_words(&mut self, address: u64, stored: &[AtomicU64]) -> bool {
        let place = self.memory().mapped(address, stored.len() * 8);
        place.is_some_and(|(mapping, offset)| mapping.read_words(offset, stored))
    }

    #[inline]
    fn write_words(&mut self, address: u64, stored: &[AtomicU64]) -> bool {
        let place = self.memory().mapped(address, stored.len() * 8);
        place.is_some_and(|(mapping, offset)| mapping.write_words(offset, stored))
    }

    #[inline]
    fn prefetch(&mut self, address: u64, bytes: u32) {
        let place = self.memory().mapped(address, index(bytes));
        place.into_iter().for_each(|(mapping, offset)| mapping.prefetch(offset, index(bytes)));
    }

    #[inline]
    fn prefetch_to_write(&mut self, address: u64, bytes: u32) {
        let place = self.memory().mapped(address, index(bytes));
        place.into_iter().for_each(|(mapping, offset)| mapping.prefetch_to_write(offset, index(bytes)));
    }

    #[inline]
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory> {
        match self.memory().mapped(address, entry.len()) {
            Some((mapping, offset)) if mapping.post(offset, entry) => Ok(()),
            Some(_) => Err(UnreachableMemory),
            None => self.write_in_pieces(address, entry),
        }
    }

    #[inline]
    fn peek(&mut self, address: u64) -> Option<u32> {
        let (mapping, offset) = self.memory().mapped(address, 4)?;
        mapping.load_word(offset)
    }

    fn poke(&mut self, address: u64, value: u32) {
        if let Some((mapping, offset)) = self.memory().mapped(address, 4) {
            mapping.store_word(offset, value);
        }
    }

    #[inline]
    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.page().tail_and_head_doorbells(queue)
    }

    fn interrupt(&mut self, vector: u16) {
        self.send_interrupt(vector);
    }

    #[inline]
    fn completion_fault(&mut self, address: u64) -> Option<CompletionFault> {
        let signals = self.signals();
        let fault = signals.faults.match_completion_fault()?;
        signals.queue_faults.push(fault.time, EndedFault::Completion(address));
        Some(fault)
    }

    #[inline]
    fn is_doorbell_late(&mut self, queue: u16) -> bool {
        let signals = self.signals();
        let time = signals.faults.match_doorbell_delay();
        time.inspect(|time| signals.queue_faults.push(*time, EndedFault::Doorbell(queue))).is_some()
    }

    #[inline]
    fn take_ended_fault(&mut self) -> Option<EndedFault> {
        self.signals().queue_faults.take_due()
    }
}

impl<T: ClientAccess> QueueHost for T {
    #[inline]
    fn is_leaving(&self) -> bool {
        ClientAccess::is_leaving(self)
    }

    #[inline]
    fn take_out_of_reach(&mut self) -> bool {
        ClientAccess::take_out_of_reach(self)
    }
}

/// Sender of a client's interrupts, of which fault rules lose or repeat some.
#[derive(Debug)]
pub struct InterruptSender {
    faults: Arc<Faults>,
    /// Vectors of interrupts that a fault repeats, until they are due.
    again: DelayQueue<u16>,
    /// Faults of completions and doorbells, until each has ended.
    queue_faults: DelayQueue<EndedFault>,
}

impl InterruptSender {
    /// Makes the sender of interrupts of a device with these fault rules.
    pub fn new(faults: &Arc<Faults>) -> InterruptSender {
        InterruptSender {
            faults: Arc::clone(faults),
            again: DelayQueue::default(),
            queue_faults: DelayQueue::default(),
        }
    }

    /// Sends an interrupt by a vector, unless a fault loses it. `masked` is the register INTMS, which masks the pin.
    pub fn send(&mut self, vector: u16, interrupts: &ClientInterrupts, masked: u32) {
        match self.faults.match_interrupt_fault() {
            Some(InterruptFault::Lost) => return,
            Some(InterruptFault::Repeated(time)) => self.again.push(time, vector),
            None => {}
        }
        interrupts.raise(vector, masked);
    }

    /// Sends interrupts again that a fault repeats, if they are due. Returns the time until the next repetition or the
    /// end of another fault; none if there is none.
    #[inline]
    pub fn send_repeated_interrupts(&mut self, interrupts: &ClientInterrupts, masked: u32) -> Option<Duration> {
        while let Some(vector) = self.again.take_due() {
            interrupts.raise(vector, masked);
        }
        let (again, ended) = (self.again.time_until_first_due(), self.queue_faults.time_until_first_due());
        again.into_iter().chain(ended).min()
    }

    /// Returns true if a completion or a doorbell has a fault that has not ended.
    #[inline]
    pub fn has_queue_faults(&self) -> bool {
        !self.queue_faults.is_empty()
    }

    /// Takes over the repeated interrupts and the faults of a thread that does not serve the client any more.
    pub fn inherit(&mut self, other: InterruptSender) {
        self.again.extend(other.again);
        self.queue_faults.extend(other.queue_faults);
    }
}

/// Access to a client by a thread that borrows queues of it. The structure fills cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Mapped {
    memory: Memory,
    doorbells: Arc<DoorbellPage>,
    interrupts: ClientInterrupts,
    masked: u32,
    signals: InterruptSender,
    is_out_of_reach: bool,
}

impl Mapped {
    /// Makes the access of a borrower from the session's present state, which must not change while the borrower has
    /// the access.
    pub fn new(session: &Session, faults: &Arc<Faults>) -> Mapped {
        Mapped {
            memory: session.memory.share(),
            doorbells: Arc::clone(session.doorbells()),
            interrupts: session.interrupts.clone(),
            masked: session.registers.masked,
            signals: InterruptSender::new(faults),
            is_out_of_reach: false,
        }
    }

    /// Sends interrupts again that a fault repeats, if they are due. Returns the time until the next repetition or the
    /// end of another fault; none if there is none.
    #[inline]
    pub fn interrupt_again(&mut self) -> Option<Duration> {
        self.signals.send_repeated_interrupts(&self.interrupts, self.masked)
    }

    /// Returns the sender of interrupts, with the interrupts that are still to be repeated.
    pub fn into_interrupt_sender(self) -> InterruptSender {
        self.signals
    }
}

impl ClientAccess for Mapped {
    #[inline]
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn read_remote(&mut self, _address: u64, _into: &mut [u8]) -> Result<(), UnreachableMemory> {
        self.is_out_of_reach = true;
        Err(UnreachableMemory)
    }

    fn write_remote(&mut self, _address: u64, _from: &[u8]) -> Result<(), UnreachableMemory> {
        self.is_out_of_reach = true;
        Err(UnreachableMemory)
    }

    #[inline]
    fn take_out_of_reach(&mut self) -> bool {
        std::mem::take(&mut self.is_out_of_reach)
    }

    #[inline]
    fn page(&self) -> &DoorbellPage {
        &self.doorbells
    }

    fn send_interrupt(&mut self, vector: u16) {
        self.signals.send(vector, &self.interrupts, self.masked);
    }

    #[inline]
    fn signals(&mut self) -> &mut InterruptSender {
        &mut self.signals
    }
}
