//! What a section starts from: a preset of the program, or that section of another file.

use std::ops::Range;

use super::{DriveReader, Layer, Mark, Setting};
use crate::config::document::{self, Entry};
use crate::config::origin::{Origin, Replaced};
use crate::config::section::full_name;
use crate::config::value;
use crate::drive_file::presets;

/// Keys that say how a drive uses a part, and not which it is: another part is used likewise.
pub(super) const KEPT: &[(&str, &str)] = &[("host", "wait")];

/// What a section starts from.
enum Preset {
    Row(&'static Entry),
    File(String, Box<DriveReader>),
}

impl DriveReader {
    /// Start sections from the presets that a text names, in the place of all that lower ones say of them.
    pub(super) fn start_sections(&mut self, layers: &[Layer], text: Range<usize>) {
        for path in self.drive.sections().iter().map(|section| section.path()).collect::<Vec<_>>() {
            let named = layers[text.clone()].iter().filter_map(|layer| Some((layer, layer.preset(path)?)));
            let mut chosen = None;
            for (layer, entry) in named.filter(|_| presets::has(path)) {
                chosen = self.chosen(path, layer, entry);
            }
            if let Some(preset) = chosen {
                self.replace(path, text.start, layers[text.start].origin == Origin::Set);
                match preset {
                    Preset::Row(row) => self.read_row(path, text.start, row),
                    Preset::File(file, other) => self.take_section(path, text.start, file, *other),
                }
                self.keep(path, &layers[..text.start]);
            }
        }
    }

    /// The preset that a section names.
    fn chosen(&mut self, path: &'static str, layer: &Layer, entry: &Entry) -> Option<Preset> {
        if let Some(file) = layer.path_in(entry) {
            let table = self.other(entry, &file, 1)?;
            let mut other = DriveReader::new(self.others, self.depth + 1);
            let mut layers = vec![Layer { origin: Origin::File, file: Some(file.clone()), table }];
            other.add_bases(&mut layers);
            other.read_layers(&layers);
            self.problems.append(&mut other.problems);
            return Some(Preset::File(file, Box::new(other)));
        }
        let rows = presets::rows(path);
        let row = document::entry(rows, value::text(&entry.node).unwrap_or(""));
        if row.is_none() {
            let names = rows.iter().map(|row| row.key.as_str());
            self.unknown_preset(&full_name(path, "preset"), entry, names);
        }
        row.map(Preset::Row)
    }

    /// Forget what a section is so far, and note what drives have said of it.
    fn replace(&mut self, path: &'static str, rank: usize, is_set: bool) {
        let Some(section) = self.drive.sections_mut().into_iter().find(|section| section.path() == path) else {
            return;
        };
        let values = section.values();
        section.reset();
        for (key, value) in values {
            let setting = self.settings.remove(&full_name(path, key));
            if setting.is_some_and(|setting| setting.origin != Origin::Preset) && !KEPT.contains(&(path, key)) {
                self.drive.sources.replaced.push(Replaced { section: path, key, value, is_set });
            }
        }
        let of_section = format!("{path}.");
        self.marks.retain(|mark| {
            let is_of_section = mark.doubt.key.starts_with(&of_section) && mark.origin != Origin::Default;
            !is_of_section || mark.rank >= rank || KEPT.iter().any(|(of, key)| mark.doubt.key == full_name(of, key))
        });
    }

    /// Give a section the section of another file.
    fn take_section(&mut self, path: &'static str, rank: usize, file: String, mut other: DriveReader) {
        let of_section = format!("{path}.");
        self.drive.sources.presets.insert(path, file);
        let settings = other.settings.iter().filter(|(key, _)| key.starts_with(&of_section));
        let taken = |setting: &Setting| Setting { origin: Origin::Preset, rank, place: setting.place.clone() };
        self.settings.extend(settings.map(|(key, setting)| (key.clone(), taken(setting))));
        let marks = std::mem::take(&mut other.marks).into_iter().filter(|mark| {
            let applies = mark.applies(mark.setting(&other.settings)) && mark.origin != Origin::Default;
            applies && mark.doubt.key.starts_with(&of_section)
        });
        self.marks.extend(marks.map(|mark| Mark { origin: Origin::Preset, rank, ..mark }));
        self.faulty.append(&mut other.faulty);
        self.drive.take_section(path, other.drive);
    }

    /// Give the keys that no preset replaces the values that they had.
    fn keep(&mut self, path: &'static str, layers: &[Layer]) {
        for (_, key) in KEPT.iter().filter(|(of, _)| *of == path) {
            let given =
                layers.iter().enumerate().rev().find_map(|(rank, layer)| Some((rank, layer, layer.key(path, key)?)));
            if let Some((rank, layer, entry)) = given {
                self.set(path, layer.origin, rank, entry);
            }
        }
    }
}
