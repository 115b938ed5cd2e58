//! Timing on: the device thread has the model, and tells each client when it has its answer.
//!
//! The way of a command through real memory is not the model's, and would come on top. So that it does not, a command
//! says when it was asked, and enters the model as of then; and its status says how much later it is over. Data moves when the command is found, and is near its client when the status comes; the
//! client waits for what is left of the latency. So nothing that a machine takes for all this shows in the latency, as
//! long as it takes less than the model. What it takes longer is the lag.
//!
//! For a command to be found in the model's future, an idle engine stays behind the clock by what that usually takes. For
//! the status to be there in time, the engine runs ahead of the clock by what the command's way has taken, as the
//! status's is like it: while requests are under way, and no further than the next completion; for a request that is
//! alone, by [`LONE_LEAD`] more. A request that arrives meanwhile enters the model where the engine is.
//!
//! Other front-ends can ask the same model, from threads of their own, through an [`Exchange`].
//!
//! [`LONE_LEAD`]: crate::model::wall::LONE_LEAD

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use phaselink_core::engine::{Completed, Input};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
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
use crate::model::remote::{Callers, Exchange};
use crate::model::wall::{Wait, Wall};

/// What the engine runs ahead for at most. (Assumed; the limits of two threads are 0.6 us for there and back with a
/// sector, and 1.4 us with a page.)
const WAY_AHEAD_MAX: Span = Span::from_us(5);
/// A command that says it was asked longer ago than this, or later than now, has another clock, and had no way.
const WAY_MAX: Span = Span::from_ms(10);

/// An order in the model.
#[derive(Clone, Copy)]
struct UnderWay {
    peer: u64,
    order: Order,
    /// What has become of its data.
    status: Status,
    /// On the clock.
    asked: Time,
    /// When it entered the model: then, or where the engine was ahead.
    arrived: Time,
    /// From the client's asking to being found.
    way: Span,
}

/// The device thread.
struct Timed<'a> {
    device: &'a Device,
    wall: &'a mut Wall,
    crowd: Crowd<'a>,
    /// Those who ask for others than the crowd.
    callers: Callers<'a>,
    exchange: &'a Exchange,
    threads: Vec<u16>,
    /// By token; which of them are under way, the model knows.
    orders: Vec<UnderWay>,
    free: Vec<u32>,
    space: Vec<u8>,
    /// Mean of the latest ways.
    usual_way: Span,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop: those who come to the sockets, and those who ask through `exchange`, whose
/// clock is the wall's.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(device: &Device, served: &[Served], wall: &mut Wall, exchange: &Exchange, wait: Wait) -> io::Result<()> {
    let threads = wall.add_threads(&device.drive);
    let inbox = Inbox::new(thread::current());
    let keeper = Keeper { device, served, inbox: &inbox, doorbells: wait == Wait::Block, modelled: true };
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let builder = thread::Builder::new().name(String::from("shm keeper"));
        let keeper = builder.spawn_scoped(scope, || keeper.run())?;
        let tally = device.tallies.open();
        let thread = thread::current();
        let flusher = Flusher::of_store(scope, &device.store, move || thread.unpark())?;
        let mut timed = Timed {
            device,
            wall,
            crowd: Crowd::new(&inbox, flusher, wait),
            callers: Callers::new(exchange),
            exchange,
            threads,
            orders: Vec::new(),
            free: Vec::new(),
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            usual_way: Span::ZERO,
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
            let asked = self.listen();
            let now = self.wall.clock().now();
            if asked | self.look(now) | self.complete(now) {
                self.crowd.busy();
            } else {
                self.crowd.idle(|| self.wall.idle_for());
            }
        }
    }

    /// Queues of new clients get threads of the model in turn.
    fn update(&mut self) {
        let Timed { crowd, threads, exchange, .. } = self;
        crowd.update(|peer| {
            for queue in 0..peer.queues() {
                peer.set_thread(queue, threads[exchange.next_turn() % threads.len()]);
            }
        });
    }

    /// Let those in who ask from elsewhere; whether there was anything. They come first, as they have asked before now.
    #[inline]
    fn listen(&mut self) -> bool {
        let any = self.callers.listen(self.wall, &self.threads);
        if any {
            self.crowd.has_others = self.callers.are_there();
        }
        any
    }

    /// Answer what the model has done; whether there was anything.
    fn complete(&mut self, now: Time) -> bool {
        let now = self.wall.model_time(now);
        let mut any = false;
        while let Some(done) = self.wall.run_ahead(now) {
            if !self.callers.answer(&done, self.wall) {
                self.answer(done);
            }
            any = true;
        }
        if !any {
            self.wall.idle_until(Time::ZERO + now.since(Time::ZERO + self.usual_way + self.usual_way / 4));
        }
        any
    }

    fn answer(&mut self, completed: Completed) {
        let UnderWay { peer, order, status, asked, arrived, way } = self.orders[completed.token as usize];
        self.free.push(completed.token);
        let latency = completed.at.since(arrived);
        let Some(peer) = self.crowd.find(peer) else { return self.wall.hand_over(asked, asked) };
        peer.finish(&order, status, latency.as_ps() / 1000);
        // The status takes what the command has taken, unless that was out of the ordinary.
        self.wall.hand_over(asked + latency, self.wall.clock().now() + way);
        let mut tally = locked(&self.tally);
        let op = if order.operation == Operation::Write { Op::Write } else { Op::Read };
        tally.direction(op).count(order.bytes, latency);
        tally.errors += u64::from(status != Status::Fine);
        tally.lag.record(self.wall.last_lag());
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self, now: Time) -> bool {
        let mut found = false;
        for place in 0..self.crowd.peers.len() {
            for queue in 0..self.crowd.peers[place].queues() {
                match self.crowd.peers[place].take(queue) {
                    Taken::Nothing => continue,
                    Taken::Refused => locked(&self.tally).errors += 1,
                    Taken::Order(order) => self.accept(place, order, now),
                }
                found = true;
            }
        }
        found
    }

    /// An order has been found: it goes into the model, and its data moves; but for a flush, which takes what it takes.
    fn accept(&mut self, place: usize, order: Order, now: Time) {
        let peer = &self.crowd.peers[place];
        if let Some(record) = &self.device.record {
            record.note(action(order.operation), order.offset, order.bytes.into());
        }
        if order.operation == Operation::Flush {
            return self.crowd.flush(place, order);
        }
        // While lines of store and client are under way, the model begins.
        peer.prefetch(&order, &self.device.store);
        let asked = self.wall.clock().at_ns(order.asked_ns).filter(|asked| now.since(*asked) < WAY_MAX).unwrap_or(now);
        let asked = asked.min(now);
        let way = now.since(asked).min(WAY_AHEAD_MAX);
        self.usual_way = self.usual_way - self.usual_way / 8 + way / 8;
        let under_way = UnderWay { peer: peer.number, order, status: Status::Fine, asked, arrived: asked, way };
        let token = keep(under_way, &mut self.orders, &mut self.free);
        let Order { operation, offset, bytes, queue, .. } = order;
        let op = if operation == Operation::Write { Op::Write } else { Op::Read };
        self.wall.lead_by(way);
        let input = Input::Request { thread: peer.thread(queue), io: Io { op, offset, bytes }, token };
        let arrived = self.wall.arrive_at(asked, input);
        let status = peer.transfer(&order, &self.device.store, &mut self.space);
        // Nothing is copied here that has just been written: it would wait until the client's lines are.
        let kept = &mut self.orders[token as usize];
        (kept.arrived, kept.status) = (arrived, status);
    }
}

/// Keep an order at a free place: its token.
fn keep(order: UnderWay, orders: &mut Vec<UnderWay>, free: &mut Vec<u32>) -> u32 {
    match free.pop() {
        Some(token) => {
            orders[token as usize] = order;
            token
        }
        None => {
            orders.push(order);
            orders.len() as u32 - 1
        }
    }
}
