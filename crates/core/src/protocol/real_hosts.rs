//! Interfaces of a driver and a controller for queues into which drivers of real hosts write commands.

use std::any::Any;

use crate::drive::Drive;
use crate::media::keys::Key;
use crate::memory::HostMemory;
use crate::protocol::ports::{HostPorts, Ports};
use crate::request::Io;
use crate::time::{Span, Time};

/// Command that a served controller has decoded, in the type that the folder of its protocol defines.
pub type DecodedHostCommand = Box<dyn Any + Send>;

/// Command that the driver of a real host has written into its queue, as it enters the model.
#[derive(Debug)]
pub struct HostCommand<'a> {
    /// Number of the command's queue, counted from 0 over the queues of all real hosts of the drive.
    pub queue: u16,
    /// Command as bytes or decoded.
    pub form: HostCommandForm<'a>,
    /// Operation, first byte and length of the command, for the counters; none if the command was already refused.
    pub io: Option<Io>,
    /// Number that the caller has given the command, to recognise its completion.
    pub token: u32,
    /// Time for which the command was held back before it arrived at the simulated device. The command's latency
    /// includes this time.
    pub delayed: Span,
}

/// Form in which a real host's command enters the model.
#[derive(Debug)]
pub enum HostCommandForm<'a> {
    /// Bytes, which the simulated controller fetches, decodes and checks.
    Bytes {
        /// Bytes of the command's submission queue entry.
        entry: &'a [u8; 64],
        /// Content of the command's lists (PRP lists, SGL segments, ranges), in the order in which the device reads
        /// them; none if it has no lists.
        lists: Option<&'a [u8]>,
    },
    /// Command that a served controller has decoded. The simulated controller fetches it without decoding it again.
    Decoded(DecodedHostCommand),
}

/// Queues of a driver into which drivers of real hosts write commands in its place.
pub trait HostQueues {
    /// Stops the driver from writing commands of its own, for the rest of the run.
    fn hand_queues_to_real_hosts(&mut self);

    /// Resets a queue that a real host has created with this number of entries, at most that of the drive's queues.
    /// Returns false, and changes nothing, while commands of the previous queue are in flight.
    fn begin_queue(&mut self, queue: u16, entries: u32, ports: &mut HostPorts) -> bool;

    /// Returns the number of commands that a queue can accept before it is full.
    fn room(&self, queue: u16) -> usize;

    /// Places a command that arrives at `now` in the next slot of its queue, and charges its time to `thread`.
    /// Returns the slot.
    fn place(&mut self, now: Time, thread: u16, command: &HostCommand, ports: &mut HostPorts) -> u32;

    /// Writes the doorbell of a submission queue, which announces all commands written into the queue so far.
    fn ring(&mut self, queue: u16, ports: &mut HostPorts);

    /// Returns the bytes of a completion queue entry, as the host finds them in its memory.
    fn completion_entry(&self, queue: u16, slot: u32, memory: &HostMemory) -> [u8; 16];
}

/// Controller that executes commands which drivers of real hosts have written.
pub trait ServesHosts {
    /// Switches the controller to commands of real hosts, for the rest of the run.
    fn begin(&mut self);

    /// Lets the controller keep the states of zones, all of them empty at first. Otherwise the server of the drive
    /// keeps them, and refuses commands by them.
    fn keep_zones(&mut self, drive: &Drive);

    /// Stores the values that the drive holds when it begins to serve: for each its key and its length in bytes.
    fn hold_keys(&mut self, values: &mut dyn Iterator<Item = (Key, u32)>, ports: &mut Ports);

    /// Resets a queue to this number of entries, while none of its commands is in flight. `has_interrupts` is true if
    /// the host has enabled interrupts for the queue's completions.
    fn restart_queue(&mut self, queue: u16, entries: u32, has_interrupts: bool);

    /// Gives the controller what the command in a slot has beside the bytes that the driver has written there.
    fn give_command(&mut self, queue: u16, slot: u32, form: HostCommandForm);
}
