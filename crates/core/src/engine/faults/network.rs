//! Faults of the network connections between an initiator and its target, for drives behind a network.
//!
//! ```text
//!   connection-stall    request ──▶ connection carries nothing ·········▶ end of the rule ──▶ command capsule
//!   connection-reset    request ──▶ all connections of the initiator are gone ··▶ reconnect_us ──▶ command capsule
//!   half-open           request ──▶ no packet ··▶ timeout_us: the host resets ··▶ reconnect_us ──▶ command capsule
//!   digest-error        request ──▶ drive ──▶ response ──▶ data: the host tries again, header: as connection-reset
//! ```
//!
//! An initiator that loses one connection resets its controller, as nvme_tcp_error_recovery of Linux does: it closes all
//! its connections, keeps the requests in flight, and submits them again when it has connected again. The target
//! completes the commands that it has, and their responses are lost with the connection.

use std::collections::BTreeMap;

use super::{EIO, Faults, PendingFaultEffect, SubmissionDecision};
use crate::config::{Fault, FaultAction, FaultDigest};
use crate::data::Data;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::fabric::{FabricCommandStep, FabricConnections};
use crate::ledger::Stage;
use crate::request::{Op, RequestId};
use crate::shared::Shared;
use crate::time::{Span, Time};

/// Number of times that the host tries a command again that failed with Transient Transport Error (nvme_core.max_retries
/// of Linux: 5).
const RETRIES_MAX: u8 = 5;

/// Request whose command is on the network or in the target.
#[derive(Clone, Copy, Debug)]
struct RequestOnNetwork {
    initiator: usize,
    /// True if the connection has been lost since the command was sent, so that the host ignores the response.
    is_lost: bool,
}

/// State of the connections that faults have disturbed, and of the requests on them, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct NetworkFaults {
    connections: FabricConnections,
    /// Instants at which initiators have connected again after their last loss.
    connected_at: BTreeMap<usize, Time>,
    /// Instants until which connections carry nothing.
    stalled_until: BTreeMap<usize, Time>,
    in_flight: BTreeMap<u64, RequestOnNetwork>,
    /// Digests that are wrong, with the host's time to connect again.
    digests: BTreeMap<u64, (FaultDigest, Span)>,
    retries: BTreeMap<u64, u8>,
    reconnects: u64,
    requeued: u64,
    retried: u64,
}

impl NetworkFaults {
    /// Returns the undisturbed connections of a drive; `None` if none of the faults of a run can disturb them.
    pub(super) fn of(drive: &Drive, actions: &[FaultAction]) -> Option<Box<NetworkFaults>> {
        let has_any = actions.iter().any(|action| action.is_network_connection_effect());
        (has_any && drive.fabric.is_there()).then(|| {
            Box::new(NetworkFaults {
                connections: FabricConnections::of(drive),
                connected_at: BTreeMap::new(),
                stalled_until: BTreeMap::new(),
                in_flight: BTreeMap::new(),
                digests: BTreeMap::new(),
                retries: BTreeMap::new(),
                reconnects: 0,
                requeued: 0,
                retried: 0,
            })
        })
    }

    /// Returns the instant from which on the connection of a thread carries commands again; `None` if it does at `now`.
    pub(super) fn connection_returns_at(&self, now: Time, thread: u16) -> Option<Time> {
        let (initiator, _) = self.connections.of_thread(thread);
        let connected_at = self.connected_at.get(&initiator).copied().filter(|at| *at > now);
        connected_at.max(self.stalled_until(now, thread))
    }

    /// Returns the instant from which on the connection of a thread carries packets again; `None` if it does at `now`.
    fn stalled_until(&self, now: Time, thread: u16) -> Option<Time> {
        let (_, connection) = self.connections.of_thread(thread);
        self.stalled_until.get(&connection).copied().filter(|at| *at > now)
    }

    fn stall_connection(&mut self, thread: u16, until: Time) {
        let stalled = self.stalled_until.entry(self.connections.of_thread(thread).1).or_default();
        *stalled = until.max(*stalled);
    }

    /// Notes that the command of a request is sent.
    pub(super) fn send(&mut self, number: u64, thread: u16) {
        self.in_flight
            .insert(number, RequestOnNetwork { initiator: self.connections.of_thread(thread).0, is_lost: false });
    }

    /// Forgets all requests, since nobody waits for them any more.
    pub(super) fn forget_requests(&mut self) {
        self.in_flight.clear();
        self.digests.clear();
        self.retries.clear();
    }

    /// Returns the counters of connections that hosts have lost, and of requests that they have sent again.
    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("network_reconnects", self.reconnects),
            ("network_requeued_requests", self.requeued),
            ("network_retries", self.retried),
        ]
    }

    /// Closes all connections of an initiator, unless they are closed already. All its requests in flight are lost.
    fn disconnect(&mut self, now: Time, initiator: usize, reconnect: Span) {
        if self.connected_at.get(&initiator).is_some_and(|at| *at > now) {
            return;
        }
        self.connected_at.insert(initiator, now + reconnect);
        self.reconnects += 1;
        let own = self.in_flight.values_mut().filter(|request| request.initiator == initiator);
        own.for_each(|request| request.is_lost = true);
    }
}

impl Faults {
    /// Applies the rule at `place`, which a request that is about to be submitted has triggered, to its connection.
    pub(super) fn disturb_thread_connection(&mut self, now: Time, place: usize, id: RequestId, shared: &mut Shared) {
        let rule = &self.requests[place];
        let Fault { action, digest, timeout, reconnect, .. } = rule.fault;
        let ends_at = rule.ends_at();
        let Some(network) = &mut self.network else { return };
        let (thread, number) = (shared.requests[id].thread, shared.requests[id].number);
        let (initiator, _) = network.connections.of_thread(thread);
        match action {
            FaultAction::ConnectionStall => network.stall_connection(thread, ends_at),
            FaultAction::ConnectionReset => network.disconnect(now, initiator, reconnect),
            FaultAction::HalfOpen => {
                network.stall_connection(thread, now + timeout);
                self.schedule(now + timeout, PendingFaultEffect::Disconnect { initiator, reconnect }, shared);
            }
            _ => drop(network.digests.insert(number, (digest, reconnect))),
        }
    }

    /// True if the target finds that the data of a write is wrong, and does not execute it.
    fn has_wrong_data(&self, id: RequestId, shared: &Shared) -> bool {
        let request = &shared.requests[id];
        let digest = self.network.as_ref().and_then(|network| network.digests.get(&request.number));
        request.io.op == Op::Write && digest.is_some_and(|(digest, _)| *digest == FaultDigest::Data)
    }

    /// Handles a response that has arrived at the initiator. Returns true if it ends its request; otherwise the host
    /// submits the request again.
    fn handle_network_response(
        &mut self,
        now: Time,
        id: RequestId,
        shared: &mut Shared,
        data: &mut Option<Box<Data>>,
    ) -> bool {
        let request = &shared.requests[id];
        let (number, thread, op) = (request.number, request.thread, request.io.op);
        let Some(network) = &mut self.network else { return true };
        let Some(mut sent) = network.in_flight.remove(&number) else { return true };
        let digest = network.digests.remove(&number).filter(|_| !sent.is_lost);
        if let Some((FaultDigest::Header, reconnect)) = digest {
            network.disconnect(now, sent.initiator, reconnect);
            sent.is_lost = true;
        }
        if sent.is_lost {
            network.requeued += 1;
            let until = network.connection_returns_at(now, thread).unwrap_or(now);
            self.schedule(until, PendingFaultEffect::Submit(id), shared);
            return false;
        }
        if digest.is_none() {
            network.retries.remove(&number);
            return true;
        }
        let tried = network.retries.entry(number).or_default();
        if *tried < RETRIES_MAX {
            *tried += 1;
            network.retried += 1;
            self.schedule(now, PendingFaultEffect::Retry(id), shared);
            return false;
        }
        network.retries.remove(&number);
        self.met.entry(number).or_default().error.get_or_insert(EIO);
        data.as_mut().filter(|_| op == Op::Write).into_iter().for_each(|data| data.expect_failure(number));
        true
    }
}

impl Engine {
    /// True if a step of a command sends a message that has to wait, since its connection carries nothing. The step is
    /// taken again when the connection does.
    #[cold]
    pub(in crate::engine) fn is_held_back(&mut self, now: Time, step: FabricCommandStep, context: u32) -> bool {
        if !matches!(step, FabricCommandStep::Ask | FabricCommandStep::SendData | FabricCommandStep::Respond) {
            return false;
        }
        let network = self.faults.as_ref().and_then(|faults| faults.network.as_ref());
        let thread = self.shared.requests[context].thread;
        let Some(until) = network.and_then(|network| network.stalled_until(now, thread)) else { return false };
        self.shared.requests.charge_stage_until(Some(context), Stage::NetworkWait, until);
        self.shared.scheduler.at(until, step.of(context));
        true
    }

    /// True if the target answers a command at once, because its data is wrong.
    #[cold]
    pub(in crate::engine) fn is_refused_by_target(&self, id: RequestId) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.has_wrong_data(id, &self.shared))
    }

    /// True if a response that has arrived at the initiator ends its request.
    #[cold]
    pub(in crate::engine) fn does_response_end_request(&mut self, now: Time, id: RequestId) -> bool {
        let (data, shared) = (&mut self.devices[0].data, &mut self.shared);
        self.faults.as_mut().is_none_or(|faults| faults.handle_network_response(now, id, shared, data))
    }

    /// Closes all connections of an initiator, which has waited for a response in vain.
    pub(super) fn disconnect(&mut self, now: Time, initiator: usize, reconnect: Span) {
        let network = self.faults.as_mut().and_then(|faults| faults.network.as_mut());
        network.into_iter().for_each(|network| network.disconnect(now, initiator, reconnect));
    }

    /// Submits a request again whose command has failed with Transient Transport Error. Fault rules may match it again.
    pub(super) fn retry(&mut self, now: Time, id: RequestId) {
        self.shared.requests.charge_stage_until(Some(id), Stage::RequestQueue, now);
        let (data, shared) = (&mut self.devices[0].data, &mut self.shared);
        let Some(faults) = &mut self.faults else { return };
        let decision = faults.on_submit(now, id, data, shared);
        if let (SubmissionDecision::Submit, Some(fabric)) = (decision, &mut self.fabric) {
            fabric.send_command(now, id, &mut self.shared);
        }
    }
}
