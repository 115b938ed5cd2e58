//! Descriptions of drives, from a name or a drive file to the open drive.

use std::path::Path;

use phaselink_core::config::FaultAction;
use phaselink_core::drive;
use phaselink_core::drive_file::{Described, Override, shipped};
use phaselink_core::problem::{Problem, Problems};

use crate::drive::{Attachment, Drive, Options};

/// Largest size of a drive file in bytes: a longer one is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Description of a drive, with what the program wants of it: the drive is [opened](Description::open) from it, as often as
/// needed.
#[derive(Clone, Debug)]
pub struct Description {
    described: Described,
    options: Options,
}

impl Description {
    /// Returns the shipped drive of this name (`phaselink check` lists them).
    ///
    /// # Errors
    /// If there is no such drive; the message names similar ones.
    pub fn shipped(name: &str) -> Result<Description, Problems> {
        Description::of(Described::shipped(name, &[], file_text)?)
    }

    /// Returns the drive of a drive file's text. Errors and relative paths refer to `file_name`.
    ///
    /// # Errors
    /// All problems of the text.
    pub fn from_toml(file_name: &str, text: &str) -> Result<Description, Problems> {
        Description::of(Described::read(file_name, text, &[], file_text)?)
    }

    /// Returns the drive of a drive file.
    ///
    /// # Errors
    /// If the file cannot be read, and all problems of its text.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Description, Problems> {
        let name = path.as_ref().to_string_lossy();
        let text = file_text(&name)?;
        Description::from_toml(&name, &text)
    }

    /// Returns the drive that a word names: a shipped drive, or a drive file if the word ends in `.toml` or has a `/`.
    ///
    /// # Errors
    /// As [`Description::shipped`] and [`Description::from_file`].
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
        Ok(Description { described, options: Options::default() })
    }

    /// Returns the description with one key of the drive file set, as in `media.capacity_mib=64`.
    ///
    /// # Errors
    /// All problems of the setting, by itself and on this drive.
    pub fn with(self, setting: &str) -> Result<Description, Problems> {
        let setting = Override::parse_given_as("setting", setting)?;
        let described = self.described.with(&[setting])?;
        Ok(Description { options: self.options, ..Description::of(described)? })
    }

    /// Returns the description with this seed, from which all random choices of the drive follow; 1 without a call.
    pub fn seed(mut self, seed: u64) -> Description {
        self.options.seed = seed;
        self
    }

    /// Returns the description of a drive that holds no bytes: reads return none, and writes need none.
    pub fn without_data(mut self) -> Description {
        self.options.keeps_data = false;
        self.options.follows_power = false;
        self
    }

    /// Returns the description of a drive that keeps the stages of each operation for its completion.
    pub fn with_stages(mut self) -> Description {
        self.options.keeps_stages = true;
        self
    }

    /// Returns the description of a drive that follows which writes a power cut may take, so that it can lose power. Each write
    /// costs an allocation then.
    pub fn with_power_cuts(mut self) -> Description {
        self.options.follows_power = true;
        self.options.keeps_data = true;
        self
    }

    /// Returns the description of a drive behind the simulated software of the drive file's host. Operations are then
    /// submitted by an application, each queue by a thread of its own, and complete when the application has the result.
    /// Without this call the program itself is the host's software, and operations are submitted at the driver, except to a drive
    /// whose driver cannot poll for completions: that always has the software.
    pub fn with_host_software(mut self) -> Description {
        self.options.attachment = Attachment::Application;
        self
    }

    /// Opens the drive: idle, at instant zero, all bytes zero.
    ///
    /// # Errors
    /// If a machine with several drives is to have simulated software of a host, or power cuts, and if there are to be both.
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

/// True if the driver of this drive's protocol can poll for completions.
fn can_poll(drive: &drive::Drive) -> bool {
    let polled = drive.polled();
    polled.protocol().broken(&polled).is_empty()
}

/// Returns the text of a drive file.
fn file_text(path: &str) -> Result<String, Problem> {
    let wrong = |found: String| Problem::new(path, None, found, "a drive file in TOML");
    let bytes = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("{bytes} bytes are more than a drive file has")));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))
}
