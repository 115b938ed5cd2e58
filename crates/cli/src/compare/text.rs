//! Text of a comparison: conclusion, table, further findings and assumptions.

use std::fmt::Write;

use phaselink_core::config::origin::ValueOrigin;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::MeasuredState;
use phaselink_core::number::{length, whole};
use phaselink_studies::compare::{self, AwaitedLatency, Cell, ComparedGroup, EqualLoadGroup, named, shared};
use phaselink_studies::evidence;
use phaselink_studies::report::Table;
use phaselink_studies::results::documents::ResourceUse;
use phaselink_studies::results::units::{self, grouped};
use phaselink_studies::results::{CompareTable, Figure, Finding, Unit, comparison_columns, words};

use super::points::Line;
use super::{Comparison, is_finished, trust};
use crate::describe;
use crate::output::{TextStyle, shown, styled_for_stdout};

/// Returns the whole text of a comparison.
pub(super) fn text(comparison: &Comparison, groups: &[ComparedGroup], loaded: &[EqualLoadGroup]) -> String {
    let findings = findings(comparison, groups, loaded);
    let (conclusion, others): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|it| it.kind.answers_the_question());
    let mut text = String::new();
    for finding in conclusion {
        text.push_str(&styled_for_stdout(&describe::wrapped(&finding.sentence, ""), TextStyle::Bold));
    }
    let _ = write!(text, "\n{}", shown(&table(comparison, groups)));
    for loaded in loaded {
        let _ = write!(text, "\n{}\n{}", load(loaded), shown(&table_at_load(comparison, loaded)));
    }
    let loads = groups.iter().chain(loaded.iter().map(|loaded| &loaded.group));
    let overloaded = loads.flat_map(|group| compare::overloaded(&comparison.drives, group));
    for sentence in overloaded.chain(others.into_iter().map(|finding| finding.sentence.clone())) {
        let _ = write!(text, "\n{}", describe::wrapped(&sentence, "  "));
    }
    text.push('\n');
    match comparison.explain {
        true => text.push_str(&describe::fitted(&heading(comparison, groups), "         ")),
        false => text.push_str(&assumptions(comparison, groups)),
    }
    text.push_str(&trust::text(comparison, groups));
    text
}

/// Returns the findings of a comparison. Empty if some lines are finished on only some drives, since findings would
/// then be false.
pub(super) fn findings(comparison: &Comparison, groups: &[ComparedGroup], loaded: &[EqualLoadGroup]) -> Vec<Finding> {
    let is_whole = comparison.lines.iter().zip(groups).all(|(line, group)| is_finished(line, group));
    if is_whole { compare::findings(&comparison.drives, groups, loaded) } else { Vec::new() }
}

/// Returns the assumptions of a comparison, in at most five lines.
pub(super) fn assumptions(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    let host = compare::shared(comparison.drives.iter().map(describe::host));
    let host = host.unwrap_or_else(|| hosts(&comparison.drives));
    let lines = [
        Some(format!("Simulated: {}.", comparison_title(comparison, groups))),
        replayed_traces_text(comparison).next().map(|trace| format!("Trace: {trace}.")),
        measured(comparison, groups),
        Some(evidence::sentence(&evidence::of_drives(&comparison.drives))),
        Some(format!("Host: {host}. All assumptions: add --explain.")),
    ];
    lines.into_iter().flatten().map(|line| describe::wrapped(&line, "  ")).collect()
}

/// Returns the hosts of drives that have several, each with its drives: `xeon-6430 (a and b) and epyc-turin (c)`. A host
/// without a preset, or with overrides (`--set`), is described by its cores.
fn hosts(drives: &[Drive]) -> String {
    let mut hosts: Vec<(String, Vec<String>)> = Vec::new();
    for drive in drives {
        let origins = &mut drive.sources.origins.iter();
        let is_changed = origins.any(|(key, origin)| key.starts_with("host.") && *origin == ValueOrigin::Set);
        let preset = drive.sources.presets.get("host").filter(|_| !is_changed);
        let name = preset.cloned().unwrap_or_else(|| describe::host(drive));
        match hosts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, names)) => names.push(drive.name.clone()),
            None => hosts.push((name, vec![drive.name.clone()])),
        }
    }
    let told: Vec<String> =
        hosts.iter().map(|(name, drives)| format!("{name} ({})", describe::listed(drives))).collect();
    describe::listed(&told)
}

/// Returns a line about the state in which flash drives and volumes with credits were measured, or none if there are no
/// such drives.
fn measured(comparison: &Comparison, groups: &[ComparedGroup]) -> Option<String> {
    let mut states: Vec<(String, Vec<String>)> = Vec::new();
    for (drive, cell) in groups.iter().flat_map(|group| comparison.drives.iter().zip(&group.cells)) {
        let state = match cell.as_ref().map(|cell| cell.outcome.measured) {
            None | Some(MeasuredState::Only) => continue,
            // The length of the warm-up differs between drives, so do not state it.
            Some(MeasuredState::Steady { .. }) => {
                String::from("steady, the write buffer turned over first (--burst: not)")
            }
            Some(MeasuredState::Burst(reason)) => format!("burst, {reason}"),
            Some(MeasuredState::Volume(state)) => match words::is_lasting(state) {
                true => format!("steady, {} (--burst: all credits are there)", words::credits(state)),
                false => format!("burst, {}", words::credits(state)),
            },
        };
        match states.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) if names.contains(&drive.name) => {}
            Some((_, names)) => names.push(drive.name.clone()),
            None => states.push((state, vec![drive.name.clone()])),
        }
    }
    let told: Vec<String> =
        states.iter().map(|(state, names)| format!("{}: {state}", describe::listed(names))).collect();
    (!told.is_empty()).then(|| format!("Measured: {}.", told.join("; ")))
}

/// Returns the title of a comparison, such as `8 drives: random reads, 20,000 requests for each line, seed 1`.
pub(super) fn comparison_title(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    format!(
        "{}: {}, seed {}",
        describe::counted(length(comparison.drives.len()), "drive"),
        workload_phrase(comparison, groups),
        comparison.seed
    )
}

/// Returns all assumptions of a comparison: completion methods, options, memories, links, hosts and interfaces.
pub(super) fn heading(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    let drives = &comparison.drives;
    let mut text = String::new();
    for line in notes(comparison, groups) {
        let _ = writeln!(text, "{line}");
    }
    for (label, describe) in [
        ("memory", describe::memory as fn(&Drive) -> String),
        ("write", describe::promise),
        ("link", describe::link),
        ("host", describe::host),
    ] {
        write_lines_shared_by_drives(&mut text, label, drives, describe);
    }
    if !comparison.set.is_empty() {
        let _ = writeln!(text, "set      {}", comparison.set.join(" "));
    }
    text.push('\n');
    let width = drives.iter().map(|drive| drive.name.chars().count()).max().unwrap_or(0);
    for (place, drive) in drives.iter().enumerate() {
        let jobs = comparison.lines.iter().find_map(|line| line.point.jobs[place].as_deref()).unwrap_or_default();
        let _ = writeln!(text, "{:width$}  {}", drive.name, describe::interface(drive, jobs));
    }
    text
}

/// Returns a phrase for the workload that all lines share, such as `random reads, 20,000 requests for each line`.
fn workload_phrase(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    let Some(rw) = groups.first().and_then(|group| group.label.rw) else {
        let summary = comparison.lines.first().and_then(|line| line.summary.lines().next()).unwrap_or_default();
        return summary.trim_start_matches("Jobs: ").trim_start_matches("Job: ").to_string();
    };
    let block = shared(groups.iter().map(|group| group.label.bytes)).flatten();
    let block = block.map_or(String::new(), |bytes| format!(" of {}", words::size(bytes.into())));
    let requests = format!("{}{block}", describe::requests(rw));
    if let Some(goal) = comparison.precision {
        let verb = if goal.tail.is_some() { "is" } else { "are" };
        return format!("{requests}, until {} {verb} known to {} %", goal.figures(), 100.0 * goal.share);
    }
    match shared(comparison.lines.iter().map(ios)).flatten() {
        Some(ios) => format!("{requests}, {} for each line", describe::counted(ios, "request")),
        None => requests,
    }
}

/// Returns the number of requests of a line over all its threads, or none if something else ends it.
fn ios(line: &Line) -> Option<u64> {
    let jobs = line.point.jobs.iter().flatten().next()?;
    jobs.iter().map(|job| job.ios?.checked_mul(job.threads.into())).try_fold(0u64, |sum, ios| sum.checked_add(ios?))
}

/// Returns lines about the completion method of threads, options of the jobs, and traces.
fn notes(comparison: &Comparison, groups: &[ComparedGroup]) -> Vec<String> {
    let is_asynchronous = groups.iter().any(|group| group.label.iodepth != Some(1));
    let mut notes = vec![String::from(match is_asynchronous {
        false => "job      each thread waits for its request before it makes the next, as with read() and write()",
        true => "job      a thread keeps as many requests under way as its depth, as with libaio or io_uring",
    })];
    if !comparison.options.is_empty() {
        notes.push(format!("options  {}", comparison.options.join(" ")));
    }
    notes.extend(replayed_traces_text(comparison).map(|trace| format!("trace    {trace}")));
    notes
}

/// Returns descriptions of the traces that are replayed.
fn replayed_traces_text(comparison: &Comparison) -> impl Iterator<Item = &str> {
    comparison.lines.iter().take(1).flat_map(|line| line.summary.lines().skip(1))
}

/// Writes one line of `label` if `describe` gives one text for all drives, otherwise one line for each drive.
fn write_lines_shared_by_drives(text: &mut String, label: &str, drives: &[Drive], describe: fn(&Drive) -> String) {
    let described: Vec<String> = drives.iter().map(describe).collect();
    if described.iter().all(|line| *line == described[0]) {
        let _ = writeln!(text, "{label:<7}  {}", described[0]);
        return;
    }
    for (number, (drive, line)) in drives.iter().zip(described).enumerate() {
        let label = if number == 0 { label } else { "" };
        let _ = writeln!(text, "{label:<7}  {}: {line}", drive.name);
    }
}

/// Returns the table of all figures: a row for each group and drive.
pub(super) fn table(comparison: &Comparison, groups: &[ComparedGroup]) -> Table {
    let named = named(groups);
    let mut table = named.table().left("drive").labels();
    let columns = columns_for_workload(comparison, groups);
    for figure in &columns {
        table = table.right(figure.column.0);
    }
    table = table.left("busiest");
    for (group, line) in groups.iter().zip(&comparison.lines) {
        table.group();
        let mut labels = named.cells(&group.label);
        let cells = group.cells.iter().zip(&line.point.jobs);
        for (drive, (cell, jobs)) in comparison.drives.iter().zip(cells) {
            let missing = if jobs.is_none() { "queues too short" } else { "not finished" };
            let figures =
                cell.as_ref().map_or_else(|| cells_without_result(&columns, missing), |cell| figures(cell, &columns));
            table.row(labels.iter().cloned().chain([drive.name.clone()]).chain(figures));
            // Print the labels of a group only in its first row.
            labels.fill(String::new());
        }
    }
    table
}

/// Returns the heading of a table at equal load.
pub(super) fn load(loaded: &EqualLoadGroup) -> String {
    format!(
        "At the same load of {} requests a second on each drive, at random times:",
        units::count(loaded.offered_iops)
    )
}

/// Returns the table of all figures at equal load: a row for each drive.
pub(super) fn table_at_load(comparison: &Comparison, loaded: &EqualLoadGroup) -> Table {
    let groups = std::slice::from_ref(&loaded.group);
    let columns = columns_for_workload(comparison, groups);
    let table = columns.iter().fold(Table::new().left("drive").labels(), |table, figure| table.right(figure.column.0));
    let mut table = table.left("busiest");
    for (drive, cell) in comparison.drives.iter().zip(&loaded.group.cells) {
        let figures = cell
            .as_ref()
            .map_or_else(|| cells_without_result(&columns, "queues too short"), |cell| figures(cell, &columns));
        table.row([drive.name.clone()].into_iter().chain(figures));
    }
    table
}

/// Returns the columns that suit the workload of the groups.
fn columns_for_workload(comparison: &Comparison, groups: &[ComparedGroup]) -> Vec<&'static Figure> {
    let table = match AwaitedLatency::of(groups) {
        [AwaitedLatency::Commits] => CompareTable::Commits,
        [AwaitedLatency::Queries] => CompareTable::Queries,
        [AwaitedLatency::Reads, ..] => CompareTable::Mixes,
        _ => CompareTable::Alike,
    };
    let energy = if comparison.energy { comparison_columns(CompareTable::Energy) } else { Vec::new() };
    [comparison_columns(table), energy].concat()
}

fn figures(cell: &Cell, columns: &[&Figure]) -> Vec<String> {
    let shown =
        |figure: &&Figure| cell.figures.get(figure).map_or(String::from("-"), |value| value_text(figure, value));
    let busiest = cell.usage.first().map_or(String::new(), used);
    columns.iter().map(shown).chain([busiest]).collect()
}

/// Formats a value in its column's unit, which the heading names.
fn value_text(figure: &Figure, value: f64) -> String {
    match figure.unit {
        Unit::Cores => format!("{value:.2}"),
        Unit::Requests => grouped(whole(value)),
        _ => describe::figure(value / figure.column.1),
    }
}

/// Returns the cells of a drive without results. The last one is the reason: queues too short for the depth, or a run
/// that the user has stopped.
fn cells_without_result(columns: &[&Figure], missing: &str) -> Vec<String> {
    columns.iter().map(|_| String::from("-")).chain([String::from(missing)]).collect()
}

/// Formats the utilisation of a resource, as in `98 % cores`.
fn used(used: &ResourceUse) -> String {
    format!("{:3.0} % {}", 100.0 * used.share, used.resource)
}
