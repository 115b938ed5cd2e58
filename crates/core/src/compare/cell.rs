//! What one drive gave one line of a comparison, and what kept it from more.

use crate::drive::Drive;
use crate::ledger::{DirectionOutcome, Outcome, Stage};
use crate::predict::{Usage, usage};
use crate::workload::Job;

/// From here on a resource counts as full.
const FULL: f64 = 0.95;
/// Stages in which a request waits for a resource.
const WAITS: [(Stage, &str); 6] = [
    (Stage::FillBuffer, "fill buffers"),
    (Stage::RequestQueue, "request queue"),
    (Stage::MediaWait, "media banks"),
    (Stage::LinkWait, "wires"),
    (Stage::CoreWait, "cores"),
    (Stage::Translation, "translations"),
];
/// Part of a request's time from which on waiting for a resource is more than now and then.
const WAIT_PART: u64 = 4;

/// The result of one drive at one point.
#[derive(Clone, Debug)]
pub struct Cell {
    pub outcome: Outcome,
    /// Reads and writes of all jobs together.
    pub figures: DirectionOutcome,
    /// How busy each resource was, the busiest first.
    pub usage: Vec<Usage>,
}

impl Cell {
    /// What `jobs` on `drive` gave.
    pub fn new(drive: &Drive, jobs: &[Job], outcome: Outcome) -> Cell {
        let mut figures = DirectionOutcome::default();
        for (_, direction) in outcome.jobs.iter().flat_map(|job| job.directions()) {
            figures.ios += direction.ios;
            figures.bytes += direction.bytes;
            figures.runtime = figures.runtime.max(direction.runtime);
            figures.total.merge(&direction.total);
            figures.stages.add(&direction.stages);
        }
        Cell { usage: usage(drive, jobs, &outcome), outcome, figures }
    }

    /// Use of the busier direction of the link, 0 to 1.
    pub fn link_busy_share(&self) -> f64 {
        let elapsed = self.outcome.elapsed;
        self.outcome.upstream.busy_share(elapsed).max(self.outcome.downstream.busy_share(elapsed))
    }

    /// The resource that keeps a drive from more: one that is full, or that requests wait for, as for banks of which some
    /// are idle while many ask for another.
    /// None where neither is so: then only the latency of requests does, and more of them at once would be served.
    pub fn limit(&self) -> Option<&str> {
        let full = self.usage.first().filter(|used| used.share >= FULL).map(|used| used.resource.as_str());
        full.or_else(|| self.awaited())
    }

    fn awaited(&self) -> Option<&'static str> {
        let stages = &self.figures.stages;
        let (stage, resource) = WAITS.iter().max_by_key(|(stage, _)| stages.get(*stage))?;
        (stages.get(*stage) > stages.total() / WAIT_PART).then_some(*resource)
    }
}
