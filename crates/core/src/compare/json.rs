//! The comparison for programs.

use serde_json::{Map, Value, json};

use super::{Cell, Label, promise};
use crate::drive::Drive;
use crate::results::FIGURES;

/// One object: `cells` with the figures, which are [`entry`]s, and `descriptions` with every drive as it was run.
/// `options` are those of the jobs besides their sizes, as `name=value`, and `set` overrides of the drives as typed.
pub fn document<'a>(
    (seed, rw): (u64, Option<&str>),
    options: &[String],
    set: &[String],
    cells: Vec<Map<String, Value>>,
    drives: impl IntoIterator<Item = &'a Drive>,
) -> Value {
    let descriptions: Vec<Value> = drives.into_iter().map(Drive::resolved).collect();
    json!({
        "seed": seed,
        "rw": rw,
        "options": options,
        "set": set,
        "cells": cells,
        "descriptions": descriptions,
    })
}

/// The figures of a drive at one line; of one whose queues are too short for it, how long they are.
pub fn entry(label: &Label, drive: &Drive, cell: Option<&Cell>) -> Map<String, Value> {
    let mut entry = labels(label, drive);
    match cell {
        Some(cell) => entry.extend(figures(cell)),
        None => drop(entry.insert(String::from("iodepth_max"), json!(drive.limits().queue_slots()))),
    }
    entry
}

fn labels(label: &Label, drive: &Drive) -> Map<String, Value> {
    Map::from_iter([
        (String::from("drive"), json!(drive.name)),
        (String::from("bs"), json!(label.bytes)),
        (String::from("numjobs"), json!(label.threads)),
        (String::from("iodepth"), json!(label.iodepth)),
        (String::from("rw"), json!(label.rw)),
        (String::from("acknowledged_write"), json!(promise(drive))),
    ])
}

fn figures(cell: &Cell) -> Map<String, Value> {
    let shown = FIGURES.iter().filter(|figure| figure.is_in_cells);
    let mut figures: Map<String, Value> =
        shown.map(|figure| (String::from(figure.name), figure.json(cell.figures.get(figure)))).collect();
    figures.extend([
        (String::from("limit"), json!(cell.limit())),
        (String::from("usage"), usage(cell)),
        (String::from("stages"), stages(cell)),
    ]);
    figures
}

fn usage(cell: &Cell) -> Value {
    cell.usage.iter().map(|used| json!({ "resource": used.resource, "share": used.share })).collect()
}

fn stages(cell: &Cell) -> Value {
    let ios = cell.all.ios.max(1) as f64;
    let stages = cell.all.stages.named(&cell.outcome.stack_stages);
    stages.map(|(stage, span)| json!({ "stage": stage, "mean_ns": span.as_ns() / ios })).collect()
}
