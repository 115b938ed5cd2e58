//! Text of a sweep for people: conclusion, table, and assumptions.

use phaselink_studies::sweep::Sweep;
use phaselink_studies::sweep::findings::{bottleneck_sentence, findings};
use phaselink_studies::sweep::text::{self, FinishedPoint};

use crate::describe;
use crate::output::{self, TextStyle, styled_for_stdout};

/// Maximum number of lines of assumptions in the text of a sweep without `--explain`.
const ASSUMED_MAX: usize = 4;

/// Returns the whole text of `phaselink sweep`; with all assumptions if `is_explained` is true.
pub(super) fn text(sweep: &Sweep, rows: &[FinishedPoint], is_explained: bool) -> String {
    let plan = sweep.plan();
    let found = findings(plan, rows);
    let mut told = String::new();
    for sentence in &found.conclusion {
        told.push_str(&styled_for_stdout(&describe::wrapped(sentence, ""), TextStyle::Bold));
    }
    let limit = found.best.and_then(|point| limit(sweep, rows, point));
    limit.into_iter().for_each(|limit| told.push_str(&describe::wrapped(&limit, "")));
    if !told.is_empty() {
        told.push('\n');
    }
    told.push_str(&output::table_with_bold_heading(&text::table(plan, rows)));
    told.push('\n');
    let heading = text::heading(plan, rows.len());
    match is_explained {
        true => told.push_str(&assumptions_text(sweep, rows, &heading)),
        false => told.push_str(&assumption_heading(&heading)),
    }
    told
}

/// Returns a sentence about the resource that limits the drive at a point of the sweep.
fn limit(sweep: &Sweep, rows: &[FinishedPoint], point: usize) -> Option<String> {
    let iops = rows.iter().find(|row| row.point == point)?.figures.iops()?;
    let mut resolver = sweep.resolver();
    let (drive, jobs) = resolver.resolve(point).ok()?;
    bottleneck_sentence(drive, &jobs, iops)
}

/// Returns the first lines of a sweep's assumptions, with a hint at `--explain`.
fn assumption_heading(heading: &str) -> String {
    let lines: Vec<String> = heading
        .lines()
        .flat_map(|line| describe::wrapped(line, "  ").lines().map(String::from).collect::<Vec<_>>())
        .collect();
    let kept = lines.iter().take(ASSUMED_MAX).map(|line| format!("{line}\n"));
    let more = if lines.len() > ASSUMED_MAX { "  … " } else { "  " };
    kept.chain([format!("{more}All assumptions: add --explain.\n")]).collect()
}

/// Returns all assumptions of a sweep: plan and job, and the first point's drive with its interface, memory, link and
/// host.
fn assumptions_text(sweep: &Sweep, rows: &[FinishedPoint], heading: &str) -> String {
    let mut resolver = sweep.resolver();
    let first = rows.first().and_then(|row| resolver.resolve(row.point).ok());
    let drive = first.map_or_else(String::new, |(drive, jobs)| {
        let parts = [
            ("drive", format!("{}, at the first point", drive.title())),
            ("interface", describe::interface(drive, &jobs)),
            ("memory", describe::memory(drive)),
            ("write", describe::promise(drive)),
            ("link", describe::link(drive)),
            ("host", describe::host(drive)),
        ];
        parts.iter().map(|(name, told)| format!("{name:<9}  {told}\n")).collect()
    });
    describe::fitted(&format!("{heading}{drive}"), "           ")
}
