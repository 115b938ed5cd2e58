//! Checks of jobs whose writes name placement identifiers.

use super::{JobFinding, Limits};
use crate::workload::Job;

/// Refuses placement identifiers that the drive does not have.
pub(super) fn identifiers(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let (choice, identifiers) = (job.placement.as_ref()?, limits.placement_identifiers);
    if identifiers == 0 {
        let found = String::from("its writes name placement identifiers, and the drive has none");
        return Some(("fdp", found, String::from("a drive with placement.handles above 0, or fdp=0")));
    }
    let beyond = choice.places.iter().find(|place| **place >= identifiers)?;
    let found = format!("{beyond}, and the drive has {identifiers} placement identifiers");
    Some(("plids", found, format!("0 to {}: placement.handles in each of placement.groups", identifiers - 1)))
}
