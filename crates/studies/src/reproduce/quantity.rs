//! Quantities of a run that an expression can read: one table for each group, with name and meaning.
//!
//! | written | is |
//! |---|---|
//! | `iops`, `mean_ns`, `p99_9_ns`, … | of reads and writes together; of one alone as `read.iops`, `write.iops`; of a second job alone as `beside.iops` |
//! | `stage.poll_wait` | mean time in that stage for each request, in ns; spaces become underscores |
//! | `upstream.packets`, `downstream.busy_share`, … | use of one direction of the link |
//! | `elapsed_ns`, `working`, `joules_per_io`, … | of the whole run; names that sweeps have too mean the same |
//! | `counter.queue_reads` | what the drive counts under this name; unknown if it counts no such thing |
//! | `key.media.read_ns` | a parameter of the run's description, overrides applied; true is 1 |

use super::Facts;
use super::mistake::ExpressionMistake;
use crate::results::{FIGURES, Figure, Figures, PERCENTILES, Percentile, current_figure_name, find as find_figure};
use phaselink_core::ledger::stage::FIXED_NAMES;
use phaselink_core::ledger::{DirectionOutcome, Latency, Outcome, WireUse};
use phaselink_core::number::real;
use phaselink_core::time::Span;

/// Quantity of a run that an expression reads.
#[derive(Clone, Debug)]
pub(super) enum RunQuantity {
    Requests(RequestSide, fn(&CoveredRequests) -> f64),
    /// Percentile of the total latency; the number is in per cent.
    Percentile(RequestSide, f64),
    /// Mean time of a request in a stage, whose name is written as by [`plain`].
    Stage(RequestSide, String),
    Upstream(fn(&WireUse, Span) -> f64),
    Downstream(fn(&WireUse, Span) -> f64),
    Run(fn(&Outcome) -> f64),
    /// Figure of a run that sweeps print under the same name.
    Swept(&'static Figure),
    Counter(String),
    /// Parameter of the run's description, by its dotted key.
    Parameter(String),
}

/// Requests of a run that a quantity covers: all, reads, writes, or those of the second job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestSide {
    Both,
    Read,
    Write,
    /// Requests of all jobs but the first, which is the second job.
    Beside,
}

/// Sums over the requests that a quantity covers, in all jobs.
#[derive(Default)]
pub(super) struct CoveredRequests {
    ios: u64,
    iops: f64,
    bytes_per_s: f64,
    total: Latency,
}

/// Table of quantities: the name of each, and the function that reads it.
type Table<F> = &'static [(&'static str, F)];

const REQUESTS: Table<fn(&CoveredRequests) -> f64> = &[
    ("iops", |requests| requests.iops),
    ("bytes_per_s", |requests| requests.bytes_per_s),
    ("mean_ns", |requests| requests.total.mean_ns()),
    ("max_ns", |requests| requests.total.max().as_ns()),
    ("ios", |requests| real(requests.ios)),
];

const WIRE: Table<fn(&WireUse, Span) -> f64> = &[
    ("bytes_per_ns", |wire, _| wire.bytes_per_ns),
    ("data_bytes", |wire, _| real(wire.data_bytes)),
    ("command_bytes", |wire, _| real(wire.command_bytes)),
    ("header_bytes", |wire, _| real(wire.header_bytes)),
    ("dllp_bytes", |wire, _| real(wire.dllp_bytes)),
    ("packets", |wire, _| real(wire.packets)),
    ("replays", |wire, _| real(wire.replays)),
    ("busy_share", |wire, elapsed| wire.busy_share(elapsed)),
];

/// Quantities of the whole run. Processor times are in cores: the time that all cores spend, divided by the time of the
/// run.
const RUN: Table<fn(&Outcome) -> f64> = &[
    ("elapsed_ns", |outcome| outcome.elapsed.as_ns()),
    ("working", |outcome| outcome.cpu.working.as_s() / outcome.elapsed.as_s()),
    ("spinning", |outcome| outcome.cpu.spinning.as_s() / outcome.elapsed.as_s()),
    ("switching", |outcome| outcome.cpu.switching.as_s() / outcome.elapsed.as_s()),
    ("interrupts", |outcome| real(outcome.cpu.interrupts)),
    ("context_switches", |outcome| real(outcome.cpu.context_switches)),
    ("idle_w", |outcome| outcome.energy.map_or(f64::NAN, |energy| energy.idle_w)),
    ("memory_w", |outcome| outcome.memory_j.map_or(f64::NAN, |joules| joules / outcome.elapsed.as_s())),
];

/// Groups of quantities whose names are not in a table but depend on the drive, as messages show them.
const OPEN_GROUPS: &str = "stage.NAME, counter.NAME, key.PARAMETER";

impl RunQuantity {
    /// Returns the quantity that `path` names, which is the name without the experiment in front.
    pub(super) fn parse(path: &str) -> Result<RunQuantity, ExpressionMistake> {
        match path.split_once('.') {
            None => RunQuantity::of_requests(RequestSide::Both, path).or_else(|_| RunQuantity::of_run(path)),
            Some(("read", name)) => RunQuantity::of_requests(RequestSide::Read, name),
            Some(("write", name)) => RunQuantity::of_requests(RequestSide::Write, name),
            Some(("beside", name)) => RunQuantity::of_requests(RequestSide::Beside, name),
            Some(("stage", _)) => RunQuantity::of_requests(RequestSide::Both, path),
            Some(("upstream", name)) => find(WIRE, name).map(RunQuantity::Upstream),
            Some(("downstream", name)) => find(WIRE, name).map(RunQuantity::Downstream),
            Some(("counter", name)) => Ok(RunQuantity::Counter(String::from(name))),
            Some(("key", key)) => Ok(RunQuantity::Parameter(String::from(key))),
            Some(_) => Err(ExpressionMistake::new(format!("unknown quantity `{path}`"), groups())),
        }
    }

    fn of_requests(side: RequestSide, name: &str) -> Result<RunQuantity, ExpressionMistake> {
        if let Some(stage) = name.strip_prefix("stage.") {
            return Ok(RunQuantity::Stage(side, String::from(stage)));
        }
        let name = current_figure_name(name).unwrap_or(name);
        match Percentile::named(name) {
            Some(percentile) => Ok(RunQuantity::Percentile(side, percentile.percent)),
            None => find(REQUESTS, name).map(|read| RunQuantity::Requests(side, read)),
        }
    }

    fn of_run(name: &str) -> Result<RunQuantity, ExpressionMistake> {
        if let Some((_, read)) = RUN.iter().find(|(known, _)| *known == name) {
            return Ok(RunQuantity::Run(*read));
        }
        find_figure(name).map(RunQuantity::Swept).ok_or_else(|| {
            let percentiles: Vec<String> = PERCENTILES.iter().map(|it| format!("{}_ns", it.name)).collect();
            let own = REQUESTS.iter().map(|(name, _)| *name).chain(RUN.iter().map(|(name, _)| *name));
            let swept = FIGURES.iter().map(|figure| figure.name);
            let mut names: Vec<&str> = own.chain(percentiles.iter().map(String::as_str)).chain(swept).collect();
            names.sort_unstable();
            names.dedup();
            let mut mistake = ExpressionMistake::unknown("quantity", name, names.into_iter());
            mistake.allowed = format!("{}, {}", mistake.allowed, groups());
            mistake
        })
    }

    /// Checks that a drive with these properties has the stage or parameter that the quantity reads.
    pub(super) fn check(&self, facts: &Facts) -> Result<(), ExpressionMistake> {
        match self {
            RunQuantity::Parameter(key) if facts.parameter(key).is_none() => {
                let found = format!("the description holds no number under `{key}`");
                Err(ExpressionMistake::new(found, "keys that `phaselink check` lists"))
            }
            RunQuantity::Stage(_, stage) => check_stage(stage, facts),
            _ => Ok(()),
        }
    }

    /// True if the power that the server takes can change the quantity.
    pub(super) fn may_depend_on_power(&self) -> bool {
        matches!(self, RunQuantity::Run(_) | RunQuantity::Swept(_) | RunQuantity::Parameter(_))
    }

    /// Returns the value of the quantity for one run; not a number if the run has no such quantity.
    pub(super) fn read(&self, outcome: &Outcome, facts: &Facts) -> f64 {
        match self {
            RunQuantity::Requests(side, read) => read(&CoveredRequests::of(outcome, *side)),
            RunQuantity::Percentile(side, percent) => {
                CoveredRequests::of(outcome, *side).total.percentile(*percent).as_ns()
            }
            RunQuantity::Stage(side, stage) => stage_mean_ns(outcome, *side, stage),
            RunQuantity::Upstream(read) => read(&outcome.upstream, outcome.elapsed),
            RunQuantity::Downstream(read) => read(&outcome.downstream, outcome.elapsed),
            RunQuantity::Run(read) => read(outcome),
            RunQuantity::Swept(figure) => Figures::of(outcome).get(figure).unwrap_or(f64::NAN),
            RunQuantity::Counter(name) => counter_value(outcome, name),
            RunQuantity::Parameter(key) => facts.parameter(key).unwrap_or(f64::NAN),
        }
    }
}

fn find<T: Copy>(table: Table<T>, name: &str) -> Result<T, ExpressionMistake> {
    let found = table.iter().find(|(known, _)| *known == name);
    let names = table.iter().map(|(known, _)| *known);
    found.map(|(_, item)| *item).ok_or_else(|| ExpressionMistake::unknown("quantity", name, names))
}

fn groups() -> String {
    format!("read.…, write.…, upstream.…, downstream.…, {OPEN_GROUPS}")
}

fn counter_value(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.counters.iter().find(|(known, _)| *known == name);
    found.map_or(f64::NAN, |(_, count)| real(*count))
}

/// Returns the name of a stage as expressions write it: small letters and digits, and one underscore for anything
/// between them.
pub(super) fn plain(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

fn check_stage(stage: &str, facts: &Facts) -> Result<(), ExpressionMistake> {
    let of_stack = facts.stack_stages();
    let names: Vec<String> = FIXED_NAMES.iter().copied().chain(of_stack).map(plain).collect();
    match names.iter().any(|name| name == stage) {
        true => Ok(()),
        false => Err(ExpressionMistake::unknown("stage", stage, names.iter().map(String::as_str))),
    }
}

fn directions(outcome: &Outcome, side: RequestSide) -> impl Iterator<Item = &DirectionOutcome> {
    let jobs = if side == RequestSide::Beside { outcome.jobs.get(1..).unwrap_or_default() } else { &outcome.jobs[..] };
    let both = jobs.iter().flat_map(|job| [(RequestSide::Read, &job.read), (RequestSide::Write, &job.write)]);
    both.filter(move |(of, _)| matches!(side, RequestSide::Both | RequestSide::Beside) || side == *of)
        .map(|(_, direction)| direction)
}

/// Returns the mean time of a request in a stage, in ns. Sums start at 0, because the sum of no floats at all is -0.
fn stage_mean_ns(outcome: &Outcome, side: RequestSide, stage: &str) -> f64 {
    let sum_ns = |direction: &DirectionOutcome| -> f64 {
        let stages = direction.stages.named(&outcome.stack_stages);
        stages.filter(|(name, _)| plain(name) == stage).fold(0.0, |sum, (_, span)| sum + span.as_ns())
    };
    let ios: u64 = directions(outcome, side).map(|direction| direction.ios).sum();
    directions(outcome, side).fold(0.0, |sum, direction| sum + sum_ns(direction)) / real(ios)
}

impl CoveredRequests {
    fn of(outcome: &Outcome, side: RequestSide) -> CoveredRequests {
        let mut sum = CoveredRequests::default();
        for direction in directions(outcome, side) {
            sum.ios += direction.ios;
            sum.iops += direction.iops();
            sum.bytes_per_s += direction.bytes_per_s();
            sum.total.merge(&direction.total);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::test_outcomes;

    fn read(path: &str, outcome: &Outcome) -> f64 {
        RunQuantity::parse(path).unwrap().read(outcome, &test_outcomes::facts())
    }

    #[test]
    fn quantities_read_their_values_from_an_outcome() {
        let outcome = test_outcomes::outcome();
        let expected = [
            ("iops", 500_000.0),
            ("read.iops", 500_000.0),
            ("write.iops", 0.0),
            ("bytes_per_s", 256e6),
            ("bw_bytes", 256e6),
            ("mean_ns", 2000.0),
            ("p99_ns", 3000.0),
            ("max_ns", 3000.0),
            ("ios", 2.0),
            ("stage.poll_wait", 1000.0),
            ("stage.read_call", 1000.0),
            ("stage.copy", 0.0),
            ("elapsed_ns", 4000.0),
            ("spinning", 0.5),
            ("joules_per_io", 2e-4),
            ("upstream.data_bytes", 1024.0),
            ("downstream.busy_share", 0.25),
            ("counter.queue_reads", 4.0),
            ("key.media.read_ns", 110.0),
            ("key.dc_express.predict", 1.0),
        ];
        for (path, value) in expected {
            assert_eq!(read(path, &outcome), value, "{path}");
        }
    }

    #[test]
    fn stage_quantity_ignores_parentheses_in_the_stage_name() {
        let checked = |path: &str| RunQuantity::parse(path).unwrap().check(&test_outcomes::facts());
        assert_eq!(checked("stage.system_call"), Ok(()));
        assert!(checked("stage.system_call_submit").is_err());
    }

    #[test]
    fn misspelt_quantity_is_refused_with_the_nearest_name_first() {
        for (path, first) in
            [("mean_n", "mean_ns"), ("upstream.packet", "packets"), ("p99_9_n", "p99_9_ns"), ("server", "server_w")]
        {
            let mistake = RunQuantity::parse(path).unwrap_err();
            assert!(mistake.allowed.starts_with(first), "{mistake:?}");
        }
        assert!(RunQuantity::parse("").is_err());
        assert!(RunQuantity::parse("nonsense.iops").is_err());
    }

    #[test]
    fn counter_has_the_name_of_its_drive_and_is_unknown_elsewhere() {
        assert_eq!(read("counter.queue_reads", &test_outcomes::outcome()), 4.0);
        assert!(read("counter.doorbells", &test_outcomes::outcome()).is_nan());
    }

    #[test]
    fn quantities_named_like_sweep_figures_have_equal_values() {
        let outcome = test_outcomes::outcome();
        let swept = Figures::of(&outcome);
        for figure in FIGURES.iter().filter(|figure| RunQuantity::parse(figure.name).is_ok()) {
            let Some(value) = swept.get(figure) else { continue };
            assert_eq!(read(figure.name, &outcome), value, "{}", figure.name);
        }
        assert_eq!(read("p999_ns", &outcome), read("p99_9_ns", &outcome));
    }

    #[test]
    fn stage_and_key_names_are_checked_against_the_drive() {
        let check = |path: &str| RunQuantity::parse(path).unwrap().check(&test_outcomes::facts());
        assert_eq!(check("stage.poll_wait"), Ok(()));
        assert_eq!(check("stage.read_call"), Ok(()));
        assert!(check("stage.poll_weight").unwrap_err().allowed.starts_with("poll_wait"));
        assert_eq!(check("key.media.read_ns"), Ok(()));
        assert!(check("key.media.read").is_err());
        assert!(check("key.media").is_err());
    }

    #[test]
    fn stage_names_are_compared_by_letters_and_digits() {
        assert_eq!(plain("read() call"), "read_call");
        assert_eq!(plain("time-out"), "time_out");
    }
}
