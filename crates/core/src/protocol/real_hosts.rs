//! Real hosts: their own drivers write the commands, and what a protocol's halves then do instead.

use crate::link::Link;
use crate::request::Io;
use crate::shared::Shared;
use crate::time::Time;

/// A command of a real host's own driver, as the device has read it.
#[derive(Clone, Copy, Debug)]
pub struct HostCommand<'a> {
    /// The queue that it is in, counted from 0 over all queues of all such hosts.
    pub queue: u16,
    /// Its bytes, as they are in a queue.
    pub entry: &'a [u8],
    /// What its lists held, in the order in which the device asks for them, if it has any.
    pub lists: Option<&'a [u8]>,
    /// What it is to a memory, for those who count; nothing for one that does not get that far.
    pub io: Option<Io>,
    /// The sender's name for it.
    pub token: u32,
}

/// The queues of a driver that leaves them to real hosts.
pub trait HostQueues {
    /// From now on the driver itself does nothing.
    fn give_way(&mut self);

    /// A real host has created a queue with so many entries, as many as the drive's at most: whether it begins anew, which
    /// it does not while commands of the one before are under way.
    fn begin_queue(&mut self, queue: u16, entries: u32, shared: &mut Shared) -> bool;

    /// How many more commands a queue has room for.
    fn room(&self, queue: u16) -> usize;

    /// A command arrives at `now` in the next slot of its queue, and is counted for `thread`; the slot.
    fn place(&mut self, now: Time, thread: u16, command: &HostCommand, shared: &mut Shared) -> u32;

    /// The host rings for what has been placed in a queue.
    fn ring(&mut self, queue: u16, link: &mut Link, shared: &mut Shared);

    /// What the host finds in an entry of a completion queue.
    fn completion_entry(&self, queue: u16, slot: u32, shared: &Shared) -> [u8; 16];
}

/// A controller behind such queues.
pub trait ServesHosts {
    /// From now on, commands are those of real hosts.
    fn begin(&mut self);

    /// A queue begins anew with so many entries; nothing of it is under way.
    fn restart_queue(&mut self, queue: u16, entries: u32);

    /// What was read for the lists of the command in a slot, if that has any.
    fn give_lists(&mut self, queue: u16, slot: u32, lists: Option<&[u8]>);
}
