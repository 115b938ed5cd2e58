//! Engine of another thread, as seen by a thread that submits requests to it through an [`EngineExchange`].

use std::time::Duration;

use phaselink_core::engine::Completed;
use phaselink_core::number::low_u32;
use phaselink_core::time::Time;

use crate::device::pipe::{PipeReader, PipeWriter};
use crate::model::commands::EngineCommand;
use crate::model::exchange::{Call, EngineChannel, EngineExchange, ModelRequest};
use crate::model::wall::{IDLE_MAX, Wait};

/// Caller's end of a channel to the engine of another thread.
#[derive(Debug)]
pub struct RemoteEngine<'a> {
    exchange: &'a EngineExchange,
    channel: &'a EngineChannel,
    calls: PipeWriter<'a>,
    results: PipeReader<'a>,
    in_flight: usize,
    /// Last announcement to the engine's thread: true if requests are to be expected.
    announced: bool,
}

impl<'a> RemoteEngine<'a> {
    /// Connects to the engine by a channel that [`EngineExchange::open`] has reserved.
    pub(crate) fn new(exchange: &'a EngineExchange, channel: usize) -> RemoteEngine<'a> {
        let channel = &exchange.channels[channel];
        let (calls, results) = (PipeWriter::new(&channel.calls), PipeReader::new(&channel.results));
        RemoteEngine { exchange, channel, calls, results, in_flight: 0, announced: false }
    }

    /// Returns the exchange that this channel belongs to, with the clock that all its threads read.
    pub fn exchange(&self) -> &'a EngineExchange {
        self.exchange
    }

    /// Tells the engine's thread, if it has changed, that requests are to be expected or none are. Requests are
    /// expected while there are clients or requests in flight. Also sends calls that have waited for room.
    #[inline]
    pub fn expect(&mut self, has_clients: bool) {
        self.calls.go_on();
        let expected = has_clients || self.in_flight > 0;
        if self.announced != expected {
            self.announced = expected;
            self.call(Call::Attention(expected));
        }
    }

    /// Submits a request to the engine.
    #[inline]
    pub fn submit(&mut self, request: ModelRequest) {
        self.in_flight += 1;
        self.call(Call::Request(request));
    }

    /// Submits a command that a real host has placed in its queue to the engine of the other thread.
    pub(crate) fn submit_command(&mut self, command: EngineCommand) {
        self.in_flight += 1;
        self.channel.send_command(command);
        self.call(Call::Command);
    }

    #[inline]
    fn call(&mut self, call: Call) {
        self.calls.put(call.encode());
        self.exchange.engine().wake();
    }

    /// Returns the next result that the engine has sent. Its instant of completion, by the clock, may still be in the
    /// future.
    #[inline]
    pub fn take_known(&mut self) -> Option<Completed> {
        let [token, at, ..] = self.results.take()?;
        self.in_flight -= 1;
        Some(Completed { token: low_u32(token), at: Time::from_ps(at), error: None })
    }

    /// Returns true if no request of this thread is in the engine.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Returns the longest time for which the calling thread may sleep: without limit if it has no request in flight.
    /// Otherwise it may sleep only with [`Wait::Block`], as results wake no other thread.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match wait {
            _ if self.is_idle() => Duration::MAX,
            Wait::Block => IDLE_MAX,
            Wait::Adaptive | Wait::Spin => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use phaselink_core::drive::Drive;
    use phaselink_core::engine::{Engine, Input};
    use phaselink_core::request::{Io, Op};
    use phaselink_core::time::Span;

    use super::*;
    use crate::model::shared::SharedEngine;
    use crate::model::wall::{Clock, WallClockEngine};

    const READ: Io = Io { op: Op::Read, offset: 4096, bytes: 512 };
    const NOW: Time = Time::from_ps(20_000_000);
    const LATER: Time = Time::from_ps(1_020_000_000);

    fn read(submitted: Time, turn: usize, token: u32, early: bool) -> ModelRequest {
        ModelRequest { submitted, turn, io: READ, token, early, delayed: Span::ZERO }
    }

    /// Makes an exchange for two callers whose clock stands still.
    fn exchange(now: Time) -> EngineExchange {
        let mut exchange = EngineExchange::new(Wait::Block, 2).unwrap();
        exchange.set_clock(now);
        exchange
    }

    fn wall() -> (WallClockEngine, Vec<u16>) {
        let drive = Drive::shipped("nvme-polled").unwrap();
        let mut wall = WallClockEngine::new(Engine::new(&drive, 1), Clock::Set(NOW));
        let threads = wall.add_host_threads(&drive);
        (wall, threads)
    }

    fn engine(exchange: &EngineExchange) -> SharedEngine<'_> {
        let (wall, threads) = wall();
        SharedEngine::for_drive_threads(wall, threads, Drive::shipped("nvme-polled").unwrap(), 1, exchange)
    }

    #[test]
    fn result_is_due_after_the_modelled_latency() {
        let submitted = Time::from_ps(NOW.as_ps() - 1_500_000);
        let (mut alone, threads) = wall();
        alone.inject_at_clock(submitted, Input::Request { thread: threads[0], io: READ, token: 0 });
        let due = alone.run_with_lead(LATER).expect("the read completes long before").at;

        let exchange = exchange(submitted);
        let (mut engine, mut remote) = (engine(&exchange), RemoteEngine::new(&exchange, exchange.open()));
        assert!(!engine.listen());
        remote.submit(read(submitted, 0, 5, false));
        assert!(engine.poll(LATER, LATER));
        assert_eq!(remote.take_known(), Some(Completed { token: 5, at: due, error: None }));
        engine.submit(read(submitted, 1, 7, false));
        engine.poll(LATER + Span::from_ms(1), LATER);
        let own = engine.take_known().map(|completed| completed.token);
        assert_eq!((own, remote.take_known()), (Some(7), None), "each result goes to its own thread");
    }

    #[test]
    fn sleeping_engine_thread_is_woken_by_a_request() {
        let long = Duration::from_secs(10);
        let exchange = exchange(NOW);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let (asleep, mut engine) = (Instant::now(), engine(&exchange));
                exchange.engine().sleep([].into_iter(), long, || false);
                (asleep.elapsed() < long, engine.listen())
            });
            let mut remote = RemoteEngine::new(&exchange, exchange.open());
            thread::sleep(Duration::from_millis(20));
            remote.submit(read(NOW, 0, 5, false));
            assert_eq!(sleeper.join().unwrap(), (true, true));
        });
    }

    #[test]
    fn results_wake_a_sleeping_caller_and_announcements_persist() {
        let exchange = exchange(NOW);
        let channel = exchange.open();
        let (mut engine, mut remote) = (engine(&exchange), RemoteEngine::new(&exchange, channel));
        remote.expect(true);
        assert!(engine.listen() && engine.has_callers());
        remote.submit(read(NOW, 0, 0, true));
        remote.expect(false);
        engine.listen();
        assert!(engine.has_callers(), "a request is in flight");
        assert_eq!((remote.rest_for(Wait::Block), remote.rest_for(Wait::Spin)), (IDLE_MAX, Duration::ZERO));
        let since = Instant::now();
        exchange.caller(channel).sleep([].into_iter(), Duration::from_secs(10), || {
            engine.poll(LATER, LATER);
            false
        });
        assert!(since.elapsed() < Duration::from_secs(10) && remote.take_known().is_some());
        remote.expect(false);
        engine.listen();
        assert!(!engine.has_callers() && remote.rest_for(Wait::Block) == Duration::MAX);
    }

    #[test]
    fn early_result_is_known_before_it_is_due() {
        let exchange = exchange(NOW);
        let (mut engine, mut remote) = (engine(&exchange), RemoteEngine::new(&exchange, exchange.open()));
        remote.submit(read(NOW, 0, 1, true));
        let known = (0..2_000).map(|step| NOW + Span::from_ns(10 * step)).find_map(|now| {
            engine.poll(now, now);
            remote.take_known().map(|completed| (now, completed.at))
        });
        let (now, due) = known.expect("a read completes within 20 us");
        assert!(now < due, "{now:?} {due:?}");
    }
}
