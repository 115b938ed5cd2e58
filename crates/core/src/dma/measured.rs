//! Transfers of one size, measured, and several sizes as a document for programs.

use serde_json::{Map, Value, json};

use super::{Question, SECTIONS};
use crate::drive::Drive;
use crate::ledger::{DirectionOutcome, JobOutcome};
use crate::problem::Problems;
use crate::results::in_tables;

/// The transfers of one size: one at a time, and many.
#[derive(Clone, Debug)]
pub struct Measured {
    pub question: Question,
    pub alone: JobOutcome,
    pub loaded: JobOutcome,
}

impl Measured {
    /// The answers to a question, one transfer at a time and as many as it says.
    ///
    /// # Errors
    /// Everything that makes no sense.
    pub fn of(question: &Question, device: &Drive, seed: u64) -> Result<Measured, Problems> {
        let ask = |outstanding| {
            let outcome = Question { outstanding, ..*question }.ask(device, seed);
            outcome.map(|outcome| outcome.jobs.into_iter().next().unwrap_or_default())
        };
        Ok(Measured { question: *question, alone: ask(1)?, loaded: ask(question.outstanding)? })
    }

    /// Each direction in which there were transfers: one at a time, and many.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome, &DirectionOutcome)> {
        let pairs = self.alone.directions().zip(self.loaded.directions());
        pairs.map(|((name, alone), (_, loaded))| (name, alone, loaded))
    }
}

/// What was asked, and a row for each size and direction.
pub fn document(seed: u64, device: &Drive, measured: &[Measured]) -> Value {
    let rows = measured
        .iter()
        .flat_map(|size| size.directions().map(|(name, alone, loaded)| row(size.question.bytes, name, alone, loaded)));
    let question = measured.first().map(|it| asked_json(&it.question));
    let applied = measured.first().map_or_else(|| device.clone(), |it| it.question.applied(device));
    let mut description = applied.resolved();
    if let Some(sections) = description.as_object_mut() {
        sections.retain(|section, _| SECTIONS.contains(&section.as_str()));
    }
    json!({
        "seed": seed,
        "device": device.name,
        "question": question,
        "rows": rows.collect::<Vec<_>>(),
        "description": description,
    })
}

fn asked_json(question: &Question) -> Value {
    json!({
        "op": question.op.word(),
        "window_bytes": question.window_bytes,
        "outstanding": question.outstanding,
        "transfers": question.transfers,
        "direct": question.direct,
        "cache": question.cache.map(|cache| cache.word()),
        "node": question.node.map(|node| node.word()),
        "iommu": question.iommu,
    })
}

fn row(bytes: u32, direction: &str, alone: &DirectionOutcome, loaded: &DirectionOutcome) -> Value {
    let mut row = Map::from_iter([
        (String::from("bytes"), json!(bytes)),
        (String::from("direction"), json!(direction)),
        (String::from("mean_ns"), json!(alone.total.mean_ns())),
    ]);
    for percentile in in_tables() {
        row.insert(format!("{}_ns", percentile.name), json!(percentile.of_ns(&alone.total)));
    }
    row.insert(String::from("max_ns"), json!(alone.total.max().as_ns()));
    row.insert(String::from("bytes_per_s"), json!(loaded.bytes_per_s()));
    row.insert(String::from("transfers_per_s"), json!(loaded.iops()));
    Value::Object(row)
}
