//! Keys of the processor cores.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::time::Span;

section! {
    /// Processor cores, and how a thread waits for its I/O.
    pub struct Host ("host") {
        /// Cores that run the workload; thread i runs on core i modulo this number
        cores => cores: u16 = 1, 1..=1024;
        /// Threads that each core runs side by side; those of the workload go to the second ones when every core has one
        threads_per_core => threads_per_core: u8 = 1, [1, 2];
        /// What two threads of a core do together more than one alone, as a share of it (measured: 0.42 for two SPDK threads of a Xeon Gold 6442Y, AiSIO experiments, 2026)
        thread_yield => thread_yield: f64 = 0.42, 0.0..=1.0;
        /// Standard deviation of the time of each piece of software, as a share of it; 0 for software that always takes its mean time. As of whole reads by a polled driver: 99 % take no more than 7.71 us, for 6.38 in the mean, (7.71 / 6.38 - 1) / 2.33 = 0.09 (SPDK on Optane, 2018)
        variation => variation: f64 = 0.09, 0.0..=0.25;
        /// Sockets over which the cores are spread, the first cores on the first
        sockets => sockets: u16 = 1, 1..=64;
        /// Clock of the cores
        core_ghz => core_ghz: f64 = 3.8, 0.1..=10.0;
        /// Clock at which this description's processor costs hold; they scale with `core_ghz`
        nominal_ghz => nominal_ghz: f64 = 3.8, 0.1..=10.0;
        /// What a core does in a clock, in that of a Skylake core
        ipc => ipc: f64 = 1.0, 0.1..=10.0;
        /// The same of the core on which this description's processor costs were found; handlers, switches and wake-ups scale with `ipc`
        nominal_ipc => nominal_ipc: f64 = 1.0, 0.1..=10.0;
        /// Whether the shared cache and its ring run at the core clock (as in Sandy Bridge), so that its latency scales too
        uncore_follows_core => uncore_follows_core: bool = true, any();
        /// How a thread waits: `spin`, `sleep` until the interrupt, or `hybrid` (sleep for part of the expected time, then spin). Where engines differ (`stack.engines`), they say who sleeps: `spin` and `sleep` are then alike, and with `hybrid` those who look for completions sleep first
        wait => wait: Wait = Wait::Spin, any();
        /// Share of the mean latency that a hybrid wait sleeps before it spins
        hybrid_sleep_ratio => hybrid_sleep_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time from a write settling in memory to a spinning core having seen it
        poll_ns => poll: Span = ns(20), ZERO..=LONGEST;
        /// Processor time of one posted write to a device register
        mmio_write_ns => mmio_write: Span = ns(50), ZERO..=LONGEST;
        /// From one posted register write leaving a core to the next, on stacks with engines: a core that rings more often waits; 0: they leave at once
        mmio_drain_ns => mmio_drain: Span = ZERO, ZERO..=LONGEST;
        /// Register writes that a core has room for while they have not left
        mmio_room => mmio_room: u16 = 16, 1..=1024;
        /// One context switch between threads of a core
        context_switch_ns => context_switch: Span = ns(550), ZERO..=LONGEST;
        /// Taking a thread that goes to sleep off its core; 0: as long as `context_switch_ns`
        deactivate_ns => deactivate: Span = ZERO, ZERO..=LONGEST;
        /// Putting a thread that has been woken onto a core that idles; 0: as long as `context_switch_ns`
        reactivate_ns => reactivate: Span = ZERO, ZERO..=LONGEST;
        /// Time from an interrupt message reaching the root complex to the first instruction of its handler, idle-state exit included unless `idle_exit_ns` gives it
        interrupt_ns => interrupt: Span = us(1), ZERO..=LONGEST;
        /// What an interrupt takes longer to reach a core on which no thread runs
        idle_exit_ns => idle_exit: Span = ZERO, ZERO..=LONGEST;
        /// Deepest idle state that a core without a thread may enter: `none` (`idle_exit_ns` says what an interrupt meets), `c1`, `c1e` or `c6`. It enters the deepest whose residency its mean idle time reaches, of the last eight
        idle_states => idle_states: IdleState = IdleState::None, any();
        /// What an interrupt takes longer to reach a core in C1
        c1_exit_ns => c1_exit: Span = ZERO, ZERO..=LONGEST;
        /// Shortest idle time for which C1 is worth while
        c1_residency_ns => c1_residency: Span = ZERO, ZERO..=LONGEST;
        /// The same of C1E
        c1e_exit_ns => c1e_exit: Span = ZERO, ZERO..=LONGEST;
        /// The same of C1E
        c1e_residency_ns => c1e_residency: Span = ZERO, ZERO..=LONGEST;
        /// The same of C6
        c6_exit_ns => c6_exit: Span = ZERO, ZERO..=LONGEST;
        /// The same of C6
        c6_residency_ns => c6_residency: Span = ZERO, ZERO..=LONGEST;
        /// Processor time of the interrupt handler, without what `wake_ns` adds for each thread that it wakes
        interrupt_handler_ns => interrupt_handler: Span = us(1), ZERO..=LONGEST;
        /// Cores over which interrupt vectors are spread, the first ones; 0 for all
        interrupt_cores => interrupt_cores: u16 = 0, 0..=1024;
        /// Processor time of waking a sleeping thread, where the waker runs
        wake_ns => wake: Span = ZERO, ZERO..=LONGEST;
        /// How long a thread that spins in its driver keeps its core while others want it
        time_slice_us => time_slice: Span = us(4000), ZERO..=LONGEST;
        /// Time for a core to have a cache line that another core of its socket has written
        cache_line_transfer_ns => cache_line_transfer: Span = ns(30), ZERO..=LONGEST;
        /// The same for a core of another socket
        remote_line_transfer_ns => remote_line_transfer: Span = ns(110), ZERO..=LONGEST;
    }
}

impl Host {
    /// What times of this description scale by with the clock.
    pub fn clock_ratio(&self) -> f64 {
        self.nominal_ghz / self.core_ghz
    }

    /// What the costs of the kernel's own code scale by: cycles stay cycles, and a core that does more in one needs fewer.
    pub fn cost_ratio(&self) -> f64 {
        self.clock_ratio() * (self.nominal_ipc / self.ipc)
    }

    /// Threads that all cores run side by side.
    pub fn processors(&self) -> u16 {
        self.cores * u16::from(self.threads_per_core)
    }
}

impl Host {
    /// Taking a thread off its core, and putting one onto an idle core.
    pub fn deactivate(&self) -> Span {
        if self.deactivate.is_zero() { self.context_switch } else { self.deactivate }
    }

    /// See [`Host::deactivate`].
    pub fn reactivate(&self) -> Span {
        if self.reactivate.is_zero() { self.context_switch } else { self.reactivate }
    }

    /// The idle states that a core may enter, the lightest first: exit latency and residency of each.
    pub fn idle_states(&self) -> Vec<(Span, Span)> {
        let states = [
            (IdleState::C1, self.c1_exit, self.c1_residency),
            (IdleState::C1e, self.c1e_exit, self.c1e_residency),
            (IdleState::C6, self.c6_exit, self.c6_residency),
        ];
        let allowed = states.into_iter().filter(|(state, ..)| *state <= self.idle_states);
        allowed.map(|(_, exit, residency)| (exit, residency)).collect()
    }

    /// What an interrupt takes longer to reach a core that is expected to idle for so long: it goes no deeper than the
    /// state whose residency is below that (the menu governor of Linux).
    pub fn idle_exit_after(&self, expected: Span) -> Span {
        let mut states = self.idle_states().into_iter();
        let worth = states.rfind(|(_, residency)| *residency <= expected);
        worth.map_or(self.idle_exit, |(exit, _)| exit)
    }
}

/// Idle states of a core, the lighter ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleState {
    None,
    C1,
    C1e,
    C6,
}

names! { IdleState { "none" => None, "c1" => C1, "c1e" => C1e, "c6" => C6 } }

/// How a thread waits for a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Spin,
    Sleep,
    Hybrid,
}

names! { Wait { "spin" => Spin, "sleep" => Sleep, "hybrid" => Hybrid } }
