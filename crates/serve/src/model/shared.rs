//! Engine that one thread runs, for its own requests and for those of other threads.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::ledger::{JobOutcome, Outcome};
use phaselink_core::media::keys::Key;
use phaselink_core::number::index;
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use crate::device::Device;
use crate::device::pipe::{PipeReader, PipeWriter, WORDS};
use crate::model::commands::{EngineCommand, HostQueues};
use crate::model::exchange::{Call, EngineChannel, EngineExchange, ModelRequest};
use crate::model::wall::{Wait, WallClockEngine};

/// Maximum time by which the engine runs ahead of the clock for results that are wanted early. (Assumed; two threads
/// need 0.6 us for a round trip with a sector, and 1.4 us with a page.)
const LEAD_MAX: Span = Span::from_us(5);

/// Number that stands for the engine's own thread as the source of a request. Other sources are numbers of channels.
const OWN_THREAD: usize = usize::MAX;

/// Engine on the wall clock, with the requests of its own thread and of other threads, which use an [`EngineExchange`].
#[derive(Debug)]
pub struct SharedEngine<'a> {
    wall: WallClockEngine,
    /// Description of the simulated drive, for the report.
    drive: Drive,
    seed: u64,
    exchange: &'a EngineExchange,
    /// Numbers of the modelled host's threads; empty if real hosts bring their own software.
    threads: Vec<u16>,
    ends: Vec<ChannelEnd<'a>>,
    /// Requests in the engine, by the tokens with which they entered it.
    requests: Table<EngineRequest>,
    /// Commands of real hosts that wait for room in their modelled queue.
    queues: HostQueues,
    /// Results of requests that the engine's own thread submitted and has not taken yet.
    results: VecDeque<Completed>,
    /// Moving average of the time between a request's submission and its arrival at the engine.
    mean_submission_delay: Span,
}

/// Engine's end of the channel of one calling thread.
#[derive(Debug)]
struct ChannelEnd<'a> {
    calls: PipeReader<'a>,
    results: PipeWriter<'a>,
    /// True if the calling thread has announced that requests are to be expected.
    expects_requests: bool,
}

impl ChannelEnd<'_> {
    fn new(channel: &EngineChannel) -> ChannelEnd<'_> {
        ChannelEnd {
            calls: PipeReader::new(&channel.calls),
            results: PipeWriter::new(&channel.results),
            expects_requests: false,
        }
    }
}

/// Request that the engine has accepted and not completed yet.
#[derive(Clone, Copy, Debug)]
struct EngineRequest {
    source: usize,
    /// Token by which the submitting thread identifies the request.
    token: u32,
    /// Instant of the clock at which the request was submitted.
    submitted: Time,
    /// Instant of the model at which the request entered the engine.
    arrived: Time,
}

/// Copies the keys of the store, with the lengths of their values, into the simulated drive, so that the model finds
/// the keys that hosts find. Returns the engine.
fn with_stored_keys(mut engine: Engine, device: &Device, drive: &Drive) -> Engine {
    if let Some(keys) = device.store.keys() {
        keys.with(|space| {
            let mut values = space.iter_from_key(Key::default()).map(|(key, value)| (*key, value.bytes));
            engine.hold_keys(drive, &mut values);
        });
    }
    engine
}

impl<'a> SharedEngine<'a> {
    /// Makes an engine that simulates `drive` by the clock of `exchange`, with the fault rules of `device` that concern
    /// the model. The modelled host has one thread per queue pair; none if real hosts bring their own software.
    ///
    /// # Errors
    /// If real hosts bring their own software, and have no driver for the drive's protocol.
    pub fn new(
        device: &Device,
        drive: Drive,
        brings_software: bool,
        seed: u64,
        exchange: &'a EngineExchange,
    ) -> io::Result<SharedEngine<'a>> {
        let engine = match brings_software {
            false => Engine::new(&drive, seed),
            true => Engine::for_real_host_drivers(&drive, seed)
                .ok_or_else(|| io::Error::other("the drive's protocol is none of real hosts' drivers"))?,
        };
        let engine = with_stored_keys(engine, device, &drive);
        let mut wall = WallClockEngine::new(engine, exchange.clock().clone()).with_faults(device, seed);
        let threads = if brings_software { Vec::new() } else { wall.add_host_threads(&drive) };
        Ok(SharedEngine::for_drive_threads(wall, threads, drive, seed, exchange))
    }

    /// Makes a shared engine of `wall`, which simulates `drive`. `threads` are the numbers of the modelled host's
    /// threads.
    pub(super) fn for_drive_threads(
        wall: WallClockEngine,
        threads: Vec<u16>,
        drive: Drive,
        seed: u64,
        exchange: &'a EngineExchange,
    ) -> SharedEngine<'a> {
        SharedEngine {
            wall,
            drive,
            seed,
            exchange,
            threads,
            ends: exchange.channels.iter().map(ChannelEnd::new).collect(),
            requests: Table::default(),
            queues: HostQueues::default(),
            results: VecDeque::new(),
            mean_submission_delay: Span::ZERO,
        }
    }

    /// Returns the exchange by which other threads reach this engine.
    pub fn exchange(&self) -> &'a EngineExchange {
        self.exchange
    }

    /// Submits a request of the engine's own thread.
    #[inline]
    pub fn submit(&mut self, request: ModelRequest) {
        self.enter(OWN_THREAD, Call::Request(request));
    }

    /// Submits a command that a real host has placed in its queue. Commands of one doorbell write enter the model
    /// together, with the last of them.
    pub(crate) fn submit_command(&mut self, command: EngineCommand) {
        let has_more = command.has_more;
        self.queues.push(OWN_THREAD, command);
        if !has_more {
            self.enter_commands();
        }
    }

    /// Accepts what callers have submitted, and runs the model up to the clock's `now`, or ahead of it for results that
    /// are wanted early. An idle model runs no further than `earliest`, as requests that were submitted then may still
    /// arrive. Returns true if a caller had sent anything, or a request has completed.
    #[inline]
    pub fn poll(&mut self, now: Time, earliest: Time) -> bool {
        let mut any = self.listen();
        let model_now = self.wall.model_time_at(now);
        while let Some(completed) = self.wall.run_with_lead(model_now) {
            self.deliver_result(&completed);
            any = true;
        }
        if !any {
            let delay = self.mean_submission_delay + self.mean_submission_delay / 4;
            let earliest = self.wall.model_time_at(earliest.min(Time::ZERO + now.since(Time::ZERO + delay)));
            self.wall.handle_idle_events(earliest);
        }
        any
    }

    /// Returns the next result of a request that the engine's own thread submitted. Its instant of completion, by the
    /// clock, may still be in the future.
    #[inline]
    pub fn take_known(&mut self) -> Option<Completed> {
        self.results.pop_front()
    }

    /// Accepts requests and announcements from the channels of all callers, and sends results that have waited for
    /// room. Returns true if a caller had sent anything.
    #[inline]
    pub fn listen(&mut self) -> bool {
        let mut any = false;
        for channel in 0..self.ends.len() {
            if self.ends[channel].results.go_on() {
                self.exchange.channels[channel].wake_sleeping_caller();
            }
            while let Some(record) = self.ends[channel].calls.take() {
                self.enter(channel, Call::decode(record));
                any = true;
            }
        }
        self.enter_commands();
        any
    }

    /// Returns true if other threads expect results or have announced requests.
    pub fn has_callers(&self) -> bool {
        self.ends.iter().any(|end| end.expects_requests)
    }

    /// Returns the longest time for which the engine's thread may sleep, if it waits as `wait` says and nothing
    /// arrives.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        self.wall.rest_for(wait)
    }

    /// Returns true if no request is in the engine.
    pub fn is_idle(&self) -> bool {
        self.wall.is_idle()
    }

    /// Returns the outcome of the simulation so far. Queues that real hosts have not used are left out.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = self.wall.engine().outcome(&self.drive, self.seed);
        if self.threads.is_empty() {
            let is_used = |job: &JobOutcome| job.kinds().next().is_some();
            match outcome.jobs.iter().any(is_used) {
                true => outcome.jobs.retain(is_used),
                false => outcome.jobs.truncate(1),
            }
        }
        outcome
    }

    #[inline]
    fn enter(&mut self, source: usize, call: Call) {
        let ModelRequest { submitted, turn, io, token, early, delayed } = match call {
            Call::Attention(expected) => return self.ends[source].expects_requests = expected,
            Call::Command => return self.take_command(source),
            Call::Request(request) => request,
        };
        // A result that is sent through a socket has a delay of its own, so only other results are delivered ahead of
        // time.
        let lead = if early { delay_of(self.exchange, &mut self.mean_submission_delay, submitted) } else { Span::ZERO };
        self.wall.set_lead(lead);
        let place = self.requests.insert(EngineRequest { source, token, submitted, arrived: submitted });
        let (thread, token) = (self.threads[turn % self.threads.len()], place);
        let input = match delayed.is_zero() {
            true => Input::Request { thread, io, token },
            false => Input::DelayedRequest { thread, io, token, delayed },
        };
        self.requests[index(place)].arrived = self.wall.inject_at_clock(submitted, input);
    }

    /// Takes a command of a real host that a call in the channel has announced.
    fn take_command(&mut self, channel: usize) {
        self.queues.push(channel, self.exchange.channels[channel].receive_announced_command());
    }

    /// Lets commands of real hosts enter their modelled queues, as far as these have room.
    fn enter_commands(&mut self) {
        let SharedEngine { wall, exchange, queues, requests, mean_submission_delay, .. } = self;
        let take = |(requests, mean_submission_delay): &mut (&mut Table<EngineRequest>, &mut Span),
                    wall: &mut WallClockEngine,
                    source,
                    command: &EngineCommand| {
            let EngineCommand { token, rung: submitted, .. } = *command;
            wall.set_lead(delay_of(exchange, mean_submission_delay, submitted));
            requests.insert(EngineRequest { source, token, submitted, arrived: submitted })
        };
        let entered = |(requests, _): &mut (&mut Table<EngineRequest>, &mut Span), place: u32, arrived| {
            requests[index(place)].arrived = arrived;
        };
        queues.enter(wall, &mut (requests, mean_submission_delay), take, entered);
    }

    /// Sends a result to the thread that submitted the request: its own, or the caller at the other end of a channel.
    #[inline]
    fn deliver_result(&mut self, completed: &Completed) {
        let EngineRequest { source, token, submitted, arrived } = self.requests.take(completed.token);
        self.wall.pass_on();
        let at = submitted + completed.at.since(arrived);
        if source == OWN_THREAD {
            return self.results.push_back(Completed { token, at, error: None });
        }
        let mut record = [0; WORDS];
        record[..2].copy_from_slice(&[token.into(), at.as_ps()]);
        self.ends[source].results.put(record);
        self.exchange.channels[source].wake_sleeping_caller();
    }
}

/// Returns the time since a request was submitted, at most [`LEAD_MAX`], and adds it to the moving average
/// `mean_submission_delay`.
#[inline]
fn delay_of(exchange: &EngineExchange, mean_submission_delay: &mut Span, submitted: Time) -> Span {
    let delay = exchange.clock().now().since(submitted).min(LEAD_MAX);
    *mean_submission_delay = *mean_submission_delay - *mean_submission_delay / 8 + delay / 8;
    delay
}
