//! A modelled drive in virtual time, inside another program: a database under test, a deterministic simulator, a
//! scheduler.
//!
//! The program is the host's software, and time is its own. It submits requests to a drive at instants that it chooses,
//! asks when something may happen next, advances the drive to an instant, and takes completions with status, data and
//! stages. The drive holds real bytes. It reads no clock, starts no thread, and gives the same completions for the same
//! calls and seed.
//!
//! ```
//! use phaselink_embed::{Description, Operation, Time};
//!
//! let mut drive = Description::shipped("tlc-gen4")?.open()?;
//! let start = Time::ZERO;
//! drive.submit(start, 0, Operation::write(0, &[7; 4096]))?;
//! drive.submit(start, 0, Operation::read(8192, 4096))?;
//! while let Some(next) = drive.next_at() {
//!     drive.advance(next)?;
//!     while let Some(done) = drive.next_completion() {
//!         println!("{} after {} us: {}", done.ticket(), done.latency().as_us(), done.status());
//!     }
//! }
//! let flush = drive.submit(drive.now(), 0, Operation::flush())?;
//! assert!(drive.wait(flush)?.status().is_success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Description`] says which drive: a shipped one, or a drive file of one's own, with overrides.
//! - [`Drive`] is the open drive; [`Operation`] is what it is asked for, [`Completion`] how that ended.
//! - [`Survival`] and [`LegalImage`] say what a power cut leaves.
//! - [`Misuse`] is the error of every call that the drive cannot carry out. The drive is then unchanged, except after a
//!   [`Drive::wait`] for an operation that never completes.
//!
//! The public items of this crate are stable: they change by the rules of Semantic Versioning.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod description;
mod drive;
mod misuse;
mod operation;
mod overlap;
mod power;
mod slots;
mod store;
mod summary;
mod tracker;

pub use description::Description;
pub use drive::{Drive, Snapshot};
pub use misuse::Misuse;
pub use operation::{Completion, Operation, OperationKind, Status, Ticket};
pub use phaselink_core::problem::Problems;
pub use phaselink_core::time::{Span, Time};
pub use power::{LegalImage, Survival};
pub use summary::OperationSummary;
