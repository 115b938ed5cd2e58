//! A drive with the text that it was read from.

use super::{Override, ReadFile, shipped};
use crate::drive::Drive;
use crate::problem::Problems;

/// A drive with what it was read from, so that it can be read again with other values.
#[derive(Clone, Debug)]
pub struct Described {
    drive: Drive,
    file: String,
    text: String,
    overrides: Vec<Override>,
    others: ReadFile,
}

impl Described {
    /// Read a drive file, as [`Drive::from_files`] does.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: &str, text: &str, overrides: &[Override], others: ReadFile) -> Result<Described, Problems> {
        let drive = Drive::from_files(file, text, overrides, others)?;
        Ok(Described { drive, file: file.into(), text: text.into(), overrides: overrides.to_vec(), others })
    }

    /// The drive of this name that comes with the program.
    ///
    /// # Errors
    /// If there is none, and everything that is wrong with the overrides.
    pub fn shipped(name: &str, overrides: &[Override], others: ReadFile) -> Result<Described, Problems> {
        let shipped = shipped::find(name).ok_or_else(|| shipped::unknown(name))?;
        Described::read(shipped.file, shipped.text, overrides, others)
    }

    /// The same with more overrides, which count before the earlier ones.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn with(&self, overrides: &[Override]) -> Result<Described, Problems> {
        Described::read(&self.file, &self.text, &[&self.overrides, overrides].concat(), self.others)
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The drive alone.
    pub fn into_drive(self) -> Drive {
        self.drive
    }
}
