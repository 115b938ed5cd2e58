//! Native part of the Python package: text in, text and numbers out.
//!
//! Python values become the texts that the program accepts (`link.lanes=8`, `iodepth=4`), and results leave as the
//! documents that the program prints, so that each figure is computed in one way only. The Python interface is in
//! `python/phaselink`. No simulation holds the interpreter's lock.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod answers;
mod arrow;
#[cfg(target_os = "linux")]
mod client;
mod compare;
mod dma;
mod doubt;
mod drive;
mod embed;
mod export;
mod input;
mod interrupt;
mod knee;
mod kvcache;
mod predict;
mod reproduce;
mod requests;
mod run;
#[cfg(target_os = "linux")]
mod serve;
mod sweep;
mod trace;
mod validate;
mod whatif;

/// Module `phaselink._native`.
#[pyo3::pymodule]
mod _native {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::answers::{breakeven, ecc, endurance};
    #[pymodule_export]
    use crate::arrow::Arrow;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::client::{Client, Queue};
    #[pymodule_export]
    use crate::compare::compare;
    #[pymodule_export]
    use crate::dma::transfers;
    #[pymodule_export]
    use crate::drive::{Drive, presets, set, shipped, unknown_drive};
    #[pymodule_export]
    use crate::embed::{DriveImage, DriveSnapshot, EmbeddedDrive, MisuseError, recording_images};
    #[pymodule_export]
    use crate::export::export;
    #[pymodule_export]
    use crate::input::{InputError, Jobs, sections};
    #[pymodule_export]
    use crate::knee::knee;
    #[pymodule_export]
    use crate::kvcache::kvcache;
    #[pymodule_export]
    use crate::predict::predict;
    #[pymodule_export]
    use crate::reproduce::{papers, reproduce};
    #[pymodule_export]
    use crate::requests::Requests;
    #[pymodule_export]
    use crate::run::{Result, run};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::serve::Server;
    #[pymodule_export]
    use crate::sweep::{Plan, Rows, figures, is_run, state_refusal};
    #[pymodule_export]
    use crate::trace::{Steps, trace};
    #[pymodule_export]
    use crate::validate::{packed_measurements, validate};
    #[pymodule_export]
    use crate::whatif::whatif;

    /// Runs a command of the program, and returns the exit code of its process.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
        py.detach(|| phaselink_cli::run(words))
    }

    #[pymodule_export]
    const STATE_HEADER: &str = phaselink_studies::sweep::state::HEADER;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
