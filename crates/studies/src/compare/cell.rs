//! Result of one drive in one line of a comparison, with the resource that limits it.

use crate::precision::Measurement;
use crate::predict::usage;
use crate::results::Figures;
use crate::results::documents::ResourceUse;
use crate::uncertainty::RunFigureIntervals;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{DirectionOutcome, Outcome, Stage};
use phaselink_core::number::real;
use phaselink_core::workload::Job;

/// Utilisation at which a resource counts as saturated.
const FULL: f64 = 0.95;
/// Stages in which a request waits for a resource, with the name of the resource.
const WAITS: [(Stage, &str); 9] = [
    (Stage::TargetWait, "target cores"),
    (Stage::NetworkWait, "network"),
    (Stage::FillBuffer, "fill buffers"),
    (Stage::RequestQueue, "request queue"),
    (Stage::FirmwareWait, "drive processors"),
    (Stage::MediaWait, "media banks"),
    (Stage::LinkWait, "wires"),
    (Stage::CoreWait, "cores"),
    (Stage::Translation, "translations"),
];
/// Divisor for the smallest share of a request's time that waiting for a resource must take to limit a drive.
const WAIT_PART: u64 = 4;

/// Adds the figures of requests to a sum.
fn add(sum: &mut DirectionOutcome, direction: &DirectionOutcome) {
    sum.ios += direction.ios;
    sum.bytes += direction.bytes;
    sum.runtime = sum.runtime.max(direction.runtime);
    sum.total.merge(&direction.total);
    sum.stages.add(&direction.stages);
}

/// Result of one drive under the jobs of one line of a comparison.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Outcome of the drive's run.
    pub outcome: Outcome,
    /// Figures of the drive's run, such as its rate and mean latency.
    pub figures: Figures,
    /// Sum of the reads and writes of all jobs.
    pub all: DirectionOutcome,
    /// Sum of the reads of all jobs.
    pub reads: DirectionOutcome,
    /// Sum of the writes of all jobs.
    pub writes: DirectionOutcome,
    /// Commits of all jobs: their latency, and the stages of their writes and flushes.
    pub commits: DirectionOutcome,
    /// Queries of all jobs: their latency, and the stages of their reads.
    pub queries: DirectionOutcome,
    /// Utilisation of each resource, by descending utilisation.
    pub usage: Vec<ResourceUse>,
    /// Measurement of the figures whose precision ended the run, if it did.
    pub measurement: Option<Measurement>,
    /// Prediction intervals of the figures, if they were computed.
    pub doubted: Option<RunFigureIntervals>,
}

impl Cell {
    /// Makes the result of `jobs` on `drive` from the outcome of their run.
    pub fn new(drive: &Drive, jobs: &[Job], outcome: Outcome) -> Cell {
        let [mut all, mut reads, mut writes, mut commits, mut queries] = <[DirectionOutcome; 5]>::default();
        for job in &outcome.jobs {
            [&mut all, &mut reads].into_iter().for_each(|sum| add(sum, &job.read));
            [&mut all, &mut writes].into_iter().for_each(|sum| add(sum, &job.write));
            commits.ios += job.commit.count();
            commits.total.merge(&job.commit);
            queries.ios += job.query.count();
            queries.total.merge(&job.query);
            if job.query.count() > 0 {
                queries.stages.add(&job.read.stages);
            }
            if job.commit.count() > 0 {
                // All clients of a group commit wait for the same write and flush, so multiply both by the number of clients.
                let clients = (real(job.commit.count()) / real(job.write.ios.max(1))).max(1.0);
                let parts = [&job.write, &job.flush];
                parts.into_iter().for_each(|part| commits.stages.add(&part.stages.scaled(clients)));
            }
        }
        let (usage, figures) = (usage(drive, jobs, &outcome), Figures::of(&outcome));
        Cell { outcome, figures, all, reads, writes, commits, queries, usage, measurement: None, doubted: None }
    }

    /// Returns the resource that keeps a drive from more throughput: one that is saturated, or one for which requests
    /// wait a large part of their time, as for a few busy banks while others are idle. None if there is no such
    /// resource: then latency limits throughput, and more requests in flight would raise it.
    pub fn limit(&self) -> Option<&str> {
        let full = self.usage.first().filter(|used| used.share >= FULL).map(|used| used.resource.as_str());
        full.or_else(|| self.longest_awaited_resource())
    }

    fn longest_awaited_resource(&self) -> Option<&str> {
        let stages = &self.all.stages;
        let (stage, resource) = WAITS.iter().max_by_key(|(stage, _)| stages.get(*stage))?;
        let waited = stages.get(*stage) > stages.total() / WAIT_PART;
        waited.then(|| self.busiest_flash_part().filter(|_| *stage == Stage::MediaWait).unwrap_or(resource))
    }

    /// Returns the busiest part of a flash drive (dies or channels), in place of the banks of other memories.
    pub(super) fn busiest_flash_part(&self) -> Option<&str> {
        let is_of_flash = |name: &str| self.outcome.parts.iter().any(|part| part.resource == name);
        self.usage.iter().map(|used| used.resource.as_str()).find(|name| is_of_flash(name))
    }
}
