//! Warm-up of a run: requests count once each drive's write buffer has been turned over.

use super::Engine;
use super::recorder::PartMeasurements;
use crate::config::Precondition;
use crate::drive::Drive;
use crate::ledger::MeasuredState;
use crate::time::Time;
use crate::workload::{Job, Limits};

/// Largest number of requests of a warm-up; after these, requests count whatever the state of the drives.
const WARM_UP_IOS_MAX: u64 = 2_000_000;

/// Number of events between two checks of the drives' write buffers during a warm-up.
const EVENTS_BETWEEN_LOOKS: u64 = 4096;

/// State of the warm-up of a run, and the properties of its jobs that decide what the outcome says about it.
#[derive(Clone, Debug, Default)]
pub(super) struct WarmUp {
    /// True during the warm-up, while requests do not count.
    is_on: bool,
    /// True if the drives have a steady state and the jobs write, so that a warm-up makes a difference.
    matters: bool,
    is_steady: bool,
    replays: bool,
    writes_at_random: bool,
    /// State at the end of the warm-up, with what the machine's parts had counted by then; `None` before.
    end: Option<Box<WarmUpEnd>>,
}

/// Counts of the machine at the end of a warm-up; measurement counts from there.
#[derive(Clone, Debug)]
struct WarmUpEnd {
    ios: u64,
    is_steady: bool,
    parts: PartMeasurements,
}

impl WarmUp {
    /// Returns the warm-up, not yet begun, of these jobs on a drive with these limits.
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

    /// Begins the warm-up with the start of `jobs`, if one of them needs it and there has been none. Returns true if
    /// requests do not count for now.
    pub(super) fn begin(&mut self, jobs: &[Job]) -> bool {
        self.is_on |= self.matters && self.end.is_none() && jobs.iter().any(Job::warms_up);
        self.is_on
    }

    /// Returns what the machine's parts had counted at the end of the warm-up; `None` without a warm-up.
    pub(super) fn base(&self) -> Option<&PartMeasurements> {
        self.end.as_ref().map(|end| &end.parts)
    }

    /// Returns the state in which the requests were counted, on drives that began as `precondition` says.
    pub(super) fn measured(&self, precondition: Precondition) -> MeasuredState {
        match &self.end {
            _ if !self.matters => MeasuredState::Only,
            None if self.replays => MeasuredState::Burst("a replay begins with an empty write buffer"),
            None if self.is_steady => MeasuredState::Burst("the run was over before the write buffer had filled"),
            None => MeasuredState::Burst("requests count from the first one on, which finds the write buffer empty"),
            Some(end) if !end.is_steady => MeasuredState::Burst("the write buffer had not filled"),
            Some(_) if self.writes_at_random && precondition != Precondition::Random => MeasuredState::Burst(
                "the translation layer had not been overwritten at random: translation.precondition is not random",
            ),
            Some(end) => MeasuredState::Steady { warm_up_ios: end.ios, warm_up: end.parts.now.since(Time::ZERO) },
        }
    }
}

impl Engine {
    /// True during the warm-up, while requests do not count.
    pub fn is_warming_up(&self) -> bool {
        self.warm_up.is_on
    }

    /// Handles up to `events` events of a warm-up, and ends it once the write buffers of all drives have been turned
    /// over. Returns false once every thread is done.
    pub fn warm_up(&mut self, events: u64, drive: &Drive) -> bool {
        let last = self.events().saturating_add(events);
        while self.warm_up.is_on && self.events() < last {
            // Check at fixed event numbers, so that the result does not depend on how many events a call handles.
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

    /// Ends the warm-up if the write buffers of all drives have been turned over, or if it has taken 2,000,000
    /// requests.
    fn end_warm_up_if_due(&mut self, drive: &Drive) {
        let now = self.now();
        let is_steady = self.devices.iter().all(|device| device.media.is_steady());
        let ios = self.recorder.completed();
        if !is_steady && ios < WARM_UP_IOS_MAX {
            return;
        }
        self.warm_up.is_on = false;
        let begin = self.host.begin_to_count(now);
        self.recorder.begin_to_count(begin);
        let parts = self.measure_parts(now, drive);
        self.warm_up.end = Some(Box::new(WarmUpEnd { ios, is_steady, parts }));
    }
}
