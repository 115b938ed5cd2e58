//! Network between an initiator and a target (NVMe over Fabrics): capsules and data in packets, NICs, links, a switch,
//! and the target's cores.
//!
//! ```text
//!   initiator's host                                                        target's host
//!   threads, stack ── NIC ══ link ══ switch port ══ link ══ NIC ── target core ── drive's driver ══ drive
//!
//!   read:   command capsule ─────────────────────────────────▶ command work ── submit ──▶
//!           ◀────────────────────── C2H data, response capsule  response work ◀─ complete ──
//!   write:  command capsule, with data up to fabric.in_capsule_bytes ▶
//!           ◀──────────────────────────────────────────── R2T   (larger writes)
//!           H2C data ────────────────────────────────────────▶
//! ```
//!
//! The host's software, waiting and interrupts are those of the host model; the drive is the one without a network.
//! Links, ports and DMA serve messages in the order in which they come, so each is an instant at which it becomes free,
//! and a message's packets pass all of them in one computation. Only target cores get work from two sides, the network
//! and the drive, so that a command has an event at each of its instants there.

pub mod core_work;
pub mod path;
pub mod pdu;

use crate::config::{self, Transport};
use crate::drive::Drive;
use crate::ledger::record::RecordedBurst;
use crate::ledger::{PartBusyTime, Stage};
use crate::number::{index, narrow, real, short_length, whole};
use crate::random::Random;
use crate::request::{Io, Op, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use core_work::{TargetCoreCosts, TargetCoreQueue};
use path::{MessageInstants, Network, NetworkDirection};
use pdu::TransportFraming;

/// CommandStep of a command over a fabric, as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricCommandStep {
    /// The command capsule is in the target's memory.
    Command,
    /// A target core has received the command of a large write, and asks for its data.
    Ask,
    /// The request for a write's data (R2T) is in the initiator's memory.
    Asked,
    /// The initiator sends the data of a large write.
    SendData,
    /// The data of a large write is in the target's memory.
    Data,
    /// A target core submits the command to the drive.
    Submit,
    /// A target core sends the response.
    Respond,
    /// The response is in the initiator's memory.
    Response,
    /// The initiator's NIC raises an interrupt.
    Interrupt,
    /// The initiator's kernel worker receives all responses of an interrupt vector.
    Receive,
}

impl FabricCommandStep {
    const ALL: [FabricCommandStep; 10] = [
        FabricCommandStep::Command,
        FabricCommandStep::Ask,
        FabricCommandStep::Asked,
        FabricCommandStep::SendData,
        FabricCommandStep::Data,
        FabricCommandStep::Submit,
        FabricCommandStep::Respond,
        FabricCommandStep::Response,
        FabricCommandStep::Interrupt,
        FabricCommandStep::Receive,
    ];

    /// Returns the step of this number in an event.
    ///
    /// # Panics
    /// If no step has the number.
    pub fn of_number(number: u8) -> FabricCommandStep {
        FabricCommandStep::ALL[usize::from(number)]
    }

    /// Returns the event of this step of a request or interrupt vector.
    pub fn of(self, context: u32) -> Event {
        Event::Fabric { step: self as u8, context }
    }
}

/// Name of the target's cores among the resources of a run and of predictions.
pub const TARGET_CORES: &str = "target cores";

/// Interrupts of the initiator's NIC for one vector.
#[derive(Clone, Debug, Default)]
struct ReceiveInterruptQueue {
    /// Requests whose responses are in the initiator's memory, and which no thread has seen yet.
    arrived: Vec<RequestId>,
    /// True from the interrupt until the responses have been received: no further interrupt is raised meanwhile.
    is_raised: bool,
    /// Instant of the last interrupt.
    raised_at: Option<Time>,
}

/// Network with its target: everything between the initiators' software and the driver of the target's drive.
#[derive(Clone, Debug)]
pub struct NetworkedTarget {
    transport: Transport,
    framing: TransportFraming,
    costs: TargetCoreCosts,
    network: Network,
    cores: Vec<TargetCoreQueue>,
    connections: FabricConnections,
    /// True if polling threads find responses without interrupts.
    pub polled_queues: bool,
    /// Time from the end of the NIC's interrupt handler to the reception of responses.
    pub worker: Span,
    /// Processor time of the initiator to answer the target's request for a write's data.
    pub answer: Span,
    interrupt_gap: Span,
    poll: Span,
    wake: Span,
    notice: Span,
    loss_ratio: f64,
    retransmit: Span,
    random: Random,
    /// Receive queues of the initiators' NICs, by interrupt vector.
    queues: Vec<ReceiveInterruptQueue>,
    /// Instants of the last arrivals at the target and at the initiator, by connection. Packets of one
    /// connection stay in order.
    last_arrivals: Vec<[Time; 2]>,
    retransmissions: u64,
}

impl NetworkedTarget {
    /// Returns the idle network and target of a drive; `None` if the drive is in its host.
    pub fn of(drive: &Drive, seed: u64) -> Option<Box<NetworkedTarget>> {
        let config = &drive.fabric;
        config.is_there().then(|| Box::new(NetworkedTarget::new(drive, config, seed)))
    }

    fn new(drive: &Drive, config: &config::Fabric, seed: u64) -> NetworkedTarget {
        let connections = index(connections(drive));
        NetworkedTarget {
            transport: config.transport,
            framing: TransportFraming::new(config),
            costs: TargetCoreCosts::new(config),
            network: Network::new(drive),
            cores: vec![TargetCoreQueue::default(); usize::from(config.target_cores)],
            connections: FabricConnections::of(drive),
            polled_queues: config.polled_queues,
            worker: config.initiator_worker,
            answer: config.initiator_receive.scale(drive.software_ratio()),
            interrupt_gap: config.interrupt_gap,
            poll: config.target_poll,
            wake: config.target_wake,
            notice: config.target_notice,
            loss_ratio: config.loss_ratio,
            retransmit: config.retransmit,
            random: Random::stream(seed, "network"),
            queues: vec![ReceiveInterruptQueue::default(); index(host_queue_pair_count(drive))],
            last_arrivals: vec![[Time::ZERO; 2]; connections],
            retransmissions: 0,
        }
    }

    /// Forgets all commands in flight, as after a loss of the target's power.
    pub fn forget_requests(&mut self) {
        self.queues.iter_mut().for_each(|queue| *queue = ReceiveInterruptQueue::default());
    }

    /// Returns the interrupt vector of the initiator for the responses of a thread.
    pub fn initiator_vector(&self, thread: u16) -> u16 {
        thread % narrow::<u16, usize>(self.queues.len())
    }

    /// Sends a message of `bytes` bytes of PDUs for a request at `now`. Charges waits for the network to the request,
    /// and everything else until the message is in the other side's memory to `stage`. Returns that instant.
    fn send(&mut self, now: Time, id: RequestId, message: &Message, shared: &mut Shared) -> Time {
        let Message { name, bytes, direction, stage } = *message;
        let request = &mut shared.requests[id];
        let (initiator, connection) = self.connections.of_thread(request.thread);
        let packets = self.framing.packets(bytes);
        let MessageInstants { sent, mut arrived, idle } = self.network.send(now, direction, initiator, packets);
        if self.loss_ratio > 0.0 {
            arrived += self.draw_resend_delay(packets.count);
        }
        let last = &mut self.last_arrivals[connection][direction as usize];
        arrived = arrived.max(*last);
        *last = arrived;
        request.ledger.until(Stage::NetworkWait, arrived - idle);
        request.ledger.until(stage, arrived);
        let number = request.number;
        if shared.trace.is_on() {
            let wire_bytes = self.framing.wire_bytes(bytes);
            let up = direction == NetworkDirection::ToInitiator;
            let burst =
                RecordedBurst { name, up, packets: packets.count, wire_bytes, from: sent, to: arrived, memory: (0, 0) };
            shared.trace.keep_arrived_burst(burst, Some(number));
        }
        arrived
    }

    /// Draws whether one of some packets is lost, and returns the time until it is sent again.
    #[cold]
    fn draw_resend_delay(&mut self, packets: u32) -> Span {
        let kept = libm::pow(1.0 - self.loss_ratio, f64::from(packets));
        if self.random.unit() < kept {
            return Span::ZERO;
        }
        self.retransmissions += 1;
        self.retransmit
    }

    /// Sends the command of a request, which has left the initiator's software at `now`.
    pub fn send_command(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        let bytes = self.framing.command_bytes(&shared.requests[id].io);
        let message =
            Message { name: "command capsule", bytes, direction: NetworkDirection::ToTarget, stage: Stage::Capsule };
        let at = self.send(now, id, &message, shared);
        shared.scheduler.at(at, FabricCommandStep::Command.of(id));
    }

    /// Lets a target core receive a command that has arrived at `now`.
    pub fn on_command(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        let io = shared.requests[id].io;
        let next =
            if self.framing.needs_data_request(&io) { FabricCommandStep::Ask } else { FabricCommandStep::Submit };
        let ready = self.core_wake_time(now, shared.requests[id].thread);
        self.work_on_target_core(ready, id, self.costs.command(&io, &self.framing), next, shared);
    }

    /// Returns the instant at which the core that serves a thread's queue pair takes up a message from `now`: later if
    /// the core sleeps.
    fn core_wake_time(&self, now: Time, thread: u16) -> Time {
        let core = &self.cores[self.target_core_of(thread)];
        if core.sleeps(now, self.poll) { now + self.wake } else { now }
    }

    /// Returns the number of the target core that serves a thread's queue pair.
    fn target_core_of(&self, thread: u16) -> usize {
        self.connections.of_thread(thread).1 % self.cores.len()
    }

    /// Lets a target core work for a command for `time`, from `ready` on or as soon as the core is free. Schedules the
    /// command's next step at the end.
    fn work_on_target_core(
        &mut self,
        ready: Time,
        id: RequestId,
        time: Span,
        next: FabricCommandStep,
        shared: &mut Shared,
    ) {
        let request = &mut shared.requests[id];
        let core = self.target_core_of(request.thread);
        let begin = self.cores[core].take(ready, time);
        request.ledger.until(Stage::TargetWake, ready);
        request.ledger.until(Stage::TargetWait, begin);
        request.ledger.until(Stage::Target, begin + time);
        shared.scheduler.at(begin + time, next.of(id));
    }

    /// Asks the initiator for the data of a write.
    pub fn ask(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        let bytes = self.framing.data_request_bytes();
        let message = Message { name: "R2T", bytes, direction: NetworkDirection::ToInitiator, stage: Stage::WriteData };
        let at = self.send(now, id, &message, shared);
        shared.scheduler.at(at, FabricCommandStep::Asked.of(id));
    }

    /// True if a core of the initiator has to handle the target's request for data; RDMA leaves this to the NIC.
    pub fn needs_initiator_core_for_data(&self) -> bool {
        self.transport == Transport::Tcp
    }

    /// Sends the data of a write that the target has asked for.
    pub fn send_data(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        shared.requests.charge(Some(id), Stage::WriteData, now);
        let bytes = self.framing.data_bytes(shared.requests[id].io.data_bytes());
        let message =
            Message { name: "H2C data", bytes, direction: NetworkDirection::ToTarget, stage: Stage::WriteData };
        let at = self.send(now, id, &message, shared);
        shared.scheduler.at(at, FabricCommandStep::Data.of(id));
    }

    /// Lets a target core receive the data of a write, which arrived at `now`.
    pub fn on_data(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        let bytes = shared.requests[id].io.data_bytes();
        let ready = self.core_wake_time(now, shared.requests[id].thread);
        self.work_on_target_core(
            ready,
            id,
            self.costs.receive(bytes, &self.framing),
            FabricCommandStep::Submit,
            shared,
        );
    }

    /// Lets a target core complete a command that the drive has completed at `now`.
    pub fn on_drive_completion(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        // A split request takes over the ledger of its last part, whose charges may end earlier.
        shared.requests.charge_stage_until(Some(id), Stage::TargetWait, now);
        let io = shared.requests[id].io;
        self.work_on_target_core(
            now + self.notice,
            id,
            self.costs.response(&io, &self.framing),
            FabricCommandStep::Respond,
            shared,
        );
    }

    /// Sends the response of a command, with the data of a read.
    pub fn respond(&mut self, now: Time, id: RequestId, shared: &mut Shared) {
        let io = shared.requests[id].io;
        let name = if io.op == Op::Read { "C2H data and response" } else { "response capsule" };
        let bytes = self.framing.response_bytes(&io);
        let message = Message { name, bytes, direction: NetworkDirection::ToInitiator, stage: Stage::Response };
        let at = self.send(now, id, &message, shared);
        shared.scheduler.at(at, FabricCommandStep::Response.of(id));
    }

    /// Adds a response that has arrived at the initiator to those that its next interrupt announces. Returns the instant
    /// of that interrupt if it has to be raised for this response.
    pub fn add_response_to_interrupt(&mut self, now: Time, id: RequestId, vector: u16) -> Option<Time> {
        let gap = self.interrupt_gap;
        let queue = &mut self.queues[usize::from(vector)];
        queue.arrived.push(id);
        if std::mem::replace(&mut queue.is_raised, true) {
            return None;
        }
        let at = queue.raised_at.map_or(now, |last| now.max(last + gap));
        queue.raised_at = Some(at);
        Some(at)
    }

    /// Removes and returns all responses that have arrived for an interrupt vector, after which the NIC raises
    /// interrupts again.
    pub fn take_arrived(&mut self, vector: u16) -> Vec<RequestId> {
        let queue = &mut self.queues[usize::from(vector)];
        queue.is_raised = false;
        std::mem::take(&mut queue.arrived)
    }

    /// Returns the use of those cores of the target that have worked, and of its link in each direction.
    pub fn parts(&self) -> Vec<PartBusyTime> {
        let worked: Vec<Span> = self.cores.iter().map(|core| core.worked).filter(|worked| !worked.is_zero()).collect();
        let part = |resource, servers, busy| PartBusyTime { resource, servers, busy };
        vec![
            part(TARGET_CORES, short_length(worked.len()).max(1), worked.into_iter().sum()),
            part("network to target", 1, self.network.busy(NetworkDirection::ToTarget)),
            part("network to initiators", 1, self.network.busy(NetworkDirection::ToInitiator)),
        ]
    }

    /// Returns the counters of the network: messages sent again after a loss, and pauses of senders.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("network_retransmissions", self.retransmissions + self.network.dropped),
            ("network_pauses", self.network.pauses),
        ]
    }
}

/// PDUs that one side sends for a request, in one stretch of packets.
struct Message {
    name: &'static str,
    bytes: u32,
    direction: NetworkDirection,
    stage: Stage,
}

/// Connections of I/O queue pairs between the initiators of a drive and its target.
#[derive(Clone, Copy, Debug)]
pub struct FabricConnections {
    initiators: u16,
    queue_pairs: u16,
}

impl FabricConnections {
    /// Returns the connections of a drive behind a network.
    pub fn of(drive: &Drive) -> FabricConnections {
        FabricConnections { initiators: drive.fabric.initiators, queue_pairs: queue_pairs(drive) }
    }

    /// Returns the number of the initiator that a thread belongs to, and of the connection of its queue pair.
    pub fn of_thread(self, thread: u16) -> (usize, usize) {
        let initiator = thread % self.initiators;
        let pair = thread / self.initiators % self.queue_pairs;
        (usize::from(initiator), usize::from(initiator) * usize::from(self.queue_pairs) + usize::from(pair))
    }
}

/// Returns the number of I/O queue pairs that each initiator of a drive connects.
fn queue_pairs(drive: &Drive) -> u16 {
    let processors = (drive.host.processors() / drive.fabric.initiators.max(1)).max(1);
    if drive.fabric.queue_pairs == 0 { processors } else { drive.fabric.queue_pairs }
}

/// Returns the number of I/O queue pairs that all initiators of a drive connect.
pub fn connections(drive: &Drive) -> u32 {
    u32::from(drive.fabric.initiators) * u32::from(queue_pairs(drive))
}

/// Returns the number of I/O queue pairs, each with an interrupt vector, that the host of a drive has: those of the
/// drive, or those that all initiators connect.
pub fn host_queue_pair_count(drive: &Drive) -> u32 {
    let pairs = if drive.fabric.is_there() { connections(drive) } else { drive.limits().queue_pairs };
    pairs.clamp(1, u16::MAX.into())
}

/// Costs of the initiator's transport beyond the stages of the software stack, unscaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitiatorTransportCosts {
    /// Processor time to send a command.
    pub submit: Span,
    /// Processor time to receive a response, without its data.
    pub receive: Span,
    /// Processor time in picoseconds for each byte of a read's data.
    pub read_ps_per_byte: f64,
    /// Processor time in picoseconds for each byte of a write's data.
    pub write_ps_per_byte: f64,
}

impl InitiatorTransportCosts {
    /// Name of the stage of the software stack that these costs are reported as.
    pub const STAGE: &'static str = "initiator";

    /// Returns the costs of a drive's initiator; `None` if the drive is in its host.
    pub fn of(config: &config::Fabric) -> Option<InitiatorTransportCosts> {
        let framing = TransportFraming::new(config);
        let each = |rate: f64| if rate > 0.0 { 1e3 / rate } else { 0.0 };
        let digest = if config.data_digest { each(config.digest_bytes_per_ns) } else { 0.0 };
        let segments = real(config.initiator_segment.as_ps()) / f64::from(framing.payload_bytes());
        config.is_there().then(|| InitiatorTransportCosts {
            submit: config.initiator_submit,
            receive: config.initiator_receive,
            read_ps_per_byte: each(config.initiator_copy_bytes_per_ns) + digest + segments,
            write_ps_per_byte: digest + segments,
        })
    }

    /// Returns the processor time for this many bytes at a cost for each.
    pub fn time(ps_per_byte: f64, bytes: u32) -> Span {
        Span::from_ps(whole((f64::from(bytes) * ps_per_byte).round())).min(Span::MAX)
    }
}

/// Times of a lone request over an idle network, for closed forms.
#[derive(Clone, Debug)]
pub struct LoneRemoteTimes {
    /// Time of the command capsule, from the initiator's memory to the target's.
    pub capsule: Span,
    /// Work of the target core for the command.
    pub command: Span,
    /// Time of R2T and data of a large write, without the initiator's work and the target's for the data.
    pub write_data: Option<[Span; 2]>,
    /// Work of the target core for the data of a large write.
    pub data_work: Span,
    /// Work of the target core for the response.
    pub response_work: Span,
    /// Time of the response, with the data of a read, from the target's memory to the initiator's.
    pub response: Span,
    /// Wire time of all packets to the target, and to the initiator.
    pub on_wire: [Span; 2],
}

impl LoneRemoteTimes {
    /// Returns the times of a request on the network of a drive; `None` if the drive is in its host.
    pub fn of(drive: &Drive, io: &Io) -> Option<LoneRemoteTimes> {
        let config = Some(&drive.fabric).filter(|fabric| fabric.is_there())?;
        let (framing, costs, network) =
            (TransportFraming::new(config), TargetCoreCosts::new(config), Network::new(drive));
        let idle = |bytes: u32| network.idle(framing.packets(bytes));
        let (command, response) = (framing.command_bytes(io), framing.response_bytes(io));
        let asks = framing.needs_data_request(io);
        let data = framing.data_bytes(io.data_bytes());
        let on_wire = |bytes: u32| network.wire_time(framing.packets(bytes));
        let (more_to_target, more_to_initiator) =
            if asks { (on_wire(data), on_wire(framing.data_request_bytes())) } else { (Span::ZERO, Span::ZERO) };
        Some(LoneRemoteTimes {
            capsule: idle(command),
            command: costs.command(io, &framing),
            write_data: asks.then(|| [idle(framing.data_request_bytes()), idle(data)]),
            data_work: if asks { costs.receive(io.data_bytes(), &framing) } else { Span::ZERO },
            response_work: costs.response(io, &framing),
            response: idle(response),
            on_wire: [on_wire(command) + more_to_target, on_wire(response) + more_to_initiator],
        })
    }

    /// Returns the work of target cores for the request.
    pub fn target_work(&self) -> Span {
        self.command + self.data_work + self.response_work
    }
}
