//! The laws.

use std::fmt;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::{DirectionOutcome, Outcome};

use super::cases::{self, Case, Work};
use super::lab::SimulationLab;

/// By which share runs of usual length may differ from each other; and longer ones, which decide.
const NOISE: f64 = 0.02;
const NOISE_OF_LONG: f64 = 0.02;
/// The same for lone requests that come at other instants, and meet other pauses of the memory.
const NOISE_OF_IDLE: f64 = 0.02;
/// By which share a run may differ from what is predicted of it.
const DOUBT: f64 = 0.01;
/// How much longer these are, one after the other: what only the ends of runs do has to be gone in one of them.
const LONG: [u64; 2] = [6, 36];

pub(super) const FASTER: &str = "a faster part makes nothing slower";
pub(super) const BOUND: &str = "throughput is under every bound";
pub(super) const LEAST: &str = "no mean latency is below the closed form";
pub(super) const LITTLE: &str = "Little's law";
pub(super) const IDLE: &str = "idle is not slower than busy";

/// A broken law.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub law: &'static str,
    pub drive: String,
    pub part: String,
    /// The case, and what made it worse.
    pub case: String,
    /// By which share.
    pub by: f64,
}

impl Finding {
    pub(super) fn new(law: &'static str, case: &Case, what: &str, by: f64) -> Finding {
        Finding {
            law,
            drive: case.drive.to_string(),
            part: case.part.key().to_string(),
            case: format!("{case} {what}"),
            by,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{}: {:.1} %: {} [{}]", self.law, self.by * 100.0, self.case, self.part)
    }
}

/// How many configurations a case is, and the laws that it breaks, the first time each.
pub(super) fn check(lab: &SimulationLab, case: &Case) -> (usize, Vec<Finding>) {
    let Ok(own) = case.drive(&[]) else { return (0, Vec::new()) };
    let mut findings = Vec::new();
    let drives: Vec<(Vec<String>, Drive)> = case
        .part
        .steps(&own)
        .into_iter()
        .filter_map(|step| Some((step.clone(), case.drive(&step).ok()?)))
        .filter(|(_, drive)| case.work.jobs(drive, 1).is_ok())
        .collect();
    let outcomes: Vec<Outcome> = drives.iter().map(|(_, drive)| run(lab, drive, &case.work, 1)).collect();
    let alone =
        drives.iter().zip(&outcomes).map(|((step, drive), outcome)| alone(lab, case, drive, outcome, &step.concat()));
    findings.extend(alone.into_iter().find(|found| !found.is_empty()).unwrap_or_default());
    findings.extend(
        (1..drives.len()).find_map(|place| slower_than_predecessors(lab, case, &drives[..=place], &outcomes[..=place])),
    );
    if let Some((_, drive)) = drives.first() {
        findings.extend(idle(lab, case, drive));
    }
    (drives.len(), findings)
}

fn run(lab: &SimulationLab, drive: &Drive, work: &Work, scale: u64) -> Outcome {
    let jobs = work.jobs(drive, scale).unwrap_or_else(|problems| panic!("{problems}"));
    (lab.simulate)(drive, &jobs)
}

/// By which share a run breaks a law.
type LawExcess = fn(&SimulationLab, &Drive, &Work, &Outcome) -> f64;

/// What one run alone must keep.
fn alone(lab: &SimulationLab, case: &Case, drive: &Drive, outcome: &Outcome, what: &str) -> Vec<Finding> {
    let laws: [(&'static str, LawExcess); 3] = [
        (BOUND, excess_over_throughput_bound),
        (LEAST, shortfall_below_least_latency),
        (LITTLE, deviation_from_littles_law),
    ];
    let broken = laws.into_iter().filter(|(_, excess)| excess(lab, drive, &case.work, outcome) > DOUBT);
    let lasting = broken.filter_map(|(law, excess)| {
        let by = lasting(DOUBT, |scale| excess(lab, drive, &case.work, &run(lab, drive, &case.work, scale)))?;
        Some(Finding::new(law, case, what, by))
    });
    lasting.collect()
}

/// By which share the longest runs break a law, if longer ones go on to.
fn lasting(noise: f64, broken_by: impl Fn(u64) -> f64) -> Option<f64> {
    LONG.into_iter().try_fold(0.0, |_, scale| Some(broken_by(scale)).filter(|by| *by > noise))
}

/// By which share the throughput passes the bounds.
fn excess_over_throughput_bound(lab: &SimulationLab, drive: &Drive, work: &Work, outcome: &Outcome) -> f64 {
    let Ok(jobs) = work.jobs(drive, 1) else { return 0.0 };
    // The drawn share of reads differs from the wanted one by chance.
    let by_chance = if work.rw.ends_with("rw") { 1.5 / (outcome.ios() as f64).sqrt() } else { 0.0 };
    outcome.iops() / (lab.predict)(drive, &jobs).bottleneck().saturation_iops() - 1.0 - by_chance
}

/// By which share the mean latency falls short of the least.
fn shortfall_below_least_latency(lab: &SimulationLab, drive: &Drive, work: &Work, outcome: &Outcome) -> f64 {
    let Ok(jobs) = work.jobs(drive, 1) else { return 0.0 };
    let predicted = (lab.predict)(drive, &jobs);
    // If the bottleneck's queue determines the latency, the law of the bottleneck checks it, so skip it here.
    let is_bound = outcome.iops() <= predicted.bottleneck().saturation_iops() * (1.0 + DOUBT);
    // With several threads, some finish early and the others then wait in shorter queues.
    let least_ns = predicted.loaded().least_ns.filter(|_| is_bound && work.threads == 1);
    least_ns.map_or(0.0, |least_ns| 1.0 - mean_ns(outcome) / least_ns - first_and_last_request_share(work, outcome))
}

/// How far throughput times latency is from what is outstanding.
fn deviation_from_littles_law(_: &SimulationLab, _: &Drive, work: &Work, outcome: &Outcome) -> f64 {
    let off = outcome.iops() * mean_ns(outcome) / 1e9 / f64::from(work.depth * work.threads) - 1.0;
    // With several threads, some finish early and then have no requests in flight.
    if work.threads == 1 {
        off.abs() - 4.0 * first_and_last_request_share(work, outcome)
    } else {
        off - 4.0 * first_and_last_request_share(work, outcome)
    }
}

/// Share of the requests that meet fewer others than later ones do, as they are the first or the last.
fn first_and_last_request_share(work: &Work, outcome: &Outcome) -> f64 {
    f64::from(work.depth * work.threads) / outcome.ios() as f64
}

fn mean_ns(outcome: &Outcome) -> f64 {
    mean_of(outcome, |direction| direction.total.mean_ns())
}

/// Mean time from the issue: a thread that has thought is switched to before.
fn mean_service_ns(outcome: &Outcome) -> f64 {
    mean_of(outcome, |direction| direction.submission.mean_ns() + direction.completion.mean_ns())
}

fn mean_of(outcome: &Outcome, figure: impl Fn(&DirectionOutcome) -> f64) -> f64 {
    let directions = outcome.jobs.iter().flat_map(|job| job.directions());
    let sums = directions.map(|(_, direction)| (direction.ios as f64, figure(direction)));
    let (ios, ns) = sums.fold((0.0, 0.0), |(ios, ns), (count, mean)| (ios + count, ns + count * mean));
    ns / ios
}

/// Whether the last of these drives is slower than the best of those before.
fn slower_than_predecessors(
    lab: &SimulationLab,
    case: &Case,
    drives: &[(Vec<String>, Drive)],
    outcomes: &[Outcome],
) -> Option<Finding> {
    let (last, before) = outcomes.split_last()?;
    let best = (0..before.len()).max_by(|&left, &right| before[left].iops().total_cmp(&before[right].iops()))?;
    if throughput_loss_share(&before[best], last) <= NOISE {
        return None;
    }
    let [slow, fast] = [&drives[best], &drives[before.len()]];
    let by = lasting(NOISE_OF_LONG, |scale| {
        throughput_loss_share(&run(lab, &slow.1, &case.work, scale), &run(lab, &fast.1, &case.work, scale))
    })?;
    let what = format!("from [{}] to [{}]", slow.0.concat(), fast.0.concat());
    Some(Finding::new(FASTER, case, &what, by))
}

fn throughput_loss_share(slow: &Outcome, fast: &Outcome) -> f64 {
    1.0 - fast.iops() / slow.iops()
}

/// Whether requests that come one after the other with pauses take longer than without.
fn idle(lab: &SimulationLab, case: &Case, drive: &Drive) -> Option<Finding> {
    let busy = Work { depth: 1, threads: 1, ..case.work };
    let idle = Work { think: "1ms", ..busy };
    (busy.jobs(drive, 1).is_ok() && idle.jobs(drive, 1).is_ok()).then_some(())?;
    let served = |work, scale| mean_service_ns(&run(lab, drive, work, scale));
    let longer = |scale| served(&idle, scale) / served(&busy, scale) - 1.0;
    if longer(1) <= NOISE_OF_IDLE {
        return None;
    }
    lasting(NOISE_OF_IDLE, longer).map(|by| Finding::new(IDLE, case, "", by))
}

/// Settings with which memory alone limits every interface of the set, the job, and by which share throughput may differ.
/// Where requests meet at several banks by chance, it depends on how many of them an interface keeps there. Early
/// acknowledgements count writes that are still to be programmed. Loads come in groups of lines, as many as a core has fill
/// buffers, and a group that finds another request's row open closes it.
const MEMORY_LIMITS: &[(&str, &[&str], f64)] = &[
    ("randwrite", &[], 0.1),
    ("randwrite", &["media.stripe_bytes=512", "media.program_bytes=512"], 0.1),
    ("randwrite", &["media.banks_per_channel=1"], 0.02),
    ("randwrite", &["media.banks_per_channel=1", "media.acknowledge=early"], 0.06),
    ("randread", &["media.banks_per_channel=1", "media.bus_bytes_per_ns=0.05"], 0.02),
    ("randread", &["media.banks_per_channel=1", "media.read_ns=50000"], 0.05),
];

/// What memory limits is alike for all interfaces: throughput, and what predictions say that each request costs it. The
/// first settings with which it is not, and how it is then.
pub(super) fn unequal_memory_limits(lab: &SimulationLab, drives: &[&'static str]) -> Vec<String> {
    let unequal = MEMORY_LIMITS.iter().map(|(rw, set, share)| unequal_interface_rates(lab, drives, (rw, set, *share)));
    unequal.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn unequal_interface_rates(
    lab: &SimulationLab,
    drives: &[&'static str],
    (rw, set, share): (&'static str, &[&str], f64),
) -> Vec<String> {
    let lone = Work { rw, ..Work::READS };
    let work = Work { depth: 32, ..lone };
    let set: Vec<String> = set.iter().copied().map(String::from).collect();
    let served = |name| {
        let drive = cases::describe(name, set.iter()).unwrap_or_else(|problems| panic!("{problems}"));
        let jobs = work.jobs(&drive, 1).unwrap_or_else(|problems| panic!("{problems}"));
        let mut demands = (lab.predict)(&drive, &jobs).demands;
        demands.retain(|demand| demand.resource.starts_with("media"));
        let too_fast = shortfall_below_least_latency(lab, &drive, &lone, &run(lab, &drive, &lone, 1)) > DOUBT;
        (name, (lab.simulate)(&drive, &jobs).iops(), demands, too_fast)
    };
    let all: Vec<_> = drives.iter().copied().map(served).collect();
    let (_, iops, demands, _) = all.first().expect("there are interfaces");
    let unequal = all.iter().filter(|other| (other.1 / iops - 1.0).abs() > share || other.2 != *demands || other.3);
    unequal.map(|(name, other, ..)| format!("{rw} {set:?}: {name} {other:.0} beside {iops:.0} IOPS")).collect()
}
