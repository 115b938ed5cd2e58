//! Interface of a controller to its host: memory, doorbells, interrupts and registers.

use std::sync::atomic::AtomicU64;

use phaselink_core::protocol::nvme::spec::Status;

use super::registers::ControllerRegisters;
use crate::device::faults::CompletionFault;

/// Error of an access to host memory that is not mapped, or not mapped for this kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreachableMemory;

impl From<UnreachableMemory> for Status {
    fn from(_: UnreachableMemory) -> Status {
        Status::DATA_TRANSFER_ERROR
    }
}

/// Injected fault of a completion or a doorbell whose duration has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedFault {
    /// The completion queue entry at this address was written in part, and is now to be completed.
    Completion(u64),
    /// The doorbell of the submission queue with this identifier can be read again.
    Doorbell(u16),
}

/// Access of a controller to its host. Host memory may change at any time, so two reads of one address may differ.
pub trait Host {
    /// Copies host memory that begins at `address` into `into`.
    ///
    /// # Errors
    /// If part of the memory is not mapped.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory>;

    /// Copies `from` into host memory that begins at `address`.
    ///
    /// # Errors
    /// If part of the memory is not mapped, or not writable.
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory>;

    /// Copies host memory into `stored`, words of a store, without a buffer in between. Returns false, with nothing
    /// copied, if the host cannot do so; the caller then uses [`Host::read`].
    fn read_words(&mut self, _address: u64, _stored: &[AtomicU64]) -> bool {
        false
    }

    /// Copies `stored`, words of a store, into host memory without a buffer in between. Returns false, with nothing
    /// copied, if the host cannot do so; the caller then uses [`Host::write`].
    fn write_words(&mut self, _address: u64, _stored: &[AtomicU64]) -> bool {
        false
    }

    /// Hints that these bytes of host memory are about to be read.
    fn prefetch(&mut self, _address: u64, _bytes: u32) {}

    /// Hints that these bytes of host memory are about to be written.
    fn prefetch_to_write(&mut self, _address: u64, _bytes: u32) {}

    /// Writes a completion queue entry. The last word, which holds the phase tag, becomes visible after all others.
    ///
    /// # Errors
    /// If the completion queue is not mapped, or not writable.
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory>;

    /// Reads host memory that is mapped here; returns false without a message to the host if it is not. By default no
    /// memory is mapped.
    fn read_mapped(&mut self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Reads a 32-bit word of host memory with acquire ordering. Returns none if the memory is not mapped here, so that
    /// reading would take a message to the host. `address` is a multiple of 4.
    fn peek(&mut self, address: u64) -> Option<u32>;

    /// Writes a 32-bit word of host memory that [`Host::peek`] can read. Later reads of host memory do not pass this
    /// write.
    fn poke(&mut self, address: u64, value: u32);

    /// Returns the doorbell registers of a queue pair: submission queue tail and completion queue head.
    fn doorbells(&self, queue: u16) -> (u32, u32);

    /// Sends an interrupt with this vector to the host.
    fn interrupt(&mut self, vector: u16);

    /// Returns the fault to apply to the completion queue entry that is about to be written at `address`, if a fault
    /// rule matches.
    #[inline]
    fn completion_fault(&mut self, _address: u64) -> Option<CompletionFault> {
        None
    }

    /// Returns true if an injected fault hides the new value of a submission queue's doorbell from the device.
    #[inline]
    fn is_doorbell_late(&mut self, _queue: u16) -> bool {
        false
    }

    /// Returns the next fault of a completion or a doorbell whose duration has ended, if any.
    #[inline]
    fn take_ended_fault(&mut self) -> Option<EndedFault> {
        None
    }
}

/// Access to a controller's registers, doorbells and the host's clock, which only the admin queue and the controller's
/// life cycle need.
pub trait AdminHost: Host {
    /// Sets the doorbell registers of a queue pair to zero: the submission tail if `tail`, the completion head if
    /// `head`.
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool);

    /// Returns milliseconds since an arbitrary instant, by a clock that never goes back.
    fn now_ms(&self) -> u64;

    /// Returns the controller's registers.
    fn registers(&mut self) -> &mut ControllerRegisters;
}
