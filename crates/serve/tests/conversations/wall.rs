//! The wall loop and the virtual loop are two drivers of one device.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::ledger::Record;
use phaselink_core::random::mix;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_serve::model::wall::{Clock, LONE_LEAD, WallClockEngine};

const REQUESTS: u32 = 200;

/// A device with one client, recording.
fn engine(drive: &Drive) -> (Engine, u16) {
    let mut engine = Engine::new(drive, 1);
    engine.record(usize::MAX);
    let thread = engine.add_client(16);
    (engine, thread)
}

/// Reads and writes of several sizes at irregular times, some of them at the same instant.
fn irregular_arrivals(thread: u16) -> Vec<(Time, Input)> {
    let mut at = Time::ZERO;
    let arrival = |token| {
        let draw = mix(u64::from(token));
        at += Span::from_ns(draw % 4 * (draw >> 8) % 9_000);
        let op = if draw.is_multiple_of(5) { Op::Write } else { Op::Read };
        let io = Io { op, offset: (draw >> 20) % 1000 * 4096, bytes: 512 << (draw % 4) };
        (at, Input::Request { thread, io, token })
    };
    (0..REQUESTS).map(arrival).collect()
}

fn drain(mut engine: Engine, mut done: Vec<Completed>) -> (Vec<Completed>, Vec<Record>) {
    while done.len() < REQUESTS as usize {
        let next = engine.next_at().expect("requests are under way");
        engine.run_until(next);
        done.extend(std::iter::from_fn(|| engine.take_completed()));
    }
    (done, engine.trace().records().to_vec())
}

fn run_in_virtual_time(drive: &Drive) -> (Vec<Completed>, Vec<Record>) {
    let (mut engine, thread) = engine(drive);
    irregular_arrivals(thread).into_iter().for_each(|(at, input)| engine.inject(at, input));
    drain(engine, Vec::new())
}

/// The clock moves in steps that have nothing to do with the model's.
fn run_on_stepped_clock(drive: &Drive) -> (Vec<Completed>, Vec<Record>) {
    let (engine, thread) = engine(drive);
    let mut wall = WallClockEngine::new(engine, Clock::Set(Time::ZERO));
    let (mut now, mut done) = (Time::ZERO, Vec::new());
    for (at, input) in irregular_arrivals(thread) {
        while now < at {
            now = at.min(now + Span::from_ps(mix(now.as_ps()) % 3_000_000 + 1));
            *wall.clock_mut() = Clock::Set(now);
            wall.advance();
            done.extend(std::iter::from_fn(|| wall.take_completed()));
        }
        assert_eq!(wall.arrive(input), at);
    }
    drain(wall.engine().clone(), done)
}

#[test]
fn virtual_and_wall_clock_loops_agree_on_shipped_drives() {
    for name in shipped::names() {
        let drive = Drive::shipped(name).unwrap();
        let (expected, found) = (run_in_virtual_time(&drive), run_on_stepped_clock(&drive));
        assert!(expected.1.len() > 5 * REQUESTS as usize, "{name} records packets");
        assert_eq!(expected.0, found.0, "{name}");
        assert!(expected.1 == found.1, "{name}: the packets differ");
    }
}

#[test]
fn result_is_delivered_exactly_at_its_modelled_instant() {
    let drive = Drive::shipped("dc-express").unwrap();
    let (engine, thread) = engine(&drive);
    let mut wall = WallClockEngine::new(engine, Clock::Set(Time::ZERO));
    let io = Io { op: Op::Read, offset: 0, bytes: 512 };
    wall.arrive(Input::Request { thread, io, token: 3 });
    let mut ahead = wall.engine().clone();
    let due = loop {
        ahead.run_until(ahead.next_at().unwrap());
        if let Some(done) = ahead.take_completed() {
            break done.at;
        }
    };
    *wall.clock_mut() = Clock::Set(Time::from_ps(due.as_ps() - 1));
    wall.advance();
    assert_eq!(wall.take_completed(), None);
    *wall.clock_mut() = Clock::Set(due + Span::from_ns(70));
    wall.advance();
    assert_eq!(wall.take_completed(), Some(Completed { token: 3, at: due, error: None }));
    assert_eq!((wall.lag().count(), wall.lag().max()), (1, Span::from_ns(70)));
}

fn jump(wall: &mut WallClockEngine, by: Span) {
    let now = wall.clock_mut().now();
    *wall.clock_mut() = Clock::Set(now + by);
    wall.advance();
}

#[test]
fn overloaded_model_is_held_back_and_charges_requests_in_flight() {
    let drive = Drive::shipped("dc-express").unwrap();
    let mut engine = Engine::new(&drive, 1);
    let thread = engine.add_client(1);
    let mut wall = WallClockEngine::new(engine, Clock::Set(Time::ZERO));
    let request = Input::Request { thread, io: Io { op: Op::Read, offset: 0, bytes: 512 }, token: 0 };
    // The endpoint polls millions of times in these 3 s without anybody waiting, so the clock skips that work.
    jump(&mut wall, Span::from_s(3));
    wall.arrive(request);
    jump(&mut wall, Span::from_us(20));
    wall.take_completed().expect("it is long done");
    assert!(wall.lag().max() < Span::from_us(20), "{:?}", wall.lag().max());
    wall.arrive(request);
    jump(&mut wall, Span::from_s(3));
    wall.take_completed().expect("it is long done");
    assert!(wall.lag().max() > Span::from_ms(2_999), "{:?}", wall.lag().max());
}

#[test]
fn request_does_not_wait_for_missed_idle_events() {
    let drive = Drive::shipped("dc-express").unwrap();
    let (engine, thread) = engine(&drive);
    let mut wall = WallClockEngine::new(engine, Clock::Set(Time::ZERO + Span::from_s(3)));
    let io = Io { op: Op::Read, offset: 0, bytes: 512 };
    let arrived = wall.arrive(Input::Request { thread, io, token: 0 });
    assert!(arrived < Time::ZERO + Span::from_ms(1), "{arrived:?}: three seconds of looking for work were made up");
    assert_eq!(wall.now(), arrived, "the model is held back to where it is");
}

#[test]
fn result_with_a_lead_is_early_without_lag() {
    let drive = Drive::shipped("dc-express").unwrap();
    let (engine, thread) = engine(&drive);
    let request = |token| Input::Request { thread, io: Io { op: Op::Read, offset: 0, bytes: 512 }, token };
    let start = Time::ZERO + Span::from_us(10);
    // With two requests at the same instant, the first does not get the lead of a lone request.
    for expected_lead in [Span::from_ns(600) + LONE_LEAD, Span::from_ns(600)] {
        let requests = if expected_lead > LONE_LEAD { 1 } else { 2 };
        let mut alone = engine.clone();
        (0..requests).for_each(|token| alone.inject(start, request(token)));
        let expected = drain_one(alone);

        let mut wall = WallClockEngine::new(engine.clone(), Clock::Set(start));
        assert_eq!(wall.run_with_lead(wall.now()), None);
        wall.set_lead(Span::from_ns(600));
        for token in 0..requests {
            assert_eq!(wall.arrive(request(token)), start);
        }
        let known = Time::ZERO + expected.at.since(Time::ZERO + expected_lead);
        *wall.clock_mut() = Clock::Set(Time::ZERO + known.since(Time::ZERO + Span::from_ps(1)));
        assert_eq!(wall.run_with_lead(wall.now()), None, "not a picosecond sooner");
        *wall.clock_mut() = Clock::Set(known);
        assert_eq!(wall.run_with_lead(wall.now()), Some(expected));
        wall.hand_over(known, known);
        assert_eq!((wall.lag().count(), wall.last_lag()), (1, Span::ZERO));
    }
}

fn drain_one(mut engine: Engine) -> Completed {
    loop {
        let next = engine.next_at().expect("a request is under way");
        engine.run_until(next);
        if let Some(done) = engine.take_completed() {
            return done;
        }
    }
}

#[test]
fn doorbell_counts_from_its_write_not_its_discovery() {
    let drive = Drive::shipped("nvme").unwrap();
    let found = Time::ZERO + Span::from_us(5);
    let rung = Time::ZERO + Span::from_us(4);
    let mut wall = WallClockEngine::new(Engine::for_real_host_drivers(&drive, 1).unwrap(), Clock::Set(found));
    assert!(wall.begin_queue(0, 64, true));
    assert_eq!(wall.ring(rung, 0, [].into_iter()), rung);
}
