//! Comparison of the stages of two software stacks: processor time of a lone request of 4 KiB in each stage, with its
//! range.

use std::collections::BTreeMap;

use super::{KeyOverride, presets, shipped};
use crate::config::StackStage;
use crate::drive::Drive;
use crate::problem::{Problem, Problems, all};
use crate::spelling;

/// Shipped drive with which the software stacks are compared.
const DRIVE: &str = "tlc-gen4";
/// Processor time that a stage takes for a lone read of 4 KiB, in submission and completion together.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCpuCost {
    /// Processor time in ns.
    pub ns: f64,
    /// Smallest and largest possible processor time in ns; equal if the preset gives no range.
    pub range_ns: (f64, f64),
    /// Source of the costs; empty if the preset does not give one.
    pub source: String,
}

/// One stage with its costs in two software stacks; `None` for a stack that lacks the stage.
#[derive(Clone, Debug)]
pub struct StagePair {
    /// Name of the stage.
    pub stage: String,
    /// Costs of the stage in the first and in the second stack.
    pub costs: [Option<StageCpuCost>; 2],
}

impl StagePair {
    /// Returns the ratio of the cost in the second stack to that in the first; none if either stack lacks the stage or
    /// the first cost is zero.
    pub fn ratio(&self) -> Option<f64> {
        let [first, second] = &self.costs;
        let (first, second) = (first.as_ref()?.ns, second.as_ref()?.ns);
        (first > 0.0).then(|| second / first)
    }
}

/// Returns the stages of two software stacks on a host, in the order of the first stack; those that only the second has
/// come last.
///
/// # Errors
/// Names that are no presets of stacks or hosts.
pub fn side_by_side(stacks: [&str; 2], host: &str) -> Result<Vec<StagePair>, Problems> {
    let costs = stacks.map(|stack| lone_read_costs_of_stages(stack, host));
    let [first, second] = costs;
    let (first, second) = (first?, second?);
    let of = |costs: &[(String, StageCpuCost)], name: &str| {
        costs.iter().find(|(stage, _)| stage == name).map(|(_, cost)| cost.clone())
    };
    let own = second.iter().filter(|(name, _)| of(&first, name).is_none());
    let names = first.iter().chain(own).map(|(name, _)| name);
    Ok(names.map(|name| StagePair { stage: name.clone(), costs: [of(&first, name), of(&second, name)] }).collect())
}

/// Returns the name of each shipped host, with the factor by which the times of a software stack are multiplied on it.
///
/// # Errors
/// A name that is no stack.
pub fn host_cost_factors(stack: &str) -> Result<Vec<(String, f64)>, Problems> {
    let hosts = presets::all().into_iter().filter(|preset| preset.section == "host");
    all(hosts.map(|host| Ok((host.name.clone(), with(stack, &host.name)?.software_ratio()))))
}

fn lone_read_costs_of_stages(stack: &str, host: &str) -> Result<Vec<(String, StageCpuCost)>, Problems> {
    let drive = with(stack, host)?;
    let factor = drive.software_ratio();
    let mut ranges: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for doubt in drive.assumed.iter().filter(|doubt| doubt.is_range()) {
        ranges.insert(&doubt.key, (doubt.low, doubt.high));
    }
    let cost = |stage: &StackStage| {
        let mut cost = StageCpuCost { ns: 0.0, range_ns: (0.0, 0.0), source: stage.source.clone() };
        for (name, span) in stage.lone_request_costs() {
            let value = span.as_ns();
            let known = ranges.get(format!("stack.stages.{}.{name}", stage.name).as_str());
            let (low, high) = known.copied().unwrap_or((value, value));
            cost.ns += factor * value;
            cost.range_ns.0 += factor * low;
            cost.range_ns.1 += factor * high;
        }
        (stage.name.clone(), cost)
    };
    Ok(drive.stack.stages.iter().map(cost).collect())
}

/// Reads the shipped drive for comparisons with this software stack and host.
fn with(stack: &str, host: &str) -> Result<Drive, Problems> {
    for (section, name) in [("stack", stack), ("host", host)] {
        let known: Vec<String> =
            presets::all().into_iter().filter(|it| it.section == section).map(|it| it.name.clone()).collect();
        if !known.iter().any(|it| it == name) {
            let meant = spelling::question(spelling::nearest(name, known.iter().map(String::as_str)));
            let found = format!("there is no {section} preset `{name}`{meant}");
            return Err(Problem::new("command line", None, found, known.join(", ")).into());
        }
    }
    let shipped = shipped::find(DRIVE).ok_or_else(|| shipped::unknown(DRIVE))?;
    // The stack preset comes first because it sets `host.wait`, which the later keys override.
    let texts = [format!("stack.preset={stack}"), format!("host.preset={host}"), String::from("host.wait=spin")];
    let overrides: Vec<KeyOverride> = all(texts.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))?;
    Drive::from_toml(shipped.file, shipped.text, &overrides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_two_stacks_are_compared_side_by_side() {
        let pairs = side_by_side(["linux-5", "linux-6"], "skylake-sp-8180").unwrap();
        let block = pairs.iter().find(|pair| pair.stage == "block layer").unwrap();
        let [five, six] = block.costs.clone().map(Option::unwrap);
        // The stage takes 379 ns at 3.0 GHz on one stack and 736 ns at 2.4 GHz on the other; the ratio compares clock
        // cycles.
        assert!((block.ratio().unwrap() - 736.0 * 2.4 / (379.0 * 3.0)).abs() < 1e-9, "{block:?}");
        assert!(six.range_ns.0 < six.ns && six.ns < six.range_ns.1 && five.range_ns.0 == five.range_ns.1);
    }

    #[test]
    fn unknown_stack_and_host_names_are_refused() {
        let refused = side_by_side(["linux-5", "linux-66"], "skylake-sp-8180").unwrap_err().to_string();
        assert!(refused.contains("no stack preset `linux-66`"), "{refused}");
    }

    #[test]
    fn all_kernel_stages_have_a_source_or_a_range() {
        for pair in side_by_side(["linux-5", "linux-6"], "cascade-lake-4210r").unwrap() {
            for cost in pair.costs.iter().flatten() {
                assert!(!cost.source.is_empty() || cost.range_ns.0 < cost.range_ns.1, "{pair:?}");
            }
        }
    }

    /// Tests that a stage whose source is the other kernel takes the same time on the same host.
    #[test]
    fn stages_shared_by_two_kernels_take_equal_time() {
        let pairs = side_by_side(["linux-5", "linux-6"], "cascade-lake-4210r").unwrap();
        let is_same = |pair: &&StagePair| pair.costs[0].as_ref().is_some_and(|cost| cost.source == "as linux-6");
        let same: Vec<&StagePair> = pairs.iter().filter(is_same).collect();
        assert!(same.len() > 8, "{same:?}");
        for pair in same {
            assert!((pair.ratio().unwrap() - 1.0).abs() < 0.02, "{pair:?}");
        }
    }
}
