//! Loading a served device: jobs in fio's terms against an NBD server, measured at the client.
//!
//! Each thread of a job has a connection of its own and keeps up to `iodepth` requests under way. Latencies count from
//! when the job wanted a request, so that a job with a rate pays for what comes late.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use phaselink_core::random::mix;
use phaselink_core::report::{CpuUse, Energy, JobOutcome, Outcome, WireUse};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Generator, Io, Job, Limits, Next, Op};

use crate::nbd::client::Client;
use crate::nbd::uri::Uri;
use crate::nbd::wire::{Request, command};
use crate::tally::Tally;
use crate::wall::Clock;

/// Shorter waits are spent looking, as sleeping takes longer.
const SLEEP_MIN: Span = Span::from_us(60);

/// What jobs may ask of a server: NBD has no queues, so that only the size of a request limits how many there are.
///
/// # Errors
/// If there is no such server.
pub fn limits(uri: &Uri) -> io::Result<Limits> {
    let client = Client::connect(uri)?;
    let capacity_bytes = client.capacity_bytes;
    client.disconnect()?;
    Ok(Limits { capacity_bytes, queue_pairs: 1 << 16, queue_entries: 4096, block_bytes: 512, write_block_bytes: 512 })
}

/// Run `jobs` against the server at `uri` until they are done or `stop` says so.
///
/// # Errors
/// If a connection cannot be made or breaks.
pub fn run(uri: &Uri, jobs: &[Job], seed: u64, stop: &AtomicBool) -> io::Result<Outcome> {
    let limits = limits(uri)?;
    let threads: Vec<(usize, u32)> =
        (0..jobs.len()).flat_map(|place| (0..jobs[place].threads).map(move |number| (place, number))).collect();
    let connected = threads.iter().map(|(place, number)| {
        let generator = Generator::new(&jobs[*place], *number, limits.capacity_bytes, seed);
        Ok((*place, Loader::new(Client::connect(uri)?, &jobs[*place], generator)))
    });
    let loaders = connected.collect::<io::Result<Vec<_>>>()?;
    let clock = Clock::start();
    let measured = thread::scope(|scope| {
        let running: Vec<_> = loaders
            .into_iter()
            .map(|(place, loader)| {
                let clock = clock.clone();
                (place, scope.spawn(move || loader.run(&clock, stop)))
            })
            .collect();
        let joined = running.into_iter().map(|(place, thread)| {
            let measured = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has failed")))?;
            Ok((place, measured))
        });
        joined.collect::<io::Result<Vec<(usize, Measured)>>>()
    })?;
    Ok(outcome(uri, jobs, seed, &measured, !stop.load(Ordering::Relaxed)))
}

/// What one thread has measured.
#[derive(Debug, Default)]
struct Measured {
    tally: Tally,
    last: Time,
}

fn outcome(uri: &Uri, jobs: &[Job], seed: u64, measured: &[(usize, Measured)], finished: bool) -> Outcome {
    let errors = measured.iter().map(|(_, measured)| measured.tally.errors).sum();
    let last = measured.iter().map(|(_, measured)| measured.last).max().unwrap_or(Time::ZERO);
    Outcome {
        drive: uri.to_string(),
        seed,
        elapsed: last.since(Time::ZERO),
        jobs: jobs.iter().enumerate().map(|(place, job)| job_outcome(place, job, measured)).collect(),
        upstream: WireUse::default(),
        downstream: WireUse::default(),
        cpu: CpuUse::default(),
        energy: Energy::default(),
        memory_j: None,
        stack_stages: Vec::new(),
        counters: vec![("errors", errors)],
        events: 0,
        finished,
    }
}

fn job_outcome(place: usize, job: &Job, measured: &[(usize, Measured)]) -> JobOutcome {
    let (mut sum, mut last) = (Tally::default(), Time::ZERO);
    for (_, measured) in measured.iter().filter(|(of, _)| *of == place) {
        sum.merge(&measured.tally);
        last = last.max(measured.last);
    }
    let runtime = last.since(Time::ZERO).saturating_sub(job.ramp_time);
    JobOutcome {
        name: job.name.clone(),
        iodepth: job.iodepth,
        threads: job.threads,
        read: sum.read.outcome(runtime),
        write: sum.write.outcome(runtime),
    }
}

/// One thread of a job.
struct Loader {
    client: Client,
    generator: Generator,
    ramp_end: Time,
    /// By cookie: what is under way, and since when it was wanted.
    under_way: Vec<Option<Next>>,
    free: Vec<usize>,
    next: Option<Next>,
    done: bool,
    data: Vec<u8>,
    measured: Measured,
}

impl Loader {
    fn new(client: Client, job: &Job, generator: Generator) -> Loader {
        let depth = job.iodepth as usize;
        let largest = job.write_blocks.iter().map(|share| share.bytes).max().unwrap_or(0);
        let replayed = job.trace.iter().flat_map(|ios| ios.iter()).map(|entry| entry.io.bytes).max().unwrap_or(0);
        Loader {
            client,
            generator,
            ramp_end: Time::ZERO + job.ramp_time,
            under_way: vec![None; depth],
            free: (0..depth).collect(),
            next: None,
            done: false,
            data: (0..u64::from(largest.max(replayed))).map(|place| mix(place) as u8).collect(),
            measured: Measured::default(),
        }
    }

    fn run(mut self, clock: &Clock, stop: &AtomicBool) -> io::Result<Measured> {
        loop {
            self.done |= stop.load(Ordering::Relaxed);
            let due = self.fill(clock.now());
            if self.done && self.free.len() == self.under_way.len() {
                self.client.disconnect()?;
                return Ok(self.measured);
            }
            self.client.send()?;
            self.wait(due, clock)?;
            self.reap(clock)?;
        }
    }

    /// Ask for everything that is due and has a slot; when the next one is due, if that is known.
    fn fill(&mut self, now: Time) -> Option<Time> {
        while !self.done && !self.free.is_empty() {
            if self.next.is_none() {
                self.next = self.generator.next(now);
            }
            match self.next {
                None => self.done = true,
                Some(next) if next.due > now => return Some(next.due),
                Some(next) => self.ask(next),
            }
        }
        None
    }

    fn ask(&mut self, next: Next) {
        let Some(slot) = self.free.pop() else { return };
        let Io { op, offset, bytes } = next.io;
        let command = if op == Op::Read { command::READ } else { command::WRITE };
        let data = if op == Op::Read { &[][..] } else { &self.data[..bytes as usize] };
        self.client.ask(&Request { flags: 0, command, cookie: slot as u64, offset, length: bytes }, data);
        self.under_way[slot] = Some(next);
        self.next = None;
    }

    fn wait(&self, due: Option<Time>, clock: &Clock) -> io::Result<()> {
        let Some(due) = due else { return self.client.sleep(None) };
        let left = Span::from_ps(due.as_ps().saturating_sub(clock.now().as_ps()));
        let sleeps = left > SLEEP_MIN;
        let timeout = if sleeps { left.saturating_sub(SLEEP_MIN) } else { Span::ZERO };
        self.client.sleep(Some(Duration::from_nanos(timeout.as_ps() / 1000)))
    }

    /// Take all answers that have come.
    fn reap(&mut self, clock: &Clock) -> io::Result<()> {
        self.client.receive()?;
        let now = clock.now();
        let under_way = &self.under_way;
        let bytes_of = |cookie: u64| {
            let next = under_way.get(cookie as usize).copied().flatten();
            next.filter(|next| next.io.op == Op::Read).map_or(0, |next| next.io.bytes as usize)
        };
        let mut answers = Vec::new();
        while let Some(answer) = self.client.answer(bytes_of)? {
            answers.push(answer);
        }
        for answer in answers {
            let slot = answer.cookie as usize;
            let asked = self.under_way.get_mut(slot).and_then(Option::take);
            let next = asked.ok_or_else(|| io::Error::other("an answer to nothing that was asked"))?;
            self.free.push(slot);
            self.measured.last = now;
            self.measured.tally.errors += u64::from(answer.error != 0);
            if next.due >= self.ramp_end && answer.error == 0 {
                self.measured.tally.direction(next.io.op).count(next.io.bytes, now.since(next.due));
            }
        }
        Ok(())
    }
}
