//! Plans of sources: rules by which runs of the model predict the measurements of one source.
//!
//! ```toml
//! source = "PCB"                      # identifiers of its rows begin with this
//! title = "pcie-bench, raw data (SIGCOMM 2018)"
//! job = { rw = "randread" }           # fio options of every run of jobs, unless a rule sets its own
//! set = ["host.preset=zen4-9654p"]    # settings of every run, before those of its rule
//!
//! [words.window]                      # what stands for a captured text; a capture without a table stands for itself
//! "8 KiB" = "8k"
//!
//! [[rule]]                            # the first rule that a row matches answers it
//! when = { quantity = "latency, mean", workload = "read {size} B; random; *; window {window}; one at a time" }
//! drive = "nfp6000-gen3-x8"
//! set = ["transfers.op=read", "transfers.size={size}", "transfers.window={window}", "{machine}"]
//! value = "run.mean_ns"               # an expression over the run, with captures as in settings
//! unit = "ns"                         # its unit, which becomes that of the row
//! provenance = "predicted"            # or given, returned, solved
//! because = "why"                     # optional: a known reason for a difference
//!
//! [[rule]]
//! when = { quantity = "cache misses*" }
//! class = "hardware counters"         # in place of a run: what the model does not answer
//! answerable = false                  # true unless no simulation of requests could answer it
//! ```
//!
//! A pattern is literal text in which `*` stands for any text and `{name}` for text that is captured. A list of
//! patterns matches if one of them does. A setting may hold several, separated by `; `.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::measurement::{COLUMNS, MeasuredValue};
use super::pattern::{Captures, TextPattern, filled};
use super::unit;
use crate::reproduce::{RunExpression, RunSpec};
use crate::results::documents::Provenance;
use phaselink_core::problem::{Problem, Problems};

/// Seed of all validation runs.
const SEED: u64 = 1;

/// Plan of one source of measurements, parsed and checked.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Short name of the source, with which the identifiers of its measurements begin.
    pub source: String,
    /// Full name of the source of measurements, for people.
    pub title: String,
    file: String,
    job: Vec<(String, String)>,
    set: Vec<String>,
    words: BTreeMap<String, BTreeMap<String, String>>,
    rules: Vec<ValidationRule>,
}

/// Rule of a plan: patterns for columns of a measurement, and the run that predicts measurements which match all of
/// them.
#[derive(Clone, Debug)]
struct ValidationRule {
    when: Vec<(String, Vec<TextPattern>)>,
    answer: RuleAnswer,
    line: Option<usize>,
}

/// Answer of a rule to the measurements that match it: the reason why no run predicts them, or the run that does.
#[derive(Clone, Debug)]
enum RuleAnswer {
    Left { class: String, is_answerable: bool },
    Run(Box<RuleRun>),
}

/// Run that predicts the measurements of a rule, as templates of its drive, keys and value.
#[derive(Clone, Debug)]
struct RuleRun {
    drive: String,
    set: Vec<String>,
    value: String,
    unit: String,
    provenance: Provenance,
    because: String,
}

/// Decision of a plan about one measurement: the run that predicts it, or the reason why none does.
#[derive(Clone, Debug)]
pub(super) enum RowPlan {
    /// Model does not predict this measurement. `class` is the reason; `is_answerable` is true if a simulation of
    /// requests could.
    Left { class: String, is_answerable: bool },
    /// This run of the model predicts the measurement.
    Run(Box<PredictingRun>),
}

/// Run that predicts a measurement, and the expression that gives its value.
#[derive(Clone, Debug)]
pub(super) struct PredictingRun {
    pub spec: RunSpec,
    pub value: RunExpression,
    /// Factor from the unit of the run's value to the unit of the measurement.
    pub factor: f64,
    pub provenance: Provenance,
    pub because: String,
    /// Position of the rule for messages: file of the plan, and line.
    pub place: (String, Option<usize>),
}

/// Plan of a source of measurements as written in its TOML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourcePlanText {
    source: String,
    title: String,
    #[serde(default)]
    job: BTreeMap<String, toml::Value>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    words: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    rule: Vec<toml::Spanned<RuleText>>,
}

/// Rule of a source's plan as written in its TOML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    when: BTreeMap<String, PatternTexts>,
    class: Option<String>,
    answerable: Option<bool>,
    drive: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    value: Option<String>,
    unit: Option<String>,
    provenance: Option<Provenance>,
    because: Option<String>,
}

/// One pattern, or several of which one must match.
#[derive(Deserialize)]
#[serde(untagged)]
enum PatternTexts {
    One(String),
    Several(Vec<String>),
}

impl PatternTexts {
    fn texts(&self) -> &[String] {
        match self {
            PatternTexts::One(text) => std::slice::from_ref(text),
            PatternTexts::Several(texts) => texts,
        }
    }
}

impl SourcePlan {
    /// Parses the TOML text of a plan. `file` is its name in problems.
    ///
    /// # Errors
    /// Syntax errors, unknown keys and columns, invalid patterns and expressions, and rules that neither predict a row
    /// nor leave it out.
    pub fn read(file: &str, text: &str) -> Result<SourcePlan, Problems> {
        let plan: SourcePlanText = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            Problem::new(file, line, error.message(), "keys and values as docs/validation.md lists them")
        })?;
        let (mut rules, mut problems) = (Vec::new(), Problems::default());
        for spanned in &plan.rule {
            let line = Some(line_of(text, spanned.span().start));
            match ValidationRule::read(file, line, spanned.get_ref()) {
                Ok(rule) => rules.push(rule),
                Err(found) => problems.0.extend(found.0),
            }
        }
        let job = plan.job.iter().map(|(name, value)| (name.clone(), option(value)));
        let read = SourcePlan {
            source: plan.source,
            title: plan.title,
            file: String::from(file),
            job: job.collect(),
            set: plan.set,
            words: plan.words,
            rules,
        };
        problems.or(read)
    }

    /// Returns the decision of the first rule that a measurement matches.
    ///
    /// # Errors
    /// A measurement that matches no rule, and captured texts or units that the rule cannot use.
    pub(super) fn answer(&self, row: &MeasuredValue) -> Result<RowPlan, Problem> {
        let found = self.rules.iter().find_map(|rule| Some((rule, rule.captures(row)?)));
        let Some((rule, captures)) = found else {
            let found = format!("no rule matches the row {}", row.id());
            return Err(Problem::new(&self.file, None, found, "a rule that answers it, or one with its class"));
        };
        match &rule.answer {
            RuleAnswer::Left { class, is_answerable } => {
                Ok(RowPlan::Left { class: class.clone(), is_answerable: *is_answerable })
            }
            RuleAnswer::Run(run) => self.run(rule, run, &captures, row).map_err(|found| {
                Problem::new(
                    &self.file,
                    rule.line,
                    format!("row {}: {found}", row.id()),
                    "what docs/validation.md lists",
                )
            }),
        }
    }

    fn run(
        &self,
        rule: &ValidationRule,
        run: &RuleRun,
        captures: &Captures,
        row: &MeasuredValue,
    ) -> Result<RowPlan, String> {
        let word = |name: &str, captured: &str| match self.words.get(name) {
            None => Ok(String::from(captured)),
            Some(words) => words.get(captured).cloned().ok_or_else(|| format!("no words.{name} for `{captured}`")),
        };
        let fill = |text: &str| filled(text, captures, &word);
        let settings: Vec<String> = self.set.iter().chain(&run.set).map(|text| fill(text)).collect::<Result<_, _>>()?;
        let settings: Vec<&str> =
            settings.iter().flat_map(|text| text.split("; ")).filter(|text| !text.is_empty()).collect();
        let is_of_transfers = settings.iter().any(|setting| setting.starts_with("transfers."));
        let mut spec = RunSpec {
            drive: fill(&run.drive)?,
            set: Vec::new(),
            job: if is_of_transfers { Vec::new() } else { self.job.clone() },
            beside: None,
            transfers: is_of_transfers.then(Vec::new),
            seed: SEED,
        };
        for setting in settings {
            let (key, value) = setting.split_once('=').ok_or_else(|| format!("the setting `{setting}`"))?;
            spec = spec.with(key, value);
        }
        let value =
            RunExpression::parse(&self.file, rule.line, &fill(&run.value)?).map_err(|found| found.to_string())?;
        let factor = unit::factor(&run.unit, row.unit())
            .ok_or_else(|| format!("a value in {} for a row in {}", run.unit, row.unit()))?;
        Ok(RowPlan::Run(Box::new(PredictingRun {
            spec,
            value,
            factor,
            provenance: run.provenance,
            because: run.because.clone(),
            place: (self.file.clone(), rule.line),
        })))
    }
}

impl ValidationRule {
    fn read(file: &str, line: Option<usize>, text: &RuleText) -> Result<ValidationRule, Problems> {
        let problem = |found: String, allowed: &str| Problems::from(Problem::new(file, line, found, allowed));
        let mut when = Vec::new();
        for (column, patterns) in &text.when {
            if !COLUMNS.contains(&column.as_str()) {
                return Err(problem(format!("the column {column}"), &COLUMNS.join(", ")));
            }
            let read = patterns.texts().iter().map(|text| TextPattern::parse(text)).collect::<Result<Vec<_>, _>>();
            when.push((column.clone(), read.map_err(|found| problem(found, "{name} in small letters, or no brace"))?));
        }
        let answer = match (&text.class, &text.drive, &text.value, &text.unit) {
            (Some(_), None, None, None) if !text.set.is_empty() || text.provenance.is_some() => {
                let found = String::from("set or provenance in a rule with a class, which runs nothing");
                return Err(problem(found, "class with answerable and because, or drive with value and unit"));
            }
            (Some(class), None, None, None) => {
                RuleAnswer::Left { class: class.clone(), is_answerable: text.answerable.unwrap_or(true) }
            }
            (None, Some(drive), Some(value), Some(unit)) => RuleAnswer::Run(Box::new(RuleRun {
                drive: drive.clone(),
                set: text.set.clone(),
                value: match value.contains('{') {
                    true => value.clone(),
                    false => RunExpression::parse(file, line, value).map(|_| value.clone())?,
                },
                unit: unit.clone(),
                provenance: text.provenance.unwrap_or(Provenance::Predicted),
                because: text.because.clone().unwrap_or_default(),
            })),
            _ => {
                let found = String::from("a rule that neither leaves rows out nor answers them, or does both");
                return Err(problem(found, "class, or drive with value and unit"));
            }
        };
        Ok(ValidationRule { when, answer, line })
    }

    /// Returns the texts that the rule's patterns capture from a measurement; `None` if it does not match.
    fn captures(&self, row: &MeasuredValue) -> Option<Captures> {
        let mut captures = Captures::new();
        let is_match = self.when.iter().all(|(column, patterns)| {
            let text = row.column(column).unwrap_or_default();
            patterns.iter().any(|pattern| pattern.matches(text, &mut captures))
        });
        is_match.then_some(captures)
    }
}

/// Returns a TOML value as text in the notation of a fio job file: true becomes `1`.
fn option(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Boolean(truth) => u8::from(*truth).to_string(),
        other => other.to_string(),
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
