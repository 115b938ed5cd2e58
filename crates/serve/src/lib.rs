//! phaselink on the wall clock: the same controllers as in a simulation, with real bytes, for real hosts.
//!
//! I/O, threads and `unsafe` are here, in `phaselink-client` and in [`phaselink_ring::shared`] alone. There is no latency
//! constant: what takes how long is the core's to say. A front-end is a function that runs on a thread of its own with a
//! [`Device`](device::Device) at hand: the bytes, the description, the counters and the sign to stop.
//!
//! - [`device`] holds the bytes, in a file or in memory, and counts what is asked of them.
//! - [`model`] drives the core's engine by a clock, records its lag, and lets other threads ask it.
//! - [`front`] is the ways to it: NBD, DC Express in shared memory, and [`nvme`] over vfio-user. [`server`] runs them.
//! - [`explore`] serves the explorer's page, and asks the simulator what the page asks.
//! - [`control`] is where faults are added meanwhile.
//! - [`bench`] loads what is served.
//!
//! Real hosts are served on Linux, whose sealed memory files and eventfds the front-ends use. The explorer's server builds anywhere.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod explore;
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
pub mod model;
#[cfg(target_os = "linux")]
pub mod nvme;
#[cfg(target_os = "linux")]
pub mod server;
