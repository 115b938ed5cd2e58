//! Course of a run over time, in windows of equally many requests: some hundred windows, however long the run is.

use super::simulation::Simulation;
use crate::ledger::Latency;
use crate::number::real;
use crate::time::Time;

/// Number of windows in the course of a run at which adjacent windows are merged in pairs.
const WINDOWS_MAX: usize = 120;
/// Number of requests in a window at the beginning of a run; it doubles with each merging of windows.
const WINDOW_IOS: u64 = 16;
/// Number of simulated events between two checks if the present window has enough completed requests.
const EVENTS: u64 = 64;

/// Course of a run in progress: its windows of equally many completed requests.
#[derive(Clone, Debug)]
pub struct RunTimeline {
    windows: Vec<Window>,
    window_ios: u64,
    seen: Latency,
    from: Option<Time>,
}

/// Window of a run: requests that were completed one after the other, with their latencies.
#[derive(Clone, Debug)]
pub struct Window {
    /// Instant at which this window (range of consecutive requests of the run) begins.
    pub from: Time,
    /// Instant at which this window (range of consecutive requests of the run) ends.
    pub to: Time,
    /// Latencies of the requests completed in the window.
    pub latency: Latency,
}

impl Default for RunTimeline {
    fn default() -> RunTimeline {
        RunTimeline { windows: Vec::new(), window_ios: WINDOW_IOS, seen: Latency::default(), from: None }
    }
}

impl RunTimeline {
    /// Handles about `events` more events of a run, as [`Simulation::step`] does, and adds the windows that this
    /// completes. Returns false once the jobs are done.
    pub fn step(&mut self, simulation: &mut Simulation, events: u64) -> bool {
        let last = simulation.events().saturating_add(events);
        let mut goes_on = true;
        while goes_on && simulation.events() < last {
            goes_on = simulation.step(EVENTS);
            self.update_from(simulation);
        }
        goes_on
    }

    fn update_from(&mut self, simulation: &Simulation) {
        // Requests of the ramp are not counted, so the first window begins at the first counted request.
        let from = *self.from.get_or_insert(simulation.now());
        if simulation.counted_requests() == 0 {
            self.from = None;
        }
        if simulation.counted_requests() < self.seen.count() + self.window_ios {
            return;
        }
        let now = simulation.latency();
        let latency = now.without(&self.seen);
        self.windows.push(Window { from, to: simulation.now(), latency });
        (self.seen, self.from) = (now, Some(simulation.now()));
        if self.windows.len() >= WINDOWS_MAX {
            self.pair();
        }
    }

    fn pair(&mut self) {
        self.window_ios *= 2;
        let pairs = self.windows.chunks(2).map(|pair| match pair {
            [one, two] => one.with(two),
            rest => rest[0].clone(),
        });
        self.windows = pairs.collect();
    }

    /// Returns the windows of the run so far. Requests completed since the last window ended are in none of them.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }
}

impl Window {
    fn with(&self, next: &Window) -> Window {
        let mut latency = self.latency.clone();
        latency.merge(&next.latency);
        Window { from: self.from, to: next.to, latency }
    }

    /// Returns the throughput of the window in requests per second of simulated time.
    pub fn iops(&self) -> f64 {
        real(self.latency.count()) / self.to.since(self.from).as_s().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Drive;
    use crate::workload::fio;

    fn watched(number_ios: &str) -> (Simulation, RunTimeline) {
        let drive = Drive::shipped("dc-express").unwrap();
        let file = fio::job_from_flags(&[("rw", "randread"), ("bs", "512"), ("number_ios", number_ios)]).unwrap();
        let jobs = file.resolve(&drive.limits(), &Default::default()).unwrap();
        let (mut simulation, mut timeline) = (Simulation::new(&drive, &jobs, 1).unwrap(), RunTimeline::default());
        while timeline.step(&mut simulation, 1000) {}
        (simulation, timeline)
    }

    #[test]
    fn windows_are_consecutive_and_cover_the_runs_requests() {
        let (simulation, timeline) = watched("10000");
        let windows = timeline.windows();
        assert!((WINDOWS_MAX / 2..WINDOWS_MAX).contains(&windows.len()), "{}", windows.len());
        assert!(windows.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].from < pair[0].to));
        let counted: u64 = windows.iter().map(|window| window.latency.count()).sum();
        assert!((9_800..=10_000).contains(&counted), "{counted}");
        let rate = simulation.outcome().iops();
        assert!(windows.iter().all(|window| (window.iops() / rate - 1.0).abs() < 0.2));
    }

    #[test]
    fn watching_a_run_does_not_change_its_results() {
        let (watched, _) = watched("3000");
        let drive = Drive::shipped("dc-express").unwrap();
        let file = fio::job_from_flags(&[("rw", "randread"), ("bs", "512"), ("number_ios", "3000")]).unwrap();
        let alone = super::super::simulation::simulate_file(&drive, &file, 1).unwrap();
        assert_eq!(watched.outcome(), alone);
    }
}
