//! Drives behind a network: requests between the initiator's host, the target's cores and the drive's driver.
//!
//! The fabric stands where a lone driver would be called: a request that the host's software submits becomes a command
//! capsule, and one that the driver completes becomes work of a target core. Drivers of the target see completions at
//! once; when its core notices them is the fabric's part.

use super::Engine;
use super::driver_end::DriverEnd;
use crate::fabric::{FabricCommandStep, NetworkedTarget};
use crate::ledger::Stage;
use crate::number::low_u16;
use crate::request::RequestId;
use crate::time::{Span, Time};

/// Number of a vector as the context of an event.
fn context(vector: u16) -> u32 {
    vector.into()
}

impl Engine {
    /// Returns the fabric of a machine whose events or requests pass one.
    fn fabric(&mut self) -> &mut NetworkedTarget {
        self.fabric.as_mut().expect("only machines with a fabric have its events")
    }

    /// Sends the commands of requests over the fabric, if there is one, and removes them from those for the drivers.
    #[cold]
    pub(super) fn send_over_fabric(&mut self, now: Time, requests: &mut Vec<RequestId>) {
        if let Some(fabric) = &mut self.fabric {
            requests.drain(..).for_each(|id| fabric.send_command(now, id, &mut self.shared));
        }
    }

    /// Takes the next step of a command over the fabric, or of an interrupt vector of the initiator.
    #[inline(never)]
    pub(super) fn on_fabric_step(&mut self, now: Time, step: FabricCommandStep, context: u32) {
        if self.faults.is_some() && self.is_held_back(now, step, context) {
            return;
        }
        let Engine { fabric: Some(fabric), shared, .. } = self else { return };
        match step {
            FabricCommandStep::Command => fabric.on_command(now, context, shared),
            FabricCommandStep::Ask => fabric.ask(now, context, shared),
            FabricCommandStep::Asked => self.on_data_request(now, context),
            FabricCommandStep::SendData => fabric.send_data(now, context, shared),
            FabricCommandStep::Data => fabric.on_data(now, context, shared),
            FabricCommandStep::Submit => self.submit_at_target(now, context),
            FabricCommandStep::Respond => fabric.respond(now, context, shared),
            FabricCommandStep::Response => self.on_initiator_response(now, context),
            FabricCommandStep::Interrupt => self.host.on_message(now, low_u16(context), shared),
            FabricCommandStep::Receive => self.receive_responses(now, low_u16(context)),
        }
    }

    /// Submits a request to the driver of its drive in the target.
    fn submit_at_target(&mut self, now: Time, request: RequestId) {
        if self.faults.is_some() && self.is_refused_by_target(request) {
            return self.deliver_to_target_or_host(now, request);
        }
        match self.is_alone {
            true => self.submit_to_only_device(now, std::iter::once(request)),
            false => self.submit_to_devices(now, &[request]),
        }
    }

    /// Handles the target's request for a write's data at the initiator. NVMe/TCP takes time of a core there, which
    /// receives the request and sends the data.
    fn on_data_request(&mut self, now: Time, id: RequestId) {
        let thread = self.shared.requests[id].thread;
        let (vector, is_polled) = (self.fabric().initiator_vector(thread), self.polls_for_responses(thread));
        let Engine { fabric: Some(fabric), shared, .. } = self else { return };
        if !fabric.needs_initiator_core_for_data() {
            return fabric.send_data(now, id, shared);
        }
        let time = fabric.answer + if is_polled { Span::ZERO } else { fabric.worker };
        let end = self.host.charge_network_response(now, vector, is_polled, time, &mut self.shared);
        self.shared.scheduler.at(end, FabricCommandStep::SendData.of(id));
    }

    /// True if a thread finds its responses by polling, without interrupts of the NIC.
    fn polls_for_responses(&self, thread: u16) -> bool {
        let has_polled_queues = self.fabric.as_ref().is_none_or(|fabric| fabric.polled_queues);
        match self.driver_end {
            DriverEnd::Callers => true,
            DriverEnd::Host | DriverEnd::Recorded { .. } => self.host.thread_polls_network(thread, has_polled_queues),
        }
    }

    /// Hands a response that has arrived at the initiator to its thread, or raises an interrupt for it.
    fn on_initiator_response(&mut self, now: Time, id: RequestId) {
        if self.faults.is_some() && !self.does_response_end_request(now, id) {
            return;
        }
        let thread = self.shared.requests[id].thread;
        if self.polls_for_responses(thread) {
            return self.deliver_to_host(now, id);
        }
        let fabric = self.fabric();
        let vector = fabric.initiator_vector(thread);
        if let Some(at) = fabric.add_response_to_interrupt(now, id, vector) {
            self.shared.scheduler.at(at, FabricCommandStep::Interrupt.of(context(vector)));
        }
    }

    /// Ends the interrupt handler of the initiator's NIC: wakes the kernel worker that receives the responses. The worker
    /// runs on the handler's core, which switches to it and back; the rest of the time until it runs is a wait.
    #[cold]
    pub(super) fn on_network_handled(&mut self, now: Time, vector: u16) {
        self.host.on_handled(vector);
        let until = now + self.fabric().worker;
        let switched = until.min(now + self.host.worker_switch_time());
        if switched > now {
            self.host.stall(now, vector, switched, &mut self.shared);
        }
        self.host.end_handler();
        self.shared.scheduler.at(until, FabricCommandStep::Receive.of(context(vector)));
    }

    /// Receives all responses that have arrived for an interrupt vector, and hands them to their threads.
    fn receive_responses(&mut self, now: Time, vector: u16) {
        self.host.continue_handler(vector);
        for id in self.fabric().take_arrived(vector) {
            self.shared.requests.charge(Some(id), Stage::Interrupt, now);
            self.deliver_to_host(now, id);
        }
        self.host.end_handler();
    }
}
