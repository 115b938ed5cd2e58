//! Comparisons: the same jobs on several drives.
//!
//! A [`RequestedSizes`] gives the sizes of the jobs of each line, a [`ComparedPoint`] holds the jobs of a line for each drive, a
//! [`Cell`] the result of one drive, a [`ComparedGroup`] the cells of a line, and a [`document`] all of them for
//! programs. [`findings`] are sentences on which drive is faster and why. The caller runs the jobs, in any order and on
//! as many threads as it likes.

mod causes;
mod cell;
mod equal_load;
mod findings;
mod grid;
mod group;
mod json;
mod judged;
mod label;
mod network;
mod point;
mod waits;

pub use causes::means_ns;
pub use cell::Cell;
pub use equal_load::{EqualLoad, EqualLoadGroup, keeps_up, lines_at_equal_load, overloaded};
pub use findings::{RunConclusionText, conclude_run, findings};
pub use grid::{AT_LOAD, RequestedSizes};
pub use group::{ComparedGroup, NamedJobSizes, named};
pub use json::document;
pub use judged::AwaitedLatency;
pub use label::{LineLabel, shared};
use phaselink_core::drive::Drive;
pub use point::ComparedPoint;

/// Name of the set of drives that is compared if the user names no drive.
pub const SET_DEFAULT: &str = "interfaces";

/// Returns the promise that a drive makes for a write that it has acknowledged, as text.
pub fn promise(drive: &Drive) -> String {
    format!("an acknowledged write is {}", drive.protocol().promise(drive))
}
