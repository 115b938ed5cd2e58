//! The two halves of a protocol, which meet at the link, and what a drive of a protocol says of itself.
//!
//! Only what differs between protocols is asked here. Everything has a default that suits a plain device.

use super::ports::{Ports, Settled};
use super::real_hosts::{HostQueues, ServesHosts};
use crate::config::{Acknowledge, Stage};
use crate::drive::Drive;
use crate::ledger::stage::Ledger;
use crate::link::Link;
use crate::memory::HostMemory;
use crate::problem::Broken;
use crate::request::{Io, Op, RequestId};
use crate::scheduler::Timer;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Kind, Packet, Payload, Token};
use crate::workload::Limits;

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
    /// What people call it.
    fn title(&self) -> &'static str;

    /// What its packets carry when drives of it read and write: for whoever sees to it that all of them are tried.
    fn messages(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What its queues and memory can take.
    fn limits(&self, drive: &Drive) -> Limits;

    /// Conditions between its keys, and between them and others, that do not hold. Asked of every protocol, whether the
    /// drive speaks it or not.
    fn broken(&self, _drive: &Drive) -> Vec<Broken> {
        Vec::new()
    }

    /// True if it has a command for requests of this operation. A plain device reads and writes.
    fn supports(&self, op: Op) -> bool {
        op.has_data()
    }

    /// Why a thread cannot sleep until an interrupt, if it cannot.
    fn no_interrupts(&self) -> Option<&'static str> {
        None
    }

    /// Where a write is that has been acknowledged.
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the buffers of the memory",
        }
    }

    /// Whether its driver takes requests of different engines, and several together.
    fn takes_engines(&self) -> bool {
        false
    }

    /// Whether several of its drives can stand in one host: its driver keeps nothing that all of them would share.
    fn stands_beside_others(&self, _drive: &Drive) -> bool {
        false
    }

    /// How its threads wait, where `host.wait` does not say it all.
    fn waiting(&self, _drive: &Drive) -> Option<String> {
        None
    }

    /// Stages of its driver that contend for locks and lines; they follow those of the operating system.
    fn stages(&self, _drive: &Drive) -> Vec<Stage> {
        Vec::new()
    }

    /// Largest request whose thread spins in the driver, on a host whose threads sleep otherwise.
    fn spin_up_to_bytes(&self) -> u32 {
        0
    }

    /// Time from a completion's arrival in memory to a spinning core having seen it.
    fn poll(&self, drive: &Drive) -> Span {
        drive.host.poll
    }

    /// Most bytes that a racing write can change at once: those of one packet.
    fn packet_bytes(&self, drive: &Drive) -> u32 {
        drive.link.max_payload_bytes
    }

    /// Bytes of a write of which a power cut leaves all as they were or all as they shall be: a logical block, which is the
    /// least that NVMe allows (NVM Command Set Specification 1.0, section 2.1.4.2: AWUPF), and no less than a line of 64 bytes
    /// (assumed).
    fn atomic_bytes(&self, drive: &Drive) -> u32 {
        self.limits(drive).write_block_bytes.max(64)
    }

    /// The section of another protocol that takes part, if there is one.
    fn builds_on(&self) -> Option<&'static str> {
        None
    }

    /// Whether its closed form knows of processors and flash in front of the memory.
    fn foresees_inside(&self) -> bool {
        false
    }

    /// Whether requests of a mix keep nothing else while they wait at a resource, so that its queues tell their throughput.
    fn foresees_mixes(&self) -> bool {
        true
    }

    /// Whether real hosts can attach to it in this way.
    fn attaches(&self, _attachment: Attachment) -> bool {
        false
    }
}

/// The host's half.
pub trait Driver {
    /// Charge the processor time of submitting a request.
    fn submit_work(&self, _io: &Io, _thread: u16, _memory: &HostMemory, _ledger: &mut Ledger) {}

    /// Charge the processor time of completing it.
    fn complete_work(&self, _io: &Io, _ledger: &mut Ledger) {}

    /// Processor time that a request takes of its thread without having to wait for it: it bounds what a thread can do,
    /// but lengthens no request that is alone.
    fn work_beside(&self, _io: &Io) -> Span {
        Span::ZERO
    }

    /// Largest request of one command; larger ones come in parts.
    fn max_transfer_bytes(&self) -> u32;

    /// Largest request of one command of this operation. Those without data are limited by the protocol's fields alone.
    fn max_command_bytes(&self, _op: Op) -> u32 {
        self.max_transfer_bytes()
    }

    /// Hand a request of one command to the device.
    fn submit(&mut self, now: Time, request: RequestId, link: &mut Link, shared: &mut Shared);

    /// Hand several requests of one thread, of one command each, to the device, which is told of all of them together if
    /// the protocol can.
    fn submit_together(&mut self, now: Time, requests: &[RequestId], link: &mut Link, shared: &mut Shared) {
        for &request in requests {
            self.submit(now, request, link, shared);
        }
    }

    /// The queue of a thread that looks for its completions without interrupts, and collects them together: it says
    /// [how far](Driver::acknowledge) it has.
    fn look_for(&mut self, thread: u16) -> u16 {
        thread
    }

    /// A thread has collected the completions that it has found.
    fn acknowledge(&mut self, _thread: u16, _link: &mut Link, _shared: &mut Shared) {}

    /// Processor time of telling the device so.
    fn acknowledge_work(&self) -> Span {
        Span::ZERO
    }

    /// Packets from the device are in host memory.
    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, link: &mut Link, shared: &mut Shared);

    /// An interrupt handler has run. If it now waits for the device's answer to a read, until when, as far as it can
    /// tell.
    fn on_handled(&mut self, _now: Time, _vector: u16, _link: &mut Link, _shared: &mut Shared) -> Option<Time> {
        None
    }

    /// The device has answered a read of the handler.
    fn on_answer(&mut self, _now: Time, _answer: &Payload, _link: &mut Link, _shared: &mut Shared) {}

    /// The driver's timer has fired.
    fn on_timer(&mut self, _now: Time, _link: &mut Link, _shared: &mut Shared) {}

    /// Its queues, if real hosts' drivers can use them in its place.
    fn real_hosts(&mut self) -> Option<&mut dyn HostQueues> {
        None
    }

    /// What has been counted, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The device's half.
pub trait Controller {
    /// Packets from the host have arrived: a register write, or the answer to a read.
    #[inline(always)] // Every packet comes this way.
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match packet.kind {
            Kind::Completion => self.on_answer(now, packet, payload, ports),
            _ => self.on_register_write(now, packet.address, payload.u32(), ports),
        }
    }

    /// A register write has arrived.
    fn on_register_write(&mut self, _now: Time, _address: u64, _value: u32, _ports: &mut Ports) {}

    /// The host has answered a read of the device.
    fn on_answer(&mut self, _now: Time, _packet: &Packet, _payload: &Payload, _ports: &mut Ports) {}

    /// One of the controller's timers has fired.
    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports);

    /// Packets of the device have reached the host.
    fn on_delivered(&mut self, _now: Time, _token: Token, _ports: &mut Ports) {}

    /// Data of a write has arrived, in a run with data: the device holds it from now on.
    fn store(&mut self, packet: &Packet, ports: &mut Ports) {
        ports.shared.store_user_data(packet);
    }

    /// The host looks for the completions of this queue: they raise no interrupts.
    fn spare_interrupts(&mut self, _queue: u16) {}

    /// From now on, a run with data.
    fn keep_data(&mut self, _drive: &Drive, _seed: u64, _shared: &mut Shared) {}

    /// What a packet carries, in the words of the protocol.
    fn packet_name(&self, packet: &Packet) -> &'static str;

    /// Whether a packet answers a read by which the device looks for commands, and the names of both.
    fn looking(&self, _packet: &Packet) -> Option<Looking> {
        None
    }

    /// What it needs for that.
    fn real_hosts(&mut self) -> Option<&mut dyn ServesHosts> {
        None
    }

    /// What has been counted, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A read by which a device looks for commands, in the words of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looking {
    /// The read, which belongs to the request whose command it brings.
    pub read: &'static str,
    /// An answer without a command, where that is nothing special.
    pub empty: Option<&'static str>,
}
