//! Threads whose requests enter and leave the software together, each by the engine of its job.
//!
//! A thread gathers requests while it has slots, submits them with one call and one word to the device, and collects what
//! has completed, as fio does. Such a piece of work is a list of legs: what a request costs, what the batch costs once,
//! and locks, at which the piece stops so that those who contend come in order of time. While one request of a batch is
//! worked for, the others wait for it (`batch` in the ledger).

use std::sync::Arc;

use super::locks::Spinner;
use super::poller::Poller;
use super::posted::Posted;
use super::software::{Cost, Software};
use super::{Host, State, Thread, Way, Work};
use crate::config::{Engine, Stack, Switches, Wait};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::memory::HostMemory;
use crate::protocol::dispatch::AnyDriver;
use crate::protocol::halves::Driver as _;
use crate::request::{Op, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::{Batch, Job, Together};

/// A part of a piece of work on a batch.
#[derive(Clone, Copy, Debug)]
enum Leg {
    /// A member is worked for.
    Each { member: usize, stage: Stage, time: Span },
    /// The same under a spinlock.
    Locked { member: usize, stage: Stage, lock: usize, hold: Span },
    /// All members together are.
    All { stage: Stage, time: Span },
    /// A member has its result.
    End { member: usize },
}

/// A request of a batch, and when it has its result.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub request: RequestId,
    pub end: Time,
}

/// What a thread keeps of its engine and of the batch under way.
#[derive(Clone, Debug)]
pub(super) struct Batcher {
    pub software: Arc<Software>,
    together: Together,
    way: Way,
    pub members: Vec<Member>,
    legs: Vec<Leg>,
    place: usize,
    /// Up to where the piece has been planned, and from where on the core has yet to be told.
    cursor: Time,
    from: Time,
    /// The thread has made the call that waits for completions.
    has_waited: bool,
    /// All slots were taken: completions are collected until few enough are.
    is_draining: bool,
    /// The poll thread of its ring, and the processor that the job wants for it.
    pub poller: Option<Poller>,
    pub poller_cpu: Option<usize>,
}

impl Batcher {
    pub(super) fn new(software: Arc<Software>, together: Together) -> Batcher {
        Batcher {
            software,
            together,
            way: Way::Down,
            members: Vec::new(),
            legs: Vec::new(),
            place: 0,
            cursor: Time::ZERO,
            from: Time::ZERO,
            has_waited: false,
            is_draining: false,
            poller: None,
            poller_cpu: None,
        }
    }

    /// The engine and batches of a job on this drive; without one, those that the stack has by default.
    pub(super) fn of(drive: &Drive, iodepth: u32, job: Option<&Job>) -> Batcher {
        let ways = drive.limits().ways_in.expect("the stack has engines");
        let engine = job.map_or(Some(ways.default), |job| ways.engine(job)).expect("jobs are checked");
        let switches = job.map_or_else(Switches::default, |job| job.way.switches);
        let batch = job.map_or_else(Batch::default, |job| job.batch);
        let together = batch.with_slots(iodepth, engine == Engine::Spdk);
        let Stack { poller_idle, poller_wake, .. } = drive.stack;
        let poller = switches.sqthread_poll.then(|| Poller::new(0, poller_idle, poller_wake));
        let poller_cpu = job.and_then(|job| job.way.poller_cpu).map(|cpu| cpu as usize);
        Batcher { poller, poller_cpu, ..Batcher::new(Arc::new(Software::new(drive, engine, switches)), together) }
    }

    /// Whether a flush is one of the requests under way, and not a system call: rings take it, and drivers in user space.
    pub(super) fn flushes_beside(&self) -> bool {
        self.software.engine.has_rings() || self.software.engine == Engine::Spdk
    }

    /// Completions without which a thread with so many requests outstanding does not go on.
    fn wanted(&self, outstanding: u32) -> usize {
        self.together.complete_min.min(outstanding).max(1) as usize
    }

    /// A handler ran at `begin` for so long while the piece was under way.
    pub(super) fn preempt(&mut self, begin: Time, time: Span, shared: &mut Shared) {
        for member in self.members.iter_mut().filter(|member| member.end > begin) {
            member.end += time;
            shared.requests[member.request].wait_for_core(time);
        }
    }

    fn each(&mut self, member: usize, costs: &[Cost], shared: &Shared) {
        let io = shared.requests[self.members[member].request].io;
        for cost in costs {
            let stage = cost.stage;
            self.legs.push(Leg::Each { member, stage, time: cost.of(&io) });
            if let Some((lock, hold)) = cost.lock {
                self.legs.push(Leg::Locked { member, stage, lock, hold });
            }
        }
    }

    /// What the kernel does for requests on their way down.
    fn plan_down(&mut self, software: &Software, shared: &Shared) {
        self.legs.clear();
        let first = shared.requests[self.members[0].request].io.op.direction();
        let batch = software.down(first).batch.iter();
        self.legs.extend(batch.map(|cost| Leg::All { stage: cost.stage, time: cost.time }));
        let own = if self.poller.is_some() { 0 } else { self.members.len() };
        for member in 0..own {
            let direction = shared.requests[self.members[member].request].io.op.direction();
            self.each(member, &software.down(direction).kernel, shared);
        }
    }

    /// What is done for completions: by the kernel, once for all, and by the application.
    fn plan_up(&mut self, software: &Software, acknowledge: Span, shared: &Shared) {
        self.legs.clear();
        if !acknowledge.is_zero() {
            self.legs.push(Leg::All { stage: Stage::Driver, time: acknowledge });
        }
        let look = software.look.iter().filter(|cost| !self.has_waited && !cost.if_waited);
        self.legs.extend(look.map(|cost| Leg::All { stage: cost.stage, time: cost.time }));
        let own = if self.poller.is_some() { 0 } else { self.members.len() };
        for member in 0..own {
            self.each(member, &software.up.kernel, shared);
        }
        let met = software.up.batch.iter().filter(|cost| self.has_waited || !cost.if_waited);
        self.legs.extend(met.map(|cost| Leg::All { stage: cost.stage, time: cost.time }));
        for member in 0..self.members.len() {
            self.each(member, &software.up.user, shared);
            self.legs.push(Leg::End { member });
        }
    }

    /// A leg that meets nobody.
    fn take(&mut self, leg: Leg, shared: &mut Shared) {
        match leg {
            Leg::Each { member, stage, time } => {
                let ledger = &mut shared.requests[self.members[member].request].ledger;
                ledger.until(Stage::Batch, self.cursor);
                ledger.spend(stage, time);
                self.cursor = ledger.cursor();
            }
            Leg::All { stage, time } => {
                let from = self.cursor;
                for (place, member) in self.members.iter().enumerate() {
                    let ledger = &mut shared.requests[member.request].ledger;
                    ledger.until(Stage::Batch, from);
                    match place {
                        0 => ledger.spend(stage, time),
                        _ => ledger.until(stage, self.cursor),
                    }
                    self.cursor = ledger.cursor();
                }
            }
            Leg::End { member } => self.members[member].end = self.cursor,
            Leg::Locked { .. } => unreachable!("a lock is taken at its instant"),
        }
    }
}

/// Tell so many drives of a batch that ends with `last`: a word to each.
pub(super) fn ring(
    posted: &mut Option<Posted>,
    core: usize,
    drives: u32,
    driver: &AnyDriver,
    last: &mut Request,
    memory: &HostMemory,
) {
    for _ in 0..drives {
        let from = last.ledger.cursor();
        driver.submit_work(&last.io, last.thread, memory, &mut last.ledger);
        let to = last.ledger.cursor();
        // A driver that does without the word takes no time for it.
        if let Some(posted) = posted.as_mut().filter(|_| to > from) {
            last.ledger.until(Stage::Driver, to + posted.write(to, core));
        }
    }
}

impl Thread {
    fn batcher(&mut self) -> &mut Batcher {
        self.batcher.as_mut().expect("the thread has an engine")
    }
}

impl Host {
    /// Whether a thread has a poll thread.
    pub(super) fn has_poller(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].batcher.as_ref().is_some_and(|batcher| batcher.poller.is_some())
    }

    /// How a thread waits: by its engine, if it has one.
    pub(super) fn wait_of(&self, thread: u16) -> Wait {
        match &self.threads[usize::from(thread)].batcher {
            None => self.wait,
            // Whoever has a poll thread looks into the ring.
            Some(batcher) if batcher.poller.is_some() => Wait::Spin,
            Some(batcher) if !batcher.software.polls() => Wait::Sleep,
            Some(_) if self.wait == Wait::Hybrid => Wait::Hybrid,
            Some(_) => Wait::Spin,
        }
    }

    /// A thread that holds its core takes up the next thing to do: it gathers and submits requests while it has slots,
    /// then it collects completions.
    #[inline(never)] // Most hosts have but one way.
    pub(super) fn step_together(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let begin = self.begin(now, thread);
        if self.gather(begin, thread, shared) {
            let batcher = self.threads[usize::from(thread)].batcher();
            let software = batcher.software.clone();
            batcher.plan_down(&software, shared);
            return self.take_legs(now, thread, driver, shared);
        }
        let this = &mut self.threads[usize::from(thread)];
        let (outstanding, iodepth) = (this.outstanding, this.iodepth);
        let batcher = this.batcher();
        batcher.is_draining |= outstanding >= iodepth;
        let wanted = batcher.wanted(outstanding);
        if this.done.len() >= wanted {
            return self.collect(now, thread, driver, shared);
        }
        if outstanding < iodepth {
            self.set_alarm(thread, shared);
        }
        self.call_and_wait(now, thread, shared);
    }

    /// Draw requests into free slots, as many as go together: whether there are any.
    fn gather(&mut self, begin: Time, thread: u16, shared: &mut Shared) -> bool {
        let this = &mut self.threads[usize::from(thread)];
        let outstanding = this.outstanding;
        let batcher = this.batcher();
        if batcher.is_draining && outstanding > batcher.together.low {
            return false;
        }
        batcher.is_draining = false;
        (batcher.way, batcher.place, batcher.from, batcher.cursor) = (Way::Down, 0, begin, begin);
        batcher.members.clear();
        let (software, most) = (batcher.software.clone(), batcher.together.submit as usize);
        self.piece_from = begin;
        let mut cursor = begin;
        let mut gathered = 0;
        while gathered < most {
            let Some(next) = self.next_request(cursor, thread, 0).filter(|next| next.due <= cursor) else { break };
            let path = self.issue(cursor, thread, next, shared);
            let ledger = &mut shared.requests[path.request].ledger;
            for cost in &software.down(next.io.op.direction()).user {
                ledger.spend(cost.stage, cost.of(&next.io));
            }
            cursor = ledger.cursor();
            let batcher = self.threads[usize::from(thread)].batcher();
            batcher.members.push(Member { request: path.request, end: Time::NEVER });
            batcher.cursor = cursor;
            gathered += 1;
        }
        gathered > 0
    }

    /// Take up completions, as many as are collected together.
    fn collect(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        let core = this.core;
        let batcher = this.batcher.as_mut().expect("the thread has an engine");
        let count = this.done.len().min(batcher.together.complete_max as usize);
        let is_flushed =
            this.is_flushing && this.done.iter().take(count).any(|it| shared.requests[*it].io.op == Op::Flush);
        this.is_flushing &= !is_flushed;
        batcher.members.clear();
        batcher.members.extend(this.done.drain(..count).map(|request| Member { request, end: Time::NEVER }));
        let software = batcher.software.clone();
        let several = batcher.together.complete_min > 1;
        let newest = batcher.members.iter().map(|member| shared.requests[member.request].visible).max();
        // A thread that was looking for them takes a moment to see them; one that comes to them later finds them there.
        let poll = if newest == Some(now) { self.poll } else { Span::ZERO };
        let begin = self.begin(now + poll, thread);
        self.piece_from = begin;
        let batcher = self.threads[usize::from(thread)].batcher.as_mut().expect("the thread has an engine");
        let latest = batcher.members.iter().map(|member| shared.requests[member.request].ledger.cursor()).max();
        let begin = begin.max(latest.unwrap_or(begin));
        (batcher.way, batcher.place, batcher.from, batcher.cursor) = (Way::Up, 0, begin, begin);
        let acknowledge = match software.polls() && batcher.poller.is_none() {
            true => self.acknowledge(begin, core, self.drives_of(thread, shared), driver),
            false => Span::ZERO,
        };
        let batcher = self.threads[usize::from(thread)].batcher();
        batcher.plan_up(&software, acknowledge, shared);
        batcher.has_waited = false;
        let members = batcher.members.len();
        let until = if several { Stage::Batch } else { Stage::CoreWait };
        for place in 0..members {
            let request = self.threads[usize::from(thread)].batcher().members[place].request;
            let pace = self.draw_pace(begin, core);
            let ledger = &mut shared.requests[request].ledger;
            ledger.until(until, now.max(ledger.cursor()));
            ledger.until(Stage::Poll, (now + poll).max(ledger.cursor()));
            ledger.until(Stage::CoreWait, begin);
            ledger.set_pace(pace);
        }
        self.take_legs(now, thread, driver, shared);
    }

    /// Go on with a piece of work that has stopped for a lock.
    pub(super) fn on_legs(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        let free_at = self.cores[this.core].free_at;
        let batcher = this.batcher();
        if free_at > now {
            // An interrupt handler has come in between.
            for member in &batcher.members {
                let ledger = &mut shared.requests[member.request].ledger;
                ledger.until(Stage::CoreWait, free_at.max(ledger.cursor()));
            }
            (batcher.cursor, batcher.from) = (free_at, free_at);
            return shared.scheduler.at(free_at, Event::Path(thread));
        }
        batcher.from = now;
        self.take_legs(now, thread, driver, shared);
    }

    /// Take leg after leg, up to a lock or to the end.
    fn take_legs(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        this.napped = false;
        let core = this.core;
        loop {
            let batcher = self.threads[usize::from(thread)].batcher();
            let Some(&leg) = batcher.legs.get(batcher.place) else {
                return self.finish_legs(thread, driver, shared);
            };
            let Leg::Locked { member, stage, lock, hold } = leg else {
                batcher.place += 1;
                batcher.take(leg, shared);
                continue;
            };
            if batcher.cursor > now {
                let (from, to) = (batcher.from, batcher.cursor);
                self.threads[usize::from(thread)].work = Work::Legs;
                self.occupy(core, from, to);
                return shared.scheduler.at(to, Event::Path(thread));
            }
            batcher.place += 1;
            let request = batcher.members[member].request;
            let Some(start) = self.contention.spin_locks[lock].take(now, core, hold, &self.distances) else {
                return self.spin(now, lock, Spinner { thread, core, hold, lines: 0, stage }, Work::Legs, shared);
            };
            self.cores[core].mask(start + hold);
            self.hold_lock(thread, request, stage, start + hold, shared);
        }
    }

    /// A member of a batch has a lock until `until`.
    fn hold_lock(&mut self, thread: u16, request: RequestId, stage: Stage, until: Time, shared: &mut Shared) {
        let batcher = self.threads[usize::from(thread)].batcher();
        let ledger = &mut shared.requests[request].ledger;
        ledger.until(Stage::Batch, batcher.cursor.max(ledger.cursor()));
        ledger.until(stage, until);
        batcher.cursor = until;
    }

    /// A thread that has spun with its batch has the lock until `until`.
    pub(super) fn pass_lock(&mut self, thread: u16, stage: Stage, until: Time, shared: &mut Shared) {
        let batcher = self.threads[usize::from(thread)].batcher();
        let Leg::Locked { member, .. } = batcher.legs[batcher.place - 1] else { unreachable!("it spins for a lock") };
        let request = batcher.members[member].request;
        self.hold_lock(thread, request, stage, until, shared);
    }

    /// All legs are planned: down to the driver, or up to the application.
    fn finish_legs(&mut self, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let drives = self.drives_of(thread, shared);
        let this = &mut self.threads[usize::from(thread)];
        let core = this.core;
        let batcher = this.batcher.as_mut().expect("the thread has an engine");
        if let (Way::Down, Some(last)) = (batcher.way, batcher.members.last()) {
            let request = &mut shared.requests[last.request];
            request.ledger.until(Stage::Batch, batcher.cursor);
            if batcher.poller.is_none() {
                ring(&mut self.posted, core, drives, driver, request, &shared.memory);
            }
            batcher.cursor = request.ledger.cursor();
            for member in &mut batcher.members {
                member.end = batcher.cursor;
                let ledger = &mut shared.requests[member.request].ledger;
                ledger.until(Stage::Batch, batcher.cursor);
                if batcher.poller.is_none() {
                    ledger.set_pace(0);
                }
            }
        }
        let (from, end) = (batcher.from, batcher.cursor);
        (this.work, this.work_end) = (Work::Together, end);
        self.occupy(core, from, end);
        shared.scheduler.at(end, Event::WorkDone(thread));
    }

    /// How many drives the requests of a thread's batch are for, each of which has to be told.
    pub(super) fn drives_of(&self, thread: u16, shared: &Shared) -> u32 {
        let Some(batcher) = self.threads[usize::from(thread)].batcher.as_ref().filter(|_| self.drives > 1) else {
            return 1;
        };
        let drives = batcher.members.iter().map(|member| shared.requests[member.request].drive);
        drives.fold(0_u64, |told, drive| told | 1 << drive).count_ones()
    }

    /// Processor time of telling so many drives how far their completions have been read, from `now` on.
    pub(super) fn acknowledge(&mut self, now: Time, core: usize, drives: u32, driver: &AnyDriver) -> Span {
        let each = driver.acknowledge_work();
        let Some(posted) = self.posted.as_mut().filter(|_| !each.is_zero()) else { return each * u64::from(drives) };
        let tell = |at: Time, _| at + each + posted.write(at + each, core);
        (0..drives).fold(now, tell).since(now)
    }

    /// A piece of work on a batch is over: whether its requests go down.
    #[inline(never)]
    pub(super) fn end_together(&mut self, now: Time, thread: u16, shared: &mut Shared) -> Way {
        let this = &mut self.threads[usize::from(thread)];
        let batcher = this.batcher.as_mut().expect("the thread has an engine");
        match batcher.way {
            Way::Down => {
                for member in &batcher.members {
                    shared.requests[member.request].submitted = now;
                }
            }
            Way::Up => this.outstanding -= batcher.members.len() as u32,
        }
        batcher.way
    }

    /// The requests of the batch that has just been worked for; to be given [back](Self::give_members).
    pub fn take_members(&mut self, thread: u16) -> Vec<Member> {
        std::mem::take(&mut self.threads[usize::from(thread)].batcher().members)
    }

    /// Give the list back, so that the next batch finds its room.
    pub fn give_members(&mut self, thread: u16, members: Vec<Member>) {
        self.threads[usize::from(thread)].batcher().members = members;
    }

    /// Nothing to do: make the call that waits for completions, once, and wait.
    fn call_and_wait(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        let (core, outstanding) = (this.core, this.outstanding);
        let batcher = this.batcher();
        let wait = batcher.software.wait();
        if outstanding > 0 && !std::mem::replace(&mut batcher.has_waited, true) && !wait.is_zero() {
            let core = &mut self.cores[core];
            core.free_at = core.free_at.max(now) + wait;
            self.used.working += wait;
        }
        self.wait(now, thread, shared);
    }

    /// A completion for a thread with an engine: it goes on if it has as many as it wants.
    #[inline(never)]
    pub(super) fn on_completed_together(
        &mut self,
        now: Time,
        thread: u16,
        request: RequestId,
        driver: &AnyDriver,
        shared: &mut Shared,
    ) {
        let this = &mut self.threads[usize::from(thread)];
        let outstanding = this.outstanding;
        if this.done.len() < this.batcher().wanted(outstanding) {
            return;
        }
        match (self.handler_core, this.state) {
            (Some(_), State::Away) if !self.wake.is_zero() && (this.queued || this.woken) => {}
            (Some(core), State::Away) if !self.wake.is_zero() => {
                this.woken = true;
                let woken = self.run_handler(now, core, self.wake, shared);
                shared.requests.charge(Some(request), Stage::Interrupt, woken);
                shared.scheduler.at(woken, Event::Thread(thread));
            }
            _ => self.rouse(now, thread, driver, shared),
        }
    }
}
