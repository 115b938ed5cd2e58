//! The comparison for scripts.

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Latency;
use serde_json::{Map, Value, json};

use super::{Cell, Comparison, Group, findings};
use crate::{describe, precision};

const PERCENTILES: [(&str, f64); 4] = [("p50_ns", 50.0), ("p90_ns", 90.0), ("p99_ns", 99.0), ("p99_9_ns", 99.9)];

/// One object: `cells` with the figures, `descriptions` with every drive as it was run.
pub fn document(comparison: &Comparison, groups: &[Group]) -> Value {
    let cell = |group: &Group, drive: &Drive, cell: &Option<Cell>| match cell {
        Some(cell) => entry(comparison, group, drive, cell),
        None => too_deep(group, drive),
    };
    let cells: Vec<Value> = groups
        .iter()
        .flat_map(|group| comparison.drives.iter().zip(&group.cells).map(|(drive, found)| cell(group, drive, found)))
        .collect();
    let descriptions: Vec<Value> = comparison.drives.iter().map(Drive::resolved).collect();
    json!({
        "seed": comparison.seed,
        "rw": groups.first().and_then(|group| group.label.rw),
        "options": comparison.options,
        "set": comparison.set,
        "cells": cells,
        "descriptions": descriptions,
    })
}

fn entry(comparison: &Comparison, group: &Group, drive: &Drive, cell: &Cell) -> Value {
    let (outcome, latency) = (&cell.outcome, &cell.figures.total);
    let mut entry = labels(group, drive);
    entry.extend([
        (String::from("ios"), json!(outcome.ios())),
        (String::from("iops"), json!(outcome.iops())),
        (String::from("bytes_per_s"), json!(outcome.bytes_per_s())),
        (String::from("min_ns"), json!(latency.min().as_ns())),
        (String::from("mean_ns"), json!(latency.mean_ns())),
    ]);
    entry.extend(percentiles(latency));
    entry.extend([
        (String::from("max_ns"), json!(latency.max().as_ns())),
        (String::from("link_busy_share"), json!(cell.link_busy())),
        (String::from("busy_cores"), json!(outcome.busy_cores())),
        (String::from("joules_per_io"), json!(outcome.joules_per_io())),
        (String::from("joules_per_io_above_idle"), json!(outcome.joules_per_io_above_idle())),
        (String::from("memory_joules_per_io"), json!(outcome.memory_joules_per_io())),
        (String::from("limit"), json!(findings::limit(cell))),
        (String::from("usage"), usage(cell)),
        (String::from("stages"), stages(cell)),
    ]);
    if let Some((measurement, share)) = cell.measurement.as_ref().zip(comparison.precision) {
        entry.insert(String::from("precision"), precision::json(measurement, share));
    }
    if let Some(doubted) = &cell.doubted {
        entry.insert(String::from("intervals"), doubted.json());
    }
    Value::Object(entry)
}

fn labels(group: &Group, drive: &Drive) -> Map<String, Value> {
    Map::from_iter([
        (String::from("drive"), json!(drive.name)),
        (String::from("bs"), json!(group.label.bytes)),
        (String::from("numjobs"), json!(group.label.threads)),
        (String::from("iodepth"), json!(group.label.iodepth)),
        (String::from("rw"), json!(group.label.rw)),
        (String::from("acknowledged_write"), json!(describe::promise(drive))),
    ])
}

/// A drive whose queues are too short says how long they are.
fn too_deep(group: &Group, drive: &Drive) -> Value {
    let mut entry = labels(group, drive);
    entry.insert(String::from("iodepth_max"), json!(drive.limits().queue_slots()));
    Value::Object(entry)
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
