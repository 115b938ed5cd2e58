//! A drive together with the text from which it was read.

use super::{DescriptionReader, KeyOverride, shipped, unstated};
use crate::config::engine::{EngineOptions, polls};
use crate::config::origin::ValueOrigin;
use crate::drive::Drive;
use crate::problem::Problems;

/// Drive together with its file, text and overrides, so that it can be read again with further overrides.
#[derive(Clone, Debug)]
pub struct Described {
    drive: Drive,
    file: String,
    text: String,
    overrides: Vec<KeyOverride>,
    others: DescriptionReader,
}

impl Described {
    /// Reads a drive file, as [`Drive::from_files`] does.
    ///
    /// # Errors
    /// All problems of the file and the overrides.
    pub fn read(
        file: &str,
        text: &str,
        overrides: &[KeyOverride],
        others: DescriptionReader,
    ) -> Result<Described, Problems> {
        let drive = Drive::from_files(file, text, overrides, others)?;
        Ok(Described { drive, file: file.into(), text: text.into(), overrides: overrides.to_vec(), others })
    }

    /// Reads the shipped drive of this name, with overrides.
    ///
    /// # Errors
    /// If there is no such drive, and all problems of the overrides.
    pub fn shipped(name: &str, overrides: &[KeyOverride], others: DescriptionReader) -> Result<Described, Problems> {
        let shipped = shipped::find(name).ok_or_else(|| shipped::unknown(name))?;
        Described::read(shipped.file, shipped.text, overrides, others)
    }

    /// Reads the drive again with further overrides, which take precedence over the earlier ones.
    ///
    /// # Errors
    /// All problems of the overrides.
    pub fn with(&self, overrides: &[KeyOverride]) -> Result<Described, Problems> {
        Described::read(&self.file, &self.text, &[&self.overrides, overrides].concat(), self.others)
    }

    /// Returns a sentence on the sections that a run assumes because neither the user's file nor an override states
    /// them; `None` if there are none. A shipped drive states everything, unless an override gives it another memory.
    pub fn unstated(&self) -> Option<String> {
        let is_own = shipped::all().all(|shipped| shipped.file != self.file);
        let has_memory = self.overrides.iter().any(|given| given.is_of("media"));
        (is_own || has_memory).then(|| unstated::sentence(&self.drive, is_own))?
    }

    /// Returns the drive with interrupts turned on, and the key that turns them on, if an override chose a stack whose
    /// threads sleep until an interrupt. `None` if no override chose such a stack, if interrupts are on, or if an
    /// override turned them off.
    pub fn with_interrupts(&self) -> Option<(Described, &'static str)> {
        let drive = &self.drive;
        let key = drive.protocol().interrupts_key().filter(|key| drive.sources.of(key) != ValueOrigin::Set)?;
        let sleeps =
            drive.limits().engine_support.is_some_and(|support| !polls(support.default, EngineOptions::default()));
        if !sleeps || !self.overrides.iter().any(|given| given.is_of("stack")) {
            return None;
        }
        let interrupts = KeyOverride::parse(&format!("{key}=true")).ok()?;
        Some((self.with(&[interrupts]).ok()?, key))
    }

    /// Returns the drive with interrupts turned on where [`with_interrupts`](Described::with_interrupts) does so, and
    /// otherwise as it is.
    #[must_use]
    pub fn with_interrupts_raised(self) -> Described {
        self.with_interrupts().map_or(self, |(raised, _)| raised)
    }

    /// Returns the drive as it was read, overrides included.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Returns the drive and drops the text from which it was read.
    pub fn into_drive(self) -> Drive {
        self.drive
    }
}
