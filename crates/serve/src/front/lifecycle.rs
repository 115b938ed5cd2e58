//! Steps of a request from its fetch to its completion, shared by all front-ends.
//!
//! ```text
//!  fetch ── match faults ──┬── timing off: ─────────────────── move bytes ──┬── complete ── count
//!                │         │                                                └── commit ──┘
//!             delayed      └── timing on: submit to the model ── result ─── move bytes, when Delivery says
//! ```
//!
//! A front-end implements [`Request`], which describes a request to fault rules, traces, counters and the model, and
//! [`Endpoint`], which fetches requests, moves their bytes and writes their completions. Everything in between is here.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use phaselink_core::config::Fault;
use phaselink_core::engine::Completed;
use phaselink_core::number::index;
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use super::model::{Model, OptionalModelledOperations, Submission};
use crate::clock::{Clock, Wait, span};
use crate::device::Device;
use crate::device::counter::Counter;
use crate::device::faults::{ConnectionFault, DelayQueue, FaultEffect, FaultOutcome};
use crate::device::flusher::Flusher;
use crate::device::pace::{BATCH, SLEEP_MAX};
use crate::device::record::Record;
use crate::device::store::{Store, copy};

/// Number of requests that are fetched before the first of them is executed (timing off), so that the cache misses of
/// their data overlap: they cause about as many misses as a processor can have outstanding.
const AHEAD: usize = 8;

/// Request of a front-end that has been fetched and checked, with the queue that it came from.
pub trait Request: fmt::Debug + Send {
    /// Status that the completion of a request carries.
    type Status: fmt::Debug + Copy + Send;

    /// Returns operation, offset and length of the request; none if it was refused. Fault rules apply only to requests
    /// that move data or zeros.
    fn io(&self) -> Option<Io>;

    /// Returns the operation and the number of bytes under which the request is counted; none if it was refused, or
    /// only asks for information.
    fn class(&self) -> Option<RequestClass>;

    /// Returns the number of the queue or client that submitted the request, which fault rules compare with `thread`.
    fn thread(&self) -> u64;

    /// Adds the request to the trace of all requests.
    fn note(&self, record: &Record);

    /// Returns a part of the request, counted from 0, as it enters the model; none if the request has no such part. A
    /// part enters when the part before it has completed: a durable write is a write and a flush. Requests have several
    /// parts only where completions are written [at their instant](Delivery::AtInstant).
    fn submission(&self, part: usize) -> Option<Submission>;

    /// Returns the instant of the clock at which the host submitted the request, which was fetched in the polling round
    /// `round`.
    fn submitted(&self, clock: &Clock, _round: PollingRoundTimes) -> Time {
        clock.now()
    }

    /// Returns the range (offset, length in bytes) that must be durable before the request completes; none if all data
    /// must be.
    fn durable_range(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Operation and number of bytes under which a server counts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestClass {
    /// Operation under which the request is counted.
    pub op: Op,
    /// Number of bytes that the request moves, discards or fills with zeros; 0 for a flush.
    pub bytes: u64,
}

impl From<Io> for RequestClass {
    fn from(Io { op, bytes, .. }: Io) -> RequestClass {
        RequestClass { op, bytes: bytes.into() }
    }
}

/// Instants of the clock at which a thread's previous and present polling rounds over its queues began.
#[derive(Clone, Copy, Debug)]
pub struct PollingRoundTimes {
    /// Instant at which the thread's previous polling round began.
    pub before: Time,
    /// Instant at which the thread's present polling round began.
    pub now: Time,
}

/// Result of an attempt to fetch a request from a queue.
#[derive(Debug)]
pub enum Fetch<R> {
    /// No request: the queue is empty, or there is no room for another completion.
    Nothing,
    /// The queue's next entry was invalid, and has been completed with an error.
    Refused,
    /// A request whose data the calling thread can reach.
    Request(R),
    /// A request whose data only the thread that owns the client's connection can reach.
    OutOfReach(R),
}

/// Result of an attempt to complete a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The completion has been written, or [`Endpoint::end_batch`] is going to write it; true if it reports success to
    /// the client.
    Written(bool),
    /// No completion has been written, as the request must be durable first: see [`Endpoint::commit`].
    AfterFlush,
}

/// Access to one client: its queues, from which requests are fetched, and its memory, to which data and completions go.
pub trait Endpoint<R: Request> {
    /// True if [`Endpoint::complete`] is called for the requests of a batch only after the bytes of all of them have
    /// moved, so that one fence orders the bytes of all before the completions.
    const COMPLETES_TOGETHER: bool = false;

    /// Prefetches the first bytes that the next requests of a queue read, up to `most` requests, without taking them.
    fn look_ahead(&mut self, _queue: u32, _most: u32, _store: &Store) {}

    /// Takes the next request of a queue, and prefetches the memory that its execution needs.
    fn fetch(&mut self, queue: u32, store: &Store) -> Fetch<R>;

    /// Copies data of a request that the next request would overwrite, because the request is executed later.
    fn detach(&mut self, _request: &mut R) {}

    /// Moves the bytes of a request between client and store, as far as the fault's `effect` allows. Returns the status
    /// for the completion; none if the bytes are out of this thread's reach. `space` is a buffer for the bytes.
    fn transfer(&mut self, request: &R, effect: FaultEffect, device: &Device, space: &mut Vec<u8>)
    -> Option<R::Status>;

    /// Writes the completion of a request, unless the request must be durable first. `latency` is its modelled latency.
    /// An endpoint may keep completions until [`Endpoint::end_batch`].
    fn complete(&mut self, request: &R, status: R::Status, latency: Span, device: &Device) -> Completion;

    /// Writes the completions of a batch of requests that [`Endpoint::complete`] has kept.
    fn end_batch(&mut self) {}

    /// Writes an additional completion of a request before the regular one, for a fault that repeats completions.
    fn repeat(&mut self, _request: &R, _status: R::Status, _device: &Device) {}

    /// Writes the completion of a request after the flush of the store that it needed, with the result `flushed`.
    /// Returns true if the completion reports success. `latency` is the modelled latency.
    fn commit(&mut self, request: &R, flushed: io::Result<()>, latency: Span) -> bool;

    /// Takes back a request that has been completed, so that the next one may use its memory.
    fn recycle(&mut self, _request: R) {}

    /// Releases what is kept for a request that a fault never lets complete.
    fn abandon(&mut self, request: &R);

    /// True if a fault can happen to a request here: faults of connections need a network, and wrong digests need
    /// digests.
    fn can_happen(&self, _request: &R, fault: &Fault) -> bool {
        !fault.action.is_network_connection_effect()
    }

    /// Applies a fault to the connection of a request. Returns true if the request is executed nevertheless.
    fn disturb(&mut self, _request: &R, _fault: ConnectionFault) -> bool {
        unreachable!("only front-ends with connections let such a fault happen")
    }

    /// Hands a request over to the thread that owns the client's connection.
    fn hand_over(&self, _request: RequestInFlight<R>) {
        unreachable!("every request of this front-end is within reach")
    }
}

/// Clients of one device thread, among which the endpoint of a waiting request is found.
pub trait Resume<R: Request> {
    /// Finds the endpoint of a waiting request and lets the request [advance](RequestLifecycle::advance) there. Drops it if
    /// its client has gone.
    fn resume(&mut self, life: &mut RequestLifecycle<'_, R>, request: RequestInFlight<R>);

    /// Returns true if the thread has clients that may submit requests.
    fn has_clients(&self) -> bool;
}

/// Order in which a request's bytes move and its completion is written, relative to the instant at which the model lets
/// it complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The client itself waits until the instant. Bytes move when the request is fetched. The completion, which carries
    /// the modelled latency, is written as soon as the latency is known.
    ByClient,
    /// Bytes move as soon as the model knows the instant of completion; the completion is written at that instant.
    BytesAhead,
    /// Bytes move, and the completion is written, at the modelled instant of completion.
    AtInstant,
}

/// Fetched request with its fault effect and its status, without its state in the model.
#[derive(Debug)]
struct FetchedRequest<R: Request> {
    request: R,
    effect: FaultEffect,
    /// Instant at which the request was fetched, if its latency is measured.
    started: Option<Instant>,
    /// Status for the completion, once the bytes of the request have moved.
    status: Option<R::Status>,
}

/// Request that waits for the model, a fault, the disk or another thread.
#[derive(Debug)]
pub struct RequestInFlight<R: Request> {
    fetched: FetchedRequest<R>,
    next: Step,
    /// Number of the request's part that is in the model, or that enters the model next.
    part: usize,
    /// Instant of the clock at which the request's first part entered the model.
    submitted: Time,
    /// Instant of the clock at which the request's latest part completes; zero before that is known, or if the request
    /// takes no modelled time.
    due: Time,
    /// Time for which a fault delayed the request before it entered the model.
    delayed: Span,
    /// Time from the client's stamp in the request to its fetch. The completion is assumed to take as long to the
    /// client.
    submission_delay: Span,
}

/// Next step of a request that waits.
#[derive(Debug)]
enum Step {
    /// Next step: match the request with the fault rules.
    MatchFaults,
    /// Next step: execute the request (timing off), or submit it to the model (timing on).
    Begin,
    /// Next step: move the bytes of the request, then write its completion when it is due.
    Transfer,
    /// Next step: write the completion of the request.
    Complete,
    /// Next step: write the completion of a request for which the store has been flushed, with this result.
    Commit(io::Result<()>),
}

impl<R: Request> RequestInFlight<R> {
    fn new(fetched: FetchedRequest<R>, next: Step) -> RequestInFlight<R> {
        let (submitted, due) = (Time::ZERO, Time::ZERO);
        RequestInFlight { fetched, next, part: 0, submitted, due, delayed: Span::ZERO, submission_delay: Span::ZERO }
    }

    /// Multiplies the request's modelled latency by the factor of its fault, which moves the instant of its completion.
    #[cold]
    fn apply_latency_factor(&mut self) {
        let factor = f64::from(self.fetched.effect.slowed_thousandths) / 1000.0;
        self.due = self.submitted + self.due.since(self.submitted).scale(factor);
    }

    /// Returns the request itself, in the front-end's own type.
    pub fn request(&self) -> &R {
        &self.fetched.request
    }

    /// Returns the request itself, in the front-end's own type, for changes such as another place of its queue.
    pub fn request_mut(&mut self) -> &mut R {
        &mut self.fetched.request
    }
}

/// All requests of one device thread, between their fetch and their completion.
#[derive(Debug)]
pub struct RequestLifecycle<'a, R: Request> {
    /// Device that the thread serves.
    pub device: &'a Device,
    /// Counters of the thread's requests.
    pub counter: Counter<'a>,
    /// Model that decides when the thread's requests complete; none with timing off.
    pub model: Model<'a>,
    operations: OptionalModelledOperations,
    delivery: Delivery,
    /// Time by which completions are written before their modelled instants: the round trip of a word between server
    /// and client.
    completion_lead: Span,
    round: PollingRoundTimes,
    /// Fetched requests of the queue that is being polled; empty between queues.
    batch: Vec<FetchedRequest<R>>,
    /// Requests in the model, by the tokens with which they were submitted.
    in_model: Table<Option<RequestInFlight<R>>>,
    /// Requests whose next step has a known instant, in the order of these instants.
    due: VecDeque<RequestInFlight<R>>,
    delayed: DelayQueue<RequestInFlight<R>>,
    /// Instant of the completion after which the thread had no request in flight; none while it has any.
    idle_since: Option<Time>,
    flusher: Flusher<RequestInFlight<R>>,
    /// Buffer for the bytes of one transfer, as long as the longest.
    space: Vec<u8>,
}

impl<'a, R: Request> RequestLifecycle<'a, R> {
    /// Makes the state of a device thread that has no requests yet.
    pub fn new(
        device: &'a Device,
        model: Model<'a>,
        flusher: Flusher<RequestInFlight<R>>,
        delivery: Delivery,
    ) -> RequestLifecycle<'a, R> {
        let now = model.clock().map_or(Time::ZERO, Clock::now);
        RequestLifecycle {
            device,
            counter: Counter::open(device),
            model,
            operations: OptionalModelledOperations::of(&device.drive),
            delivery,
            completion_lead: Span::ZERO,
            round: PollingRoundTimes { before: now, now },
            batch: Vec::with_capacity(index(BATCH)),
            in_model: Table::default(),
            due: VecDeque::new(),
            delayed: DelayQueue::default(),
            idle_since: None,
            flusher,
            space: Vec::new(),
        }
    }

    /// Lets the latency of every request be measured, rather than of a sample.
    pub fn measuring_all(mut self) -> RequestLifecycle<'a, R> {
        self.counter = Counter::measuring_all(self.device);
        self
    }

    /// Gives the thread a buffer of `bytes` bytes for transfers.
    pub fn with_transfer_buffer(mut self, bytes: usize) -> RequestLifecycle<'a, R> {
        self.space.resize(bytes, 0);
        self
    }

    /// Lets completions be written by `lead` earlier than the model says.
    pub fn with_completion_lead(mut self, lead: Span) -> RequestLifecycle<'a, R> {
        self.completion_lead = lead;
        self
    }

    /// Notes the instant at which the thread begins a polling round over its queues.
    #[inline]
    pub fn record_round_start(&mut self) {
        if let Some(clock) = self.model.clock() {
            self.round = PollingRoundTimes { before: self.round.now, now: clock.now() };
        }
    }

    /// Notes that the thread has slept: the request that woke it was submitted just now.
    pub fn end_sleep(&mut self) {
        if let Some(clock) = self.model.clock() {
            self.round.now = clock.now();
        }
    }

    /// Fetches up to [`BATCH`] requests of a queue, and executes them or submits them to the model. Returns true if
    /// there was any.
    #[inline]
    pub fn fetch_and_execute_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32) -> bool {
        self.fetch_and_execute_up_to(endpoint, queue, BATCH) > 0
    }

    /// Fetches up to `most` requests of a queue (at most [`BATCH`]), and executes them or submits them to the model.
    /// Returns their number.
    #[inline]
    pub fn fetch_and_execute_up_to<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32, most: u32) -> u32 {
        let most = most.min(BATCH);
        let mut left = most;
        loop {
            self.fetch_request_batch(endpoint, queue, &mut left);
            if self.batch.is_empty() {
                return most - left;
            }
            self.execute_or_submit_batch(endpoint);
        }
    }

    #[inline]
    fn fetch_request_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E, queue: u32, left: &mut u32) {
        let ahead = if self.model.is_none() { AHEAD } else { index(BATCH) };
        endpoint.look_ahead(queue, (ahead as u32).min(*left), &self.device.store);
        while self.batch.len() < ahead && *left > 0 {
            match endpoint.fetch(queue, &self.device.store) {
                Fetch::Nothing => return,
                Fetch::Refused => self.counter.counts().errors += 1,
                Fetch::Request(request) => self.process_fetched_request(endpoint, request),
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

    /// Begins a request that the front-end itself has fetched: matches it with the fault rules, then executes it or
    /// submits it to the model.
    #[inline]
    pub fn begin<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        self.process_fetched_request(endpoint, request);
        self.execute_or_submit_batch(endpoint);
    }

    #[inline]
    fn process_fetched_request<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        self.note(&request);
        self.match_request_with_faults(endpoint, request);
    }

    #[inline]
    fn note(&self, request: &R) {
        if let Some(record) = &self.device.record {
            request.note(record);
        }
    }

    #[inline]
    fn match_request_with_faults<E: Endpoint<R>>(&mut self, endpoint: &mut E, request: R) {
        let started = if self.model.is_none() { self.counter.fetched() } else { None };
        let can_happen = |fault: &Fault| endpoint.can_happen(&request, fault);
        let outcome = self.device.faults.match_request_fault(request.thread(), || request.io(), can_happen);
        let fetched = FetchedRequest { request, effect: FaultEffect::default(), started, status: None };
        match outcome {
            None => self.batch.push(fetched),
            Some(outcome) => self.apply_fault_outcome(endpoint, fetched, outcome),
        }
    }

    /// Applies the outcome of a fault to a request that has just been fetched: drops, delays or executes it.
    #[cold]
    fn apply_fault_outcome<E: Endpoint<R>>(
        &mut self,
        endpoint: &mut E,
        mut fetched: FetchedRequest<R>,
        outcome: FaultOutcome,
    ) {
        endpoint.detach(&mut fetched.request);
        match outcome {
            FaultOutcome::Hangs => endpoint.abandon(&fetched.request),
            FaultOutcome::Executed(effect) => self.batch.push(FetchedRequest { effect, ..fetched }),
            FaultOutcome::Connection(fault) => match endpoint.disturb(&fetched.request, fault) {
                true => self.batch.push(fetched),
                false => self.counter.counts().errors += 1,
            },
            FaultOutcome::Delayed(time) => {
                fetched.started = self.model.is_none().then(Instant::now);
                let (submitted, delayed) = (self.round.now, span(time));
                let request = RequestInFlight { submitted, delayed, ..RequestInFlight::new(fetched, Step::Begin) };
                self.delayed.push(time, request);
            }
        }
    }

    #[inline]
    fn execute_or_submit_batch<E: Endpoint<R>>(&mut self, endpoint: &mut E) {
        let mut batch = mem::take(&mut self.batch);
        if !self.model.is_none() {
            self.submit_batch_to_model(endpoint, &mut batch);
        } else if E::COMPLETES_TOGETHER {
            batch.iter_mut().for_each(|fetched| self.transfer(endpoint, fetched));
            batch.drain(..).for_each(|fetched| self.complete(endpoint, fetched));
        } else {
            for mut fetched in batch.drain(..) {
                self.transfer(endpoint, &mut fetched);
                self.complete(endpoint, fetched);
            }
        }
        endpoint.end_batch();
        self.batch = batch;
    }

    #[inline(always)]
    fn transfer<E: Endpoint<R>>(&mut self, endpoint: &mut E, fetched: &mut FetchedRequest<R>) {
        let FetchedRequest { request, effect, status, .. } = fetched;
        *status = endpoint.transfer(request, *effect, self.device, &mut self.space);
    }

    /// Writes the completion of a request that has been executed without a model, and counts the request.
    #[inline]
    fn complete<E: Endpoint<R>>(&mut self, endpoint: &mut E, fetched: FetchedRequest<R>) {
        let Some(status) = fetched.status else {
            return endpoint.hand_over(RequestInFlight::new(fetched, Step::Transfer));
        };
        copy::finish();
        if fetched.effect != FaultEffect::default() && !self.apply_completion_fault(endpoint, &fetched, status) {
            return;
        }
        match endpoint.complete(&fetched.request, status, Span::ZERO, self.device) {
            Completion::Written(is_fine) => {
                let latency = fetched.started.map(|started| {
                    endpoint.end_batch();
                    span(started.elapsed())
                });
                self.count(&fetched.request, is_fine, latency);
                endpoint.recycle(fetched.request);
            }
            Completion::AfterFlush => {
                self.submit_flush_before_completion(RequestInFlight::new(fetched, Step::Complete))
            }
        }
    }

    /// Applies the effect of a fault to a completion: writes an additional one, or drops it. Returns false if no
    /// completion is to be written.
    #[cold]
    fn apply_completion_fault<E: Endpoint<R>>(
        &self,
        endpoint: &mut E,
        fetched: &FetchedRequest<R>,
        status: R::Status,
    ) -> bool {
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
    fn submit_flush_before_completion(&mut self, request: RequestInFlight<R>) {
        let range = request.request().durable_range();
        self.flusher.submit(request, range);
    }

    /// Counts a completed request, with its latency if that is known: with timing off, only some latencies are
    /// measured.
    #[inline]
    fn count(&mut self, request: &R, is_fine: bool, latency: Option<Span>) {
        let counts = self.counter.counts();
        counts.errors += u64::from(!is_fine);
        match (request.class(), latency) {
            (None, _) => {}
            (Some(RequestClass { op, bytes }), Some(latency)) => counts.direction(op).count(bytes, latency),
            (Some(RequestClass { op, bytes }), None) => counts.direction(op).count_without_latency(bytes),
        }
    }
}

/// Steps of requests while timing is on: submission to the model, and completion when the model says.
impl<R: Request> RequestLifecycle<'_, R> {
    #[inline(never)]
    fn submit_batch_to_model<E: Endpoint<R>>(&mut self, endpoint: &mut E, batch: &mut Vec<FetchedRequest<R>>) {
        let mut left = batch.len();
        for fetched in batch.drain(..) {
            left -= 1;
            self.submit(endpoint, RequestInFlight::new(fetched, Step::Transfer), left > 0);
        }
    }

    /// Submits the next part of a request to the model. A request without a part that takes modelled time is executed
    /// now.
    fn submit<E: Endpoint<R>>(&mut self, endpoint: &mut E, mut request: RequestInFlight<R>, has_more: bool) {
        let (Some(clock), true) = (self.model.clock(), self.advance_to_next_modelled_part(&mut request)) else {
            self.idle_since = None;
            self.transfer(endpoint, &mut request.fetched);
            return self.complete(endpoint, request.fetched);
        };
        endpoint.detach(request.request_mut());
        // A request may have several parts in the model; the delay of a fault applies to the first.
        let is_first = request.due == Time::ZERO;
        let submitted = self.model_submission_time(&mut request, clock);
        if let Some(idle_since) = self.idle_since.take() {
            self.counter.counts().turnaround.record(submitted.since(idle_since.min(submitted)));
        }
        let delayed = if is_first { request.delayed } else { Span::ZERO };
        let early = self.delivery != Delivery::AtInstant;
        let token = self.in_model.insert(Some(request));
        let place = &mut self.in_model[index(token)];
        let Some(RequestInFlight { fetched, part, .. }) = place else { return };
        let submission =
            fetched.request.submission(*part).and_then(|part| self.operations.convert_to_modelled_submission(part));
        let Some(submission) = submission else { return };
        self.model.submit(submitted, submission, token, (early, has_more), delayed);
        if self.delivery == Delivery::ByClient {
            // Access the request where it is stored. Copying it would wait for cache lines that the client has just
            // written.
            fetched.status = endpoint.transfer(&fetched.request, fetched.effect, self.device, &mut self.space);
        }
    }

    /// Advances a request to its next part that takes modelled time; returns false if it has no such part.
    #[inline]
    fn advance_to_next_modelled_part(&self, request: &mut RequestInFlight<R>) -> bool {
        while let Some(submission) = request.request().submission(request.part) {
            if self.operations.convert_to_modelled_submission(submission).is_some() {
                return true;
            }
            request.part += 1;
        }
        false
    }

    /// Returns the instant at which the present part of a request enters the model: the request's submission, or for a
    /// later part the completion of the part before.
    #[inline]
    fn model_submission_time(&self, request: &mut RequestInFlight<R>, clock: &Clock) -> Time {
        let round = self.round;
        if request.due > Time::ZERO {
            return request.due;
        }
        if request.delayed.is_zero() {
            request.submitted = request.request().submitted(clock, round);
            request.submission_delay = round.now.since(request.submitted);
        } else {
            request.delayed = round.now.since(request.submitted);
            request.submitted = round.now;
        }
        request.submitted
    }

    /// Resumes every request whose delay has ended, whose flush has finished, or that the model lets continue. Returns
    /// true if there was any.
    #[inline]
    pub fn poll<F: Resume<R>>(&mut self, front: &mut F) -> bool {
        let mut any = false;
        while let Some(request) = self.delayed.take_due() {
            front.resume(self, request);
            any = true;
        }
        while let Some((request, flushed)) = self.flusher.take_completed_flush() {
            front.resume(self, RequestInFlight { next: Step::Commit(flushed), ..request });
            any = true;
        }
        if self.model.is_none() { any } else { self.poll_model_results(front) | any }
    }

    #[inline(never)]
    fn poll_model_results<F: Resume<R>>(&mut self, front: &mut F) -> bool {
        let Some(clock) = self.model.clock() else { return false };
        let PollingRoundTimes { before, now } = self.round;
        let earliest = if self.delivery == Delivery::BytesAhead { before } else { now };
        let mut any = self.model.poll(now, earliest, front.has_clients());
        while let Some(Completed { token, at, .. }) = self.model.take_known() {
            let request = self.in_model[index(token)].take().expect("a request completes once");
            self.in_model.vacate(token);
            self.on_model_result(front, RequestInFlight { due: at, part: request.part + 1, ..request });
            any = true;
        }
        while self.due.front().is_some_and(|first| first.due <= clock.now() + self.completion_lead) {
            let Some(request) = self.due.pop_front() else { break };
            front.resume(self, request);
            any = true;
        }
        any
    }

    /// Continues a request for which the model has returned a result: its latest part completes at the instant `due`.
    fn on_model_result<F: Resume<R>>(&mut self, front: &mut F, mut request: RequestInFlight<R>) {
        let has_part = self.delivery == Delivery::AtInstant && self.advance_to_next_modelled_part(&mut request);
        if !has_part && request.fetched.effect.slowed_thousandths > 0 {
            request.apply_latency_factor();
        }
        match self.delivery {
            Delivery::ByClient => front.resume(self, RequestInFlight { next: Step::Complete, ..request }),
            Delivery::BytesAhead => front.resume(self, RequestInFlight { next: Step::Transfer, ..request }),
            Delivery::AtInstant => {
                let next = if has_part { Step::Begin } else { Step::Transfer };
                self.schedule_due_completion(RequestInFlight { next, ..request });
            }
        }
    }

    fn schedule_due_completion(&mut self, request: RequestInFlight<R>) {
        let place = self.due.iter().rposition(|other| other.due <= request.due).map_or(0, |before| before + 1);
        self.due.insert(place, request);
    }

    /// Executes the next step of a request whose endpoint has been found.
    pub fn advance<E: Endpoint<R>>(&mut self, endpoint: &mut E, mut request: RequestInFlight<R>) {
        match mem::replace(&mut request.next, Step::Transfer) {
            Step::MatchFaults => {
                self.match_request_with_faults(endpoint, request.fetched.request);
                self.execute_or_submit_batch(endpoint);
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
                        self.schedule_due_completion(RequestInFlight { next: Step::Complete, ..request });
                    }
                    Some(status) => self.complete_modelled_request(endpoint, request, status),
                }
            }
            Step::Complete => match request.fetched.status {
                Some(status) => self.complete_modelled_request(endpoint, request, status),
                None => endpoint.hand_over(request),
            },
            Step::Commit(flushed) => {
                let latency = self.latency(&request);
                let is_fine = endpoint.commit(request.request(), flushed, latency.unwrap_or(Span::ZERO));
                self.count(request.request(), is_fine, latency);
                endpoint.recycle(request.fetched.request);
            }
        }
        endpoint.end_batch();
    }

    /// Keeps a request from another thread until its completion is due, and returns none; returns a request that is due
    /// already.
    pub fn delay_until_completion_due(&mut self, request: RequestInFlight<R>) -> Option<RequestInFlight<R>> {
        let now = self.model.clock().map_or(Time::ZERO, Clock::now) + self.completion_lead;
        if matches!(request.next, Step::Complete) && request.due > now {
            self.schedule_due_completion(request);
            return None;
        }
        Some(request)
    }

    /// Returns the latency under which a request is counted: the modelled one with the delay of a fault, or the
    /// measured one. Returns none if it is neither modelled nor measured.
    fn latency(&self, request: &RequestInFlight<R>) -> Option<Span> {
        match self.model.is_none() {
            true => request.fetched.started.map(|started| span(started.elapsed())),
            false if request.due == Time::ZERO => None,
            false => Some(request.delayed + request.due.since(request.submitted)),
        }
    }

    fn complete_modelled_request<E: Endpoint<R>>(
        &mut self,
        endpoint: &mut E,
        request: RequestInFlight<R>,
        status: R::Status,
    ) {
        let RequestInFlight { ref fetched, due, submission_delay, .. } = request;
        copy::finish();
        if fetched.effect != FaultEffect::default() && !self.apply_completion_fault(endpoint, fetched, status) {
            return;
        }
        let latency = self.latency(&request).unwrap_or(Span::ZERO);
        let completion = endpoint.complete(&fetched.request, status, latency, self.device);
        endpoint.end_batch();
        let mut written = self.model.clock().map_or(due, Clock::now);
        if self.delivery == Delivery::ByClient {
            // Assume that the completion reaches the client as late as the request reached the server, up to a limit.
            written += submission_delay.min(SUBMISSION_DELAY_MAX);
        }
        self.counter.counts().lag.record(written.since(due));
        match completion {
            Completion::Written(is_fine) => {
                self.idle_since = self.is_idle().then_some(written);
                self.count(request.request(), is_fine, Some(latency));
                endpoint.recycle(request.fetched.request);
            }
            Completion::AfterFlush => self.submit_flush_before_completion(request),
        }
    }

    /// True if no request is in the model or waits for a later step.
    #[inline]
    fn is_idle(&self) -> bool {
        self.in_model.is_empty() && self.due.is_empty() && !self.is_waiting()
    }

    /// Returns the longest time for which the device thread may sleep, if nothing arrives.
    pub fn rest_for(&self, wait: Wait, has_clients: bool) -> Duration {
        let until_due = self.due.front().zip(self.model.clock()).map(|(first, clock)| match wait {
            Wait::Block => Duration::from_nanos(first.due.since(clock.now()).as_ps() / 1000).max(SHORTEST_SLEEP),
            Wait::Adaptive | Wait::Spin => Duration::ZERO,
        });
        let model = if has_clients || !self.model.is_idle() { self.model.rest_for(wait) } else { SLEEP_MAX };
        let time = until_due.map_or(model, |until_due| until_due.min(model)).min(SLEEP_MAX);
        self.delayed.limit(time)
    }

    /// Returns true if requests of the thread wait for the end of a fault's delay or for a flush of the store.
    pub fn is_waiting(&self) -> bool {
        !self.delayed.is_empty() || !self.flusher.is_idle()
    }
}

/// Maximum time that a completion is assumed to take to its client. Up to this limit, that time is assumed to equal the
/// time from the request's stamp to its fetch.
const SUBMISSION_DELAY_MAX: Span = Span::from_us(5);
/// Shortest sleep of a device thread that is worth a system call.
const SHORTEST_SLEEP: Duration = Duration::from_micros(1);
