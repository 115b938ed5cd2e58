//! The comparison for programs.

use serde_json::{Map, Value, json};

use super::{Cell, Label, promise};
use crate::drive::Drive;
use crate::ledger::Latency;

const PERCENTILES: [(&str, f64); 4] = [("p50_ns", 50.0), ("p90_ns", 90.0), ("p99_ns", 99.0), ("p99_9_ns", 99.9)];

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
    let (outcome, latency) = (&cell.outcome, &cell.figures.total);
    let mut figures = Map::from_iter([
        (String::from("ios"), json!(outcome.ios())),
        (String::from("iops"), json!(outcome.iops())),
        (String::from("bytes_per_s"), json!(outcome.bytes_per_s())),
        (String::from("min_ns"), json!(latency.min().as_ns())),
        (String::from("mean_ns"), json!(latency.mean_ns())),
    ]);
    figures.extend(percentiles(latency));
    figures.extend([
        (String::from("max_ns"), json!(latency.max().as_ns())),
        (String::from("link_busy_share"), json!(cell.link_busy_share())),
        (String::from("busy_cores"), json!(outcome.busy_cores())),
        (String::from("joules_per_io"), json!(outcome.joules_per_io())),
        (String::from("joules_per_io_above_idle"), json!(outcome.joules_per_io_above_idle())),
        (String::from("memory_joules_per_io"), json!(outcome.memory_joules_per_io())),
        (String::from("limit"), json!(cell.limit())),
        (String::from("usage"), usage(cell)),
        (String::from("stages"), stages(cell)),
    ]);
    figures
}

/// A percentile that no request lies beyond is null.
fn percentiles(latency: &Latency) -> impl Iterator<Item = (String, Value)> {
    PERCENTILES
        .map(|(name, percent)| (String::from(name), json!(latency.known_percentile(percent).map(|span| span.as_ns()))))
        .into_iter()
}

fn usage(cell: &Cell) -> Value {
    cell.usage.iter().map(|used| json!({ "resource": used.resource, "share": used.share })).collect()
}

fn stages(cell: &Cell) -> Value {
    let ios = cell.figures.ios.max(1) as f64;
    let stages = cell.figures.stages.named(&cell.outcome.stack_stages);
    stages.map(|(stage, span)| json!({ "stage": stage, "mean_ns": span.as_ns() / ios })).collect()
}
