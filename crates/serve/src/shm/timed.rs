//! Timing on: the device thread has the model, and hands data over so that the client has it when the model says.
//!
//! A request enters the modelled host's software when its command is found. Its way through real memory is not the
//! model's, and would come on top; so that it does not, the request is cut at its end: data is handed over by the length
//! of the way ([`Way`](super::way::Way), measured by probes) before the model's instant, and its client has it at that
//! instant. To know it that early, the engine runs ahead of the clock by no more than the way, only while requests are
//! under way, and no further than the next completion; for a request that is alone, by [`LONE_LEAD`] more. A request that
//! arrives meanwhile is as late in the model as that: never with one request at a time, and by less than the way with more.
//!
//! [`LONE_LEAD`]: crate::wall::LONE_LEAD

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use phaselink_client::PROBE_BYTES;
use phaselink_client::layout::TRANSFER_BYTES_MAX;
use phaselink_client::status::Status;
use phaselink_core::engine::{Completed, Input};
use phaselink_core::protocol::dc_express::command::Operation;
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Io, Op};

use super::Served;
use super::crowd::Crowd;
use super::keeper::{Inbox, Keeper};
use super::peer::{Order, Taken, action};
use crate::device::Device;
use crate::flusher::Flusher;
use crate::tally::{Tally, locked};
use crate::wall::{Wait, Wall};

/// An order in the model.
struct UnderWay {
    peer: u64,
    order: Order,
    arrived: Time,
    way: Span,
}

/// The device thread.
struct Timed<'a> {
    device: &'a Device,
    wall: &'a mut Wall,
    crowd: Crowd<'a>,
    threads: Vec<u16>,
    /// Queues that have been given a thread of the model, in turn.
    queues_ever: usize,
    orders: Vec<Option<UnderWay>>,
    free: Vec<u32>,
    /// What the engine has completed ahead of time: the token, and when it is due.
    ahead: Vec<(Time, Completed)>,
    space: Vec<u8>,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(device: &Device, served: &[Served], wall: &mut Wall, wait: Wait) -> io::Result<()> {
    let limits = device.drive.limits();
    let threads = (0..limits.queue_pairs).map(|_| wall.engine_mut().add_client(limits.queue_slots())).collect();
    let inbox = Inbox::new(thread::current());
    let keeper = Keeper { device, served, inbox: &inbox, doorbells: wait == Wait::Block, probes: true };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name(String::from("shm keeper"));
        let keeper = builder.spawn_scoped(scope, || keeper.run())?;
        let tally = device.tallies.open();
        let thread = thread::current();
        let flusher = Flusher::of_store(scope, &device.store, move || thread.unpark())?;
        let mut timed = Timed {
            device,
            wall,
            crowd: Crowd::new(&inbox, flusher, wait),
            threads,
            queues_ever: 0,
            orders: Vec::new(),
            free: Vec::new(),
            ahead: Vec::new(),
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            tally: Arc::clone(&tally),
        };
        timed.run();
        device.tallies.close(&tally);
        keeper.join().unwrap_or_else(|_| Err(io::Error::other("the keeper of sockets has failed")))
    })
}

impl Timed<'_> {
    fn run(&mut self) {
        while !self.device.stop.is_requested() {
            self.update();
            while let Some(status) = self.crowd.answer_flush() {
                let mut tally = locked(&self.tally);
                tally.flushes += 1;
                tally.errors += u64::from(status != Status::Fine);
            }
            if self.complete() | self.look() {
                self.crowd.busy();
            } else {
                self.crowd.idle(|| self.wall.idle_for());
            }
        }
    }

    /// Queues of new clients get threads of the model in turn.
    fn update(&mut self) {
        let Timed { crowd, threads, queues_ever, .. } = self;
        crowd.update(|peer| {
            for queue in 0..peer.queues() {
                peer.set_thread(queue, threads[*queues_ever % threads.len()]);
                *queues_ever += 1;
            }
        });
    }

    /// Hand over what is due; whether anything was.
    fn complete(&mut self) -> bool {
        while let Some(done) = self.wall.run_ahead() {
            let order = self.orders[done.token as usize].as_ref().expect("an order completes once");
            self.ahead.push((Time::ZERO + done.at.since(Time::ZERO).saturating_sub(order.way), done));
        }
        if self.ahead.is_empty() {
            return false;
        }
        let now = self.wall.now();
        let before = self.ahead.len();
        for place in (0..before).rev() {
            if self.ahead[place].0 <= now {
                let (due, done) = self.ahead.swap_remove(place);
                self.hand_over(due, now, done);
            }
        }
        self.ahead.len() < before
    }

    fn hand_over(&mut self, due: Time, now: Time, done: Completed) {
        let UnderWay { peer, order, arrived, .. } =
            self.orders[done.token as usize].take().expect("an order completes once");
        self.free.push(done.token);
        self.wall.hand_over(due, now);
        let Some(peer) = self.crowd.find(peer) else { return };
        let status = peer.perform(&order, &self.device.store, &mut self.space);
        let mut tally = locked(&self.tally);
        let op = if order.operation == Operation::Write { Op::Write } else { Op::Read };
        tally.direction(op).count(order.bytes, done.at.since(arrived));
        tally.errors += u64::from(status != Status::Fine);
        tally.lag.record(self.wall.last_lag());
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.crowd.peers.len() {
            for queue in 0..self.crowd.peers[place].queues() {
                match self.crowd.peers[place].take(queue) {
                    Taken::Nothing => continue,
                    Taken::Refused => locked(&self.tally).errors += 1,
                    Taken::Order(order) => self.accept(place, order),
                }
                found = true;
            }
        }
        found
    }

    /// An order has been found: probes and flushes are done at once, the others go into the model.
    fn accept(&mut self, place: usize, order: Order) {
        let peer = &mut self.crowd.peers[place];
        if order.operation == Operation::Probe {
            peer.perform(&order, &self.device.store, &mut self.space);
            return peer.way.on_probe(order.bytes, self.wall.now());
        }
        if let Some(record) = &self.device.record {
            record.note(action(order.operation), order.offset, order.bytes.into());
        }
        if order.operation == Operation::Flush {
            return self.crowd.flush(place, order);
        }
        let (number, way, thread) = (peer.number, peer.way.span(order.bytes), peer.thread(order.queue));
        self.submit(number, order, way, thread);
        // Probes find their bytes in the processor's cache, and so must what takes the way that they have measured.
        self.device.store.prefetch(order.offset, order.bytes.min(PROBE_BYTES[1]));
    }

    fn submit(&mut self, peer: u64, order: Order, way: Span, thread: u16) {
        let token = self.free.pop().unwrap_or_else(|| {
            self.orders.push(None);
            self.orders.len() as u32 - 1
        });
        let op = if order.operation == Operation::Write { Op::Write } else { Op::Read };
        let io = Io { op, offset: order.offset, bytes: order.bytes };
        self.wall.lead_by(way);
        let arrived = self.wall.arrive(Input::Request { thread, io, token });
        self.orders[token as usize] = Some(UnderWay { peer, order, arrived, way });
    }
}
