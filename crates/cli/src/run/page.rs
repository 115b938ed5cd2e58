//! HTML page of `phaselink run`, for `--report`: conclusion, figures and plots, and the packets of one request.

use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Trace};
use phaselink_core::timeline::RunTimeline;
use phaselink_studies::compare::{LineLabel, RunConclusionText};
use phaselink_studies::evidence;
use phaselink_studies::report::html::{Run, html};
use phaselink_studies::results::{Evidence, words};
use phaselink_studies::stream::EqualRequestStream;

use super::workload::Workload;
use crate::describe;
use crate::intervals::{self, RunFigureIntervals};

/// Number of requests before the one whose packets the page of a run draws. Meanwhile the drive's queues and tables
/// reach their usual state.
const SKIPPED: u64 = 64;
/// Maximum size in bytes of the request whose packets the page of a run draws. A larger request has too many packets.
const BYTES_MAX: u32 = 64 << 10;

/// Drive, workload and results from which the page of a run (`--report`) is made.
pub(super) struct RunPageSources<'a> {
    pub drive: &'a Drive,
    pub workload: &'a Workload,
    pub outcome: &'a Outcome,
    pub timeline: &'a RunTimeline,
}

impl RunPageSources<'_> {
    /// Returns the HTML page of a run, with prediction intervals if there are any.
    pub(super) fn page(
        &self,
        concluded: &RunConclusionText,
        doubted: Option<&RunFigureIntervals>,
        seed: u64,
    ) -> String {
        let RunPageSources { drive, workload, outcome, timeline } = self;
        let packets = packets(drive, workload, seed);
        let intervals = doubted.map(intervals::run_interval_rows);
        let state = words::measured(outcome.measured).map(|state| format!("Measured {state}."));
        let conclusion: Vec<String> = concluded.findings.iter().map(|it| it.sentence.clone()).chain(state).collect();
        html(&Run {
            outcome,
            description: &drive.resolved(),
            conclusion: &conclusion,
            usage: &concluded.usage,
            intervals: intervals.as_ref().map(|(explanation, table)| (explanation.as_str(), table)),
            heading: &heading(drive, workload, &concluded.evidence),
            timeline: timeline.windows(),
            packets: packets.as_ref().map(|(title, trace)| (title.as_str(), trace)),
        })
    }
}

/// Returns lines about the jobs, and the interface, memory, link and host of the drive.
fn heading(drive: &Drive, workload: &Workload, behind: &[Evidence]) -> Vec<String> {
    let parts = [
        ("interface", describe::interface(drive, &workload.jobs)),
        ("memory", describe::memory(drive)),
        ("write", describe::promise(drive)),
        ("link", describe::link(drive)),
        ("host", describe::host(drive)),
    ];
    let parts = parts.into_iter().map(|(name, told)| format!("{name:<9}  {told}"));
    workload
        .summary
        .lines()
        .map(String::from)
        .chain([String::new()])
        .chain(parts)
        .chain([evidence::sentence(behind)])
        .collect()
}

/// Simulates one request like those of the jobs, alone, and returns a title and its packets. The request of a mixed job
/// is a read. None if the jobs' requests differ in size, or are too large to draw.
fn packets(drive: &Drive, workload: &Workload, seed: u64) -> Option<(String, Trace)> {
    let label = LineLabel::of(&workload.jobs);
    let bytes = label.bytes.filter(|bytes| *bytes <= BYTES_MAX)?;
    let is_write = label.rw.is_some_and(|rw| rw.ends_with("write"));
    let bs = bytes.to_string();
    let rw = if is_write { "randwrite" } else { "randread" };
    let stream = EqualRequestStream { rw, bs: &bs, iodepth: "1", skip: SKIPPED, requests: 1, seed };
    let steps = stream.record(drive).ok()?;
    let told =
        format!("One request alone: number {} of {rw}, bs={bs}, iodepth=1, software at its mean time.", SKIPPED + 1);
    Some((told, steps.first()))
}
