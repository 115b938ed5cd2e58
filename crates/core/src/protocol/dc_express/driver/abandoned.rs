//! Attempts that the driver has given up although their data is on its way: the time-out was too short for this load.
//!
//! The data of such an attempt still comes, and would overwrite the tags of another attempt in the same buffer. So
//! the next attempt gets another slot, and the old one stays out of use until all its data has come; the driver then
//! knows how long a read can take, and waits longer from then on.

use super::{Driver, Read};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::Link;
use crate::protocol::dc_express::ReadName;
use crate::request::{Request, RequestId};
use crate::shared::Shared;
use crate::time::Time;

impl Driver {
    /// Read again in another slot; if there is none, look again after another time-out.
    pub(super) fn abandon(&mut self, now: Time, number: usize, slot: u16, link: &mut Link, shared: &mut Shared) {
        let queue = &mut self.queues[number];
        let old = queue.reads.get_mut(usize::from(slot));
        let Some(free) = queue.free_slots.pop() else {
            old.started = now;
            return;
        };
        self.counts.tag_timeouts += 1;
        self.tag = self.random.bits();
        old.abandoned = true;
        let request = start_again(now, old.request, shared);
        let next = Read { tag: old.tag, ..Read::new(request, old.attempt.wrapping_add(1)) };
        queue.reads.submit(usize::from(free), next);
        self.enqueue(now, number, free, link, shared);
    }

    /// Packets of an abandoned attempt have come after all; `total` make it complete.
    #[cold]
    #[inline(never)]
    pub(super) fn on_late(
        &mut self,
        now: Time,
        name: ReadName,
        count: u32,
        total: u32,
        link: &mut Link,
        shared: &mut Shared,
    ) {
        self.counts.late_packets += u64::from(count);
        let reads = &mut self.queues[usize::from(name.queue)].reads;
        if reads.get_mut(usize::from(name.slot)).settled == total {
            let read = reads.complete(usize::from(name.slot));
            self.timeout = self.timeout.max(now.since(read.started) * 2);
            shared.requests.vacate(read.request);
            self.release(now, name, link, shared);
        }
    }
}

/// A request gets another number, so that what still happens to the old attempt is not charged to the new one. All
/// that it has cost so far is the time-out's.
fn start_again(now: Time, old: RequestId, shared: &mut Shared) -> RequestId {
    let request = &shared.requests[old];
    let mut ledger = Ledger::default();
    ledger.open(request.ledger.start());
    if shared.trace.is_on() {
        ledger.keep_steps();
    }
    ledger.until(Stage::Timeout, now);
    let request = Request { ledger, ..request.clone() };
    let new = shared.requests.insert(request);
    if let Some(data) = &mut shared.data {
        data.rename(old, new);
    }
    new
}
