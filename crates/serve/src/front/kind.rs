//! Front-ends as the program sees them: how one is asked for, bound and told to serve.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

use super::service::Service;
use crate::bench::target::Target;
use crate::clock::Wait;
use crate::device::report::EmptyExchange;
use crate::device::store::Geometry;

/// Name of the switch of front-ends that can report what hosts do and their specification leaves undefined.
pub const STRICT: &str = "strict";

/// Bound front-end, or the problems with its addresses.
pub type Bound = Result<Box<dyn Front>, Problems>;

/// Target of a benchmark, or the problem with its address.
pub type ParsedTarget = Result<Box<dyn Target>, Problem>;

/// Front-end before its addresses are bound: its flags, its texts, and how to bind it.
#[derive(Debug)]
pub struct FrontKind {
    /// Flag without dashes, as in `--nbd`.
    pub flag: &'static str,
    /// Placeholder of an address in the flag's help.
    pub value: &'static str,
    /// Help of the flag.
    pub help: &'static str,
    /// Flags without a value that go with it.
    pub switches: &'static [Switch],
    /// True if hosts bring the software that is modelled for other front-ends: with timing on, they are served alone.
    pub brings_software: bool,
    /// True if it sends real interrupts, which faults can be about.
    pub sends_interrupts: bool,
    /// True if hosts can use drives with zones through it.
    pub knows_zones: bool,
    /// True if hosts can use drives that store values by their keys through it.
    pub knows_keys: bool,
    /// Refuses drives that cannot be served with timing on, with what was found and what is allowed.
    pub check_model: fn(&Drive) -> Result<(), Problem>,
    /// Returns the path of the Unix socket that an address will have, if it has one.
    pub socket: fn(&str) -> Result<Option<PathBuf>, Problem>,
    /// Binds all addresses, at which clients wait from then on.
    pub bind: fn(&FrontArguments, &Drive, Geometry) -> Bound,
    /// Client's end of the front-end, for benchmarks of what is served.
    pub target: Option<TargetKind>,
}

/// Flag without a value.
#[derive(Debug)]
pub struct Switch {
    /// Name without dashes.
    pub name: &'static str,
    /// Second, longer name.
    pub alias: &'static str,
    /// Help of the flag.
    pub help: &'static str,
}

/// Arguments of one front-end, as the user has given them.
#[derive(Clone, Debug, Default)]
pub struct FrontArguments {
    /// Addresses.
    pub addresses: Vec<String>,
    /// Names of the switches that were given.
    pub switches: Vec<&'static str>,
}

/// Form of a benchmark's target, and how it is read.
#[derive(Debug)]
pub struct TargetKind {
    /// Form of an address, as in `shm:PATH`.
    pub form: &'static str,
    /// Reads an address; returns nothing if it is another front-end's.
    pub parse: fn(&str) -> Option<ParsedTarget>,
}

/// Front-end with its addresses bound.
pub trait Front: fmt::Debug + Send + Sync {
    /// Returns the addresses at which clients find the drive, as they are announced.
    fn addresses(&self) -> Vec<String>;

    /// Returns notes for users about addresses at which some clients cannot attach.
    fn notes(&self, _wait: Wait) -> Vec<String> {
        Vec::new()
    }

    /// Measures an exchange with a client in which nothing is done: the least that a client sees of its own way.
    ///
    /// # Errors
    /// If the system does not let it be measured.
    fn empty_exchange(&self) -> io::Result<EmptyExchange>;

    /// Returns true if its device thread had better run the engine itself than another front-end's, while one device thread serves.
    fn prefers_own_engine(&self) -> bool {
        false
    }

    /// Returns the number of threads, beside the device threads, to which it moves clients that would let others wait.
    fn spare_threads(&self) -> usize {
        0
    }

    /// Returns true if its hosts bring their own software, so that none is modelled for them.
    fn brings_software(&self) -> bool {
        false
    }

    /// Returns the drive that the engine simulates for this front-end. Faults reach the engine while it runs.
    fn modelled_drive(&self, drive: &Drive) -> Drive {
        drive.without_faults()
    }

    /// Serves until the device is told to stop. Returns the account of the model, if its engine ran on a thread of this front-end.
    ///
    /// # Errors
    /// If the front-end cannot go on.
    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>>;
}

/// Returns all values, or all problems.
pub(super) fn all<T>(parts: impl Iterator<Item = Result<T, Problem>>) -> Result<Vec<T>, Problems> {
    let (mut values, mut problems) = (Vec::new(), Problems::default());
    for part in parts {
        match part {
            Ok(value) => values.push(value),
            Err(problem) => problems.0.push(problem),
        }
    }
    problems.or(values)
}
