//! Host: threads on processors, the software that they run for each request, and how they wait.
//!
//! Software takes requests in one of two ways, and [`Host`] sends each event to the one that the drive's stack has:
//! [`blocking`] takes one request at a time, [`batched`] takes batches, each by the engine of its job. Both share the
//! [`processors`], whose threads wait for their turn (`waiting.rs`) and are delayed by interrupts (`interrupts.rs`).

mod batched;
mod blocking;
mod idle;
mod interrupts;
pub mod locks;
mod pace;
mod path;
mod poller;
mod posted;
mod processors;
pub mod software;
pub mod stack;
mod thread;
mod waiting;

use crate::config::Wait;
use crate::drive::Drive;
use crate::ledger::CpuUse;
use crate::protocol::dispatch::AnyDriver;
use crate::request::{Io, NamedWritePlace, NextRequest, Op, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::generator::RequestGenerator;
use crate::workload::{Job, Rounds};
pub use batched::BatchMember;
use batched::Batched;
use blocking::Blocking;
use processors::{HostContext, Processors};
use software::StackLockNumbers;
use stack::Way;
pub use thread::FinishedWork;
use thread::{State, Thread, Work};

/// Software of the host, by how requests enter and leave it.
#[derive(Clone, Debug)]
enum Submission {
    /// Requests enter and leave the software one at a time.
    Blocking(Blocking),
    /// Requests enter and leave the software in batches, each through the I/O engine of its job.
    Batched(Batched),
}

/// Request from outside the simulation, for a thread without a generator.
#[derive(Clone, Copy, Debug)]
pub struct ExternalRequest {
    /// Number of the thread that submits the request.
    pub thread: u16,
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Number by which the sender knows the request.
    pub token: u32,
    /// Instant from which the latency of the request counts.
    pub due: Time,
}

/// Processors, threads and software of a host.
#[derive(Clone, Debug)]
pub struct Host {
    processors: Processors,
    submission: Submission,
    /// True for each operation of [`Op::ALL`] that the drive has a command for.
    supported: [bool; Op::ALL.len()],
}

impl Host {
    /// Creates the host of this drive, without threads.
    pub fn new(drive: &Drive, seed: u64) -> Host {
        let submission = match Batched::of(drive) {
            Some(batched) => Submission::Batched(batched),
            None => Submission::Blocking(Blocking::new(drive)),
        };
        let spin_locks = match &submission {
            Submission::Blocking(blocking) => blocking.stack.spin_locks,
            Submission::Batched(_) => StackLockNumbers::new(drive).count(0),
        };
        Host { processors: Processors::new(drive, spin_locks, seed), submission, supported: drive.limits().supported }
    }

    /// Adds a thread that keeps up to `iodepth` requests in flight, and returns its number. Without a generator, its
    /// requests come from outside the simulation.
    pub fn add_thread(&mut self, iodepth: u32, generator: Option<RequestGenerator>, job: Option<&Job>) -> u16 {
        let Host { processors, submission, .. } = self;
        let number = processors.threads.len() as u16;
        // A thread without a generator is idle until the first request is injected.
        let state = if generator.is_some() { State::Away } else { State::Finished };
        processors.unfinished += usize::from(state != State::Finished);
        let core = usize::from(number) % processors.cores.len();
        let rounds = job.map(Rounds::of).unwrap_or_default();
        let thread = Thread { state, core, iodepth, generator, rounds, ..Thread::default() };
        let mut thread = match submission {
            Submission::Blocking(blocking) => blocking.thread(thread, processors),
            Submission::Batched(batched) => batched.thread(thread, job, processors),
        };
        // Injected requests come from many independent callers, and only the caller of a flush waits for it, so the
        // thread as a whole does not.
        thread.waits_for_flush &= thread.generator.is_some();
        processors.threads.push(thread);
        if let Submission::Batched(batched) = submission {
            batched.assign_queue_pair(number, processors);
            batched.assign_poller_processors(processors);
        }
        number
    }

    /// Removes the log records of a thread's clients that a commit has just made durable. Calls `record` with the time
    /// at which each was handed in.
    #[cold]
    pub fn take_group(&mut self, thread: u16, record: impl FnMut(Time)) {
        if let Some(generator) = &mut self.processors.threads[usize::from(thread)].generator {
            generator.take_group(record);
        }
    }

    /// Ends the warm-up of all threads, and returns the time from which on issued requests count. No request has been
    /// issued at that time or later.
    pub fn begin_to_count(&mut self, now: Time) -> Time {
        let threads = &mut self.processors.threads;
        let generators = || threads.iter().filter_map(|thread| thread.generator.as_ref());
        let issued_until = generators().map(RequestGenerator::issued_until).max().unwrap_or(now);
        let begin = now.max(issued_until + Span::from_ps(1));
        let generators = threads.iter_mut().filter_map(|thread| thread.generator.as_mut());
        generators.for_each(|generator| generator.begin_to_count(begin));
        begin
    }

    /// True if a thread polls for completions by itself, on a host whose threads choose among engines.
    pub fn thread_polls_for_completions(&self, thread: u16) -> bool {
        match &self.submission {
            Submission::Blocking(_) => false,
            Submission::Batched(batched) => batched.batchers[usize::from(thread)].software.polls(),
        }
    }

    /// True if a thread finds responses from a network by polling; `has_polled_queues` is true if its engine can.
    pub fn thread_polls_network(&self, thread: u16, has_polled_queues: bool) -> bool {
        match &self.submission {
            Submission::Blocking(_) => self.processors.wait != Wait::Sleep,
            Submission::Batched(_) => has_polled_queues && self.thread_polls_for_completions(thread),
        }
    }

    /// Returns the processor time to switch to a kernel worker and back.
    pub fn worker_switch_time(&self) -> Span {
        self.processors.context_switch * 2
    }

    /// Makes the core of an interrupt vector work for `time` to answer a message from a network. A thread that polls
    /// finds the message at once; otherwise the core takes an interrupt first. Returns the end of the work.
    pub fn charge_network_response(
        &mut self,
        now: Time,
        vector: u16,
        is_polled: bool,
        time: Span,
        shared: &mut Shared,
    ) -> Time {
        let core = self.core_of(vector);
        let Host { processors, submission, .. } = self;
        let (from, handler) = match is_polled {
            true => (now, Span::ZERO),
            false => (now + processors.interrupt_start_delay(now, core), processors.interrupt_handler),
        };
        let run = processors.run_interrupt_handler(from, core, handler + time, shared);
        submission.on_handler(&run, shared);
        run.end()
    }

    /// Returns the number of threads of the host.
    pub fn threads(&self) -> u16 {
        self.processors.threads.len() as u16
    }

    /// True if every thread has done all its requests.
    pub fn finished(&self) -> bool {
        self.processors.unfinished == 0
    }

    /// Returns the use of the processors up to `now`.
    pub fn used(&self, now: Time) -> CpuUse {
        self.processors.used(now)
    }

    /// Gives a request from outside the simulation to its thread, and wakes the thread. The drive must have a command
    /// for its operation ([`Drive::check_supports_operation`]).
    pub fn inject(&mut self, now: Time, request: ExternalRequest, driver: &AnyDriver, shared: &mut Shared) {
        let ExternalRequest { thread, io, token, due } = request;
        assert!(self.supported[io.op as usize], "the drive's protocol has no command for a {}", io.op.name());
        let this = &mut self.processors.threads[usize::from(thread)];
        this.external.push_back(NextRequest { io, due, drive: 0, ends_commit: false, target: NamedWritePlace::Any });
        this.tokens.push_back(token);
        if this.state == State::Finished {
            this.state = State::Away;
            self.processors.unfinished += 1;
        }
        self.notify_thread(now, thread, driver, shared);
    }

    /// Lets a thread look for its next step: at the start, when its next request is due, after a nap, and when a
    /// context switch is over.
    pub fn wake_thread_for_next_step(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.processors.threads[usize::from(thread)];
        if this.asleep_until.is_some_and(|until| until > now) {
            return;
        }
        this.asleep_until = None;
        let free_at = self.processors.cores[this.core].free_at;
        match this.state {
            // The thread is being switched to, or an interrupt handler runs on its core: try again when the core is
            // free.
            State::Busy if matches!(this.work, Work::None) && free_at > now => {
                shared.scheduler.at(free_at, Event::Thread(thread))
            }
            State::Busy if matches!(this.work, Work::None) => self.step(now, thread, driver, shared),
            State::Busy | State::Finished => {}
            State::Watching | State::Away => self.notify_thread(now, thread, driver, shared),
        }
    }

    /// Returns the software of the host, and the parts of the machine that it works with during an event.
    #[inline(always)]
    fn with_context<'a>(
        &'a mut self,
        driver: &'a AnyDriver,
        shared: &'a mut Shared,
    ) -> (&'a mut Submission, HostContext<'a>) {
        (&mut self.submission, HostContext { processors: &mut self.processors, driver, shared })
    }

    /// Tells a thread that it has something to do: one that spins takes its next step now, another one when it gets its
    /// core.
    #[inline(always)]
    fn notify_thread(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        if self.processors.notify_thread(now, thread, shared) {
            self.step(now, thread, driver, shared);
        }
    }

    /// Lets a thread that holds its core take its next step: submit a request, handle a completion, or wait.
    pub fn step(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let (submission, mut context) = self.with_context(driver, shared);
        match submission {
            Submission::Blocking(blocking) => blocking.step(now, thread, &mut context),
            Submission::Batched(batched) => batched.step(now, thread, &mut context),
        }
    }

    /// Makes the completion of a request visible to its thread, and lets the thread go on or wakes it.
    #[inline(always)]
    pub fn on_completed(&mut self, now: Time, request: RequestId, driver: &AnyDriver, shared: &mut Shared) {
        let Request { thread, submitted, .. } = shared.requests[request];
        let (submission, mut context) = self.with_context(driver, shared);
        if let Submission::Batched(batched) = submission
            && batched.has_poller(thread)
        {
            return batched.on_poller_completion(now, thread, request, &mut context);
        }
        let HostContext { processors, shared, .. } = &mut context;
        shared.requests[request].visible = now;
        let this = &mut processors.threads[usize::from(thread)];
        this.done.push_back(request);
        if processors.wait == Wait::Hybrid {
            this.expect(now.since(submitted));
        }
        if this.asleep_until.is_some() {
            return;
        }
        match submission {
            Submission::Blocking(blocking) => blocking.on_completed(now, thread, request, &mut context),
            Submission::Batched(batched) => batched.on_completed(now, thread, request, &mut context),
        }
    }

    /// Ends a thread's piece of work, and returns what becomes of its requests. The caller acts on that, and then lets
    /// the thread [step](Self::step).
    #[inline(always)]
    pub fn on_work_done(&mut self, now: Time, thread: u16, shared: &mut Shared) -> FinishedWork {
        let this = &mut self.processors.threads[usize::from(thread)];
        if this.work_end > now {
            return FinishedWork::Later(this.work_end);
        }
        match std::mem::replace(&mut this.work, Work::None) {
            Work::Submit(request) => {
                this.issued_bytes = shared.requests[request].io.bytes;
                shared.requests[request].submitted = now;
                FinishedWork::Submitted(request)
            }
            Work::Complete(request) => {
                this.outstanding -= 1;
                FinishedWork::Completed(request)
            }
            Work::CompleteAndSubmit(completed, at, submitted) => {
                this.outstanding -= 1;
                this.issued_bytes = shared.requests[submitted].io.bytes;
                shared.requests[submitted].submitted = now;
                FinishedWork::CompletedAndSubmitted(completed, at, submitted)
            }
            Work::Together => self.end_batch(now, thread, shared),
            Work::None | Work::Path(_) | Work::Legs => unreachable!("a thread has finished what it has not done"),
        }
    }

    /// Ends a thread's piece of work on a batch, and returns what becomes of its requests.
    #[inline(never)]
    fn end_batch(&mut self, now: Time, thread: u16, shared: &mut Shared) -> FinishedWork {
        let Host { processors, submission, .. } = self;
        let batched = submission.batched();
        match batched.end_batch_work(now, thread, processors, shared) {
            Way::Down if batched.has_poller(thread) => FinishedWork::LeftToPoller,
            Way::Down => FinishedWork::SubmittedTogether,
            Way::Up => FinishedWork::CompletedTogether,
        }
    }

    /// Continues the software of a thread at a point where cores contend.
    pub fn on_path(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let (submission, mut context) = self.with_context(driver, shared);
        match submission {
            Submission::Blocking(blocking) => blocking.on_path(now, thread, &mut context),
            Submission::Batched(batched) => batched.continue_legs(now, thread, &mut context),
        }
    }

    /// Releases a spinlock, and gives it to the next thread that spins for it.
    #[inline(never)]
    pub fn on_lock_release(&mut self, now: Time, lock: u16, shared: &mut Shared) {
        let Host { processors, submission, .. } = self;
        let Some(granted) = processors.grant_spinlock(now, lock, shared) else { return };
        match (submission, processors.threads[usize::from(granted.thread)].work) {
            (Submission::Batched(batched), Work::Legs) => batched.charge_lock_acquired(&granted, shared),
            (Submission::Blocking(_), Work::Path(path)) => {
                shared.requests[path.request].ledger.until(granted.stage, granted.until);
            }
            _ => unreachable!("it spins for a request"),
        }
    }

    /// Leaves the batch of a thread to its poll thread, which takes it down to the driver.
    pub fn leave_to_poller(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let (submission, mut context) = self.with_context(driver, shared);
        submission.batched().leave_to_poller(now, thread, &mut context);
    }

    /// Ends what a poll thread has finished by `now`: its completions become visible, and the requests returned go to
    /// the driver.
    pub fn on_poller(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) -> Vec<RequestId> {
        let (submission, mut context) = self.with_context(driver, shared);
        submission.batched().on_poller(now, thread, &mut context)
    }

    /// Takes the list with the requests of a batch whose processor work has just ended, to be given
    /// [back](Self::return_batch_members).
    pub fn take_batch_members(&mut self, thread: u16) -> Vec<BatchMember> {
        std::mem::take(&mut self.submission.batched().batchers[usize::from(thread)].members)
    }

    /// Gives the list with the requests of a finished batch back to its thread, so that the next batch reuses its
    /// memory.
    pub fn return_batch_members(&mut self, thread: u16, members: Vec<BatchMember>) {
        self.submission.batched().batchers[usize::from(thread)].members = members;
    }

    /// Returns the processor that handles an interrupt vector: that of the thread that uses the vector's queue. Without
    /// such a thread, vectors are spread over the processors.
    fn core_of(&self, vector: u16) -> usize {
        let claimed = match &self.submission {
            Submission::Blocking(_) => None,
            Submission::Batched(batched) => batched.core_of(vector),
        };
        claimed.unwrap_or(usize::from(vector) % self.processors.interrupt_cores)
    }

    /// Handles an interrupt message that has reached the root complex: schedules its handler, unless interrupts are
    /// masked or a handler is pending already.
    #[inline(always)]
    pub fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) {
        // A host that polls for completions masks the interrupt.
        let is_masked = self.processors.wait != Wait::Sleep && matches!(self.submission, Submission::Blocking(_));
        if is_masked || !self.processors.is_first_message(vector) {
            return;
        }
        let core = self.core_of(vector);
        let time = self.processors.interrupt_start_delay(now, core);
        shared.scheduler.after(now, time, Event::Interrupt { vector });
    }

    /// Runs the handler of an interrupt that has reached its core, as soon as the core takes interrupts.
    #[inline(always)]
    pub fn on_interrupt(&mut self, now: Time, vector: u16, driver: &AnyDriver, shared: &mut Shared) {
        let core = self.core_of(vector);
        let Host { processors, submission, .. } = self;
        // With batched collection the interrupt handler itself writes the completion queue's doorbell.
        let acknowledge = match submission {
            Submission::Blocking(_) => Span::ZERO,
            Submission::Batched(batched) => batched.completion_doorbell_time(now, core, 1, driver),
        };
        let run = processors.run_interrupt_handler(now, core, processors.interrupt_handler + acknowledge, shared);
        submission.on_handler(&run, shared);
        processors.used.interrupts += 1;
        shared.scheduler.at(run.end(), Event::Handled { vector });
    }

    /// Makes the handler of a vector, and its core, wait for the device until `until`.
    pub fn stall(&mut self, now: Time, vector: u16, until: Time, shared: &mut Shared) {
        let core = self.core_of(vector);
        let run = self.processors.occupy_with_handler(now, core, until.since(now), shared);
        self.submission.on_handler(&run, shared);
    }

    /// Notes that the handler of a vector has run, so that its driver may look for completions.
    pub fn on_handled(&mut self, vector: u16) {
        self.processors.pending[usize::from(vector)] = false;
        self.continue_handler(vector);
    }

    /// Continues the handler of a vector, with what it has read from the device.
    pub fn continue_handler(&mut self, vector: u16) {
        self.processors.handler_core = Some(self.core_of(vector));
    }

    /// Ends the interrupt handler whose completions the driver has collected.
    pub fn end_handler(&mut self) {
        self.processors.handler_core = None;
    }
}

impl Submission {
    /// Returns the software that works in batches, which the caller knows the host to have.
    fn batched(&mut self) -> &mut Batched {
        match self {
            Submission::Batched(batched) => batched,
            Submission::Blocking(_) => unreachable!("only threads with engines have batches"),
        }
    }

    /// Delays the batch whose work an interrupt handler has interrupted.
    #[inline(always)]
    fn on_handler(&mut self, run: &interrupts::InterruptHandlerRun, shared: &mut Shared) {
        if let Submission::Batched(batched) = self {
            batched.on_handler(run, shared);
        }
    }
}
