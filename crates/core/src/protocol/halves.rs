//! Interfaces that every protocol implements: its driver (host side), its controller (device side), and the properties
//! of a drive that the protocol determines. Driver and controller exchange packets over the link.
//!
//! A protocol has to implement only what no default can provide. All other methods have a default that suits a plain
//! block device.

use super::ports::{HostPorts, Ports, Settled};
use super::real_hosts::{HostQueues, ServesHosts};
use crate::config::StackStage;
use crate::crash::explain::LossClauses;
use crate::drive::Drive;
use crate::ledger::stage::Ledger;
use crate::media::zones::ZonesLeft;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::problem::BrokenCondition;
use crate::request::{Io, Op, RequestId};
use crate::scheduler::Timer;
use crate::time::{Span, Time};
use crate::tlp::{Kind, Packet, Payload, Token};
use crate::workload::{FilledKeys, Limits};

/// Attachment of a served drive to real hosts, which see the device that its protocol describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// PCI Express function, whose registers and queues the host's own driver uses.
    PciFunction,
    /// Queues and receive buffers in memory that the drive's server shares with a process.
    SharedMemory,
}

/// Properties that a drive has by its protocol, implemented by the section of drive files that holds the protocol's
/// keys.
pub trait Protocol {
    /// Returns the name of the protocol for texts, such as messages and reports.
    fn title(&self) -> &'static str;

    /// Returns the names of all data that packets of this protocol carry for reads and writes. A test checks that each
    /// of them occurs.
    fn messages(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the limits of a drive's queues and memory: queue pairs, queue entries, bytes of a transfer, block size
    /// and capacity.
    fn limits(&self, drive: &Drive) -> Limits;

    /// Returns the conditions that a drive violates among this protocol's keys, or between them and other keys. Called
    /// for every protocol, even if the drive does not use it.
    fn broken(&self, _drive: &Drive) -> Vec<BrokenCondition> {
        Vec::new()
    }

    /// True if the protocol has a command for this operation. The default is reads and writes only.
    fn supports(&self, op: Op) -> bool {
        op.has_data()
    }

    /// Returns the reason, for a message, why threads of this protocol's drives cannot wait for an interrupt; none if
    /// they can.
    fn no_interrupts(&self) -> Option<&'static str> {
        None
    }

    /// Returns the name of the drive's key that turns interrupts on, if that key has turned them off.
    fn interrupts_key(&self) -> Option<&'static str> {
        None
    }

    /// Returns words for a report that say where the data of an acknowledged write is: in the cells, or in a buffer in
    /// front of them.
    fn promise(&self, drive: &Drive) -> &'static str {
        if drive.media.acknowledges_early() { "in the buffers of the memory" } else { "in the cells" }
    }

    /// True if the driver accepts requests from all I/O engines of the host's software, several at a time.
    fn takes_engines(&self) -> bool {
        false
    }

    /// True if one host can have several drives of this protocol, whose drivers then share no state.
    fn stands_beside_others(&self, _drive: &Drive) -> bool {
        false
    }

    /// True if several hosts can share one drive of this protocol through a switch.
    fn is_routed_by_port(&self) -> bool {
        false
    }

    /// True if hosts can reach a drive of this protocol over a network, by NVMe over Fabrics.
    fn crosses_fabrics(&self) -> bool {
        false
    }

    /// Returns a description, for a report, of how threads wait for completions; none if the key `host.wait` says it
    /// all.
    fn wait_description(&self, _drive: &Drive) -> Option<String> {
        None
    }

    /// Returns the driver's software stages that contend for locks and cache lines. They come after the stages of the
    /// operating system.
    fn stages(&self, _drive: &Drive) -> Vec<StackStage> {
        Vec::new()
    }

    /// Returns the size in bytes of the largest request for which a thread spins in the driver; 0 if there is none.
    /// Threads of the host may sleep for larger requests.
    fn spin_up_to_bytes(&self) -> u32 {
        0
    }

    /// Returns the time from a completion's arrival in host memory until a spinning core has seen it.
    fn poll(&self, drive: &Drive) -> Span {
        drive.host.poll
    }

    /// Returns the payload of one packet in bytes. A read that races with a write sees each such unit either old or
    /// new.
    fn packet_bytes(&self, drive: &Drive) -> u32 {
        drive.link.max_payload_bytes
    }

    /// Returns the size in bytes of the unit of a write that a power cut leaves either all old or all new. The unit is
    /// a logical block, the least that NVMe allows (NVM Command Set Specification 1.0, section 2.1.4.2: AWUPF), and at
    /// least a line of 64 bytes (assumed).
    fn atomic_bytes(&self, drive: &Drive) -> u32 {
        self.limits(drive).write_block_bytes.max(64)
    }

    /// True if the device acknowledges writes before their data is in the cells.
    fn acknowledges_early(&self, drive: &Drive) -> bool {
        drive.media.acknowledges_early()
    }

    /// Returns the clauses of the protocol's specification that allow a drive to lose data when its power fails; none
    /// if no clause does.
    fn loss_clauses(&self) -> Option<LossClauses> {
        None
    }

    /// Returns the name of another protocol's section of drive files whose keys this protocol uses too, if there is
    /// one.
    fn builds_on(&self) -> Option<&'static str> {
        None
    }

    /// True if the protocol's closed form covers drives with embedded processors or a flash translation layer in front
    /// of the memory.
    fn foresees_inside(&self) -> bool {
        false
    }

    /// True if jobs that write are measured only in the drive's steady state, which its write buffer or flash
    /// translation layer reaches after many writes.
    fn has_steady_state(&self, drive: &Drive) -> bool {
        drive.is_flash()
    }

    /// True if the controller passes each command to the memory in one piece, so that a rate-limited volume can count
    /// commands.
    fn passes_whole_commands(&self) -> bool {
        false
    }

    /// True if the protocol has commands for zones, which are written in order and reset as a whole.
    fn knows_zones(&self) -> bool {
        false
    }

    /// True if writes of the protocol can name a placement identifier for their data.
    fn knows_placement(&self) -> bool {
        false
    }

    /// True if the protocol has commands that store values by their keys.
    fn knows_keys(&self) -> bool {
        false
    }

    /// True if the throughput of a mix of reads and writes follows from queueing at single resources. That holds unless
    /// a request occupies one resource while it waits for another.
    fn foresees_mixes(&self) -> bool {
        true
    }

    /// True if real hosts can use a served drive of this protocol through this attachment.
    fn attaches(&self, _attachment: Attachment) -> bool {
        false
    }
}

/// Driver of a protocol (host side): submits commands to the device and sees their completions.
pub trait Driver {
    /// Charges the driver's processor time for the submission of a request to the request's ledger.
    fn submit_work(&self, _io: &Io, _thread: u16, _ledger: &mut Ledger) {}

    /// Charges the driver's processor time for the completion of a request to the request's ledger.
    fn complete_work(&self, _io: &Io, _ledger: &mut Ledger) {}

    /// Returns the driver's processor time per request that occupies the core without delaying the request itself. It
    /// limits the throughput of the thread, but adds nothing to the latency of a lone request.
    fn overlapped_work(&self, _io: &Io) -> Span {
        Span::ZERO
    }

    /// Returns the most bytes of data that one command transfers. Larger requests are split into several commands.
    fn max_transfer_bytes(&self) -> u32;

    /// Returns the size in bytes up to which a request of any operation is one command and is never split.
    fn whole_bytes_max(&self) -> u32 {
        self.max_transfer_bytes()
    }

    /// Returns the most bytes that one command of this operation covers. A command without data can cover more than a
    /// read or write, up to the width of its length field.
    fn max_command_bytes(&self, _op: Op) -> u32 {
        self.max_transfer_bytes()
    }

    /// Submits a request to the device. The request must fit one command.
    fn submit(&mut self, now: Time, request: RequestId, ports: &mut HostPorts);

    /// Submits several requests of one thread to the device, each of which must fit one command. Protocols with queues
    /// announce all of them by one doorbell.
    fn submit_together(&mut self, now: Time, requests: &[RequestId], ports: &mut HostPorts) {
        for &request in requests {
            self.submit(now, request, ports);
        }
    }

    /// Marks the completion queue of a thread as polled, and returns the queue's number. From now on, the thread
    /// collects several completions and reports its progress through [`Driver::acknowledge`].
    fn begin_polling(&mut self, thread: u16) -> u16 {
        thread
    }

    /// Tells the device how far a thread has consumed its completion queue.
    fn acknowledge(&mut self, _thread: u16, _ports: &mut HostPorts) {}

    /// Returns the processor time that one call of [`Driver::acknowledge`] takes.
    fn acknowledge_work(&self) -> Span {
        Span::ZERO
    }

    /// Handles packets from the device that have become visible in host memory: data, or the completion of a command.
    /// `polling` is true if threads poll for completions.
    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts);

    /// Collects completions at the end of an interrupt handler. If the handler must first read a device register,
    /// returns the earliest time at which that read may complete.
    fn on_handled(&mut self, _now: Time, _vector: u16, _ports: &mut HostPorts) -> Option<Time> {
        None
    }

    /// Handles the device's completion of a register read that the interrupt handler has sent.
    fn on_answer(&mut self, _now: Time, _answer: &Payload, _ports: &mut HostPorts) {}

    /// Handles the expiry of the timer that the driver has set, for example for time-outs.
    fn on_timer(&mut self, _now: Time, _ports: &mut HostPorts) {}

    /// Returns the driver's queues for use by drivers of real hosts; none if the protocol does not support real hosts.
    fn real_hosts(&mut self) -> Option<&mut dyn HostQueues> {
        None
    }

    /// Returns the driver's counters as pairs of name and count.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Controller of a protocol (device side): fetches and executes commands.
pub trait Controller {
    /// Handles a packet from the host: a register write, or the completion of one of the device's reads of host memory.
    // Inlined: called for every packet.
    #[inline(always)]
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match packet.kind {
            Kind::Completion => self.on_answer(now, packet, payload, ports),
            _ => self.on_register_write(now, packet.address, payload.u32(), ports),
        }
    }

    /// Handles the host's write of `value` to the device register at `address`.
    fn on_register_write(&mut self, _now: Time, _address: u64, _value: u32, _ports: &mut Ports) {}

    /// Handles the completion, with data, of a read of host memory that the device has sent.
    fn on_answer(&mut self, _now: Time, _packet: &Packet, _payload: &Payload, _ports: &mut Ports) {}

    /// Handles the expiry of one of the controller's timers, identified by its kind and its context.
    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports);

    /// True if the engine must call [`on_delivered`](Self::on_delivered) when packets from the device arrive at the
    /// host.
    fn needs_delivery_events(&self) -> bool {
        false
    }

    /// Handles the arrival at the host of packets that the device has sent with this token. Called only if
    /// [`needs_delivery_events`](Self::needs_delivery_events) is true.
    fn on_delivered(&mut self, _now: Time, _token: Token, _ports: &mut Ports) {}

    /// Sees the data of a write that has arrived at the device and is about to be stored there. Called only in a run
    /// with data.
    fn on_user_data(&mut self, _packet: &Packet, _arrived: &[u8], _ports: &mut Ports) {}

    /// Stops interrupts for the completions of a queue, as the host polls that queue.
    fn spare_interrupts(&mut self, _queue: u16) {}

    /// Prepares the controller for a run with data, in which the device stores real bytes. `held` is what the device
    /// holds at the start.
    fn keep_data(&mut self, _drive: &Drive, _seed: u64, _held: &SparseBytes, _memory: &mut HostMemory) {}

    /// Returns the states of the zones after a restart of the device, with or without a loss of power; none if the
    /// drive has no zones.
    fn zones_left(&self, _loses_power: bool) -> Option<ZonesLeft> {
        None
    }

    /// Restores the states of zones that the controller before a restart has left.
    fn take_over_zones(&mut self, _left: ZonesLeft) {}

    /// Stores a value for every key that the jobs can use, before they begin, as in a drive that is in use.
    fn fill_keys(&mut self, _jobs: &[FilledKeys], _ports: &mut Ports) {}

    /// Returns the name of the data that a packet carries, in the words of the protocol.
    fn packet_name(&self, packet: &Packet) -> &'static str;

    /// Returns the names for a trace of a read that polls for commands, if `packet` is the completion of such a read.
    fn poll_names(&self, _packet: &Packet) -> Option<PollNames> {
        None
    }

    /// Returns the controller's interface for queues of real hosts; none if the protocol does not support real hosts.
    fn real_hosts(&mut self) -> Option<&mut dyn ServesHosts> {
        None
    }

    /// Returns the controller's counters as pairs of name and count.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Names in a trace for a read by which a device polls for commands, in the words of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollNames {
    /// Name of the read, which belongs to the request whose command the read brings.
    pub read: &'static str,
    /// Name of the read's completion if the completion brings no command; none if that case has no name of its own.
    pub empty: Option<&'static str>,
}
