//! Clock of a simulation: the pending events in order of time, and nothing else.
//!
//! There is one queue for the whole machine. Events of one instant happen in the order of their sources: those of the
//! host first, then those of the devices by number, then those of the switches. Events of one source happen in the
//! order in which they were scheduled.

mod queue;

use crate::time::{Span, Time};
use crate::tlp::BurstId;
use queue::Queue;

const _: () = assert!(size_of::<Event>() == 8);

/// Number of the switches as a source of events, above the numbers of all devices.
pub const SWITCHES: u8 = u8::MAX;

/// Event of the simulation, with the number of the thread, wire or burst that it concerns.
/// [`crate::engine::Engine::route`] dispatches it.
///
/// Kept to eight bytes, as events are copied more than anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// A thread looks for completions to collect or requests to submit.
    Thread(u16),
    /// A thread continues with its request in the software stack.
    Path(u16),
    /// A spinlock that other threads wait for is released.
    Release(u16),
    /// A thread has finished its piece of work for a request or a batch.
    WorkDone(u16),
    /// A kernel's poll thread has finished with a request from this thread's submission ring.
    Poller(u16),
    /// An interrupt reaches its core, which runs the handler.
    Interrupt {
        /// Number of the interrupt vector, counted over all devices.
        vector: u16,
    },
    /// An interrupt handler has run, and its driver looks for completions.
    Handled {
        /// Number of the interrupt vector, counted over all devices.
        vector: u16,
    },
    /// A timer of a driver expires.
    #[default]
    Driver,
    /// A timer of a wire expires, and bursts that wait for the wire are sent.
    Wire(u8),
    /// A burst, or a packet of it, arrives at the far end of the link.
    Arrive(BurstId),
    /// A packet that had to wait for earlier ones looks again: a read of the device samples host memory, or a switch
    /// passes on the packets of a drive.
    Recheck(BurstId),
    /// The access to host memory for a read of the device has ended, and the completion is sent.
    ReadDone(BurstId),
    /// A posted write of the device is in host memory.
    Settle(BurstId),
    /// One packet of a posted burst of the device is in host memory.
    SettleOne {
        /// Number of the packet within its burst.
        place: u16,
        /// Burst that the packet belongs to.
        packet: BurstId,
    },
    /// The device's DMA engine has finished a step of a burst.
    Dma(BurstId),
    /// A timer of a controller expires.
    Controller {
        /// Purpose of the controller's timer; each protocol has numbers of its own.
        kind: u8,
        /// Number of the command, queue or lane that the controller's timer concerns; its meaning depends on `kind`.
        context: u32,
    },
    /// A command over a fabric takes its next step: at the network, at the target or at the initiator.
    Fabric {
        /// Step of the command, by the number of [`crate::fabric::FabricCommandStep`].
        step: u8,
        /// Index of the request, or number of the interrupt vector whose responses are received.
        context: u32,
    },
    /// A pending effect of an injected fault takes place; the number is that of the effect.
    Fault(u32),
}

impl Event {
    /// True if an event belongs to the host, so that it happens even if the device is reset or loses power.
    pub(crate) fn is_of_host(&self) -> bool {
        use Event::*;
        match self {
            Thread(_) | Path(_) | Release(_) | WorkDone(_) | Poller(_) | Interrupt { .. } | Handled { .. } => true,
            Fault(_) => true,
            Driver | Wire(_) | Arrive(_) | Recheck(_) | ReadDone(_) | Settle(_) | SettleOne { .. } | Dma(_) => false,
            Controller { .. } | Fabric { .. } => false,
        }
    }
}

/// Timer of a controller: its purpose, and the object that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Purpose of the controller's timer; each protocol has numbers of its own.
    pub kind: u8,
    /// Number of the command, queue or lane that the controller's timer concerns; its meaning depends on `kind`.
    pub context: u32,
}

/// Clock of the simulation, with its pending events.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    later: Queue,
    now: Time,
    /// Number of events handled so far.
    pub events: u64,
    /// Number of handled events at which the loop that handles events returns to its caller.
    last: u64,
}

impl Scheduler {
    /// Ranks events of one instant by their source (host, devices, switches) from now on. Without this call, they
    /// happen in the order in which they were scheduled.
    pub fn rank_by_source(&mut self) {
        self.later.rank_event_sources();
    }

    /// Returns the source of the event taken last: the number of its device, [`SWITCHES`], or 0 for the host. Valid
    /// until another event is scheduled.
    pub fn source(&self) -> u8 {
        self.later.source()
    }

    /// Sets the source of the events that are scheduled from now on: the number of a device, or [`SWITCHES`]. Events of
    /// the host's own kinds always have the host as their source.
    #[inline]
    pub fn set_source(&mut self, source: u8) {
        self.later.set_source(source);
    }

    /// Schedules `event` at the instant `at`, or at the current time if that instant has passed.
    #[inline]
    pub fn at(&mut self, at: Time, event: Event) {
        self.later.push(at.max(self.now), event);
    }

    /// Schedules `event` at the time `after` later than `now`.
    pub fn after(&mut self, now: Time, after: Span, event: Event) {
        self.at(now + after, event);
    }

    /// Returns the instant of the next event; `None` if none is pending.
    pub fn next_at(&self) -> Option<Time> {
        self.later.next_at()
    }

    /// True if an event is pending that happens up to `until`; it has to be [taken](Self::take) then.
    #[inline]
    pub fn is_due(&mut self, until: Time) -> bool {
        self.later.is_due(until)
    }

    /// Removes all pending events for which `is_kept` is false. The others keep their instants, but not their sources.
    #[cold]
    pub fn retain(&mut self, is_kept: impl Fn(&Event) -> bool) {
        let mut kept = Vec::new();
        while self.later.is_due(Time::NEVER) {
            kept.push(self.later.take());
        }
        kept.into_iter().filter(|(_, event)| is_kept(event)).for_each(|(at, event)| self.later.push(at, event));
    }

    /// Removes the next event, which [is due](Self::is_due), and moves the clock to it. Returns its instant and the
    /// event.
    #[inline]
    pub fn take(&mut self) -> (Time, Event) {
        let (at, event) = self.later.take();
        self.now = at;
        self.events += 1;
        (at, event)
    }

    /// Lets events be handled up to the one of number `last`, or until one of them [asks](Self::return_to_caller) to
    /// return to the caller.
    pub fn go_on(&mut self, last: u64) {
        self.last = last;
    }

    /// True if the next event may be handled before the loop that handles events returns to its caller.
    #[inline]
    pub fn may_handle_next(&self) -> bool {
        self.events < self.last
    }

    /// Makes the loop that handles events return to its caller, because the event that the caller waits for may have
    /// happened.
    pub fn return_to_caller(&mut self) {
        self.last = 0;
    }

    /// Returns the instant of the last event: the current simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Moves the clock to `now` without an event, for inputs from outside the simulation.
    ///
    /// # Panics
    /// If an event before `now` has not been handled.
    pub fn advance(&mut self, now: Time) {
        assert!(self.next_at().is_none_or(|next| next >= now), "the clock may not pass an event");
        self.now = self.now.max(now);
    }
}
