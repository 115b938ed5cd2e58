//! What all parts of a simulated machine share.

use crate::data::Data;
use crate::ledger::trace::Trace;
use crate::memory::HostMemory;
use crate::request::{RequestId, Requests};
use crate::scheduler::Scheduler;
use crate::tlp::Packet;

/// Events to come, requests under way, host memory, and what is kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub scheduler: Scheduler,
    pub requests: Requests,
    pub memory: HostMemory,
    /// What is recorded for ladders and timelines; by default nothing.
    pub trace: Trace,
    /// The bytes of a run with data.
    pub data: Option<Box<Data>>,
}

impl Shared {
    /// A request is about to be submitted, its buffer chosen.
    #[inline]
    pub fn prepare_buffer(&mut self, request: RequestId) {
        if let Some(data) = &mut self.data {
            data.on_submit(request, &self.requests[request], &mut self.memory);
        }
    }

    /// The driver has found a request complete, and its buffer will be used again.
    #[inline]
    pub fn complete(&mut self, request: RequestId) {
        self.requests.completed.push(request);
        if let Some(data) = &mut self.data {
            data.on_complete(request, &self.requests[request], &self.memory);
        }
    }

    /// The driver has found a part of a request complete whose buffer is a piece of the whole's.
    pub fn complete_part(&mut self, part: RequestId, whole: RequestId) {
        self.requests.completed.push(part);
        let request = &self.requests[whole];
        if let Some(data) = self.data.as_mut().filter(|_| request.parts_left == 1) {
            data.on_complete(whole, request, &self.memory);
        }
    }

    /// A write's data has arrived at the device.
    #[inline]
    pub fn store_user_data(&mut self, packet: &Packet) {
        if let Some(data) = self.data.as_mut().filter(|_| packet.user_data) {
            data.to_device(packet, &self.memory);
        }
    }
}
