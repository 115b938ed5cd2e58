//! Cloud volume in closed form: its rate limits, and the network to its storage servers.

use super::Parts;
use super::demand::ServiceDemands;
use super::workload::{Class, Workload};
use crate::config::{StartCredits, VolumeLimit};
use crate::request::DataDirection;
use crate::time::Span;

/// Resource name of a volume's limit in operations per second.
pub(crate) const OPERATIONS_LIMIT: &str = "volume's limit of operations";
/// Resource name of a volume's limit in bytes per second.
pub(crate) const BYTES_LIMIT: &str = "volume's limit of bytes";

impl Parts<'_> {
    /// Returns the time that an access spends in the network and the storage servers of a volume.
    pub fn network(&self, direction: DataDirection) -> Span {
        let volume = &self.drive.volume;
        if direction == DataDirection::Read { volume.read } else { volume.write }
    }

    /// Adds the service demands of a request on a volume's rate limits. If the run begins with burst credits, the burst
    /// rate applies, although the credits may run out; otherwise the base rate does.
    pub fn add_rate_limit_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        let (volume, capacity_mib) = (&self.drive.volume, self.drive.media.capacity_mib);
        let rate = |limit: VolumeLimit| match volume.credits {
            StartCredits::Used => limit.base_per_s,
            StartCredits::Full | StartCredits::Auto => limit.peak_per_s,
        };
        let operations = self.least_counted_operations(workload, class);
        let bytes = match volume.counts_whole_operations {
            true => operations * f64::from(volume.operation_kib) * 1024.0,
            false => f64::from(class.bytes),
        };
        let mut add = |resource, limit: Option<VolumeLimit>, times| {
            if let Some(limit) = limit {
                demands.add(resource, 1.0, Span::from_ns_f64(times / rate(limit) * 1e9), 1.0);
            }
        };
        add(OPERATIONS_LIMIT, volume.operations(capacity_mib), operations);
        add(BYTES_LIMIT, volume.bytes(capacity_mib), bytes);
    }

    /// Returns the smallest number of operations that a volume's limit counts for one request.
    fn least_counted_operations(&self, workload: &Workload, class: &Class) -> f64 {
        let volume = &self.drive.volume;
        let share = f64::from(class.bytes) / (f64::from(volume.operation_kib) * 1024.0);
        match (volume.operation_kib, volume.merges_sequential && workload.sequential) {
            (0, _) => 1.0,
            (_, true) => share,
            (_, false) => share.ceil(),
        }
    }
}
