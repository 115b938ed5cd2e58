//! Warm-up of a run: requests count once each drive's write buffer has been turned over.

use super::Engine;
use super::recorder::PartOutcomes;
use crate::config::Precondition;
use crate::drive::Drive;
use crate::ledger::MeasuredState;
use crate::time::Time;
use crate::workload::{Job, Limits};

/// Number of requests after which a run begins to count whatever the state of its drives.
const WARM_UP_IOS_MAX: u64 = 2_000_000;

/// Number of events between two looks at the drives during a warm-up.
const EVENTS_BETWEEN_LOOKS: u64 = 4096;

/// Warm-up of a run, and what its outcome says about it.
#[derive(Clone, Debug, Default)]
pub(super) struct WarmUp {
    /// True until requests count.
    is_on: bool,
    /// True if the drives have a steady state, and the jobs write.
    matters: bool,
    is_steady: bool,
    replays: bool,
    writes_at_random: bool,
    /// End of the warm-up, with what the parts had counted by then.
    end: Option<Box<WarmUpEnd>>,
}

#[derive(Clone, Debug)]
struct WarmUpEnd {
    ios: u64,
    is_turned_over: bool,
    parts: PartOutcomes,
}

impl WarmUp {
    /// Warm-up of these jobs on a drive within these limits.
    pub(super) fn of(jobs: &[Job], limits: &Limits) -> WarmUp {
        WarmUp {
            is_on: false,
            matters: limits.has_steady_state && jobs.iter().any(Job::has_writes),
            is_steady: jobs.iter().any(Job::warms_up),
            replays: jobs.iter().any(|job| job.trace.is_some() && job.has_writes()),
            writes_at_random: limits.zones.is_none() && jobs.iter().any(Job::writes_at_random),
            end: None,
        }
    }

    /// Returns true if the requests of `jobs` do not count from their start on.
    pub(super) fn begin(&mut self, jobs: &[Job]) -> bool {
        self.is_on |= self.matters && self.end.is_none() && jobs.iter().any(Job::warms_up);
        self.is_on
    }

    /// Counts of the parts at the end of the warm-up, if there was one.
    pub(super) fn base(&self) -> Option<&PartOutcomes> {
        self.end.as_ref().map(|end| &end.parts)
    }

    /// State in which the requests were counted, on drives that began as `precondition` says.
    pub(super) fn measured(&self, precondition: Precondition) -> MeasuredState {
        match &self.end {
            _ if !self.matters => MeasuredState::Only,
            None if self.replays => MeasuredState::Burst("a replay begins with an empty write buffer"),
            None if self.is_steady => MeasuredState::Burst("the run was over before the write buffer had filled"),
            None => MeasuredState::Burst("requests count from the first one on, which finds the write buffer empty"),
            Some(end) if !end.is_turned_over => MeasuredState::Burst("the write buffer had not filled"),
            Some(_) if self.writes_at_random && precondition != Precondition::Random => MeasuredState::Burst(
                "the translation layer had not been overwritten at random: translation.precondition is not random",
            ),
            Some(end) => MeasuredState::Steady { warm_up_ios: end.ios, warm_up: end.parts.now.since(Time::ZERO) },
        }
    }
}

impl Engine {
    /// True until requests count.
    pub fn is_warming_up(&self) -> bool {
        self.warm_up.is_on
    }

    /// Handles up to `events` events of a warm-up, which it ends once the write buffers of all drives have been turned over. False
    /// once every thread is done.
    pub fn warm_up(&mut self, events: u64, drive: &Drive) -> bool {
        let last = self.events().saturating_add(events);
        while self.warm_up.is_on && self.events() < last {
            // Looks come at the same events however many a call handles.
            let until_look = EVENTS_BETWEEN_LOOKS - self.events() % EVENTS_BETWEEN_LOOKS;
            if !self.run(until_look.min(last - self.events())) {
                return false;
            }
            if self.events().is_multiple_of(EVENTS_BETWEEN_LOOKS) {
                self.end_warm_up_if_due(drive);
            }
        }
        true
    }

    /// Begins to count requests if the write buffers of all drives have been turned over.
    fn end_warm_up_if_due(&mut self, drive: &Drive) {
        let now = self.now();
        let is_turned_over = self.devices.iter().all(|device| device.media.is_turned_over());
        let ios = self.recorder.completed();
        if !is_turned_over && ios < WARM_UP_IOS_MAX {
            return;
        }
        self.warm_up.is_on = false;
        let begin = self.host.begin_to_count(now);
        self.recorder.begin_to_count(begin);
        let parts = self.part_outcomes(now, drive);
        self.warm_up.end = Some(Box::new(WarmUpEnd { ios, is_turned_over, parts }));
    }
}
