//! Keys of a drive file that describe the host software above the protocol driver.

use crate::config::engine::{EngineOptions, IoEngine, Words};
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Software between the application's system call and the protocol driver.
    pub struct Stack ("stack") {
        /// Stages of the host's software stack in the order in which a request passes them, application first. A stage
        /// with `before` or `after`, which names another stage, is added to the preset's list at that place
        stages => stages: Vec<StackStage> = Vec::new(), any();
        /// Rate at which the processor copies user data between application and kernel buffers, in bytes a nanosecond;
        /// 0: no copy
        copy_bytes_per_ns => copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// True if the processor also copies the user data of writes, into a buffer of the driver; false if only the
        /// data of reads is copied
        copy_writes => copy_writes: bool = false, any();
        /// Core clock at which the processor times of the software stages were measured; the times scale to
        /// `host.core_ghz`. 0: measured at `host.nominal_ghz`, like the times of [host]
        clock_ghz => clock_ghz: f64 = 0.0, 0.0..=10.0;
        /// Instructions per clock, relative to a Skylake core, of the core on which the times of the software stages
        /// were measured; the times scale to `host.ipc`. 0: as `host.ipc`
        ipc => ipc: f64 = 0.0, 0.0..=10.0, with clock_ghz;
        /// I/O engines that the software stack supports, separated by spaces, the default first: `sync`, `libaio`,
        /// `io_uring`, `io_uring_cmd`, `spdk`; empty: software that does not depend on the engine
        engines => engines: String = String::new(), any();
        /// File system between application and block device, opened with direct I/O: `raw` (none, the block device itself), `ext4` or `xfs`
        filesystem => filesystem: Filesystem = Filesystem::Raw, any();
        /// I/O scheduler of the Linux block layer, as the kernel names it: `none`, `mq-deadline`, `kyber` or `bfq`
        scheduler => scheduler: IoScheduler = IoScheduler::None, any();
        /// Program that submits the requests: `loop` (a loop that does little else) or `fio` (with fio's own processor
        /// time for each request)
        application => application: Application = Application::Loop, any();
        /// True if the kernel's mitigations against speculative execution attacks are on, which make entering and leaving the kernel slower
        mitigations => mitigations: bool = true, any();
        /// Work of the kernel to give a device access to a request's buffer: `passthrough` (none, or a mapping made
        /// before), `lazy` (maps each buffer, invalidates translations in batches) or `strict` (waits for an
        /// invalidation at each unmapping)
        iommu => iommu: IommuMode = IommuMode::Passthrough, any();
        /// True if all threads access one file, as fio's jobs with one `filename` do, so that their processors contend for
        /// the counts of readers in its inode; false if each thread has a file of its own
        shared_file => shared_file: bool = false, any(), needs Engines;
        /// True if the block layer keeps statistics of each request (`queue/iostats` of the device), which takes time
        /// stamps
        statistics => statistics: bool = true, any(), needs Engines;
        /// True if the block layer accounts for each request to a control group of the kernel (`io.stat`)
        cgroups => cgroups: bool = false, any(), needs Engines;
        /// Time without a request after which the kernel's poll thread of a job with `sqthread_poll` goes to sleep
        poller_idle_us => poller_idle: Span = us(1_000_000), ZERO..=LONGEST, needs Engines;
        /// Time to wake the kernel's poll thread of a job with `sqthread_poll` from its sleep
        poller_wake_ns => poller_wake: Span = ZERO, ZERO..=LONGEST, needs Engines;
    }
    conditions [Stack::check_lock_times]
}

impl Stack {
    /// Checks that no stage of the software stack holds its lock for longer than it runs.
    fn check_lock_times(&self) -> Option<BrokenCondition> {
        let is_broken = |stage: &&StackStage| stage.submit_held > stage.submit || stage.complete_held > stage.complete;
        let stage = self.stages.iter().find(is_broken)?;
        BrokenCondition::when(
            true,
            &["stack.stages"],
            format!("stack.stages \"{}\" holds its lock for longer than it runs", stage.name),
            String::from("submit_held_ns no larger than submit_ns, and complete_held_ns no larger than complete_ns"),
        )
    }
}

section! {
    /// One named stage of the software stack: a function of the operating system or library that a request passes on submission and on completion.
    pub struct StackStage ("stack.stages") {
        /// Name of a software stage, in the terms of the operating system; text in brackets distinguishes stages that
        /// results count together
        name => name: String = String::from("stage"), any();
        /// Source of a software stage's times: a measurement, another stack (`as linux-6`) or `assumed`; without effect
        /// on results
        source => source: String = String::new(), any();
        /// Processor time of a software stage for the submission of one request
        submit_ns => submit: Span = ZERO, ZERO..=LONGEST;
        /// Extra processor time of a software stage for the submission of a write
        write_extra_ns => write_extra: Span = ZERO, ZERO..=LONGEST;
        /// Processor time of a software stage for the completion of one request
        complete_ns => complete: Span = ZERO, ZERO..=LONGEST;
        /// Name of the lock that a software stage takes; stages that name one lock exclude each other. Empty: no lock
        lock => lock: String = String::new(), any();
        /// Period for which a software stage holds its lock: part of the `stage` (a spinlock), or until the `request`
        /// is complete (a mutex, whose waiters sleep)
        lock_held => lock_held: LockHoldPeriod = LockHoldPeriod::Stage, any(), needs SoftwareAlone;
        /// Scope of a software stage's spinlock: one lock for each `drive`, or one for each `queue` pair of each drive,
        /// for which only the threads that share the queue pair contend
        lock_scope => lock_scope: LockScope = LockScope::Drive, any(), needs Engines;
        /// Part of the software stage's `submit_ns`, at its end, during which the stage holds its spinlock; 0: all of
        /// `submit_ns`
        submit_held_ns => submit_held: Span = ZERO, ZERO..=LONGEST;
        /// Part of the software stage's `complete_ns`, at its end, during which the stage holds its spinlock
        complete_held_ns => complete_held: Span = ZERO, ZERO..=LONGEST;
        /// Number of cache lines that the spinlock of a software stage protects and its holder writes; each has to be
        /// fetched by the next holder, which lengthens the time that the lock is held
        lock_lines => lock_lines: u8 = 0, 0..=255;
        /// Number of cache lines, shared with other cores, that a software stage writes during submission
        submit_lines => submit_lines: u8 = 0, 0..=64;
        /// Number of cache lines, shared with other cores, that a software stage writes during completion; the first
        /// ones are also written during submission
        complete_lines => complete_lines: u8 = 0, 0..=64;
        /// True if a software stage ends by waking a kernel thread, which carries the request further while the
        /// submitting thread sleeps
        hand_over => hand_over: bool = false, any(), needs SoftwareAlone;
        /// Condition under which a request passes a software stage: words that must be true for its job, or false if
        /// `!` precedes them; empty: always. A word is an I/O engine, an option of it, a file system, an I/O scheduler,
        /// `fio`, `mitigations`, `iommu-lazy`, `iommu-strict`, `shared-file`, `no-statistics` or `cgroups`
        when => when: String = String::new(), any(), needs Engines;
        /// True if an interrupt handler runs the completion part of a software stage. If threads share a queue pair, that
        /// is done on the processor that takes the interrupts of the queue pair
        in_handler => in_handler: bool = false, any(), needs Engines;
        /// True if a software stage only waits, as for a time stamp or a device's register, and uses no execution unit of
        /// its core: the other hardware thread of the core does not slow it down
        stalls => stalls: bool = false, any(), needs Engines;
        /// True if a software stage is code of the application, which runs on the application's thread even if another
        /// thread runs the kernel's part
        user => user: bool = false, any(), needs Engines;
        /// Processor time of a software stage for each batch of requests that are submitted together
        submit_batch_ns => submit_batch: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Extra processor time of a software stage for each batch of submitted requests, for each other request of the
        /// thread in flight: a lock or a list that more waiters make slower
        submit_depth_ns => submit_depth: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Processor time of a software stage to look for completions, once for each batch that is collected together;
        /// on the critical path only if completions are already there
        wait_batch_ns => wait_batch: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Processor time of a software stage for each batch of completions that are collected together
        complete_batch_ns => complete_batch: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// True if a software stage spends `wait_batch_ns` and `complete_batch_ns` only when the thread has to wait,
        /// because completions that are already there are collected without a system call
        if_waited => if_waited: bool = false, any(), needs Engines;
        /// Processor time of a software stage during submission for each started 4 KiB of the request's data
        submit_page_ns => submit_page: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Processor time of a software stage during completion for each started 4 KiB of the request's data
        complete_page_ns => complete_page: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Extra processor time of a software stage during submission for a request of more than 4 KiB, whose pages the
        /// driver passes to the device as a list
        submit_list_ns => submit_list: Span = ZERO, ZERO..=LONGEST, needs Engines;
        /// Extra processor time of a software stage during completion for a request of more than 4 KiB
        complete_list_ns => complete_list: Span = ZERO, ZERO..=LONGEST, needs Engines;
    }
}

/// Program that submits the requests of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Minimal loop that does little besides submitting requests and waiting for completions.
    Loop,
    /// Benchmark fio submits the requests, with its own processor time per request.
    Fio,
}

names! { Application { "loop" => Loop, "fio" => Fio } }

/// File system between the application and the block device, opened with direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// Application opens the block device itself, without a file system.
    Raw,
    /// File system ext4 lies between the application and the block device.
    Ext4,
    /// File system XFS lies between the application and the block device.
    Xfs,
}

names! { Filesystem { "raw" => Raw, "ext4" => Ext4, "xfs" => Xfs } }

/// I/O scheduler of the Linux block layer (Documentation/block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoScheduler {
    /// No scheduler: requests go to the driver in order of arrival.
    None,
    /// Linux I/O scheduler `mq-deadline`.
    MqDeadline,
    /// Linux I/O scheduler `kyber`.
    Kyber,
    /// Linux I/O scheduler `bfq`.
    Bfq,
}

names! { IoScheduler { "none" => None, "mq-deadline" => MqDeadline, "kyber" => Kyber, "bfq" => Bfq } }

/// Work that the kernel does for the host's IOMMU at each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IommuMode {
    /// Kernel does no work: there is no IOMMU, or it does not translate addresses.
    Passthrough,
    /// Kernel maps and unmaps each buffer, and invalidates many translations together from time to time.
    Lazy,
    /// Kernel maps and unmaps each buffer, and waits for an invalidation at each unmapping.
    Strict,
}

names! { IommuMode { "passthrough" => Passthrough, "lazy" => Lazy, "strict" => Strict } }

impl IommuMode {
    /// Returns the condition word of software stages that stand for this IOMMU work; `None` if there is no work.
    pub fn word(self) -> Option<&'static str> {
        match self {
            IommuMode::Passthrough => None,
            IommuMode::Lazy => Some("iommu-lazy"),
            IommuMode::Strict => Some("iommu-strict"),
        }
    }
}

impl Stack {
    /// Returns the I/O engines that the stack supports, the default first; empty if its software is the same for every
    /// engine.
    ///
    /// # Errors
    /// The first word that is not the name of an engine.
    pub fn supported_engines(&self) -> Result<Vec<IoEngine>, String> {
        let words = self.engines.split_whitespace();
        words.map(|word| IoEngine::of_name(word).ok_or_else(|| String::from(word))).collect()
    }

    /// Removes all stages and the copy of user data, so that requests take no time of the software stack.
    pub fn clear_costs(&mut self) {
        self.stages.clear();
        self.copy_bytes_per_ns = 0.0;
    }

    /// True if the software stack depends on the I/O engine, so that each job chooses one.
    pub fn has_engines(&self) -> bool {
        !self.engines.trim().is_empty()
    }

    /// Returns the condition words that are true for jobs with this engine and these options on this software stack.
    pub fn words(&self, engine: IoEngine, switches: EngineOptions) -> Words {
        let filesystem = Some(self.filesystem.name()).filter(|_| self.filesystem != Filesystem::Raw);
        let scheduler = Some(self.scheduler.name()).filter(|_| self.scheduler != IoScheduler::None);
        let application = Some(self.application.name()).filter(|_| self.application != Application::Loop);
        let mitigations = self.mitigations.then_some("mitigations");
        let shared_file = self.shared_file.then_some("shared-file");
        let statistics = (!self.statistics).then_some("no-statistics");
        let cgroups = self.cgroups.then_some("cgroups");
        let kernel = [mitigations, self.iommu.word(), statistics, cgroups];
        let own = [filesystem, scheduler, application, shared_file].into_iter().chain(kernel).flatten();
        engine.words().iter().copied().chain(switches.words()).chain(own).collect()
    }
}

impl StackStage {
    /// True if requests of a job with these condition words pass through this software stage.
    pub fn applies_to_job(&self, words: &Words) -> bool {
        self.when.split_whitespace().all(|word| match word.strip_prefix('!') {
            Some(word) => !words.contains(word),
            None => words.contains(word),
        })
    }

    /// Returns the costs of the stage that a lone request of 4 KiB pays, each with the name of its key.
    pub(crate) fn lone_request_costs(&self) -> [(&'static str, Span); 7] {
        [
            ("submit_ns", self.submit),
            ("complete_ns", self.complete),
            ("submit_batch_ns", self.submit_batch),
            ("wait_batch_ns", self.wait_batch),
            ("complete_batch_ns", self.complete_batch),
            ("submit_page_ns", self.submit_page),
            ("complete_page_ns", self.complete_page),
        ]
    }

    /// Returns the name under which results count the stage's time. It lacks the text in brackets that distinguishes
    /// stages which are counted together.
    pub fn column(&self) -> &str {
        result_column_of_stage(&self.name)
    }
}

/// Returns the name under which results count the time of a stage called `name`; see [`StackStage::column`].
pub fn result_column_of_stage(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// Period for which a software stage holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHoldPeriod {
    /// Lock is held for part of the stage's processor time (a spinlock).
    Stage,
    /// Lock is held until the request is complete (a mutex).
    Request,
}

names! { LockHoldPeriod { "stage" => Stage, "request" => Request } }

/// Scope of the spinlock of a software stage on a stack with I/O engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// Each drive has a lock, for which all threads contend.
    Drive,
    /// Each queue pair of each drive has a lock, for which the threads that share the queue pair contend.
    Queue,
}

names! { LockScope { "drive" => Drive, "queue" => Queue } }
