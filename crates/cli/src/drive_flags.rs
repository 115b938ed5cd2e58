//! Command line options that change a drive, shared by every command that takes one.

use std::path::Path;

use clap::Args;
use phaselink_core::drive_file::{Override, trouble};
use phaselink_core::problem::Problems;

use crate::input;

/// Drive flags as they were typed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Changes to the drive")]
pub(crate) struct DriveFlags {
    /// Set a key, as in media.read_ns=300 (`phaselink check DRIVE` lists them)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Replace the drive's memory by a preset (`phaselink check` lists them), or by the [media] of a file; short for
    /// --set media.preset=NAME
    #[arg(long, value_name = "NAME|FILE")]
    media: Option<String>,
    /// Replace the drive's link by a preset, or by the [link] of a file
    #[arg(long, value_name = "NAME|FILE")]
    link: Option<String>,
    /// Replace the drive's host by a preset, or by the [host] of a file; its threads still poll or block as the drive
    /// says
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) host: Option<String>,
    /// Replace the drive's software stack by a preset, as in linux-6 for the drive under Linux, or by the [stack] of a
    /// file; where its threads sleep until interrupts, the drive raises them
    #[arg(long, value_name = "NAME|FILE")]
    stack: Option<String>,
    /// Trouble at a time or at a request, as in 'at=2s for=500ms stall', or a file of such lines (docs/faults.md); may be given
    /// more than once
    #[arg(long, value_name = "LINE|FILE")]
    trouble: Vec<String>,
}

impl DriveFlags {
    /// Returns the overrides of all options, those of `--set` after those of presets.
    ///
    /// # Errors
    ///
    /// If an option is invalid; all problems are listed.
    pub(crate) fn resolve(&self) -> Result<Vec<Override>, Problems> {
        let presets = self.presets().map(|(section, name)| {
            let given = format!("--{section} {name}");
            Override::parse_given_as(&given, &format!("{section}.preset={name}")).map_err(Problems::from)
        });
        let set = self.set.iter().map(|text| Override::parse(text).map_err(Problems::from));
        let trouble =
            self.trouble_override().map(|text| Override::parse_given_as("--trouble", &text?).map_err(Problems::from));
        input::all(presets.chain(set).chain(trouble))
    }

    /// Returns an override with all lines of `--trouble`, those of files included. None without the option.
    fn trouble_override(&self) -> Option<Result<String, Problems>> {
        let lines = |given: &String| {
            let is_file = Path::new(given).exists() || !given.contains(' ') && !trouble::is_line(given);
            match is_file {
                true => trouble::lines_of_file(given, &input::description(given)?),
                false => Ok(vec![given.clone()]),
            }
        };
        let lines = || -> Result<String, Problems> {
            let lines = input::all(self.trouble.iter().map(lines))?.concat();
            Ok(format!("trouble={}", serde_json::Value::from(lines)))
        };
        (!self.trouble.is_empty()).then(lines)
    }

    /// Returns the overrides in the syntax of `--set`.
    pub(crate) fn texts(&self) -> Vec<String> {
        let presets = self.presets().map(|(section, name)| format!("{section}.preset={name}"));
        let trouble = self.trouble_override().and_then(Result::ok);
        presets.chain(self.set.iter().cloned()).chain(trouble).collect()
    }

    /// Returns each section with the preset that its own option names.
    fn presets(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let presets = [("media", &self.media), ("link", &self.link), ("host", &self.host), ("stack", &self.stack)];
        presets.into_iter().filter_map(|(section, name)| Some((section, name.as_ref()?)))
    }
}
