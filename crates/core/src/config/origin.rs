//! Origin of each key's value: default, preset, drive file or command line.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Kind of source that gave a key of a drive its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// Value is the default of the key.
    Default,
    /// Value is from the preset of the section that the key belongs to.
    Preset,
    /// Value is from a drive that the drive file is based on (`preset` above all sections).
    Base,
    /// Value is from the drive file itself, rather than from a drive that it is based on.
    File,
    /// Value is from an override on the command line, `--set`.
    Set,
}

/// Origin of each key's value in a drive, and the presets in use.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Origin of each value, by full name of its key. Keys with their default value are missing.
    pub origins: BTreeMap<String, ValueOrigin>,
    /// Name of the preset of each section that has one, by section.
    pub presets: BTreeMap<&'static str, String>,
    /// Drives that the drive file is based on, nearest first: names of shipped drives, paths of others.
    pub bases: Vec<String>,
    /// Values that were lost because a preset replaced their whole section.
    pub replaced: Vec<ReplacedValue>,
}

/// Value of a key that a drive set beside its preset, until another preset replaced the whole section.
#[derive(Clone, Debug)]
pub struct ReplacedValue {
    /// Name of the section that the key belongs to.
    pub section: &'static str,
    /// Name of the key within its section, such as `read_ns`.
    pub key: &'static str,
    /// Value of the key before the replacement, in the key's unit.
    pub value: Json,
    /// True if an override (`--set`) named the replacing preset.
    pub is_set: bool,
}

impl ValueOrigin {
    /// Returns the word for this origin in the table of `phaselink check`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            ValueOrigin::Default => "default",
            ValueOrigin::Preset => "preset",
            ValueOrigin::Base => "base",
            ValueOrigin::File => "file",
            ValueOrigin::Set => "--set",
        }
    }
}

impl Sources {
    /// Returns the origin of the value of the key with this full name.
    pub(crate) fn of(&self, key: &str) -> ValueOrigin {
        self.origins.get(key).copied().unwrap_or(ValueOrigin::Default)
    }
}
