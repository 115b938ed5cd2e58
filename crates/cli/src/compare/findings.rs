//! What stands out in a comparison, said in words. Every figure is computed from the results.

use phaselink_core::drive::Drive;
use phaselink_core::predict::Usage;
use phaselink_core::report::units;
use phaselink_core::time::Span;

use super::causes::savings_ns;
use super::{Cell, Group, Named};
use crate::describe;

/// Latencies less apart than this are called equal.
const RATIO_MIN: f64 = 1.02;
/// Causes of a difference that are named, and the least share of it that a named one has.
const CAUSES_MAX: usize = 3;
const CAUSE_SHARE_MIN: f64 = 0.05;
/// What is said where nothing is full.
const LATENCY: &str = "nothing but latency";
/// Loaded groups of which limits are told.
const LOADED_MAX: usize = 2;

/// A drive with its cell in a group.
type Entry<'a> = (&'a Drive, &'a Cell);

/// Who answers soonest and why, what each step to there brings, and who does most under load and what keeps each from
/// more.
pub(super) fn findings(drives: &[Drive], groups: &[Group]) -> Vec<String> {
    let shallow = groups.iter().min_by_key(|group| (group.label.outstanding(), std::cmp::Reverse(group.label.bytes)));
    let Some(shallow) = shallow else { return Vec::new() };
    let ranking = by_latency(drives, shallow);
    let named = super::named(groups);
    let loaded = most_loaded(groups).into_iter();
    let loaded = loaded.flat_map(|group| [most(drives, group, named), limits(drives, group, named)]);
    [soonest(shallow, &ranking, named), step_by_step(&ranking)].into_iter().chain(loaded).flatten().collect()
}

/// The groups of each block size that have most under way. At one depth the rate says no more than the latency.
fn most_loaded(groups: &[Group]) -> Vec<&Group> {
    let outstanding = |group: &&Group| group.label.outstanding();
    let most = groups.iter().map(|group| outstanding(&group)).max().unwrap_or(0);
    let is_only = groups.iter().all(|group| outstanding(&group) == most);
    groups.iter().filter(|group| !is_only && outstanding(group) == most).take(LOADED_MAX).collect()
}

/// The drives that have a cell, with it.
fn entries<'a>(drives: &'a [Drive], group: &'a Group) -> Vec<Entry<'a>> {
    drives.iter().zip(&group.cells).filter_map(|(drive, cell)| Some((drive, cell.as_ref()?))).collect()
}

/// The drives with their cells, slowest first.
fn by_latency<'a>(drives: &'a [Drive], group: &'a Group) -> Vec<Entry<'a>> {
    let mut ranking: Vec<Entry> = entries(drives, group);
    ranking.sort_by(|left, right| mean_ns(right.1).total_cmp(&mean_ns(left.1)));
    ranking
}

fn mean_ns(cell: &Cell) -> f64 {
    cell.ran.all.total.mean_ns()
}

/// A time that no line break may cut.
fn time(ns: f64) -> String {
    units::span(Span::from_ns_f64(ns)).replace(' ', describe::UNBROKEN)
}

fn soonest(group: &Group, ranking: &[Entry], named: Named) -> Option<String> {
    let [(slow, slow_cell), .., (fast, fast_cell)] = ranking else { return None };
    let ratio = mean_ns(slow_cell) / mean_ns(fast_cell).max(f64::MIN_POSITIVE);
    if ratio < RATIO_MIN {
        return Some(format!(
            "At {} all drives answer within {:.0} % of each other.",
            named.place(&group.label),
            100.0 * (ratio - 1.0)
        ));
    }
    Some(format!(
        "At {}, {} answers {ratio:.1} times sooner than {}, after {} instead of {}. {}.",
        named.place(&group.label),
        fast.name,
        slow.name,
        time(mean_ns(fast_cell)),
        time(mean_ns(slow_cell)),
        causes(slow_cell, fast_cell),
    ))
}

/// `It saves 5.76 us of interrupt and wake-up, …`
fn causes(slow: &Cell, fast: &Cell) -> String {
    let gap_ns = mean_ns(slow) - mean_ns(fast);
    let savings = savings_ns(&slow.ran.all, &fast.ran.all);
    let named: Vec<String> = savings
        .iter()
        .take(CAUSES_MAX)
        .filter(|(_, ns)| *ns > CAUSE_SHARE_MIN * gap_ns)
        .map(|(name, ns)| format!("{} of {name}", time(*ns)))
        .collect();
    let extra = savings.last().filter(|(_, ns)| -ns > 0.01 * gap_ns);
    let extra = extra.map_or(String::new(), |(name, ns)| format!("; in return it spends {} on {name}", time(-ns)));
    format!("It saves {}{extra}", describe::listed(&named))
}

/// How each drive improves on the one before it.
fn step_by_step(ranking: &[Entry]) -> Option<String> {
    if ranking.len() < 3 {
        return None;
    }
    let step = |pair: &[Entry]| {
        let [(_, slow), (drive, fast)] = pair else { return None };
        let gap_ns = mean_ns(slow) - mean_ns(fast);
        let (name, _) = *savings_ns(&slow.ran.all, &fast.ran.all).first()?;
        Some(match gap_ns > (RATIO_MIN - 1.0) * mean_ns(slow) {
            true => format!("{} saves {} ({name})", drive.name, time(gap_ns)),
            false => format!("{} takes about as long", drive.name),
        })
    };
    let steps: Vec<String> = ranking.windows(2).filter_map(step).collect();
    Some(format!("Step by step from {}: {}.", ranking[0].0.name, describe::listed(&steps)))
}

/// Who serves most requests, and who fewest.
fn most(drives: &[Drive], group: &Group, named: Named) -> Option<String> {
    let mut ranking: Vec<Entry> = entries(drives, group);
    ranking.sort_by(|left, right| left.1.ran.outcome.iops().total_cmp(&right.1.ran.outcome.iops()));
    let [(least, least_cell), .., (most, most_cell)] = ranking.as_slice() else { return None };
    Some(format!(
        "At {}, {} serves most, {} IOPS, and {} least, {}.",
        named.place(&group.label),
        most.name,
        count(most_cell),
        least.name,
        count(least_cell),
    ))
}

fn count(cell: &Cell) -> String {
    units::count(cell.ran.outcome.iops()).replace(' ', describe::UNBROKEN)
}

/// What keeps each drive from more: `wire to host for nvme and capi`.
fn limits(drives: &[Drive], group: &Group, named: Named) -> Option<String> {
    let mut limits: Vec<(&str, Vec<String>)> = Vec::new();
    for (drive, cell) in entries(drives, group) {
        let resource = cell.ran.limit().unwrap_or(LATENCY);
        match limits.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, names)) => names.push(drive.name.clone()),
            None => limits.push((resource, vec![drive.name.clone()])),
        }
    }
    let limits: Vec<String> =
        limits.iter().map(|(resource, names)| format!("{resource} for {}", describe::listed(names))).collect();
    (!limits.is_empty()).then(|| format!("What limits each at {}: {}.", named.place(&group.label), limits.join("; ")))
}

/// `98 % cores`
pub(super) fn used(used: &Usage) -> String {
    format!("{:3.0} % {}", 100.0 * used.share, used.resource)
}
