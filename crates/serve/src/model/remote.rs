//! A model on another thread: the engine stays where it is, and threads elsewhere ask through an [`Exchange`].
//!
//! ```text
//!    asking threads (Remote)                 engine's thread (Callers)
//!  stamp with the clock, call  ──────────>  enters the model as of that instant
//!                                           the model: done, and how long it has taken
//!  keep until asked + latency  <──────────  result, as soon as it is known
//! ```
//!
//! The ways between the threads do not show, as long as they take less than the model: a result is due so much after the
//! asking as the model says, on the clock that both threads see. What it comes later than that is its lag. The engine's
//! thread never waits for those who ask, nor they for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use phaselink_core::engine::{Completed, Input};
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};

use crate::device::pipe::{Pipe, Reader, Record, WORDS, Writer};
use crate::device::wakeup::{Wakeup, clear};
use crate::model::commands::{self, HostQueues, Incoming, SentCommand};
use crate::model::wall::{Clock, IDLE_MAX, Wait, Wall};

/// In a token of the engine: the request has come through the exchange. The other bits are its place there.
const CALLED: u32 = 1 << 31;
/// What the engine runs ahead for at most, for those who want their results before they are due. (Assumed; the limits of two
/// threads are 0.6 us for there and back with a sector, and 1.4 us with a page.)
const WAY_AHEAD_MAX: Span = Span::from_us(5);

/// Between the thread of an engine and those that ask it: a lane for each of them, on which no cache line is written by both
/// ends.
#[derive(Debug)]
pub struct Exchange {
    clock: Clock,
    lanes: Box<[Lane]>,
    /// Lanes that have somebody who asks.
    opened: AtomicUsize,
    turns: AtomicUsize,
    /// Wakes the engine's thread.
    engine: Wakeup,
}

/// The ways of one thread that asks.
#[derive(Debug)]
struct Lane {
    calls: Pipe,
    /// What is done, at the instant of the clock at which it is due.
    done: Pipe,
    /// Wakes the asking thread, if that sleeps.
    wakeup: Option<Wakeup>,
}

impl Lane {
    /// The engine's end.
    fn end(&self) -> End<'_> {
        End { calls: Reader::new(&self.calls), done: Writer::new(&self.done), expected: false, incoming: None }
    }
}

/// What is said on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Whether requests are to be expected.
    Attention(bool),
    Request {
        asked: Time,
        turn: usize,
        io: Io,
        token: u32,
        /// Whether the result is wanted as soon as it can be known.
        early: bool,
    },
}

impl Call {
    const ATTENTION: u64 = 1;
    const WRITE: u64 = 1 << 1;
    const EARLY: u64 = 1 << 2;

    fn encode(self) -> Record {
        match self {
            Call::Attention(expected) => [Call::ATTENTION, expected.into(), 0, 0, 0, 0, 0],
            Call::Request { asked, turn, io: Io { op, offset, bytes }, token, early } => {
                let write = if op == Op::Write { Call::WRITE } else { 0 };
                let flags = write | if early { Call::EARLY } else { 0 };
                [flags, asked.as_ps(), turn as u64, offset, bytes.into(), token.into(), 0]
            }
        }
    }

    fn decode([flags, asked, turn, offset, bytes, token, _]: Record) -> Call {
        if flags == Call::ATTENTION {
            return Call::Attention(asked != 0);
        }
        let op = if flags & Call::WRITE != 0 { Op::Write } else { Op::Read };
        let io = Io { op, offset, bytes: bytes as u32 };
        let early = flags & Call::EARLY != 0;
        Call::Request { asked: Time::from_ps(asked), turn: turn as usize, io, token: token as u32, early }
    }
}

impl Exchange {
    /// One for so many threads that wait like this, with a clock that begins now.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new(wait: Wait, lanes: usize) -> io::Result<Exchange> {
        let lane = |_| {
            let wakeup = (wait == Wait::Block).then(Wakeup::new).transpose()?;
            Ok(Lane { calls: Pipe::default(), done: Pipe::default(), wakeup })
        };
        Ok(Exchange {
            clock: Clock::start(),
            lanes: (0..lanes).map(lane).collect::<io::Result<_>>()?,
            opened: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            engine: Wakeup::new()?,
        })
    }

    /// The clock that all threads follow.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whose turn it is among the modelled threads: they are shared by all clients of all front-ends, in turn.
    pub fn next_turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// That of the engine's thread, which whoever asks rings if it sleeps.
    pub fn engine(&self) -> &Wakeup {
        &self.engine
    }
}

/// Those who ask, as seen by the engine's thread.
#[derive(Debug)]
pub struct Callers<'a> {
    exchange: &'a Exchange,
    ends: Vec<End<'a>>,
    /// By the place in their tokens of the engine.
    requests: Table<Called>,
    /// Those of real hosts.
    queues: HostQueues,
    /// A mean of the latest ways of those who want their results early.
    usual_way: Span,
}

/// The engine's end of a lane.
#[derive(Debug)]
struct End<'a> {
    calls: Reader<'a>,
    done: Writer<'a>,
    expected: bool,
    /// A command that has come in part.
    incoming: Option<Incoming>,
}

/// A request in the model: when it was asked on the clock, and when it has come in the model.
#[derive(Clone, Copy, Debug)]
struct Called {
    lane: usize,
    token: u32,
    asked: Time,
    arrived: Time,
}

impl Callers<'_> {
    /// Those who ask through `exchange`; nobody yet.
    pub fn new(exchange: &Exchange) -> Callers<'_> {
        let ends = exchange.lanes.iter().map(Lane::end).collect();
        Callers { exchange, ends, requests: Table::default(), queues: HostQueues::default(), usual_way: Span::ZERO }
    }

    /// Whether requests are to be expected, or are under way: then the engine's thread should be awake.
    pub fn are_there(&self) -> bool {
        self.ends.iter().any(|end| end.expected)
    }

    /// How far behind the clock an idle engine had better stay: what is asked just now is found so much later.
    pub fn usual_way(&self) -> Span {
        self.usual_way
    }

    /// Let what has been asked enter the model, by one of its `threads`; whether there was anything.
    #[inline]
    pub fn listen(&mut self, wall: &mut Wall, threads: &[u16]) -> bool {
        let mut any = false;
        for lane in 0..self.ends.len() {
            if self.ends[lane].done.go_on() {
                self.ring(lane);
            }
            while let Some(record) = self.ends[lane].calls.take() {
                self.on_record(lane, record, wall, threads);
                any = true;
            }
        }
        self.let_enter(wall);
        any
    }

    #[inline]
    fn on_record(&mut self, lane: usize, record: Record, wall: &mut Wall, threads: &[u16]) {
        match self.ends[lane].incoming.take() {
            Some(incoming) => match incoming.push(record) {
                Ok(command) => self.queues.push(lane, command),
                Err(incoming) => self.ends[lane].incoming = Some(incoming),
            },
            None if record[0] & commands::COMMAND != 0 => self.ends[lane].incoming = Some(Incoming::new(record)),
            None => self.on_call(lane, Call::decode(record), wall, threads),
        }
    }

    /// Commands of real hosts enter their queues of the model, as far as these have room.
    fn let_enter(&mut self, wall: &mut Wall) {
        let Callers { exchange, queues, requests, usual_way, .. } = self;
        let take = |(requests, usual_way): &mut (&mut Table<Called>, &mut Span),
                    wall: &mut Wall,
                    lane,
                    command: &SentCommand| {
            let SentCommand { token, rung, .. } = *command;
            wall.lead_by(way(exchange, usual_way, rung));
            requests.insert(Called { lane, token, asked: rung, arrived: rung }) | CALLED
        };
        let entered = |(requests, _): &mut (&mut Table<Called>, &mut Span), token: u32, arrived| {
            requests[(token & !CALLED) as usize].arrived = arrived;
        };
        queues.enter(wall, &mut (requests, usual_way), take, entered);
    }

    fn on_call(&mut self, lane: usize, call: Call, wall: &mut Wall, threads: &[u16]) {
        let (asked, turn, io, token, early) = match call {
            Call::Attention(expected) => return self.ends[lane].expected = expected,
            Call::Request { asked, turn, io, token, early } => (asked, turn, io, token, early),
        };
        wall.lead_by(self.lead(asked, early));
        let place = self.requests.insert(Called { lane, token, asked, arrived: asked });
        let input = Input::Request { thread: threads[turn % threads.len()], io, token: place | CALLED };
        self.requests[place as usize].arrived = wall.arrive_at(asked, input);
    }

    /// What is asked through a socket is not needed early: the result has that to go through as well.
    fn lead(&mut self, asked: Time, early: bool) -> Span {
        if early { way(self.exchange, &mut self.usual_way, asked) } else { Span::ZERO }
    }

    /// Answer what the model has done, if it has come through the exchange; whether it has.
    #[inline]
    pub fn answer(&mut self, done: &Completed, wall: &mut Wall) -> bool {
        if done.token & CALLED == 0 {
            return false;
        }
        let Called { lane, token, asked, arrived } = self.requests.take(done.token & !CALLED);
        wall.pass_on();
        self.hand_over(lane, Completed { token, at: asked + done.at.since(arrived) });
        true
    }

    /// Hand a result over to the thread that has asked.
    fn hand_over(&mut self, lane: usize, done: Completed) {
        let mut record = [0; WORDS];
        record[..2].copy_from_slice(&[done.token.into(), done.at.as_ps()]);
        self.ends[lane].done.put(record);
        self.ring(lane);
    }

    fn ring(&self, lane: usize) {
        self.exchange.lanes[lane].wakeup.iter().for_each(Wakeup::signal);
    }
}

/// What the way here has taken of something that was asked then, which counts for the mean.
fn way(exchange: &Exchange, usual_way: &mut Span, asked: Time) -> Span {
    let way = exchange.clock.now().since(asked).min(WAY_AHEAD_MAX);
    *usual_way = *usual_way - *usual_way / 8 + way / 8;
    way
}

/// The model, as seen by a thread that asks.
#[derive(Debug)]
pub struct Remote<'a> {
    exchange: &'a Exchange,
    lane: &'a Lane,
    calls: Writer<'a>,
    done: Reader<'a>,
    /// What is done but not due: the next first.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    under_way: usize,
    last_lag: Span,
    /// What the engine's thread has been told to expect.
    told: bool,
}

impl Remote<'_> {
    /// The model of the thread that serves [`Callers`] of the same exchange.
    ///
    /// # Panics
    /// If the exchange has been made for fewer threads than ask through it.
    pub fn new(exchange: &Exchange) -> Remote<'_> {
        let lane = &exchange.lanes[exchange.opened.fetch_add(1, Ordering::Relaxed)];
        let (calls, done) = (Writer::new(&lane.calls), Reader::new(&lane.done));
        let (due, last_lag) = (BinaryHeap::new(), Span::ZERO);
        Remote { exchange, lane, calls, done, due, under_way: 0, last_lag, told: false }
    }

    /// The clock that the engine follows, too.
    pub fn clock(&self) -> &Clock {
        &self.exchange.clock
    }

    /// Whose turn it is among the modelled threads.
    pub fn next_turn(&self) -> usize {
        self.exchange.next_turn()
    }

    /// Tell the engine's thread, if it does not know, whether clients are there: it may sleep if they are not.
    pub fn expect(&mut self, clients: bool) {
        self.calls.go_on();
        let expected = clients || self.under_way > 0;
        if self.told != expected {
            self.told = expected;
            self.call(Call::Attention(expected));
        }
    }

    /// A request is asked now, in the turn of its client; the clock's time of that.
    pub fn ask(&mut self, turn: usize, io: Io, token: u32) -> Time {
        let asked = self.exchange.clock.now();
        self.under_way += 1;
        self.call(Call::Request { asked, turn, io, token, early: false });
        asked
    }

    /// A request was asked when the clock showed `asked`; its result is wanted as soon as it is known, by
    /// [`Remote::take_known`].
    pub fn ask_early(&mut self, asked: Time, turn: usize, io: Io, token: u32) {
        self.under_way += 1;
        self.call(Call::Request { asked, turn, io, token, early: true });
    }

    /// A real host has rung for a command; its result is wanted as soon as it is known.
    pub fn send(&mut self, command: &SentCommand) {
        self.under_way += 1;
        command.encode(|record| self.calls.put(record));
        self.exchange.engine.wake();
    }

    fn call(&mut self, call: Call) {
        self.calls.put(call.encode());
        self.exchange.engine.wake();
    }

    /// The next result that is known, which may be before it is due. Its instant is the clock's.
    #[inline]
    pub fn take_known(&mut self) -> Option<Completed> {
        let [token, at, ..] = self.done.take()?;
        self.under_way -= 1;
        Some(Completed { token: token as u32, at: Time::from_ps(at) })
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// The next result that is due, which is to be handed over at once; its lag ends here. Its instant is the clock's.
    pub fn take_completed(&mut self) -> Option<Completed> {
        while let Some([token, at, ..]) = self.done.take() {
            self.due.push(Reverse((Time::from_ps(at), token as u32)));
        }
        let Reverse((at, token)) = *self.due.peek()?;
        let now = self.exchange.clock.now();
        if at > now {
            return None;
        }
        self.due.pop();
        self.under_way -= 1;
        self.last_lag = now.since(at);
        Some(Completed { token, at })
    }

    /// That of the result taken last.
    pub fn last_lag(&self) -> Span {
        self.last_lag
    }

    /// How long nothing is due, unless [`Remote::wakeup`] tells of something else.
    pub fn idle_for(&self) -> Duration {
        let left = |Reverse((at, _)): &Reverse<(Time, u32)>| at.since(self.exchange.clock.now()).as_ps() / 1000;
        self.due.peek().map_or(IDLE_MAX, |next| Duration::from_nanos(left(next)).min(IDLE_MAX))
    }

    /// Becomes readable when results have come, for threads that sleep.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.lane.wakeup.as_ref().map(AsFd::as_fd)
    }

    /// The wakeup has been heard, and can be rung again.
    pub fn silence(&self) {
        self.lane.wakeup.iter().for_each(clear);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use phaselink_core::drive::Drive;
    use phaselink_core::engine::Engine;
    use phaselink_core::request::Op;
    use rustix::event::{PollFd, PollFlags, Timespec};

    use super::*;

    const READ: Io = Io { op: Op::Read, offset: 4096, bytes: 512 };
    const NOW: Time = Time::from_ps(20_000_000);

    /// With its clock standing still.
    fn exchange(now: Time) -> Exchange {
        Exchange { clock: Clock::Set(now), ..Exchange::new(Wait::Block, 2).unwrap() }
    }

    fn wall() -> (Wall, Vec<u16>) {
        let drive = Drive::shipped("nvme-polled").unwrap();
        let mut wall = Wall::new(Engine::new(&drive, 1), Clock::Set(NOW));
        let threads = wall.add_threads(&drive);
        (wall, threads)
    }

    fn completed(wall: &mut Wall) -> Completed {
        *wall.clock_mut() = Clock::Set(NOW + Span::from_ms(1));
        wall.run_ahead(wall.now()).expect("it is long done")
    }

    #[test]
    fn a_request_enters_the_model_as_of_its_asking_and_is_due_when_that_says() {
        let asked = Time::from_ps(NOW.as_ps() - 1_500_000);
        let (mut alone, threads) = wall();
        alone.arrive_at(asked, Input::Request { thread: threads[0], io: READ, token: 0 });
        let due = completed(&mut alone).at;

        let exchange = exchange(asked);
        let mut remote = Remote::new(&exchange);
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        assert!(!callers.listen(&mut wall, &threads));
        assert_eq!(remote.ask(threads.len(), READ, 5), asked);
        assert!(callers.listen(&mut wall, &threads));
        let done = completed(&mut wall);
        assert!(callers.answer(&done, &mut wall));
        assert_eq!(remote.take_known(), Some(Completed { token: 5, at: due }));
        assert!(!callers.answer(&Completed { token: 5, at: due }, &mut wall), "this one does not come from here");
    }

    #[test]
    fn an_engine_that_sleeps_is_woken_by_a_request() {
        let long = Duration::from_secs(10);
        let exchange = exchange(NOW);
        thread::scope(|scope| {
            let engine = scope.spawn(|| {
                let (asleep, (mut wall, threads)) = (Instant::now(), wall());
                exchange.engine().sleep([].into_iter(), long, || false);
                Callers::new(&exchange).listen(&mut wall, &threads) && asleep.elapsed() < long
            });
            let mut remote = Remote::new(&exchange);
            while !engine.is_finished() {
                remote.ask(0, READ, 0);
                thread::sleep(Duration::from_millis(1));
            }
            assert!(engine.join().unwrap());
        });
    }

    #[test]
    fn each_thread_that_asks_gets_its_own_results_even_if_their_tokens_are_alike() {
        let exchange = exchange(NOW);
        let mut remotes = [0, 1].map(|_| Remote::new(&exchange));
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        for (turn, remote) in remotes.iter_mut().enumerate() {
            remote.ask_early(NOW, turn, READ, 7);
            remote.ask_early(NOW, turn, READ, 8);
        }
        assert!(callers.listen(&mut wall, &threads));
        for _ in 0..4 {
            let done = completed(&mut wall);
            assert!(callers.answer(&done, &mut wall));
        }
        for remote in &mut remotes {
            let mut tokens = [0, 1].map(|_| remote.take_known().expect("two are done").token);
            tokens.sort_unstable();
            assert_eq!((tokens, remote.take_known(), remote.is_idle()), ([7, 8], None, true));
        }
    }

    #[test]
    fn what_is_said_on_a_lane_is_read_there_as_it_was_said() {
        let request = |op, early| Call::Request {
            asked: NOW,
            turn: 5,
            io: Io { op, offset: 1 << 40, bytes: u32::MAX },
            token: u32::MAX,
            early,
        };
        for call in [Call::Attention(true), Call::Attention(false), request(Op::Read, true), request(Op::Write, false)]
        {
            assert_eq!(Call::decode(call.encode()), call);
        }
    }

    #[test]
    fn where_the_engine_is_ahead_a_request_enters_it_there_and_takes_as_long_from_its_asking() {
        let exchange = exchange(NOW);
        let mut remote = Remote::new(&exchange);
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        wall.arrive(Input::Request { thread: threads[0], io: READ, token: 0 });
        assert_eq!(wall.run_ahead(NOW), None);
        let ahead = wall.engine().now().since(NOW);
        assert!(ahead > Span::ZERO);
        remote.ask(1, READ, 0);
        callers.listen(&mut wall, &threads);
        let own = completed(&mut wall);
        assert!(!callers.answer(&own, &mut wall));
        let done = completed(&mut wall);
        assert!(callers.answer(&done, &mut wall));
        let due = remote.take_known().expect("one is done");
        assert_eq!(due.at + ahead, done.at);
    }

    #[test]
    fn a_result_is_handed_over_when_it_is_due_and_not_a_picosecond_before() {
        let mut exchange = exchange(NOW);
        let (late, just, early) = (Span::from_ns(70), Span::ZERO, Span::from_ps(1));
        let mut callers = Callers::new(&exchange);
        callers.hand_over(0, Completed { token: 2, at: NOW + early });
        callers.hand_over(0, Completed { token: 1, at: NOW + just });
        callers.hand_over(0, Completed { token: 0, at: Time::from_ps(NOW.as_ps() - late.as_ps()) });
        let mut remote = Remote { under_way: 3, ..Remote::new(&exchange) };
        for (token, lag) in [(0, late), (1, just)] {
            assert_eq!(remote.take_completed().map(|done| done.token), Some(token));
            assert_eq!(remote.last_lag(), lag);
        }
        assert_eq!((remote.take_completed(), remote.idle_for()), (None, Duration::ZERO));
        let Remote { due, .. } = remote;
        exchange.clock = Clock::Set(NOW + early);
        let mut remote = Remote { due, under_way: 1, ..Remote::new(&exchange) };
        assert_eq!(remote.take_completed(), Some(Completed { token: 2, at: NOW + early }));
    }

    #[test]
    fn the_bell_is_rung_for_results_and_the_engine_is_told_to_expect_requests_until_they_are_done() {
        let exchange = exchange(NOW);
        let mut remote = Remote::new(&exchange);
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        let rings = |remote: &Remote| {
            let mut wakeup = [PollFd::from_borrowed_fd(remote.wakeup().unwrap(), PollFlags::IN)];
            rustix::event::poll(&mut wakeup, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        remote.expect(true);
        callers.listen(&mut wall, &threads);
        assert!(callers.are_there() && !rings(&remote));
        remote.ask(0, READ, 0);
        remote.expect(false);
        callers.listen(&mut wall, &threads);
        assert!(callers.are_there(), "a request is under way");
        callers.hand_over(0, Completed { token: 0, at: NOW });
        assert!(rings(&remote));
        remote.silence();
        assert!(!rings(&remote) && remote.take_completed().is_some());
        remote.expect(false);
        callers.listen(&mut wall, &threads);
        assert!(!callers.are_there());
    }
}
