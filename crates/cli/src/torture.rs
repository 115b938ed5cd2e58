//! `phaselink torture`: simulates random drives, jobs and faults until an invariant breaks.

use std::cell::RefCell;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use phaselink_core::config::FaultAction;
use phaselink_core::drive::Interface;
use phaselink_core::number::real;
use phaselink_core::torture::coverage::TortureCoverage;
use phaselink_core::torture::trial::TrialFailureKind;
use phaselink_core::torture::{Failure as Broken, explain, run_seed};
use phaselink_studies::report::{self, Table};

use crate::ending::{CommandEnding, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = include_str!("../help/torture.txt");

/// Duration of `phaselink torture` in seconds if neither `--seeds`, `--seed` nor `--seconds` is given.
const SECONDS: u64 = 10;
/// Number of failing seeds after which no more seeds are tried.
const FAILURES_MAX: usize = 3;
/// Number of seeds that normally cover all packets and faults. After fewer seeds, uncovered packets and faults are not
/// printed.
const SEEDS_FOR_ALL: u64 = 5000;
/// Number of lines of a packet diagram that are printed from its beginning, and from its end.
const LADDER_LINES: usize = 30;

/// Test phaselink itself: simulate random drives, jobs and faults with real data, until a run breaks an invariant.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Number of random test cases, one for each consecutive seed [default: one with --seed alone, else as many as
    /// there is time for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Seed of the first random test case, which determines the case's drive, job and faults [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Time in seconds after which no further test case starts [default: 10, unless seeds are given]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: Option<u64>,
}

thread_local! {
    /// Source file and line of this thread's last panic.
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `phaselink torture`. Ends with `Off` if an invariant broke.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let stopped = interrupt::flag();
    // A panic counts as a finding and is reported like one.
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
        PANICKED_AT.with_borrow_mut(|last| *last = place);
    }));
    let hunt = arguments.hunt();
    hunt.run(&stopped);
    panic::set_hook(usual);
    let was_stopped = stopped.load(Ordering::Relaxed);
    let found = hunt.found.into_inner().unwrap_or_default();
    output::print(&summary(&found, hunt.begun.elapsed()))?;
    Ok(match found.broken.is_empty() {
        false => CommandEnding::Off,
        true if was_stopped => CommandEnding::Interrupted,
        true => CommandEnding::Fine,
    })
}

impl Arguments {
    fn hunt(&self) -> SeedHunt {
        let first = self.seed.unwrap_or(1);
        let seeds = match (self.seeds, self.seed, self.seconds) {
            (Some(seeds), ..) => seeds,
            (None, Some(_), None) => 1,
            _ => u64::MAX,
        };
        let seconds = self.seconds.or_else(|| (seeds == u64::MAX).then_some(SECONDS));
        let begun = Instant::now();
        SeedHunt {
            next: AtomicU64::new(first),
            last: first.saturating_add(seeds - 1),
            begun,
            until: seconds.map(|seconds| begun + Duration::from_secs(seconds)),
            found: Mutex::default(),
        }
    }
}

/// Range of seeds that all processors try together, with the time limit and the results.
struct SeedHunt {
    next: AtomicU64,
    last: u64,
    begun: Instant,
    until: Option<Instant>,
    found: Mutex<HuntResults>,
}

/// Results of the random test cases that `phaselink torture` has run: their number, what they covered, and the broken
/// invariants.
#[derive(Default)]
struct HuntResults {
    tried: u64,
    coverage: TortureCoverage,
    broken: Vec<(Broken, String)>,
}

impl SeedHunt {
    fn run(&self, stopped: &AtomicBool) {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| while !stopped.load(Ordering::Relaxed) && self.one().is_continue() {});
            }
        });
    }

    /// Runs the test case of the next seed. Breaks if no seed or no time is left, or too many seeds have failed.
    fn one(&self) -> ControlFlow<()> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        let Some(seed) = Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed <= self.last && !is_late)
        else {
            return ControlFlow::Break(());
        };
        let tried = run_seed(seed);
        let broken = tried.as_ref().err().map(|finding| {
            let broken = explain(seed, finding.clone());
            let place = PANICKED_AT.with_borrow(String::clone);
            (broken, place)
        });
        let Ok(mut found) = self.found.lock() else { return ControlFlow::Break(()) };
        found.tried += 1;
        if let Ok(reached) = &tried {
            found.coverage.add(reached);
        }
        found.broken.extend(broken);
        if found.broken.len() >= FAILURES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn summary(found: &HuntResults, time: Duration) -> String {
    let mut text = String::new();
    let mut broken: Vec<&(Broken, String)> = found.broken.iter().collect();
    broken.sort_by_key(|(broken, _)| broken.seed);
    for (broken, place) in broken {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}", failure_text(broken, place));
    }
    let rate = real(found.tried) / time.as_secs_f64().max(1e-3);
    let _ = write!(
        text,
        "{} seeds in {:.1} s, {rate:.1} a second: {} requests, {} failures\n\n{}\n{} pairs of a packet and a fault\n",
        found.tried,
        time.as_secs_f64(),
        found.coverage.ios,
        found.broken.len(),
        output::table_with_bold_heading(&coverage_table(&found.coverage)),
        found.coverage.pairs(),
    );
    let unreached = found.coverage.uncovered_case_texts();
    if !unreached.is_empty() && found.tried >= SEEDS_FOR_ALL {
        let _ = write!(text, "\nnot reached:\n  {}\n", unreached.join("\n  "));
    }
    text
}

/// Returns a table with, for each fault and protocol, the number of kinds of packets on the wire in runs with that
/// fault. It also has the number of runs and of all kinds.
fn coverage_table(coverage: &TortureCoverage) -> String {
    let mut table = Table::new().left("packets reached");
    for interface in Interface::ALL {
        table = table.right(interface.name());
    }
    let row = |title: &str, cell: &dyn Fn(&'static str) -> String| {
        let cells = Interface::ALL.iter().map(|interface| cell(interface.name()));
        std::iter::once(String::from(title)).chain(cells).collect::<Vec<_>>()
    };
    table.row(row("runs", &|interface| coverage.runs(interface).to_string()));
    table.row(row("kinds of packets", &|interface| coverage.packet_kind_count(interface).to_string()));
    table.group();
    // These drives are inside their host, without a network, so skip faults of network connections.
    let actions = FaultAction::ALL.into_iter().filter(|action| !action.is_network_connection_effect());
    for fault in std::iter::once(None).chain(actions.map(Some)) {
        let title = fault.map_or("nothing happens", FaultAction::name);
        table.row(row(title, &|interface| {
            coverage.packet_kinds_with_fault(interface, fault).map_or(String::from("-"), |kinds| kinds.to_string())
        }));
    }
    table.to_string()
}

/// Describes a failed test case: command line to reproduce the failure, smallest failing case, and packets of a
/// request.
fn failure_text(broken: &Broken, place: &str) -> String {
    let Broken { seed, finding, least, found, involved } = broken;
    let place = if found.kind == TrialFailureKind::Panic { format!(" ({place})") } else { String::new() };
    let ladder = involved.as_ref().map_or(String::new(), |involved| {
        let title = format!("{}: request {}", least.drive, involved.number);
        format!("\n{}", first_and_last_lines(&report::ladder(&involved.steps, &title)))
    });
    format!(
        "seed {seed}: {finding}\n  again:   phaselink torture --seed {seed}\n  smaller: {least}\n           {found}{place}\n{ladder}"
    )
}

/// Returns the first and the last lines of a long packet diagram.
fn first_and_last_lines(ladder: &str) -> String {
    let lines: Vec<&str> = ladder.lines().collect();
    let left_out = lines.len().saturating_sub(2 * LADDER_LINES);
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let is_shown = left_out == 0 || place < LADDER_LINES || place >= LADDER_LINES + left_out;
        // Writing to a `String` cannot fail.
        let _ = match (is_shown, place == LADDER_LINES) {
            (true, _) => writeln!(text, "{line}"),
            (false, true) => writeln!(text, "… {left_out} lines left out …"),
            (false, false) => Ok(()),
        };
    }
    text
}
