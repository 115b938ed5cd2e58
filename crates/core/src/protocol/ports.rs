//! Parts of the machine that a driver and a controller can reach.

use crate::ledger::Stage;
use crate::link::Link;
use crate::media::Media;
use crate::request::RequestId;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Packet;

/// Parts that a controller can reach: the link to the host, the media, and the state that all parts share.
#[derive(Debug)]
pub struct Ports<'a> {
    /// Link to the host.
    pub link: &'a mut Link,
    /// Media of the drive.
    pub media: &'a mut Media,
    /// State that all parts share: requests, host memory, scheduler.
    pub shared: &'a mut Shared,
}

/// Packets of a burst that have become visible in host memory.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// Packet that stands for each of the burst.
    pub packet: Packet,
    /// Place of the first of these packets in the burst.
    pub first: u32,
    /// Number of these packets.
    pub count: u32,
    /// Number of packets in the whole burst.
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
