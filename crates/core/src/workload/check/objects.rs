//! Checks of jobs whose writes replace whole objects.

use super::{JobFinding, Limits, when};
use crate::request::Op;
use crate::workload::{AddressPattern, Job};

/// Refuses objects that are not whole writes, and a region with too few of them.
pub(super) fn region(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let object = job.object_bytes;
    if object == 0 {
        let found = String::from("object_trim=1 without objects");
        return when(job.object_trim, "object_trim", found, "object_size beside it, or a job without it");
    }
    let odd = job.write_blocks.iter().find(|share| !object.is_multiple_of(share.bytes.max(1).into()));
    if let Some(odd) = odd.or(job.write_blocks.get(1)) {
        let found = format!("objects of {object} bytes are replaced by writes of {} bytes among others", odd.bytes);
        return Some(("object_size", found, String::from("one bs that divides object_size")));
    }
    let objects = job.region_bytes(limits.capacity_bytes) / object;
    let needed = if job.pattern == AddressPattern::Sequential { u64::from(job.threads) } else { 1 };
    let found = format!("its region holds {objects} objects of {object} bytes");
    when(objects < needed, "object_size", found, format!("at least {needed}"))
}

/// Refuses objects in jobs that write none, or whose writes are determined by something else.
pub(super) fn check_objects_are_used(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let refused = |found: &str, allowed: &str| {
        Some(("object_size", format!("object_size is given {found}"), String::from(allowed)))
    };
    match job {
        Job { object_bytes: 0, .. } => None,
        _ if !job.has_writes() => refused("in a job that only reads", "rw with writes, or a job without it"),
        Job { trace: Some(_), .. } => refused("with a trace", "a job without a trace"),
        Job { group_commit: 1.., .. } => refused("with group_commit", "one of the two"),
        _ if limits.zones.is_some() => refused("on a drive with zones", "zones are filled as a whole: leave it out"),
        _ if limits.keys.is_some() => refused("on a drive of keys", "values are replaced as a whole: leave it out"),
        _ if limits.drives > 1 => refused("with several drives", "drives = 1"),
        _ if job.object_trim && !limits.supports(Op::Discard) => {
            refused("with object_trim, and the drive cannot deallocate", "object_trim=0")
        }
        _ => None,
    }
}
