//! What comes into the engine from outside: requests of clients, the commands that real hosts write, and their rings.

use super::Engine;
use crate::drive::Drive;
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::ports::Ports;
use crate::protocol::real_hosts::HostCommand;
use crate::request::Io;
use crate::time::Time;

/// What comes into the engine from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request at the application's end, for a thread made by [`Engine::add_client`], of an operation that the drive
    /// [has](Drive::check_operation). `token` is the caller's name for it, which [`Engine::take_completed`] gives back.
    Request { thread: u16, io: Io, token: u32 },
    /// A host's own driver writes a device register: the packet has just reached the device.
    RegisterWrite { address: u64, value: u32 },
    /// A real host rings for the commands that have been [placed](Engine::place) in a queue: the packet leaves the host.
    Ring { queue: u16 },
}

/// An injected request that has its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The name that the caller gave it.
    pub token: u32,
    /// When the application had its result.
    pub at: Time,
}

impl Engine {
    /// The drive with queues that the drivers of real hosts write into: nothing of a host's software is simulated. Nothing
    /// if the drive's protocol has none that such drivers know.
    pub fn for_real_hosts(drive: &Drive, seed: u64) -> Option<Engine> {
        let mut engine = Engine::new(drive, seed);
        engine.driver.real_hosts()?.give_way();
        engine.controller.real_hosts()?.begin();
        let limits = drive.limits();
        engine.queue_threads = (0..limits.queue_pairs).map(|_| engine.add_queue_client(limits.queue_slots())).collect();
        Some(engine)
    }

    /// A real host has created a queue with so many entries, as many as the drive's at most: whether it begins anew, which
    /// it does not while commands of the one before are under way.
    pub fn begin_queue(&mut self, queue: u16, entries: u32) -> bool {
        let Engine { driver, controller, shared, .. } = self;
        let (Some(queues), Some(controller)) = (driver.real_hosts(), controller.real_hosts()) else { return false };
        let has_begun = queues.begin_queue(queue, entries, shared);
        if has_begun {
            controller.restart_queue(queue, entries);
        }
        has_begun
    }

    /// How many more commands a queue of real hosts has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.driver.real_hosts().map_or(0, |queues| queues.room(queue))
    }

    /// A command of a real host arrives at `at`, in the next slot of its queue; the device hears of it by
    /// [`Input::Ring`]. [`Engine::take_completed`] gives its token back when its completion is in the host's memory.
    pub fn place(&mut self, at: Time, command: &HostCommand) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        let thread = self.queue_threads[usize::from(command.queue)];
        let Engine { driver, controller, shared, .. } = self;
        let (Some(queues), Some(controller)) = (driver.real_hosts(), controller.real_hosts()) else { return };
        let slot = queues.place(at, thread, command, shared);
        controller.give_lists(command.queue, slot, command.lists);
    }

    /// What a real host finds in an entry of a completion queue; nothing of a protocol that such hosts do not speak.
    pub fn completion_entry(&mut self, queue: u16, slot: u32) -> Option<[u8; 16]> {
        Some(self.driver.real_hosts()?.completion_entry(queue, slot, &self.shared))
    }

    /// Add a thread whose requests are injected.
    pub fn add_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.add_queue_client(iodepth);
        self.let_look(thread);
        thread
    }

    /// The same for commands that a real host's own driver writes: nobody here looks for their completions.
    fn add_queue_client(&mut self, iodepth: u32) -> u16 {
        let thread = self.host.add_thread(iodepth, None, None);
        let place = self.recorder.add_client(iodepth);
        self.recorder.add_thread(thread, place);
        thread
    }

    /// Let `input` happen at `at`, which may not lie before an event that has been handled.
    pub fn inject(&mut self, at: Time, input: Input) {
        self.run_until(at);
        self.shared.scheduler.advance(at);
        match input {
            Input::Request { thread, io, token } => {
                self.host.inject(at, thread, io, token, &self.driver, &mut self.shared);
            }
            Input::RegisterWrite { address, value } => {
                let Engine { controller, link, media, shared, .. } = self;
                controller.on_register_write(at, address, value, &mut Ports { link, media, shared });
            }
            Input::Ring { queue } => {
                let queues = self.driver.real_hosts().expect("whoever rings has placed a command");
                queues.ring(queue, &mut self.link, &mut self.shared);
            }
        }
    }

    /// The next injected request that is done, in the order in which they were. Whoever injects takes them all, as they
    /// are kept until then.
    pub fn take_completed(&mut self) -> Option<Completed> {
        self.client_completed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::time::Span;

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
