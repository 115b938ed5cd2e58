//! Presets of sections: each is a shipped preset, or that section of another file.

use std::ops::Range;

use super::{DescriptionLayer, DriveReader, Mark, Setting};
use crate::config::document::{self, Entry};
use crate::config::origin::{ReplacedValue, ValueOrigin};
use crate::config::section::full_key_name;
use crate::config::value;
use crate::drive_file::presets;

/// Keys that say how a drive uses a component, not which component it is; they keep their value when a preset replaces
/// the section.
pub(super) const KEPT: &[(&str, &str)] = &[("host", "wait")];

/// Preset from which a section starts.
enum SectionPreset {
    /// Row of the shipped presets of this section.
    Row(&'static Entry),
    /// Path of another drive file, and the reader that has read it.
    File(String, Box<DriveReader>),
}

impl DriveReader {
    /// Applies to each section the preset that a text (the `layers` in `text`) names for it. The preset replaces all
    /// values that lower layers give to the section.
    pub(super) fn start_sections(&mut self, layers: &[DescriptionLayer], text: Range<usize>) {
        for path in self.drive.sections().iter().map(|section| section.path()).collect::<Vec<_>>() {
            let named = layers[text.clone()].iter().filter_map(|layer| Some((layer, layer.preset(path)?)));
            let mut chosen = None;
            for (layer, entry) in named.filter(|_| presets::has(path)) {
                chosen = self.find_preset(path, layer, entry).map(|preset| (preset, entry.place.clone()));
            }
            if let Some((preset, place)) = chosen {
                self.replace(path, text.start, layers[text.start].origin == ValueOrigin::Set);
                match preset {
                    SectionPreset::Row(row) => {
                        self.named.insert(path, place);
                        self.read_row(path, text.start, row);
                    }
                    SectionPreset::File(file, other) => {
                        self.named.remove(path);
                        self.take_section(path, text.start, file, *other);
                    }
                }
                self.restore_kept_keys(path, &layers[..text.start]);
            }
        }
    }

    /// Finds the preset that the entry names for a section: a shipped row, or a file, which is read. Reports an unknown
    /// name.
    fn find_preset(&mut self, path: &'static str, layer: &DescriptionLayer, entry: &Entry) -> Option<SectionPreset> {
        if let Some(file) = layer.preset_path_of(entry) {
            let table = self.other(entry, &file, 1)?;
            let mut other = DriveReader::new(self.others, self.depth + 1);
            let mut layers = vec![DescriptionLayer { origin: ValueOrigin::File, file: Some(file.clone()), table }];
            other.add_bases(&mut layers);
            other.read_layers(&layers);
            self.problems.append(&mut other.problems);
            return Some(SectionPreset::File(file, Box::new(other)));
        }
        let rows = presets::rows(path);
        let row = document::entry(rows, value::text(&entry.node).unwrap_or(""));
        if row.is_none() {
            let names = rows.iter().map(|row| row.key.as_str());
            self.report_unknown_preset(&full_key_name(path, "preset"), entry, names);
        }
        row.map(SectionPreset::Row)
    }

    /// Resets a section of the drive to its defaults before a preset is applied, and records the values that are lost
    /// and did not come from a preset.
    fn replace(&mut self, path: &'static str, rank: usize, is_set: bool) {
        let Some(section) = self.drive.sections_mut().into_iter().find(|section| section.path() == path) else {
            return;
        };
        let values = section.values();
        section.reset();
        for (key, value) in values {
            let setting = self.settings.remove(&full_key_name(path, key));
            if setting.is_some_and(|setting| setting.origin != ValueOrigin::Preset) && !KEPT.contains(&(path, key)) {
                self.drive.sources.replaced.push(ReplacedValue { section: path, key, value, is_set });
            }
        }
        let of_section = format!("{path}.");
        self.marks.retain(|mark| {
            let is_of_section = mark.doubt.key.starts_with(&of_section) && mark.origin != ValueOrigin::Default;
            !is_of_section || mark.rank >= rank || KEPT.iter().any(|(of, key)| mark.doubt.key == full_key_name(of, key))
        });
    }

    /// Copies a section of another drive file, with its uncertain constants, into this drive.
    fn take_section(&mut self, path: &'static str, rank: usize, file: String, mut other: DriveReader) {
        let of_section = format!("{path}.");
        self.drive.sources.presets.insert(path, file);
        let settings = other.settings.iter().filter(|(key, _)| key.starts_with(&of_section));
        let taken = |setting: &Setting| Setting { origin: ValueOrigin::Preset, rank, place: setting.place.clone() };
        self.settings.extend(settings.map(|(key, setting)| (key.clone(), taken(setting))));
        let marks = std::mem::take(&mut other.marks).into_iter().filter(|mark| {
            let applies = mark.applies(mark.setting(&other.settings)) && mark.origin != ValueOrigin::Default;
            applies && mark.doubt.key.starts_with(&of_section)
        });
        self.marks.extend(marks.map(|mark| Mark { origin: ValueOrigin::Preset, rank, ..mark }));
        self.faulty.append(&mut other.faulty);
        self.drive.take_section(path, other.drive);
    }

    /// Sets the keys in [`KEPT`] of a section again to the values of lower layers, after a preset has replaced the
    /// section.
    fn restore_kept_keys(&mut self, path: &'static str, layers: &[DescriptionLayer]) {
        for (_, key) in KEPT.iter().filter(|(of, _)| *of == path) {
            let given =
                layers.iter().enumerate().rev().find_map(|(rank, layer)| Some((rank, layer, layer.key(path, key)?)));
            if let Some((rank, layer, entry)) = given {
                self.set(path, layer.origin, rank, entry);
            }
        }
    }
}
