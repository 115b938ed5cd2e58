//! Parts of the machine that a driver and a controller can reach.

use super::slots::SlotBindings;
use crate::data::Data;
use crate::ledger::Stage;
use crate::link::Link;
use crate::media::Media;
use crate::memory::HostMemory;
use crate::request::RequestId;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Packet;

/// Parts that a controller can reach: the link to the host, the media, and the state that all parts share.
#[derive(Debug)]
pub struct Ports<'a> {
    /// Link to the host.
    pub link: &'a mut Link,
    /// Memory of the device.
    pub media: &'a mut Media,
    /// Requests by the slot of their command, so that a controller can charge its time to them.
    pub slots: &'a SlotBindings,
    /// Bytes that the device holds, in a run with data.
    pub data: &'a mut Option<Box<Data>>,
    /// Clock, requests and trace of the machine.
    pub shared: &'a mut Shared,
}

/// Everything that a driver can reach.
#[derive(Debug)]
pub struct HostPorts<'a> {
    /// Link to the driver's device.
    pub link: &'a mut Link,
    /// Memory of the host, with the queues and data buffers of all drivers.
    pub memory: &'a mut HostMemory,
    /// Requests by the slot of their command, which the driver keeps for the [controller](Ports::slots).
    pub slots: &'a mut SlotBindings,
    /// Bytes that the device holds, in a run with data.
    pub data: &'a mut Option<Box<Data>>,
    /// Clock, requests and trace of the machine.
    pub shared: &'a mut Shared,
}

impl HostPorts<'_> {
    /// Fills the buffer of a request that is about to be submitted, in a run with data.
    #[inline]
    pub fn prepare_buffer(&mut self, request: RequestId) {
        if let Some(data) = self.data {
            data.on_submit(request, &self.shared.requests[request], self.memory);
        }
    }

    /// Reports a request complete that the driver has found to be so, and checks what a read has brought, as its buffer will
    /// be used again.
    #[inline]
    pub fn complete(&mut self, request: RequestId) {
        self.shared.requests.completed.push(request);
        if let Some(data) = self.data {
            data.on_complete(request, &self.shared.requests[request], self.memory);
        }
    }

    /// Reports a request complete whose command the controller has refused.
    #[cold]
    pub fn complete_refused(&mut self, request: RequestId) {
        self.shared.requests.refused.push(request);
        if let Some(data) = self.data.as_mut() {
            data.doubt(self.shared.requests[request].number);
        }
        self.complete(request);
    }

    /// Reports a part of a request complete whose buffer is a piece of the whole's.
    pub fn complete_part(&mut self, part: RequestId, whole: RequestId) {
        self.shared.requests.completed.push(part);
        let request = &self.shared.requests[whole];
        if let Some(data) = self.data.as_mut().filter(|_| request.parts_left == 1) {
            data.on_complete(whole, request, self.memory);
        }
    }
}

/// Packets of a burst that have just settled in host memory.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// The burst as one packet.
    pub packet: Packet,
    /// Number of the first of the packets in their burst.
    pub first: u32,
    /// Number of packets.
    pub count: u32,
    /// Number of packets of the burst.
    pub burst_count: u32,
}

impl Settled {
    /// True if these packets are the last of their burst.
    pub fn is_last(&self) -> bool {
        self.first + self.count == self.burst_count
    }

    /// Charges the time at which the data of a read is visible in host memory, if these packets are the last of it.
    pub fn charge_data(&self, now: Time, shared: &mut Shared) {
        if self.is_last() {
            shared.requests.charge(self.packet.request, Stage::Settle, now);
        }
    }
}

/// Returns the queue, of `queues` many, that a thread submits to.
pub(crate) fn queue_of(thread: u16, queues: usize) -> usize {
    let thread = usize::from(thread);
    // Nearly always there are queues enough, and a division takes long.
    if thread < queues { thread } else { thread % queues }
}

/// Starts a read of the media. Returns the earliest time from which its data can flow to the host without a pause.
#[inline(always)]
pub(super) fn start_read(
    now: Time,
    offset: u64,
    bytes: u32,
    chunk_bytes: u32,
    request: Option<RequestId>,
    ports: &mut Ports,
) -> Time {
    let timing = ports.media.read(now, offset, bytes, bytes.min(chunk_bytes));
    let start = ports.link.stream_start_time(bytes, chunk_bytes, timing.first_at, timing.last_at);
    ports.shared.requests.charge_memory(request, [timing.admitted, timing.started, start]);
    start
}
