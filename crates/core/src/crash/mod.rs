//! All states that a power failure may leave on a drive, computed from a recording of the drive's requests.
//!
//! The module does no I/O: a [`Recording`](recording::Recording) goes in, [`Image`]s and their bytes come out.
//!
//! - [`recording`] holds the requests and completions of a drive; [`format`] reads and writes a recording as a file.
//! - [`timeline`] says at which power cuts a request must be on the drive, may be on it, or cannot be on it yet.
//! - [`image`] names one state of the drive after a power cut (crash image): the cut, and the parts of open requests
//!   that are lost.
//! - [`sample`] lists all crash images of a recording, or draws some of every kind.
//! - [`explain`] says which rule of a specification, or key of a drive file, allows each loss.
//! - [`shrink`] searches for the smallest crash image that still fails a check.
//! - [`view`] turns a crash image into blocks, each with the request that its bytes come from.
//! - [`zones`] turns a crash image into the states of zones, on a drive that has any.
//!
//! `docs/crash.md` defines the legal states and cites the specifications that say so.

pub mod explain;
pub mod format;
pub mod image;
mod legal;
pub mod recording;
pub mod sample;
pub mod shrink;
pub mod timeline;
pub mod view;
pub mod zones;

pub use image::{Image, RequestLoss};
pub use timeline::CutTimeline;

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod zone_oracle_tests;
