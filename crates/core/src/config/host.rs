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
        /// Whether the shared cache and its ring run at the core clock (as in Sandy Bridge), so that its latency scales too
        uncore_follows_core => uncore_follows_core: bool = true, any();
        /// How a thread waits: `spin`, `sleep` until the interrupt, or `hybrid` (sleep for part of the expected time, then spin)
        wait => wait: Wait = Wait::Spin, any();
        /// Share of the mean latency that a hybrid wait sleeps before it spins
        hybrid_sleep_ratio => hybrid_sleep_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time from a write settling in memory to a spinning core having seen it
        poll_ns => poll: Span = ns(20), ZERO..=LONGEST;
        /// Processor time of one posted write to a device register
        mmio_write_ns => mmio_write: Span = ns(50), ZERO..=LONGEST;
        /// One context switch between threads of a core
        context_switch_ns => context_switch: Span = ns(550), ZERO..=LONGEST;
        /// Time from an interrupt message reaching the root complex to the first instruction of its handler, idle-state exit included unless `idle_exit_ns` gives it
        interrupt_ns => interrupt: Span = us(1), ZERO..=LONGEST;
        /// What an interrupt takes longer to reach a core on which no thread runs
        idle_exit_ns => idle_exit: Span = ZERO, ZERO..=LONGEST;
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
    /// Threads that all cores run side by side.
    pub fn processors(&self) -> u16 {
        self.cores * u16::from(self.threads_per_core)
    }
}

/// How a thread waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Spin,
    Sleep,
    Hybrid,
}

names! { Wait { "spin" => Spin, "sleep" => Sleep, "hybrid" => Hybrid } }
