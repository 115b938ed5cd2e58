//! Flags that change a drive, the same for every command that takes one.

use clap::Args;
use phaselink_core::drive_file::Override;
use phaselink_core::problem::Problems;

use crate::input;

/// As typed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Changes to the drive")]
pub(crate) struct DriveFlags {
    /// Set a key, as in media.read_ns=300 (`phaselink check DRIVE` lists them)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Take another memory in place of all that the drive says of its own: a preset (`phaselink check` lists them), or the
    /// [media] of a file; short for --set media.preset=NAME
    #[arg(long, value_name = "NAME|FILE")]
    media: Option<String>,
    /// Take another link likewise
    #[arg(long, value_name = "NAME|FILE")]
    link: Option<String>,
    /// Take another host likewise; how the drive's threads wait stays
    #[arg(long, value_name = "NAME|FILE")]
    host: Option<String>,
    /// Take another software stack likewise
    #[arg(long, value_name = "NAME|FILE")]
    stack: Option<String>,
}

impl DriveFlags {
    /// The overrides, those of --set last.
    ///
    /// # Errors
    /// Every one that is no key with a value.
    pub(crate) fn resolve(&self) -> Result<Vec<Override>, Problems> {
        input::all(self.texts().iter().map(|text| Override::parse(text).map_err(Problems::from)))
    }

    /// The overrides as they could be typed with --set.
    pub(crate) fn texts(&self) -> Vec<String> {
        let presets = [("media", &self.media), ("link", &self.link), ("host", &self.host), ("stack", &self.stack)];
        let presets = presets.iter().filter_map(|(section, name)| Some(format!("{section}.preset={}", name.as_ref()?)));
        presets.chain(self.set.iter().cloned()).collect()
    }
}
