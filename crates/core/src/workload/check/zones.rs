//! Checks of jobs on a drive with zones, whose writes fill one zone after the other.

use super::{JobFinding, Limits, when};
use crate::workload::{Job, side_by_side};

/// Sizes and limits of a drive's zones, against which jobs are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneJobLimits {
    /// Number of bytes from the start of a zone to the start of the next zone.
    pub zone_bytes: u64,
    /// Number of bytes of a zone that can be written (its capacity).
    pub writable_bytes: u64,
    /// Largest number of zones that are open at a time; 0 if there is no limit.
    pub open_max: u32,
    /// Largest number of zones that are active at a time; 0 if there is no limit.
    pub active_max: u32,
    /// True if faults of the drive can restart its controller.
    pub restarts: bool,
}

/// Refuses traces with writes on a drive with zones: recorded writes do not fill zones in order.
pub(super) fn replay(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let is_wrong = limits.zones.is_some() && job.trace.is_some() && job.has_writes();
    let found = String::from("the trace writes, and zones are written from their first block on");
    when(is_wrong, "read_iolog", found, "a trace of reads, or a drive without zones")
}

/// Refuses jobs that write more zones than can be active, if faults restart the controller. A restart leaves partly
/// written zones active until they are written again.
pub(super) fn restarts(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let zones = limits.zones.filter(|zones| zones.restarts && zones.active_max > 0 && job.has_writes())?;
    let written = job.region_bytes(limits.capacity_bytes) / zones.zone_bytes;
    let found = format!("it writes {written} zones, and faults restart the controller, which leaves zones active");
    let allowed =
        format!("at most {0} zones, as zones.active_max is {0}, or no faults reset and power-cut", zones.active_max);
    when(written > zones.active_max.into(), "size", found, allowed)
}

/// Refuses a region to be written that is not a whole number of zones, or has fewer zones than the job has threads.
pub(super) fn region(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let zones = limits.zones.filter(|_| job.has_writes() && job.trace.is_none())?;
    let (size, zone) = (job.region_bytes(limits.capacity_bytes), zones.zone_bytes);
    if !job.offset.is_multiple_of(zone) || !size.is_multiple_of(zone) {
        let found = format!("it writes a region of {size} bytes from byte {} on", job.offset);
        return Some(("size", found, format!("whole zones in jobs that write: multiples of {zone} bytes")));
    }
    let found = format!("{} threads write {} zones", job.threads, size / zone);
    when(u64::from(job.threads) > size / zone, "numjobs", found, "a zone for each thread that writes")
}

/// Refuses read sizes that do not divide a zone, because such reads would cross the end of a zone.
pub(super) fn read_blocks(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let zones = limits.zones.filter(|_| job.read_percent > 0.0 && job.trace.is_none())?;
    let odd = job.read_blocks.iter().find(|share| !zones.zone_bytes.is_multiple_of(share.bytes.into()))?;
    let found = format!("reads of {} bytes would cross the ends of zones", odd.bytes);
    Some(("bs", found, format!("sizes that divide a zone of {} bytes", zones.zone_bytes)))
}

/// Refuses writes of several sizes, and a size that does not divide the writable bytes of a zone.
pub(super) fn write_blocks(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let zones = limits.zones.filter(|_| job.read_percent < 100.0 && job.trace.is_none())?;
    let allowed = format!("one size that divides the {} bytes of a zone that can be written", zones.writable_bytes);
    match &job.write_blocks[..] {
        [share] => {
            let found = format!("writes of {} bytes leave a rest of a zone", share.bytes);
            when(!zones.writable_bytes.is_multiple_of(share.bytes.into()), "bs", found, allowed)
        }
        several => Some(("bssplit", format!("writes have {} sizes", several.len()), allowed)),
    }
}

/// Refuses writes at write pointers on a drive without zones, and on one whose faults restart the controller: the host
/// would not know the write pointers then.
pub(super) fn write_pointer(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let restarts = limits.zones.is_some_and(|zones| zones.restarts);
    let found = match limits.zones {
        None => "zone_append=0 on a drive without zones",
        Some(_) => "zone_append=0, and faults restart the controller, which moves write pointers",
    };
    let is_wrong = !job.zone_append && (limits.zones.is_none() || restarts);
    when(is_wrong, "zone_append", String::from(found), "zone_append=1")
}

/// Refuses jobs that together write more zones at a time than exist or can be open, that write different regions, or
/// that write one after the other.
pub(super) fn check_written_zones(jobs: &[Job], limits: &Limits) -> Option<JobFinding> {
    let zones = limits.zones?;
    let writes = |job: &&Job| job.has_writes() && job.trace.is_none();
    let threads = |jobs: &[Job]| jobs.iter().filter(writes).map(|job| u64::from(job.threads)).sum::<u64>();
    let groups: Vec<u64> = side_by_side(jobs).map(threads).filter(|threads| *threads > 0).collect();
    if groups.len() > 1 {
        let found = String::from("jobs write one after the other, and zones keep what the first ones have left");
        return Some(("stonewall", found, String::from("jobs that write at the same time, or runs of their own")));
    }
    let regions = |job: &Job| (job.offset, job.size);
    let mut writing = jobs.iter().filter(writes);
    let first = writing.next()?;
    if writing.any(|job| regions(job) != regions(first)) {
        let found = String::from("jobs that write have different regions");
        return Some(("size", found, String::from("the same offset and size, whose zones they divide")));
    }
    let threads = groups.first().copied().unwrap_or(0);
    let space = first.region_bytes(limits.capacity_bytes) / zones.zone_bytes;
    let most = if zones.open_max > 0 { space.min(zones.open_max.into()) } else { space };
    let found = format!("{threads} threads of all jobs write, each a zone of its own");
    let allowed = format!("at most {most}: zones.open_max is {}, and there are {space} zones", zones.open_max);
    when(threads > most, "numjobs", found, allowed)
}
