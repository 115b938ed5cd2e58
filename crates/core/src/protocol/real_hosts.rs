//! Queues whose commands are written by drivers of real hosts: the interfaces through which the protocol's two halves
//! serve them.

use crate::drive::Drive;
use crate::media::keys::Key;
use crate::memory::HostMemory;
use crate::protocol::ports::{HostPorts, Ports};
use crate::request::Io;
use crate::time::{Span, Time};

/// Command that the driver of a real host has written, as the device has read it.
#[derive(Clone, Copy, Debug)]
pub struct HostCommand<'a> {
    /// Number of its queue, counted from 0 over all queues of all these hosts.
    pub queue: u16,
    /// Bytes of the queue entry.
    pub entry: &'a [u8],
    /// Content of its lists (PRP lists, SGL segments, ranges), in the order in which the device reads them, if it has
    /// any.
    pub lists: Option<&'a [u8]>,
    /// Operation, place and size, for the counters; none if the command is refused before.
    pub io: Option<Io>,
    /// Number that the sender uses for the command.
    pub token: u32,
    /// Time for which the command was held back before it came: its latency counts from then on.
    pub delayed: Span,
}

/// Queues of a driver that leaves them to real hosts.
pub trait HostQueues {
    /// Stops the driver from writing commands of its own.
    fn give_way(&mut self);

    /// Resets a queue that a real host has created with this number of entries, at most the drive's. Returns false, and
    /// changes nothing, while commands of the previous queue are in flight.
    fn begin_queue(&mut self, queue: u16, entries: u32, ports: &mut HostPorts) -> bool;

    /// Returns the number of further commands that a queue has room for.
    fn room(&self, queue: u16) -> usize;

    /// Writes a command that arrives at `now` into the next slot of its queue and counts its time for `thread`. Returns
    /// the slot.
    fn place(&mut self, now: Time, thread: u16, command: &HostCommand, ports: &mut HostPorts) -> u32;

    /// Writes the doorbell for the commands that have been placed in a queue.
    fn ring(&mut self, queue: u16, ports: &mut HostPorts);

    /// Returns the bytes of a completion queue entry as the host finds them.
    fn completion_entry(&self, queue: u16, slot: u32, memory: &HostMemory) -> [u8; 16];
}

/// Controller that executes commands of real hosts.
pub trait ServesHosts {
    /// Expects the commands of real hosts from now on.
    fn begin(&mut self);

    /// Keeps the states of zones from now on, all of them empty at first. Otherwise whoever serves the drive keeps them, and refuses
    /// commands by them.
    fn keep_zones(&mut self, drive: &Drive);

    /// Stores values under their keys that the drive has when it begins to serve: each with its length.
    fn hold_keys(&mut self, values: &mut dyn Iterator<Item = (Key, u32)>, ports: &mut Ports);

    /// Resets a queue with this number of entries; none of its commands is in flight. Completions raise interrupts only if
    /// the host has created the queue with them.
    fn restart_queue(&mut self, queue: u16, entries: u32, has_interrupts: bool);

    /// Accepts the content of the lists of the command in a slot, if it has lists.
    fn give_lists(&mut self, queue: u16, slot: u32, lists: Option<&[u8]>);
}
