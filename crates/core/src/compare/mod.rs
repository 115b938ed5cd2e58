//! Comparisons: the same work on several drives.
//!
//! A [`Grid`] says of which sizes there is a line, a [`Point`] is the jobs of such a line on each drive, a [`Cell`] what one
//! of them gave, and a [`document`] all cells for programs. The caller runs the jobs, in any order and on as many threads as
//! it likes.

mod cell;
mod grid;
mod json;
mod label;
mod point;

use crate::drive::Drive;
pub use cell::Cell;
pub use grid::{Grid, Sizes};
pub use json::{document, entry};
pub use label::{Label, shared};
pub use point::Point;

/// The set of drives that is compared where none is named.
pub const SET_DEFAULT: &str = "interfaces";

/// What a drive promises for a write that it has acknowledged.
pub fn promise(drive: &Drive) -> String {
    format!("an acknowledged write is {}", drive.protocol().promise(drive))
}
