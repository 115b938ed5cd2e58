//! Sections of a drive that its description does not state, so that a run assumes their defaults.

use crate::config::origin::{Sources, ValueOrigin};
use crate::drive::Drive;
use crate::words::{counted, listed};

/// Function that describes a section of a drive in a few words.
type SectionDescriber = fn(&Drive) -> String;

/// Sections on which every result depends, each with the function that describes it.
const PARTS: [(&str, SectionDescriber); 3] = [
    ("media", |drive| format!("{} of {} banks", drive.media.technology.name(), drive.media.banks_per_channel)),
    ("link", |drive| format!("PCI Express gen {} x{}", drive.link.generation, drive.link.lanes)),
    ("host", |drive| format!("{} at {} GHz", counted(drive.host.cores.into(), "core"), drive.host.core_ghz)),
];

/// Returns a sentence on sections that have their defaults because no text names them, and on flash without a
/// translation layer; `None` if everything is stated. Sections count only if the drive is the user's own (`is_own`).
pub(super) fn sentence(drive: &Drive, is_own: bool) -> Option<String> {
    let parts = PARTS.iter().filter(|(section, _)| is_own && !is_stated(&drive.sources, section));
    let parts = parts.map(|(section, words)| format!("{section} ({})", words(drive)));
    let assumed: Vec<String> = parts.chain(translation(drive)).collect();
    (!assumed.is_empty()).then(|| format!("{}: not stated, and therefore assumed: {}", drive.name, listed(&assumed)))
}

/// True if a file, an override or a preset gives at least one key of the section.
fn is_stated(sources: &Sources, section: &str) -> bool {
    let is_key = |key: &String| key.split_once('.').is_some_and(|(of, _)| of == section);
    sources.presets.contains_key(section) || sources.origins.keys().any(is_key)
}

/// Returns a text on flash whose description does not state its translation layer; `None` for any other drive.
fn translation(drive: &Drive) -> Option<String> {
    let is_flash = drive.media.is_nand() && !drive.is_flash();
    let is_stated = drive.sources.of("translation.mapping") != ValueOrigin::Default;
    let words = "translation (none: each write programs its page in place, without erases or garbage collection; \
                 translation.mapping = \"page\" adds a layer)";
    (is_flash && !is_stated).then(|| String::from(words))
}
