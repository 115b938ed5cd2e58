//! Ledger of stages: every picosecond of a request's life belongs to exactly one named stage.

use crate::number::{real, whole};
use crate::time::{Span, Time};

/// Largest number of stages of a software stack, each of which has a ledger column of its own; descriptions with more
/// are refused.
pub const STACK_STAGES_MAX: usize = 12;

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $stage:ident = $name:literal in $place:ident for $cause:ident,)+) => {
        /// A named part of a request's life. Variants stand in the order in which a request usually passes them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Stage {
            $($(#[doc = $doc])+ $stage,)+
            /// First stage of the software stack that the drive describes.
            Stack0,
            /// Second stage of the software stack that the drive describes.
            Stack1,
            /// Third stage of the software stack that the drive describes.
            Stack2,
            /// Fourth stage of the software stack that the drive describes.
            Stack3,
            /// Fifth stage of the software stack that the drive describes.
            Stack4,
            /// Sixth stage of the software stack that the drive describes.
            Stack5,
            /// Seventh stage of the software stack that the drive describes.
            Stack6,
            /// Eighth stage of the software stack that the drive describes.
            Stack7,
            /// Ninth stage of the software stack that the drive describes.
            Stack8,
            /// Tenth stage of the software stack that the drive describes.
            Stack9,
            /// Eleventh stage of the software stack that the drive describes.
            Stack10,
            /// Twelfth stage of the software stack that the drive describes.
            Stack11,
        }

        /// Names of the stages that do not come from the description.
        pub const FIXED_NAMES: &[&str] = &[$($name),+];

        const FIXED: &[Stage] = &[$(Stage::$stage),+];

        const FIXED_PARTS: &[SystemPart] = &[$(SystemPart::$place),+];

        const FIXED_CAUSES: &[CauseOfLatency] = &[$(CauseOfLatency::$cause),+];

        const FIXED_MEANINGS: &[&str] = &[$(concat!($($doc),+)),+];
    };
}

/// Part of the system in which a stage's time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemPart {
    /// Host: application, software stack, driver, interrupts and host memory.
    Host,
    /// PCI Express link between host and device, with switches and root complex, and a network in between.
    Link,
    /// Controller of the device between link and memory medium: firmware, command parser, buffers, DMA engine.
    Device,
    /// Memory medium behind the controller: banks or dies, channels, error correction.
    Media,
}

impl SystemPart {
    /// Every part of the system, from the application to the memory.
    pub const ALL: [SystemPart; 4] = [SystemPart::Host, SystemPart::Link, SystemPart::Device, SystemPart::Media];
}

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $cause:ident = $name:literal,)+) => {
        /// Cause of latency: stages that belong together where drives are compared.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CauseOfLatency {
            $($(#[doc = $doc])+ $cause,)+
        }

        impl CauseOfLatency {
            /// Every cause of latency, in the order in which results have them.
            pub const ALL: &[CauseOfLatency] = &[$(CauseOfLatency::$cause),+];

            /// Returns the name of this cause of latency in reports and documents.
            pub fn name(self) -> &'static str {
                match self {
                    $(CauseOfLatency::$cause => $name,)+
                }
            }
        }
    };
}

causes! {
    /// Waiting time for a queue slot, core of host or device, memory bank, wire, buffer or address translation.
    Queueing = "queueing",
    /// Time from the driver's start on a command until the device has parsed the command.
    CommandFetch = "command fetch",
    /// Execution time of the device's firmware for a command.
    Firmware = "firmware",
    /// Processor time to write incomplete tags into the receive buffer and to check which data has arrived (DC
    /// Express).
    IncompleteTags = "incomplete tags",
    /// Access time of the memory medium itself, or of a cache of the device in front of the medium.
    Memory = "memory",
    /// Transfer time of user data between the device's memory and host memory.
    DataTransfer = "data transfer",
    /// Time from the start of sending the completion until the polling core sees the completion.
    Completion = "completion",
    /// Time of the interrupt, and of the context switch to the thread that waits for the completion.
    WakeUp = "interrupt and wake-up",
    /// Processor time to copy user data between buffers in host memory.
    Copy = "copy",
    /// Processor time of the host's software stack above the protocol driver.
    Software = "software",
    /// Time in the network between initiator and target, and on the target's cores (NVMe over Fabrics).
    Network = "network and target",
}

stages! {
    /// The application wants the request, but no queue slot or core is free for its submission yet.
    Queued = "queued" in Host for Queueing,
    /// The request waits while its thread works on other requests of one batch.
    Batch = "batch" in Host for Queueing,
    /// The driver builds the command and puts the command into a queue of the device.
    Driver = "driver" in Host for CommandFetch,
    /// A cache line of the request waits for a free line fill buffer of its core.
    FillBuffer = "fill buffers" in Host for Queueing,
    /// The driver writes incomplete tags into the receive buffer, to tell later which data has arrived (DC Express).
    Mark = "mark tags" in Host for IncompleteTags,
    /// The command capsule, with the data of a small write, travels from the initiator's memory to the target's (NVMe
    /// over Fabrics).
    Capsule = "command capsule" in Link for Network,
    /// The target asks for the data of a larger write (R2T), and the data travels to the target (NVMe over Fabrics).
    WriteData = "R2T and write data" in Link for Network,
    /// A sleeping core of the target is woken for a command, or notices the drive's completion (NVMe over Fabrics).
    TargetWake = "target wake-up" in Host for Network,
    /// The command or its completion waits for the target core that serves its queue pair (NVMe over Fabrics).
    TargetWait = "target wait" in Host for Queueing,
    /// A core of the target works for the command: network stack, transport and the drive's driver (NVMe over Fabrics).
    Target = "target" in Host for Network,
    /// The doorbell write travels to the device.
    Doorbell = "doorbell" in Link for CommandFetch,
    /// The read request for a processor's load of a cache line travels to the device (CXL.mem).
    LineRequest = "line request" in Link for CommandFetch,
    /// The command waits in host memory until the device's next read of the queue fetches the command (DC Express).
    PollWait = "poll wait" in Host for CommandFetch,
    /// The device's read of the command queue brings the command to the device.
    Fetch = "fetch" in Link for CommandFetch,
    /// Commands of the accelerator pass the processor service layer of the host (CAPI).
    Psl = "psl" in Device for CommandFetch,
    /// The request waits for a read of the page table, because the device's cache of address translations misses.
    Translation = "translation" in Link for Queueing,
    /// The command waits for the parser of the device's controller, and passes the parser.
    Parse = "parse" in Device for CommandFetch,
    /// The request waits in the device until one of its transfer buffers is free.
    RequestQueue = "request queue" in Device for Queueing,
    /// The command waits for a processor core of the device that executes its firmware.
    FirmwareWait = "firmware wait" in Device for Queueing,
    /// The device's firmware executes the command.
    Firmware = "firmware" in Device for Firmware,
    /// The device reads user data, or the addresses of data buffers, from host memory.
    HostRead = "host read" in Link for DataTransfer,
    /// The request waits for its memory bank or channel, or for the rate limit of its cloud volume.
    MediaWait = "media wait" in Media for Queueing,
    /// The memory medium (cells, row buffers, bus) works until the first packet's worth of data is ready; for writes,
    /// until all data is stored. For a cloud volume: latency of network and storage servers.
    Media = "media" in Media for Memory,
    /// The DRAM cache of the device, in front of its memory medium, serves the request.
    DeviceCache = "device cache" in Media for Memory,
    /// Data crosses the device between its memory controllers and the buffers at the link.
    Ring = "ring" in Device for DataTransfer,
    /// Data, or the request for data, passes the device's DMA engine.
    Dma = "dma engine" in Device for DataTransfer,
    /// The host gives up its copies of the cache lines that the device is going to write (CAPI).
    Claim = "claim" in Link for DataTransfer,
    /// Data packets wait for the wire or for flow-control credits.
    LinkWait = "link wait" in Link for Queueing,
    /// Data packets are sent on the wire.
    Transfer = "transfer" in Link for DataTransfer,
    /// Data packets travel from the end of the wire to the transaction layer of the other end.
    Propagation = "propagation" in Link for DataTransfer,
    /// Data becomes visible in host memory; includes waiting for PCI Express ordering and for late writes.
    Settle = "settle" in Host for DataTransfer,
    /// The completion queue entry is sent from the device to host memory.
    CompletionEntry = "completion entry" in Link for Completion,
    /// The response, with the data of a read, travels from the target's memory to the initiator's (NVMe over Fabrics).
    Response = "response" in Link for Network,
    /// Packets wait for a link of the network, for a port of its switch or for retransmission (NVMe over Fabrics).
    NetworkWait = "network wait" in Link for Queueing,
    /// The interrupt message travels to a core, and its handler runs.
    Interrupt = "interrupt" in Host for WakeUp,
    /// The thread that sleeps until the completion is woken, and its core switches to this thread.
    ContextSwitch = "context switch" in Host for WakeUp,
    /// The request waits for its thread's core, which other threads or interrupt handlers occupy.
    CoreWait = "core wait" in Host for Queueing,
    /// The completion is in host memory, but the polling core has not seen the completion yet.
    Poll = "poll" in Host for Completion,
    /// The driver checks the tags in the receive buffer, to tell if all data has arrived (DC Express).
    Check = "check tags" in Host for IncompleteTags,
    /// The processor copies user data between buffers in host memory, such as kernel and application buffers.
    Copy = "copy" in Host for Copy,
    /// A read whose data or completion does not arrive waits until the driver's time-out (DC Express).
    Timeout = "time-out" in Host for Queueing,
}

const STACK: [Stage; STACK_STAGES_MAX] = [
    Stage::Stack0,
    Stage::Stack1,
    Stage::Stack2,
    Stage::Stack3,
    Stage::Stack4,
    Stage::Stack5,
    Stage::Stack6,
    Stage::Stack7,
    Stage::Stack8,
    Stage::Stack9,
    Stage::Stack10,
    Stage::Stack11,
];

const COUNT: usize = FIXED_NAMES.len() + STACK_STAGES_MAX;

impl Stage {
    /// Returns the ledger stage for the software stack's stage number `place`, counted from 0.
    ///
    /// # Panics
    /// If `place` is not below [`STACK_STAGES_MAX`].
    pub fn stack(place: usize) -> Stage {
        STACK[place]
    }

    /// Returns the names of the stages that do not come from a drive's description, each with the part of the system in
    /// which it passes.
    pub fn fixed() -> impl Iterator<Item = (&'static str, SystemPart)> {
        FIXED_NAMES.iter().copied().zip(FIXED_PARTS.iter().copied())
    }

    /// Returns the stage of this name, if it does not come from a drive's description.
    pub fn of_name(name: &str) -> Option<Stage> {
        FIXED_NAMES.iter().position(|known| *known == name).map(|place| FIXED[place])
    }

    /// Returns what each stage of [`Stage::fixed`] is, as Markdown, in the same order.
    pub fn stage_explanations() -> impl Iterator<Item = &'static str> {
        FIXED_MEANINGS.iter().map(|text| text.trim())
    }

    /// Returns all stages of a drive whose software stack has `stack` stages, in the order of [`StageTimes::named`].
    pub fn all(stack: usize) -> impl Iterator<Item = Stage> {
        let (queued, below) = FIXED.split_at(1);
        queued.iter().chain(&STACK[..stack]).chain(below).copied()
    }

    /// Returns every stage of the ledger, including those of a software stack of any size.
    pub fn every() -> impl Iterator<Item = Stage> {
        Stage::all(STACK_STAGES_MAX)
    }

    /// Returns the cause of latency that this stage belongs to.
    pub fn cause(self) -> CauseOfLatency {
        FIXED_CAUSES.get(self as usize).copied().unwrap_or(CauseOfLatency::Software)
    }

    /// Returns the part of the system in which the stage's time passes.
    pub fn part(self) -> SystemPart {
        FIXED_PARTS.get(self as usize).copied().unwrap_or(SystemPart::Host)
    }

    /// Returns the name of the stage; `stack` holds the names of the software stack's stages.
    pub fn name(self, stack: &[String]) -> &str {
        let place = self as usize;
        match FIXED_NAMES.get(place) {
            Some(name) => name,
            None => stack.get(place - FIXED_NAMES.len()).map_or("stack", String::as_str),
        }
    }
}

/// Time in each stage of the ledger, of one request or summed over many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTimes([Span; COUNT]);

impl Default for StageTimes {
    fn default() -> StageTimes {
        StageTimes([Span::ZERO; COUNT])
    }
}

impl StageTimes {
    /// Returns the time spent in one stage.
    pub fn get(&self, stage: Stage) -> Span {
        self.0[stage as usize]
    }

    /// Returns the sum of the times of a request, or of a run's requests, in all stages.
    // Inlined: called once for each request.
    #[inline(always)]
    pub fn total(&self) -> Span {
        Span::from_ps(self.0.iter().fold(0, |sum, span| sum.wrapping_add(span.as_ps())))
    }

    /// Returns the stages in which any time was spent, with their names; the names of stack stages come from `stack`.
    pub fn named<'a>(&'a self, stack: &'a [String]) -> impl Iterator<Item = (&'a str, Span)> + 'a {
        let (fixed, stack_times) = self.0.split_at(FIXED_NAMES.len());
        let fixed = FIXED_NAMES.iter().copied().zip(fixed.iter().copied());
        let stack = stack.iter().map(String::as_str).zip(stack_times.iter().copied());
        // A request enters the software stack after its wait for a slot, so list the stack's stages there.
        let (queued, below) = (fixed.clone().take(1), fixed.skip(1));
        queued.chain(stack).chain(below).filter(|(_, span)| !span.is_zero())
    }

    /// Returns the stage times with another time in one stage.
    pub fn with(&self, stage: Stage, span: Span) -> StageTimes {
        let mut times = self.clone();
        times.0[stage as usize] = span;
        times
    }

    /// Adds the times of another request or run, stage by stage.
    pub fn add(&mut self, other: &StageTimes) {
        self.add_stage_times(other);
    }

    /// Returns the stage times multiplied by `factor`, each rounded down to a picosecond.
    pub fn scaled(&self, factor: f64) -> StageTimes {
        StageTimes(self.0.map(|span| Span::from_ps(whole(real(span.as_ps()) * factor))))
    }

    /// Adds the stage times of another request or run, stage by stage, and returns the sum of what was added.
    // Inlined: called once for each request.
    #[inline(always)]
    fn add_stage_times(&mut self, other: &StageTimes) -> Span {
        let mut total = 0_u64;
        for (sum, span) in self.0.iter_mut().zip(&other.0) {
            *sum = Span::from_ps(sum.as_ps().wrapping_add(span.as_ps()));
            total = total.wrapping_add(span.as_ps());
        }
        Span::from_ps(total)
    }
}

/// Ledger of one request: a cursor that moves forward in time and charges each step to a stage.
///
/// Because every step starts where the last one ended, the stages sum to the request's latency by
/// construction; [`Ledger::close`] asserts it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    start: Time,
    cursor: Time,
    times: StageTimes,
    /// Factor by which spans charged with `spend` are stretched, in units of 2^-16; 0 stands for a factor of 1.
    pace: u32,
    /// True if the ledger records every step with its stage and end.
    keeps_steps: bool,
    steps: Vec<(Stage, Time)>,
}

impl Ledger {
    /// Creates a ledger that starts at the instant from which the latency counts.
    pub fn new(start: Time) -> Ledger {
        Ledger { start, cursor: start, ..Ledger::default() }
    }

    /// Resets the ledger to an empty one that starts at the instant `start`.
    pub fn open(&mut self, start: Time) {
        (self.start, self.cursor) = (start, start);
        self.times.0.fill(Span::ZERO);
        self.pace = 0;
        self.keeps_steps = false;
        self.steps.clear();
    }

    /// Charges the time from the cursor to `until` to `stage`, and moves the cursor there.
    ///
    /// # Panics
    /// If `until` lies before the cursor, because a component has charged time twice.
    #[inline]
    pub fn until(&mut self, stage: Stage, until: Time) {
        assert!(until >= self.cursor, "{stage:?} ends at {until}, before {}", self.cursor);
        self.times.0[stage as usize] += until.since(self.cursor);
        self.cursor = until;
        self.note(stage);
    }

    /// Sets the factor by which spans that are charged from now on are stretched, in units of 2^-16; 0 stands for a
    /// factor of 1.
    #[inline]
    pub fn set_stretch_factor(&mut self, pace: u32) {
        self.pace = pace;
    }

    /// Charges `span`, stretched by the pace if one is set, to `stage`, and moves the cursor by it.
    #[inline]
    pub fn spend(&mut self, stage: Stage, span: Span) {
        let span = if self.pace == 0 { span } else { span.paced(self.pace) };
        self.times.0[stage as usize] += span;
        self.cursor += span;
        self.note(stage);
    }

    /// Shifts everything charged so far by `delay`. A request that has been charged as queued keeps its start and is
    /// queued for longer; any other starts later.
    pub fn postpone(&mut self, delay: Span) {
        match self.times.get(Stage::Queued).is_zero() {
            true => self.start += delay,
            false => self.times.0[Stage::Queued as usize] += delay,
        }
        self.cursor += delay;
        self.steps.iter_mut().for_each(|(_, to)| *to += delay);
    }

    /// Records each step from now on, with its stage and end, for [`Ledger::steps`].
    pub fn record_steps(&mut self) {
        self.keeps_steps = true;
    }

    /// Returns the recorded steps: stage, start and end of each that took any time.
    pub fn steps(&self) -> impl Iterator<Item = (Stage, Time, Time)> + '_ {
        let mut from = self.start;
        self.steps.iter().filter_map(move |&(stage, to)| {
            let start = std::mem::replace(&mut from, to);
            (start < to).then_some((stage, start, to))
        })
    }

    #[inline]
    fn note(&mut self, stage: Stage) {
        if self.keeps_steps {
            self.keep(stage);
        }
    }

    #[cold]
    fn keep(&mut self, stage: Stage) {
        self.steps.push((stage, self.cursor));
    }

    /// Returns the time charged so far, by stage.
    pub fn times(&self) -> &StageTimes {
        &self.times
    }

    /// Returns the instant up to which time has been charged; the next charge starts there.
    pub fn cursor(&self) -> Time {
        self.cursor
    }

    /// Returns the instant from which the latency counts.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Returns the stage times of the request; asserts that they account for all of `start..end`.
    pub fn close(&self, end: Time) -> &StageTimes {
        self.assert_stages_add_up(end, self.times.total());
        &self.times
    }

    /// Adds the request's stage times to `sum`; asserts that they account for all of `start..end`.
    #[inline(always)]
    pub fn close_into_sum(&self, end: Time, sum: &mut StageTimes) {
        self.assert_stages_add_up(end, sum.add_stage_times(&self.times));
    }

    #[inline]
    fn assert_stages_add_up(&self, end: Time, total: Span) {
        assert_eq!(self.cursor, end, "the ledger ends before or after the request");
        assert_eq!(total, end.since(self.start), "the stages do not sum to the latency");
    }
}
