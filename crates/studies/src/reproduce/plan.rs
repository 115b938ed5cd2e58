//! Plan of a reproduction (`plan.toml`): the experiments to simulate, and the expressions that give each row its value.
//!
//! ```toml
//! seed = 1                                   # of every experiment that gives none
//! job = { rw = "randread", iodepth = 1 }     # fio options of every experiment, unless it gives its own
//!
//! [[experiment]]
//! name = "sizes"
//! drive = "dc-express"
//! set = ["link.skip_ordered_sets=false"]     # overrides of the drive
//! job = { number_ios = 20000 }
//! beside = { bs = "512k" }                   # a second job at the same time, in the same terms
//! sweep = { key = "job.bs", values = [512, 4096] }
//!
//! [[experiment]]
//! name = "reads"
//! drive = "nfp6000-gen3-x8"                  # a device or drive
//! transfers = { op = "read", outstanding = 64 }   # in place of a job: what `phaselink dma` takes
//! sweep = { key = "transfers.size", values = [64, 256] }
//!
//! [[form]]                                   # closed form: what `phaselink breakeven` computes, without a run
//! name = "peak"
//! description = "slc-cpu"                    # shipped description of prices and rates
//! set = ["cells.channels=16"]                # overrides of it
//! sweep = { key = "block_bytes", values = [512, 4096] }
//!
//! [[row]]
//! id = "DCX-512-lat"                         # of expected.csv
//! value = "at(sizes.mean_ns, 512)"           # an expression
//! unexplained = "why"                        # optional: the paper leaves open what is to be compared
//! provenance = "solved"                      # optional: returned, solved or fitted, where nothing else says so
//! because = "why"                            # optional: what makes the value come out off, told if it does
//!
//! [[figure]]                                 # of a report: what is drawn
//! title = "Figure 4"
//! x = "bytes"                                # what is swept
//! y = "ns"                                   # unit
//! lines = { reads = "sizes.mean_ns" }        # a curve each; or stages = "sizes", those of an experiment in columns
//! ```
//!
//! A sweep makes every quantity of its experiment a series. It varies a key of the drive, or a fio
//! option as `job.OPTION`, or one of `phaselink dma` as `transfers.OPTION`. The sweep of a form varies a key of its
//! description, or `block_bytes`. A row that reads forms and no run has `provenance = "returned"`.

use super::expression::{Expression, parse};
use super::mistake::ExpressionMistake;
use super::plan_experiment::PlanExperiment;
use super::plan_form::ClosedFormSpec;
use crate::results::current_figure_name;
use crate::results::documents::Provenance;
use phaselink_core::config::document::{self, Entry, Node, Place, Table, Value};
use phaselink_core::problem::{Problem, Problems};

/// Seed of experiments for which the plan gives no seed.
const SEED_DEFAULT: u64 = 1;

/// One simulation of a plan, with everything that its outcome depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunSpec {
    /// Name of a shipped drive, or of a shipped device for transfers.
    pub drive: String,
    /// Overrides of the drive's description, such as `link.lanes=8`; the last one of a key counts.
    pub set: Vec<String>,
    /// fio options of the job, each given once.
    pub job: Vec<(String, String)>,
    /// fio options of a second job that runs at the same time as the first, if there is one.
    pub beside: Option<Vec<(String, String)>>,
    /// Options of transfers between a device and host memory ([`phaselink_core::dma`]), which replace the jobs.
    pub transfers: Option<Vec<(String, String)>>,
    /// Seed of the run's random numbers.
    pub seed: u64,
}

/// Row of a plan: expression from which the simulated value of one published result follows, or the reason why there is
/// none.
#[derive(Clone, Debug)]
pub(super) struct PlanRow {
    pub place: Place,
    pub id: String,
    pub value: Option<Expression>,
    /// Reason why the published result cannot be compared.
    pub unexplained: Option<String>,
    /// Reason why the simulated value differs from the published one, if it does.
    pub because: Option<String>,
    /// Provenance of the simulated value, if it does not follow from the kind of the row and its uncertain constants.
    pub provenance: Option<Provenance>,
}

/// Figure of a plan, which a report draws: curves of expressions, or the stages of an experiment.
#[derive(Clone, Debug)]
pub(super) struct PlanFigure {
    pub place: Place,
    pub title: String,
    /// Label of the horizontal axis, which has the swept values.
    pub x: String,
    /// Unit of the values that are drawn, such as `ns`.
    pub y: String,
    /// Name and expression of each curve; empty if stages are drawn.
    pub lines: Vec<(String, Expression)>,
    /// Index of the experiment whose stages are drawn; none if curves are drawn.
    pub stages: Option<usize>,
    /// Ids of the rows whose published values are drawn as marks, each with its position on the axis of swept values.
    pub published: Vec<(String, f64)>,
}

/// Plan of a reproduction, read and resolved.
#[derive(Clone, Debug, Default)]
pub(super) struct ReproductionPlan {
    /// All runs of the plan; equal runs of several experiments are one run.
    pub runs: Vec<RunSpec>,
    /// For each run, place in the plan of the first experiment that needs it.
    pub places: Vec<Place>,
    pub experiments: Vec<PlanExperiment>,
    pub rows: Vec<PlanRow>,
    pub figures: Vec<PlanFigure>,
    /// Notes on quantities that the plan calls by an earlier name, one each.
    pub notes: Vec<String>,
}

/// Reads the plan of a reproduction. All problems are added to `problems`; entries with problems are left out or
/// incomplete.
pub(super) fn read(file: &str, text: &str, problems: &mut Problems) -> ReproductionPlan {
    let document = document::parse(file, text);
    problems.0.extend(document.problems);
    let mut reader = ReproductionPlanReader { plan: ReproductionPlan::default(), problems: &mut problems.0 };
    reader.document(&document.table);
    reader.plan
}

/// Reader of a reproduction's plan, with the plan and the problems found so far.
struct ReproductionPlanReader<'a> {
    plan: ReproductionPlan,
    problems: &'a mut Vec<Problem>,
}

/// Seed and fio options that experiments inherit from the head of the plan.
struct ExperimentDefaults {
    seed: u64,
    job: Vec<(String, String)>,
}

/// Key that a sweep varies, and its values as numbers and as texts.
struct PlanSweep {
    key: String,
    values: Vec<(f64, String)>,
}

impl ReproductionPlanReader<'_> {
    fn document(&mut self, table: &Table) {
        self.refuse_unknown_plan_keys(table, &["seed", "job", "experiment", "form", "row", "figure"]);
        let defaults =
            ExperimentDefaults { seed: self.seed(table).unwrap_or(SEED_DEFAULT), job: self.job(table, "job") };
        for experiment in self.tables(table, "experiment") {
            self.experiment(experiment, &defaults);
        }
        for form in self.tables(table, "form") {
            self.form(form);
        }
        for row in self.tables(table, "row") {
            self.row(row);
        }
        for figure in self.tables(table, "figure") {
            self.figure(figure);
        }
    }

    fn experiment(&mut self, entry: (&Place, &Table), defaults: &ExperimentDefaults) {
        let (place, table) = entry;
        self.refuse_unknown_plan_keys(table, &["name", "drive", "set", "job", "beside", "transfers", "sweep", "seed"]);
        let name = self.name(place, table);
        let transfers = document::entry(table, "transfers").map(|_| self.job(table, "transfers"));
        let inherited: &[_] = if transfers.is_some() { &[] } else { &defaults.job };
        if transfers.is_some() && ["job", "beside"].iter().any(|key| document::entry(table, key).is_some()) {
            self.refuse(place, "transfers with a job", "transfers, or a job and one beside it");
        }
        let base = RunSpec {
            drive: self.required_string(place, table, "drive"),
            set: self.strings(table, "set").unwrap_or_default(),
            job: merge_options(inherited, self.job(table, "job")),
            transfers,
            beside: document::entry(table, "beside").map(|_| merge_options(&defaults.job, self.job(table, "beside"))),
            seed: self.seed(table).unwrap_or(defaults.seed),
        };
        let sweep = self.sweep(table);
        let specs = match &sweep {
            None => vec![base],
            Some(sweep) => sweep.values.iter().map(|(_, text)| base.with(&sweep.key, text)).collect(),
        };
        let runs = specs.into_iter().map(|spec| self.plan.index_of_run(spec, place)).collect();
        let swept = sweep.map(|sweep| sweep.values.iter().map(|(value, _)| *value).collect());
        self.plan.experiments.push(PlanExperiment { name, runs, forms: Vec::new(), swept });
    }

    fn form(&mut self, entry: (&Place, &Table)) {
        let (place, table) = entry;
        self.refuse_unknown_plan_keys(table, &["name", "description", "set", "sweep"]);
        let name = self.name(place, table);
        let base = ClosedFormSpec {
            description: self.required_string(place, table, "description"),
            set: self.strings(table, "set").unwrap_or_default(),
        };
        let sweep = self.sweep(table);
        let specs = match &sweep {
            None => vec![base],
            Some(sweep) => sweep.values.iter().map(|(_, text)| base.with(&sweep.key, text)).collect(),
        };
        let mut forms = Vec::new();
        for spec in specs {
            match spec.value() {
                Ok(value) => forms.push(value),
                Err(refused) => {
                    self.problems.extend(refused.0.into_iter().map(|it| place.problem(it.found, &it.allowed)))
                }
            }
        }
        let swept = sweep.map(|sweep| sweep.values.iter().map(|(value, _)| *value).collect());
        self.plan.experiments.push(PlanExperiment { name, runs: Vec::new(), forms, swept });
    }

    fn name(&mut self, place: &Place, table: &Table) -> String {
        let name = self.required_string(place, table, "name");
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(is_word)
            && !name.contains("--");
        if !name.is_empty() && !is_name {
            self.refuse(place, format!("experiment name `{name}`"), "a letter, then letters, digits, - and _");
        }
        if !name.is_empty() && self.plan.experiments.iter().any(|experiment| experiment.name == name) {
            self.refuse(place, format!("a second experiment `{name}`"), "one of each name");
        }
        name
    }

    fn sweep(&mut self, table: &Table) -> Option<PlanSweep> {
        let entry = document::entry(table, "sweep")?;
        let Value::Table(inner) = &entry.node.value else {
            self.refuse(&entry.place, "a sweep that is no table", "{ key = \"job.bs\", values = [512, 4096] }");
            return None;
        };
        self.refuse_unknown_plan_keys(inner, &["key", "values"]);
        let key = self.required_string(&entry.place, inner, "key");
        let values = self.array(inner, "values").unwrap_or(&[]);
        if values.is_empty() {
            self.refuse(&entry.place, "a sweep without values", "an array of numbers");
            return None;
        }
        let values = values.iter().filter_map(|node| self.number(node)).collect();
        Some(PlanSweep { key, values })
    }

    fn number(&mut self, node: &Node) -> Option<(f64, String)> {
        match &node.value {
            Value::Integer(integer) => Some((*integer as f64, integer.to_string())),
            Value::Float(float) if float.is_finite() => Some((*float, format!("{float:?}"))),
            _ => {
                self.refuse(&node.place, format!("swept value `{}`", node.quote), "a number");
                None
            }
        }
    }

    fn row(&mut self, entry: (&Place, &Table)) {
        let (place, table) = entry;
        self.refuse_unknown_plan_keys(table, &["id", "value", "unexplained", "because", "provenance"]);
        let row = PlanRow {
            place: place.clone(),
            id: self.required_string(place, table, "id"),
            value: self.expression(table, "value"),
            unexplained: self.string(table, "unexplained").map(|(_, reason)| reason),
            because: self.string(table, "because").map(|(_, reason)| reason),
            provenance: self.provenance(table),
        };
        if document::entry(table, "value").is_none() && row.unexplained.is_none() {
            self.refuse(place, format!("row `{}` without a value", row.id), "value = \"…\" or unexplained = \"why\"");
        }
        if self.plan.rows.iter().any(|other| other.id == row.id) {
            self.refuse(place, format!("a second row `{}`", row.id), "one row for each id");
        }
        self.plan.rows.push(row);
    }

    fn provenance(&mut self, table: &Table) -> Option<Provenance> {
        let (place, word) = self.string(table, "provenance")?;
        let known = Provenance::ALL.into_iter().find(|it| it.word() == word);
        if known.is_none() {
            let words: Vec<&str> = Provenance::ALL.iter().map(|it| it.word()).collect();
            self.refuse(&place, format!("provenance = \"{word}\""), &words.join(", "));
        }
        known
    }

    fn figure(&mut self, entry: (&Place, &Table)) {
        let (place, table) = entry;
        self.refuse_unknown_plan_keys(table, &["title", "x", "y", "lines", "stages", "published"]);
        let figure = PlanFigure {
            place: place.clone(),
            title: self.required_string(place, table, "title"),
            x: self.required_string(place, table, "x"),
            y: self.required_string(place, table, "y"),
            lines: self.lines(table),
            stages: self.experiment_of(table),
            published: self.published(table),
        };
        if figure.lines.is_empty() == figure.stages.is_none() {
            self.refuse(
                place,
                format!("figure `{}`", figure.title),
                "lines = { NAME = \"…\" } or stages = \"EXPERIMENT\"",
            );
        }
        self.plan.figures.push(figure);
    }

    fn lines(&mut self, table: &Table) -> Vec<(String, Expression)> {
        let Some(entry) = document::entry(table, "lines") else { return Vec::new() };
        let Value::Table(lines) = &entry.node.value else {
            self.refuse_value(entry, "{ NAME = \"an expression\" }");
            return Vec::new();
        };
        let names = lines.iter().map(|line| &line.key);
        let names: Vec<String> = names.cloned().collect();
        names.into_iter().filter_map(|name| Some((name.clone(), self.expression(lines, &name)?))).collect()
    }

    fn published(&mut self, table: &Table) -> Vec<(String, f64)> {
        let Some(entry) = document::entry(table, "published") else { return Vec::new() };
        let Value::Table(rows) = &entry.node.value else {
            self.refuse_value(entry, "{ ROW = 512 }, the id of a row and a swept value");
            return Vec::new();
        };
        let mut published = Vec::new();
        for row in rows {
            match row.node.value {
                Value::Integer(at) => published.push((row.key.clone(), at as f64)),
                Value::Float(at) => published.push((row.key.clone(), at)),
                _ => self.refuse_value(row, "a swept value, as in 512"),
            }
        }
        published
    }

    fn experiment_of(&mut self, table: &Table) -> Option<usize> {
        let (place, name) = self.string(table, "stages")?;
        let known = self.plan.experiments.iter().position(|experiment| experiment.name == name);
        if known.is_none() {
            let names: Vec<&str> = self.plan.experiments.iter().map(|experiment| experiment.name.as_str()).collect();
            self.problems.push(ExpressionMistake::unknown("experiment", &name, names.into_iter()).at(&place));
        }
        known
    }

    fn expression(&mut self, table: &Table, key: &str) -> Option<Expression> {
        let (place, text) = self.string(table, key)?;
        self.note_renamed_quantity(&place, &text);
        match parse(&text, &self.plan.experiments) {
            Ok(expression) => Some(expression),
            Err(faults) => {
                self.problems.extend(faults.into_iter().map(|mistake| mistake.at(&place)));
                None
            }
        }
    }

    fn note_renamed_quantity(&mut self, place: &Place, text: &str) {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        for (word, current) in words.filter_map(|word| Some((word, current_figure_name(word)?))) {
            let line = place.line.map_or(String::new(), |line| format!(":{line}"));
            self.plan.notes.push(format!("{}{line}: the quantity `{word}` is called {current} now", place.file));
        }
    }

    fn refuse(&mut self, place: &Place, found: impl Into<String>, allowed: &str) {
        self.problems.push(place.problem(found, allowed));
    }

    fn refuse_unknown_plan_keys(&mut self, table: &Table, known: &[&str]) {
        for entry in table.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            self.problems.push(ExpressionMistake::unknown("key", &entry.key, known.iter().copied()).at(&entry.place));
        }
    }

    fn refuse_value(&mut self, entry: &Entry, allowed: &str) {
        self.refuse(&entry.place, format!("{} = {}", entry.key, entry.node.quote), allowed);
    }

    /// Returns the tables of the list `[[key]]`, each with its place; refuses items that are no tables.
    fn tables<'t>(&mut self, table: &'t Table, key: &str) -> Vec<(&'t Place, &'t Table)> {
        let nodes = self.array(table, key).unwrap_or(&[]);
        let mut tables = Vec::new();
        for node in nodes {
            match &node.value {
                Value::Table(inner) => tables.push((&node.place, inner)),
                _ => self.refuse(&node.place, format!("`{}` in {key}", node.quote), &format!("[[{key}]]")),
            }
        }
        tables
    }

    fn array<'t>(&mut self, table: &'t Table, key: &str) -> Option<&'t [Node]> {
        let entry = document::entry(table, key)?;
        match &entry.node.value {
            Value::Array(nodes) => Some(nodes),
            _ => {
                self.refuse_value(entry, "an array");
                None
            }
        }
    }

    fn strings(&mut self, table: &Table, key: &str) -> Option<Vec<String>> {
        let nodes = self.array(table, key)?;
        let mut strings = Vec::new();
        for node in nodes {
            match &node.value {
                Value::String(string) => strings.push(string.clone()),
                _ => self.refuse(&node.place, format!("`{}` in {key}", node.quote), "strings"),
            }
        }
        Some(strings)
    }

    fn string(&mut self, table: &Table, key: &str) -> Option<(Place, String)> {
        let entry = document::entry(table, key)?;
        match &entry.node.value {
            Value::String(string) if !string.trim().is_empty() => Some((entry.place.clone(), string.clone())),
            _ => {
                self.refuse_value(entry, "a string");
                None
            }
        }
    }

    /// Returns a string that must be given; if it is not, reports a problem and returns an empty string.
    fn required_string(&mut self, place: &Place, table: &Table, key: &str) -> String {
        if document::entry(table, key).is_none() {
            self.refuse(place, format!("no {key}"), &format!("{key} = \"…\""));
        }
        self.string(table, key).map(|(_, string)| string).unwrap_or_default()
    }

    fn seed(&mut self, table: &Table) -> Option<u64> {
        let entry = document::entry(table, "seed")?;
        let seed = match &entry.node.value {
            Value::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        };
        if seed.is_none() {
            self.refuse_value(entry, "a whole number from 0 to 2^64 - 1");
        }
        seed
    }

    /// Returns fio options of a table, as names and values in fio's notation: true is 1.
    fn job(&mut self, table: &Table, key: &str) -> Vec<(String, String)> {
        let Some(entry) = document::entry(table, key) else {
            return Vec::new();
        };
        let Value::Table(options) = &entry.node.value else {
            self.refuse_value(entry, "a table of fio options");
            return Vec::new();
        };
        let mut job = Vec::new();
        for option in options {
            match fio_option_text(&option.node.value) {
                Some(text) => job.push((option.key.clone(), text)),
                None => self.refuse_value(option, "a string, a number, true or false"),
            }
        }
        job
    }
}

/// Returns a value in the notation of a fio job file; `None` for a type that no option has.
pub(crate) fn fio_option_text(value: &Value) -> Option<String> {
    match value {
        Value::String(string) => Some(string.clone()),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Float(float) => Some(float.to_string()),
        Value::Boolean(boolean) => Some(u8::from(*boolean).to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime => None,
    }
}

/// Returns the options of `base`, with those of `own` in place of options of the same name or after them.
fn merge_options(base: &[(String, String)], own: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut options = base.to_vec();
    for (key, text) in own {
        set_option(&mut options, &key, &text);
    }
    options
}

fn set_option(options: &mut Vec<(String, String)>, key: &str, text: &str) {
    match options.iter_mut().find(|(known, _)| known == key) {
        Some((_, value)) => *value = String::from(text),
        None => options.push((String::from(key), String::from(text))),
    }
}

impl RunSpec {
    /// Returns this run with one key of the drive set to a value, or one option of the job (`job.OPTION`) or of the
    /// transfers (`transfers.OPTION`).
    pub fn with(&self, key: &str, text: &str) -> RunSpec {
        let mut spec = self.clone();
        let transfers = key.strip_prefix("transfers.").and_then(|option| Some((option, spec.transfers.as_mut()?)));
        match (key.strip_prefix("job."), transfers) {
            (Some(option), _) => set_option(&mut spec.job, option, text),
            (_, Some((option, transfers))) => set_option(transfers, option, text),
            (None, None) => spec.set.push(format!("{key}={text}")),
        }
        spec
    }
}

impl ReproductionPlan {
    /// Returns the index of a run, which is added if the plan has no equal one; `place` is that of its experiment.
    fn index_of_run(&mut self, spec: RunSpec, place: &Place) -> usize {
        let known = self.runs.iter().position(|run| *run == spec);
        known.unwrap_or_else(|| {
            self.runs.push(spec);
            self.places.push(place.clone());
            self.runs.len() - 1
        })
    }
}

impl ExpressionMistake {
    /// Makes a problem of this mistake at a place in the plan.
    pub(super) fn at(self, place: &Place) -> Problem {
        place.problem(self.found, self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<ReproductionPlan, Vec<String>> {
        let mut problems = Problems::default();
        let plan = read("plan.toml", text, &mut problems);
        match problems.0.is_empty() {
            true => Ok(plan),
            false => Err(problems.0.iter().map(Problem::to_string).collect()),
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (String::from(*key), String::from(*value))).collect()
    }

    #[test]
    fn experiments_inherit_and_override_the_plans_job() {
        let plan = plan(
            "seed = 7\njob = { rw = \"randread\", bs = 512, time_based = true }\n\
             [[experiment]]\nname = \"a\"\ndrive = \"d\"\nset = [\"link.lanes=8\"]\njob = { bs = \"4k\", iodepth = 2 }\n",
        )
        .unwrap();
        assert_eq!(
            plan.runs,
            [RunSpec {
                drive: String::from("d"),
                set: vec![String::from("link.lanes=8")],
                job: pairs(&[("rw", "randread"), ("bs", "4k"), ("time_based", "1"), ("iodepth", "2")]),
                beside: None,
                transfers: None,
                seed: 7,
            }]
        );
    }

    #[test]
    fn second_job_inherits_like_the_first() {
        let plan = plan(
            "job = { rw = \"randread\", bs = 512 }\n\
             [[experiment]]\nname = \"a\"\ndrive = \"d\"\njob = { iodepth = 2 }\nbeside = { bs = \"4k\" }\n",
        )
        .unwrap();
        assert_eq!(plan.runs[0].job, pairs(&[("rw", "randread"), ("bs", "512"), ("iodepth", "2")]));
        assert_eq!(plan.runs[0].beside, Some(pairs(&[("rw", "randread"), ("bs", "4k")])));
    }

    #[test]
    fn sweep_creates_a_run_for_each_value_of_its_key_or_option() {
        let plan = plan(
            "[[experiment]]\nname = \"s\"\ndrive = \"d\"\nsweep = { key = \"job.bs\", values = [512, 4096] }\n\
             [[experiment]]\nname = \"c\"\ndrive = \"d\"\nsweep = { key = \"host.core_ghz\", values = [2.0, 3] }\n",
        )
        .unwrap();
        assert_eq!(plan.runs[1].job, pairs(&[("bs", "4096")]));
        assert_eq!(plan.runs[2].set, ["host.core_ghz=2.0"]);
        assert_eq!(plan.runs[3].set, ["host.core_ghz=3"]);
        assert_eq!(plan.experiments[1].runs, [2, 3]);
        assert_eq!(plan.experiments[1].swept, Some(vec![2.0, 3.0]));
    }

    #[test]
    fn dma_transfers_replace_a_job_and_can_be_swept() {
        let head = "job = { rw = \"read\" }\n[[experiment]]\nname = \"a\"\ndrive = \"d\"\n";
        let sweep = "sweep = { key = \"transfers.size\", values = [64, 128] }\n";
        let plan = |rest: &str| plan(&format!("{head}transfers = {{ op = \"write\" }}\n{rest}"));
        let runs = plan(sweep).unwrap().runs;
        assert_eq!(runs[1].transfers, Some(pairs(&[("op", "write"), ("size", "128")])));
        assert_eq!(runs[1].job, []);
        let found = plan("job = { bs = 512 }\n").unwrap_err();
        assert_eq!(found, ["plan.toml:2: transfers with a job; allowed: transfers, or a job and one beside it"]);
    }

    #[test]
    fn equal_runs_of_two_experiments_are_shared() {
        let plan = plan(
            "[[experiment]]\nname = \"a\"\ndrive = \"d\"\njob = { bs = 512 }\n\
             [[experiment]]\nname = \"b\"\ndrive = \"d\"\nsweep = { key = \"job.bs\", values = [512, 4096] }\n",
        )
        .unwrap();
        assert_eq!(plan.runs.len(), 2);
        assert_eq!(plan.experiments[1].runs, [0, 1]);
    }

    #[test]
    fn all_plan_mistakes_are_reported_with_lines() {
        let found = plan(
            "sede = 1\n[[experiment]]\nname = \"4k\"\ndriv = \"d\"\nsweep = { key = \"job.bs\", values = [\"4k\"] }\n\
             [[experiment]]\nname = \"a\"\ndrive = \"d\"\nseed = -1\n\
             [[row]]\nid = \"R\"\nvalue = \"a.iop + b.iops\"\n[[row]]\nid = \"R\"\n",
        )
        .unwrap_err();
        let starts = [
            "plan.toml:1: unknown key `sede`, did you mean seed?; allowed: seed, ",
            "plan.toml:4: unknown key `driv`, did you mean drive?; allowed: drive, ",
            "plan.toml:2: experiment name `4k`; allowed: a letter",
            "plan.toml:2: no drive; allowed: drive = ",
            "plan.toml:5: swept value `\"4k\"`; allowed: a number",
            "plan.toml:9: seed = -1; allowed: a whole number",
            "plan.toml:12: unknown quantity `iop`, did you mean iops?; allowed: iops, ",
            "plan.toml:12: unknown experiment `b`; allowed: ",
            "plan.toml:13: row `R` without a value; allowed: ",
            "plan.toml:13: a second row `R`; allowed: ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn plan_values_of_the_wrong_type_are_refused() {
        for text in ["job = 3", "experiment = 3", "experiment = [3]", "row = [3]", "seed = \"1\""] {
            assert_eq!(plan(text).unwrap_err().len(), 1, "{text}");
        }
        let text = "[[experiment]]\nname = \"a\"\ndrive = \"d\"\nset = [3]\njob = { bs = [3] }\nsweep = 3\n";
        assert_eq!(plan(text).unwrap_err().len(), 3);
    }
}
