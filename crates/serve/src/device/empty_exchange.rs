//! Time of an empty exchange between two threads, over a socket, eventfds or a ring. A client's own transport takes no
//! less than this.
//!
//! An exchange is measured before anything is served, and printed beside the lag. A client measures the modelled time
//! plus the lag, and at least the time of an exchange. The server's thread spins, as it does while there is work, and
//! the client's sleeps in its system call, as clients of sockets and virtual machines do. With a ring, both spin.

use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::time::Span;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::clock::span;
use crate::device::report::EmptyExchangeTime;

/// Maximum number of exchanges that one measurement makes.
const EXCHANGES: usize = 200;
/// Time after which a measurement of exchanges ends.
const TIME_MAX: Duration = Duration::from_millis(50);

/// Measures an exchange over a Unix socket: `bytes[0]` bytes to the server and `bytes[1]` back.
///
/// # Errors
///
/// If the system refuses a socket, or a transfer fails.
pub fn measure_over_unix_socket(front: &'static str, bytes: [usize; 2]) -> io::Result<EmptyExchangeTime> {
    let (client, server) = UnixStream::pair()?;
    server.set_nonblocking(true)?;
    Ok(EmptyExchangeTime { front, over: "a Unix socket", takes: measure_over_streams(client, server, bytes)? })
}

/// Measures an exchange over TCP on this machine: `bytes[0]` bytes to the server and `bytes[1]` back.
///
/// # Errors
///
/// If the system refuses a socket, or a transfer fails.
pub fn over_tcp(front: &'static str, bytes: [usize; 2]) -> io::Result<EmptyExchangeTime> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    [&client, &server].into_iter().try_for_each(|end| end.set_nodelay(true))?;
    server.set_nonblocking(true)?;
    Ok(EmptyExchangeTime { front, over: "TCP", takes: measure_over_streams(client, server, bytes)? })
}

/// Measures an exchange in which the server answers by an eventfd signal. The client sends a message of `message_bytes`
/// bytes, or an eventfd signal too if that is none.
///
/// # Errors
///
/// If the system refuses a descriptor, or a transfer fails.
pub fn measure_over_eventfds(front: &'static str, message_bytes: Option<usize>) -> io::Result<EmptyExchangeTime> {
    let back = eventfd(0, EventfdFlags::CLOEXEC)?;
    let hear = || rustix::io::read(&back, &mut [0; 8]).map(drop).map_err(io::Error::from);
    let ring = || rustix::io::write(&back, &1_u64.to_ne_bytes()).map(drop).map_err(io::Error::from);
    let Some(bytes) = message_bytes else {
        let there = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ask = || {
            rustix::io::write(&there, &1_u64.to_ne_bytes())?;
            hear()
        };
        let answer = || match rustix::io::read(&there, &mut [0; 8]) {
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            other => other.map_err(io::Error::from).and_then(|_| ring()).map(|()| true),
        };
        return Ok(EmptyExchangeTime { front, over: "two events", takes: median(ask, answer)? });
    };
    let (mut client, mut server) = UnixStream::pair()?;
    server.set_nonblocking(true)?;
    let (message, mut heard) = (vec![0; bytes], vec![0; bytes]);
    let ask = || client.write_all(&message).and_then(|()| hear());
    let answer = || Ok(try_receive_message(&mut server, &mut heard)? && ring().map(|()| true)?);
    Ok(EmptyExchangeTime { front, over: "a message and an event", takes: median(ask, answer)? })
}

/// Measures an exchange of one word in memory that both threads poll.
pub fn in_memory(front: &'static str) -> EmptyExchangeTime {
    let takes = Some(measure_word_round_trip()).filter(|takes| !takes.is_zero());
    EmptyExchangeTime { front, over: "a ring", takes }
}

fn measure_over_streams(
    mut client: impl Read + Write,
    mut server: impl Read + Write + Send,
    [there, back]: [usize; 2],
) -> io::Result<Option<Span>> {
    let (request, mut found) = (vec![0; there], vec![0; there]);
    let (reply, mut answer) = (vec![0; back], vec![0; back]);
    let ask = || client.write_all(&request).and_then(|()| client.read_exact(&mut answer));
    let serve = || match try_receive_message(&mut server, &mut found)? {
        true => server.write_all(&reply).map(|()| true),
        false => Ok(false),
    };
    median(ask, serve)
}

/// Reads a message from a non-blocking stream. Returns true if one was there; messages arrive whole or not at all.
fn try_receive_message(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read(into) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the median time of calls of `ask` while another thread calls `answer`, which returns true if it has answered
/// a request. None if no call ends in time.
fn median(
    mut ask: impl FnMut() -> io::Result<()>,
    mut answer: impl FnMut() -> io::Result<bool> + Send,
) -> io::Result<Option<Span>> {
    let is_over = AtomicBool::new(false);
    let serve = || {
        while !is_over.load(Ordering::Relaxed) {
            if !answer()? {
                thread::yield_now();
            }
        }
        Ok::<_, io::Error>(())
    };
    thread::scope(|scope| {
        let serving = thread::Builder::new().spawn_scoped(scope, serve)?;
        let (until, mut taken) = (Instant::now() + TIME_MAX, Vec::with_capacity(EXCHANGES));
        while taken.len() < EXCHANGES && Instant::now() < until {
            let asked = Instant::now();
            let done = ask();
            is_over.fetch_or(done.is_err(), Ordering::Relaxed);
            done?;
            taken.push(asked.elapsed());
        }
        is_over.store(true, Ordering::Relaxed);
        serving.join().unwrap_or_else(|_| Err(io::Error::other("the thread that answers has failed")))?;
        taken.sort_unstable();
        Ok(taken.get(taken.len() / 2).map(|median| span(*median)))
    })
}

/// Number of word exchanges that are measured. `WORD_EXCHANGE_MAX` is the longest median that counts: beyond, another
/// thread had the processor.
const WORD_EXCHANGES: usize = 1000;
const WORD_EXCHANGE_MAX: Duration = Duration::from_micros(10);

/// Measures the time of a word from one processor to another and back: the median of a thousand exchanges with a thread
/// on any other processor. Returns zero if two threads never run at once.
pub(crate) fn measure_word_round_trip() -> Span {
    let (there, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (here, until) = (sched_getcpu(), Instant::now() + WORD_EXCHANGE_MAX * WORD_EXCHANGES as u32);
    let answer = || {
        exclude_processor(here);
        while there.load(Ordering::Acquire) < WORD_EXCHANGES && Instant::now() < until {
            back.store(there.load(Ordering::Acquire), Ordering::Release);
        }
        back.store(usize::MAX, Ordering::Release);
    };
    let exchange = |number: usize| {
        let asked = Instant::now();
        there.store(number, Ordering::Release);
        while back.load(Ordering::Acquire) < number {
            hint::spin_loop();
        }
        asked.elapsed()
    };
    let is_open = |_: &Duration| back.load(Ordering::Acquire) != usize::MAX;
    let mut taken: Vec<Duration> = thread::scope(|scope| {
        scope.spawn(answer);
        let taken = (1..WORD_EXCHANGES).map(exchange).take_while(is_open).collect();
        there.store(WORD_EXCHANGES, Ordering::Release);
        taken
    });
    taken.sort_unstable();
    taken.get(taken.len() / 2).filter(|median| **median < WORD_EXCHANGE_MAX).map_or(Span::ZERO, |median| span(*median))
}

/// Allows the calling thread to run on any processor but `processor`, even if the process is bound to that one.
fn exclude_processor(processor: usize) {
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|other| *other != processor).for_each(|other| others.set(other));
    // On a machine with a single processor, the call fails and the thread stays where it is.
    let _ = sched_setaffinity(None, &others);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_and_eventfd_exchanges_take_between_100_ns_and_50_ms() {
        let started = Instant::now();
        let found = [
            measure_over_unix_socket("nbd", [28, 16]).unwrap(),
            over_tcp("nbd", [28, 16]).unwrap(),
            measure_over_eventfds("vhost-user", None).unwrap(),
            measure_over_eventfds("vfio-user", Some(36)).unwrap(),
        ];
        for exchange in found {
            let takes = exchange.takes.expect("one fits");
            assert!(takes > Span::from_ns(100) && takes <= span(TIME_MAX), "{exchange:?}");
        }
        assert!(started.elapsed() < 20 * TIME_MAX);
    }

    #[test]
    fn late_answer_is_measured_with_its_whole_delay() {
        let late = Duration::from_millis(2);
        let (mut client, mut server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let ask = || client.write_all(&[0]).and_then(|()| client.read_exact(&mut [0]));
        let answer = || {
            let has_come = try_receive_message(&mut server, &mut [0])?;
            if has_come {
                thread::sleep(late);
                server.write_all(&[0])?;
            }
            Ok(has_come)
        };
        assert!(median(ask, answer).unwrap().unwrap() >= span(late));
    }

    #[test]
    fn word_exchange_takes_less_than_10_us_or_is_reported_as_zero() {
        let started = Instant::now();
        let taken = measure_word_round_trip();
        assert!(taken < Span::from_us(10), "{taken:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
