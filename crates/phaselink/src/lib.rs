//! Library to design, simulate and serve storage devices for fast non-volatile memory over PCI Express.
//!
//! ```
//! use phaselink::{Drive, Job, compare, predict, simulate};
//!
//! let drive = Drive::shipped("nvme")?.with("link.lanes", 8)?;
//! let job = Job::new("randread").with("bs", "4k").with("iodepth", 32);
//! let run = simulate(&drive, &job)?;
//! println!("{:?} IOPS, p99 {:?} ns", run.figure("iops")?, run.figure("p99_ns")?);
//! println!("{}", predict(&drive, &job)?);
//! println!("{}", compare(&[drive, Drive::shipped("optane-p5800x")?], &job)?);
//! # Ok::<(), phaselink::Problems>(())
//! ```
//!
//! - [`Drive`] is the description of a drive: a shipped one, a text or a file, with overrides.
//! - [`Job`] is a workload in the options of fio.
//! - [`simulate`] runs a job packet by packet and returns a [`Run`]; [`predict`] computes throughput and latency in
//!   closed form; [`compare`] runs a job on several drives and says why one is faster.
//! - `Server` serves a drive with real bytes to hosts on Linux: an NVMe driver over vfio-user, a client of NBD or virtio,
//!   a program through shared memory.
//! - [`embed`] opens a drive in the virtual time of another program.
//!
//! Names and units of figures are those of the columns of `phaselink sweep`; `phaselink docs sweep` lists them. The same
//! package contains the program `phaselink` (feature `program`, on by default); a library that only simulates turns it
//! off: `cargo add phaselink --no-default-features`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod comparison;
mod drive;
mod job;
mod prediction;
mod run;
#[cfg(target_os = "linux")]
mod server;

pub use comparison::{Comparison, compare};
pub use drive::Drive;
pub use job::Job;
pub use phaselink_core::problem::{Problem, Problems};
pub use phaselink_embed as embed;
pub use prediction::{Prediction, predict};
pub use run::{Run, simulate, simulate_with_seed};
#[cfg(target_os = "linux")]
pub use server::{Served, Server};

/// Page of the documentation on the library, whose examples run as tests.
#[cfg(doctest)]
#[doc = include_str!("../library.md")]
pub struct LibraryPage;
