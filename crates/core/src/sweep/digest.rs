//! A name for everything that a run depends on: equal runs have equal hashes, on every machine.
//!
//! FNV-1a with 128 bits over the version of the program, the resolved drive as TOML, the resolved jobs
//! and the seed. Of a million runs, two get the same hash with a chance below 10^-26 (birthday bound).

use std::fmt;

use crate::drive::Drive;
use crate::time::Span;
use crate::workload::trace::Requests;
use crate::workload::{Batch, BlockShare, Distribution, Job, Pattern, RateProcess, Way};

/// Parameters of FNV-1a with 128 bits, as published by its authors (Fowler, Noll and Vo).
const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// Digits of a hash as it is written.
const DIGITS: usize = 32;

/// The hash of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(u128);

impl Hash {
    /// The hash of `jobs` on `drive` with `seed`, run by this version of the program.
    pub fn of(drive: &Drive, jobs: &[Job], seed: u64) -> Hash {
        Hash::of_parts(env!("CARGO_PKG_VERSION"), &drive.to_toml(), jobs, seed)
    }

    fn of_parts(version: &str, drive: &str, jobs: &[Job], seed: u64) -> Hash {
        let mut digest = Digest(OFFSET_BASIS);
        digest.text(version);
        digest.text(drive);
        digest.number(jobs.len() as u64);
        jobs.iter().for_each(|job| digest.job(job));
        digest.number(seed);
        Hash(digest.0)
    }

    /// The hash of the same run where it ends once mean and p99 are known to `share`.
    pub fn until(self, share: f64) -> Hash {
        let mut digest = Digest(self.0);
        digest.text("precision");
        digest.number(share.to_bits());
        Hash(digest.0)
    }

    /// The hash that is written as `text`, if one is.
    pub fn parse(text: &str) -> Option<Hash> {
        let is_hash = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| u128::from_str_radix(text, 16).ok().map(Hash))?
    }
}

impl fmt::Display for Hash {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

struct Digest(u128);

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// With its length, so that two texts never read as one.
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    /// By its bits: what is not equal to the last digit is another run.
    fn float(&mut self, float: f64) {
        self.number(float.to_bits());
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }

    /// Every field: the pattern names them all, so that a new one cannot be forgotten.
    fn job(&mut self, job: &Job) {
        let Job {
            name,
            pattern,
            read_percent,
            read_blocks,
            write_blocks,
            iodepth,
            threads,
            offset,
            size,
            io_bytes,
            ios,
            runtime,
            time_based,
            ramp_time,
            start_delay: _,
            waits: _,
            thinktime,
            thinktime_blocks,
            rate_iops_read: _,
            rate_iops_write: _,
            rate_process: _,
            distribution: _,
            way: _,
            batch: _,
            flushes: _,
            trace: _,
            replay_percent: _,
            replay_no_stall: _,
        } = job;
        self.text(name);
        self.number(u64::from(*pattern == Pattern::Random));
        self.float(*read_percent);
        self.blocks(read_blocks);
        self.blocks(write_blocks);
        for number in [iodepth, threads, thinktime_blocks] {
            self.number(u64::from(*number));
        }
        self.number(*offset);
        for limit in [*size, *io_bytes, *ios, runtime.map(|span| span.as_ps())] {
            self.optional(limit);
        }
        self.number(u64::from(*time_based));
        self.number(ramp_time.as_ps());
        self.number(thinktime.as_ps());
        self.rates(job);
        self.later_fields(job);
    }

    /// Adds fields that count only where they differ from their defaults, and the requests of a trace.
    fn later_fields(&mut self, job: &Job) {
        if job.way != Way::default() {
            self.way(&job.way);
        }
        if job.batch != Batch::default() {
            self.batch(job.batch);
        }
        for (name, value) in job.flushes.named() {
            self.text(name);
            self.number(value.into());
        }
        if (job.start_delay, job.waits) != (Span::ZERO, false) {
            self.number(job.start_delay.as_ps());
            self.number(u64::from(job.waits));
        }
        if (job.replay_percent, job.replay_no_stall) != (100, false) {
            self.number(u64::from(job.replay_percent));
            self.number(u64::from(job.replay_no_stall));
        }
        self.optional(job.trace.as_ref().map(Requests::count));
        for request in job.trace.iter().flat_map(Requests::iter) {
            self.number(request.at.as_ps());
            self.number(request.io.op as u64);
            self.number(request.io.offset);
            self.number(u64::from(request.io.bytes));
        }
    }

    fn rates(&mut self, job: &Job) {
        self.optional(job.rate_iops_read.map(f64::to_bits));
        self.optional(job.rate_iops_write.map(f64::to_bits));
        self.number(u64::from(job.rate_process == RateProcess::Poisson));
        self.distribution(job.distribution);
    }

    fn way(&mut self, way: &Way) {
        let Way { engine, switches, poller_cpu } = way;
        self.text(engine.as_deref().unwrap_or_default());
        for (_, is_on) in switches.named() {
            self.number(u64::from(is_on));
        }
        self.optional(poller_cpu.map(u64::from));
    }

    fn batch(&mut self, batch: Batch) {
        let Batch { submit, complete_min, complete_max, low } = batch;
        self.optional(submit.map(u64::from));
        self.number(complete_min.into());
        self.optional(complete_max.map(u64::from));
        self.number(low.into());
    }

    fn blocks(&mut self, blocks: &[BlockShare]) {
        self.number(blocks.len() as u64);
        for share in blocks {
            self.number(u64::from(share.bytes));
            self.float(share.percent);
        }
    }

    fn distribution(&mut self, distribution: Distribution) {
        let (name, parameter) = match distribution {
            Distribution::Uniform => ("random", 0.0),
            Distribution::Zipf(theta) => ("zipf", theta),
            Distribution::Pareto(power) => ("pareto", power),
            Distribution::Normal(percent) => ("normal", percent),
        };
        self.text(name);
        self.float(parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fnv(text: &str) -> Hash {
        let mut digest = Digest(OFFSET_BASIS);
        digest.bytes(text.as_bytes());
        Hash(digest.0)
    }

    #[test]
    fn the_function_is_the_published_one() {
        // Test vectors of the authors' reference code.
        assert_eq!(fnv("").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(fnv("a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(fnv("foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn a_written_hash_reads_back_and_nothing_else_does() {
        let hash = fnv("x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        for text in ["", "1", "+2345678901234567890123456789012", "zz62272e07bb014262b821756295c58d"] {
            assert_eq!(Hash::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_hash_stays_what_it_was_under_other_compilers_and_on_other_machines() {
        // State files hold such hashes: another value here makes every kept run be forgotten.
        let job = Job { ios: Some(1000), distribution: Distribution::Zipf(1.2), ..Job::named("job") };
        let hash = Hash::of_parts("1.2.3", "[media]\nread_ns = 110\n", &[job], 7);
        expect_test::expect!["97a86d06633ae546690c277afd1e97b3"].assert_eq(&hash.to_string());
    }

    #[test]
    fn drive_job_and_seed_all_count() {
        let (drive, job) = (Drive::shipped("nvme").unwrap(), Job { ios: Some(9), ..Job::named("a") });
        let hash = Hash::of(&drive, std::slice::from_ref(&job), 1);
        let deeper = Job { iodepth: 2, ..job.clone() };
        let mut slower = drive.clone();
        slower.media.channels += 1;
        assert_eq!(hash, Hash::of(&drive.clone(), std::slice::from_ref(&job), 1));
        assert_ne!(hash, Hash::of(&drive, std::slice::from_ref(&job), 2));
        assert_ne!(hash, Hash::of(&drive, &[deeper], 1));
        assert_ne!(hash, Hash::of(&slower, std::slice::from_ref(&job), 1));
        assert_ne!(hash, Hash::of(&drive, &[job.clone(), job], 1));
    }
}
