//! Where the value of each key comes from.

use std::collections::BTreeMap;

/// The kind of text that gave a key its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// The preset of its section.
    Preset,
    /// The shipped drive from which the file starts.
    Shipped,
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
    /// Shipped drives from which the file starts, nearest first.
    pub shipped: Vec<&'static str>,
}

impl Origin {
    pub fn label(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Preset => "preset",
            Origin::Shipped => "shipped",
            Origin::File => "file",
            Origin::Set => "--set",
        }
    }
}

impl Sources {
    /// The origin of a key, given with its section.
    pub fn of(&self, key: &str) -> Origin {
        self.origins.get(key).copied().unwrap_or(Origin::Default)
    }
}
