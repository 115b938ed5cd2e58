//! Parts of the simulated machine that drivers and controllers may use: link, media, host memory, clock and requests in
//! flight.

use super::slots::SlotRequestTable;
use crate::data::Data;
use crate::ledger::Stage;
use crate::link::Link;
use crate::media::{Media, ReadTiming};
use crate::memory::HostMemory;
use crate::request::RequestId;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Packet;

/// Parts of the simulated machine that a controller may use, passed to each of its event handlers.
#[derive(Debug)]
pub struct Ports<'a> {
    /// Link between the device and the host.
    pub link: &'a mut Link,
    /// Storage media of the device, which give the time of every read and write.
    pub media: &'a mut Media,
    /// Table from the slot of a command to its request, so that the controller can charge its time to the request.
    pub slots: &'a SlotRequestTable,
    /// Stored bytes of the device and the check of reads; none if the run simulates times without data.
    pub data: &'a mut Option<Box<Data>>,
    /// Clock, requests in flight and trace, which all parts of the machine share.
    pub shared: &'a mut Shared,
}

/// Parts of the simulated machine that a driver may use, passed to each of its event handlers.
#[derive(Debug)]
pub struct HostPorts<'a> {
    /// Link between the host and the driver's device.
    pub link: &'a mut Link,
    /// Host memory, which holds the queues and data buffers of all drivers.
    pub memory: &'a mut HostMemory,
    /// Table from the slot of a command to its request. The driver fills it for the [controller](Ports::slots).
    pub slots: &'a mut SlotRequestTable,
    /// Stored bytes of the device and the check of reads; none if the run simulates times without data.
    pub data: &'a mut Option<Box<Data>>,
    /// Clock, requests in flight and trace, which all parts of the machine share.
    pub shared: &'a mut Shared,
}

impl HostPorts<'_> {
    /// Fills the data buffer of a request that is about to be submitted. Does nothing if the run simulates times
    /// without data.
    #[inline]
    pub fn fill_write_buffer(&mut self, request: RequestId) {
        if let Some(data) = self.data {
            data.on_submit(request, &self.shared.requests[request], self.memory);
        }
    }

    /// Reports a request as complete, once the driver has seen its completion. In a run with data, checks the data of a
    /// read before its buffer is used again.
    #[inline]
    pub fn complete(&mut self, request: RequestId) {
        self.shared.requests.completed.push(request);
        if let Some(data) = self.data {
            data.on_complete(request, &self.shared.requests[request], self.memory);
        }
    }

    /// Reports a request as complete and refused by the controller. In a run with data, notes that the request was
    /// expected to fail.
    #[cold]
    pub fn complete_as_refused(&mut self, request: RequestId) {
        self.shared.requests.refused.push(request);
        if let Some(data) = self.data.as_mut() {
            data.expect_failure(self.shared.requests[request].number);
        }
        self.complete(request);
    }

    /// Reports one command of a split request as complete, where all commands use pieces of the whole request's buffer.
    /// The last command lets the data of the whole request be checked.
    pub fn complete_request_part(&mut self, part: RequestId, whole: RequestId) {
        self.shared.requests.completed.push(part);
        let request = &self.shared.requests[whole];
        if let Some(data) = self.data.as_mut().filter(|_| request.parts_left == 1) {
            data.on_complete(whole, request, self.memory);
        }
    }
}

/// Consecutive packets of a burst that have just become visible in host memory.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// Burst that the packets belong to, described as one packet with the whole payload.
    pub packet: Packet,
    /// Number within its burst, from 0, of the first packet that has become visible.
    pub first: u32,
    /// Number of packets of the burst that have become visible together.
    pub count: u32,
    /// Total number of packets in the burst.
    pub burst_count: u32,
}

impl Settled {
    /// True if these packets include the last one of their burst.
    pub fn is_last(&self) -> bool {
        self.first + self.count == self.burst_count
    }

    /// Charges the time until the data of a read is visible in host memory to the read's request. Does nothing unless
    /// the burst's last packet is among these packets.
    pub fn charge_data(&self, now: Time, shared: &mut Shared) {
        if self.is_last() {
            shared.requests.charge(self.packet.request, Stage::Settle, now);
        }
    }
}

/// Returns the number of the queue that a thread submits to: the thread's number modulo the number of queues.
pub(crate) fn queue_of(thread: u16, queues: usize) -> usize {
    let thread = usize::from(thread);
    // The modulo operation is slow and rarely needed, so test for it first.
    if thread < queues { thread } else { thread % queues }
}

/// Starts a read of the media and charges its times to the request. Returns the earliest time at which the device can
/// start to send the data, `chunk_bytes` a packet, without a gap.
#[inline(always)]
pub(super) fn begin_media_read(
    now: Time,
    offset: u64,
    bytes: u32,
    chunk_bytes: u32,
    request: Option<RequestId>,
    ports: &mut Ports,
) -> Time {
    let timing = ports.media.read(now, offset, bytes, bytes.min(chunk_bytes));
    charge_read_flow(&timing, bytes, chunk_bytes, request, ports)
}

/// Charges the times of a read to the request, and returns the earliest time at which the device can start to send its
/// data, `chunk_bytes` a packet, without a gap.
#[inline(always)]
pub(super) fn charge_read_flow(
    timing: &ReadTiming,
    bytes: u32,
    chunk_bytes: u32,
    request: Option<RequestId>,
    ports: &mut Ports,
) -> Time {
    let start_time = |first_at, last_at| ports.link.earliest_stream_start(bytes, chunk_bytes, first_at, last_at);
    let start = start_time(timing.first_at, timing.last_at);
    ports.shared.requests.charge_media_access(request, timing.stages_with_data_flow(start, start_time));
    start
}
