//! Results of a run: what its parts have counted, and the checks that no request is lost.

use super::Engine;
use super::driver_end::DriverEnd;
use super::recorder::PartMeasurements;
use crate::drive::Drive;
use crate::ledger::{CreditState, MeasuredState, Outcome};
use crate::time::Time;
use crate::tlp::Direction;

impl Engine {
    /// Returns all counters of the machine with their names, summed over all devices, in the order of the first
    /// device's counters.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.devices.counters(self.fault_counts());
        counters.extend(self.switch_utilisation_counters());
        counters.extend(self.fabric.iter().flat_map(|fabric| fabric.counters()));
        counters
    }

    /// Asserts that no more requests have completed than were issued, and that all have when the threads of all jobs
    /// are done.
    fn assert_all_completed(&self) {
        let (issued, completed) = (self.shared.requests.issued, self.recorder.completed());
        assert!(completed <= issued, "{completed} completions of {issued} requests");
        // With real hosts or callers at the driver, requests may be in flight although no simulated thread runs.
        let has_threads_alone = self.queue_threads.is_empty() && !matches!(self.driver_end, DriverEnd::Callers);
        let is_over = self.is_over() && has_threads_alone;
        assert!(!is_over || completed == issued, "{completed} completions of {issued} requests, and none in flight");
    }

    /// Returns the outcome of the run so far, without its warm-up.
    pub fn outcome(&self, drive: &Drive, seed: u64) -> Outcome {
        self.assert_all_completed();
        let parts = self.measure_parts(self.recorder.last(), drive);
        let parts = match self.warm_up.base() {
            Some(base) => parts.since(base),
            None => parts,
        };
        let measured = match self.warm_up.measured(drive.translation.precondition) {
            MeasuredState::Only => self.credit_state(),
            // A volume that spends burst credits is not in a steady state, even if its flash is.
            MeasuredState::Steady { .. } => match self.credit_state() {
                burst @ MeasuredState::Volume(CreditState::Last(_) | CreditState::UsedUpAfter(_)) => burst,
                _ => self.warm_up.measured(drive.translation.precondition),
            },
            measured => measured,
        };
        Outcome { faults: self.summarise_fault_effects(), ..self.recorder.outcome(drive, seed, measured, parts) }
    }

    /// Returns the state of the first device's burst credits, if it is a volume that has credits.
    fn credit_state(&self) -> MeasuredState {
        let volume = self.devices[0].media.volume();
        let state = volume.and_then(|volume| volume.credit_state(self.recorder.last()));
        state.map_or(MeasuredState::Only, MeasuredState::Volume)
    }

    /// Returns the measurements of the machine's links, cores, memory and power up to `now`.
    pub(super) fn measure_parts(&self, now: Time, drive: &Drive) -> PartMeasurements {
        PartMeasurements {
            begin: Time::ZERO,
            now,
            upstream: self.devices.used(Direction::Up),
            downstream: self.devices.used(Direction::Down),
            cpu: self.host.used(now),
            parts: [self.devices.parts(now), self.fabric.as_ref().map_or_else(Vec::new, |fabric| fabric.parts())]
                .concat(),
            awake_share: self.devices.awake_share(now),
            memory_j: self.devices.total_memory_joules(drive),
            counters: self.counters(),
            events: self.events(),
            finished: self.host.finished(),
        }
    }
}
