//! Checks that the flushes of a job have a known effect on its drive and host.

use super::{JobFinding, Limits};
use crate::request::Op;
use crate::workload::Job;

/// Refuses flushes whose effect is not modelled: options for flushes beside a trace, flushes of files over a journal,
/// of a volatile buffer without a flush command, or on several drives.
pub(super) fn known(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let refused = |option: &'static str, found: &str, allowed: &str| {
        Some((option, format!("{option} {found}"), String::from(allowed)))
    };
    let has_recorded = job.trace.as_ref().is_some_and(|trace| trace.summary().flushes > 0);
    let recorded = has_recorded.then_some("read_iolog");
    let option = job.flushes.named().map(|(name, _)| name).next().or(recorded)?;
    if job.trace.is_some() && option != "read_iolog" {
        return refused(option, "with a trace", "leave it out: a trace is replayed as it is");
    }
    let of_files = job.flushes.named().map(|(name, _)| name).find(|name| *name != "fdatasync");
    if let Some(option) = of_files.filter(|_| limits.engine_support.is_some_and(|support| support.has_files)) {
        let allowed = "fdatasync alone, or stack.filesystem = \"raw\"";
        return refused(option, "over a file system, whose journal is not modelled", allowed);
    }
    if !limits.is_volatile {
        return None;
    }
    if !limits.supports(Op::Flush) {
        let allowed = "an interface with a flush command, or buffer.power_loss_protection = true";
        return refused(option, "of a volatile buffer behind an interface without flushes", allowed);
    }
    match limits.drives {
        1 => None,
        _ if job.trace.is_some() => None,
        _ => refused(option, "with several drives, of which it names none", "drives = 1, or leave it out"),
    }
}
