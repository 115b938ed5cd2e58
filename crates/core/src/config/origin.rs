//! Record of the text from which the value of each key comes: default, preset, drive file or command line.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Kind of text that gave a key its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The default of the schema.
    Default,
    /// The preset of the key's section.
    Preset,
    /// A drive from which the file starts (`preset` above all sections).
    Base,
    /// The drive file itself.
    File,
    /// An override, `--set` on the command line.
    Set,
}

/// Origin of every key of a drive, and the presets in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Origin by full name of the key; keys at their default are missing.
    pub origins: BTreeMap<String, Origin>,
    /// Preset of each section that has one, by section.
    pub presets: BTreeMap<&'static str, String>,
    /// Drives from which the file starts, nearest first: names of shipped ones, paths of others.
    pub bases: Vec<String>,
    /// Values that presets have replaced.
    pub replaced: Vec<ReplacedValue>,
}

/// A value that a drive set beside its preset, until another preset replaced the whole section.
#[derive(Clone, Debug)]
pub(crate) struct ReplacedValue {
    /// Section of the key.
    pub section: &'static str,
    /// Name of the key within its section.
    pub key: &'static str,
    /// ReplacedValue value, in the key's unit.
    pub value: Json,
    /// True if the preset that replaced it was named by an override.
    pub is_set: bool,
}

impl Origin {
    /// Word for this origin in the table of `phaselink check`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Preset => "preset",
            Origin::Base => "base",
            Origin::File => "file",
            Origin::Set => "--set",
        }
    }
}

impl Sources {
    /// Origin of the key with this full name.
    pub(crate) fn of(&self, key: &str) -> Origin {
        self.origins.get(key).copied().unwrap_or(Origin::Default)
    }
}
