//! The clock of a simulation: events to come, in order, and nothing else.
//!
//! There is one queue for the whole machine. Events of one instant happen in the order of their sources: those of the host
//! first, then those of the devices by number, then those of the switches; events of one source in the order in which they were
//! asked for.

mod queue;

use crate::time::{Span, Time};
use crate::tlp::PacketId;
use queue::Queue;

const _: () = assert!(size_of::<Event>() == 8);

/// Number of the switches as a source of events, behind all devices.
pub const SWITCHES: u8 = u8::MAX;

/// Everything that can happen. [`crate::engine::Engine::route`] says who hears of it.
///
/// Kept to eight bytes, as events are copied more than anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// A thread looks for something to do.
    Thread(u16),
    /// A thread takes its request on through the software.
    Path(u16),
    /// A spinlock that others wait for is released.
    Release(u16),
    /// A thread has finished the work that it was doing.
    WorkDone(u16),
    /// A poll thread is done with a request of a thread's ring.
    Poller(u16),
    /// An interrupt reaches its core.
    Interrupt {
        /// Number of the interrupt vector, counted over all devices.
        vector: u16,
    },
    /// An interrupt handler has run.
    Handled {
        /// Number of the interrupt vector, counted over all devices.
        vector: u16,
    },
    /// A driver's own timer.
    #[default]
    Driver,
    /// A wire looks at what waits for it.
    Wire(u8),
    /// A burst, or a packet of it, arrives.
    Arrive(PacketId),
    /// A read of the device that had to wait for earlier writes looks into host memory.
    Look(PacketId),
    /// Host memory answers a read of the device.
    Answer(PacketId),
    /// A posted write is in host memory.
    Settle(PacketId),
    /// One packet of a posted burst is in host memory.
    SettleOne {
        /// Number of the packet within its burst.
        place: u16,
        /// Burst that the packet belongs to.
        packet: PacketId,
    },
    /// The device's DMA engine is done with a step of a burst.
    Dma(PacketId),
    /// A controller's own timer.
    Controller {
        /// Purpose of the timer; each protocol has numbers of its own.
        kind: u8,
        /// Number of the command, queue or lane that the timer concerns; its meaning depends on `kind`.
        context: u32,
    },
    /// Something comes of an injected fault.
    Fault(u32),
}

impl Event {
    /// True if an event is the host's own, so that it happens whatever becomes of the device.
    pub(crate) fn is_of_host(&self) -> bool {
        use Event::*;
        match self {
            Thread(_) | Path(_) | Release(_) | WorkDone(_) | Poller(_) | Interrupt { .. } | Handled { .. } => true,
            Fault(_) => true,
            Driver | Wire(_) | Arrive(_) | Look(_) | Answer(_) | Settle(_) | SettleOne { .. } | Dma(_) => false,
            Controller { .. } => false,
        }
    }
}

/// A controller's name for one of its timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Purpose of the timer; each protocol has numbers of its own.
    pub kind: u8,
    /// Number of the command, queue or lane that the timer concerns; its meaning depends on `kind`.
    pub context: u32,
}

/// Events to come.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    later: Queue,
    now: Time,
    /// Events handled so far.
    pub events: u64,
    /// Number of the event after which whoever handles events looks up.
    last: u64,
}

impl Scheduler {
    /// Tells apart the sources of events from now on, of which there are several devices, or switches. Without that, events of
    /// one instant happen in the order in which they were asked for, whichever source they are of.
    pub fn tell_sources_apart(&mut self) {
        self.later.rank_sources();
    }

    /// Number of the device that the event taken last was of, or [`SWITCHES`]; 0 for the host. It is known until another event
    /// is asked for.
    pub fn source(&self) -> u8 {
        self.later.source()
    }

    /// Counts events that are asked for from now on as those of the device of this number, or of the [`SWITCHES`], unless they
    /// are the host's.
    #[inline]
    pub fn ask_for(&mut self, source: u8) {
        self.later.ask_for(source);
    }

    /// Lets `event` happen at `at`; an instant that has passed counts as now.
    #[inline]
    pub fn at(&mut self, at: Time, event: Event) {
        self.later.push(at.max(self.now), event);
    }

    /// Lets `event` happen `after` from `now`.
    pub fn after(&mut self, now: Time, after: Span, event: Event) {
        self.at(now + after, event);
    }

    /// Instant of the next event, if there is one.
    pub fn next_at(&self) -> Option<Time> {
        self.later.next_at()
    }

    /// True if an event happens up to `until`; it has to be [taken](Self::take) then.
    #[inline]
    pub fn is_due(&mut self, until: Time) -> bool {
        self.later.is_due(until)
    }

    /// Forgets all events to come but those of these kinds. Sources are not told apart.
    #[cold]
    pub fn retain(&mut self, is_kept: impl Fn(&Event) -> bool) {
        let mut kept = Vec::new();
        while self.later.is_due(Time::NEVER) {
            kept.push(self.later.take());
        }
        kept.into_iter().filter(|(_, event)| is_kept(event)).for_each(|(at, event)| self.later.push(at, event));
    }

    /// Takes the next event, which [is due](Self::is_due), and moves the clock to it.
    #[inline]
    pub fn take(&mut self) -> (Time, Event) {
        let (at, event) = self.later.take();
        self.now = at;
        self.events += 1;
        (at, event)
    }

    /// Lets events be handled up to the one of number `last`, or until one of them [asks](Self::look_up) for a look at what
    /// has become of it.
    pub fn go_on(&mut self, last: u64) {
        self.last = last;
    }

    /// True if the next event may be handled without a look up.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.events < self.last
    }

    /// Ends the handling of events for a look up, as what its caller waits for may have come.
    pub fn look_up(&mut self) {
        self.last = 0;
    }

    /// Instant of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Moves the clock on without an event, for inputs from outside.
    ///
    /// # Panics
    /// If an event before `now` has not been handled.
    pub fn advance(&mut self, now: Time) {
        assert!(self.next_at().is_none_or(|next| next >= now), "the clock may not pass an event");
        self.now = self.now.max(now);
    }
}
