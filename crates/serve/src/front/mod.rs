//! Front-ends: the ways by which hosts reach a device. Each is one folder here and one entry of [`KINDS`].
//!
//! [`Kind`] is what the program asks a front-end before it serves: its flags, what an address looks like, whether the
//! model fits, and to bind it. [`Front`] is what it has bound, and serves on a thread of its own. [`Target`] is the other
//! end, for `phaselink bench`. What they have in common is [`Service`], and the pace of their loops ([`pace`]).

pub mod empty_exchange;
pub(crate) mod engine_thread;
mod guard;
mod model;
pub mod nbd;
pub mod pace;
pub mod shm;
mod socket;
pub mod vfio_user;
pub mod vhost_user;

use std::fmt;
use std::io;
use std::path::PathBuf;

use phaselink_core::drive::Drive;
use phaselink_core::engine::Engine;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

pub(crate) use socket::bind_unix;

use crate::bench::Target;
use crate::device::Device;
use crate::device::report::EmptyExchange;
use crate::device::store::Geometry;
use crate::model::remote::{Exchange, Remote};
use crate::model::wall::{Clock, Wait, Wall};

/// All front-ends, in the order in which their addresses are announced.
pub const KINDS: &[Kind] = &[nbd::KIND, shm::KIND, vfio_user::KIND, vhost_user::KIND];

/// The switch of those front-ends that can look for what hosts do and their specification leaves undefined.
pub const STRICT: &str = "strict";

/// A front-end at its addresses, or what keeps it from them.
pub type Bound = Result<Box<dyn Front>, Problems>;

/// A target, or what is wrong with its address.
pub type Parsed = Result<Box<dyn Target>, Problem>;

/// How a front-end is asked for, and made.
#[derive(Debug)]
pub struct Kind {
    /// Its flag, as in `--nbd`.
    pub flag: &'static str,
    /// What stands for an address in the flag's help, and what it does.
    pub value: &'static str,
    pub help: &'static str,
    /// Flags without a value that go with it.
    pub switches: &'static [Switch],
    /// Whether hosts bring their own software, which the model of the others has: with timing on, they share none.
    pub brings_software: bool,
    /// Whether it sends real interrupts, which faults can be about.
    pub sends_interrupts: bool,
    /// Whether a drive can be served with timing on: if not, what is found and what is allowed.
    pub check_model: fn(&Drive) -> Result<(), Problem>,
    /// Where the Unix socket of an address is going to be, if it has one.
    pub socket: fn(&str) -> Result<Option<PathBuf>, Problem>,
    /// Wait for clients at all addresses that have been asked for.
    pub bind: fn(&Asked, &Drive, Geometry) -> Bound,
    /// The other end, for loading what is served.
    pub target: Option<TargetKind>,
}

/// A flag without a value.
#[derive(Debug)]
pub struct Switch {
    pub name: &'static str,
    pub alias: &'static str,
    pub help: &'static str,
}

/// What has been asked of a front-end: addresses as they were typed, and switches that were given.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub addresses: Vec<String>,
    pub switches: Vec<&'static str>,
}

/// How a target of `phaselink bench` looks.
#[derive(Debug)]
pub struct TargetKind {
    /// As in `shm:PATH`.
    pub form: &'static str,
    /// Read an address; none if it is another kind's.
    pub parse: fn(&str) -> Option<Parsed>,
}

/// The addresses of a front-end, bound.
pub trait Front: fmt::Debug + Send + Sync {
    /// Where clients find the drive, as it is announced.
    fn addresses(&self) -> Vec<String>;

    /// What an exchange with a client takes in which nothing is done.
    ///
    /// # Errors
    /// If the system does not let it be measured.
    fn empty_exchange(&self) -> io::Result<EmptyExchange>;

    /// Whether it has a modelled host whose engine others may ask, if timing is on.
    fn lends_engine(&self) -> bool {
        false
    }

    /// Whether its hosts bring their own software, so that its model is its own.
    fn brings_software(&self) -> bool {
        false
    }

    /// Serve until the device is told to stop: the model's account, if it has one of its own.
    ///
    /// # Errors
    /// If it cannot go on.
    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>>;
}

/// What the front-ends of a server have in common.
#[derive(Debug)]
pub struct Service<'a> {
    pub device: &'a Device,
    /// Whether answers come when the model says, or as soon as possible.
    pub timing: bool,
    pub wait: Wait,
    pub seed: u64,
    /// Between the front-end that lends its engine and those that ask it.
    pub exchange: &'a Exchange,
    /// Whether there is one to ask: that of the front-end that lends it, for the others, or one on a thread of its own, where
    /// there are several device threads.
    pub has_engine: bool,
    /// Threads that a front-end divides its queues or connections among, if it can.
    pub device_threads: usize,
}

impl<'a> Service<'a> {
    /// The engine of another thread, if there is one: each of those who ask it has a lane of its own.
    pub fn remote(&self) -> Option<Remote<'a>> {
        self.has_engine.then(|| Remote::new(self.exchange))
    }

    /// An engine of one's own for this drive, which follows the rules of faults that are a model's.
    pub fn wall(&self, drive: &Drive, clock: Clock) -> Wall {
        Wall::new(Engine::new(&drive.without_faults(), self.seed), clock).with_faults(self.device, self.seed)
    }

    /// What that has measured.
    pub fn outcome(&self, wall: &Wall, drive: &Drive) -> Outcome {
        wall.engine().outcome(drive, self.seed)
    }
}

/// Whether a drive can be served through these front-ends, with its timing or without.
///
/// # Errors
/// What does not go together, or a front-end that does not fit the drive.
pub fn check(kinds: &[&Kind], drive: &Drive, timing: bool) -> Result<(), Problem> {
    if drive.drives > 1 {
        let found = format!("drives is {}: what hosts attach to is one drive", drive.drives);
        return Err(Problem::new("serve", None, found, "--set drives=1, and a server for each"));
    }
    if timing && drive.switch.is_there() {
        let found = format!("switch.drives is {}: the model of a served drive has no switch", drive.switch.drives);
        return Err(Problem::new("serve", None, found, "--set switch.drives=0, or --timing off"));
    }
    if timing { check_models(kinds, drive) } else { Ok(()) }
}

/// Whether the model can serve it: hosts that bring the software that the model of the others has are served alone.
fn check_models(kinds: &[&Kind], drive: &Drive) -> Result<(), Problem> {
    let Some(own) = kinds.iter().find(|kind| kind.brings_software) else {
        return kinds.iter().try_for_each(|kind| (kind.check_model)(drive));
    };
    let others: Vec<String> =
        kinds.iter().filter(|kind| !kind.brings_software).map(|kind| format!("--{}", kind.flag)).collect();
    if !others.is_empty() {
        let (others, flag) = (others.join(" and "), own.flag);
        let found = format!(
            "{others} and --{flag} together: hosts over {flag} bring their own software, which is part of the model for \
             the others"
        );
        return Err(Problem::new("serve", None, found, "one or the other, or --timing off"));
    }
    kinds.iter().try_for_each(|kind| (kind.check_model)(drive))
}

/// Every value, or every problem.
fn all<T>(parts: impl Iterator<Item = Result<T, Problem>>) -> Result<Vec<T>, Problems> {
    let (mut values, mut problems) = (Vec::new(), Problems::default());
    for part in parts {
        match part {
            Ok(value) => values.push(value),
            Err(problem) => problems.0.push(problem),
        }
    }
    problems.or(values)
}
