//! Where the value of each key comes from.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// The kind of text that gave a key its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// The preset of its section.
    Preset,
    /// The drive from which the file starts.
    Base,
    File,
    Set,
}

/// The origin of every key, and the presets in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// By full name; keys at their default are missing.
    pub origins: BTreeMap<String, Origin>,
    /// Preset of each section that has one.
    pub presets: BTreeMap<&'static str, String>,
    /// Drives from which the file starts, nearest first: names of shipped ones, paths of others.
    pub bases: Vec<String>,
    /// What presets have put other values in the place of.
    pub replaced: Vec<Replaced>,
}

/// A value that a drive gave beside its preset, until another preset took the section over.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub section: &'static str,
    pub key: &'static str,
    /// In the key's unit.
    pub value: Json,
    /// Whether the other preset was named on the command line.
    pub is_set: bool,
}

impl Origin {
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
    /// The origin of a key, given with its section.
    pub(crate) fn of(&self, key: &str) -> Origin {
        self.origins.get(key).copied().unwrap_or(Origin::Default)
    }
}
