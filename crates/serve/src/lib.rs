//! phaselink on the wall clock: the same controllers as in a simulation, with real bytes, for real hosts.
//!
//! I/O, threads and `unsafe` occur only in this crate and in `phaselink-client`. All
//! modelled times come from the core: this crate has no latency constants. A front-end runs on threads of its own and
//! serves a shared [`Device`](device::Device): the bytes, the drive's description, the counters and the request to
//! stop.
//!
//! - [`device`] holds the bytes, in a file or in memory, and counts requests.
//! - [`model`] lets the core's engine follow the wall clock, records its lag, and lets several threads submit requests
//!   to it.
//! - [`front`] has the front-ends by which hosts reach a device: NBD, DC Express in shared memory, [`nvme`] over
//!   vfio-user, and a block device over vhost-user. [`server`] runs them.
//! - [`control`] adds and clears fault rules while a drive is served.
//! - [`bench`] loads a server as its client, and measures it.
//!
//! Real hosts are served on Linux, whose sealed memory files and eventfds the front-ends use. [`http`]
//! builds anywhere.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod http;

#[cfg(target_os = "linux")]
pub mod bench;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod device;
#[cfg(target_os = "linux")]
pub mod front;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod history_tests;
#[cfg(target_os = "linux")]
pub mod model;
#[cfg(target_os = "linux")]
pub mod nvme;
#[cfg(target_os = "linux")]
mod planted;
#[cfg(target_os = "linux")]
pub mod server;
