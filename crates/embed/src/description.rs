//! Descriptions of drives: from a name or a drive file, with options, to an open drive.

use std::path::Path;

use phaselink_core::config::FaultAction;
use phaselink_core::drive;
use phaselink_core::drive_file::{Described, KeyOverride, shipped};
use phaselink_core::problem::{Problem, Problems};

use crate::drive::{Attachment, Drive, Options};

/// Maximum size of a drive file in bytes. A longer file cannot be a drive file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Description of a drive, with options of the program that embeds it. [`Description::open`] opens any number of drives
/// from it.
#[derive(Clone, Debug)]
pub struct Description {
    described: Described,
    options: Options,
}

impl Description {
    /// Returns the description of the shipped drive with this name (`phaselink check` lists them).
    ///
    /// # Errors
    /// If there is no such drive; the message names similar ones.
    pub fn shipped(name: &str) -> Result<Description, Problems> {
        Description::of(Described::shipped(name, &[], file_text)?)
    }

    /// Returns the description in the text of a drive file. Errors and relative paths refer to `file_name`.
    ///
    /// # Errors
    ///
    /// If the text is no valid drive file; all problems are listed.
    pub fn from_toml(file_name: &str, text: &str) -> Result<Description, Problems> {
        Description::of(Described::read(file_name, text, &[], file_text)?)
    }

    /// Returns the description in the drive file at a path.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is no valid drive file; all problems are listed.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Description, Problems> {
        let name = path.as_ref().to_string_lossy();
        let text = file_text(&name)?;
        Description::from_toml(&name, &text)
    }

    /// Returns the description of a shipped drive by its name, or of a drive file if `word` ends in `.toml` or contains
    /// a slash or backslash.
    ///
    /// # Errors
    ///
    /// Errors of [`Description::shipped`] and [`Description::from_file`].
    pub fn named(word: &str) -> Result<Description, Problems> {
        let is_path = word.contains(['/', '\\']) || word.ends_with(".toml");
        if shipped::find(word).is_none() && is_path { Description::from_file(word) } else { Description::shipped(word) }
    }

    fn of(described: Described) -> Result<Description, Problems> {
        let cuts_power = described.drive().faults.iter().any(|fault| fault.action == FaultAction::PowerCut);
        if cuts_power {
            let found = "the drive file has a fault rule with action \"power-cut\"";
            let allowed = "every other action; an embedded drive loses power when the program calls `cut_power`";
            return Err(Problem::new(described.drive().name.clone(), None, found, allowed).into());
        }
        if let Some(action) = described.drive().fault_without_network() {
            let found = format!("the drive file has a fault rule with action \"{}\"", action.name());
            let allowed = "an action without connections; an embedded drive has no network";
            return Err(Problem::new(described.drive().name.clone(), None, found, allowed).into());
        }
        Ok(Description { described, options: Options::default() })
    }

    /// Returns the description with one key of the drive file set, as in `media.capacity_mib=64`.
    ///
    /// # Errors
    ///
    /// If the setting is invalid by itself or for this drive; all problems are listed.
    pub fn with(self, setting: &str) -> Result<Description, Problems> {
        let setting = KeyOverride::parse_override_given_as("setting", setting)?;
        let described = self.described.with(&[setting])?;
        Ok(Description { options: self.options, ..Description::of(described)? })
    }

    /// Sets the seed of all random choices of the drive. The default is 1.
    pub fn seed(mut self, seed: u64) -> Description {
        self.options.seed = seed;
        self
    }

    /// Makes the drive hold no data: reads return none, and writes need none. It cannot follow power cuts then.
    pub fn without_data(mut self) -> Description {
        self.options.keeps_data = false;
        self.options.follows_power = false;
        self
    }

    /// Makes completions list the stages of their operations; see [`Completion::stages`](crate::Completion::stages).
    pub fn with_stages(mut self) -> Description {
        self.options.keeps_stages = true;
        self
    }

    /// Makes the drive record which writes a power cut may lose, so that the program can cut its power. The drive holds
    /// data then, and each write costs an allocation.
    pub fn with_power_cuts(mut self) -> Description {
        self.options.follows_power = true;
        self.options.keeps_data = true;
        self
    }

    /// Puts the drive behind the simulated software of the drive file's host. An application submits operations, each
    /// queue by a thread of its own, and an operation completes when the application has the result. Without this call,
    /// the program itself is the host's software and submits operations at the driver. A drive whose driver cannot poll
    /// for completions always has the simulated software.
    pub fn with_host_software(mut self) -> Description {
        self.options.attachment = Attachment::Application;
        self
    }

    /// Opens the drive: idle, at time zero, with all bytes zero.
    ///
    /// # Errors
    ///
    /// If the drive has zones or stores values by keys. Also for power cuts behind simulated host software, and for
    /// either on a machine with several drives.
    pub fn open(&self) -> Result<Drive, Problems> {
        let drive = self.described.drive();
        let attachment = if can_poll(drive) { self.options.attachment } else { Attachment::Application };
        let options = Options { attachment, ..self.options };
        let is_plain = attachment == Attachment::Driver && !options.follows_power;
        let wrong = |found: String, allowed: &str| Problem::new(drive.name.clone(), None, found, allowed);
        if drive.drives > 1 && !is_plain {
            let allowed = "one drive with power cuts or with the software of a host; open each drive by itself";
            return Err(wrong(format!("drives = {}", drive.drives), allowed).into());
        }
        if drive.zones.is_there() {
            let found = format!("zones.size_mib = {}: programs could not learn of zones", drive.zones.size_mib);
            return Err(wrong(found, "a drive without zones").into());
        }
        if drive.key_value.is_there() {
            let found =
                format!("key_value.value_max_kib = {}: programs read and write blocks", drive.key_value.value_max_kib);
            return Err(wrong(found, "a drive with logical blocks").into());
        }
        if attachment == Attachment::Application && options.follows_power {
            let found = "power cuts behind the software of a host";
            let allowed = "a drive whose driver can poll, without the software of a host";
            return Err(wrong(found.into(), allowed).into());
        }
        Ok(Drive::new(drive.clone(), options))
    }
}

/// Returns true if the driver of this drive's protocol can poll for completions.
fn can_poll(drive: &drive::Drive) -> bool {
    let polled = drive.polled();
    polled.protocol().broken(&polled).is_empty()
}

/// Reads the text of a drive file of at most [`FILE_BYTES_MAX`] bytes.
fn file_text(path: &str) -> Result<String, Problem> {
    let wrong = |found: String| Problem::new(path, None, found, "a drive file in TOML");
    let bytes = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("{bytes} bytes are more than a drive file has")));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))
}
