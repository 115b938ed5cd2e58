//! Command line options of the front-ends that [`KINDS`] lists.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_serve::device::store::Geometry;
use phaselink_serve::front::kind::Switch;
use phaselink_serve::front::{self, Front, FrontEndArguments, FrontKind, KINDS, STRICT, nbd};

use crate::input;

/// Front-ends that the command line of `phaselink serve` names, each with its addresses and switches.
#[derive(Clone, Debug)]
pub(super) struct FrontFlags(Vec<(&'static FrontKind, FrontEndArguments)>);

impl FrontFlags {
    /// Checks that all named front-ends can serve the drive, with timing on or off. A mount (`--file`, `--folder`) adds
    /// the NBD front-end.
    pub(super) fn check(&self, drive: &Drive, timing: bool, is_mounted: bool) -> Result<(), Problem> {
        let mount = is_mounted.then_some(&nbd::KIND);
        let kinds: Vec<_> = self.0.iter().map(|(kind, _)| *kind).chain(mount).collect();
        front::check(&kinds, drive, timing)
    }

    /// Returns true if `--strict` is given, with which the server reports host behaviour that the NVMe specification
    /// leaves undefined.
    pub(super) fn is_strict(&self) -> bool {
        self.0.iter().any(|(_, asked)| asked.switches.contains(&STRICT))
    }

    /// Returns true if fault rules can disturb the connections of a named front-end.
    pub(super) fn have_faultable_connections(&self) -> bool {
        self.0.iter().any(|(kind, _)| kind.has_connections)
    }

    /// Returns true if a named front-end sends real interrupts to its hosts.
    pub(super) fn send_interrupts(&self) -> bool {
        self.0.iter().any(|(kind, _)| kind.sends_interrupts)
    }

    /// Returns the paths of the Unix sockets of all front-ends, after parsing their addresses.
    pub(super) fn sockets(&self) -> Result<Vec<PathBuf>, Problems> {
        let sockets = self.0.iter().flat_map(|(kind, asked)| {
            asked.addresses.iter().map(|address| (kind.socket)(address).map_err(Problems::from))
        });
        Ok(input::all(sockets)?.into_iter().flatten().collect())
    }

    /// Binds the addresses of all front-ends.
    pub(super) fn bind(&self, drive: &Drive, geometry: Geometry) -> Result<Vec<Box<dyn Front>>, Problems> {
        self.0.iter().map(|(kind, asked)| (kind.bind)(asked, drive, geometry)).collect()
    }
}

impl clap::Args for FrontFlags {
    fn augment_args(command: Command) -> Command {
        let group = ArgGroup::new("front-ends").args(KINDS.iter().map(|kind| kind.flag)).multiple(true).required(true);
        KINDS.iter().fold(command, add_front_end_flags).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn add_front_end_flags(command: Command, kind: &FrontKind) -> Command {
    let addresses = Arg::new(kind.flag).long(kind.flag).value_name(kind.value).help(kind.help);
    let command = command.arg(addresses.action(ArgAction::Append));
    // List a switch that several front-ends share only once, with the first of them.
    let is_new = |switch: &&Switch| {
        KINDS.iter().find(|other| has_front_end_switch(other, switch.name)).is_some_and(|first| first.flag == kind.flag)
    };
    let command = kind.switches.iter().filter(is_new).fold(command, add_switch_flag);
    kind.settings.iter().fold(command, |command, setting| {
        let arg = Arg::new(setting.name).long(setting.name).value_name(setting.value).help(setting.help);
        command.arg(arg.action(ArgAction::Set).requires(kind.flag))
    })
}

fn has_front_end_switch(kind: &FrontKind, name: &str) -> bool {
    kind.switches.iter().any(|switch| switch.name == name)
}

/// Adds a flag without a value, which needs one of the front-ends that have it.
fn add_switch_flag(command: Command, switch: &'static Switch) -> Command {
    let owners = KINDS.iter().filter(|kind| has_front_end_switch(kind, switch.name));
    let arg = Arg::new(switch.name).long(switch.name).visible_alias(switch.alias).help(switch.help);
    // The alias also names the group of these front-ends.
    let group = ArgGroup::new(switch.alias).args(owners.map(|kind| kind.flag)).multiple(true);
    command.arg(arg.action(ArgAction::SetTrue).requires(switch.alias)).group(group)
}

impl clap::FromArgMatches for FrontFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FrontFlags, clap::Error> {
        let asked = KINDS.iter().filter_map(|kind| {
            let addresses = matches.get_many::<String>(kind.flag)?.cloned().collect();
            let switches =
                kind.switches.iter().map(|switch| switch.name).filter(|name| matches.get_flag(name)).collect();
            let value = |name| Some((name, matches.get_one::<String>(name)?.clone()));
            let settings = kind.settings.iter().filter_map(|setting| value(setting.name)).collect();
            Some((kind, FrontEndArguments { addresses, switches, settings }))
        });
        Ok(FrontFlags(asked.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = FrontFlags::from_arg_matches(matches)?;
        Ok(())
    }
}
