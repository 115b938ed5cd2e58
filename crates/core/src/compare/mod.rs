//! Comparisons: the same work on several drives.
//!
//! A [`Grid`] says of which sizes there is a line, a [`ComparedPoint`] is the jobs of such a line on each drive, a [`Cell`] the result of
//! one of them, a [`ComparedGroup`] the cells of a line, and a [`document`] all of them for programs. [`findings`] say in words which
//! drive is faster and why. The caller runs the jobs, in any order and on as many threads as it likes.

mod causes;
mod cell;
mod findings;
mod grid;
mod group;
mod json;
mod judged;
mod label;
mod point;

use crate::drive::Drive;
pub use causes::means_ns;
pub use cell::Cell;
pub use findings::{RunConclusion, conclusion_of_run, findings};
pub use grid::{Grid, Sizes};
pub use group::{ComparedGroup, Named, named};
pub use json::document;
pub use judged::JudgedLatency;
pub use label::{Label, shared};
pub use point::ComparedPoint;

/// The set of drives that is compared where none is named.
pub const SET_DEFAULT: &str = "interfaces";

/// Returns the promise of a drive for a write that it has acknowledged.
pub fn promise(drive: &Drive) -> String {
    format!("an acknowledged write is {}", drive.protocol().promise(drive))
}
