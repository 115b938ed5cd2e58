//! A drive from its data sheet: keys of a drive file from the figures that makers print, and from the latencies of a
//! short run by fio on the nearly idle drive.
//!
//! Sizes give the geometry, rates give processors, programs and spare space, and the percentiles of the nearly idle
//! drive give the times of its cells. At a low load a read that meets nothing is as fast as its page; one that meets a
//! program waits until it is suspended; one that meets garbage collection waits for its reads; one that meets an erase
//! waits for the end of a pulse. How many reads meet each follows from the load, so that each part of the distribution
//! owes itself to one key:
//!
//! ```text
//!     p10 … p75   array reads of the pages of a word line       p90, p95       time to suspend a program
//!     p99         rate of a channel (reads of collection)       p99.99         time of an erase
//!     p99.999     pulse of an erase                             writes         buffer, and tail of the firmware
//! ```
//!
//! The values are found by simulating the nearly idle drive, a few times in a row. No figure under load is used: how
//! latencies grow with the load is a prediction.

mod answer;
mod drive;
mod input;
mod keys;
mod quantiles;
mod solve;
#[cfg(test)]
mod tests;

pub use answer::{SheetAnswer, SheetFigure, SheetKey};
pub use drive::SheetDriveCandidate;
pub use input::DataSheet;
pub use solve::{JobSimulator, SIMULATIONS_MAX, solve, solve_sheet_drive};
