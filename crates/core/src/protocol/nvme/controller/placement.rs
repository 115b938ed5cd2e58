//! Flexible data placement of a simulated drive: streams of the translation layer for reclaim groups and placement
//! handles.

use super::Controller;
use crate::drive::Drive;
use crate::media::translation::HostStreams;
use crate::protocol::nvme::rules::WriteReclaimPlacement;
use crate::protocol::ports::Ports;
use crate::time::Time;

/// Streams of a simulated drive for data placement; placement handles are the reclaim unit handles.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedPlacementStreams {
    streams: HostStreams,
    /// Number of writes with a placement identifier that does not exist.
    invalid_identifiers: u64,
    /// Number of times that the host has let a handle refer to a new reclaim unit (I/O Management Send).
    renewed: u64,
}

impl SimulatedPlacementStreams {
    /// Returns the streams for the data placement of a drive; none if hosts cannot place data.
    pub(super) fn of(drive: &Drive) -> Option<SimulatedPlacementStreams> {
        let streams = drive.placed_streams()?;
        Some(SimulatedPlacementStreams { streams, invalid_identifiers: 0, renewed: 0 })
    }

    /// Returns the stream for a write's reclaim group and placement handle. Counts the write if its placement
    /// identifier does not exist.
    #[inline]
    pub(super) fn take(&mut self, placement: WriteReclaimPlacement) -> u8 {
        self.invalid_identifiers += u64::from(placement.is_invalid);
        self.streams.stream(placement.group, placement.handle)
    }

    /// Lets these pairs of reclaim group and placement handle refer to new reclaim units.
    pub(super) fn renew_units(&mut self, now: Time, listed: &[(u8, u8)], ports: &mut Ports) {
        for (group, handle) in listed {
            self.renewed += 1;
            ports.media.begin_unit(now, self.streams.stream(*group, *handle));
        }
    }

    /// Returns pairs of name and value for the counters of invalid placement identifiers and of renewed reclaim units.
    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        [("invalid_placement_identifiers", self.invalid_identifiers), ("reclaim_units_renewed", self.renewed)]
    }
}

impl Controller {
    /// Lets each listed pair of reclaim group and placement handle begin a new reclaim unit (I/O Management Send), and
    /// ends the command. The controller changes only references (assumed to take no time).
    #[cold]
    pub(super) fn renew_units(&mut self, now: Time, id: u32, listed: &[(u8, u8)], ports: &mut Ports) {
        self.namespace.renew_units(now, listed, ports);
        self.finish(id, ports);
    }
}
