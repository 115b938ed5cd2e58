//! Checks of jobs on a drive that stores values by key: the offset of a request selects the key, and the size of a
//! request is that of the value.

use super::{JobFinding, Limits, when};
use crate::workload::Job;

/// Room for keys and values on a drive that stores values by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueSpace {
    /// Number of bytes of the drive that can hold values.
    pub capacity_bytes: u64,
    /// Unit of allocation in bytes: each value takes a whole number of units.
    pub granule_bytes: u32,
    /// Largest number of keys that the drive can store.
    pub keys_max: u32,
    /// Largest size of a value in bytes.
    pub value_bytes_max: u32,
}

/// Keys that exist on a drive before a job starts: one for the offset of each request that the job can make, with a
/// value of the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilledKeys {
    /// Offset in bytes that stands for the first key.
    pub offset: u64,
    /// Number of keys, and of their values.
    pub keys: u64,
    /// Length of each value in bytes, which is also the distance between the offsets of two keys.
    pub value_bytes: u32,
}

impl Job {
    /// Returns the keys that exist before the job starts on a drive of this capacity.
    pub fn keys_before_start(&self, capacity_bytes: u64) -> FilledKeys {
        let value_bytes = self.sizes().into_iter().max().unwrap_or(1).max(1);
        let keys = self.region_bytes(capacity_bytes) / u64::from(value_bytes);
        FilledKeys { offset: self.offset, keys, value_bytes }
    }
}

/// Refuses traces on a drive that stores values by key, because their requests address blocks.
pub(super) fn trace(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let found = String::from("the trace is about blocks, and the drive stores values by their keys");
    when(
        limits.keys.is_some() && job.trace.is_some(),
        "read_iolog",
        found,
        "a job without a trace, or a drive with blocks",
    )
}

/// Refuses values larger than the drive's largest, and values of several sizes: a read would find a value of another
/// size than it expects.
pub(super) fn values(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let space = limits.keys.filter(|_| job.trace.is_none())?;
    let mut sizes = job.sizes();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes[..] {
        [bytes] => {
            let found = format!("values have {bytes} bytes");
            let allowed = format!("up to {} bytes (key_value.value_max_kib)", space.value_bytes_max);
            when(bytes > space.value_bytes_max, "bs", found, allowed)
        }
        _ => {
            let found = format!("values have {} sizes", sizes.len());
            Some(("bssplit", found, String::from("one size of all reads and writes, on a drive that stores values")))
        }
    }
}

/// Refuses jobs whose values differ in size, or whose keys are too many for the drive. Room counts both for all values
/// and for those that writes in flight are replacing.
pub(super) fn check_value_sizes(jobs: &[Job], limits: &Limits) -> Option<JobFinding> {
    let space = limits.keys?;
    let filled: Vec<FilledKeys> = jobs.iter().map(|job| job.keys_before_start(limits.capacity_bytes)).collect();
    if filled.iter().any(|other| other.value_bytes != filled[0].value_bytes) {
        let found = String::from("jobs have values of different sizes, under the same keys");
        return Some(("bs", found, String::from("the same bs in all jobs, on a drive that stores values")));
    }
    let value_bytes = u64::from(filled.first()?.value_bytes);
    let keys = filled.iter().fold(0_u64, |sum, job| sum.saturating_add(job.keys));
    let allowed =
        |keys: u64| format!("size of at most {} bytes, of all jobs together", keys.saturating_mul(value_bytes));
    if keys > u64::from(space.keys_max) {
        let found = format!("there are {keys} keys, a key for each {value_bytes} bytes of size");
        return Some(("size", found, format!("{} (key_value.keys_max)", allowed(space.keys_max.into()))));
    }
    let room = value_bytes.next_multiple_of(space.granule_bytes.into());
    let in_flight = |job: &Job| u64::from(job.threads) * u64::from(job.iodepth);
    let replaced: u64 = jobs.iter().filter(|job| job.has_writes()).map(in_flight).sum();
    let most = (space.capacity_bytes / room).saturating_sub(replaced);
    let found = format!("{keys} values of {room} bytes, and {replaced} more that are being replaced, fill the drive");
    when(
        keys > most,
        "size",
        found,
        format!("{}: the drive has {} bytes for values", allowed(most), space.capacity_bytes),
    )
}
