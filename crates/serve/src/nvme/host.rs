//! What an NVMe controller asks of whoever connects it to a host: memory, doorbells, interrupts, registers.

use std::sync::atomic::AtomicU64;

use phaselink_core::protocol::nvme::spec::Status;

use super::registers::Registers;

/// An address that leads nowhere, or not where it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

impl From<Unreachable> for Status {
    fn from(_: Unreachable) -> Status {
        Status::DATA_TRANSFER_ERROR
    }
}

/// The host as the controller reaches it. Whatever it holds may change at any time; nothing that is read twice has to be
/// the same.
pub trait Host {
    /// Copy the memory from `address` on.
    ///
    /// # Errors
    /// If part of it is not there.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable>;

    /// Let the memory from `address` on be `from`.
    ///
    /// # Errors
    /// If part of it is not there, or not to be written.
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable>;

    /// Copy words straight from the memory at `address` on, or straight to it, with nothing in between; whether that has
    /// been done. Where it cannot be, there are [`Host::read`] and [`Host::write`].
    fn read_words(&mut self, _address: u64, _into: &[AtomicU64]) -> bool {
        false
    }

    /// The other way; see [`Host::read_words`].
    fn write_words(&mut self, _address: u64, _from: &[AtomicU64]) -> bool {
        false
    }

    /// Bytes are going to be written there soon: a hint.
    fn prefetch_to_write(&mut self, _address: u64, _bytes: u32) {}

    /// The same for a completion entry: its last word, with the phase, becomes visible after everything else.
    ///
    /// # Errors
    /// As [`Host::write`].
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable>;

    /// The word at `address`, a multiple of 4, if it can be looked at for nothing: what was written before it is seen
    /// after it.
    fn peek(&mut self, address: u64) -> Option<u32>;

    /// Set such a word; later looks at memory come after it.
    fn poke(&mut self, address: u64, value: u32);

    /// The doorbells of a queue pair as written last: submission tail, completion head.
    fn doorbells(&self, queue: u16) -> (u32, u32);

    /// Tell the host that an interrupt vector has something for it.
    fn interrupt(&mut self, vector: u16);
}

/// What its registers and the admin queue take beside that.
pub trait AdminHost: Host {
    /// The doorbells of a queue that begins anew are zero again: the tail's, the head's, or both.
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool);

    /// Milliseconds since some instant, by a clock that goes on for as long as the host is there.
    fn now_ms(&self) -> u64;

    /// The registers.
    fn registers(&mut self) -> &mut Registers;
}
