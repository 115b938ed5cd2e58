//! Timing off: the device thread polls the rings and does what it finds, straight on the store.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_ring::command::Operation;
use phaselink_ring::layout::TRANSFER_BYTES_MAX;
use phaselink_ring::status::Status;

use super::Served;
use super::crowd::Crowd;
use super::keeper::{Inbox, Keeper};
use super::peer::{Order, Taken, action};
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::device::tally::{Tally, locked};
use crate::model::wall::{Wait, span};

/// Commands of one queue in a row; then it is the next one's turn.
const BATCH: u32 = 32;
/// Orders that are taken before the first of them is done, so that the ways of their data through the machine overlap:
/// their lines together are about what a processor waits for at a time.
const AHEAD: usize = 8;
/// One order in so many has its latency measured: looking at the clock costs a good part of what an order does.
const MEASURED_EVERY: u64 = 64;
/// Orders after which the counts are shown to others.
const COUNTED_EVERY: u64 = 1 << 16;

/// The device thread.
struct Lean<'a> {
    device: &'a Device,
    crowd: Crowd<'a>,
    space: Vec<u8>,
    /// Orders that have been taken, empty between queues.
    ahead: VecDeque<Order>,
    counts: Tally,
    orders: u64,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(device: &Device, served: &[Served], wait: Wait) -> io::Result<()> {
    let inbox = Inbox::new(thread::current());
    let keeper = Keeper { device, served, inbox: &inbox, doorbells: wait == Wait::Block, modelled: false };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name(String::from("shm keeper"));
        let keeper = builder.spawn_scoped(scope, || keeper.run())?;
        let tally = device.tallies.open();
        let thread = thread::current();
        let flusher = Flusher::of_store(scope, &device.store, move || thread.unpark())?;
        let crowd = Crowd::new(&inbox, flusher, wait);
        let space = vec![0; TRANSFER_BYTES_MAX as usize];
        let (ahead, counts) = (VecDeque::with_capacity(AHEAD), Tally::default());
        Lean { device, crowd, space, ahead, counts, orders: 0, tally: Arc::clone(&tally) }.run();
        device.tallies.close(&tally);
        keeper.join().unwrap_or_else(|_| Err(io::Error::other("the keeper of sockets has failed")))
    })
}

impl Lean<'_> {
    fn run(&mut self) {
        while !self.device.stop.is_requested() {
            self.crowd.update(|_| ());
            while let Some(status) = self.crowd.answer_flush() {
                self.counts.flushes += 1;
                self.counts.errors += u64::from(status != Status::Fine);
            }
            if self.round() {
                self.crowd.busy();
            } else if self.crowd.idle(|| Duration::MAX) {
                self.show_counts();
            }
        }
        self.show_counts();
    }

    /// Look at every queue; whether anything was there.
    #[inline]
    fn round(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.crowd.peers.len() {
            for queue in 0..self.crowd.peers[place].queues() {
                found |= self.serve_queue(place, queue);
            }
        }
        found
    }

    #[inline]
    fn serve_queue(&mut self, place: usize, queue: u32) -> bool {
        let mut left = BATCH;
        loop {
            self.take_ahead(place, queue, &mut left);
            let Some(order) = self.ahead.pop_front() else { return left < BATCH };
            self.perform(place, &order);
        }
    }

    /// Take orders, no more than are `left`, until there are as many as may be ahead.
    #[inline]
    fn take_ahead(&mut self, place: usize, queue: u32, left: &mut u32) {
        let peer = &mut self.crowd.peers[place];
        while self.ahead.len() < AHEAD && *left > 0 {
            match peer.take(queue) {
                Taken::Nothing => return,
                Taken::Refused => self.counts.errors += 1,
                Taken::Order(order) => {
                    peer.prefetch(&order, &self.device.store);
                    self.ahead.push_back(order);
                }
            }
            *left -= 1;
        }
    }

    #[inline]
    fn perform(&mut self, place: usize, order: &Order) {
        if let Some(record) = &self.device.record {
            record.note(action(order.operation), order.offset, order.bytes.into());
        }
        if order.operation == Operation::Flush {
            return self.crowd.flush(place, *order);
        }
        let is_measured = self.orders.is_multiple_of(MEASURED_EVERY);
        let started = is_measured.then(Instant::now);
        let status = self.crowd.peers[place].perform(order, &self.device.store, &mut self.space);
        self.count(order, status, started);
        self.orders += 1;
        if self.orders.is_multiple_of(COUNTED_EVERY) {
            self.show_counts();
        }
    }

    #[inline]
    fn count(&mut self, order: &Order, status: Status, started: Option<Instant>) {
        self.counts.errors += u64::from(status != Status::Fine);
        let is_write = order.operation == Operation::Write;
        let direction = if is_write { &mut self.counts.write } else { &mut self.counts.read };
        match started {
            Some(started) => direction.count(order.bytes, span(started.elapsed())),
            None => {
                direction.ios += 1;
                direction.bytes += u64::from(order.bytes);
            }
        }
    }

    fn show_counts(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        locked(&self.tally).merge(&counts);
    }
}
