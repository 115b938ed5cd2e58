//! Keys of a drive file that describe the host's processor cores.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::time::Span;

section! {
    /// Processor cores of the host, and how a thread waits for its I/O.
    pub struct Host ("host") {
        /// Number of the host's cores that run the workload; thread i runs on core i modulo this number
        cores => cores: u16 = 1, 1..=1024;
        /// Hardware threads of each host core; workload threads use the second hardware thread of a core only when
        /// every core has a workload thread
        threads_per_core => threads_per_core: u8 = 1, [1, 2];
        /// Extra throughput of a core that runs two hardware threads, as a share of one thread alone (measured: 0.42 for two SPDK threads of a Xeon Gold 6442Y, AiSIO experiments, 2026)
        thread_yield => thread_yield: f64 = 0.42, 0.0..=1.0;
        /// Standard deviation of the time that each part of the host's software takes, as a fraction of its mean; 0:
        /// always the mean. Derived from reads by a polled driver: 99 % take at most 7.71 us at a mean of 6.38, (7.71 /
        /// 6.38 - 1) / 2.33 = 0.09 (SPDK on Optane, 2018)
        variation => variation: f64 = 0.09, 0.0..=0.25;
        /// Number of sockets over which the host's cores are spread evenly, the first cores on the first socket
        sockets => sockets: u16 = 1, 1..=64;
        /// Clock at which the host's cores run
        core_ghz => core_ghz: f64 = 3.8, 0.1..=10.0;
        /// Clock at which the processor times of [host] were measured; the simulated times scale by `host.nominal_ghz`
        /// / `host.core_ghz`
        nominal_ghz => nominal_ghz: f64 = 3.8, 0.1..=10.0;
        /// Instructions per clock of the host's cores, relative to a Skylake core (1.0)
        ipc => ipc: f64 = 1.0, 0.1..=10.0;
        /// Instructions per clock of the core on which the processor times of [host] were measured, relative to a Skylake core; interrupt handler, context switch and wake-up times scale by `nominal_ipc` / `ipc`
        nominal_ipc => nominal_ipc: f64 = 1.0, 0.1..=10.0;
        /// True if the host's last-level cache and its interconnect run at the core clock (as in Sandy Bridge), so that
        /// cache latency scales with the core clock
        uncore_follows_core => uncore_follows_core: bool = true, any();
        /// Method by which a thread waits for a completion: `spin` (polls), `sleep` (until the interrupt) or `hybrid` (sleeps for part of the expected time, then polls). On a stack with I/O engines (`stack.engines`) the engine decides: `spin` and `sleep` are then alike, and with `hybrid` an engine that polls sleeps first
        wait => wait: Wait = Wait::Spin, any();
        /// Fraction of the mean latency that a thread with `host.wait` = `hybrid` sleeps before its polling starts
        hybrid_sleep_ratio => hybrid_sleep_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time from a device's write being visible in memory until a polling core has seen it
        poll_ns => poll: Span = ns(20), ZERO..=LONGEST;
        /// Processor time of one posted write to a device register, such as a doorbell
        mmio_write_ns => mmio_write: Span = ns(50), ZERO..=LONGEST;
        /// Shortest interval at which posted register writes leave a core, on stacks with I/O engines; a core that
        /// writes doorbells faster waits once `host.mmio_room` writes are queued. 0: every write leaves at once
        mmio_drain_ns => mmio_drain: Span = ZERO, ZERO..=LONGEST;
        /// Number of posted register writes that a core can queue until they leave the core at intervals of
        /// `host.mmio_drain_ns`
        mmio_room => mmio_room: u16 = 16, 1..=1024, with mmio_drain_ns;
        /// Processor time of one context switch between threads of a core
        context_switch_ns => context_switch: Span = ns(550), ZERO..=LONGEST;
        /// Extra time of a context switch for each doubling of the number of threads that wait for the core, counted
        /// from eight threads
        context_switch_growth_ns => context_switch_growth: Span = ZERO, ZERO..=LONGEST;
        /// Extra processor time of a core that an interrupt wakes after an idle time of at least `host.cold_after_ns`,
        /// because caches and branch predictors have lost their contents; shorter idle times cost proportionally less
        cold_ns => cold: Span = ZERO, ZERO..=LONGEST;
        /// Idle time of a core after which an interrupt costs the whole of `host.cold_ns`; shorter idle times cost
        /// proportionally less
        cold_after_ns => cold_after: Span = us(60), ZERO..=LONGEST;
        /// Processor time to take a thread that goes to sleep off its core; 0: as `host.context_switch_ns`
        deactivate_ns => deactivate: Span = ZERO, ZERO..=LONGEST;
        /// Processor time to put a woken thread onto an idle core; 0: as `host.context_switch_ns`
        reactivate_ns => reactivate: Span = ZERO, ZERO..=LONGEST;
        /// Time from the arrival of an interrupt message at the root complex to the first instruction of its handler;
        /// includes the exit from an idle state unless `host.idle_exit_ns` or `host.idle_states` states that time
        interrupt_ns => interrupt: Span = us(1), ZERO..=LONGEST;
        /// Extra time that an interrupt needs to reach a core on which no thread runs, if the core is in none of
        /// `host.idle_states`
        idle_exit_ns => idle_exit: Span = ZERO, ZERO..=LONGEST;
        /// Deepest idle state that a core without a thread may enter: `none` (an interrupt then costs `idle_exit_ns` more), `c1`, `c1e` or `c6`. A core enters the deepest state whose residency does not exceed the mean of its last eight idle times
        idle_states => idle_states: CoreIdleState = CoreIdleState::None, any();
        /// Extra time an interrupt needs to wake a core from idle state C1
        c1_exit_ns => c1_exit: Span = ZERO, ZERO..=LONGEST;
        /// Shortest expected idle time for which a core enters idle state C1
        c1_residency_ns => c1_residency: Span = ZERO, ZERO..=LONGEST;
        /// Extra time an interrupt needs to wake a core from idle state C1E
        c1e_exit_ns => c1e_exit: Span = ZERO, ZERO..=LONGEST;
        /// Shortest expected idle time for which a core enters idle state C1E
        c1e_residency_ns => c1e_residency: Span = ZERO, ZERO..=LONGEST;
        /// Extra time an interrupt needs to wake a core from idle state C6
        c6_exit_ns => c6_exit: Span = ZERO, ZERO..=LONGEST;
        /// Shortest expected idle time for which a core enters idle state C6
        c6_residency_ns => c6_residency: Span = ZERO, ZERO..=LONGEST;
        /// Factor by which the expected idle time of a core must exceed the stated exit latency of an idle state while
        /// a thread waits in a synchronous call (engine `sync`); in no such state the core polls and stays warm. 11:
        /// Linux's governor `menu` before 6.13; 0: no such condition, as since then
        io_wait_factor => io_wait_factor: u16 = 0, 0..=1000;
        /// Exit latency of idle state C1 that the kernel states for `host.io_wait_factor`: the worst case, unlike
        /// `host.c1_exit_ns`
        c1_stated_exit_ns => c1_stated_exit: Span = ZERO, ZERO..=LONGEST, with io_wait_factor;
        /// Exit latency of idle state C1E that the kernel states for `host.io_wait_factor`
        c1e_stated_exit_ns => c1e_stated_exit: Span = ZERO, ZERO..=LONGEST, with io_wait_factor;
        /// Exit latency of idle state C6 that the kernel states for `host.io_wait_factor`
        c6_stated_exit_ns => c6_stated_exit: Span = ZERO, ZERO..=LONGEST, with io_wait_factor;
        /// Processor time of an interrupt handler, without `host.wake_ns` for each thread that the handler wakes
        interrupt_handler_ns => interrupt_handler: Span = us(1), ZERO..=LONGEST;
        /// Number of cores over which interrupt vectors are spread, starting with the first core; 0: all cores
        interrupt_cores => interrupt_cores: u16 = 0, 0..=1024;
        /// Processor time to wake a sleeping thread, spent on the core that wakes it
        wake_ns => wake: Span = ZERO, ZERO..=LONGEST;
        /// Longest time for which a polling thread keeps its core while other threads wait for that core
        time_slice_us => time_slice: Span = us(4000), ZERO..=LONGEST;
        /// Time to fetch a cache line that another core of the same socket has modified
        cache_line_transfer_ns => cache_line_transfer: Span = ns(30), ZERO..=LONGEST;
        /// Time to fetch a cache line that a core of another socket has modified
        remote_line_transfer_ns => remote_line_transfer: Span = ns(110), ZERO..=LONGEST;
    }
}

impl Host {
    /// Returns the factor by which processor times scale with the clock: nominal clock over actual clock.
    pub fn nominal_clock_ratio(&self) -> f64 {
        self.nominal_ghz / self.core_ghz
    }

    /// Returns the processor time of one posted write to a device register, such as a doorbell, at the actual clock.
    pub fn register_write_time(&self) -> Span {
        self.mmio_write.scale(self.nominal_clock_ratio())
    }

    /// Returns the factor by which times of the kernel's own code scale. The number of instructions is constant, so
    /// that clock and instructions per clock count.
    pub fn kernel_cost_ratio(&self) -> f64 {
        self.nominal_clock_ratio() * (self.nominal_ipc / self.ipc)
    }

    /// Makes a thread poll, and sets all processor times of a request in flight to zero, for requests of a real host, whose
    /// own software takes its time.
    pub fn clear_software_costs(&mut self) {
        self.wait = Wait::Spin;
        for cost in [
            &mut self.poll,
            &mut self.mmio_write,
            &mut self.context_switch,
            &mut self.interrupt,
            &mut self.idle_exit,
            &mut self.interrupt_handler,
            &mut self.wake,
        ] {
            *cost = ZERO;
        }
    }

    /// Returns the number of hardware threads of all cores together.
    pub fn processors(&self) -> u16 {
        self.cores * u16::from(self.threads_per_core)
    }
}

impl Host {
    /// Returns the processor time to take a thread off its core; the context switch time if none is given.
    pub fn deactivate(&self) -> Span {
        if self.deactivate.is_zero() { self.context_switch } else { self.deactivate }
    }

    /// Returns the processor time to put a woken thread onto an idle core; the context switch time if none is given.
    pub fn reactivate(&self) -> Span {
        if self.reactivate.is_zero() { self.context_switch } else { self.reactivate }
    }

    /// Returns the idle states that a core may enter, the lightest state first.
    pub fn idle_states(&self) -> Vec<IdleStateTimes> {
        let states = [
            (CoreIdleState::C1, self.c1_exit, self.c1_residency, self.c1_stated_exit),
            (CoreIdleState::C1e, self.c1e_exit, self.c1e_residency, self.c1e_stated_exit),
            (CoreIdleState::C6, self.c6_exit, self.c6_residency, self.c6_stated_exit),
        ];
        let allowed = states.into_iter().filter(|(state, ..)| *state <= self.idle_states);
        allowed.map(|(_, exit, residency, stated_exit)| IdleStateTimes { exit, residency, stated_exit }).collect()
    }

    /// Returns the extra processor time of a core that has idled for `idle`, because its caches and branch predictors
    /// are cold.
    pub fn cold_core_time(&self, idle: Span) -> Span {
        if self.cold.is_zero() {
            return Span::ZERO;
        }
        let share = match self.cold_after.is_zero() {
            true => 1.0,
            false => (idle.as_ns() / self.cold_after.as_ns()).min(1.0),
        };
        self.cold.scale(share * self.kernel_cost_ratio())
    }

    /// Returns the extra time an interrupt needs to reach a core that expected to idle for `expected`. The core enters
    /// the deepest state whose residency is at most that time (as the menu governor of Linux).
    pub fn expected_idle_exit_time(&self, expected: Span) -> Span {
        let mut states = self.idle_states().into_iter();
        states.rfind(|state| state.residency <= expected).map_or(self.idle_exit, |state| state.exit)
    }

    /// Returns the extra time of an interrupt on a core that has idled for `idle` and had expected `expected`: exit
    /// from the idle state, and work with cold caches. If `waits_for_io`, a thread of the core waits in a synchronous
    /// call. Linux before 6.13 then keeps the core out of states that it leaves too slowly (`get_typical_interval` and
    /// `performance_multiplier`, drivers/cpuidle/governors/menu.c), and a core that polls in place of a state keeps its
    /// caches warm.
    pub fn idle_wake_time(&self, idle: Span, expected: Span, waits_for_io: bool) -> IdleWakeTime {
        let factor = u64::from(self.io_wait_factor);
        if !waits_for_io || factor == 0 || self.idle_states == CoreIdleState::None {
            return IdleWakeTime { exit: self.expected_idle_exit_time(expected), cold: self.cold_core_time(idle) };
        }
        let is_entered = |state: &IdleStateTimes| state.residency <= expected && state.stated_exit * factor <= expected;
        match self.idle_states().into_iter().rfind(is_entered) {
            None => IdleWakeTime { exit: Span::ZERO, cold: Span::ZERO },
            Some(state) => IdleWakeTime { exit: state.exit, cold: self.cold_core_time(idle) },
        }
    }
}

/// Times of an idle state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleStateTimes {
    /// Extra time an interrupt needs to wake a core from the state.
    pub exit: Span,
    /// Shortest expected idle time for which a core enters the state.
    pub residency: Span,
    /// Exit latency that the kernel states, for cores with a thread in a synchronous call.
    pub stated_exit: Span,
}

/// Extra time of an interrupt that finds its core idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleWakeTime {
    /// Time until the core has left its idle state.
    pub exit: Span,
    /// Extra processor time of a core whose caches and branch predictors are cold.
    pub cold: Span,
}

/// Idle state (C-state) of a core; states are ordered by depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreIdleState {
    /// Cores have no idle states. Only the time `idle_exit` is added to an interrupt that finds a core idle.
    None,
    /// Halt state (C1), the idle state with the shortest exit latency.
    C1,
    /// Halt state at reduced voltage and clock (C1E).
    C1e,
    /// Deep idle state (C6) in which the core's power is off.
    C6,
}

names! { CoreIdleState { "none" => None, "c1" => C1, "c1e" => C1e, "c6" => C6 } }

/// Method by which a thread waits for a completion: polling, sleeping or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Thread polls until the completion is there.
    #[default]
    Spin,
    /// Thread sleeps until the device's interrupt.
    Sleep,
    /// Thread sleeps for part of the expected latency, then polls.
    Hybrid,
}

names! { Wait { "spin" => Spin, "sleep" => Sleep, "hybrid" => Hybrid } }
