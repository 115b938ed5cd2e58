//! Five-minute rule from first principles: time without an access after which a block belongs on the drive rather than
//! in memory.
//!
//! A block in memory costs its share of a memory die. A block on the drive costs, for each access, a share of a
//! processor core, of the memory's bandwidth, and of the drive. The interval between accesses at which both cost the
//! same is the break-even time (Gray and Putzolu, SIGMOD 1987). The rate of a drive is either given or follows from its
//! cells and channels ([`form`]), after Zhang et al., "Five-Minute Rule 40 Years Later", arXiv 2511.03944.

mod answer;
mod description;
pub mod form;
mod history;
mod question;
mod words;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::results::documents::ByName;

pub use answer::BreakEvenAnswer;
pub use description::{BreakEvenInputs, ComponentPrices, Description, FlashCellGroup, Host, PricedDrive};
pub use form::{DeviceRate, RateLimit};
pub use history::{HISTORY, PublishedRuleVersion};
pub use question::BreakEvenQuestion;

/// Break-even time of one block size, with its parts and the rate of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BreakEven {
    /// Size of the block in bytes.
    pub block_bytes: u32,
    /// Time between accesses in seconds at which the block costs the same in memory and on the drive.
    pub break_even_s: f64,
    /// Parts of the break-even time in seconds, which come from processor cores, from the bandwidth of memory, and from
    /// the drive.
    #[serde(serialize_with = "by_part")]
    #[schemars(with = "ByName<f64>")]
    pub parts_s: [f64; 3],
    /// Largest number of operations a second of the drive, and the resource that limits it.
    #[serde(flatten)]
    pub device: DeviceRate,
    /// Operations a second of each drive that are used: a share of the drive's rate, unless the host limits them.
    pub used_iops: f64,
    /// Tail latency of reads in ns at the used rate, which the share `percentile` of all reads do not exceed. Null if
    /// the drive's cells are not described, or if the drive is saturated.
    pub tail_ns: Option<f64>,
}

/// Names of the parts of a break-even time, in the order of the parts in `BreakEven`.
pub const PARTS: [&str; 3] = ["cores", "memory bandwidth", "drive"];

fn by_part<S: Serializer>(parts_s: &[f64; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(PARTS.iter().zip(parts_s))
}

/// Returns the break-even time of blocks of `block_bytes` bytes, with the prices and rates of a description.
pub fn break_even_time(description: &Description, block_bytes: u32) -> BreakEven {
    let Description { costs, host, .. } = description;
    let device = form::largest_device_rate(description, block_bytes);
    let of_host = host.iops.map_or(f64::INFINITY, |iops| iops / f64::from(host.drives));
    let used_iops = (description.utilisation * device.iops).min(of_host);
    let block = f64::from(block_bytes);
    let each_s = [
        costs.core / costs.core_iops,
        block * costs.memory_die / (costs.memory_bytes_per_ns * 1e9),
        form::drive_cost(description) / used_iops,
    ];
    // Cost of keeping one block in memory for a second, in the currency of the other prices.
    let held = block * costs.memory_die / costs.memory_die_bytes;
    let parts_s = each_s.map(|cost| cost / held);
    let tail_ns = form::tail_ns(description, &device, used_iops / device.iops);
    BreakEven { block_bytes, break_even_s: parts_s.iter().sum(), parts_s, device, used_iops, tail_ns }
}

/// Returns the inputs of a break-even time with the change of the time, as a share, if the input grows by the share
/// `by` (0.1 for a tenth). The largest change comes first; inputs without effect are left out.
pub fn sensitivity(description: &Description, block_bytes: u32, by: f64) -> Vec<(&'static str, f64)> {
    let base_s = break_even_time(description, block_bytes).break_even_s;
    let mut changes: Vec<(&'static str, f64)> = description
        .inputs()
        .into_iter()
        .map(|(name, grown)| {
            (name, break_even_time(&grown(description, 1.0 + by), block_bytes).break_even_s / base_s - 1.0)
        })
        .filter(|(_, change)| *change != 0.0)
        .collect();
    changes.sort_by(|one, other| other.1.abs().total_cmp(&one.1.abs()));
    changes
}

#[cfg(test)]
mod tests;
