//! Findings of a comparison: which drive is faster and why. Every number is computed from the results.

use std::cmp::Reverse;

use super::causes::{means_ns, savings_ns};
use super::judged::AwaitedLatency;
use super::network::network;
use super::waits::Wait;
use super::{Cell, ComparedGroup, EqualLoadGroup, LineLabel, NamedJobSizes, named};
use crate::evidence;
use crate::results::documents::{ResourceUse, value};
use crate::results::units;
use crate::results::words::{UNBROKEN, listed};
use crate::results::{Evidence, Finding, FindingKind, FindingPart, FindingUnit};
use phaselink_core::config::Technology;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::ledger::stage::CauseOfLatency;
use phaselink_core::time::Span;
use phaselink_core::workload::Job;
use serde_json::Value;

/// Ratio of latencies below which two drives count as equally fast.
const RATIO_MIN: f64 = 1.02;
/// Ratio of rates below which two drives count as having the same rate.
const EQUAL_MAX: f64 = 1.005;
/// Largest number of causes that a finding names.
const CAUSES_MAX: usize = 3;
/// Smallest share of the latency difference between two drives at which a finding names a cause.
const CAUSE_SHARE_MIN: f64 = 0.05;
/// Smallest share of the latency difference between two drives at which a finding names a cause on which the faster
/// drive spends more time.
const RETURN_SHARE_MIN: f64 = 0.01;
/// Smallest share of a difference that a cause must make up to be named as the whole of it.
const WHOLE_CAUSE_MIN: f64 = 0.9;
/// Smallest utilisation of a resource that is said to limit a drive. Requests may also wait for a less busy one, for
/// instance if they come in bursts.
const BUSY_MIN: f64 = 0.85;
/// Words for the limit of a drive of which no resource is saturated.
const LATENCY: &str = "too few requests in flight";

/// Drive with its result under the jobs of a group.
type Entry<'a> = (&'a Drive, &'a Cell);

/// Returns the findings of a comparison: drives whose queues are too short, the drive with the lowest latency and its
/// reasons, the steps between drives, the highest rate under load, the limit of each drive, and latencies at equal load.
pub fn findings(drives: &[Drive], groups: &[ComparedGroup], loaded: &[EqualLoadGroup]) -> Vec<Finding> {
    let named = named(groups);
    let mut findings: Vec<Finding> = short_queue_findings(drives, groups);
    let lightest = groups.iter().min_by_key(|group| (group.label.outstanding(), Reverse(group.label.bytes)));
    let judged = AwaitedLatency::of(groups);
    findings.extend(judged.contains(&AwaitedLatency::Commits).then(|| volatile_memory_finding(drives)).flatten());
    if let Some(group) = lightest {
        let rankings: Vec<DriveRanking> =
            judged.iter().map(|judged| DriveRanking::new(*judged, drives, group)).collect();
        findings.extend(rankings.iter().filter_map(|ranking| fastest_drive_finding(group, ranking, named)));
        findings.extend(rankings.iter().filter_map(|ranking| latency(group, ranking, named)));
        findings.extend(rankings.first().and_then(|ranking| stepwise_savings_finding(group, ranking)));
    }
    for group in most_loaded_groups(groups) {
        findings.extend(throughput_finding(drives, group, named));
        findings.extend(limit(drives, group, named));
    }
    findings.extend(network(drives, groups, named));
    for loaded in loaded {
        findings.extend(judged.iter().filter_map(|judged| equal_load_finding(drives, loaded, *judged, named)));
    }
    findings
}

/// Conclusion of a run of one drive, for its report.
#[derive(Clone, Debug)]
pub struct RunConclusionText {
    /// Findings on latency and rate of the requests, and on the resource that limits the drive.
    pub findings: Vec<Finding>,
    /// Utilisation of each resource, by descending utilisation.
    pub usage: Vec<ResourceUse>,
    /// Measurements behind the drive, its software stack and its host.
    pub evidence: Vec<Evidence>,
}

impl RunConclusionText {
    /// Adds the conclusion to the JSON document of the run.
    pub fn add_to(&self, document: &mut Value) {
        document["phaselink"]["findings"] = value(&self.findings);
        document["phaselink"]["usage"] = value(&self.usage);
        document["phaselink"]["evidence"] = value(&self.evidence);
    }
}

/// Returns the conclusion of a run of one drive under these jobs, from its outcome.
pub fn conclude_run(drive: &Drive, jobs: &[Job], outcome: Outcome) -> RunConclusionText {
    let mut group = ComparedGroup { label: LineLabel::of(jobs), cells: vec![Some(Cell::new(drive, jobs, outcome))] };
    let groups = std::slice::from_ref(&group);
    let (result, limit) = (result(drive, groups), limit(std::slice::from_ref(drive), &group, named(groups)));
    let findings = result.into_iter().chain(limit).collect();
    let usage = group.cells.pop().flatten().map_or_else(Vec::new, |cell| cell.usage);
    RunConclusionText { findings, usage, evidence: evidence::of_drives([drive]) }
}

/// Returns the finding about the latency of the requests of a drive and their number per second.
fn result(drive: &Drive, groups: &[ComparedGroup]) -> Option<Finding> {
    let group = groups.first()?;
    let cell = group.cells.first()?.as_ref()?;
    let times = AwaitedLatency::of(groups).iter().map(|judged| {
        let p99 = judged.requests(cell).total.estimate(99.0);
        let p99 = p99.map_or(String::new(), |known| format!(", p99 {}", time(known.value.as_ns())));
        format!("{} take {} on average{p99}", judged.name(&group.label), time(judged.mean_ns(cell)))
    });
    let times = listed(&times.collect::<Vec<_>>());
    let iops = cell.outcome.iops();
    (cell.all.ios > 0).then(|| Finding {
        kind: FindingKind::Result,
        at: Some(group.label.place()),
        parts: vec![FindingPart::new(&[&drive.name], None, Some((iops, FindingUnit::PerS)))],
        sentence: format!("On {}, {times}, at {} IOPS.", drive.title(), units::count(iops).replace(' ', UNBROKEN)),
    })
}

/// Returns the finding about the resource that limits each drive of a group.
fn limit(drives: &[Drive], group: &ComparedGroup, named: NamedJobSizes) -> Option<Finding> {
    let mut limits: Vec<SharedLimit> = Vec::new();
    for (drive, cell) in entries(drives, group) {
        let resource = cell.limit();
        let is_awaited = resource.is_some_and(|resource| is_awaited(resource, cell));
        match limits.iter_mut().find(|known| (known.resource, known.is_awaited) == (resource, is_awaited)) {
            Some(known) => known.drives.push(&drive.name),
            None => limits.push(SharedLimit { resource, is_awaited, drives: vec![&drive.name] }),
        }
    }
    let told: Vec<String> = limits.iter().map(SharedLimit::text).collect();
    let place = named.place(&group.label);
    (!limits.is_empty()).then(|| Finding {
        kind: FindingKind::Limit,
        at: Some(group.label.place()),
        parts: limits.iter().map(|limit| FindingPart::new(&limit.drives, limit.resource, None)).collect(),
        sentence: match &entries(drives, group)[..] {
            [(drive, cell)] => format!("At {place}, {}", limit_sentence(drive, cell, group)),
            _ => format!("What limits each at {place}: {}.", told.join("; ")),
        },
    })
}

/// True if requests wait for the resource that limits a drive, although it is not busy enough to be called its limit.
fn is_awaited(resource: &str, cell: &Cell) -> bool {
    cell.usage.iter().find(|used| used.resource == resource).is_none_or(|used| used.share < BUSY_MIN)
}

/// Drives that the same resource limits.
struct SharedLimit<'a> {
    /// Name of the resource; `None` if no resource of the drives is saturated.
    resource: Option<&'a str>,
    /// True if requests wait for the resource although it is not saturated.
    is_awaited: bool,
    drives: Vec<&'a str>,
}

impl SharedLimit<'_> {
    /// Returns the limit with its drives as text: `wire to host (a and b)`.
    fn text(&self) -> String {
        let names: Vec<String> = self.drives.iter().map(|name| String::from(*name)).collect();
        let words = if self.is_awaited { "waits for " } else { "" };
        format!("{words}{} ({})", self.resource.unwrap_or(LATENCY), listed(&names))
    }
}

/// Returns the end of the sentence about the resource that limits a drive: `nvme is limited by its cores, 98 % busy.`
fn limit_sentence(drive: &Drive, cell: &Cell, group: &ComparedGroup) -> String {
    let busy = |used: &ResourceUse| format!("{:.0}{UNBROKEN}%{UNBROKEN}busy", 100.0 * used.share);
    if let Some(resource) = cell.limit() {
        let used = cell.usage.iter().find(|used| used.resource == resource);
        return match used {
            Some(used) if is_awaited(resource, cell) => {
                format!("requests of {} wait for its {resource}, {} on average.", drive.name, busy(used))
            }
            Some(used) => format!("{} is limited by its {resource}, {}.", drive.name, busy(used)),
            None => format!("{} is limited by its {resource}, for which requests wait.", drive.name),
        };
    }
    let busiest = cell.usage.first();
    let busiest = busiest.map_or_else(String::new, |used| {
        format!(" (busiest: {}, {:.0}{UNBROKEN}%)", used.resource, 100.0 * used.share)
    });
    // If a job reads and writes, judge it by its reads, because applications wait for these.
    let judged = if cell.reads.ios > 0 && cell.writes.ios > 0 { AwaitedLatency::Reads } else { AwaitedLatency::All };
    let requests = judged.requests(cell);
    let longest = means_ns(requests).into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
    let share = longest.filter(|(_, ns)| *ns > 0.0).map_or_else(String::new, |(cause, ns)| {
        let (percent, latency) = (100.0 * ns / requests.total.mean_ns(), judged.latency(&group.label));
        let wait = wait(cause, judged, cell);
        let (name, verb) = wait.map_or_else(|| (String::from(cause.name()), "takes"), |wait| (wait.text(), "take"));
        format!(" {} {verb} {percent:.0}{UNBROKEN}% of the {latency}.", with_large_initial(&name))
    });
    format!("no part of {} is saturated{busiest}: latency limits the rate.{share}", drive.name)
}

/// Returns the resource for which requests of a result wait longest, if the cause of their time is queueing.
fn wait(cause: CauseOfLatency, judged: AwaitedLatency, cell: &Cell) -> Option<Wait> {
    (cause == CauseOfLatency::Queueing).then(|| Wait::longest(cell, judged.requests(cell))).flatten()
}

/// Returns a cause of latency as text, with what requests of a result wait for and why.
fn cause_sentence(cause: CauseOfLatency, judged: AwaitedLatency, cell: &Cell) -> String {
    wait(cause, judged, cell).map_or_else(|| String::from(cause.name()), |wait| wait.text())
}

/// Returns a text with its first letter in upper case.
fn with_large_initial(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a finding for each drive whose queues are too short for the jobs of some group.
fn short_queue_findings(drives: &[Drive], groups: &[ComparedGroup]) -> Vec<Finding> {
    let lacking =
        drives.iter().enumerate().filter(|(place, _)| groups.iter().any(|group| group.cells[*place].is_none()));
    let finding = |(_, drive): (usize, &Drive)| {
        let slots = drive.limits().queue_capacity();
        Finding {
            kind: FindingKind::ShortQueues,
            at: None,
            parts: vec![FindingPart::new(&[&drive.name], None, Some((f64::from(slots), FindingUnit::Requests)))],
            sentence: format!(
                "{}: its queues hold {slots} requests, so that lines with more in flight are empty.",
                drive.name
            ),
        }
    };
    lacking.map(finding).collect()
}

/// Returns the finding about drives that are left out of the order of commits, because their memory loses its content
/// without power; none if there is no such drive.
fn volatile_memory_finding(drives: &[Drive]) -> Option<Finding> {
    let names: Vec<&str> =
        drives.iter().filter(|drive| is_volatile_memory(drive)).map(|drive| drive.name.as_str()).collect();
    let told = listed(&names.iter().map(|name| String::from(*name)).collect::<Vec<_>>());
    let verbs = if names.len() == 1 { ("is", "it is") } else { ("are", "they are") };
    (!names.is_empty()).then(|| Finding {
        kind: FindingKind::Volatile,
        at: None,
        parts: vec![FindingPart::new(&names, None, None)],
        sentence: format!(
            "{told} {} DRAM, which loses with the power what it holds unless a battery keeps it: {} left out of the order of commits.",
            verbs.0, verbs.1
        ),
    })
}

/// True if the memory of a drive loses its content without power.
fn is_volatile_memory(drive: &Drive) -> bool {
    drive.media.technology == Technology::Dram
}

/// Returns the groups with the most requests in flight, one for each block size. None are returned if all groups have
/// equally many: their rates would then say no more than their latencies.
fn most_loaded_groups(groups: &[ComparedGroup]) -> impl Iterator<Item = &ComparedGroup> {
    let most = groups.iter().map(|group| group.label.outstanding()).max().unwrap_or(0);
    let is_only = groups.iter().all(|group| group.label.outstanding() == most);
    groups.iter().filter(move |group| !is_only && group.label.outstanding() == most)
}

/// Returns the drives that have a result in a group, each with its result.
fn entries<'a>(drives: &'a [Drive], group: &'a ComparedGroup) -> Vec<Entry<'a>> {
    drives.iter().zip(&group.cells).filter_map(|(drive, cell)| Some((drive, cell.as_ref()?))).collect()
}

/// Drives ordered by mean latency, the slowest first.
struct DriveRanking<'a> {
    judged: AwaitedLatency,
    entries: Vec<Entry<'a>>,
}

impl<'a> DriveRanking<'a> {
    fn new(judged: AwaitedLatency, drives: &'a [Drive], group: &'a ComparedGroup) -> DriveRanking<'a> {
        let mut entries = entries(drives, group);
        entries.retain(|(drive, _)| judged != AwaitedLatency::Commits || !is_volatile_memory(drive));
        entries.sort_by(|left, right| judged.mean_ns(right.1).total_cmp(&judged.mean_ns(left.1)));
        DriveRanking { judged, entries }
    }

    /// Returns the time that a request saves on the drive of `fast` compared with that of `slow`, by cause in ns, the
    /// largest saving first.
    fn savings_ns(&self, slow: &Cell, fast: &Cell) -> Vec<(CauseOfLatency, f64)> {
        savings_ns(self.judged.requests(slow), self.judged.requests(fast))
    }
}

/// Returns the finding that compares the fastest drive with the next one and with the slowest.
fn fastest_drive_finding(group: &ComparedGroup, ranking: &DriveRanking, named: NamedJobSizes) -> Option<Finding> {
    let [.., (next, next_cell), (fast, fast_cell)] = ranking.entries.as_slice() else { return None };
    let mean_ns = |cell| ranking.judged.mean_ns(cell);
    let (next_ns, fast_ns) = (mean_ns(next_cell), mean_ns(fast_cell));
    let ratio = |ns: f64| ns / fast_ns.max(f64::MIN_POSITIVE);
    let (place, latency) = (named.place(&group.label), ranking.judged.latency(&group.label));
    let cause = ranking.savings_ns(next_cell, fast_cell).into_iter().next().filter(|(_, saved_ns)| *saved_ns > 0.0);
    let gap_ns = next_ns - fast_ns;
    // One cause may save more than the whole difference, if others cost time.
    let why = cause.map_or(String::new(), |(cause, ns)| {
        let cause = cause_sentence(cause, ranking.judged, next_cell);
        match ns < gap_ns {
            true => format!("; of the {} more, {} are {cause}", time(gap_ns), time(ns)),
            false => format!("; the {} more are {cause}", time(gap_ns)),
        }
    });
    let slowest = ranking.entries.first().filter(|(slow, _)| slow.name != next.name);
    let slowest = slowest.map_or(String::new(), |(slow, cell)| {
        format!(
            " {}, the slowest, takes {} times as long ({}).",
            slow.name,
            times(ratio(mean_ns(cell))),
            time(mean_ns(cell))
        )
    });
    let part = FindingPart::new(&[&fast.name, &next.name], None, Some((gap_ns, FindingUnit::Ns)));
    Some(Finding {
        kind: FindingKind::Fastest,
        at: Some(group.label.place()),
        parts: vec![part],
        sentence: match ratio(next_ns) < RATIO_MIN {
            true => format!(
                "At {place}, {} and {} have the lowest {latency}: {} on average.{slowest}",
                fast.name,
                next.name,
                time(fast_ns)
            ),
            false => format!(
                "At {place}, {} has the lowest {latency}: {} on average. {} comes next: {}, {} times as long{why}.{slowest}",
                fast.name,
                time(fast_ns),
                next.name,
                time(next_ns),
                times(ratio(next_ns)),
            ),
        },
    })
}

/// Formats a ratio with one decimal, or as a whole number from a hundred on.
fn times(ratio: f64) -> String {
    if ratio < 99.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// Formats a time in a suitable unit, with a space that no line break divides.
fn time(ns: f64) -> String {
    units::span(Span::from_ns_f64(ns)).replace(' ', UNBROKEN)
}

/// Returns the finding that compares the fastest drive with the slowest, by cause.
fn latency(group: &ComparedGroup, ranking: &DriveRanking, named: NamedJobSizes) -> Option<Finding> {
    let [(slow, slow_cell), .., (fast, fast_cell)] = ranking.entries.as_slice() else { return None };
    let (slow_ns, fast_ns) = (ranking.judged.mean_ns(slow_cell), ranking.judged.mean_ns(fast_cell));
    let (ratio, place) = (slow_ns / fast_ns.max(f64::MIN_POSITIVE), named.place(&group.label));
    let savings = ranking.savings_ns(slow_cell, fast_cell);
    let saved = |cause, ns| FindingPart::new(&[&fast.name, &slow.name], cause, Some((ns, FindingUnit::Ns)));
    let by_cause = savings.iter().filter(|(_, ns)| *ns != 0.0).map(|(cause, ns)| {
        let longer = if *ns > 0.0 { slow_cell } else { fast_cell };
        let awaited = wait(*cause, ranking.judged, longer).map(|wait| wait.resource);
        saved(Some(cause.name()), *ns).waiting_for_resource(awaited)
    });
    Some(Finding {
        kind: FindingKind::Latency,
        at: Some(group.label.place()),
        parts: [saved(None, slow_ns - fast_ns)].into_iter().chain(by_cause).collect(),
        sentence: match ratio < RATIO_MIN {
            true => format!(
                "At {place} the {} of all drives is within {:.0} %.",
                ranking.judged.latency(&group.label),
                100.0 * (ratio - 1.0)
            ),
            false => format!(
                "At {place}, the {} is {} with {} and {} with {}, {} times as long. {} {}.",
                ranking.judged.latency(&group.label),
                time(fast_ns),
                fast.name,
                time(slow_ns),
                slow.name,
                times(ratio),
                fast.name,
                savings_phrase(&savings, slow_ns - fast_ns, |cause, ns| {
                    cause_sentence(cause, ranking.judged, if ns > 0.0 { slow_cell } else { fast_cell })
                }),
            ),
        },
    })
}

/// Returns the causes of a saving as text: `saves 5.76 us of interrupt and wake-up, …`. `text` names a cause by which
/// this many ns are saved.
fn savings_phrase(
    savings: &[(CauseOfLatency, f64)],
    gap_ns: f64,
    text: impl Fn(CauseOfLatency, f64) -> String,
) -> String {
    // The requests of one commit overlap, so their savings add up to more than the commit saves. Scale them down.
    let saved_ns: f64 = savings.iter().map(|(_, ns)| ns).sum();
    let overlap = if saved_ns > 0.0 { (gap_ns / saved_ns).min(1.0) } else { 1.0 };
    let savings: Vec<(CauseOfLatency, f64)> = savings.iter().map(|(cause, ns)| (*cause, ns * overlap)).collect();
    let large = savings.iter().take(CAUSES_MAX).filter(|(_, ns)| *ns > CAUSE_SHARE_MIN * gap_ns);
    let large: Vec<String> = large.map(|(cause, ns)| format!("{} of {}", time(*ns), text(*cause, *ns))).collect();
    let extra = savings.last().filter(|(_, ns)| -ns > RETURN_SHARE_MIN * gap_ns);
    let extra = extra
        .map_or(String::new(), |(cause, ns)| format!("; in return it spends {} on {}", time(-ns), text(*cause, *ns)));
    format!("saves {}{extra}", listed(&large))
}

/// Returns the finding about the time that each drive saves compared with the next slower one.
fn stepwise_savings_finding(group: &ComparedGroup, ranking: &DriveRanking) -> Option<Finding> {
    let [(slowest, _), _, _, ..] = ranking.entries.as_slice() else { return None };
    let mean_ns = |cell: &Cell| ranking.judged.mean_ns(cell);
    let step = |pair: &[Entry]| {
        let [(before, slow), (drive, fast)] = pair else { return None };
        let gap_ns = mean_ns(slow) - mean_ns(fast);
        let (cause, saved_ns) = *ranking.savings_ns(slow, fast).first()?;
        let mostly = if saved_ns < WHOLE_CAUSE_MIN * gap_ns { "mostly " } else { "" };
        let names = [drive.name.as_str(), before.name.as_str()];
        let wait = wait(cause, ranking.judged, slow);
        let told = wait.as_ref().map_or_else(|| String::from(cause.name()), Wait::name);
        let part = FindingPart::new(&names, Some(cause.name()), Some((gap_ns, FindingUnit::Ns)));
        let part = part.waiting_for_resource(wait.map(|wait| wait.resource));
        Some(match gap_ns > (RATIO_MIN - 1.0) * mean_ns(slow) {
            true => (part, format!("{} saves {} ({mostly}{told})", drive.name, time(gap_ns))),
            false => (part, format!("{} takes about as long", drive.name)),
        })
    };
    let (parts, told): (Vec<FindingPart>, Vec<String>) = ranking.entries.windows(2).filter_map(step).unzip();
    Some(Finding {
        kind: FindingKind::Steps,
        at: Some(group.label.place()),
        parts,
        sentence: format!("Step by step from {}: {}.", slowest.name, listed(&told)),
    })
}

/// Returns the finding that compares the latencies of the fastest and the slowest drive at the same offered load.
fn equal_load_finding(
    drives: &[Drive],
    loaded: &EqualLoadGroup,
    judged: AwaitedLatency,
    named: NamedJobSizes,
) -> Option<Finding> {
    let ranking = DriveRanking::new(judged, drives, &loaded.group);
    let [(slow, slow_cell), .., (fast, fast_cell)] = ranking.entries.as_slice() else { return None };
    let (slow_ns, fast_ns) = (judged.mean_ns(slow_cell), judged.mean_ns(fast_cell));
    let part = |drive: &Drive, ns| FindingPart::new(&[&drive.name], None, Some((ns, FindingUnit::Ns)));
    Some(Finding {
        kind: FindingKind::EqualLoad,
        at: Some(loaded.group.label.place()),
        parts: vec![part(fast, fast_ns), part(slow, slow_ns)],
        sentence: format!(
            "At {} and the same load of {} IOPS on each, the {} is {} with {} and {} with {}, {} times as long.",
            named.place(&loaded.group.label),
            units::count(loaded.offered_iops).replace(' ', UNBROKEN),
            judged.latency(&loaded.group.label),
            time(fast_ns),
            fast.name,
            time(slow_ns),
            slow.name,
            times(slow_ns / fast_ns.max(f64::MIN_POSITIVE)),
        ),
    })
}

/// Returns the finding about the drives with the highest and the lowest request rate.
fn throughput_finding(drives: &[Drive], group: &ComparedGroup, named: NamedJobSizes) -> Option<Finding> {
    let mut ranking = entries(drives, group);
    let iops = |cell: &Cell| cell.outcome.iops();
    ranking.sort_by(|left, right| iops(left.1).total_cmp(&iops(right.1)));
    let [(least, least_cell), .., (most, most_cell)] = ranking.as_slice() else { return None };
    let count = |cell: &Cell| units::count(iops(cell)).replace(' ', UNBROKEN);
    let part =
        |drive: &Drive, cell: &Cell| FindingPart::new(&[&drive.name], None, Some((iops(cell), FindingUnit::PerS)));
    Some(Finding {
        kind: FindingKind::Throughput,
        at: Some(group.label.place()),
        parts: vec![part(most, most_cell), part(least, least_cell)],
        sentence: match iops(most_cell) < iops(least_cell) * EQUAL_MAX {
            true => format!("At {}, all have the same rate, {} IOPS.", named.place(&group.label), count(most_cell)),
            false => format!(
                "At {}, {} has the highest rate, {} IOPS, and {} the lowest, {}.",
                named.place(&group.label),
                most.name,
                count(most_cell),
                least.name,
                count(least_cell),
            ),
        },
    })
}
