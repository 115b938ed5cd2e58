//! The life of a request, once for all front-ends.
//!
//! ```text
//!  fetch ── match faults ──┬── timing off: ─────────────────── move bytes ──┬── complete ── count
//!                │         │                                                └── commit ──┘
//!             delayed      └── timing on: submit to the model ── result ─── move bytes, when Delivery says
//! ```
//!
//! A front-end says by [`Request`] what a request is to memory, fault rules, traces and counts, and by [`Endpoint`] how one is
//! fetched from a queue, how its bytes move and how its completion is written. Everything between is here.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use phaselink_core::engine::Completed;
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use super::model::{Model, ModelledOperations, Submission};
use crate::clock::{Clock, Wait, span};
use crate::device::Device;
use crate::device::counter::Counter;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::flusher::Flusher;
use crate::device::pace::{BATCH, SLEEP_MAX};
use crate::device::record::Record;
use crate::device::store::{Store, copy};

/// Requests that are fetched before the first of them is executed, so that the cache misses of their data overlap: their
/// lines together are about what a processor can wait for at a time.
const AHEAD: usize = 8;

/// Request of a front-end that has been fetched and checked, with the queue that it came from.
pub trait Request: fmt::Debug + Send {
    /// Status that its completion carries.
    type Status: fmt::Debug + Copy + Send;

    /// Returns operation, place and size, unless the request was refused. Fault rules are about those that move data or zeros.
    fn io(&self) -> Option<Io>;

    /// Returns how the request is counted; nothing for one that was refused before it meant anything, or only asks.
    fn class(&self) -> Option<RequestClass>;

    /// Returns the number of its queue or client, which fault rules compare with `thread`.
    fn thread(&self) -> u64;

    /// Adds the request to the trace of all requests.
    fn note(&self, record: &Record);

    /// Returns a part of the request as it enters the model, counted from 0; nothing if it has no such part. A part enters
    /// when the one before it has completed: a write that is to be durable is a write and a flush. Requests have several
    /// parts only where completions are written [at their instant](Delivery::AtInstant).
    fn submission(&self, part: usize) -> Option<Submission<'_>>;

    /// Returns the instant of the clock at which the host has submitted it. It was fetched in `round`.
    fn submitted(&self, clock: &Clock, _round: Round) -> Time {
        clock.now()
    }

    /// Returns the range (offset, length) that is to be durable, if the request asks for less than a flush of everything.
    fn durable_range(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Class of a request in the counts of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestClass {
    /// Operation.
    pub op: Op,
    /// Number of bytes that are moved, discarded or filled with zeros; 0 for a flush.
    pub bytes: u64,
}

impl From<Io> for RequestClass {
    fn from(Io { op, bytes, .. }: Io) -> RequestClass {
        RequestClass { op, bytes: bytes.into() }
    }
}

/// Two instants of the clock: when a thread polled its queues last, and when it began to poll them now.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Beginning of the round before.
    pub before: Time,
    /// Beginning of this round.
    pub now: Time,
}

/// Result of a look at a queue.
#[derive(Debug)]
pub enum Fetch<R> {
    /// The queue is empty, or its completions have no room.
    Nothing,
    /// The entry was invalid, and has been completed with an error.
    Refused,
    /// A request whose data this thread can reach.
    Request(R),
    /// A request that only the owner of the client's connection can serve.
    OutOfReach(R),
}

/// Result of an attempt to complete a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The completion has been written; true if it reports success.
    Written(bool),
    /// Nothing has been written, as the request must be durable first: see [`Endpoint::commit`].
    AfterFlush,
}

/// Queues of one client, and the client's memory: where requests come from, and where data and completions go.
pub trait Endpoint<R: Request> {
    /// True if a batch of requests is completed after the bytes of all have moved, so that completion entries that share a
    /// cache line go to the host together.
    const COMPLETES_TOGETHER: bool = false;

    /// Takes the next request of a queue, and begins to load what it needs into the cache.
    fn fetch(&mut self, queue: u32, store: &Store) -> Fetch<R>;

    /// Copies what a request refers to and what the next request will overwrite: it is not executed at once.
    fn detach(&mut self, _request: &mut R) {}

    /// Moves the bytes of a request, as far as the effect of a fault lets it. Returns the status that it will be completed with;
    /// nothing if the bytes are out of this thread's reach.
    fn transfer(&mut self, request: &R, effect: FaultEffect, device: &Device, space: &mut Vec<u8>)
    -> Option<R::Status>;

    /// Writes the completion of a request, unless it must be durable first. `latency` is the modelled one.
    fn complete(&mut self, request: &R, status: R::Status, latency: Span, device: &Device) -> Completion;

    /// Writes the completion a first time, for a fault that repeats it.
    fn repeat(&mut self, _request: &R, _status: R::Status, _device: &Device) {}

    /// Writes the completion of a request for which the store has been flushed; returns true if it reports success. `latency` is
    /// the modelled one.
    fn commit(&mut self, request: &R, flushed: io::Result<()>, latency: Span) -> bool;

    /// Forgets a request that is never completed.
    fn abandon(&mut self, request: &R);

    /// Hands a request over to the thread that owns the client's connection.
    fn hand_over(&self, _request: RequestInFlight<R>) {
        unreachable!("every request of this front-end is within reach")
    }
}

/// Clients of a thread, among whom the endpoint of a request is found.
pub trait Resume<R: Request> {
    /// Finds the endpoint of a request and lets the request [advance](Lifecycle::advance) there, unless its client has gone.
    fn resume(&mut self, life: &mut Lifecycle<'_, R>, request: RequestInFlight<R>);

    /// Returns true if clients may submit requests.
    fn has_clients(&self) -> bool;
}

/// Order of a request's steps in relation to the instant at which the model lets it complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The client waits by itself: bytes move when the request is fetched, and the completion, with the modelled latency in it,
    /// is written as soon as that is known.
    ByClient,
    /// Bytes move as soon as the instant is known; the completion is written at the instant.
    BytesAhead,
    /// Bytes move and the completion is written at the instant.
    AtInstant,
}

/// Request between fetch and completion, without what the model knows of it.
#[derive(Debug)]
struct FetchedRequest<R: Request> {
    request: R,
    effect: FaultEffect,
    /// Instant of the fetch, if the latency is measured.
    started: Option<Instant>,
    /// Status of the completion, once the bytes have moved.
    status: Option<R::Status>,
}

/// Request that waits for the model, a fault, the disk or another thread.
#[derive(Debug)]
pub struct RequestInFlight<R: Request> {
    fetched: FetchedRequest<R>,
    next: Step,
    /// Part of the request that is in the model, or enters it next.
    part: usize,
    /// Instant of the clock at which its first part entered the model.
    submitted: Time,
    /// Instant of the clock at which it is to complete, or at which its last part has; zero if it takes no modelled time.
    due: Time,
    /// Time for which a fault has delayed it before it entered the model.
    delayed: Span,
    /// Time from the client's stamp to the fetch: its completion takes about as long.
    way: Span,
}

/// Next step in the life of a request.
#[derive(Debug)]
enum Step {
    /// Comparison with the fault rules.
    MatchFaults,
    /// Execution, or submission to the model.
    Begin,
    /// Transfer of its bytes.
    Transfer,
    /// Completion.
    Complete,
    /// Completion, since the store has been flushed with this result.
    Commit(io::Result<()>),
}

impl<R: Request> RequestInFlight<R> {
    fn new(fetched: FetchedRequest<R>, next: Step) -> RequestInFlight<R> {
        let (submitted, due) = (Time::ZERO, Time::ZERO);
        RequestInFlight { fetched, next, part: 0, submitted, due, delayed: Span::ZERO, way: Span::ZERO }
    }

    /// Puts the completion off by as much as a fault makes the request take longer.
    #[cold]
    fn slow_down(&mut self) {
        let factor = f64::from(self.fetched.effect.slowed_thousandths) / 1000.0;
        self.due = self.submitted + self.due.since(self.submitted).scale(factor);
    }

    /// Returns the request.
    pub fn request(&self) -> &R {
        &self.fetched.request
    }

    /// Returns the request, to change where it is found or how it is read.
    pub fn request_mut(&mut self) -> &mut R {
        &mut self.fetched.request
    }
}

/// Requests of one device thread in all stages of their lives.
#[derive(Debug)]
pub struct Lifecycle<'a, R: Request> {
    /// The served device.
    pub device: &'a Device,
    /// Counts of the thread.
    pub counter: Counter<'a>,
    /// Model of the thread.
    pub model: Model<'a>,
    operations: ModelledOperations,
    delivery: Delivery,
    /// Time by which completions are written before they are due: what a word takes to the client and back.
    completion_lead: Span,
    round: Round,
    /// Requests of the queue that is being polled; empty between queues.
    batch: Vec<FetchedRequest<R>>,
    /// Requests in the model, by their tokens.
    in_model: Table<Option<RequestInFlight<R>>>,
    /// Requests with a known instant, in its order.
    due: VecDeque<RequestInFlight<R>>,
    delayed: DelayQueue<RequestInFlight<R>>,
    flusher: Flusher<RequestInFlight<R>>,
    /// Room for the largest transfer.
    space: Vec<u8>,
}

impl<'a, R: Request> Lifecycle<'a, R> {
    /// Makes the state of a thread without requests.
    pub fn new(
        device: &'a Device,
        model: Model<'a>,
        flusher: Flusher<RequestInFlight<R>>,
        delivery: Delivery,
    ) -> Lifecycle<'a, R> {
        let now = model.clock().map_or(Time::ZERO, Clock::now);
        Lifecycle {
            device,
            counter: Counter::open(device),
            model,
            operations: ModelledOperations::of(&device.drive),
            delivery,
            completion_lead: Span::ZERO,
            round: Round { before: now, now },
            batch: Vec::with_capacity(BATCH as usize),
            in_model: Table::default(),
            due: VecDeque::new(),
            delayed: DelayQueue::default(),
            flusher,
            space: Vec::new(),
        }
    }

    /// Lets the latency of every request be measured.
    pub fn measuring_all(mut self) -> Lifecycle<'a, R> {
        self.counter = Counter::measuring_all(self.device);
        self
    }

    /// Gives the thread a buffer for transfers of so many bytes.
    pub fn with_space(mut self, bytes: usize) -> Lifecycle<'a, R> {
        self.space.resize(bytes, 0);
        self
    }

    /// Lets completions be written so much earlier than they are due.
    pub fn with_completion_lead(mut self, lead: Span) -> Lifecycle<'a, R> {
        self.completion_lead = lead;
        self
    }

    /// Begins a round over the queues.
    #[inline]
    pub fn begin_round(&mut self) {
        if let Some(clock) = self.model.clock() {
            self.round = Round { before: self.round.now, now: clock.now() };
        }
    }

    /// Notes that the thread has slept: what has woken it was submitted just now.
    pub fn end_sleep(&mut self) {
        if let Some(clock) = self.model.clock() {
            self.round.now = clock.now();
        }
    }

    /// Fetches up to [`BATCH`] requests of a queue and begins them; returns true if there was any.
    #[inline]
    pub fn serve_queue<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32) -> bool {
        self.serve_some(endpoint, queue, BATCH) > 0
    }

    /// Fetches up to `most` requests of a queue, and no more than [`BATCH`], and begins them; returns their number.
    #[inline]
    pub fn serve_some<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32, most: u32) -> u32 {
        let most = most.min(BATCH);
        let mut left = most;
        loop {
            self.fetch_batch(endpoint, queue, &mut left);
            if self.batch.is_empty() {
                return most - left;
            }
            self.begin_batch(endpoint);
        }
    }

    #[inline]
    fn fetch_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32, left: &mut u32) {
        let ahead = if self.model.is_none() { AHEAD } else { BATCH as usize };
        while self.batch.len() < ahead && *left > 0 {
            match endpoint.fetch(queue, &self.device.store) {
                Fetch::Nothing => return,
                Fetch::Refused => self.counter.counts().errors += 1,
                Fetch::Request(request) => self.admit(endpoint, request),
                Fetch::OutOfReach(request) => {
                    self.note(&request);
                    let fetched =
                        FetchedRequest { request, effect: FaultEffect::default(), started: None, status: None };
                    endpoint.hand_over(RequestInFlight::new(fetched, Step::MatchFaults));
                }
            }
            *left -= 1;
        }
    }

    /// Begins a request that a front-end has fetched by itself.
    #[inline]
    pub fn begin<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        self.admit(endpoint, request);
        self.begin_batch(endpoint);
    }

    #[inline]
    fn admit<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        self.note(&request);
        self.match_faults(endpoint, request);
    }

    #[inline]
    fn note(&self, request: &R) {
        if let Some(record) = &self.device.record {
            request.note(record);
        }
    }

    #[inline]
    fn match_faults<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        let started = if self.model.is_none() { self.counter.fetched() } else { None };
        let outcome = self.device.faults.match_request(request.thread(), || request.io());
        let fetched = FetchedRequest { request, effect: FaultEffect::default(), started, status: None };
        match outcome {
            None => self.batch.push(fetched),
            Some(outcome) => self.apply(endpoint, fetched, outcome),
        }
    }

    /// Applies the outcome of a fault to a request that has just been fetched.
    #[cold]
    fn apply<E: Endpoint<R>>(&mut self, endpoint: &mut E, mut fetched: FetchedRequest<R>, outcome: FaultOutcome) {
        endpoint.detach(&mut fetched.request);
        match outcome {
            FaultOutcome::Hangs => endpoint.abandon(&fetched.request),
            FaultOutcome::Executed(effect) => self.batch.push(FetchedRequest { effect, ..fetched }),
            FaultOutcome::Delayed(time) => {
                fetched.started = self.model.is_none().then(Instant::now);
                let (submitted, delayed) = (self.round.now, span(time));
                let request = RequestInFlight { submitted, delayed, ..RequestInFlight::new(fetched, Step::Begin) };
                self.delayed.push(time, request);
            }
        }
    }

    #[inline]
    fn begin_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E) {
        let mut batch = mem::take(&mut self.batch);
        if !self.model.is_none() {
            self.submit_batch(endpoint, &mut batch);
        } else if E::COMPLETES_TOGETHER {
            batch.iter_mut().for_each(|fetched| self.transfer(endpoint, fetched));
            batch.drain(..).for_each(|fetched| self.complete(endpoint, fetched));
        } else {
            for mut fetched in batch.drain(..) {
                self.transfer(endpoint, &mut fetched);
                self.complete(endpoint, fetched);
            }
        }
        self.batch = batch;
    }

    #[inline(always)]
    fn transfer<E: Endpoint<R>>(&mut self, endpoint: &mut E, fetched: &mut FetchedRequest<R>) {
        let FetchedRequest { request, effect, status, .. } = fetched;
        *status = endpoint.transfer(request, *effect, self.device, &mut self.space);
    }

    /// Completes a request that is executed without a model.
    #[inline]
    fn complete<E: Endpoint<R>>(&mut self, endpoint: &mut E, fetched: FetchedRequest<R>) {
        let Some(status) = fetched.status else {
            return endpoint.hand_over(RequestInFlight::new(fetched, Step::Transfer));
        };
        copy::finish();
        if fetched.effect != FaultEffect::default() && !self.is_completed(endpoint, &fetched, status) {
            return;
        }
        match endpoint.complete(&fetched.request, status, Span::ZERO, self.device) {
            Completion::Written(is_fine) => {
                self.count(&fetched.request, is_fine, fetched.started.map(|started| span(started.elapsed())));
            }
            Completion::AfterFlush => self.commit_later(RequestInFlight::new(fetched, Step::Complete)),
        }
    }

    /// Applies to a completion what a fault does to it; returns false if there is to be none.
    #[cold]
    fn is_completed<E: Endpoint<R>>(&self, endpoint: &mut E, fetched: &FetchedRequest<R>, status: R::Status) -> bool {
        if fetched.effect.drops_completion {
            endpoint.abandon(&fetched.request);
            return false;
        }
        if fetched.effect.repeats_completion {
            endpoint.repeat(&fetched.request, status, self.device);
        }
        true
    }

    #[cold]
    fn commit_later(&mut self, request: RequestInFlight<R>) {
        let range = request.request().durable_range();
        self.flusher.submit(request, range);
    }

    /// Counts a request that has been completed. Of requests without a model, not all latencies are measured.
    #[inline]
    fn count(&mut self, request: &R, is_fine: bool, latency: Option<Span>) {
        let counts = self.counter.counts();
        counts.errors += u64::from(!is_fine);
        match (request.class(), latency) {
            (None, _) => {}
            (Some(RequestClass { op, bytes }), Some(latency)) => counts.direction(op).count(bytes, latency),
            (Some(RequestClass { op, bytes }), None) => counts.direction(op).count_unmeasured(bytes),
        }
    }
}

/// Requests that the model decides upon.
impl<R: Request> Lifecycle<'_, R> {
    #[inline(never)]
    fn submit_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E, batch: &mut Vec<FetchedRequest<R>>) {
        let mut left = batch.len();
        for fetched in batch.drain(..) {
            left -= 1;
            self.submit(endpoint, RequestInFlight::new(fetched, Step::Transfer), left > 0);
        }
    }

    /// Submits the next part of a request to the model. A request that takes no modelled time is executed now.
    fn submit<E: Endpoint<R>>(&mut self, endpoint: &mut E, mut request: RequestInFlight<R>, has_more: bool) {
        let (Some(clock), true) = (self.model.clock(), self.has_part(&mut request)) else {
            self.transfer(endpoint, &mut request.fetched);
            return self.complete(endpoint, request.fetched);
        };
        endpoint.detach(request.request_mut());
        // The delay of a fault counts with the first part.
        let is_first = request.due == Time::ZERO;
        let submitted = self.submission_time(&mut request, clock);
        let delayed = if is_first { request.delayed } else { Span::ZERO };
        let early = self.delivery != Delivery::AtInstant;
        let token = self.in_model.insert(Some(request));
        let place = &mut self.in_model[token as usize];
        let Some(RequestInFlight { fetched, part, .. }) = place else { return };
        let submission = fetched.request.submission(*part).and_then(|part| self.operations.modelled(part));
        let Some(submission) = submission else { return };
        self.model.submit(submitted, submission, token, (early, has_more), delayed);
        if self.delivery == Delivery::ByClient {
            // Nothing is copied here that has just been written: the copy would wait for the client's cache lines.
            fetched.status = endpoint.transfer(&fetched.request, fetched.effect, self.device, &mut self.space);
        }
    }

    /// Moves a request on to its next part that takes modelled time; returns false if there is none.
    #[inline]
    fn has_part(&self, request: &mut RequestInFlight<R>) -> bool {
        while let Some(submission) = request.request().submission(request.part) {
            if self.operations.modelled(submission).is_some() {
                return true;
            }
            request.part += 1;
        }
        false
    }

    /// Returns the instant at which a part of a request enters the model: a later part when the part before it has completed.
    #[inline]
    fn submission_time(&self, request: &mut RequestInFlight<R>, clock: &Clock) -> Time {
        let round = self.round;
        if request.due > Time::ZERO {
            return request.due;
        }
        if request.delayed.is_zero() {
            request.submitted = request.request().submitted(clock, round);
            request.way = round.now.since(request.submitted);
        } else {
            request.delayed = round.now.since(request.submitted);
            request.submitted = round.now;
        }
        request.submitted
    }

    /// Lets every request go on for which a delay, the disk or the model has decided; returns true if there was any.
    #[inline]
    pub fn poll<F: Resume<R>>(&mut self, front: &mut F) -> bool {
        let mut any = false;
        while let Some(request) = self.delayed.take_due() {
            front.resume(self, request);
            any = true;
        }
        while let Some((request, flushed)) = self.flusher.take_flushed() {
            front.resume(self, RequestInFlight { next: Step::Commit(flushed), ..request });
            any = true;
        }
        if self.model.is_none() { any } else { self.poll_model(front) | any }
    }

    #[inline(never)]
    fn poll_model<F: Resume<R>>(&mut self, front: &mut F) -> bool {
        let Some(clock) = self.model.clock() else { return false };
        let Round { before, now } = self.round;
        let earliest = if self.delivery == Delivery::BytesAhead { before } else { now };
        let mut any = self.model.poll(now, earliest, front.has_clients());
        while let Some(Completed { token, at, .. }) = self.model.take_known() {
            let request = self.in_model[token as usize].take().expect("a request completes once");
            self.in_model.vacate(token);
            self.on_result(front, RequestInFlight { due: at, part: request.part + 1, ..request });
            any = true;
        }
        while self.due.front().is_some_and(|first| first.due <= clock.now() + self.completion_lead) {
            let Some(request) = self.due.pop_front() else { break };
            front.resume(self, request);
            any = true;
        }
        any
    }

    /// Continues a request whose latest part completes at its instant `due`.
    fn on_result<F: Resume<R>>(&mut self, front: &mut F, mut request: RequestInFlight<R>) {
        let has_part = self.delivery == Delivery::AtInstant && self.has_part(&mut request);
        if !has_part && request.fetched.effect.slowed_thousandths > 0 {
            request.slow_down();
        }
        match self.delivery {
            Delivery::ByClient => front.resume(self, RequestInFlight { next: Step::Complete, ..request }),
            Delivery::BytesAhead => front.resume(self, RequestInFlight { next: Step::Transfer, ..request }),
            Delivery::AtInstant => {
                let next = if has_part { Step::Begin } else { Step::Transfer };
                self.keep_due(RequestInFlight { next, ..request });
            }
        }
    }

    fn keep_due(&mut self, request: RequestInFlight<R>) {
        let place = self.due.iter().rposition(|other| other.due <= request.due).map_or(0, |before| before + 1);
        self.due.insert(place, request);
    }

    /// Takes the next step of a request whose endpoint has been found.
    pub fn advance<E: Endpoint<R>>(&mut self, endpoint: &mut E, mut request: RequestInFlight<R>) {
        match mem::replace(&mut request.next, Step::Transfer) {
            Step::MatchFaults => {
                self.match_faults(endpoint, request.fetched.request);
                self.begin_batch(endpoint);
            }
            Step::Begin if self.model.is_none() => {
                self.transfer(endpoint, &mut request.fetched);
                self.complete(endpoint, request.fetched);
            }
            Step::Begin => self.submit(endpoint, request, false),
            Step::Transfer => {
                self.transfer(endpoint, &mut request.fetched);
                match request.fetched.status {
                    _ if self.model.is_none() => self.complete(endpoint, request.fetched),
                    None => endpoint.hand_over(request),
                    Some(_) if self.delivery == Delivery::BytesAhead => {
                        self.keep_due(RequestInFlight { next: Step::Complete, ..request });
                    }
                    Some(status) => self.complete_modelled(endpoint, request, status),
                }
            }
            Step::Complete => match request.fetched.status {
                Some(status) => self.complete_modelled(endpoint, request, status),
                None => endpoint.hand_over(request),
            },
            Step::Commit(flushed) => {
                let latency = self.latency(&request);
                let is_fine = endpoint.commit(request.request(), flushed, latency.unwrap_or(Span::ZERO));
                self.count(request.request(), is_fine, latency);
            }
        }
    }

    /// Returns true if the completion of a request from another thread is not due yet; it is kept until then.
    pub fn keep_until_due(&mut self, request: RequestInFlight<R>) -> Option<RequestInFlight<R>> {
        let now = self.model.clock().map_or(Time::ZERO, Clock::now) + self.completion_lead;
        if matches!(request.next, Step::Complete) && request.due > now {
            self.keep_due(request);
            return None;
        }
        Some(request)
    }

    /// Returns the latency that is counted: the modelled one with the delay of a fault, or the measured one; nothing if it is
    /// neither modelled nor measured.
    fn latency(&self, request: &RequestInFlight<R>) -> Option<Span> {
        match self.model.is_none() {
            true => request.fetched.started.map(|started| span(started.elapsed())),
            false if request.due == Time::ZERO => None,
            false => Some(request.delayed + request.due.since(request.submitted)),
        }
    }

    fn complete_modelled<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: RequestInFlight<R>, status: R::Status) {
        let RequestInFlight { ref fetched, due, way, .. } = request;
        copy::finish();
        if fetched.effect != FaultEffect::default() && !self.is_completed(endpoint, fetched, status) {
            return;
        }
        let latency = self.latency(&request).unwrap_or(Span::ZERO);
        let completion = endpoint.complete(&fetched.request, status, latency, self.device);
        let mut written = self.model.clock().map_or(due, Clock::now);
        if self.delivery == Delivery::ByClient {
            // The completion takes what the request has taken, unless that was out of the ordinary.
            written += way.min(WAY_MAX);
        }
        self.counter.counts().lag.record(written.since(due));
        match completion {
            Completion::Written(is_fine) => self.count(request.request(), is_fine, Some(latency)),
            Completion::AfterFlush => self.commit_later(request),
        }
    }

    /// Returns how long the thread may sleep, unless something arrives.
    pub fn rest_for(&self, wait: Wait, has_clients: bool) -> Duration {
        let until_due = self.due.front().zip(self.model.clock()).map(|(first, clock)| match wait {
            Wait::Block => Duration::from_nanos(first.due.since(clock.now()).as_ps() / 1000).max(SHORTEST_SLEEP),
            Wait::Adaptive | Wait::Spin => Duration::ZERO,
        });
        let model = if has_clients || !self.model.is_idle() { self.model.rest_for(wait) } else { SLEEP_MAX };
        let time = until_due.map_or(model, |until_due| until_due.min(model)).min(SLEEP_MAX);
        self.delayed.limit(time)
    }

    /// Returns true if requests wait for a fault's delay or for the disk.
    pub fn is_waiting(&self) -> bool {
        !self.delayed.is_empty() || !self.flusher.is_idle()
    }
}

/// Longest time that a request is taken to have needed from its client's stamp to its fetch.
const WAY_MAX: Span = Span::from_us(5);
/// Shortest sleep that is worth a system call.
const SHORTEST_SLEEP: Duration = Duration::from_micros(1);
