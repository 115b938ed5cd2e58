//! Access of a device thread to a client: memory, doorbells, interrupts.
//!
//! The thread that has the socket reaches all of it, since it can ask the client. The others have the memory that is mapped:
//! what is not, and what takes the socket, they leave to that thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::interrupts::Interrupts;
use super::memory::{AccessTarget, Memory};
use super::session::{Doorbells, Session};
use crate::device::faults::{CompletionFault, DelayQueue, Faults, InterruptFault};
use crate::nvme::host::EndedFault;
use crate::nvme::{Host, Unreachable};

/// Client, as one thread reaches it. Whatever implements this is a [`Host`].
pub trait Reach {
    /// Returns the client's memory.
    fn memory(&mut self) -> &mut Memory;

    /// Reads memory for which the client has given no descriptor.
    ///
    /// # Errors
    /// If it does not give it, or this thread cannot ask.
    fn read_remote(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable>;

    /// Writes memory for which the client has given no descriptor.
    ///
    /// # Errors
    /// As [`Reach::read_remote`].
    fn write_remote(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable>;

    /// Returns true if an access has failed since the last call because this thread cannot ask the client.
    fn take_out_of_reach(&mut self) -> bool;

    /// Returns true if the client is to leave this thread, which has others to serve: no more commands of it are fetched here.
    #[inline]
    fn is_leaving(&self) -> bool {
        false
    }

    /// Returns the page of the doorbells.
    fn page(&self) -> &Doorbells;

    /// Sends an interrupt by a vector.
    fn send_interrupt(&mut self, vector: u16);

    /// Returns the faults of interrupts, completions and doorbells.
    fn signals(&mut self) -> &mut Signals;

    /// Reads from more than one mapping.
    ///
    /// # Errors
    /// If part of it is not there.
    #[cold]
    fn read_pieces(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        let (mut address, mut rest) = (address, into);
        while !rest.is_empty() {
            let (place, here) = self.memory().find(address, rest.len()).ok_or(Unreachable)?;
            let (piece, others) = rest.split_at_mut(here);
            match place {
                AccessTarget::Mapped(mapping, offset) => mapping.read(offset, piece),
                AccessTarget::Remote { readable: true, .. } => self.read_remote(address, piece)?,
                AccessTarget::Remote { .. } => return Err(Unreachable),
            }
            address = address.wrapping_add(here as u64);
            rest = others;
        }
        Ok(())
    }

    /// Writes to more than one mapping.
    ///
    /// # Errors
    /// If part of it is not there, or not to be written.
    #[cold]
    fn write_pieces(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let (mut address, mut rest) = (address, from);
        while !rest.is_empty() {
            let (place, here) = self.memory().find(address, rest.len()).ok_or(Unreachable)?;
            let (piece, others) = rest.split_at(here);
            match place {
                AccessTarget::Mapped(mapping, offset) if mapping.write(offset, piece) => {}
                AccessTarget::Remote { writable: true, .. } => self.write_remote(address, piece)?,
                _ => return Err(Unreachable),
            }
            address = address.wrapping_add(here as u64);
            rest = others;
        }
        Ok(())
    }
}

impl<T: Reach> Host for T {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        match self.memory().mapped(address, into.len()) {
            Some((mapping, offset)) => {
                mapping.read(offset, into);
                Ok(())
            }
            None => self.read_pieces(address, into),
        }
    }

    #[inline]
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        match self.memory().mapped(address, from.len()) {
            Some((mapping, offset)) if mapping.write(offset, from) => Ok(()),
            Some(_) => Err(Unreachable),
            None => self.write_pieces(address, from),
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
        let place = self.memory().mapped(address, bytes as usize);
        place.into_iter().for_each(|(mapping, offset)| mapping.prefetch(offset, bytes as usize));
    }

    #[inline]
    fn prefetch_to_write(&mut self, address: u64, bytes: u32) {
        let place = self.memory().mapped(address, bytes as usize);
        place.into_iter().for_each(|(mapping, offset)| mapping.prefetch_to_write(offset, bytes as usize));
    }

    #[inline]
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable> {
        match self.memory().mapped(address, entry.len()) {
            Some((mapping, offset)) if mapping.post(offset, entry) => Ok(()),
            Some(_) => Err(Unreachable),
            None => self.write_pieces(address, entry),
        }
    }

    #[inline]
    fn peek(&mut self, address: u64) -> Option<u32> {
        let (mapping, offset) = self.memory().mapped(address, 4)?;
        mapping.load(offset)
    }

    fn poke(&mut self, address: u64, value: u32) {
        if let Some((mapping, offset)) = self.memory().mapped(address, 4) {
            mapping.store(offset, value);
        }
    }

    #[inline]
    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.page().of(queue)
    }

    fn interrupt(&mut self, vector: u16) {
        self.send_interrupt(vector);
    }

    #[inline]
    fn completion_fault(&mut self, address: u64) -> Option<CompletionFault> {
        let signals = self.signals();
        let fault = signals.faults.match_completion()?;
        signals.queue_faults.push(fault.time, EndedFault::Completion(address));
        Some(fault)
    }

    #[inline]
    fn is_doorbell_late(&mut self, queue: u16) -> bool {
        let signals = self.signals();
        let time = signals.faults.match_doorbell();
        time.inspect(|time| signals.queue_faults.push(*time, EndedFault::Doorbell(queue))).is_some()
    }

    #[inline]
    fn take_ended_fault(&mut self) -> Option<EndedFault> {
        self.signals().queue_faults.take_due()
    }
}

/// Sender of interrupts, some of which a fault loses or repeats.
#[derive(Debug)]
pub struct Signals {
    faults: Arc<Faults>,
    /// Vectors of interrupts that a fault repeats.
    again: DelayQueue<u16>,
    /// Faults of completions and doorbells, until they end.
    queue_faults: DelayQueue<EndedFault>,
}

impl Signals {
    /// Makes the sender of a device with these fault rules.
    pub fn new(faults: &Arc<Faults>) -> Signals {
        Signals { faults: Arc::clone(faults), again: DelayQueue::default(), queue_faults: DelayQueue::default() }
    }

    /// Sends an interrupt. `masked` are the pin's bits of INTMS.
    pub fn send(&mut self, vector: u16, interrupts: &Interrupts, masked: u32) {
        match self.faults.match_interrupt() {
            Some(InterruptFault::Lost) => return,
            Some(InterruptFault::Repeated(time)) => self.again.push(time, vector),
            None => {}
        }
        interrupts.raise(vector, masked);
    }

    /// Repeats interrupts that are due; returns the time until the next one, or the end of another fault, if there is one.
    #[inline]
    pub fn send_again(&mut self, interrupts: &Interrupts, masked: u32) -> Option<Duration> {
        while let Some(vector) = self.again.take_due() {
            interrupts.raise(vector, masked);
        }
        let (again, ended) = (self.again.due_in(), self.queue_faults.due_in());
        again.into_iter().chain(ended).min()
    }

    /// Returns true if a completion or a doorbell has a fault that has not ended.
    #[inline]
    pub fn has_queue_faults(&self) -> bool {
        !self.queue_faults.is_empty()
    }

    /// Takes over the interrupts that another thread, which sends no more, was to repeat.
    pub fn inherit(&mut self, other: Signals) {
        self.again.extend(other.again);
        self.queue_faults.extend(other.queue_faults);
    }
}

/// Client, as a borrower of its queues reaches it. The structure fills cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Mapped {
    memory: Memory,
    doorbells: Arc<Doorbells>,
    interrupts: Interrupts,
    masked: u32,
    signals: Signals,
    is_out_of_reach: bool,
}

impl Mapped {
    /// Shares what the session has now, none of which changes as long as the borrower has this.
    pub fn new(session: &Session, faults: &Arc<Faults>) -> Mapped {
        Mapped {
            memory: session.memory.share(),
            doorbells: Arc::clone(session.doorbells()),
            interrupts: session.interrupts.clone(),
            masked: session.registers.masked,
            signals: Signals::new(faults),
            is_out_of_reach: false,
        }
    }

    /// Repeats interrupts that are due; returns the time until the next one, if there is one.
    #[inline]
    pub fn interrupt_again(&mut self) -> Option<Duration> {
        self.signals.send_again(&self.interrupts, self.masked)
    }

    /// Returns the sender, with the interrupts that are to be repeated.
    pub fn into_signals(self) -> Signals {
        self.signals
    }
}

impl Reach for Mapped {
    #[inline]
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn read_remote(&mut self, _address: u64, _into: &mut [u8]) -> Result<(), Unreachable> {
        self.is_out_of_reach = true;
        Err(Unreachable)
    }

    fn write_remote(&mut self, _address: u64, _from: &[u8]) -> Result<(), Unreachable> {
        self.is_out_of_reach = true;
        Err(Unreachable)
    }

    #[inline]
    fn take_out_of_reach(&mut self) -> bool {
        std::mem::take(&mut self.is_out_of_reach)
    }

    #[inline]
    fn page(&self) -> &Doorbells {
        &self.doorbells
    }

    fn send_interrupt(&mut self, vector: u16) {
        self.signals.send(vector, &self.interrupts, self.masked);
    }

    #[inline]
    fn signals(&mut self) -> &mut Signals {
        &mut self.signals
    }
}
