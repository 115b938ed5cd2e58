//! Timing on: the device thread has the model, and answers when that says.
//!
//! A real host has its own driver, which takes the place of the modelled one. So the request is cut at the doorbell: the
//! model's host has a software stack without stages, register writes, interrupts and wake-ups that take no time, and a
//! thread that spins without delay ([`behind_the_doorbell`]). What is left, and counted, begins when this thread finds
//! the command: the doorbell's packet, the controller's fetch and parsing, the media, data on the link, the completion
//! entry on its way into memory. At that instant of the model the data is moved, the entry posted and the interrupt sent.
//!
//! Not counted, and on top of it: the time from the host's doorbell to this thread's seeing it, the copying of data, and
//! the way of the interrupt through the system into the virtual machine. The lag is how much later than the model's
//! instant this thread came to a completion.
//!
//! Admin commands, flushes and deallocations cost no modelled time. Queues of real hosts take turns in the model's
//! queue pairs.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phaselink_core::config::Wait as Waiting;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Input};
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use super::front::{self, ControllerSocket, Disk, Front};
use super::serve::{self, Execution};
use super::untimed::note;
use crate::device::Device;
use crate::device::tally::{Tally, locked};
use crate::front::pace::SLEEP_MAX;
use crate::model::wall::{Wait, Wall};
use crate::nvme::order::Action;
use crate::nvme::{Order, Performed, TRANSFER_BYTES_MAX, Taken};

/// An order in the model.
struct UnderWay {
    place: usize,
    /// Which client of that front: orders of one that has gone are nobody's.
    client: u64,
    order: Order,
    arrived: Time,
}

/// The device thread.
struct Modelled<'a> {
    device: &'a Device,
    wall: &'a mut Wall,
    fronts: Vec<Front<'a>>,
    disk: Disk,
    threads: Vec<u16>,
    /// By token.
    orders: Table<Option<UnderWay>>,
    space: Vec<u8>,
    tally: Arc<Mutex<Tally>>,
}

/// The drive in a host whose software takes no time.
pub fn behind_the_doorbell(drive: &Drive) -> Drive {
    let mut drive = drive.clone();
    drive.stack.stages.clear();
    drive.stack.copy_bytes_per_ns = 0.0;
    let host = &mut drive.host;
    host.wait = Waiting::Spin;
    for cost in [
        &mut host.poll,
        &mut host.mmio_write,
        &mut host.context_switch,
        &mut host.interrupt,
        &mut host.idle_exit,
        &mut host.interrupt_handler,
        &mut host.wake,
    ] {
        *cost = Span::ZERO;
    }
    drive
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(device: &Device, served: &[ControllerSocket], wall: &mut Wall, wait: Wait) -> io::Result<()> {
    let threads = wall.add_threads(&device.drive);
    let tally = device.tallies.open();
    let ended = thread::scope(|scope| {
        let mut modelled = Modelled {
            device,
            wall,
            fronts: served.iter().map(|served| Front::new(served, wait == Wait::Spin)).collect(),
            disk: Disk::new(scope, &device.store)?,
            threads,
            orders: Table::default(),
            space: vec![0; TRANSFER_BYTES_MAX as usize],
            tally: Arc::clone(&tally),
        };
        serve::run(device, wait, &mut modelled)
    });
    device.tallies.close(&tally);
    ended
}

impl<'a> Execution<'a> for Modelled<'a> {
    fn round(&mut self) -> bool {
        self.wall.advance();
        self.complete() | self.commit() | self.look()
    }

    fn parts(&mut self) -> (&mut [Front<'a>], &Disk) {
        (&mut self.fronts, &self.disk)
    }

    fn rest(&mut self) -> Duration {
        let time = if front::is_alone(&self.fronts) { SLEEP_MAX } else { self.wall.idle_for() };
        time.max(Duration::from_micros(1))
    }
}

impl Modelled<'_> {
    /// Answer what the model has completed; whether anything was.
    fn complete(&mut self) -> bool {
        let mut any = false;
        while let Some(done) = self.wall.take_completed() {
            any = true;
            self.on_completed(done);
        }
        any
    }

    fn on_completed(&mut self, done: Completed) {
        let UnderWay { place, client, order, arrived } =
            self.orders[done.token as usize].take().expect("an order completes once");
        self.orders.vacate(done.token);
        let front = &mut self.fronts[place];
        let is_there = front.clients_ever == client;
        let Some(connection) = front.client.as_mut().filter(|_| is_there) else { return };
        let performed = front.controller.perform(&order, connection, &self.device.store, &mut self.space);
        front.controller.signal(connection);
        let mut tally = locked(&self.tally);
        match order.action {
            Action::Zero { .. } => tally.discards += 1,
            _ => tally.direction(order.op().unwrap_or(Op::Read)).count(order.bytes, done.at.since(arrived)),
        }
        tally.lag.record(self.wall.last_lag());
        drop(tally);
        self.on_performed(place, order, performed);
    }

    /// An order has been executed: what is to be durable waits for the disk, while others are served.
    fn on_performed(&mut self, place: usize, order: Order, performed: Performed) {
        match performed {
            Performed::Answered(status) => self.count_error(status),
            Performed::WaitsForDisk => self.disk.save(&self.fronts, place, order, None),
        }
    }

    fn count_error(&self, status: Status) {
        locked(&self.tally).errors += u64::from(status != Status::SUCCESS);
    }

    /// Answer what has become durable; whether anything has.
    fn commit(&mut self) -> bool {
        let mut any = false;
        while let Some((_, status)) = self.disk.commit(&mut self.fronts) {
            self.count_error(status);
            any = true;
        }
        any
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self) -> bool {
        let mut found = false;
        for place in 0..self.fronts.len() {
            for queue in self.fronts[place].controller.queues() {
                found |= self.look_at(place, queue);
            }
            let Front { controller, client, .. } = &mut self.fronts[place];
            client.iter_mut().for_each(|client| controller.signal(client));
        }
        found
    }

    fn look_at(&mut self, place: usize, queue: u16) -> bool {
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return false };
        match controller.take(queue, client) {
            Taken::Nothing => return false,
            Taken::Answered(status) => self.count_error(status),
            Taken::Order(order) => self.accept(place, queue, order),
        }
        true
    }

    /// An order has been found: what no drive is modelled with is done at once, the rest goes into the model.
    fn accept(&mut self, place: usize, queue: u16, order: Order) {
        note(self.device, &order);
        match order.op() {
            Some(op) => self.submit(place, queue, op, order),
            None => self.perform(place, order),
        }
    }

    fn perform(&mut self, place: usize, order: Order) {
        let Front { controller, client, .. } = &mut self.fronts[place];
        let Some(client) = client else { return };
        let performed = controller.perform(&order, client, &self.device.store, &mut self.space);
        match order.action {
            Action::Flush => locked(&self.tally).flushes += 1,
            _ => locked(&self.tally).discards += 1,
        }
        self.on_performed(place, order, performed);
    }

    fn submit(&mut self, place: usize, queue: u16, op: Op, order: Order) {
        let token = self.orders.insert(None);
        let io = Io { op, offset: order.offset, bytes: order.bytes };
        let thread = self.threads[(place + usize::from(queue) - 1) % self.threads.len()];
        let arrived = self.wall.arrive(Input::Request { thread, io, token });
        let client = self.fronts[place].clients_ever;
        self.orders[token as usize] = Some(UnderWay { place, client, order, arrived });
    }
}
