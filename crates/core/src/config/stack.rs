//! Keys of the software above the driver.

use crate::config::engine::{Engine, Switches, Words};
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// The software between the application's call and the protocol driver.
    pub struct Stack ("stack") {
        /// Stages in the order in which a request meets them, application first; stages with `before` or `after`, the name of another, join those of the preset
        stages => stages: Vec<Stage> = Vec::new(), any();
        /// Rate of the memory-to-memory copy of the data, or 0 for none
        copy_bytes_per_ns => copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Whether data of writes is copied too, into a buffer of the driver
        copy_writes => copy_writes: bool = false, any();
        /// Clock at which the costs of the stages were found, from which they scale to `host.core_ghz`; 0: they hold at `host.nominal_ghz`, like the host's own
        clock_ghz => clock_ghz: f64 = 0.0, 0.0..=10.0;
        /// What the core on which they were found does in a clock, in that of a Skylake core, from which they scale to `host.ipc`; 0: as much as the host's
        ipc => ipc: f64 = 0.0, 0.0..=10.0;
        /// Engines that the stack knows, in words and the default first: `sync`, `libaio`, `io_uring`, `io_uring_cmd`, `spdk`; empty: software that is alike for any of them
        engines => engines: String = String::new(), any();
        /// What lies between application and device, with direct I/O: `raw` (the block device itself), `ext4` or `xfs`
        filesystem => filesystem: Filesystem = Filesystem::Raw, any();
        /// I/O scheduler of the block layer
        scheduler => scheduler: IoScheduler = IoScheduler::None, any();
        /// What issues the requests: a `loop` that does little else, or `fio`
        application => application: Application = Application::Loop, any();
        /// Whether the kernel guards its entry and exit against speculative execution
        mitigations => mitigations: bool = true, any();
        /// How long the poll thread of a job with `sqthread_poll` finds nothing before it goes to sleep
        poller_idle_us => poller_idle: Span = us(1_000_000), ZERO..=LONGEST;
        /// What it takes to wake that thread from such a sleep
        poller_wake_ns => poller_wake: Span = ZERO, ZERO..=LONGEST;
    }
}

section! {
    /// One named stage of the software stack.
    pub struct Stage ("stack.stages") {
        /// Name, in the terms of the operating system
        name => name: String = String::from("stage"), any();
        /// Processor time on the way down
        submit_ns => submit: Span = ZERO, ZERO..=LONGEST;
        /// What a write takes more than a read on the way down
        write_extra_ns => write_extra: Span = ZERO, ZERO..=LONGEST;
        /// Processor time on the way back
        complete_ns => complete: Span = ZERO, ZERO..=LONGEST;
        /// Lock that the stage takes; stages that name the same lock exclude each other
        lock => lock: String = String::new(), any();
        /// How the lock is held: for parts of the `stage` (a spinlock), or until the `request` is back (a mutex, whose waiters sleep)
        lock_held => lock_held: LockHeld = LockHeld::Stage, any();
        /// Part of `submit_ns` under the spinlock, at its end, or 0 for all of it
        submit_held_ns => submit_held: Span = ZERO, ZERO..=LONGEST;
        /// Part of `complete_ns` under the spinlock, at its end
        complete_held_ns => complete_held: Span = ZERO, ZERO..=LONGEST;
        /// Cache lines that the spinlock guards and its holder writes: each travels with the lock, and makes it be held longer
        lock_lines => lock_lines: u8 = 0, 0..=255;
        /// Cache lines that the stage writes on the way down and other cores write too
        submit_lines => submit_lines: u8 = 0, 0..=64;
        /// The same on the way back; the first ones are those of the way down
        complete_lines => complete_lines: u8 = 0, 0..=64;
        /// Whether the stage ends in waking a kernel thread, which takes the request on while its own thread sleeps
        hand_over => hand_over: bool = false, any();
        /// Words that hold for a job whose requests meet the stage, or with `!` do not: an engine, a switch of it, a file system, a scheduler, `fio`, `mitigations`; empty: always
        when => when: String = String::new(), any();
        /// Whether it is the application's own code, which its thread runs whoever runs the kernel's
        user => user: bool = false, any();
        /// Processor time once for all requests that are submitted together
        submit_batch_ns => submit_batch: Span = ZERO, ZERO..=LONGEST;
        /// Processor time of looking for completions, once for those that are collected together: while the requests are under way, or in line if there are completions already
        wait_batch_ns => wait_batch: Span = ZERO, ZERO..=LONGEST;
        /// Processor time once for all completions that are collected together
        complete_batch_ns => complete_batch: Span = ZERO, ZERO..=LONGEST;
        /// Whether `wait_batch_ns` and `complete_batch_ns` are spent only where the thread has to wait, as completions that are there are found without a call
        if_waited => if_waited: bool = false, any();
        /// Processor time for each 4 KiB of data on the way down, a part of them counting as 4 KiB
        submit_page_ns => submit_page: Span = ZERO, ZERO..=LONGEST;
        /// The same on the way back
        complete_page_ns => complete_page: Span = ZERO, ZERO..=LONGEST;
    }
}

/// What issues the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    Loop,
    Fio,
}

names! { Application { "loop" => Loop, "fio" => Fio } }

/// What lies between application and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    Raw,
    Ext4,
    Xfs,
}

names! { Filesystem { "raw" => Raw, "ext4" => Ext4, "xfs" => Xfs } }

/// I/O schedulers of the block layer of Linux (Documentation/block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoScheduler {
    None,
    MqDeadline,
    Kyber,
    Bfq,
}

names! { IoScheduler { "none" => None, "mq-deadline" => MqDeadline, "kyber" => Kyber, "bfq" => Bfq } }

impl Stack {
    /// The engines that it knows, the default first; none if it is alike for all of them.
    ///
    /// # Errors
    /// The first word that is no engine.
    pub fn known_engines(&self) -> Result<Vec<Engine>, String> {
        let words = self.engines.split_whitespace();
        words.map(|word| Engine::of_name(word).ok_or_else(|| String::from(word))).collect()
    }

    /// Whether jobs choose among engines.
    pub fn has_engines(&self) -> bool {
        !self.engines.trim().is_empty()
    }

    /// The words that hold for jobs of this engine with these switches.
    pub fn words(&self, engine: Engine, switches: Switches) -> Words {
        let filesystem = Some(self.filesystem.name()).filter(|_| self.filesystem != Filesystem::Raw);
        let scheduler = Some(self.scheduler.name()).filter(|_| self.scheduler != IoScheduler::None);
        let application = Some(self.application.name()).filter(|_| self.application != Application::Loop);
        let mitigations = self.mitigations.then_some("mitigations");
        let own = [filesystem, scheduler, application, mitigations].into_iter().flatten();
        engine.words().iter().copied().chain(switches.words()).chain(own).collect()
    }
}

impl Stage {
    /// Whether it is met where these words hold.
    pub fn holds(&self, words: &Words) -> bool {
        self.when.split_whitespace().all(|word| match word.strip_prefix('!') {
            Some(word) => !words.contains(word),
            None => words.contains(word),
        })
    }

    /// Under which name its time is counted: what stands in brackets tells apart stages that are counted together.
    pub fn column(&self) -> &str {
        column_of(&self.name)
    }
}

/// See [`Stage::column`].
pub fn column_of(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// For how long a stage's lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHeld {
    Stage,
    Request,
}

names! { LockHeld { "stage" => Stage, "request" => Request } }
