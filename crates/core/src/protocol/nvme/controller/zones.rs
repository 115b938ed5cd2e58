//! Zones of a simulated drive: their states admit or refuse commands in the order of the submission queue entries.

use super::Fetch;
use crate::drive::Drive;
use crate::media::zones::{ZoneAction, Zones, ZonesLeft};
use crate::protocol::nvme::commands::zones::{ZoneSideEffect, admit};
use crate::protocol::nvme::commands::{Command, CommandListKind, CompletionValueKind};
use crate::protocol::nvme::spec::Status;
use crate::protocol::ports::Ports;

/// States of the zones of a simulated drive, and the commands in flight that affect them.
#[derive(Clone, Debug)]
pub(super) struct SimulatedZoneStates {
    zones: Zones,
    /// Number of commands that the states of zones have refused.
    refusals: u64,
    /// Fetched entries that arrived before earlier entries of their queue, since host memory may answer reads out of
    /// order.
    early: Vec<(Fetch, Vec<u8>)>,
    /// Writes in flight that their zones have accepted: first logical block, and number of logical blocks.
    writing: Vec<(u64, u64)>,
    /// Zone states that survive a loss of power; none if completed writes survive it.
    durable: Option<DurableZoneStates>,
}

/// Zone states that survive a loss of power on a drive with a volatile write buffer: the states of the last flush, with
/// all resets since.
#[derive(Clone, Debug)]
struct DurableZoneStates {
    flushed: Zones,
    /// Zone states after the writes that had completed when a flush began, for each flush in progress with its command
    /// number.
    flushing: Vec<(u32, Zones)>,
}

impl DurableZoneStates {
    /// Applies the reset of a zone, which is durable at once, to the states of all flushes.
    fn reset(&mut self, start: u64) {
        let later = self.flushing.iter_mut().map(|(_, zones)| zones);
        for zones in std::iter::once(&mut self.flushed).chain(later) {
            // Reset fails only for read-only and offline zones, and this zone has just been reset on the drive, so
            // ignore the result.
            let _ = zones.act(ZoneAction::Reset, start);
        }
    }

    /// Ends the flush with this command number: the states when it began are durable now. Does nothing if no such flush
    /// is in progress.
    fn end_zone_flush(&mut self, id: u32) {
        if let Some(place) = self.flushing.iter().position(|(flush, _)| *flush == id) {
            self.flushed = self.flushing.remove(place).1;
        }
    }
}

impl SimulatedZoneStates {
    /// Returns the zones of a drive in use, all of them full; none if the drive has no zones.
    pub(super) fn full(drive: &Drive) -> Option<Box<SimulatedZoneStates>> {
        let is_volatile = drive.loses_power() && !drive.keeps_acknowledged();
        drive.zone_layout().map(|layout| {
            let zones = Zones::full(layout);
            let durable = is_volatile.then(|| DurableZoneStates { flushed: zones.clone(), flushing: Vec::new() });
            Box::new(SimulatedZoneStates { durable, ..SimulatedZoneStates::of(zones) })
        })
    }

    fn of(zones: Zones) -> SimulatedZoneStates {
        SimulatedZoneStates { zones, refusals: 0, early: Vec::new(), writing: Vec::new(), durable: None }
    }

    /// Returns zones with the same layout, all of them empty.
    pub(super) fn empty(&self) -> SimulatedZoneStates {
        SimulatedZoneStates::of(Zones::new(*self.zones.layout()))
    }

    /// Returns the zones with the states after completed writes only. The latest writes of a zone that have not
    /// completed are undone. Blocks in front of a completed write stay written, with undefined data.
    fn completed(&self) -> Zones {
        let (mut zones, mut writing) = (self.zones.clone(), self.writing.clone());
        writing.sort_unstable();
        for (block, blocks) in writing.into_iter().rev() {
            zones.undo_write(block, blocks);
        }
        zones
    }

    /// Returns the zones as a restart leaves them: with the durable states if `loses_power` is true, otherwise with the
    /// states after completed writes.
    pub(super) fn left(&self, loses_power: bool) -> ZonesLeft {
        let completed = self.completed();
        let flushed = self.durable.as_ref().map(|durable| durable.flushed.clone().with_counts_of(&self.zones));
        let mut durable = flushed.unwrap_or_else(|| completed.clone());
        durable.lose_power();
        ZonesLeft { zones: if loses_power { durable.clone() } else { completed }, durable }
    }

    /// Replaces the states of all zones by the states that a restart of the drive has left.
    pub(super) fn restore_zones_after_restart(&mut self, left: ZonesLeft) {
        if let Some(durable) = &mut self.durable {
            durable.flushed = left.durable;
        }
        self.zones = left.zones;
    }

    /// Records the zone states that the flush with this command number makes durable. Does nothing if completed writes
    /// survive a loss of power.
    pub(super) fn begin_flush(&mut self, id: u32) {
        let completed = self.durable.is_some().then(|| self.completed());
        if let Some((durable, completed)) = self.durable.as_mut().zip(completed) {
            durable.flushing.push((id, completed));
        }
    }

    /// Ends the command with this number: its write counts as completed, and a flush makes its recorded states durable.
    /// Returns the value of its completion queue entry: the logical block of an append.
    pub(super) fn end_command(&mut self, id: u32, command: Option<&Command>, block_shift: u32) -> u64 {
        let Some(command) = command else { return 0 };
        // A read or a flush may name the block at which a write in flight begins.
        if advances_write_pointer(command)
            && let Some(place) = self.writing.iter().position(|(block, _)| *block == command.offset >> block_shift)
        {
            self.writing.swap_remove(place);
        }
        if let Some(durable) = &mut self.durable {
            durable.end_zone_flush(id);
        }
        if command.row.returns == CompletionValueKind::FirstBlock { command.offset >> block_shift } else { 0 }
    }

    /// Returns pairs of name and value for the counters of zone operations and refusals.
    pub(super) fn counters(&self) -> [(&'static str, u64); 5] {
        let counts = self.zones.counts();
        [
            ("zone_appends", counts.appends),
            ("zone_resets", counts.resets),
            ("zone_finishes", counts.finishes),
            ("zone_implicit_closes", counts.implicit_closes),
            ("zone_refusals", self.refusals),
        ]
    }

    /// Returns a command if the states of its zones accept it. The zones of a Copy are checked when its sources are
    /// known.
    #[inline(never)]
    pub(super) fn admit_fetched_command(
        &mut self,
        mut command: Command,
        block_shift: u32,
        ports: &mut Ports,
    ) -> Result<Command, Status> {
        if command.row.list() != Some(CommandListKind::Sources) {
            self.admit(&mut command, &[], block_shift, ports)?;
        }
        Ok(command)
    }

    /// Checks a command against the states of its zones and changes them. Fills in the logical block of an append.
    pub(super) fn admit(
        &mut self,
        command: &mut Command,
        sources: &[(u64, u64)],
        shift: u32,
        ports: &mut Ports,
    ) -> Result<(), Status> {
        let SimulatedZoneStates { zones, refusals, writing, durable, .. } = self;
        let place = (command.offset, command.bytes);
        let effect = admit(zones, command.action, place, sources, shift).inspect_err(|_| *refusals += 1)?;
        let layout = zones.layout();
        match effect {
            ZoneSideEffect::None => {}
            ZoneSideEffect::Placed(block) => command.offset = block << shift,
            ZoneSideEffect::Emptied(emptied) => {
                for start in emptied.into_iter().map(|zone| layout.start(zone)) {
                    ports.media.discard(start << shift, layout.zone_blocks << shift);
                    durable.iter_mut().for_each(|durable| durable.reset(start));
                    writing.retain(|(block, _)| !(start..start + layout.zone_blocks).contains(block));
                }
            }
        }
        if advances_write_pointer(command) {
            writing.push((command.offset >> shift, u64::from(command.bytes) >> shift));
        }
        Ok(())
    }

    /// True if fetched entries are the next of their submission queue, which has this head. Keeps them for later
    /// otherwise, since appends get their logical blocks in the order of entries.
    pub(super) fn accepts_now(&mut self, fetch: Fetch, head: u32, bytes: &[u8]) -> bool {
        if fetch.first != head {
            self.early.push((fetch, bytes.to_vec()));
        }
        fetch.first == head
    }

    /// Returns entries of a submission queue that had arrived too early and are next now.
    pub(super) fn take_early(&mut self, queue: u16, head: u32) -> Option<(Fetch, Vec<u8>)> {
        let is_next = |(fetch, _): &(Fetch, Vec<u8>)| fetch.queue == queue && fetch.first == head;
        let place = self.early.iter().position(is_next)?;
        Some(self.early.swap_remove(place))
    }

    /// Undoes the effect of a write on its zone, after the zone has accepted it and its PRP list or SGL is wrong.
    pub(super) fn undo_write(&mut self, command: &Command, shift: u32) {
        if advances_write_pointer(command) {
            let block = command.offset >> shift;
            self.writing.retain(|(other, _)| *other != block);
            self.zones.undo_write(block, u64::from(command.bytes) >> shift);
        }
    }
}

/// True if the command moves the write pointer to the end of its blocks once its zone has accepted it. A Copy has no
/// blocks before its sources are known, and its zone has not accepted it until then.
fn advances_write_pointer(command: &Command) -> bool {
    command.row.writes_media() && command.bytes > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::zones::ZoneLayout;
    use crate::protocol::nvme::commands::opcode;
    use crate::protocol::nvme::rules::Limits;
    use crate::protocol::nvme::spec::SubmissionEntry;

    #[test]
    fn flush_and_read_do_not_complete_a_write_in_flight() {
        let layout = ZoneLayout { zones: 2, zone_blocks: 16, capacity_blocks: 16, active_max: 0, open_max: 0 };
        let mut zones = SimulatedZoneStates::of(Zones::new(layout));
        zones.zones.write(0, 8).unwrap();
        zones.writing.push((0, 8));
        let mut end = |opcode| {
            let entry = SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, ..SubmissionEntry::default() };
            let command = Command::check(&entry.of_blocks(0, 8), &Limits::SMALL).unwrap();
            zones.end_command(1, Some(&command), Limits::SMALL.block_shift);
            zones.completed().zone(0).1
        };
        assert_eq!((end(opcode::FLUSH), end(opcode::READ), end(opcode::WRITE)), (0, 0, 8));
    }
}
