//! Inputs from outside the simulation: requests of clients, and commands and doorbells of real hosts.

use super::Engine;
use crate::drive::Drive;
use crate::media::keys::Key;
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::real_hosts::HostCommand;
use crate::request::Io;
use crate::time::{Span, Time};

/// An input from outside the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request at the application's end, for a thread made by [`Engine::add_client`], of an operation that the drive
    /// [has](Drive::check_operation). [`Engine::take_completed`] gives `token` back, by which the caller knows the request.
    Request {
        /// Thread that submits the request.
        thread: u16,
        /// Operation, place and length.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
    },
    /// A request that was held back before it came to the application's end. Its latency counts from then on.
    DelayedRequest {
        /// Thread that submits the request.
        thread: u16,
        /// Operation, place and length.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
        /// Time for which the request was held back.
        delayed: Span,
    },
    /// A request at the driver, whose software is the caller's, for a thread made by [`Engine::add_driver_caller`], of an
    /// operation that the drive [has](Drive::check_operation). Its completion is the driver's as well.
    DriverRequest {
        /// Thread that submits the request.
        thread: u16,
        /// Drive that the request is for, where there are several.
        drive: u16,
        /// Operation, place and length.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
    },
    /// A register write of a host's own driver that has just reached the device.
    RegisterWrite {
        /// Address of the register in the machine's address space.
        address: u64,
        /// Value of the register's 32 bits.
        value: u32,
    },
    /// A doorbell write of a real host for the commands that have been [placed](Engine::place) in a queue; its packet leaves
    /// the host.
    Ring {
        /// Number of the queue, counted from 0 over all queues of real hosts.
        queue: u16,
    },
}

/// Completion of an injected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Token that the caller gave the request.
    pub token: u32,
    /// Instant at which the application had its result.
    pub at: Time,
    /// Error that the application is told, by its number in Linux, if an injected fault has made the request fail.
    pub error: Option<u32>,
}

impl Engine {
    /// Returns a machine whose queues the drivers of real hosts write into, without simulated software of a host; none if real
    /// drivers do not know the drive's protocol.
    pub fn for_real_hosts(drive: &Drive, seed: u64) -> Option<Engine> {
        let mut engine = Engine::new(drive, seed);
        engine.devices[0].driver.real_hosts()?.give_way();
        engine.devices[0].controller.real_hosts()?.begin();
        let limits = drive.limits();
        engine.hold_keys(drive, &mut std::iter::empty());
        engine.queue_threads = (0..limits.queue_pairs).map(|_| engine.add_queue_client(limits.queue_slots())).collect();
        Some(engine)
    }

    /// Lets the controller keep the states of the zones of this drive by itself, all of them empty at first: nobody serves the drive.
    pub fn keep_zones(&mut self, drive: &Drive) {
        if let Some(controller) = self.devices[0].controller.real_hosts() {
            controller.keep_zones(drive);
        }
    }

    /// Stores values under their keys in a drive that stores values, before it serves: each with its length, as the drive holds them.
    pub fn hold_keys(&mut self, drive: &Drive, values: &mut dyn Iterator<Item = (Key, u32)>) {
        let (controller, mut ports) = self.devices[0].controller_side(&mut self.shared);
        if let Some(controller) = controller.real_hosts().filter(|_| drive.key_value.is_there()) {
            controller.hold_keys(values, &mut ports);
        }
    }

    /// Begins a queue that a real host has created anew with so many entries, as many as the drive's at most, and with
    /// interrupts or without (Create I/O Completion Queue, IEN); false while commands of the queue before are in flight.
    pub fn begin_queue(&mut self, queue: u16, entries: u32, has_interrupts: bool) -> bool {
        let Engine { shared, memory, devices, .. } = self;
        let device = &mut devices[0];
        let (driver, mut ports) = device.driver_side(memory, shared);
        let has_begun = driver.real_hosts().is_some_and(|queues| queues.begin_queue(queue, entries, &mut ports));
        if let Some(controller) = device.controller.real_hosts().filter(|_| has_begun) {
            controller.restart_queue(queue, entries, has_interrupts);
        }
        has_begun
    }

    /// Number of commands that a queue of real hosts still has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.devices[0].driver.real_hosts().map_or(0, |queues| queues.room(queue))
    }

    /// Places a command that arrives from a real host at `at` in the next slot of its queue; the device hears of it by
    /// [`Input::Ring`]. [`Engine::take_completed`] gives its token back when its completion is in the host's memory.
    pub fn place(&mut self, at: Time, command: &HostCommand) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        self.call(0);
        let thread = self.queue_threads[usize::from(command.queue)];
        let Engine { shared, memory, devices, .. } = self;
        let device = &mut devices[0];
        let (driver, mut ports) = device.driver_side(memory, shared);
        let slot = driver.real_hosts().map(|queues| queues.place(at, thread, command, &mut ports));
        if let Some((slot, controller)) = slot.zip(device.controller.real_hosts()) {
            controller.give_lists(command.queue, slot, command.lists);
        }
    }

    /// Completion queue entry as a real host finds it; none of a protocol that real drivers do not know.
    pub fn completion_entry(&mut self, queue: u16, slot: u32) -> Option<[u8; 16]> {
        Some(self.devices[0].driver.real_hosts()?.completion_entry(queue, slot, &self.memory))
    }

    /// Adds a thread whose requests are injected, and returns its number.
    pub fn add_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.add_queue_client(iodepth);
        self.let_look(thread);
        thread
    }

    /// Adds a thread for commands that a real host's own driver writes: no simulated thread polls for their completions.
    pub(super) fn add_queue_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.host.add_thread(iodepth, None, None);
        let place = self.recorder.add_client(iodepth);
        self.recorder.add_thread(thread, place);
        thread
    }

    /// Injects `input` at `at`, which may not lie before an event that has been handled.
    pub fn inject(&mut self, at: Time, input: Input) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        self.call(0);
        match input {
            Input::Request { thread, io, token } => {
                self.host.inject(at, at, thread, (io, token), &self.devices[0].driver, &mut self.shared);
            }
            Input::DelayedRequest { thread, io, token, delayed } => {
                let due = at - delayed;
                self.host.inject(at, due, thread, (io, token), &self.devices[0].driver, &mut self.shared);
            }
            Input::DriverRequest { thread, drive, io, token } => self.submit_at_driver(at, thread, drive, io, token),
            Input::RegisterWrite { address, value } => {
                let (controller, mut ports) = self.devices[0].controller_side(&mut self.shared);
                controller.on_register_write(at, address, value, &mut ports);
            }
            Input::Ring { queue } => {
                let (driver, mut ports) = self.devices[0].driver_side(&mut self.memory, &mut self.shared);
                let queues = driver.real_hosts().expect("whoever rings has placed a command");
                queues.ring(queue, &mut ports);
                self.pass_on(at);
            }
        }
    }

    /// Takes the next completion of an injected request, in the order of completion. Whoever injects requests takes all
    /// completions, as they are kept until then.
    pub fn take_completed(&mut self) -> Option<Completed> {
        self.client_completed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    #[test]
    fn the_latency_of_a_request_that_was_held_back_has_that_time_in_it() {
        let total = |delayed: Span| {
            let mut engine = Engine::new(&Drive::shipped("nvme").unwrap(), 1);
            let thread = engine.add_client(1);
            let io = Io { op: Op::Read, offset: 0, bytes: 512 };
            let at = Time::ZERO + Span::from_ms(50);
            engine.inject(at, Input::DelayedRequest { thread, io, token: 7, delayed });
            engine.run_until(at + Span::from_ms(1));
            let outcome = engine.outcome(&Drive::shipped("nvme").unwrap(), 1);
            let done = engine.take_completed().expect("the request is done");
            (outcome.jobs[0].read.total.mean(), done.at.since(at))
        };
        let (usual, took) = total(Span::ZERO);
        let (delayed, still_took) = total(Span::from_ms(20));
        assert_eq!(took, still_took, "the result comes as if there had been no delay before");
        assert!(delayed >= usual + Span::from_ms(19) && delayed <= usual + Span::from_ms(21), "{delayed:?}");
    }

    #[test]
    fn events_are_handled_no_further_than_a_request_from_outside_that_is_done() {
        let mut engine = Engine::new(&Drive::shipped("dc-express").unwrap(), 1);
        let thread = engine.add_client(2);
        // With another one under way, its thread is not done with it.
        for (token, offset) in [(7, 0), (8, 4096)] {
            let io = Io { op: Op::Read, offset, bytes: 512 };
            engine.inject(Time::ZERO, Input::Request { thread, io, token });
        }
        // The endpoint goes on reading its queue all the while.
        let until = Time::ZERO + Span::from_us(100);
        let (is_through, done) = engine.run_some_until_completed(until, u64::MAX);
        assert!(!is_through && engine.now() < until, "{}", engine.now());
        assert_eq!(done.map(|done| (done.token, done.at)), Some((7, engine.now())));
    }
}
