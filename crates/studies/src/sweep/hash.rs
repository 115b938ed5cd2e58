//! Hash of everything that a run depends on: equal runs have equal hashes, on every machine.
//!
//! The hash is FNV-1a with 128 bits over the run as JSON: version of the program, resolved drive, resolved jobs, seed.
//! Keys are in the order of their declarations, and numbers have the fewest digits that identify them. Among a million
//! runs, two get equal hashes with a probability below 10^-26 (birthday bound).

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use phaselink_core::drive::Drive;
use phaselink_core::workload::Job;

/// Initial value of the 128-bit FNV-1a hash, as published by its authors (Fowler, Noll and Vo). The next constant is
/// its multiplier.
const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// Number of hexadecimal digits of a run's hash in text form.
const DIGITS: usize = 32;

/// 128-bit hash that identifies a run by all its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(u128);

/// Inputs of a run that enter its hash.
#[derive(Serialize)]
struct HashedRunInputs<'a> {
    version: &'a str,
    drive: &'a Value,
    jobs: &'a [Job],
    seed: u64,
}

impl Hash {
    /// Returns the hash of `jobs` on `drive` with `seed`, run by this version of the program.
    pub fn of(drive: &Drive, jobs: &[Job], seed: u64) -> Hash {
        let (version, drive) = (env!("CARGO_PKG_VERSION"), &drive.resolved());
        Hash::of_json(&HashedRunInputs { version, drive, jobs, seed })
    }

    fn of_json(run: &impl Serialize) -> Hash {
        let mut hasher = FnvHasher(OFFSET_BASIS);
        // The hasher accepts any input and all keys are strings, so this cannot fail.
        let written = serde_json::to_writer(&mut hasher, run);
        debug_assert!(written.is_ok());
        Hash(hasher.0)
    }

    /// Returns the hash of this run if it ends as soon as its mean and p99 latency are known to the relative precision
    /// `share`.
    pub fn until(self, share: f64) -> Hash {
        Hash::of_json(&(self.to_string(), "precision", share))
    }

    /// Parses the hash of a run from its 32 hexadecimal digits; `None` for any other text.
    pub fn parse(text: &str) -> Option<Hash> {
        let is_hash = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| u128::from_str_radix(text, 16).ok().map(Hash))?
    }
}

impl fmt::Display for Hash {
    /// Writes the run's hash as 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Running FNV-1a hash of all bytes that are written to it.
struct FnvHasher(u128);

impl Write for FnvHasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::workload::Distribution;

    fn fnv_hash(text: &str) -> Hash {
        let mut hasher = FnvHasher(OFFSET_BASIS);
        hasher.write_all(text.as_bytes()).unwrap();
        Hash(hasher.0)
    }

    #[test]
    fn hash_equals_the_published_fnv_1a_values() {
        // Test vectors of the authors' reference code.
        assert_eq!(fnv_hash("").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(fnv_hash("a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(fnv_hash("foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn hash_text_reads_back_and_other_texts_are_refused() {
        let hash = fnv_hash("x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        for text in ["", "1", "+2345678901234567890123456789012", "zz62272e07bb014262b821756295c58d"] {
            assert_eq!(Hash::parse(text), None, "{text}");
        }
    }

    #[test]
    fn stored_hashes_stay_valid_across_versions_and_machines() {
        // State files store these hashes. If the value changes, all kept runs are lost, so the state format needs a new
        // version.
        let job = Job { ios: Some(1000), distribution: Distribution::Zipf(1.2), ..Job::named("job") };
        let drive = serde_json::json!({ "media": { "read_ns": 110 } });
        let run = HashedRunInputs { version: "1.2.3", drive: &drive, jobs: &[job], seed: 7 };
        expect_test::expect!["13e174c911e0686fa2c8f16944ab7a9b"].assert_eq(&Hash::of_json(&run).to_string());
    }

    #[test]
    fn hash_depends_on_drive_job_and_seed() {
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
        assert_ne!(hash, hash.until(0.01));
    }
}
