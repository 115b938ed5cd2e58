//! Data placement of a simulated drive: streams of the translation layer for placement handles.

use super::Controller;
use crate::drive::Drive;
use crate::media::translation::PlacedStreams;
use crate::protocol::nvme::rules::WritePlacement;
use crate::protocol::nvme::spec::Status;
use crate::protocol::ports::Ports;
use crate::time::Time;

/// Streams of a simulated drive, whose placement handles are its reclaim unit handles.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedPlacement {
    streams: PlacedStreams,
    /// Number of writes with placement identifiers that there are not.
    invalid_identifiers: u64,
    /// Number of reclaim units that the host has had renewed.
    renewed: u64,
}

impl SimulatedPlacement {
    /// Makes the streams of a drive, if hosts can place data.
    pub(super) fn of(drive: &Drive) -> Option<SimulatedPlacement> {
        let streams = drive.placed_streams()?;
        Some(SimulatedPlacement { streams, invalid_identifiers: 0, renewed: 0 })
    }

    /// Returns the stream of a write, and counts it if it names an identifier that there is not.
    #[inline]
    pub(super) fn take(&mut self, placement: WritePlacement) -> u8 {
        self.invalid_identifiers += u64::from(placement.is_invalid);
        self.streams.stream(placement.group, placement.handle)
    }

    /// Returns the counters, by name.
    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        [("invalid_placement_identifiers", self.invalid_identifiers), ("reclaim_units_renewed", self.renewed)]
    }
}

impl Controller {
    /// Has the handles that a list names begin other reclaim units (I/O Management Send), which changes references of the controller
    /// (assumed to take no time).
    ///
    /// # Errors
    /// Invalid Field if a placement identifier does not exist.
    #[cold]
    pub(super) fn renew_units(&mut self, now: Time, id: u32, list: &[u8], ports: &mut Ports) -> Result<(), Status> {
        let listed = self.limits.placement.as_ref().map_or(Ok(Vec::new()), |limits| limits.listed(list))?;
        if let Some(placed) = &mut self.placement {
            for (group, handle) in listed {
                placed.renewed += 1;
                ports.media.begin_unit(now, placed.streams.stream(group, handle));
            }
        }
        self.finish(id, ports);
        Ok(())
    }
}
