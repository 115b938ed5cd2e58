//! Checker of linearizability by the search of Wing and Gong (1993), with the memory of Lowe (2017): a set of calls that
//! has once led to a state of the drive is not tried again.
//!
//! The next call in an order is one that was submitted before the earliest end of all calls that are left. A call without
//! a response has two successors, with its effect and without.

use std::collections::BTreeMap;

use super::drive_model::{HostCall, ReferenceDrive};

/// Maximum number of calls of a history: the bits of a set of calls.
pub(super) const CALLS_MAX: usize = 128;

/// Reason why a history is not linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotLinearizable {
    /// Numbers of calls that the longest order leaves out and that could come next, none of which gets its response.
    pub(super) stuck: Vec<usize>,
    /// Drive at the end of the longest order.
    pub(super) drive: ReferenceDrive,
}

/// Maximum number of drives that a search tries. A history with an error may have more orders than can be tried.
const TRIED_MAX: u32 = 20_000;

struct LinearizationSearch<'a> {
    calls: &'a [HostCall],
    /// Drives that were found by the set of calls that has led to them.
    tried: BTreeMap<u128, Vec<ReferenceDrive>>,
    /// Largest set of calls that has an order, with the drive at its end.
    longest: (u128, ReferenceDrive),
    /// Number of drives that were tried.
    count: u32,
}

/// Looks for an order of the calls in which a drive gives each response. Gives up after [`TRIED_MAX`] drives, as if there were none.
///
/// # Errors
/// If there is none: the calls that cannot come next.
///
/// # Panics
/// If there are more than [`CALLS_MAX`] calls.
pub(super) fn check_order(calls: &[HostCall], drive: &ReferenceDrive) -> Result<(), Box<NotLinearizable>> {
    assert!(calls.len() <= CALLS_MAX, "a history has at most {CALLS_MAX} calls");
    let mut search = LinearizationSearch { calls, tried: BTreeMap::new(), longest: (0, drive.clone()), count: 0 };
    if search.can_complete(0, drive) {
        return Ok(());
    }
    let (done, drive) = search.longest.clone();
    Err(Box::new(NotLinearizable { stuck: search.candidates(done), drive }))
}

impl LinearizationSearch<'_> {
    /// Returns the calls outside of a set that can come next. The first ones are those that the controllers executed
    /// first: a history without an error is an order in which no call has to be moved.
    fn candidates(&self, done: u128) -> Vec<usize> {
        let left = || self.calls.iter().enumerate().filter(move |(number, _)| done >> number & 1 == 0);
        let earliest_end = left().map(|(_, call)| call.ended).min().unwrap_or(0);
        let mut candidates: Vec<usize> =
            left().filter(|(_, call)| call.invoked < earliest_end).map(|(number, _)| number).collect();
        candidates.sort_by_key(|number| self.calls[*number].executed.unwrap_or(self.calls[*number].ended));
        candidates
    }

    /// Returns true if the calls outside of a set have an order that begins with this drive.
    fn can_complete(&mut self, done: u128, drive: &ReferenceDrive) -> bool {
        if done.count_ones() > self.longest.0.count_ones() {
            self.longest = (done, drive.clone());
        }
        let candidates = self.candidates(done);
        if candidates.is_empty() {
            return true;
        }
        let tried = self.tried.entry(done).or_default();
        if tried.contains(drive) || self.count == TRIED_MAX {
            return false;
        }
        self.count += 1;
        tried.push(drive.clone());
        candidates.into_iter().any(|number| {
            let successors = drive.successors(&self.calls[number]);
            successors.iter().any(|next| self.can_complete(done | 1 << number, next))
        })
    }
}
