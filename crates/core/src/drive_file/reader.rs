//! Reader of drive descriptions: applies the layers of a description from lowest to highest and collects all problems.
//!
//! Layers, lowest first: drives that `preset` names, the file, each `--set`. If a layer names a preset for a section,
//! that section starts anew: values that lower layers give it no longer hold, except for the keys in [`start::KEPT`].

mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::checks;
use super::doubts;
use super::layers::{DescriptionLayer, DescriptionReader, FILES_DEEP_MAX};
use super::overrides::KeyOverride;
use super::presets;
use super::shipped::{self, ShippedFile};
use super::stages;
use crate::config::document::{self, Entry, Place, Table, Value};
use crate::config::origin::{ReplacedValue, ValueOrigin};
use crate::config::section::{Section, full_key_name};
use crate::config::value::{self, KeyFault};
use crate::config::{UncertainConstant, UncertaintyCause, list, refused};
use crate::drive::{Drive, Header, Interface};
use crate::problem::{Problem, Problems, printable};
use crate::spelling;

/// Kind of thing that a description file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// Drive, for which the file has to name an interface.
    Drive,
    /// Device of which only DMA to host memory is modelled; it needs no interface.
    Device,
}

/// Reads a drive or device file with overrides. `others` reads files that presets name. Returns the drive, or all
/// problems.
pub(super) fn read(
    file: &str,
    text: &str,
    overrides: &[KeyOverride],
    others: DescriptionReader,
    whole: Whole,
) -> Result<Drive, Problems> {
    let mut reader = DriveReader::new(others, 0);
    let (layers, syntax) = reader.layers(file, text, overrides);
    reader.read_layers(&layers);
    let files = files(file, &layers);
    reader.finish(&files, syntax, whole)
}

/// Origin of a key's value in effect: kind of text, layer and place.
struct Setting {
    /// Kind of text that gave the key its value: preset, base drive, file or override.
    origin: ValueOrigin,
    /// Index of the layer that gave the key its value, lowest 0. A preset's value has the index of the layer that names
    /// the preset.
    rank: usize,
    /// Place in a text at which the key is given.
    place: Place,
}

/// Declaration of an uncertain constant, with its cause (fitted or assumed) and the kind of text that it is from.
struct Mark {
    cause: UncertaintyCause,
    doubt: UncertainConstant,
    origin: ValueOrigin,
    rank: usize,
}

/// Number of problems from which on unknown keys get no suggestion: to find similar names takes longer than everything
/// else.
const SUGGESTIONS_MAX: usize = 100;

/// State of reading one drive description.
struct DriveReader {
    others: DescriptionReader,
    /// Number of files whose presets lead to this one, directly or through others.
    depth: usize,
    header: Header,
    drive: Drive,
    problems: Vec<Problem>,
    /// Origin of each key's value, by the full name of the key.
    settings: BTreeMap<String, Setting>,
    /// For each section with a shipped preset, place of the entry that names the preset: the user can change the
    /// section there.
    named: BTreeMap<&'static str, Place>,
    /// Full names of drive-file keys whose values have a problem; each key keeps the value of a lower layer.
    faulty: BTreeSet<String>,
    marks: Vec<Mark>,
}

impl DriveReader {
    fn new(others: DescriptionReader, depth: usize) -> DriveReader {
        DriveReader {
            others,
            depth,
            header: Header::default(),
            drive: Drive::blank(),
            problems: Vec::new(),
            settings: BTreeMap::new(),
            named: BTreeMap::new(),
            faulty: BTreeSet::new(),
            marks: Vec::new(),
        }
    }

    /// Returns all layers of a description, lowest first, and the syntax errors of the file's own text.
    fn layers(&mut self, file: &str, text: &str, overrides: &[KeyOverride]) -> (Vec<DescriptionLayer>, Vec<Problem>) {
        let document = document::parse(file, text);
        let own = DescriptionLayer { origin: ValueOrigin::File, file: Some(String::from(file)), table: document.table };
        let given = overrides.iter().map(|given| (ValueOrigin::Set, given.table().clone()));
        let given = given.map(|(origin, table)| DescriptionLayer { origin, file: None, table });
        let mut layers: Vec<DescriptionLayer> = std::iter::once(own).chain(given).collect();
        self.add_bases(&mut layers);
        (layers, document.problems)
    }

    /// Inserts the drives from which the description starts (`preset`) below its layers.
    fn add_bases(&mut self, layers: &mut Vec<DescriptionLayer>) {
        let mut base = self.base(layers);
        while let Some((name, layer)) = base {
            self.drive.sources.bases.push(name);
            layers.insert(0, layer);
            base = self.base(&layers[..1]);
        }
    }

    /// Finds the drive that the highest layer with a `preset` names, and returns its name and its layer; reports an
    /// unknown drive.
    fn base(&mut self, layers: &[DescriptionLayer]) -> Option<(String, DescriptionLayer)> {
        let mut base = None;
        for layer in layers {
            let Some(entry) = document::entry(&layer.table, "preset") else { continue };
            base = match layer.preset_path_of(entry) {
                Some(path) => self.read_base_file(entry, path),
                None => value::text(&entry.node).ok().and_then(shipped::find).map(shipped_base_layer),
            };
            if base.is_none() {
                self.faulty.insert(String::from("interface"));
                if layer.preset_path_of(entry).is_none() {
                    self.report_unknown_preset("preset", entry, shipped::names());
                }
            }
        }
        base
    }

    /// Reads the drive file at `path`, which the entry `preset` names. Returns its path and its layer, which goes below
    /// all others.
    fn read_base_file(&mut self, entry: &Entry, path: String) -> Option<(String, DescriptionLayer)> {
        let table = self.other(entry, &path, self.drive.sources.bases.len())?;
        Some((path.clone(), DescriptionLayer { origin: ValueOrigin::Base, file: Some(path), table }))
    }

    /// Reads another file, which is `further` files away from this one in a chain of presets. Returns its entries;
    /// reports a chain that is too long, and problems of the file.
    fn other(&mut self, entry: &Entry, path: &str, further: usize) -> Option<Table> {
        if self.depth + further >= FILES_DEEP_MAX {
            let found =
                format!("preset is {}: more than {FILES_DEEP_MAX} files start from each other", entry.node.quote);
            self.problems.push(entry.place.problem(found, format!("at most {FILES_DEEP_MAX} files, without a circle")));
            return None;
        }
        match (self.others)(path) {
            Ok(text) => {
                let document = document::parse(path, &text);
                self.problems.extend(document.problems);
                Some(document.table)
            }
            Err(problem) => {
                let found = format!("preset is {}: {}", entry.node.quote, problem.found);
                self.problems.push(entry.place.problem(found, problem.allowed));
                None
            }
        }
    }

    /// Reports a preset that does not exist, with the most similar one of the `known` names.
    fn report_unknown_preset<'a>(&mut self, key: &str, entry: &Entry, known: impl Iterator<Item = &'a str>) {
        let known: Vec<&str> = known.collect();
        let name = value::text(&entry.node).unwrap_or("");
        let meant = spelling::question(spelling::nearest(name, known.iter().copied()));
        let found = format!("{key} is {}{meant}", entry.node.quote);
        self.problems.push(entry.place.problem(found, known.join(", ")));
    }

    /// Declares the schema's assumed defaults uncertain; each declaration holds until a layer gives the key a value.
    fn read_default_marks(&mut self) {
        for entry in presets::assumed_defaults_table() {
            self.read_marks("", ValueOrigin::Default, 0, entry);
        }
    }

    /// Applies all layers of the description, lowest first.
    fn read_layers(&mut self, layers: &[DescriptionLayer]) {
        self.read_default_marks();
        let given = layers.iter().filter(|layer| layer.origin == ValueOrigin::Set).count();
        let (texts, given) = layers.split_at(layers.len() - given);
        for rank in 0..texts.len() {
            self.start_sections(layers, rank..rank + 1);
            self.read_layer(rank, &layers[rank]);
        }
        // All `--set` arguments form one layer, so any of them may name a preset.
        self.start_sections(layers, texts.len()..layers.len());
        for (place, layer) in given.iter().enumerate() {
            self.read_layer(texts.len() + place, layer);
        }
    }

    /// Applies the row of a shipped preset to its section; `rank` is the index of the layer that names the preset.
    fn read_row(&mut self, path: &'static str, rank: usize, row: &Entry) {
        self.drive.sources.presets.insert(path, row.key.clone());
        let Value::Table(keys) = &row.node.value else {
            return;
        };
        for entry in keys {
            match entry.key.as_str() {
                "summary" => {}
                "fitted" | "assumed" => self.read_marks(path, ValueOrigin::Preset, rank, entry),
                _ => self.set(path, ValueOrigin::Preset, rank, entry),
            }
        }
    }

    /// Applies the entries of one layer of the description (a file or an override) to the drive, except presets; `rank`
    /// is the index of the layer.
    fn read_layer(&mut self, rank: usize, layer: &DescriptionLayer) {
        for entry in &layer.table {
            match entry.key.as_str() {
                "preset" => {}
                "fitted" | "assumed" => self.read_marks("", layer.origin, rank, entry),
                "name" | "summary" if layer.origin == ValueOrigin::Base => {}
                path if self.section(path).is_some() => self.read_section(layer.origin, rank, entry),
                _ => self.read_header(layer.origin, rank, entry),
            }
        }
    }

    /// Applies the entries that one layer of the description gives for one section, except the section's preset.
    fn read_section(&mut self, origin: ValueOrigin, rank: usize, table: &Entry) {
        let path = table.key.as_str();
        let Value::Table(keys) = &table.node.value else {
            let found = format!("{path} is {}", table.node.quote);
            return self.problems.push(table.place.problem(found, format!("a section [{path}]")));
        };
        for entry in keys {
            if entry.key != "preset" || !presets::has(path) {
                self.set(path, origin, rank, entry);
            }
        }
    }

    /// Applies an entry that stands above all sections, or reports an unknown section.
    fn read_header(&mut self, origin: ValueOrigin, rank: usize, entry: &Entry) {
        let is_key = self.header.keys().iter().any(|key| key.name == entry.key);
        match entry.node.value {
            Value::Table(_) if !is_key => self.report_unknown_section(entry),
            _ => self.set("", origin, rank, entry),
        }
    }

    /// Reports a section that does not exist, with the most similar known section.
    fn report_unknown_section(&mut self, entry: &Entry) {
        let paths = self.drive.sections().iter().map(|section| section.path()).collect::<Vec<_>>();
        let meant = spelling::nearest(&entry.key, paths.iter().copied()).map(|path| format!("[{path}]"));
        let found = format!("unknown section [{}]{}", entry.key, spelling::question(meant.as_deref()));
        self.problems.push(entry.place.problem(found, format!("[{}]", paths.join("], ["))));
    }

    /// Sets a key of section `path` to the value of an entry of a drive file, or reports the entry's problem.
    fn set(&mut self, path: &str, origin: ValueOrigin, rank: usize, entry: &Entry) {
        // An obsolete name of a key is accepted and replaced by the current name.
        if let Some(name) = refused::current_key(path, &entry.key) {
            return self.set(path, origin, rank, &Entry { key: String::from(name), ..entry.clone() });
        }
        let name = full_key_name(path, &entry.key);
        let result = match path {
            "" => self.header.set(&entry.key, &entry.node),
            _ if name == "stack.stages" => stages::take(&mut self.drive.stack, &entry.node),
            _ => match self.drive.sections_mut().into_iter().find(|section| section.path() == path) {
                Some(section) => section.set(&entry.key, &entry.node),
                None => Err(KeyFault::UnknownKey),
            },
        };
        match result {
            Err(KeyFault::UnknownKey) if self.problems.len() >= SUGGESTIONS_MAX => {
                self.problems.push(entry.place.problem(format!("unknown key {name}"), ""));
            }
            Ok(()) => {
                self.settings.insert(name, Setting { origin, rank, place: entry.place.clone() });
            }
            Err(fault) => {
                let problems = refused::refused_entry_problems(fault, entry, self.section_or_header(path), &self.all());
                self.problems.extend(problems);
                self.faulty.insert(name);
            }
        }
    }

    /// Reads a list `fitted` or `assumed`, whose items declare constants uncertain. `path` is the section to which
    /// their keys belong, or empty if the keys name their section.
    fn read_marks(&mut self, path: &str, origin: ValueOrigin, rank: usize, list: &Entry) {
        let Value::Array(items) = &list.node.value else {
            let found = format!("{} is {}", list.key, list.node.quote);
            let allowed = format!("tables [[{}]] with the keys key, why, low and high, or instead", list.key);
            return self.problems.push(list.place.problem(found, allowed));
        };
        let cause = if list.key == "fitted" { UncertaintyCause::Fitted } else { UncertaintyCause::Assumed };
        for item in items {
            let known_problems = self.problems.len();
            let mut doubt: UncertainConstant = list::read_list_table(item, &mut self.problems);
            if self.problems.len() == known_problems {
                doubt.key = full_key_name(path, &doubt.key);
                // A test checks the marks of uncertain constants in shipped drives. A sweep reads those drives
                // thousands of times, so check only marks that users wrote.
                if matches!(origin, ValueOrigin::File | ValueOrigin::Set) {
                    self.check_mark(&list.key, &doubt, &item.place);
                }
                self.marks.push(Mark { cause, doubt, origin, rank });
            }
        }
    }

    /// Reports an unknown key, a missing reason or an inverted range in an item of a list `fitted` or `assumed` of
    /// uncertain constants.
    fn check_mark(&mut self, list: &str, doubt: &UncertainConstant, place: &Place) {
        let names = names();
        if !names.contains(&doubt.key) && doubts::stage_and_cost_of_key(&doubt.key).is_none() {
            let meant = spelling::nearest(&doubt.key, names.iter().map(String::as_str));
            let found = format!("{list} names the unknown key \"{}\"{}", doubt.key, spelling::question(meant));
            self.problems.push(place.problem(found, "a key with its section, as in host.interrupt_ns"));
        }
        if doubt.why.is_empty() {
            let found = format!("the entry of {} in {list} gives no reason", doubt.key);
            self.problems
                .push(place.problem(found, "why = the result that it was fitted to, or the reason why it is assumed"));
        }
        if doubt.low > doubt.high {
            let found = format!("{list} gives {} a range from {} to {}", doubt.key, doubt.low, doubt.high);
            self.problems.push(place.problem(found, "low no larger than high"));
        }
    }

    /// Returns the drive, or all problems of the description in the order of file and overrides.
    fn finish(mut self, files: &[String], syntax: Vec<Problem>, whole: Whole) -> Result<Drive, Problems> {
        let file = &files[0];
        if syntax.is_empty() {
            if whole == Whole::Drive {
                self.require_interface(file);
            }
            self.check_conditions_between_keys(file);
        }
        let reported: BTreeSet<(String, Option<usize>)> = syntax.iter().map(file_and_line).collect();
        let mut problems = std::mem::take(&mut self.problems);
        problems.retain(|problem| !reported.contains(&file_and_line(problem)));
        problems.extend(syntax);
        sort_by_place(files, &mut problems);
        Problems(problems).or(self.into_described_drive(file))
    }

    /// Reports that the key `interface` is missing, if no layer gives it.
    fn require_interface(&mut self, file: &str) {
        let is_known = self.settings.contains_key("interface") || self.faulty.contains("interface");
        if !is_known {
            let names = Interface::ALL.iter().map(|interface| format!("\"{}\"", interface.name()));
            let names = names.collect::<Vec<_>>().join(", ");
            let allowed = format!("interface = one of {names}, or preset = the name of a shipped drive");
            self.problems.push(Place::whole(file).problem("the key interface is missing", allowed));
        }
    }

    /// Reports the broken conditions between keys, unless one of the keys already has a problem of its own.
    fn check_conditions_between_keys(&mut self, file: &str) {
        self.drive.interface = self.header.interface;
        self.drive.faults = [&self.header.faults[..], &self.header.fault_lines.0].concat();
        self.drive.drives = self.header.drives;
        let origins = self.settings.iter().map(|(key, setting)| (key.clone(), setting.origin));
        self.drive.sources.origins = origins.collect();
        for rule in checks::broken(&self.drive) {
            if !rule.keys.iter().any(|key| self.faulty.contains(*key)) {
                let settings = rule.keys.iter().filter_map(|key| Some((*key, self.settings.get(*key)?)));
                let last = settings.max_by_key(|(_, setting)| (setting.rank, setting.place.line));
                let place =
                    last.map_or_else(|| Place::whole(file), |(key, setting)| self.user_place_of_value(key, setting));
                self.problems.push(place.problem(rule.found, rule.allowed));
            }
        }
    }

    /// Returns the place at which the user can change the value of a key: for a value of a shipped preset, the entry
    /// that names the preset.
    fn user_place_of_value(&self, key: &str, setting: &Setting) -> Place {
        let section = key.split('.').next().unwrap_or(key);
        let named = self.named.get(section).filter(|_| setting.origin == ValueOrigin::Preset);
        named.unwrap_or(&setting.place).clone()
    }

    /// Returns the drive with its name, interface, faults and number, with the uncertain constants whose values are in
    /// effect, and with the values that presets have replaced.
    fn into_described_drive(mut self, file: &str) -> Drive {
        let settings = std::mem::take(&mut self.settings);
        let marks = std::mem::take(&mut self.marks);
        let mut marks: Vec<Mark> = marks.into_iter().filter(|mark| mark.applies(mark.setting(&settings))).collect();
        let is_last = |place: usize| marks[place + 1..].iter().all(|later| later.doubt.key != marks[place].doubt.key);
        let mut last: Vec<bool> = (0..marks.len()).map(is_last).collect();
        marks.retain(|_| last.remove(0));
        let mut drive = self.drive;
        drive.name = if self.header.name.is_empty() { drive_name_of_file(file) } else { self.header.name };
        drive.summary = self.header.summary;
        drive.interface = self.header.interface;
        drive.faults = self.header.faults;
        drive.faults.extend(self.header.fault_lines.0);
        drive.drives = self.header.drives;
        let (fitted, assumed): (Vec<Mark>, Vec<Mark>) =
            marks.into_iter().partition(|mark| mark.cause == UncertaintyCause::Fitted);
        drive.fitted = fitted.into_iter().map(|mark| mark.doubt).collect();
        drive.assumed = assumed.into_iter().map(|mark| mark.doubt).collect();
        let now = |of: &ReplacedValue| {
            let section = drive.sections().into_iter().find(|section| section.path() == of.section)?;
            section.values().into_iter().find(|(key, _)| *key == of.key).map(|(_, value)| value)
        };
        let mut replaced = drive.sources.replaced.clone();
        replaced.retain(|of| now(of).is_some_and(|value| value != of.value));
        drive.sources.replaced = replaced;
        drive
    }

    /// Returns the section of the drive description that has this name, if there is one.
    fn section(&self, path: &str) -> Option<&dyn Section> {
        self.drive.sections().into_iter().find(|section| section.path() == path)
    }

    /// Returns the section of the drive description that has this name, or the keys above all sections if there is no
    /// such section.
    fn section_or_header(&self, path: &str) -> &dyn Section {
        self.section(path).unwrap_or(&self.header)
    }

    /// Returns the keys above all sections, and every section.
    fn all(&self) -> Vec<&dyn Section> {
        let header: &dyn Section = &self.header;
        std::iter::once(header).chain(self.drive.sections()).collect()
    }
}

/// Returns the full names of all keys that the sections of a drive file can have.
fn names() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    let names_of = |section: &dyn Section| -> Vec<String> {
        section.keys().iter().map(|key| full_key_name(section.path(), key.name)).collect()
    };
    NAMES.get_or_init(|| Drive::blank().sections().into_iter().flat_map(names_of).collect())
}

impl Mark {
    /// Returns the origin of the value of the key that is declared uncertain, if any layer gave one.
    fn setting<'a>(&self, settings: &'a BTreeMap<String, Setting>) -> Option<&'a Setting> {
        let is_cost = doubts::stage_and_cost_of_key(&self.doubt.key).is_some();
        settings.get(if is_cost { "stack.stages" } else { self.doubt.key.as_str() })
    }

    /// True if a key's declaration as uncertain still applies to the value in effect. The declaration of a default is
    /// for the default, that of a preset for the preset's value, and that of a file for the value that the file gives
    /// or takes from a lower layer.
    fn applies(&self, setting: Option<&Setting>) -> bool {
        match (self.origin, setting) {
            (ValueOrigin::Default, setting) => setting.is_none(),
            (ValueOrigin::Preset, Some(setting)) => setting.origin == ValueOrigin::Preset,
            (_, Some(setting)) => setting.rank <= self.rank,
            (_, None) => true,
        }
    }
}

/// Returns the name and the layer of a shipped drive from which another one starts.
fn shipped_base_layer(shipped: ShippedFile) -> (String, DescriptionLayer) {
    let table = document::parse(shipped.file, shipped.text).table;
    let layer = DescriptionLayer { origin: ValueOrigin::Base, file: Some(String::from(shipped.file)), table };
    (String::from(shipped.name), layer)
}

/// Returns the file and the line of a problem.
fn file_and_line(problem: &Problem) -> (String, Option<usize>) {
    (problem.file.clone(), problem.line)
}

/// Returns the names of the file and of each override, in the order in which their problems are reported. Problems of
/// other texts come after them: presets and shipped drives whose values conflict with the file's.
fn files(file: &str, layers: &[DescriptionLayer]) -> Vec<String> {
    let overrides = layers.iter().filter(|layer| layer.origin == ValueOrigin::Set);
    let names = overrides.flat_map(|layer| &layer.table).map(|entry| entry.place.file.to_string());
    std::iter::once(String::from(file)).chain(names).collect()
}

/// Sorts problems by file, in the order of `files`, and line.
fn sort_by_place(files: &[String], problems: &mut [Problem]) {
    let rank = |name: &String| files.iter().position(|file| file == name).unwrap_or(files.len());
    problems.sort_by_key(|problem| (rank(&problem.file), problem.line));
}

/// Returns the name of a file without folders and without `.toml`, as the name of its drive.
fn drive_name_of_file(file: &str) -> String {
    let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = last.strip_suffix(".toml").unwrap_or(last);
    printable(if stem.is_empty() { "drive" } else { stem }).into_owned()
}
