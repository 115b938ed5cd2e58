//! Rates and latencies of a drive from its cells and channels, in closed form.
//!
//! `G` reads come with each write of the host, and each write becomes `F` programs and `F - 1` more reads. So of all
//! operations on the cells, `(G + F - 1) / (G + 2F - 1)` are reads and `F / (G + 2F - 1)` programs. The form averages
//! the rates of a channel that both share, which overstates them by some per cent: a shared bus gives the harmonic
//! mean.

use schemars::JsonSchema;
use serde::Serialize;

use super::description::{Description, FlashCellGroup, PricedDrive};

/// Resource that limits the rate of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateLimit {
    /// The flash dies limit the drive's rate.
    Dies,
    /// The channels between flash dies and controller limit the drive's rate.
    Channels,
    /// The bandwidth of the memory that holds the mapping table limits the drive's rate.
    #[serde(rename = "mapping table")]
    Mapping,
    /// The link to the host limits the drive's rate.
    Link,
    /// The limiting resource is unknown, because the description gives the drive's rate itself.
    Given,
}

impl RateLimit {
    /// Returns the name of the resource in tables.
    pub fn name(self) -> &'static str {
        match self {
            RateLimit::Dies => "dies",
            RateLimit::Channels => "channels",
            RateLimit::Mapping => "mapping table",
            RateLimit::Link => "link",
            RateLimit::Given => "given",
        }
    }
}

/// Largest number of operations a second of a drive, and the resource that limits it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceRate {
    /// Largest number of operations a second of the drive: reads and writes of the host.
    #[serde(rename = "drive_iops")]
    pub iops: f64,
    /// Resource that limits the drive's rate.
    pub limit: RateLimit,
}

/// Returns the largest number of operations a second of a drive, for blocks of `block_bytes` bytes.
pub fn largest_device_rate(description: &Description, block_bytes: u32) -> DeviceRate {
    match (&description.cells, &description.rated) {
        (Some(cells), _) => rate_of_cells(cells, block_bytes),
        (None, Some(PricedDrive { iops, .. })) => {
            DeviceRate { iops: interpolate_rate_log(iops, block_bytes), limit: RateLimit::Given }
        }
        (None, None) => unreachable!("a description has cells or a rated drive"),
    }
}

/// Interpolates the rate of a block size between given pairs of size and rate, in proportion to the logarithms. Below
/// the smallest size, the rate stays as it is; above the largest, the bandwidth does.
fn interpolate_rate_log(iops: &[(u32, f64)], block_bytes: u32) -> f64 {
    let block = f64::from(block_bytes);
    let next = iops.iter().position(|(bytes, _)| *bytes >= block_bytes);
    match next {
        Some(0) => iops[0].1,
        Some(place) => {
            let ((low, slow), (high, fast)) = (iops[place - 1], iops[place]);
            let share = libm::log(block / f64::from(low)) / libm::log(f64::from(high) / f64::from(low));
            libm::exp(libm::log(slow) + share * libm::log(fast / slow))
        }
        None => iops.last().map_or(f64::NAN, |(bytes, iops)| iops * f64::from(*bytes) / block),
    }
}

fn rate_of_cells(cells: &FlashCellGroup, block_bytes: u32) -> DeviceRate {
    let (block, page) = (f64::from(block_bytes), f64::from(cells.page_bytes));
    let (g, f) = (cells.reads_per_write, cells.write_amplification);
    let operations = g + 2.0 * f - 1.0;
    let (reads, programs) = ((g + f - 1.0) / operations, f / operations);
    let per_s = |ns: f64| 1e9 / ns;
    let planes = f64::from(cells.planes);
    let die = reads * planes * per_s(cells.sense_ns) + programs * planes * page * per_s(cells.program_ns * block);
    let transfer_ns = block / cells.channel_bytes_per_ns;
    let channel =
        reads * per_s(cells.command_ns + transfer_ns) + programs * per_s(block / page * cells.command_ns + transfer_ns);
    let dies = f64::from(cells.dies_per_channel) * die;
    let host_share = (g + 1.0) / operations;
    let internal = host_share * f64::from(cells.channels) * dies.min(channel);
    let mapping = cells.mapping_bytes_per_ns * 1e9 / f64::from(cells.mapping_entry_bytes);
    let link = cells.link_bytes_per_ns.map_or(f64::INFINITY, |bytes_per_ns| bytes_per_ns * 1e9 / block);
    let inside = if dies < channel { RateLimit::Dies } else { RateLimit::Channels };
    let limits = [(internal, inside), (mapping, RateLimit::Mapping), (link, RateLimit::Link)];
    let (iops, limit) = limits.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).expect("three limits");
    DeviceRate { iops, limit }
}

/// Returns the tail latency of reads in ns, at the share `utilisation` of the drive's rate; none if its cells are not
/// described. Each channel is a queue with random arrivals and constant service (M/D/1, with an exponential tail),
/// followed by one read of the cells. Transfer and command of the read itself are left out, as in the source.
pub fn tail_ns(description: &Description, device: &DeviceRate, utilisation: f64) -> Option<f64> {
    let cells = description.cells.as_ref()?;
    let service_ns = f64::from(cells.channels) / device.iops * 1e9;
    let waiting = utilisation / (2.0 * (1.0 - utilisation));
    let late = libm::log(1.0 / (1.0 - description.percentile));
    Some(service_ns * waiting * late + cells.sense_ns)
}

/// Returns the price of a drive: its controller, its flash dies, and the memory that holds its mapping table; or its
/// given price.
pub fn drive_cost(description: &Description) -> f64 {
    let costs = &description.costs;
    match (&description.cells, &description.rated) {
        (Some(cells), _) => {
            let dies = f64::from(cells.channels) * f64::from(cells.dies_per_channel);
            let entries = dies * cells.die_bytes / f64::from(cells.mapping_unit_bytes);
            let memory_dies = entries * f64::from(cells.mapping_entry_bytes) / costs.drive_memory_die_bytes;
            costs.controller + dies * costs.flash_die + memory_dies * costs.drive_memory_die
        }
        (None, rated) => rated.as_ref().map_or(f64::NAN, |rated| rated.cost),
    }
}
