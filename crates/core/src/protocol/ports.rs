//! What a driver and a controller may reach.

use crate::ledger::Stage;
use crate::link::Link;
use crate::media::Media;
use crate::request::RequestId;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Packet;

/// What a controller can reach: the link to the host, the media, and what all parts share.
#[derive(Debug)]
pub struct Ports<'a> {
    pub link: &'a mut Link,
    pub media: &'a mut Media,
    pub shared: &'a mut Shared,
}

/// Packets of a burst that are in host memory now.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub packet: Packet,
    pub first: u32,
    pub count: u32,
    /// How many packets their burst has.
    pub burst_count: u32,
}

impl Settled {
    /// Whether they are the end of their burst.
    pub fn is_last(&self) -> bool {
        self.first + self.count == self.burst_count
    }

    /// The data of a read has settled, as far as it is the last of it.
    pub fn charge_data(&self, now: Time, shared: &mut Shared) {
        if self.is_last() {
            shared.requests.charge(self.packet.request, Stage::Settle, now);
        }
    }
}

/// The queue, of so many, in which a thread's requests go.
pub(crate) fn queue_of(thread: u16, queues: usize) -> usize {
    let thread = usize::from(thread);
    // Nearly always there are queues enough, and a division takes long.
    if thread < queues { thread } else { thread % queues }
}

/// Start the media on a read, and find when its data can start to flow to the host without a pause.
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
    let start = ports.link.stream_start(bytes, chunk_bytes, timing.first_at, timing.last_at);
    ports.shared.requests.charge_memory(request, [timing.admitted, timing.started, start]);
    start
}
