//! Findings of a sweep in words: the best and the worst point of each column, and the axes with the largest effect on
//! it.

use std::collections::BTreeMap;

use super::Plan;
use super::text::FinishedPoint;
use crate::predict::predict;
use crate::results::words::{UNBROKEN, listed};
use crate::results::{Figure, Unit, units};
use phaselink_core::drive::Drive;
use phaselink_core::number::real_length;
use phaselink_core::workload::Job;

/// Ratio of largest to smallest value of a column below which all its values count as equal.
const RATIO_MIN: f64 = 1.005;
/// Ratio to the largest value of a column below which another point counts as close to the best.
const CLOSE: f64 = 1.02;
/// Difference in per cent that [`CLOSE`] allows.
const CLOSE_PERCENT: u32 = 2;
/// Largest number of axes that one sentence of a sweep's findings names.
const AXES_MAX: usize = 3;
/// Smallest share of a resource's bound at which it is said to limit the rate.
const SATURATED_MIN: f64 = 0.85;

/// Findings of a sweep as sentences: best and worst points, and axes with the largest effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepFindings {
    /// Sentences about the first column of the plan, which is the question of the sweep.
    pub conclusion: Vec<String>,
    /// Number of the point with the best value of the first column; `None` if all its values are equal.
    pub best: Option<usize>,
    /// Sentences about the other columns of the plan, joined to one text for each.
    pub others: Vec<String>,
}

/// Returns the findings of a sweep's results. Columns with fewer than two known values have none.
pub fn findings(plan: &Plan, rows: &[FinishedPoint]) -> SweepFindings {
    let values_of = |column: &Figure| -> Vec<PointValue> {
        rows.iter().filter_map(|row| Some((row.point, row.figures.get(column)?))).collect()
    };
    let mut columns = plan.columns().iter().filter_map(|column| {
        let values = values_of(column);
        (values.len() > 1).then(|| column_finding_sentences(plan, column, &values))
    });
    SweepFindings {
        conclusion: columns.next().unwrap_or_default(),
        best: plan.columns().first().and_then(|column| best(column, &values_of(column))),
        others: columns.map(|told| told.join(" ")).collect(),
    }
}

/// Number of a sweep's point, and its value of one figure, such as p99 latency.
type PointValue = (usize, f64);

/// Returns the point with the best value of a column: the lowest of times and energies, else the highest. `None` if all
/// values are equal.
fn best(column: &Figure, values: &[PointValue]) -> Option<usize> {
    let by_value = |left: &&PointValue, right: &&PointValue| left.1.total_cmp(&right.1);
    let (least, most) = (values.iter().min_by(by_value)?, values.iter().max_by(by_value)?);
    let best = if is_lower_better(column) { least } else { most };
    (most.1 > least.1 * RATIO_MIN).then_some(best.0)
}

/// True for times and energies, of which the lowest value is the best one.
fn is_lower_better(column: &Figure) -> bool {
    matches!(column.unit, Unit::Ns | Unit::J | Unit::W)
}

/// Returns a sentence about the resource that limits requests of a drive with this throughput, by its closed form.
pub fn bottleneck_sentence(drive: &Drive, jobs: &[Job], iops: f64) -> Option<String> {
    let prediction = predict(drive, jobs);
    let [job] = &prediction.jobs[..] else { return None };
    let demand = job.bottleneck();
    let share = iops / demand.saturation_iops();
    let percent = format!("{:.0}{UNBROKEN}%", 100.0 * share);
    Some(match share < SATURATED_MIN {
        true => format!("At the best point no part is saturated; the busiest is {} ({percent}).", demand.resource),
        false => format!("At the best point the limit is {} ({percent} busy).", demand.resource),
    })
}

fn column_finding_sentences(plan: &Plan, column: &Figure, values: &[PointValue]) -> Vec<String> {
    let by_value = |left: &&PointValue, right: &&PointValue| left.1.total_cmp(&right.1);
    let (Some(least), Some(most)) = (values.iter().min_by(by_value), values.iter().max_by(by_value)) else {
        return Vec::new();
    };
    let shown = |value: f64| units::figure(column.unit, Some(value)).replace(' ', UNBROKEN);
    let is_equal = most.1 <= least.1 * RATIO_MIN || most.1 == least.1;
    if is_equal {
        return vec![format!("{}: {} at every point.", column.heading, shown(least.1))];
    }
    let ratio = if least.1 > 0.0 { format!(", {:.1} times the lowest", most.1 / least.1) } else { String::new() };
    let at = |valued: &PointValue, ratio: &str| format!("{} ({}{ratio})", place(plan, valued.0), shown(valued.1));
    let (lowest, highest) = (format!("lowest at {}", at(least, "")), format!("highest at {}", at(most, &ratio)));
    let range = match is_lower_better(column) {
        true => format!("{lowest}{}; {highest}", near_best_phrase(least, values)),
        false => format!("{highest}{}; {lowest}", near_best_phrase(most, values)),
    };
    [Some(format!("{}: {range}.", column.heading)), influence_sentence(plan, column, values)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns a text on the number of points whose value is close to that of the best point; empty if there are none.
fn near_best_phrase(best: &PointValue, values: &[PointValue]) -> String {
    let is_close = |value: f64| value.max(best.1) < value.min(best.1) * CLOSE;
    let count = values.iter().filter(|(point, value)| *point != best.0 && is_close(*value)).count();
    let points = if count == 1 { "one other point" } else { &format!("{count} other points") };
    if count == 0 { String::new() } else { format!(", and within {CLOSE_PERCENT}{UNBROKEN}% of it at {points}") }
}

/// Returns the keys that vary and their values at a point, as text: `link.lanes = 4, seed 1`.
fn place(plan: &Plan, point: usize) -> String {
    let mut words = Vec::new();
    plan.visit(point, |swept, at| {
        words.extend(
            swept.has_several_values().then(|| format!("{} = {}", swept.key, swept.text(at)).replace(' ', UNBROKEN)),
        );
    });
    if plan.has_several_seeds() {
        words.push(format!("seed{UNBROKEN}{}", plan.seed(point)));
    }
    words.join(", ")
}

/// Returns a sentence about the axes that have the largest effect on a column. `None` unless several axes vary.
fn influence_sentence(plan: &Plan, column: &Figure, values: &[PointValue]) -> Option<String> {
    let axes = plan.text.axes.iter().enumerate().filter(|(_, axis)| axis.len() > 1);
    let mut ratios: Vec<(String, f64)> = axes
        .filter_map(|(number, axis)| {
            let keys: Vec<String> = axis.swept.iter().map(|swept| swept.key.clone()).collect();
            Some((listed(&keys), mean_axis_ratio(plan, values, number)?))
        })
        .collect();
    ratios.sort_by(|left, right| right.1.total_cmp(&left.1));
    let told = ratios.iter().take(AXES_MAX).map(|(keys, ratio)| format!("{ratio:.1} times over the range of {keys}"));
    let told: Vec<String> = told.collect();
    let strongest = ratios.first().map(|(keys, _)| keys.as_str()).unwrap_or_default();
    (ratios.len() > 1).then(|| {
        let figure = column.heading;
        format!("{strongest} changes {figure} most: all else equal, {figure} varies {}.", listed(&told))
    })
}

/// Returns the geometric mean of the ratio of largest to smallest value along an axis, with all else constant. `None`
/// if a value is zero, or no two points differ in this axis alone.
fn mean_axis_ratio(plan: &Plan, values: &[PointValue], axis: usize) -> Option<f64> {
    let mut groups: BTreeMap<Vec<usize>, (f64, f64, u32)> = BTreeMap::new();
    for (point, value) in values {
        if *value <= 0.0 {
            return None;
        }
        let mut others = axis_indices(plan, *point);
        others.remove(axis);
        let (least, most, count) = groups.entry(others).or_insert((*value, *value, 0));
        (*least, *most, *count) = (least.min(*value), most.max(*value), *count + 1);
    }
    let ratios: Vec<f64> =
        groups.values().filter(|(_, _, count)| *count > 1).map(|(least, most, _)| libm::log(most / least)).collect();
    (!ratios.is_empty()).then(|| libm::exp(ratios.iter().sum::<f64>() / real_length(ratios.len())))
}

/// Returns the index of the value of a sweep's point along each axis, followed by the index of its seed.
fn axis_indices(plan: &Plan, point: usize) -> Vec<usize> {
    let (mut stride, mut rest, mut places) = (plan.points, point, Vec::new());
    for axis in &plan.text.axes {
        stride /= axis.len();
        places.push(rest / stride);
        rest %= stride;
    }
    places.push(rest);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::find;

    const PLAN: &str = "drive = 'nvme'\n[[axis]]\nkey = 'link.lanes'\nvalues = [1, 2]\n[[axis]]\nkey = 'job.iodepth'\n\
                        values = [1, 4]\n";

    #[test]
    fn best_and_worst_points_and_the_strongest_axis_are_named() {
        let plan = Plan::parse("p.toml", PLAN).unwrap();
        let column = find("iops").unwrap();
        let told = column_finding_sentences(&plan, column, &[(0, 100.0), (1, 400.0), (2, 110.0), (3, 440.0)]);
        let told: Vec<String> = told.iter().map(|text| text.replace(UNBROKEN, " ")).collect();
        assert_eq!(
            told[0],
            "IOPS: highest at link.lanes = 2, job.iodepth = 4 (440, 4.4 times the lowest); lowest at link.lanes = 1, job.iodepth = 1 (100)."
        );
        assert_eq!(
            told[1],
            "job.iodepth changes IOPS most: all else equal, IOPS varies 4.0 times over the range of job.iodepth and 1.1 times over the range of link.lanes."
        );
    }

    #[test]
    fn points_near_the_best_are_counted_also_where_lower_is_better() {
        let plan = Plan::parse("p.toml", PLAN).unwrap();
        let told = |name: &str, values: [f64; 4]| {
            let values: Vec<PointValue> = values.into_iter().enumerate().collect();
            column_finding_sentences(&plan, find(name).unwrap(), &values)[0].replace(UNBROKEN, " ")
        };
        let rate = told("iops", [100.0, 436.0, 110.0, 440.0]);
        assert!(
            rate.contains("(440, 4.4 times the lowest), and within 2 % of it at one other point; lowest"),
            "{rate}"
        );
        let latency = told("mean_ns", [100.0, 101.0, 101.9, 440.0]);
        assert!(latency.contains("(100 ns), and within 2 % of it at 2 other points; highest at"), "{latency}");
        assert!(!told("mean_ns", [100.0, 102.1, 103.0, 440.0]).contains("within"));
    }

    #[test]
    fn equal_values_give_a_single_sentence() {
        let plan = Plan::parse("p.toml", PLAN).unwrap();
        let told = column_finding_sentences(&plan, find("iops").unwrap(), &[(0, 100.0), (1, 100.0)]);
        assert_eq!((told.len(), told[0].ends_with("100 at every point.")), (1, true), "{told:?}");
    }

    #[test]
    fn bottleneck_is_named_only_if_it_is_saturated() {
        let drive = Drive::shipped("nvme-polled").unwrap();
        let jobs = [Job { iodepth: 32, ..Job::named("deep") }];
        let bound = predict(&drive, &jobs).jobs[0].bottleneck().saturation_iops();
        let told = |share: f64| bottleneck_sentence(&drive, &jobs, share * bound).unwrap().replace(UNBROKEN, " ");
        assert_eq!(told(0.97), "At the best point the limit is cores (97 % busy).");
        assert_eq!(told(0.3), "At the best point no part is saturated; the busiest is cores (30 %).");
    }
}
