//! Questions of the explorer's web page, and their answers: the documents that the program prints. The WebAssembly
//! module and the page's server both call this module.

use std::collections::BTreeMap;

use crate::breakeven::{BreakEvenQuestion, Description};
use crate::compare;
use crate::endurance::EnduranceQuestion;
use crate::knee::KneeQuestion;
use crate::predict;
use crate::report;
use crate::report::html::colour;
use crate::report::{Answer, question_from_keys};
use crate::stream::EqualRequestStream;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, KeyOverride, presets, refuse_files, shipped};
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::stage::{STACK_STAGES_MAX, SystemPart};
use phaselink_core::ledger::{Record, Stage, Step};
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::trace::NamedJobTrace;
use phaselink_core::workload::{Job, Trace, UnresolvedJobs, add_default_options, fio};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Number of simulation events between two checks whether a run is to be given up.
const EVENTS: u64 = 1 << 20;

/// Question that the explorer's page asks; the key `verb` names its kind.
#[derive(Debug, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
enum ExplorerQuestion {
    /// Asks for a catalog: the shipped drives, the presets, and the latency stages in their order.
    Catalog,
    /// Asks for the drive as `check --toml` prints it, and for every key with its value.
    Check { drive: DriveInWords },
    /// Asks for a run of one job, and for the document that `run --json` prints.
    Run { drive: DriveInWords, job: Vec<(String, String)>, seed: u64 },
    /// Asks for a prediction for one job, as the object that `predict --json` prints.
    Predict { drive: DriveInWords, job: Vec<(String, String)> },
    /// Asks for the steps of one request in the middle of a stream of equal ones, and for the ladder that `trace`
    /// prints.
    Trace { drive: DriveInWords, rw: String, bs: String, iodepth: String, skip: u64, seed: u64 },
    /// Asks for latency against load of one job, for the document that `knee --json` prints, the answer in words, and its
    /// page.
    Knee { drive: DriveInWords, job: Vec<(String, String)>, question: Map<String, Value> },
    /// Asks when data belongs on a drive, for the document that `breakeven --json` prints and the answer in words.
    BreakEven { question: Map<String, Value> },
    /// Asks how long the memory of a drive lasts, for the document that `endurance --json` prints and the answer in
    /// words.
    Endurance { drive: DriveInWords, question: Map<String, Value> },
}

/// Drive by its shipped name, or by the text of a drive file; with overrides as they could be typed after `--set`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveInWords {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    set: Vec<String>,
}

/// Returns the answer to a question of the explorer's page as JSON, or all that is wrong with the question. A run that
/// takes long is given up, with a problem, once `is_over` returns true.
///
/// ```
/// use phaselink_studies::ask;
///
/// let question = br#"{"verb":"predict","drive":{"name":"nvme"},"job":[["rw","randread"]]}"#;
/// assert!(ask::answer(question, || false)["answer"]["drives"].is_array());
/// ```
pub fn answer(question: &[u8], is_over: impl Fn() -> bool + Sync) -> Value {
    let read = serde_json::from_slice::<ExplorerQuestion>(question);
    let read = read.map_err(|error| Problem::new("question", error.line(), error.to_string(), "").into());
    match read.and_then(|question| question.answer(is_over)) {
        Ok(answer) => json!({ "answer": answer }),
        Err(problems) => {
            let problems = problems.without_flags("question");
            json!({ "problems": problems.0.iter().map(problem_json).collect::<Vec<_>>(), "text": problems.to_string() })
        }
    }
}

fn problem_json(problem: &Problem) -> Value {
    let Problem { file, line, found, allowed } = problem;
    json!({ "file": file, "line": line, "found": found, "allowed": allowed })
}

impl ExplorerQuestion {
    fn answer(self, is_over: impl Fn() -> bool + Sync) -> Result<Value, Problems> {
        match self {
            ExplorerQuestion::Catalog => Ok(catalog()),
            ExplorerQuestion::Check { drive } => {
                let drive = drive.read()?;
                Ok(json!({
                    "toml": drive.to_toml(), "description": drive.resolved(), "notes": drive.notes(),
                }))
            }
            ExplorerQuestion::Run { drive, job, seed } => {
                let drive = drive.read()?;
                let jobs = jobs(&job, &drive)?;
                let mut simulation = Simulation::new(&drive, &jobs, seed)?;
                while simulation.step(EVENTS) {
                    if is_over() {
                        return Err(timed_out_problem());
                    }
                }
                let outcome = simulation.outcome();
                let mut document = report::headed("run", report::json(&outcome, drive.resolved()));
                compare::conclude_run(&drive, &jobs, outcome).add_to(&mut document);
                Ok(document)
            }
            ExplorerQuestion::Predict { drive, job } => {
                let drive = drive.read()?;
                let prediction = predict::predict(&drive, &jobs(&job, &drive)?);
                let document = predict::document([predict::json(&prediction, drive.resolved())]);
                Ok(report::headed("predict", document))
            }
            ExplorerQuestion::Trace { drive, rw, bs, iodepth, skip, seed } => {
                let stream = EqualRequestStream { rw: &rw, bs: &bs, iodepth: &iodepth, skip, requests: 1, seed };
                let steps = stream.record(&drive.read()?)?;
                let rows: Vec<Value> = steps.first().in_order().into_iter().map(row).collect();
                Ok(json!({ "steps": rows, "ladder": steps.ladder() }))
            }
            ExplorerQuestion::Knee { drive, job, question } => {
                let drive = drive.read()?;
                let study = question_from_keys::<KneeQuestion>(question)?.study(&drive, written_job(&job)?)?;
                let in_turn = |count: usize, run: &(dyn Fn(usize) + Sync)| (0..count).for_each(run);
                let answer = study.answer(&in_turn, &is_over)?.ok_or_else(timed_out_problem)?;
                Ok(json!({ "document": answer.document(), "html": answer.plots() + &answer.text().html() }))
            }
            ExplorerQuestion::BreakEven { question } => {
                Ok(render(&question_from_keys::<BreakEvenQuestion>(question)?.answer()?))
            }
            ExplorerQuestion::Endurance { drive, question } => {
                Ok(render(&question_from_keys::<EnduranceQuestion>(question)?.answer(&drive.read()?)?))
            }
        }
    }
}

/// Returns the problem of a run that was given up.
fn timed_out_problem() -> Problems {
    Problem::new("question", None, "a run that takes too long", "fewer requests, or shorter").into()
}

/// Returns an answer as its document, and as HTML within a page.
fn render(answer: &impl Answer) -> Value {
    json!({ "document": answer.document(), "html": answer.text().html() })
}

impl DriveInWords {
    fn read(&self) -> Result<Drive, Problems> {
        let set = all(self.set.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))?;
        let described = match (&self.name, &self.text) {
            (Some(name), None) => Described::shipped(name, &set, refuse_files),
            (None, Some(text)) => Described::read("drive.toml", text, &set, refuse_files),
            _ => Err(Problem::new("question", None, "a drive", "either a name or a text").into()),
        };
        // As in the program: a software stack whose threads sleep turns the drive's interrupts on.
        described.map(Described::with_interrupts_raised).map(Described::into_drive)
    }
}

/// Returns a list with the one job that fio options describe, checked against the limits of a drive.
fn jobs(options: &[(String, String)], drive: &Drive) -> Result<Vec<Job>, Problems> {
    written_job(options)?.on(&drive.limits())
}

/// Returns the one job that fio options describe, before a drive is known.
fn written_job(options: &[(String, String)]) -> Result<UnresolvedJobs, Problems> {
    let given: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    UnresolvedJobs::new([fio::job_from_flags(&add_default_options(&given))?], refuse_trace)
}

fn refuse_trace(wanted: &NamedJobTrace) -> Result<Trace, Problems> {
    Err(Problem::new(&wanted.path, None, "cannot be read: there are no files here", "").into())
}

fn catalog() -> Value {
    let drive = |name: &str| Drive::shipped(name).map(|drive| json!({ "name": name, "summary": drive.summary }));
    let preset = |it: presets::Preset| json!({ "section": it.section, "name": it.name, "summary": it.summary });
    let stage =
        |(name, part)| json!({ "stage": name, "part": part_name(part), "colour": colour::stage_colour(name, &[]) });
    let part = |part: &SystemPart| json!({ "part": part_name(*part), "colour": colour::system_part_colour(*part) });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "address": env!("CARGO_PKG_REPOSITORY"),
        "drives": shipped::names().filter_map(drive).collect::<Vec<_>>(),
        "usual": shipped::default_drive_name(),
        "sets": shipped::sets().collect::<BTreeMap<_, _>>(),
        "presets": presets::all().into_iter().map(preset).collect::<Vec<_>>(),
        "stages": Stage::fixed().map(stage).collect::<Vec<_>>(),
        "parts": SystemPart::ALL.iter().map(part).collect::<Vec<_>>(),
        "prices": Description::shipped_names().collect::<Vec<_>>(),
        "stack_colours": (0..STACK_STAGES_MAX).map(colour::of_stack).collect::<Vec<_>>(),
    })
}

fn part_name(part: SystemPart) -> String {
    format!("{part:?}").to_lowercase()
}

fn row(record: &Record) -> Value {
    let (who, packets) = match &record.step {
        Step::Host(_) => ("host", None),
        Step::Device(_) => ("device", None),
        Step::Media(_) => ("media", None),
        Step::Up { packets, wire_bytes, .. } => ("up", Some((packets, wire_bytes))),
        Step::Down { packets, wire_bytes, .. } => ("down", Some((packets, wire_bytes))),
    };
    let (packets, wire_bytes) = packets.unzip();
    json!({
        "from_ns": record.from.as_ns(), "to_ns": record.to.as_ns(), "who": who, "what": record.step.name(),
        "packets": packets, "wire_bytes": wire_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: Value) -> Value {
        answer(question.to_string().as_bytes(), || false)
    }

    #[test]
    fn explorer_run_equals_the_command_line_document() {
        let job = [["rw", "randread"], ["number_ios", "100"]];
        let question =
            json!({ "verb": "run", "drive": { "name": "nvme", "set": ["link.lanes=8"] }, "job": job, "seed": 3 });
        let answer = &asked(question)["answer"]["phaselink"];
        assert_eq!((&answer["verb"], &answer["seed"]), (&json!("run"), &json!(3)));
        assert_eq!(answer["description"]["link"]["lanes"], 8);
    }

    #[test]
    fn explorer_problems_are_returned_as_text() {
        for question in [
            json!({ "verb": "run" }),
            json!({ "verb": "check", "drive": {} }),
            json!({ "verb": "check", "drive": { "name": "nvmee" } }),
            json!({ "verb": "check", "drive": { "text": "preset = \"/etc/passwd.toml\"" } }),
            json!({ "verb": "predict", "drive": { "name": "nvme" }, "job": [["read_iolog", "trace"]] }),
            json!({ "verb": "trace", "drive": { "name": "nvme" }, "rw": "x", "bs": "4k", "iodepth": "1", "skip": 0, "seed": 1 }),
            json!({ "verb": "breakeven", "question": { "description": "gold" } }),
            json!({ "verb": "breakeven", "question": { "size": 1 } }),
            json!({ "verb": "endurance", "drive": { "name": "tlc-gen5" }, "question": { "seed": 1 } }),
        ] {
            let answer = asked(question.clone());
            assert!(answer["text"].as_str().is_some_and(|text| !text.is_empty()), "{question}: {answer}");
            assert!(answer["problems"].as_array().is_some_and(|problems| !problems.is_empty()), "{question}: {answer}");
        }
    }

    #[test]
    fn explorer_break_even_equals_the_command_line() {
        let answer = &asked(json!({ "verb": "breakeven", "question": { "bs": ["4k"], "drives": 2 } }))["answer"];
        let question = BreakEvenQuestion { bs: vec![4096], drives: Some(2), ..BreakEvenQuestion::default() };
        assert_eq!(answer["document"], question.answer().expect("an answer").document());
        let html = answer["html"].as_str().expect("HTML");
        assert!(html.contains("belongs in memory") && html.contains("<table"), "{html}");
    }

    #[test]
    fn explorer_lifetimes_use_the_overridden_drive() {
        let drive = json!({ "name": "tlc-gen5", "set": ["translation.over_provisioning=0.5"] });
        let answer = &asked(json!({ "verb": "endurance", "drive": drive, "question": { "per_day": "1t" } }))["answer"];
        let document = &answer["document"];
        assert_eq!((&document["verb"], &document["drive"]), (&json!("endurance"), &json!("tlc-gen5")));
        assert_eq!(document["description"]["translation"]["over_provisioning"], 0.5);
        assert!(document["lifetimes"][0]["years_at_bytes_per_day"].is_f64());
        assert!(answer["html"].as_str().is_some_and(|html| html.contains("tlc-gen5 endures")));
    }

    #[test]
    fn explorer_draws_and_describes_latency_against_load() {
        let job = [["rw", "randread"], ["number_ios", "500"], ["numjobs", "4"], ["iodepth", "32"]];
        let question = json!({ "rates": "50k,100k,200k" });
        let asked = asked(json!({ "verb": "knee", "drive": { "name": "nvme" }, "job": job, "question": question }));
        let answer = &asked["answer"];
        assert_eq!(answer["document"]["points"].as_array().map(Vec::len), Some(3), "{asked}");
        let html = answer["html"].as_str().expect("HTML");
        assert!(html.contains("<svg") && html.contains("The knee is the load"), "{html}");
    }

    #[test]
    fn overlong_run_is_abandoned() {
        let job = [["rw", "randread"], ["runtime", "1000s"]];
        let question = json!({ "verb": "run", "drive": { "name": "nvme" }, "job": job, "seed": 1 });
        let answer = answer(question.to_string().as_bytes(), || true);
        assert_eq!(answer["problems"][0]["found"], "a run that takes too long");
    }

    #[test]
    fn catalogue_names_all_stages() {
        let catalog = &asked(json!({ "verb": "catalog" }))["answer"];
        let stages = catalog["stages"].as_array().unwrap();
        assert!(stages.iter().any(|it| it["stage"] == "media" && it["part"] == "media"));
        assert!(catalog["drives"].as_array().unwrap().iter().any(|it| it["name"] == catalog["usual"]));
        assert!(catalog["sets"]["2026"].as_array().is_some_and(|drives| drives.contains(&json!("tlc-gen5"))));
    }
}
