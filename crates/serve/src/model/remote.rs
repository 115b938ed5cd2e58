//! A model on another thread: the engine stays where it is, and front-ends elsewhere ask through an [`Exchange`].
//!
//! ```text
//!    asking thread (Remote)                  engine's thread (Callers)
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
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use phaselink_core::engine::{Completed, Input};
use phaselink_core::request::Io;
use phaselink_core::time::{Span, Time};
use rustix::event::EventfdFlags;

use crate::device::mailbox::Mailbox;
use crate::model::wall::{Clock, IDLE_MAX, Wait, Wall};

/// In a token of the engine: the request has come through the exchange. The other bits are its token there.
const CALLED: u32 = 1 << 31;

/// Between the thread of an engine and one that asks it.
#[derive(Debug)]
pub struct Exchange {
    clock: Clock,
    calls: Mailbox<Call>,
    /// What is done, at the instant of the clock at which it is due.
    done: Mailbox<Completed>,
    /// Wakes the asking thread, if that sleeps.
    bell: Option<OwnedFd>,
    turns: AtomicUsize,
}

#[derive(Debug)]
enum Call {
    /// Whether requests are to be expected.
    Attention(bool),
    Request {
        asked: Time,
        turn: usize,
        io: Io,
        token: u32,
    },
}

impl Exchange {
    /// One for threads that wait like this, with a clock that begins now.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new(wait: Wait) -> io::Result<Exchange> {
        let bell = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Exchange {
            clock: Clock::start(),
            calls: Mailbox::default(),
            done: Mailbox::default(),
            bell: (wait == Wait::Block).then(bell).transpose()?,
            turns: AtomicUsize::new(0),
        })
    }

    /// The clock that both threads follow.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whose turn it is among the modelled threads: they are shared by all clients of all front-ends, in turn.
    pub fn next_turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Hand a result over to the thread that has asked.
    fn answer(&self, done: Completed) {
        self.done.put(done);
        if let Some(bell) = &self.bell {
            // A counter that is full is readable already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }
}

/// Those who ask, as seen by the engine's thread.
#[derive(Debug)]
pub struct Callers<'a> {
    exchange: &'a Exchange,
    /// By their tokens.
    requests: Vec<Option<Called>>,
    expected: bool,
}

/// A request in the model: when it was asked on the clock, and when it has come in the model.
#[derive(Clone, Copy, Debug)]
struct Called {
    asked: Time,
    arrived: Time,
}

impl Callers<'_> {
    /// Those who ask through `exchange`; nobody yet.
    pub fn new(exchange: &Exchange) -> Callers<'_> {
        Callers { exchange, requests: Vec::new(), expected: false }
    }

    /// Whether requests are to be expected, or are under way: then the engine's thread should be awake.
    pub fn are_there(&self) -> bool {
        self.expected
    }

    /// Let what has been asked enter the model, by one of its `threads`; whether there was anything.
    #[inline]
    pub fn listen(&mut self, wall: &mut Wall, threads: &[u16]) -> bool {
        let calls = self.exchange.calls.take();
        if calls.is_empty() {
            return false;
        }
        calls.into_iter().for_each(|call| self.on_call(call, wall, threads));
        true
    }

    fn on_call(&mut self, call: Call, wall: &mut Wall, threads: &[u16]) {
        let (asked, turn, io, token) = match call {
            Call::Attention(expected) => return self.expected = expected,
            Call::Request { asked, turn, io, token } => (asked, turn, io, token),
        };
        let thread = threads[turn % threads.len()];
        // Nobody needs the result early: it has a mailbox to go through, and a socket.
        wall.lead_by(Span::ZERO);
        let input = Input::Request { thread, io, token: token | CALLED };
        let arrived = wall.arrive_at(asked, input);
        let place = token as usize;
        if place >= self.requests.len() {
            self.requests.resize(place + 1, None);
        }
        self.requests[place] = Some(Called { asked, arrived });
    }

    /// Answer what the model has done, if it has come through the exchange; whether it has.
    #[inline]
    pub fn answer(&mut self, done: &Completed, wall: &mut Wall) -> bool {
        if done.token & CALLED == 0 {
            return false;
        }
        let token = done.token & !CALLED;
        let Called { asked, arrived } = self.requests[token as usize].take().expect("a request completes once");
        wall.pass_on();
        self.exchange.answer(Completed { token, at: asked + done.at.since(arrived) });
        true
    }
}

/// The model, as seen by the thread that asks.
#[derive(Debug)]
pub struct Remote<'a> {
    exchange: &'a Exchange,
    engine: Thread,
    /// What is done but not due: the next first.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    under_way: usize,
    last_lag: Span,
    /// What the engine's thread has been told to expect.
    told: bool,
}

impl Remote<'_> {
    /// The model of the thread `engine`, which serves [`Callers`] of the same exchange.
    pub fn new(exchange: &Exchange, engine: Thread) -> Remote<'_> {
        Remote { exchange, engine, due: BinaryHeap::new(), under_way: 0, last_lag: Span::ZERO, told: false }
    }

    /// Whose turn it is among the modelled threads.
    pub fn next_turn(&self) -> usize {
        self.exchange.next_turn()
    }

    /// Tell the engine's thread, if it does not know, whether clients are there: it may sleep if they are not.
    pub fn expect(&mut self, clients: bool) {
        let expected = clients || self.under_way > 0;
        if self.told != expected {
            self.told = expected;
            self.call(Call::Attention(expected));
        }
    }

    /// A request is asked now, in the turn of its client; the clock's time of that.
    ///
    /// # Panics
    /// If the token has more than 31 bits.
    pub fn ask(&mut self, turn: usize, io: Io, token: u32) -> Time {
        assert!(token & CALLED == 0, "tokens are few");
        let asked = self.exchange.clock.now();
        self.under_way += 1;
        self.call(Call::Request { asked, turn, io, token });
        asked
    }

    fn call(&self, call: Call) {
        self.exchange.calls.put(call);
        self.engine.unpark();
    }

    /// The next result that is due, which is to be handed over at once; its lag ends here. Its instant is the clock's.
    pub fn take_completed(&mut self) -> Option<Completed> {
        let done = self.exchange.done.take();
        self.due.extend(done.into_iter().map(|Completed { token, at }| Reverse((at, token))));
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

    /// How long nothing is due, unless [`Remote::bell`] tells of something else.
    pub fn idle_for(&self) -> Duration {
        let left = |Reverse((at, _)): &Reverse<(Time, u32)>| at.since(self.exchange.clock.now()).as_ps() / 1000;
        self.due.peek().map_or(IDLE_MAX, |next| Duration::from_nanos(left(next)).min(IDLE_MAX))
    }

    /// Becomes readable when results have come, for threads that sleep.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.exchange.bell.as_ref().map(AsFd::as_fd)
    }

    /// The bell has been heard, and can be rung again.
    pub fn silence(&self) {
        if let Some(bell) = &self.exchange.bell {
            // What cannot be read is silent already.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
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
        Exchange { clock: Clock::Set(now), ..Exchange::new(Wait::Block).unwrap() }
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
        let mut remote = Remote::new(&exchange, thread::current());
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        assert!(!callers.listen(&mut wall, &threads));
        assert_eq!(remote.ask(threads.len(), READ, 5), asked);
        assert!(callers.listen(&mut wall, &threads));
        let done = completed(&mut wall);
        assert!(callers.answer(&done, &mut wall));
        assert_eq!(exchange.done.take(), [Completed { token: 5, at: due }]);
        assert!(!callers.answer(&Completed { token: 5, at: due }, &mut wall), "this one does not come from here");
    }

    #[test]
    fn an_engine_that_sleeps_is_woken_by_a_request() {
        let long = Duration::from_secs(10);
        let exchange = exchange(NOW);
        thread::scope(|scope| {
            let engine = scope.spawn(|| {
                let (asleep, (mut wall, threads)) = (Instant::now(), wall());
                thread::park_timeout(long);
                Callers::new(&exchange).listen(&mut wall, &threads) && asleep.elapsed() < long
            });
            Remote::new(&exchange, engine.thread().clone()).ask(0, READ, 0);
            assert!(engine.join().unwrap());
        });
    }

    #[test]
    fn where_the_engine_is_ahead_a_request_enters_it_there_and_takes_as_long_from_its_asking() {
        let exchange = exchange(NOW);
        let mut remote = Remote::new(&exchange, thread::current());
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
        let [due] = exchange.done.take()[..] else { panic!("one is done") };
        assert_eq!(due.at + ahead, done.at);
    }

    #[test]
    fn a_result_is_handed_over_when_it_is_due_and_not_a_picosecond_before() {
        let mut exchange = exchange(NOW);
        let (late, just, early) = (Span::from_ns(70), Span::ZERO, Span::from_ps(1));
        exchange.done.put(Completed { token: 2, at: NOW + early });
        exchange.done.put(Completed { token: 1, at: NOW + just });
        exchange.done.put(Completed { token: 0, at: Time::from_ps(NOW.as_ps() - late.as_ps()) });
        let mut remote = Remote { under_way: 3, ..Remote::new(&exchange, thread::current()) };
        for (token, lag) in [(0, late), (1, just)] {
            assert_eq!(remote.take_completed().map(|done| done.token), Some(token));
            assert_eq!(remote.last_lag(), lag);
        }
        assert_eq!((remote.take_completed(), remote.idle_for()), (None, Duration::ZERO));
        let Remote { due, .. } = remote;
        exchange.clock = Clock::Set(NOW + early);
        let mut remote = Remote { due, under_way: 1, ..Remote::new(&exchange, thread::current()) };
        assert_eq!(remote.take_completed(), Some(Completed { token: 2, at: NOW + early }));
    }

    #[test]
    fn the_bell_is_rung_for_results_and_the_engine_is_told_to_expect_requests_until_they_are_done() {
        let exchange = exchange(NOW);
        let mut remote = Remote::new(&exchange, thread::current());
        let (mut callers, (mut wall, threads)) = (Callers::new(&exchange), wall());
        let rings = |remote: &Remote| {
            let mut bell = [PollFd::from_borrowed_fd(remote.bell().unwrap(), PollFlags::IN)];
            rustix::event::poll(&mut bell, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        remote.expect(true);
        callers.listen(&mut wall, &threads);
        assert!(callers.are_there() && !rings(&remote));
        remote.ask(0, READ, 0);
        remote.expect(false);
        callers.listen(&mut wall, &threads);
        assert!(callers.are_there(), "a request is under way");
        exchange.answer(Completed { token: 0, at: NOW });
        assert!(rings(&remote));
        remote.silence();
        assert!(!rings(&remote) && remote.take_completed().is_some());
        remote.expect(false);
        callers.listen(&mut wall, &threads);
        assert!(!callers.are_there());
    }
}
