//! Inputs from outside the simulation: requests of clients, and commands and doorbells of real hosts.

use super::Engine;
use crate::drive::Drive;
use crate::host::ExternalRequest;
use crate::media::keys::Key;
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::real_hosts::HostCommand;
use crate::request::Io;
use crate::time::{Span, Time};

/// Input from outside the simulation: a request of a client, or a register write or doorbell of a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Request that an application issues, for a thread made by [`Engine::add_client`]. The drive must
    /// [have](Drive::check_supports_operation) its operation. [`Engine::take_completed`] returns `token`, by which the caller
    /// knows the request.
    Request {
        /// Number of the thread that submits the request.
        thread: u16,
        /// Operation, offset and length of the request.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
    },
    /// Request that an application issues after it was held back for a while. Its latency includes that time.
    DelayedRequest {
        /// Number of the thread that submits the request.
        thread: u16,
        /// Operation, offset and length of the request.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
        /// Time for which the request was held back.
        delayed: Span,
    },
    /// Request that enters at the driver, because the caller itself is the host's software; for a thread made by
    /// [`Engine::add_driver_caller`]. The drive must [have](Drive::check_supports_operation) its operation. Its completion is
    /// that of the driver as well.
    DriverRequest {
        /// Number of the thread that submits the request.
        thread: u16,
        /// Number of the drive that the request is for, where there are several.
        drive: u16,
        /// Operation, offset and length of the request.
        io: Io,
        /// Number by which the caller knows the request.
        token: u32,
    },
    /// Register write of a host's own driver that has just reached the device.
    RegisterWrite {
        /// Address of the register in the machine's address space.
        address: u64,
        /// Value written to the register, 32 bits.
        value: u32,
    },
    /// Doorbell write of a real host for the commands that have been [placed](Engine::place) in a queue; its packet
    /// leaves the host now.
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
    /// Instant at which the application had the result of the request.
    pub at: Time,
    /// Linux error number that the application is told, if the request has failed; otherwise `None`.
    pub error: Option<u32>,
}

impl Engine {
    /// Returns a machine whose queues the drivers of real hosts write into, without simulated host software. `None` if
    /// real drivers do not know the drive's protocol.
    pub fn for_real_host_drivers(drive: &Drive, seed: u64) -> Option<Engine> {
        // Real hosts reach the server over their own network, so do not model one.
        let mut engine = Engine::new(&drive.without_fabric(), seed);
        engine.devices[0].driver.real_hosts()?.hand_queues_to_real_hosts();
        engine.devices[0].controller.real_hosts()?.begin();
        let limits = drive.limits();
        engine.hold_keys(drive, &mut std::iter::empty());
        engine.queue_threads =
            (0..limits.queue_pairs).map(|_| engine.add_queue_client(limits.queue_capacity())).collect();
        Some(engine)
    }

    /// Makes the controller keep the states of the drive's zones itself, all of them empty at first, because no server
    /// keeps them.
    pub fn keep_zones(&mut self, drive: &Drive) {
        if let Some(controller) = self.devices[0].controller.real_hosts() {
            controller.keep_zones(drive);
        }
    }

    /// Stores values under their keys in a drive that stores values, before it serves requests. Each value is given by
    /// its key and its length.
    pub fn hold_keys(&mut self, drive: &Drive, values: &mut dyn Iterator<Item = (Key, u32)>) {
        let (controller, mut ports) = self.devices[0].controller_side(&mut self.shared);
        if let Some(controller) = controller.real_hosts().filter(|_| drive.key_value.is_there()) {
            controller.hold_keys(values, &mut ports);
        }
    }

    /// Starts a queue that a real host has created anew with `entries` entries, at most as many as the drive's, and
    /// with or without interrupts (Create I/O Completion Queue, IEN). Returns false while commands of the old queue are
    /// in flight.
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

    /// Returns the number of commands that a real host's queue still has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.devices[0].driver.real_hosts().map_or(0, |queues| queues.room(queue))
    }

    /// Places a command that arrives from a real host at `at` in the next slot of its queue. [`Input::Ring`] announces
    /// it to the device. [`Engine::take_completed`] returns its token when its completion is in the host's memory.
    pub fn place(&mut self, at: Time, command: HostCommand) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        self.set_event_source(0);
        let thread = self.queue_threads[usize::from(command.queue)];
        let Engine { shared, memory, devices, .. } = self;
        let device = &mut devices[0];
        let (driver, mut ports) = device.driver_side(memory, shared);
        let slot = driver.real_hosts().map(|queues| queues.place(at, thread, &command, &mut ports));
        if let Some((slot, controller)) = slot.zip(device.controller.real_hosts()) {
            controller.give_command(command.queue, slot, command.form);
        }
    }

    /// Returns the completion queue entry in this slot, as a real host finds it; `None` if real drivers do not know the
    /// protocol.
    pub fn completion_entry(&mut self, queue: u16, slot: u32) -> Option<[u8; 16]> {
        Some(self.devices[0].driver.real_hosts()?.completion_entry(queue, slot, &self.memory))
    }

    /// Adds a thread for injected requests, and returns its number.
    pub fn add_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.add_queue_client(iodepth);
        self.disable_interrupts_for_polling(thread);
        thread
    }

    /// Adds a thread for commands that a real host's own driver writes, and returns its number. No simulated thread
    /// polls for their completions.
    pub(super) fn add_queue_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.host.add_thread(iodepth, None, None);
        let place = self.recorder.add_client(iodepth);
        self.recorder.add_thread(thread, place);
        thread
    }

    /// Injects a request that was held back for `delayed` into the software of the host.
    #[inline]
    fn inject_delayed_request(&mut self, at: Time, thread: u16, io: Io, token: u32, delayed: Span) {
        let request = ExternalRequest { thread, io, token, due: at - delayed };
        self.host.inject(at, request, &self.devices[0].driver, &mut self.shared);
    }

    /// Injects an input at `at`, after handling all events up to then; `at` may not lie before an event that has been
    /// handled.
    pub fn inject(&mut self, at: Time, input: Input) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        self.set_event_source(0);
        match input {
            Input::Request { thread, io, token } => self.inject_delayed_request(at, thread, io, token, Span::ZERO),
            Input::DelayedRequest { thread, io, token, delayed } => {
                self.inject_delayed_request(at, thread, io, token, delayed)
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

    /// Removes and returns the next completion of an injected request, in the order of completion. Callers that inject
    /// requests must take all completions, as they are kept until then.
    pub fn take_completed(&mut self) -> Option<Completed> {
        self.client_completed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    #[test]
    fn latency_of_a_held_request_includes_its_delay() {
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
    fn events_stop_at_the_completion_of_an_injected_request() {
        let mut engine = Engine::new(&Drive::shipped("dc-express").unwrap(), 1);
        let thread = engine.add_client(2);
        // A second request stays in flight, so the thread is still busy when the first completes.
        for (token, offset) in [(7, 0), (8, 4096)] {
            let io = Io { op: Op::Read, offset, bytes: 512 };
            engine.inject(Time::ZERO, Input::Request { thread, io, token });
        }
        // The endpoint polls its queue throughout, so there are always more events to handle.
        let until = Time::ZERO + Span::from_us(100);
        let (is_through, done) = engine.run_events_until_completed(until, u64::MAX);
        assert!(!is_through && engine.now() < until, "{}", engine.now());
        assert_eq!(done.map(|done| (done.token, done.at)), Some((7, engine.now())));
    }
}
