//! Namespace of a simulated drive, by its kind. A kind adds its own state and rules to the commands of the controller.

use super::Fetch;
use super::key_value::SimulatedKeySpace;
use super::placement::SimulatedPlacementStreams;
use super::zones::SimulatedZoneStates;
use crate::drive::Drive;
use crate::media::WriteTiming;
use crate::media::keys::Key;
use crate::media::zones::ZonesLeft;
use crate::protocol::nvme::commands::{Command, CompletionValueKind};
use crate::protocol::nvme::rules::{Limits, WriteReclaimPlacement};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};
use crate::protocol::ports::Ports;
use crate::time::Time;
use crate::workload::FilledKeys;

/// Namespace of a simulated drive.
#[derive(Clone, Debug)]
pub(super) enum SimulatedNamespace {
    /// Logical blocks; also those of a drive with zones whose server keeps the states of the zones.
    Blocks,
    /// Logical blocks that hosts place (flexible data placement).
    Placed(SimulatedPlacementStreams),
    /// Logical blocks in zones.
    Zoned(Box<SimulatedZoneStates>),
    /// Values under keys.
    Keyed(Box<SimulatedKeySpace>),
}

impl SimulatedNamespace {
    /// Returns the namespace of a drive.
    pub(super) fn of(drive: &Drive) -> SimulatedNamespace {
        let zoned = SimulatedZoneStates::full(drive).map(SimulatedNamespace::Zoned);
        let placed = || SimulatedPlacementStreams::of(drive).map(SimulatedNamespace::Placed);
        let keyed = || SimulatedKeySpace::of(drive).map(SimulatedNamespace::Keyed);
        zoned.or_else(placed).or_else(keyed).unwrap_or(SimulatedNamespace::Blocks)
    }

    /// Lets the server of the drive keep the states of zones.
    pub(super) fn leave_zone_states_to_server(&mut self) {
        if let SimulatedNamespace::Zoned(_) = self {
            *self = SimulatedNamespace::Blocks;
        }
    }

    /// Keeps the states of zones again, all of which are empty; does nothing on a drive without zones.
    pub(super) fn keep_zones(&mut self, drive: &Drive) {
        if let Some(zones) = SimulatedZoneStates::full(drive) {
            *self = SimulatedNamespace::Zoned(Box::new(zones.empty()));
        }
    }

    /// True if fetched entries of a submission queue with this head can be accepted now. Zones keep entries that arrive
    /// before earlier ones, until [`SimulatedNamespace::take_early`].
    #[inline]
    pub(super) fn accepts_now(&mut self, fetch: Fetch, head: u32, bytes: &[u8]) -> bool {
        match self {
            SimulatedNamespace::Zoned(zones) => zones.accepts_now(fetch, head, bytes),
            _ => true,
        }
    }

    /// Returns entries of a submission queue that had arrived too early and are next now.
    #[inline]
    pub(super) fn take_early(&mut self, queue: u16, head: u32) -> Option<(Fetch, Vec<u8>)> {
        match self {
            SimulatedNamespace::Zoned(zones) => zones.take_early(queue, head),
            _ => None,
        }
    }

    /// Returns the command of a submission queue entry, or the status with which it is refused. Zone states are checked
    /// and changed here, in the order of the entries. An append gets its logical block, and a reset discards the zone's
    /// data.
    #[inline(always)]
    pub(super) fn check(
        &mut self,
        entry: &SubmissionEntry,
        limits: &Limits,
        ports: &mut Ports,
    ) -> Result<Command, Status> {
        match self {
            SimulatedNamespace::Zoned(zones) => {
                zones.admit_fetched_command(Command::check(entry, limits)?, limits.block_shift, ports)
            }
            _ => Command::check(entry, limits),
        }
    }

    /// Returns a command that a served controller has checked, as [`SimulatedNamespace::check`] returns one.
    pub(super) fn admit(&mut self, command: Command, block_shift: u32, ports: &mut Ports) -> Result<Command, Status> {
        match self {
            SimulatedNamespace::Zoned(zones) => zones.admit_fetched_command(command, block_shift, ports),
            _ => Ok(command),
        }
    }

    /// Checks a Copy whose sources are known against the states of its zones, and changes these.
    pub(super) fn admit_copy_sources(
        &mut self,
        command: &mut Command,
        sources: &[(u64, u64)],
        block_shift: u32,
        ports: &mut Ports,
    ) -> Result<(), Status> {
        match self {
            SimulatedNamespace::Zoned(zones) => zones.admit(command, sources, block_shift, ports),
            _ => Ok(()),
        }
    }

    /// Undoes the effect of a write on its zone, after the zone has accepted it and its PRP list or SGL is wrong.
    #[cold]
    pub(super) fn undo_write(&mut self, command: &Command, block_shift: u32) {
        if let SimulatedNamespace::Zoned(zones) = self {
            zones.undo_write(command, block_shift);
        }
    }

    /// Writes a command's bytes to the media, in the stream of its placement handle.
    #[inline]
    pub(super) fn write(
        &mut self,
        now: Time,
        (offset, bytes): (u64, u32),
        placement: WriteReclaimPlacement,
        ports: &mut Ports,
    ) -> WriteTiming {
        match self {
            SimulatedNamespace::Placed(placed) => {
                ports.media.write_to_stream(now, offset, bytes, placed.take(placement))
            }
            _ => ports.media.write(now, offset, bytes),
        }
    }

    /// Lets the listed pairs of reclaim group and placement handle refer to new reclaim units.
    pub(super) fn renew_units(&mut self, now: Time, listed: &[(u8, u8)], ports: &mut Ports) {
        if let SimulatedNamespace::Placed(placed) = self {
            placed.renew_units(now, listed, ports);
        }
    }

    /// Begins the flush with this command number.
    #[inline]
    pub(super) fn begin_flush(&mut self, id: u32) {
        if let SimulatedNamespace::Zoned(zones) = self {
            zones.begin_flush(id);
        }
    }

    /// Ends the command with this number; it is none if it is refused. Returns the value for dwords 0 and 1 of its
    /// completion queue entry.
    #[inline(always)]
    pub(super) fn end_command(&mut self, id: u32, command: Option<&Command>, block_shift: u32) -> u64 {
        match self {
            SimulatedNamespace::Blocks | SimulatedNamespace::Placed(_) => 0,
            SimulatedNamespace::Zoned(zones) => zones.end_command(id, command, block_shift),
            SimulatedNamespace::Keyed(keys) => {
                let bytes = keys.take_found_value_length(id);
                if command.is_some_and(|command| command.row.returns == CompletionValueKind::ValueBytes) {
                    bytes
                } else {
                    0
                }
            }
        }
    }

    /// Returns keys and values, for a command that only a namespace with keys accepts.
    pub(super) fn keys(&mut self) -> &mut SimulatedKeySpace {
        match self {
            SimulatedNamespace::Keyed(keys) => keys,
            _ => unreachable!("a namespace without keys refuses the commands for them"),
        }
    }

    /// Stores the values that jobs expect to find under their keys.
    pub(super) fn fill_for(&mut self, jobs: &[FilledKeys], ports: &mut Ports) {
        if let SimulatedNamespace::Keyed(keys) = self {
            keys.fill_for(jobs, ports);
        }
    }

    /// Stores values of these lengths, which a served drive holds, under their keys.
    pub(super) fn restore_stored_values(&mut self, values: &mut dyn Iterator<Item = (Key, u32)>, ports: &mut Ports) {
        if let SimulatedNamespace::Keyed(keys) = self {
            keys.fill(values, ports);
        }
    }

    /// Returns the zones as a restart leaves them; none if the drive has no zones.
    pub(super) fn zones_left(&self, loses_power: bool) -> Option<ZonesLeft> {
        if let SimulatedNamespace::Zoned(zones) = self { Some(zones.left(loses_power)) } else { None }
    }

    /// Replaces the states of all zones by the states that a restart of the drive has left.
    pub(super) fn take_over_zones(&mut self, left: ZonesLeft) {
        if let SimulatedNamespace::Zoned(zones) = self {
            zones.restore_zones_after_restart(left);
        }
    }

    /// Returns pairs of name and value for the counters of the namespace's kind.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            SimulatedNamespace::Blocks => Vec::new(),
            SimulatedNamespace::Placed(placed) => placed.counters().to_vec(),
            SimulatedNamespace::Zoned(zones) => zones.counters().to_vec(),
            SimulatedNamespace::Keyed(keys) => keys.counters(),
        }
    }
}
