//! Progress bar for simulations that take longer than 0.7 s, and how long all of them will take. The bar is drawn only if
//! standard output and standard error are terminals; the expected time is told if standard error is one. A pipe or file
//! gets neither: what a command writes there is the same on each machine, and both depend on its speed.

use std::io::{self, IsTerminal};
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::number::{length, real, whole};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::simulation::Simulation;
use phaselink_core::timeline::RunTimeline;
use phaselink_core::workload::Job;
use rayon::prelude::*;

use crate::notes;

/// Number of steps of the progress bar for one simulation.
const STEPS: u64 = 1000;
/// Number of simulated events between two updates of the progress bar, whose simulation takes some 10 ms.
const EVENTS: u64 = 1 << 17;
/// Time after which the progress bar is first drawn.
const PATIENCE: Duration = Duration::from_millis(700);
/// Shortest expected time of all simulations together that is worth a note.
const LONG: Duration = Duration::from_secs(5);

/// Progress bar of several simulations, which may run in parallel.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    wanted: bool,
    /// Done as soon as the first simulation's worth of steps has told how long all will take.
    expected: Once,
}

impl Progress {
    /// Returns a progress bar for a number of simulations. The bar is not drawn yet.
    pub(crate) fn of(simulations: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(STEPS * length(simulations)), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} passed, {eta} left")
            .expect("the template is right");
        bar.set_style(style);
        let wanted = io::stdout().is_terminal() && io::stderr().is_terminal() && !notes::are_notes_suppressed();
        Progress { bar, started: Instant::now(), wanted, expected: Once::new() }
    }

    /// Calls `run` with each number below `count` on all processors, and counts a simulation after each call.
    pub(crate) fn each(&self, count: usize, run: &(dyn Fn(usize) + Sync)) {
        (0..count).into_par_iter().for_each(|place| {
            run(place);
            self.one();
        });
    }

    /// Runs a simulation to its end, or until `stop` returns true, and advances the progress bar.
    pub(crate) fn drive(&self, simulation: &mut Simulation, stop: impl Fn() -> bool) {
        self.print_progress_until_done(simulation, Simulation::step, stop);
    }

    /// Runs a simulation like [`drive`](Self::drive), and records its windows of time in a timeline.
    pub(crate) fn watch(&self, simulation: &mut Simulation, timeline: &mut RunTimeline, stop: impl Fn() -> bool) {
        self.print_progress_until_done(simulation, |simulation, events| timeline.step(simulation, events), stop);
    }

    fn print_progress_until_done(
        &self,
        simulation: &mut Simulation,
        mut step: impl FnMut(&mut Simulation, u64) -> bool,
        stop: impl Fn() -> bool,
    ) {
        let mut shown = 0;
        while !stop() && step(simulation, EVENTS) {
            let done = whole(simulation.progress().unwrap_or(0.0) * real(STEPS));
            self.advance(done.saturating_sub(shown));
            shown = shown.max(done);
        }
        self.advance(STEPS - shown.min(STEPS));
    }

    /// Runs a simulation to its end, or until `stop` returns true, and returns its outcome.
    pub(crate) fn outcome(&self, mut simulation: Simulation, stop: impl Fn() -> bool) -> Outcome {
        self.drive(&mut simulation, stop);
        simulation.outcome()
    }

    /// Simulates jobs on a drive, and advances the progress bar.
    ///
    /// # Errors
    /// What is wrong with the jobs, and that `stop` has returned true.
    pub(crate) fn simulate(
        &self,
        drive: &Drive,
        jobs: &[Job],
        seed: u64,
        stop: impl Fn() -> bool,
    ) -> Result<Outcome, Problems> {
        let outcome = self.outcome(Simulation::new(drive, jobs, seed)?, &stop);
        if stop() { Err(Problem::new("command line", None, "stopped", "").into()) } else { Ok(outcome) }
    }

    /// Advances the progress bar by one finished simulation.
    pub(crate) fn one(&self) {
        self.advance(STEPS);
    }

    fn advance(&self, steps: u64) {
        if self.wanted && self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps);
        if self.bar.position() >= STEPS {
            self.expected.call_once(|| self.print_expected_time());
        }
    }

    /// Tells how long all simulations will take, judged by those that are done.
    fn print_expected_time(&self) {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let note = expected(self.started.elapsed(), done, all).filter(|_| io::stderr().is_terminal());
        note.into_iter().for_each(|note| self.bar.suspend(|| notes::tell(&note)));
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns a note about the time that all steps will take, if `done` of them took `elapsed`; none if that is short, or
/// if there is only one simulation.
fn expected(elapsed: Duration, done: u64, all: u64) -> Option<String> {
    let total = elapsed.mul_f64(real(all) / real(done.max(1)));
    let (seconds, simulations) = (total.as_secs_f64(), all / STEPS);
    let time = if seconds < 99.5 { format!("{seconds:.0} s") } else { format!("{:.0} minutes", seconds / 60.0) };
    (total >= LONG && simulations > 1).then(|| format!("{simulations} simulations will take about {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_finished_simulation_predicts_the_total_time() {
        let after = |ms, done, all| expected(Duration::from_millis(ms), done * STEPS, all * STEPS);
        assert_eq!(after(2_600, 1, 20).unwrap(), "20 simulations will take about 52 s");
        // Two simulations run at a time: 2.6 s for two of them means 1.3 s each, and 40 take 52 s.
        assert_eq!(after(2_600, 2, 40).unwrap(), "40 simulations will take about 52 s");
        assert_eq!(after(3_000, 1, 100).unwrap(), "100 simulations will take about 5 minutes");
        assert_eq!((after(100, 1, 20), after(60_000, 1, 1)), (None, None));
    }
}
