//! What a drive may hold after its power was cut: from a recording of what it was asked for to every legal image.
//!
//! No I/O here: a [`Recording`] in, [`Image`]s and their bytes out.
//!
//! - [`recording`] is what was asked and answered, in order; [`format`] is the same as a file.
//! - [`timeline`] says at which cuts a request must be there, may be there, or cannot be there yet.
//! - [`image`] names one state: a cut, and what of the open requests is missing.
//! - [`sample`] makes all images, or some of every kind; [`shrink`] looks for the smallest that still fails.
//! - [`view`] turns an image into blocks, each of which says where its bytes are.
//!
//! What is legal is said in `docs/crash.md`, with the specifications that say so.

pub mod format;
pub mod image;
pub mod recording;
pub mod sample;
pub mod shrink;
pub mod timeline;
pub mod view;

pub use image::{Image, Lost};
pub use recording::{Event, Kind, Promise, Recording, Request, Rules};
pub use timeline::Timeline;

#[cfg(test)]
mod oracle;
