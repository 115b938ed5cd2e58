//! The page of a run, `--report`: what is stated above its figures, and the packets of one of its requests.

use phaselink_core::compare::Label;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Trace};
use phaselink_core::report::html::{Run, html};
use phaselink_core::stream::RequestStream;
use phaselink_core::timeline::Timeline;

use super::workload::Workload;
use crate::describe;

/// Requests before the one that is drawn: by then a drive's queues and tables are as they stay.
const SKIPPED: u64 = 64;
/// Larger requests have more packets than anyone looks at.
const BYTES_MAX: u32 = 64 << 10;

/// The page.
pub(super) fn page(drive: &Drive, workload: &Workload, outcome: &Outcome, timeline: &Timeline, seed: u64) -> String {
    let packets = packets(drive, workload, seed);
    html(&Run {
        outcome,
        description: &drive.resolved(),
        heading: &heading(drive, workload),
        timeline: timeline.windows(),
        packets: packets.as_ref().map(|(title, trace)| (title.as_str(), trace)),
    })
}

/// The job, and what it runs on.
fn heading(drive: &Drive, workload: &Workload) -> Vec<String> {
    let parts = [
        ("interface", describe::interface(drive, &workload.jobs)),
        ("memory", describe::memory(drive)),
        ("write", describe::promise(drive)),
        ("link", describe::link(drive)),
        ("host", describe::host(drive)),
    ];
    let parts = parts.into_iter().map(|(name, told)| format!("{name:<9}  {told}"));
    workload.summary.lines().map(String::from).chain([String::new()]).chain(parts).collect()
}

/// The steps of one request like those of the job, alone, so that all packets are its own; of a mixed job, a read. None if its
/// requests differ in size, or are too large to look at.
fn packets(drive: &Drive, workload: &Workload, seed: u64) -> Option<(String, Trace)> {
    let label = Label::of(&workload.jobs);
    let bytes = label.bytes.filter(|bytes| *bytes <= BYTES_MAX)?;
    let is_write = label.rw.is_some_and(|rw| rw.ends_with("write"));
    let bs = bytes.to_string();
    let rw = if is_write { "randwrite" } else { "randread" };
    let stream = RequestStream { rw, bs: &bs, iodepth: "1", skip: SKIPPED, requests: 1, seed };
    let steps = stream.record(drive).ok()?;
    let told =
        format!("One request alone: number {} of {rw}, bs={bs}, iodepth=1, software at its mean time.", SKIPPED + 1);
    Some((told, steps.first()))
}
