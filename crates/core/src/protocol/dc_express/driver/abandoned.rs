//! Attempts of reads that the driver has abandoned although their data is still in flight, as the time-out was too
//! short for the load.
//!
//! The data of such an attempt still arrives, and would overwrite the tags of another attempt in the same buffer. So
//! the next attempt gets another slot, and the old slot stays unused until all its data has arrived. The driver then
//! knows how long a read can take, and uses a longer time-out.

use super::{Driver, Read};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::protocol::dc_express::ReadIdentity;
use crate::protocol::ports::HostPorts;
use crate::request::{Request, RequestId};
use crate::time::Time;

impl Driver {
    /// Abandons an attempt of a read and repeats the read in another slot. If no slot is free, waits for another
    /// time-out instead.
    pub(super) fn abandon(&mut self, now: Time, number: usize, slot: u16, ports: &mut HostPorts) {
        let queue = &mut self.queues[number];
        let old = queue.reads.get_mut(usize::from(slot));
        let Some(free) = queue.free_slots.pop() else {
            old.started = now;
            return;
        };
        self.counts.tag_timeouts += 1;
        self.tag = self.random.bits();
        old.abandoned = true;
        let request = renumber_request(now, old.request, ports);
        let next = Read { tag: old.tag, ..Read::new(request, old.attempt.wrapping_add(1)) };
        queue.reads.submit(usize::from(free), next);
        self.enqueue(now, number, free, ports);
    }

    /// Handles `count` packets of an abandoned attempt. Once all `total` packets have arrived, frees the slot and makes
    /// the time-out longer.
    #[cold]
    #[inline(never)]
    pub(super) fn on_abandoned_packets(
        &mut self,
        now: Time,
        name: ReadIdentity,
        count: u32,
        total: u32,
        ports: &mut HostPorts,
    ) {
        self.counts.late_packets += u64::from(count);
        let reads = &mut self.queues[usize::from(name.queue)].reads;
        if reads.get_mut(usize::from(name.slot)).settled == total {
            let read = reads.complete(usize::from(name.slot));
            self.timeout = self.timeout.max(now.since(read.started) * 2);
            ports.shared.requests.vacate(read.request);
            self.release(now, name, ports);
        }
    }
}

/// Moves a request to a new number, so that later events of the old attempt are not charged to the new one, and returns
/// that number. All time up to `now` is charged to the time-out.
fn renumber_request(now: Time, old: RequestId, ports: &mut HostPorts) -> RequestId {
    let request = &ports.shared.requests[old];
    let mut ledger = Ledger::default();
    ledger.open(request.ledger.start());
    if ports.shared.trace.is_on() {
        ledger.record_steps();
    }
    ledger.until(Stage::Timeout, now);
    let request = Request { ledger, ..request.clone() };
    let new = ports.shared.requests.insert(request);
    if let Some(data) = &mut ports.data {
        data.rename(old, new);
    }
    new
}
