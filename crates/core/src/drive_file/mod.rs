//! Drive files: reading with all problems at once, presets, what holds between keys, and explanation.

mod checks;
mod checks_faults;
mod checks_inside;
mod checks_several;
mod checks_switch;
mod described;
mod doubts;
mod engines;
mod explain;
mod fault_line;
mod layers;
mod overrides;
pub mod presets;
mod reader;
mod schema;
pub mod shipped;
mod stages;

#[cfg(test)]
mod tests;

pub use described::Described;
pub(crate) use doubts::stage_cost;
pub use layers::{ReadFile, no_files};
pub use overrides::Override;
use reader::Whole;
pub use schema::schema;

use crate::config::section::{self, Section};
use crate::drive::Drive;
use crate::problem::Problems;

impl Drive {
    /// Read a drive file. Values come, in rising order of precedence, from the schema's defaults, the drive that
    /// `preset` names, the file, and `overrides` from first to last. The preset of a section replaces everything that is
    /// said of that section below it.
    ///
    /// # Errors
    /// Everything that is wrong with the file and the overrides, in that order.
    pub fn from_toml(file_name: &str, text: &str, overrides: &[Override]) -> Result<Drive, Problems> {
        Drive::from_files(file_name, text, overrides, no_files)
    }

    /// The same where presets may be files of one's own: a whole drive, or a section of it. Paths are relative to the
    /// file that names them, and go to `others`.
    ///
    /// # Errors
    /// Everything that is wrong with any of the files and the overrides.
    pub fn from_files(
        file_name: &str,
        text: &str,
        overrides: &[Override],
        others: ReadFile,
    ) -> Result<Drive, Problems> {
        reader::read(file_name, text, overrides, others, Whole::Drive)
    }

    /// Read the file of a device of which only the way to host memory is asked: a drive's, or one without an interface.
    ///
    /// # Errors
    /// As [`Drive::from_toml`].
    pub fn device_from_toml(file_name: &str, text: &str, overrides: &[Override]) -> Result<Drive, Problems> {
        Drive::device_from_files(file_name, text, overrides, no_files)
    }

    /// The same where presets may be files of one's own, as for [`Drive::from_files`].
    ///
    /// # Errors
    /// As [`Drive::from_files`].
    pub fn device_from_files(
        file_name: &str,
        text: &str,
        overrides: &[Override],
        others: ReadFile,
    ) -> Result<Drive, Problems> {
        reader::read(file_name, text, overrides, others, Whole::Device)
    }

    /// A device or drive that comes with the program, by name, as one of which only the way to host memory is asked.
    ///
    /// # Panics
    /// If the shipped file itself has problems.
    pub fn device(name: &str) -> Option<Drive> {
        let shipped = shipped::find_device(name)?;
        match Drive::device_from_toml(shipped.file, shipped.text, &[]) {
            Ok(device) => Some(device),
            Err(problems) => panic!("{problems}"),
        }
    }

    /// A drive that comes with the program, by name.
    ///
    /// # Panics
    /// If the shipped file itself has problems.
    pub fn shipped(name: &str) -> Option<Drive> {
        let shipped = shipped::find(name)?;
        match Drive::from_toml(shipped.file, shipped.text, &[]) {
            Ok(drive) => Some(drive),
            Err(problems) => panic!("{problems}"),
        }
    }

    /// What presets on the command line have replaced of what the drive says, a line for each section.
    pub fn notes(&self) -> Vec<String> {
        explain::notes(self)
    }

    /// Every key with its value, where the value comes from, and its meaning, for a terminal 100 columns wide.
    pub fn explain(&self) -> String {
        explain::explain(self)
    }

    /// [`Drive::resolved`] as a drive file, which reads back to an equal drive.
    ///
    /// # Panics
    /// If a field was set beyond what its key allows, and TOML cannot express it.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved()).expect("values that the schema allows are plain TOML")
    }

    /// The full name of everything that an override can set, presets included.
    pub(crate) fn key_names() -> Vec<String> {
        let blank = Drive::blank();
        let header = blank.header();
        let mut names = vec![String::from("preset")];
        names.extend(header.keys().iter().map(|key| String::from(key.name)));
        for section in blank.sections() {
            let preset = presets::has(section.path()).then_some("preset");
            let keys = section.keys().into_iter().map(|key| key.name);
            names.extend(preset.into_iter().chain(keys).map(|key| section::full_name(section.path(), key)));
        }
        names
    }
}
