//! Driver (host side) and controller (device side) of a protocol, which exchange packets over the link, and the
//! properties of a drive that its protocol determines.
//!
//! The traits ask only for what differs between protocols; every other method has a default that suits a plain device.

use super::ports::{HostPorts, Ports, Settled};
use super::real_hosts::{HostQueues, ServesHosts};
use crate::config::{Acknowledge, StackStage};
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

/// A way in which real hosts can reach a served drive as the device that its protocol describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A PCI Express function whose registers and queues a host's own driver uses.
    PciFunction,
    /// Queues and receive buffers in memory that a process shares.
    SharedMemory,
}

/// A protocol, as a drive describes it: implemented by the section that holds its keys.
pub trait Protocol {
    /// Returns the name of the protocol as people write it.
    fn title(&self) -> &'static str;

    /// Returns the names of all messages that drives of this protocol send when they read and write. A test checks that
    /// every one of them occurs.
    fn messages(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the limits of the drive's queues and memory: queue pairs, entries, bytes of a transfer, block size,
    /// capacity.
    fn limits(&self, drive: &Drive) -> Limits;

    /// Returns the violated conditions between keys of this protocol, and between them and other keys. Every protocol
    /// is asked, even if the drive does not speak it.
    fn broken(&self, _drive: &Drive) -> Vec<BrokenCondition> {
        Vec::new()
    }

    /// True if the protocol has a command for this operation. A plain device reads and writes.
    fn supports(&self, op: Op) -> bool {
        op.has_data()
    }

    /// Returns the reason why threads cannot sleep until an interrupt, if they cannot.
    fn no_interrupts(&self) -> Option<&'static str> {
        None
    }

    /// Returns the key of the drive that turns interrupts on, if a key has turned them off.
    fn interrupts_key(&self) -> Option<&'static str> {
        None
    }

    /// Returns the place, in words, that holds the data of a write once the write is acknowledged.
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the buffers of the memory",
        }
    }

    /// True if the driver accepts requests of different I/O engines, and several requests in one submission.
    fn takes_engines(&self) -> bool {
        false
    }

    /// True if several of these drives can be in one host, since their drivers share no state.
    fn stands_beside_others(&self, _drive: &Drive) -> bool {
        false
    }

    /// True if several hosts can share one of these drives through a switch.
    fn is_routed_by_port(&self) -> bool {
        false
    }

    /// Returns a description of how threads wait for completions, where `host.wait` alone does not determine that.
    fn waiting(&self, _drive: &Drive) -> Option<String> {
        None
    }

    /// Returns the stages of the driver that contend for locks and cache lines; they follow those of the operating
    /// system.
    fn stages(&self, _drive: &Drive) -> Vec<StackStage> {
        Vec::new()
    }

    /// Returns the largest request in bytes for which a thread spins in the driver although threads of this host sleep
    /// otherwise.
    fn spin_up_to_bytes(&self) -> u32 {
        0
    }

    /// Returns the time from a completion's arrival in host memory until a spinning core has seen it.
    fn poll(&self, drive: &Drive) -> Span {
        drive.host.poll
    }

    /// Returns the most bytes that a racing write can change at once: those of one packet.
    fn packet_bytes(&self, drive: &Drive) -> u32 {
        drive.link.max_payload_bytes
    }

    /// Returns the bytes of a write that a power cut leaves either all old or all new: a logical block, the least that
    /// NVMe allows (NVM Command Set Specification 1.0, section 2.1.4.2: AWUPF), and at least a line of 64 bytes
    /// (assumed).
    fn atomic_bytes(&self, drive: &Drive) -> u32 {
        self.limits(drive).write_block_bytes.max(64)
    }

    /// True if the device acknowledges writes that are not in the cells yet.
    fn acknowledges_early(&self, drive: &Drive) -> bool {
        drive.media.acknowledge == Acknowledge::Early
    }

    /// Returns the clauses of its specification by which a drive may lose data with its power; none of a plain memory.
    fn loss_clauses(&self) -> Option<LossClauses> {
        None
    }

    /// Returns the section of another protocol whose keys this protocol uses too, if there is one.
    fn builds_on(&self) -> Option<&'static str> {
        None
    }

    /// True if the closed form covers processors and flash in front of the memory.
    fn foresees_inside(&self) -> bool {
        false
    }

    /// True if writes are measured once the write buffer of the drive has been turned over.
    fn has_steady_state(&self, drive: &Drive) -> bool {
        drive.is_flash()
    }

    /// True if the controller gives each command to the memory as a whole, so that a volume can count it.
    fn passes_whole_commands(&self) -> bool {
        false
    }

    /// True if the protocol has commands for zones.
    fn knows_zones(&self) -> bool {
        false
    }

    /// True if commands of the protocol can say where their data is placed.
    fn knows_placement(&self) -> bool {
        false
    }

    /// True if the protocol has commands that store values by their keys.
    fn knows_keys(&self) -> bool {
        false
    }

    /// True if a request of a mix holds no other resource while it waits for one, so that queueing at single resources
    /// determines the throughput of the mix.
    fn foresees_mixes(&self) -> bool {
        true
    }

    /// True if real hosts can use the served drive through this attachment.
    fn attaches(&self, _attachment: Attachment) -> bool {
        false
    }
}

/// Host side of a protocol: submits commands and sees their completions.
pub trait Driver {
    /// Charges the processor time of submitting a request.
    fn submit_work(&self, _io: &Io, _thread: u16, _ledger: &mut Ledger) {}

    /// Charges the processor time of completing a request.
    fn complete_work(&self, _io: &Io, _ledger: &mut Ledger) {}

    /// Returns the processor time that a request takes of its thread without delaying the request itself. It limits the
    /// throughput of the thread, but does not lengthen a request that is alone.
    fn work_beside(&self, _io: &Io) -> Span {
        Span::ZERO
    }

    /// Returns the most bytes that one command transfers; larger requests are split.
    fn max_transfer_bytes(&self) -> u32;

    /// Returns the most bytes of a request that is one command whatever its operation.
    fn whole_bytes_max(&self) -> u32 {
        self.max_transfer_bytes()
    }

    /// Returns the most bytes that one command of this operation covers. Operations without data are limited by the
    /// width of the protocol's fields alone.
    fn max_command_bytes(&self, _op: Op) -> u32 {
        self.max_transfer_bytes()
    }

    /// Submits a request that fits one command to the device.
    fn submit(&mut self, now: Time, request: RequestId, ports: &mut HostPorts);

    /// Submits several requests of one thread, each of which fits one command. Where the protocol can, one doorbell
    /// announces all of them.
    fn submit_together(&mut self, now: Time, requests: &[RequestId], ports: &mut HostPorts) {
        for &request in requests {
            self.submit(now, request, ports);
        }
    }

    /// Marks the queue of a thread that polls for its completions and collects several at once, and returns the queue's
    /// number. The thread reports its progress through [`Driver::acknowledge`].
    fn look_for(&mut self, thread: u16) -> u16 {
        thread
    }

    /// Tells the device how far the thread has consumed its completion queue.
    fn acknowledge(&mut self, _thread: u16, _ports: &mut HostPorts) {}

    /// Returns the processor time of [`Driver::acknowledge`].
    fn acknowledge_work(&self) -> Span {
        Span::ZERO
    }

    /// Handles packets from the device that have become visible in host memory.
    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts);

    /// Handles the end of an interrupt handler. Returns the earliest known end of the wait if the handler now waits for
    /// the device to complete a read.
    fn on_handled(&mut self, _now: Time, _vector: u16, _ports: &mut HostPorts) -> Option<Time> {
        None
    }

    /// Handles the completion of a read that the interrupt handler has sent to the device.
    fn on_answer(&mut self, _now: Time, _answer: &Payload, _ports: &mut HostPorts) {}

    /// Handles the expiry of the driver's timer.
    fn on_timer(&mut self, _now: Time, _ports: &mut HostPorts) {}

    /// Returns the driver's queues, if drivers of real hosts can fill them in its place.
    fn real_hosts(&mut self) -> Option<&mut dyn HostQueues> {
        None
    }

    /// Returns the driver's counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Device side of a protocol: fetches and executes commands.
pub trait Controller {
    /// Handles packets from the host: a register write, or the completion of a read.
    #[inline(always)] // Every packet comes this way.
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match packet.kind {
            Kind::Completion => self.on_answer(now, packet, payload, ports),
            _ => self.on_register_write(now, packet.address, payload.u32(), ports),
        }
    }

    /// Handles a register write from the host.
    fn on_register_write(&mut self, _now: Time, _address: u64, _value: u32, _ports: &mut Ports) {}

    /// Handles the completion of a read that the device has sent to the host.
    fn on_answer(&mut self, _now: Time, _packet: &Packet, _payload: &Payload, _ports: &mut Ports) {}

    /// Handles the expiry of one of the controller's timers.
    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports);

    /// True if the controller is to know of the arrival of its packets at the host.
    fn hears_deliveries(&self) -> bool {
        false
    }

    /// Handles the arrival of the device's packets at the host, if the controller [hears](Self::hears_deliveries) of it.
    fn on_delivered(&mut self, _now: Time, _token: Token, _ports: &mut Ports) {}

    /// Stores the data of a write that has arrived, in a run with data: the device holds it from now on.
    fn on_user_data(&mut self, _packet: &Packet, _arrived: &[u8], _ports: &mut Ports) {}

    /// Stops interrupts for the completions of this queue, which the host polls.
    fn spare_interrupts(&mut self, _queue: u16) {}

    /// Starts to keep real bytes: the run is one with data.
    fn keep_data(&mut self, _drive: &Drive, _seed: u64, _held: &SparseBytes, _memory: &mut HostMemory) {}

    /// Returns the zones as a restart of the device leaves them, with or without a loss of power; none if it has no zones.
    fn zones_left(&self, _loses_power: bool) -> Option<ZonesLeft> {
        None
    }

    /// Takes over the zones that a restart has left.
    fn take_over_zones(&mut self, _left: ZonesLeft) {}

    /// Stores values under the keys of a job's offsets before it begins: its drive is in use.
    fn fill_keys(&mut self, _jobs: &[FilledKeys], _ports: &mut Ports) {}

    /// Returns the name of the data that a packet carries, in the words of the protocol.
    fn packet_name(&self, packet: &Packet) -> &'static str;

    /// Returns the names of both packets if this one completes a read that polls for commands, as [`Looking`]
    /// describes.
    fn looking(&self, _packet: &Packet) -> Option<Looking> {
        None
    }

    /// Returns the controller's interface for queues of real hosts, if it has one.
    fn real_hosts(&mut self) -> Option<&mut dyn ServesHosts> {
        None
    }

    /// Returns the controller's counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Names of a read by which a device polls for commands, in the words of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Name of the read, which is charged to the request whose command it returns.
pub struct Looking {
    /// The read, which belongs to the request whose command it brings.
    /// Name of a completion that brings no command, where that is an ordinary event.
    pub read: &'static str,
    /// An answer without a command, where that is nothing special.
    pub empty: Option<&'static str>,
}
