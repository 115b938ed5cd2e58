//! Share of written bytes that leave a write buffer during a run.

use super::JobPrediction;
use phaselink_core::closed_form::flash::GARBAGE_COLLECTION;
use phaselink_core::closed_form::{Class, ServiceDemand};
use phaselink_core::number::real;
use phaselink_core::request::DataDirection;

impl JobPrediction {
    /// Returns the share of the written bytes that leave a drive's write buffer of `capacity` bytes while requests are
    /// counted. The prediction must be of a job all of whose bytes leave the buffer. The other bytes fill the room that
    /// the ramp leaves: at its end the buffer holds the bytes that came faster than dies and channels take them.
    pub(super) fn leaving_share(&self, capacity: f64) -> f64 {
        let is_flash =
            |demand: &&ServiceDemand| demand.resource.starts_with("flash ") || demand.resource == GARBAGE_COLLECTION;
        let (flash, others): (Vec<_>, Vec<_>) = self.demands.iter().partition(is_flash);
        let leaving_iops = flash.into_iter().map(ServiceDemand::saturation_iops).fold(f64::INFINITY, f64::min);
        if leaving_iops.is_infinite() {
            return 1.0;
        }
        let others = JobPrediction { demands: others.into_iter().cloned().collect(), ..self.clone() };
        let written = |class: &Class| match class.direction {
            DataDirection::Read => 0.0,
            DataDirection::Write => f64::from(class.bytes),
        };
        let bytes = self.workload.mean(written) / f64::from(self.workload.drives);
        let surplus = (others.loaded().most_iops - leaving_iops).max(0.0) * bytes;
        let empty = (capacity - surplus * self.workload.ramp_time.as_s()).max(0.0);
        let of_bytes = self.workload.written_bytes.map(|written| (1.0 - empty / real(written.max(1))).max(0.0));
        let of_time = self.workload.runtime.map(|runtime| {
            let leaving = leaving_iops * bytes * runtime.as_s();
            leaving / (leaving + empty)
        });
        [of_bytes, of_time].into_iter().flatten().fold(1.0, f64::min)
    }
}
