//! Timing off: the device thread looks at the queues and does what it finds, straight on the store.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::Op;

use super::front::{self, Disk, Front, Rounds, Served, Unsaved};
use crate::device::Device;
use crate::device::tally::{Tally, locked};
use crate::model::wall::{Wait, span};
use crate::nvme::order::Action;
use crate::nvme::{Order, Performed, TRANSFER_BYTES_MAX, Taken};

/// Commands of one queue in a row, with one interrupt for all of them; then it is the next one's turn.
const BATCH: u32 = 32;
/// Longest sleep: a stop wakes the thread before that.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);
/// One order in so many has its latency measured: looking at the clock costs a good part of what an order does.
const MEASURED_EVERY: u64 = 64;
/// Orders after which the counts are shown to others.
const COUNTED_EVERY: u64 = 1 << 16;

/// The device thread.
struct Lean<'a> {
    device: &'a Device,
    fronts: Vec<Front<'a>>,
    disk: Disk,
    wait: Wait,
    space: Vec<u8>,
    counts: Tally,
    orders: u64,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[Served], wait: Wait) -> io::Result<()> {
    let tally = device.tallies.open();
    let ended = thread::scope(|scope| {
        let mut lean = Lean {
            device,
            fronts: served.iter().map(|served| Front::new(served, wait == Wait::Spin)).collect(),
            disk: Disk::new(scope, &device.store)?,
            wait,
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            counts: Tally::default(),
            orders: 0,
            tally: Arc::clone(&tally),
        };
        let ended = lean.run();
        lean.show_counts();
        ended
    });
    device.tallies.close(&tally);
    ended
}

impl Lean<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut rounds = Rounds::default();
        while !self.device.stop.is_requested() {
            let mut found = self.settle() | self.round();
            if rounds.is_to_attend(self.wait) {
                let any = front::attend(&mut self.fronts, &self.device.store);
                rounds.attended(any);
                found |= any;
            }
            if rounds.is_to_rest(found, self.wait) {
                self.show_counts();
                front::rest(&mut self.fronts, &self.disk, self.device, self.wait, SLEEP_MAX)?;
            }
        }
        Ok(())
    }

    /// Answer what has become durable; whether anything has.
    #[inline]
    fn settle(&mut self) -> bool {
        let mut any = false;
        while let Some((Unsaved { order, started, .. }, status)) = self.disk.settle(&mut self.fronts) {
            count(&mut self.counts, &order, status, started);
            any = true;
        }
        any
    }

    /// Look at every queue; whether anything was there.
    #[inline]
    fn round(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.fronts.len() {
            for queue in self.fronts[place].controller.queues() {
                found |= self.serve_queue(place, queue);
            }
        }
        found
    }

    #[inline]
    fn serve_queue(&mut self, place: usize, queue: u16) -> bool {
        let mut count = 0;
        while count < BATCH {
            let front = &mut self.fronts[place];
            let Some(client) = &mut front.client else { return false };
            match front.controller.take(queue, client) {
                Taken::Nothing => break,
                Taken::Answered(status) => self.counts.errors += u64::from(status != Status::SUCCESS),
                Taken::Order(order) => self.perform(place, order),
            }
            count += 1;
        }
        self.signal(place);
        count > 0
    }

    #[inline]
    fn signal(&mut self, place: usize) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        client.iter_mut().for_each(|client| controller.signal(client));
    }

    #[inline]
    fn perform(&mut self, place: usize, order: Order) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return };
        note(self.device, &order);
        let is_measured = self.orders.is_multiple_of(MEASURED_EVERY);
        let started = is_measured.then(Instant::now);
        match controller.perform(&order, client, &self.device.store, &mut self.space) {
            Performed::Answered(status) => count(&mut self.counts, &order, status, started),
            Performed::WaitsForDisk => self.disk.save(&self.fronts, place, order, started),
        }
        self.orders += 1;
        if self.orders.is_multiple_of(COUNTED_EVERY) {
            self.show_counts();
        }
    }

    fn show_counts(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        locked(&self.tally).merge(&counts);
    }
}

/// Record an order, if that is wanted.
#[inline]
pub(super) fn note(device: &Device, order: &Order) {
    let Some(record) = &device.record else { return };
    match &order.action {
        Action::Deallocate(parts) => {
            parts.iter().for_each(|(offset, bytes)| record.note(order.word(), *offset, *bytes));
        }
        _ => record.note(order.word(), order.offset, order.bytes.into()),
    }
}

#[inline]
fn count(counts: &mut Tally, order: &Order, status: Status, started: Option<Instant>) {
    counts.errors += u64::from(status != Status::SUCCESS);
    let direction = match order.action {
        Action::Read | Action::Compare => counts.direction(Op::Read),
        Action::Write { .. } => counts.direction(Op::Write),
        Action::Flush => return counts.flushes += 1,
        Action::Zero { .. } | Action::Deallocate(_) => return counts.discards += 1,
    };
    match started {
        Some(started) => direction.count(order.bytes, span(started.elapsed())),
        None => {
            direction.ios += 1;
            direction.bytes += u64::from(order.bytes);
        }
    }
}
