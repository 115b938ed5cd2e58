//! Parser of the TOML text of a sweep plan: the drive, the job, the axes that vary, and the columns of the results.
//!
//! ```toml
//! drive = "dc-express"                       # a shipped drive, or a file beside the plan
//! set = ["link.generation=3"]                # overrides of it
//! job = { bs = "4k", number_ios = 20000 }    # options of fio, or the path of a job file
//! seed = 1                                   # or several: [1, 2, 3]
//! columns = ["iops", "p99_ns"]
//!
//! [[axis]]                                   # the first axis varies slowest
//! key = "link.lanes"
//! powers_of_two = [1, 16]
//!
//! [[axis]]                                   # keys that vary together
//! zip = [
//!     { key = "media.read_ns", from = 50, to = 400, step = 50 },
//!     { key = "media.program_ns", values = [1, 2, 3, 4, 5, 6, 7, 8] },
//! ]
//! ```

use super::axis::{self, POINTS_MAX, RangeSpacing, SweepAxis, SweptKey, SweptPlanPart};
use crate::reproduce::fio_option_text;
use crate::results::{self, Figure};
use phaselink_core::config::document::{self, Entry, Node, Place, Table, Value};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::number::{whole, wide_index};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::spelling::{nearest, question};
use phaselink_core::workload::{fio, options};

/// Seed of a sweep whose plan does not give one.
const SEED_DEFAULT: u64 = 1;
/// Description of the forms in which a plan can give an axis's values, for error messages.
const VALUES: &str = "values = […], powers_of_two = [first, last], or from and to with step, count or factor";

/// Text in a sweep plan with its position in the file, for messages.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub text: String,
    pub place: Place,
}

/// Option of fio in a sweep plan, with its value and line.
#[derive(Clone, Debug)]
pub(super) struct PlanOption {
    pub name: String,
    pub text: String,
    pub line: Option<usize>,
}

/// Job of all runs of a sweep, as the plan gives it: a file or options.
#[derive(Clone, Debug)]
pub(super) enum PlanJobText {
    /// Path of a fio job file, as the plan gives it.
    File(Word),
    /// Options of fio in the plan, and the position of the whole table.
    Options(Place, Vec<PlanOption>),
}

/// Sweep plan as written, after each part has been checked by itself.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub file: String,
    /// Drive of all runs of the sweep. `None` if an axis varies the drive.
    pub drive: Option<Word>,
    pub set: Vec<KeyOverride>,
    pub job: PlanJobText,
    /// Seeds of the sweep, at least one; every point runs with each of them.
    pub seeds: Vec<u64>,
    /// Axes of the sweep; the first one varies slowest from point to point.
    pub axes: Vec<SweepAxis>,
    pub columns: Vec<&'static Figure>,
    /// Remarks on the plan for readers of the results, such as a renamed column.
    pub notes: Vec<String>,
}

/// Parses the TOML text of a sweep plan. `file` is its name in messages.
///
/// # Errors
/// All problems of the plan, in the order of its lines.
pub(super) fn read(file: &str, text: &str) -> Result<Text, Problems> {
    let document = document::parse(file, text);
    let whole = Place::whole(file);
    let mut reader =
        SweepReader { whole, keys: Drive::settable_key_names(), problems: document.problems, notes: Vec::new() };
    let text = reader.text(file, &document.table);
    reader.problems.sort_by_key(|problem| problem.line);
    Problems(reader.problems).or(text)
}

/// Reader of a sweep's plan, with the problems and notes found so far.
struct SweepReader {
    /// Position that stands for the whole file, for problems without a line.
    whole: Place,
    /// Full names of all keys of a drive file, such as `media.read_ns`; an axis of the sweep may vary only these.
    keys: Vec<String>,
    problems: Vec<Problem>,
    notes: Vec<String>,
}

impl SweepReader {
    fn text(&mut self, file: &str, table: &Table) -> Text {
        self.refuse_others(table, &["drive", "set", "job", "seed", "columns", "axis"]);
        let axes = self.axes(table);
        Text {
            file: String::from(file),
            drive: self.drive(table, &axes),
            set: self.set(table),
            job: self.job(table),
            seeds: self.seeds(table),
            columns: self.columns(table),
            notes: std::mem::take(&mut self.notes),
            axes,
        }
    }

    fn drive(&mut self, table: &Table, axes: &[SweepAxis]) -> Option<Word> {
        let is_swept = axes.iter().flat_map(|axis| &axis.swept).any(|swept| swept.target() == SweptPlanPart::Drive);
        let entry = document::entry(table, "drive");
        match (entry, is_swept) {
            (None, true) => None,
            (None, false) => {
                let allowed = "drive = \"NAME\" or the path of a drive file, or an axis with the key drive";
                let place = self.whole.clone();
                self.refuse(&place, "no drive", allowed);
                None
            }
            (Some(entry), true) => {
                self.refuse(&entry.place, "a drive, which an axis gives as well", "one of the two");
                None
            }
            (Some(entry), false) => self.word(entry, "the name of a shipped drive, or the path of a drive file"),
        }
    }

    fn word(&mut self, entry: &Entry, allowed: &str) -> Option<Word> {
        match &entry.node.value {
            Value::String(text) if !text.trim().is_empty() => {
                Some(Word { text: text.clone(), place: entry.node.place.clone() })
            }
            _ => {
                self.refuse_value(entry, allowed);
                None
            }
        }
    }

    fn set(&mut self, table: &Table) -> Vec<KeyOverride> {
        const ALLOWED: &str = "strings, as in set = [\"link.lanes=8\"]";
        let mut overrides = Vec::new();
        for node in self.array(table, "set", ALLOWED) {
            match &node.value {
                Value::String(text) => match KeyOverride::parse_override_at(node.place.clone(), text) {
                    Ok(parsed) => overrides.push(parsed),
                    Err(problem) => self.problems.push(problem),
                },
                _ => self.refuse(&node.place, format!("`{}` in set", node.quote), ALLOWED),
            }
        }
        overrides
    }

    fn job(&mut self, table: &Table) -> PlanJobText {
        let Some(entry) = document::entry(table, "job") else {
            return PlanJobText::Options(self.whole.clone(), Vec::new());
        };
        let Value::Table(options) = &entry.node.value else {
            let word = self.word(entry, "a table of fio options, or the path of a fio job file");
            let nothing = PlanJobText::Options(entry.place.clone(), Vec::new());
            return word.map_or(nothing, PlanJobText::File);
        };
        let mut given = Vec::new();
        for option in options {
            if let Some(text) = self.option(&option.key, &option.node) {
                given.push(PlanOption { name: option.key.clone(), text, line: option.place.line });
            }
        }
        PlanJobText::Options(entry.place.clone(), given)
    }

    /// Returns the value of a fio option as fio writes it. Reports a problem and returns `None` if the option does not
    /// have this value.
    fn option(&mut self, name: &str, node: &Node) -> Option<String> {
        let Some(text) = fio_option_text(&node.value) else {
            self.refuse(&node.place, format!("{name} is {}", node.quote), "a string, a number, true or false");
            return None;
        };
        let problems = fio::job_from_flags(&[(name, &text)]).err().unwrap_or_default();
        let is_right = problems.0.is_empty();
        self.problems.extend(problems.0.into_iter().map(|problem| node.place.problem(problem.found, problem.allowed)));
        is_right.then_some(text)
    }

    fn seeds(&mut self, table: &Table) -> Vec<u64> {
        let Some(entry) = document::entry(table, "seed") else {
            return vec![SEED_DEFAULT];
        };
        let seed = |value: &Value| match value {
            Value::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        };
        let seeds: Option<Vec<u64>> = match &entry.node.value {
            Value::Array(nodes) => nodes.iter().map(|node| seed(&node.value)).collect(),
            value => seed(value).map(|seed| vec![seed]),
        };
        let is_right = |seeds: &Vec<u64>| !seeds.is_empty() && seeds.len() <= POINTS_MAX;
        seeds.filter(is_right).unwrap_or_else(|| {
            self.refuse_value(entry, "a whole number from 0 to 2^64 - 1, or an array of such numbers");
            vec![SEED_DEFAULT]
        })
    }

    fn columns(&mut self, table: &Table) -> Vec<&'static Figure> {
        if document::entry(table, "columns").is_none() {
            return results::default_sweep_columns();
        }
        let mut names = Vec::new();
        for node in self.array(table, "columns", "an array of names") {
            match &node.value {
                Value::String(name) => names.push((name.as_str(), node.place.clone())),
                _ => self.refuse(&node.place, format!("`{}` in columns", node.quote), "names in quotes"),
            }
        }
        self.notes.extend(names.iter().filter_map(|(name, place)| results::renamed_column_note(name, place)));
        results::columns(names).unwrap_or_else(|problems| {
            self.problems.extend(problems.0);
            Vec::new()
        })
    }

    fn axes(&mut self, table: &Table) -> Vec<SweepAxis> {
        let mut axes: Vec<SweepAxis> = Vec::new();
        for node in self.array(table, "axis", "[[axis]] tables") {
            let Value::Table(inner) = &node.value else {
                self.refuse(&node.place, format!("`{}` in axis", node.quote), "[[axis]] tables");
                continue;
            };
            let axis = self.axis(&node.place, inner);
            for swept in axis.iter().flat_map(|axis| &axis.swept) {
                if axes.iter().flat_map(|axis| &axis.swept).any(|other| other.key == swept.key) {
                    self.refuse(&node.place, format!("a second axis of {}", swept.key), "one axis for each key");
                }
            }
            axes.extend(axis);
        }
        axes
    }

    fn axis(&mut self, place: &Place, table: &Table) -> Option<SweepAxis> {
        if document::entry(table, "zip").is_none() {
            return Some(SweepAxis { swept: vec![self.parse_swept_key(place, table)?] });
        }
        self.refuse_others(table, &["zip"]);
        let mut swept = Vec::new();
        for node in self.array(table, "zip", "an array of tables, each with a key and its values") {
            match &node.value {
                Value::Table(inner) => swept.push(self.parse_swept_key(&node.place, inner)),
                _ => self.refuse(&node.place, format!("`{}` in zip", node.quote), "tables with a key and its values"),
            }
        }
        let axis = SweepAxis { swept: swept.into_iter().collect::<Option<Vec<_>>>()? };
        self.check_axis_lengths(place, &axis);
        Some(axis).filter(|axis| axis.len() > 0)
    }

    fn check_axis_lengths(&mut self, place: &Place, axis: &SweepAxis) {
        if axis.swept.is_empty() {
            self.refuse(place, "a zip of nothing", "tables with a key and its values");
        }
        if axis.swept.iter().any(|swept| swept.values.len() != axis.len()) {
            let counts: Vec<String> =
                axis.swept.iter().map(|swept| format!("{} of {}", swept.values.len(), swept.key)).collect();
            self.refuse(place, format!("a zip of {}", counts.join(" with ")), "as many values of each key");
        }
        for (at, swept) in axis.swept.iter().enumerate() {
            if axis.swept[..at].iter().any(|other| other.key == swept.key) {
                self.refuse(place, format!("{} twice in a zip", swept.key), "each key once");
            }
        }
    }

    fn parse_swept_key(&mut self, place: &Place, table: &Table) -> Option<SweptKey> {
        self.refuse_others(
            table,
            &["key", "values", "powers_of_two", "from", "to", "step", "count", "factor", "spacing", "round"],
        );
        let Some(entry) = document::entry(table, "key") else {
            self.refuse(place, "an axis without a key", "key = \"link.lanes\", say");
            return None;
        };
        let key = self.word(entry, "a key of the drive, drive, or job.OPTION")?;
        let is_known = self.check_swept_key(&key);
        let values = self.values(place, table)?;
        let swept = SweptKey { key: key.text, values };
        if is_known {
            self.check_values(&swept);
        }
        Some(swept)
    }

    fn check_swept_key(&mut self, key: &Word) -> bool {
        let is_known = match axis::target(&key.text) {
            SweptPlanPart::Drive => true,
            // An unknown option is reported together with its first value.
            SweptPlanPart::Job(_) => true,
            SweptPlanPart::Description(name) => self.keys.iter().any(|known| known == name),
        };
        if !is_known {
            let bare = |known: &&String| known.split_once('.').is_some_and(|(_, name)| name == key.text);
            let same: Vec<&str> = self.keys.iter().filter(bare).map(String::as_str).collect();
            let meant = match same.is_empty() {
                true => nearest(&key.text, self.keys.iter().map(String::as_str)).map(String::from),
                false => Some(same.join(" or ")),
            };
            let found = format!("unknown key {} of an axis{}", key.text, question(meant.as_deref()));
            self.refuse(
                &key.place,
                found,
                "a key of the drive (`phaselink check NAME` lists them), drive, or job.OPTION",
            );
        }
        is_known
    }

    /// Checks the values of an axis: names or paths for drives, and allowed values for options of the job.
    fn check_values(&mut self, swept: &SweptKey) {
        // An unknown option is one problem, so check only its first value.
        let is_option = |name: &str| options::find(name).is_some();
        let values = match swept.target() {
            SweptPlanPart::Job(name) if !is_option(name) => &swept.values[..1],
            _ => &swept.values,
        };
        for node in values {
            match swept.target() {
                SweptPlanPart::Job(option) => drop(self.option(option, node)),
                SweptPlanPart::Drive if !matches!(node.value, Value::String(_)) => {
                    self.refuse(&node.place, format!("drive is {}", node.quote), "names and paths");
                }
                SweptPlanPart::Drive | SweptPlanPart::Description(_) => {}
            }
        }
    }

    fn values(&mut self, place: &Place, table: &Table) -> Option<Vec<Node>> {
        let given: Vec<&Entry> =
            ["values", "powers_of_two", "from"].iter().filter_map(|key| document::entry(table, key)).collect();
        let [entry] = given[..] else {
            self.refuse(
                place,
                if given.is_empty() { "an axis without values" } else { "an axis with values twice" },
                VALUES,
            );
            return None;
        };
        match entry.key.as_str() {
            "values" => self.list(entry),
            "powers_of_two" => self.powers(entry),
            _ => self.range(entry, table),
        }
    }

    fn list(&mut self, entry: &Entry) -> Option<Vec<Node>> {
        match &entry.node.value {
            Value::Array(nodes) if !nodes.is_empty() && nodes.len() <= POINTS_MAX => Some(nodes.clone()),
            _ => {
                self.refuse_value(entry, "an array of 1 to 1,000,000 values");
                None
            }
        }
    }

    fn powers(&mut self, entry: &Entry) -> Option<Vec<Node>> {
        let powers = match &entry.node.value {
            Value::Array(ends) => match &ends[..] {
                [Node { value: Value::Integer(from), .. }, Node { value: Value::Integer(to), .. }] => {
                    axis::powers_of_two(*from, *to)
                }
                _ => None,
            },
            _ => None,
        };
        if powers.is_none() {
            self.refuse_value(entry, "[first, last], two powers of two up to 2^53, as in [1, 64]");
        }
        powers.map(|powers| axis::nodes(&entry.place, &powers))
    }

    fn range(&mut self, entry: &Entry, table: &Table) -> Option<Vec<Node>> {
        let from = self.number(entry)?;
        let Some(to) = document::entry(table, "to") else {
            self.refuse(&entry.place, "a range without its end", "to = a number");
            return None;
        };
        let (to, spacing) = (self.number(to)?, self.spacing(entry, table)?);
        let mut numbers = match axis::range(from, to, spacing) {
            Ok(numbers) => numbers,
            Err((found, allowed)) => {
                self.refuse(&entry.place, found, allowed);
                return None;
            }
        };
        if self.switch(table, "round") {
            numbers.iter_mut().for_each(|number| *number = number.round());
            numbers.dedup();
        }
        Some(axis::nodes(&entry.place, &numbers))
    }

    fn spacing(&mut self, from: &Entry, table: &Table) -> Option<RangeSpacing> {
        let given: Vec<&Entry> =
            ["step", "count", "factor"].iter().filter_map(|key| document::entry(table, key)).collect();
        let [entry] = given[..] else {
            self.refuse(&from.place, "a range", "one of step, count and factor beside from and to");
            return None;
        };
        let number = self.number(entry)?;
        match (entry.key.as_str(), self.is_logarithmic(table)?) {
            ("step", false) => Some(RangeSpacing::Step(number)),
            ("factor", _) => Some(RangeSpacing::Factor(number)),
            ("count", _) if number.fract() != 0.0 || number < 0.0 => {
                self.refuse_value(entry, "a whole number");
                None
            }
            ("count", true) => Some(RangeSpacing::Logarithmic(wide_index(whole(number)))),
            ("count", false) => Some(RangeSpacing::Linear(wide_index(whole(number)))),
            _ => {
                self.refuse(&entry.place, "a step in a logarithmic range", "factor, or count");
                None
            }
        }
    }

    fn is_logarithmic(&mut self, table: &Table) -> Option<bool> {
        let Some(entry) = document::entry(table, "spacing") else {
            return Some(false);
        };
        match &entry.node.value {
            Value::String(word) if word == "linear" => Some(false),
            Value::String(word) if word == "logarithmic" => Some(true),
            _ => {
                self.refuse_value(entry, "\"linear\" or \"logarithmic\"");
                None
            }
        }
    }

    fn number(&mut self, entry: &Entry) -> Option<f64> {
        match entry.node.value {
            Value::Integer(integer) => Some(integer as f64),
            Value::Float(float) if float.is_finite() => Some(float),
            _ => {
                self.refuse_value(entry, "a number");
                None
            }
        }
    }

    fn switch(&mut self, table: &Table, key: &str) -> bool {
        let Some(entry) = document::entry(table, key) else {
            return false;
        };
        match entry.node.value {
            Value::Boolean(boolean) => boolean,
            _ => {
                self.refuse_value(entry, "true or false");
                false
            }
        }
    }

    /// Returns the items of the array under a key, or none if the key is missing. Reports a problem if the value is no
    /// array.
    fn array<'t>(&mut self, table: &'t Table, key: &str, allowed: &str) -> &'t [Node] {
        let Some(entry) = document::entry(table, key) else {
            return &[];
        };
        match &entry.node.value {
            Value::Array(nodes) => nodes,
            _ => {
                self.refuse_value(entry, allowed);
                &[]
            }
        }
    }

    fn refuse(&mut self, place: &Place, found: impl Into<String>, allowed: &str) {
        self.problems.push(place.problem(found, allowed));
    }

    fn refuse_value(&mut self, entry: &Entry, allowed: &str) {
        self.refuse(&entry.place, format!("{} is {}", entry.key, entry.node.quote), allowed);
    }

    fn refuse_others(&mut self, table: &Table, known: &[&str]) {
        for entry in table.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let meant = question(nearest(&entry.key, known.iter().copied()));
            self.refuse(&entry.place, format!("unknown key {}{meant}", entry.key), &known.join(", "));
        }
    }
}
