//! Command line options that override keys of a drive, shared by every command that takes a drive.

use std::path::Path;

use clap::Args;
use phaselink_core::drive_file::{KeyOverride, fault_timeline};
use phaselink_core::problem::Problems;

use crate::input;

/// Command line options that override keys of a drive, as they were typed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Changes to the drive")]
pub(crate) struct DriveFlags {
    /// Override a key of the drive file, as in media.read_ns=300 (`phaselink check DRIVE` lists all keys); may be given
    /// more than once
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Replace the drive's memory by a preset that `phaselink check` lists, or by the [media] of a file; short for
    /// --set media.preset=NAME
    #[arg(long, value_name = "NAME|FILE")]
    media: Option<String>,
    /// Replace the drive's link to the host by a preset that `phaselink check` lists, or by the [link] of a file; short
    /// for --set link.preset=NAME
    #[arg(long, value_name = "NAME|FILE")]
    link: Option<String>,
    /// Replace the drive's host (cores and their costs) by a preset that `phaselink check` lists, or by the [host] of a
    /// file; the drive's completion method (host.wait) stays
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) host: Option<String>,
    /// Replace the drive's software stack by a preset, such as linux-6 for Linux, or by the [stack] of a file; a stack
    /// whose threads sleep for completions turns the drive's interrupts on
    #[arg(long, value_name = "NAME|FILE")]
    stack: Option<String>,
    /// Inject a fault into the drive at a time or request, as in 'at=2s for=500ms stall', or the faults of a file with
    /// such lines (docs/faults.md). May be given more than once
    #[arg(long = "fault", alias = "trouble", value_name = "LINE|FILE")]
    faults: Vec<String>,
}

impl DriveFlags {
    /// Returns the overrides that all drive options give: first presets, then `--set`, then faults of `--fault`.
    ///
    /// # Errors
    ///
    /// If an option is invalid; all problems are listed.
    pub(crate) fn resolve(&self) -> Result<Vec<KeyOverride>, Problems> {
        let presets = self.presets().map(|(section, name)| {
            let given = format!("--{section} {name}");
            KeyOverride::parse_override_given_as(&given, &format!("{section}.preset={name}")).map_err(Problems::from)
        });
        let set = self.set.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from));
        let faults = self
            .fault_override()
            .map(|text| KeyOverride::parse_override_given_as("--fault", &text?).map_err(Problems::from));
        input::all(presets.chain(set).chain(faults))
    }

    /// Returns an override of the key `fault_lines` with all fault lines of `--fault`, including lines of files. None
    /// without `--fault`.
    fn fault_override(&self) -> Option<Result<String, Problems>> {
        let lines = |given: &String| {
            let is_file = Path::new(given).exists() || !given.contains(' ') && !fault_timeline::is_line(given);
            match is_file {
                true => fault_timeline::lines_without_comments(given, &input::description(given)?),
                false => Ok(vec![given.clone()]),
            }
        };
        let lines = || -> Result<String, Problems> {
            let lines = input::all(self.faults.iter().map(lines))?.concat();
            Ok(format!("fault_lines={}", serde_json::Value::from(lines)))
        };
        (!self.faults.is_empty()).then(lines)
    }

    /// Returns the overrides of all drive options as texts `KEY=VALUE`, the syntax of `--set`.
    pub(crate) fn texts(&self) -> Vec<String> {
        let presets = self.presets().map(|(section, name)| format!("{section}.preset={name}"));
        let faults = self.fault_override().and_then(Result::ok);
        presets.chain(self.set.iter().cloned()).chain(faults).collect()
    }

    /// Returns pairs of a drive file's section (media, link, host or stack) and the preset or file that the option of
    /// this name gives.
    fn presets(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let presets = [("media", &self.media), ("link", &self.link), ("host", &self.host), ("stack", &self.stack)];
        presets.into_iter().filter_map(|(section, name)| Some((section, name.as_ref()?)))
    }
}
