//! Interface between the program and its front-ends: flags and help texts, binding of addresses, and serving.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

use super::service::FrontEndService;
use crate::bench::target::Target;
use crate::clock::Wait;
use crate::device::report::EmptyExchangeTime;
use crate::device::store::Geometry;

/// Name of the flag with which a front-end reports what hosts do although its specification leaves it undefined.
pub const STRICT: &str = "strict";

/// Front-end with its addresses bound, or the problems with the addresses.
pub type Bound = Result<Box<dyn Front>, Problems>;

/// Target of `phaselink bench` (a server and the protocol to reach it), or the problem with the address given for it.
pub type ParsedBenchTarget = Result<Box<dyn Target>, Problem>;

/// Description of a front-end before its addresses are bound: its flags, its help texts, and functions that bind and
/// check.
#[derive(Debug)]
pub struct FrontKind {
    /// Flag of the front-end on the command line, without dashes, such as `nbd`.
    pub flag: &'static str,
    /// Placeholder for an address in the help of the front-end's flag.
    pub value: &'static str,
    /// Help text of the front-end's flag.
    pub help: &'static str,
    /// Further flags of the front-end, which take no value.
    pub switches: &'static [Switch],
    /// Further flags of the front-end, which take a value.
    pub settings: &'static [FrontEndValueFlag],
    /// True if hosts run their own driver, which is part of the model for other front-ends. With timing on, such a
    /// front-end is served alone.
    pub brings_software: bool,
    /// True if the front-end sends real interrupts, to which fault rules can apply.
    pub sends_interrupts: bool,
    /// True if fault rules can disturb the connections of hosts.
    pub has_connections: bool,
    /// True if hosts can use zoned drives through the front-end.
    pub knows_zones: bool,
    /// True if hosts can use key-value drives through the front-end.
    pub knows_keys: bool,
    /// Checks that the front-end can serve a drive with timing on. The problem says what was found and what is allowed.
    pub check_model: fn(&Drive) -> Result<(), Problem>,
    /// Returns the path of the Unix socket that an address names; none for an address of another kind.
    pub socket: fn(&str) -> Result<Option<PathBuf>, Problem>,
    /// Binds all addresses. Clients can connect from then on, and wait until the front-end serves.
    pub bind: fn(&FrontEndArguments, &Drive, Geometry) -> Bound,
    /// Client side of the front-end, by which benchmarks load a server; none if it has no client side.
    pub target: Option<BenchTargetKind>,
}

/// Flag of a front-end that takes no value.
#[derive(Debug)]
pub struct Switch {
    /// Name of the command-line flag, without dashes.
    pub name: &'static str,
    /// Second, longer name of the command-line flag, without dashes.
    pub alias: &'static str,
    /// Help text of the command-line flag.
    pub help: &'static str,
}

/// Flag of a front-end that takes a value.
#[derive(Debug)]
pub struct FrontEndValueFlag {
    /// Name of the command-line flag, without dashes.
    pub name: &'static str,
    /// Placeholder for the value in the help of the flag.
    pub value: &'static str,
    /// Help text of the command-line flag.
    pub help: &'static str,
}

/// Addresses and flags of one front-end, as the user has given them.
#[derive(Clone, Debug, Default)]
pub struct FrontEndArguments {
    /// Addresses at which the front-end is to serve.
    pub addresses: Vec<String>,
    /// Names of the front-end's flags without a value that were given.
    pub switches: Vec<&'static str>,
    /// Names of the front-end's flags with a value that were given, each with its value.
    pub settings: Vec<(&'static str, String)>,
}

impl FrontEndArguments {
    /// Returns the value of a flag; none if the flag was not given.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
}

/// Form of the addresses at which a benchmark reaches this front-end, and their parser.
#[derive(Debug)]
pub struct BenchTargetKind {
    /// Form of such an address, for messages, as in `shm:PATH`.
    pub form: &'static str,
    /// Parses an address; returns none if it has the form of another front-end.
    pub parse: fn(&str) -> Option<ParsedBenchTarget>,
}

/// Front-end with its addresses bound, which can announce them and serve clients.
pub trait Front: fmt::Debug + Send + Sync {
    /// Returns the addresses at which clients find the drive, in the form in which they are announced to users.
    fn addresses(&self) -> Vec<String>;

    /// Returns notes for users about addresses at which some clients cannot attach.
    fn notes(&self, _wait: Wait) -> Vec<String> {
        Vec::new()
    }

    /// Measures the time of an empty exchange with a client over this front-end's transport: the least overhead that
    /// clients see.
    ///
    /// # Errors
    /// If the system does not let it be measured.
    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime>;

    /// Returns true if this front-end should run the engine on its own device thread, rather than submit to one on
    /// another front-end's thread. Matters only with one device thread.
    fn prefers_own_engine(&self) -> bool {
        false
    }

    /// Returns the number of threads that the front-end needs beside its device threads, for clients that would hold up
    /// others.
    fn spare_threads(&self) -> usize {
        0
    }

    /// Returns true if hosts of this front-end run their own driver, so that no host software is modelled for them.
    fn brings_software(&self) -> bool {
        false
    }

    /// Returns the drive that the engine simulates for this front-end, without fault rules: these are added to the
    /// engine while it runs.
    fn modelled_drive(&self, drive: &Drive) -> Drive {
        drive.without_faults()
    }

    /// Serves clients until the device is told to stop. Returns the outcome of the simulation, if the engine ran on a
    /// thread of this front-end.
    ///
    /// # Errors
    /// If the front-end cannot go on.
    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>>;
}

/// Returns all values if no result is a problem, or else all problems.
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
