//! Drive files: reading with all problems reported at once, presets, conditions between keys, and explanation of every
//! key.

mod checks;
mod checks_fabric;
mod checks_faults;
mod checks_inside;
mod checks_key_value;
mod checks_placement;
mod checks_sections;
mod checks_several;
mod checks_switch;
mod checks_zones;
mod described;
mod doubts;
mod engines;
mod explain;
mod fault_line;
pub mod fault_timeline;
mod layers;
mod needs;
mod overrides;
pub mod presets;
mod reader;
mod schema;
pub mod shipped;
pub mod stage_costs;
mod stages;
mod unstated;

#[cfg(test)]
mod tests;

pub use described::Described;
pub use doubts::stage_and_cost_of_key;
pub use layers::{DescriptionReader, refuse_files};
pub use overrides::KeyOverride;
use reader::Whole;
pub use schema::schema;

use crate::config::section::{self, Section};
use crate::drive::Drive;
use crate::problem::Problems;

impl Drive {
    /// Reads a drive from the text of a drive file. Values come, in rising order of precedence, from the schema's
    /// defaults, the drive that `preset` names, the file, and `overrides` from first to last. The preset of a section
    /// replaces all values that lower layers give to that section.
    ///
    /// # Errors
    /// All problems of the file and the overrides, in that order.
    pub fn from_toml(file_name: &str, text: &str, overrides: &[KeyOverride]) -> Result<Drive, Problems> {
        Drive::from_files(file_name, text, overrides, refuse_files)
    }

    /// Reads a drive from the text of a drive file, then applies `overrides`. A `preset` key names a shipped preset or
    /// another description file: of a whole drive at the top level, of one section inside a section. `others` returns
    /// the text of such a file by its path. A path is relative to the file that names it.
    ///
    /// # Errors
    /// All problems of the files and the overrides.
    pub fn from_files(
        file_name: &str,
        text: &str,
        overrides: &[KeyOverride],
        others: DescriptionReader,
    ) -> Result<Drive, Problems> {
        reader::read(file_name, text, overrides, others, Whole::Drive)
    }

    /// Reads the description of a device of which only DMA to host memory is modelled: the file of a drive, or of a
    /// device without an interface.
    ///
    /// # Errors
    /// As [`Drive::from_toml`].
    pub fn device_from_toml(file_name: &str, text: &str, overrides: &[KeyOverride]) -> Result<Drive, Problems> {
        Drive::device_from_files(file_name, text, overrides, refuse_files)
    }

    /// Reads the description of a device for DMA, whose presets may be files of the user as for [`Drive::from_files`].
    ///
    /// # Errors
    /// As [`Drive::from_files`].
    pub fn device_from_files(
        file_name: &str,
        text: &str,
        overrides: &[KeyOverride],
        others: DescriptionReader,
    ) -> Result<Drive, Problems> {
        reader::read(file_name, text, overrides, others, Whole::Device)
    }

    /// Returns the shipped device or drive of this name, for a simulation of its DMA to host memory alone; none if
    /// there is no such device or drive.
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

    /// Returns the shipped drive of this name; none if there is no such drive.
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

    /// Returns a line for each section in which a preset on the command line has replaced values of the drive; the line
    /// states these values.
    pub fn notes(&self) -> Vec<String> {
        explain::notes(self)
    }

    /// Returns a table of every key with its value, the origin of the value and its meaning, for a terminal of 100
    /// columns.
    pub fn explain(&self) -> String {
        self.explain_within(100, "")
    }

    /// Returns a table of every key with its value, the origin of the value and its meaning, for a terminal of `width`
    /// columns. `remark` is a line below the drive's name, such as how well the drive is known; empty for none.
    pub fn explain_within(&self, width: usize, remark: &str) -> String {
        explain::explain(self, width, remark)
    }

    /// Returns the resolved drive ([`Drive::resolved`]) as the text of a drive file, which reads back to an equal
    /// drive.
    ///
    /// # Panics
    /// If a field was set to a value that its key does not allow and TOML cannot express.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved()).expect("values that the schema allows are plain TOML")
    }

    /// Returns the full names of all keys that an override can set, presets included.
    pub fn settable_key_names() -> Vec<String> {
        let blank = Drive::blank();
        let header = blank.header();
        let mut names = vec![String::from("preset")];
        names.extend(header.keys().iter().map(|key| String::from(key.name)));
        for section in blank.sections() {
            let preset = presets::has(section.path()).then_some("preset");
            let keys = section.keys().into_iter().map(|key| key.name);
            names.extend(preset.into_iter().chain(keys).map(|key| section::full_key_name(section.path(), key)));
        }
        names
    }
}
