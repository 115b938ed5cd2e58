//! The comparison for people: what is compared, the table, and what stands out in it.

use std::fmt::Write;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Latency;
use phaselink_core::report::Table;

use super::{Cell, Comparison, Group, findings};
use crate::describe;
use crate::output::{Style, styled, with_bold_head};

const COLUMNS: [&str; 9] = ["mean us", "p50", "p99", "p99.9", "kIOPS", "GB/s", "link %", "cores", "uJ/IO"];

/// The whole page.
pub fn text(comparison: &Comparison, groups: &[Group]) -> String {
    let mut text = heading(comparison);
    text.push('\n');
    text.push_str(&with_bold_head(&table(comparison, groups).to_string()));
    for finding in gaps(comparison, groups).into_iter().chain(findings::findings(&comparison.drives, groups)) {
        let _ = write!(text, "\n{}", describe::wrapped(&finding, "  "));
    }
    text
}

/// What is done, and over which memory, link and host.
fn heading(comparison: &Comparison) -> String {
    let drives = &comparison.drives;
    let title = format!(
        "{}: {}, {} for each line, seed {}",
        describe::counted(drives.len() as u64, "drive"),
        describe::requests(&comparison.rw),
        describe::counted(comparison.ios, "request"),
        comparison.seed,
    );
    let mut text = format!("{}\n\n", styled(&title, Style::Bold));
    for (label, describe) in [
        ("memory", describe::memory as fn(&Drive) -> String),
        ("write", describe::promise),
        ("link", describe::link),
        ("host", describe::host),
    ] {
        write_shared(&mut text, label, drives, describe);
    }
    if !comparison.set.is_empty() {
        let _ = writeln!(text, "set      {}", comparison.set.join(" "));
    }
    text.push('\n');
    let width = drives.iter().map(|drive| drive.name.chars().count()).max().unwrap_or(0);
    for drive in drives {
        let _ = writeln!(text, "{:width$}  {}", drive.name, describe::interface(drive));
    }
    text
}

/// One line if the drives have this part in common, otherwise one for each.
fn write_shared(text: &mut String, label: &str, drives: &[Drive], describe: fn(&Drive) -> String) {
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

fn table(comparison: &Comparison, groups: &[Group]) -> Table {
    let mut table = Table::new().left("block").right("depth").left("drive");
    for column in COLUMNS {
        table = table.right(column);
    }
    for group in groups {
        table.group();
        let mut labels = [describe::size(group.bytes.into()), group.iodepth.to_string()];
        for (drive, cell) in comparison.drives.iter().zip(&group.cells) {
            let labels = std::mem::take(&mut labels);
            table
                .row(cell.as_ref().map_or_else(|| blank(&labels, &drive.name), |cell| row(&labels, &drive.name, cell)));
        }
    }
    table
}

/// The labels of a group stand in its first row alone.
fn row(labels: &[String; 2], drive: &str, cell: &Cell) -> Vec<String> {
    let (outcome, latency) = (&cell.outcome, &cell.figures.total);
    let mut row = labels.to_vec();
    row.extend([String::from(drive), describe::figure(latency.mean_ns() / 1e3)]);
    row.extend([50.0, 99.0, 99.9].map(|percent| percentile(latency, percent)));
    row.extend([
        describe::figure(outcome.iops() / 1e3),
        describe::figure(outcome.bytes_per_s() / 1e9),
        format!("{:.0}", 100.0 * cell.link_busy()),
        format!("{:.2}", outcome.busy_cores()),
        describe::figure(outcome.joules_per_io() * 1e6),
    ]);
    row
}

/// The row of a drive whose queues are too short for the depth.
fn blank(labels: &[String; 2], drive: &str) -> Vec<String> {
    let figures = COLUMNS.iter().map(|_| String::from("-"));
    labels.iter().cloned().chain([String::from(drive)]).chain(figures).collect()
}

/// A sentence on each drive that has no figures somewhere.
fn gaps(comparison: &Comparison, groups: &[Group]) -> Vec<String> {
    let has_gap = |number: usize| groups.iter().any(|group| group.cells[number].is_none());
    let gap = |(number, drive): (usize, &Drive)| {
        let slots = drive.limits().queue_slots();
        has_gap(number)
            .then(|| format!("{}: its queues hold {slots} requests, so that deeper lines are empty.", drive.name))
    };
    comparison.drives.iter().enumerate().filter_map(gap).collect()
}

/// A percentile that no request lies beyond is not known.
fn percentile(latency: &Latency, percent: f64) -> String {
    latency.known_percentile(percent).map_or(String::from("-"), |span| describe::figure(span.as_us()))
}
