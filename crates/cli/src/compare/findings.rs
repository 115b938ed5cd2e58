//! What stands out in a comparison, said in words. Every figure is computed from the results.

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Stage;
use phaselink_core::report::units;
use phaselink_core::time::Span;

use super::causes::savings_ns;
use super::{Cell, Group};
use crate::describe;

/// Latencies less apart than this are called equal.
const RATIO_MIN: f64 = 1.02;
/// Causes of a difference that are named, and the least share of it that a named one has.
const CAUSES_MAX: usize = 3;
const CAUSE_SHARE_MIN: f64 = 0.05;
/// From here on a link or a core counts as full.
const FULL: f64 = 0.95;

/// A drive with its cell in a group.
type Entry<'a> = (&'a Drive, &'a Cell);

/// At most three findings: who answers soonest and why, what each step to there brings, and who does most.
pub fn findings(drives: &[Drive], groups: &[Group]) -> Vec<String> {
    let shallow = groups.iter().min_by_key(|group| (group.iodepth, std::cmp::Reverse(group.bytes)));
    let deep = groups.iter().max_by_key(|group| (group.iodepth, group.bytes));
    let (Some(shallow), Some(deep)) = (shallow, deep) else { return Vec::new() };
    let ranking = by_latency(drives, shallow);
    // At one depth the rate says no more than the latency.
    let most = (deep.iodepth > shallow.iodepth).then(|| most(drives, deep)).flatten();
    [soonest(shallow, &ranking), step_by_step(&ranking), most].into_iter().flatten().collect()
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
    cell.figures.total.mean_ns()
}

fn place(group: &Group) -> String {
    format!("{} and depth {}", describe::size(group.bytes.into()), group.iodepth)
}

/// A time that no line break may cut.
fn time(ns: f64) -> String {
    units::span(Span::from_ns_f64(ns)).replace(' ', describe::UNBROKEN)
}

fn soonest(group: &Group, ranking: &[Entry]) -> Option<String> {
    let [(slow, slow_cell), .., (fast, fast_cell)] = ranking else { return None };
    let ratio = mean_ns(slow_cell) / mean_ns(fast_cell).max(f64::MIN_POSITIVE);
    if ratio < RATIO_MIN {
        return Some(format!(
            "At {} all drives answer within {:.0} % of each other.",
            place(group),
            100.0 * (ratio - 1.0)
        ));
    }
    Some(format!(
        "At {}, {} answers {ratio:.1} times sooner than {}, after {} instead of {}. {}.",
        place(group),
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
    let savings = savings_ns(&slow.figures, &fast.figures);
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
        let (name, _) = *savings_ns(&slow.figures, &fast.figures).first()?;
        Some(match gap_ns > (RATIO_MIN - 1.0) * mean_ns(slow) {
            true => format!("{} saves {} ({name})", drive.name, time(gap_ns)),
            false => format!("{} takes about as long", drive.name),
        })
    };
    let steps: Vec<String> = ranking.windows(2).filter_map(step).collect();
    Some(format!("Step by step from {}: {}.", ranking[0].0.name, describe::listed(&steps)))
}

/// Who serves most requests, and what keeps it and the last from more.
fn most(drives: &[Drive], group: &Group) -> Option<String> {
    let mut ranking: Vec<Entry> = entries(drives, group);
    ranking.sort_by(|left, right| left.1.outcome.iops().total_cmp(&right.1.outcome.iops()));
    let [(least, least_cell), .., (most, most_cell)] = ranking.as_slice() else { return None };
    Some(format!(
        "At {}, {} serves most, {} IOPS, {}; {} serves {}, {}.",
        place(group),
        most.name,
        count(most_cell),
        limit(most_cell),
        least.name,
        count(least_cell),
        limit(least_cell),
    ))
}

fn count(cell: &Cell) -> String {
    units::count(cell.outcome.iops()).replace(' ', describe::UNBROKEN)
}

/// What is full, judged by its use. The jobs have one thread, and so one core.
fn limit(cell: &Cell) -> String {
    let cpu = &cell.outcome.cpu;
    let core = (cpu.working + cpu.switching).as_ns() / cell.outcome.elapsed.as_ns().max(1.0);
    match (cell.link_busy(), core) {
        (link, _) if link >= FULL => format!("limited by the link ({:.0} % busy)", 100.0 * link),
        (_, core) if core >= FULL => format!("limited by its core ({:.0} % busy)", 100.0 * core),
        (link, _) if waits_for_fill_buffers(cell) => {
            format!("limited by the fill buffers of its core (link {:.0} % busy)", 100.0 * link)
        }
        (link, core) => format!("with the link {:.0} % and its core {:.0} % busy", 100.0 * link, 100.0 * core),
    }
}

/// Whether lines wait for a fill buffer for most of their time.
fn waits_for_fill_buffers(cell: &Cell) -> bool {
    cell.figures.stages.get(Stage::FillBuffer) > cell.figures.stages.total() / 2
}
