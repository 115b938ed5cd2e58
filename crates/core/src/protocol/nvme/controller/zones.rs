//! Zones of a simulated drive: commands are asked about in the order of their entries.

use super::{Controller, Fetch};
use crate::drive::Drive;
use crate::media::zones::Zones;
use crate::protocol::nvme::rules::zone_commands::{ZoneEffect, admit};
use crate::protocol::nvme::rules::{Action, Command};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};
use crate::protocol::ports::Ports;
use crate::time::Time;

/// States of the zones of a simulated drive.
#[derive(Clone, Debug)]
pub(super) struct SimulatedZones {
    zones: Zones,
    /// Number of commands that were refused.
    refusals: u64,
    /// Entries that have come before those in front of them, which a host's memory may read later.
    early: Vec<(Fetch, Vec<u8>)>,
}

impl SimulatedZones {
    /// Makes the zones of a drive, if it has some: full ones, as those of a drive in use.
    pub(super) fn full(drive: &Drive) -> Option<Box<SimulatedZones>> {
        drive.zone_layout().map(|layout| Box::new(SimulatedZones::of(Zones::full(layout))))
    }

    fn of(zones: Zones) -> SimulatedZones {
        SimulatedZones { zones, refusals: 0, early: Vec::new() }
    }

    /// Makes the zones of a drive on which nothing has been written.
    pub(super) fn empty(&self) -> SimulatedZones {
        SimulatedZones::of(Zones::new(*self.zones.layout()))
    }

    /// Returns the counters, by name.
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
}

impl Controller {
    /// Returns the command of an entry, or the status with which it is refused. Zones are asked here, in the order of the entries; the
    /// place of an append is then that of its data, and the data of a zone that is reset is gone.
    #[inline(always)]
    pub(super) fn check(&mut self, entry: &SubmissionEntry, ports: &mut Ports) -> Result<Command, Status> {
        if self.zones.is_some() { self.check_zoned(entry, ports) } else { Command::check(entry, &self.limits) }
    }

    /// Asks the zones about the command of an entry, too. Those of a copy are asked when its sources are known.
    #[inline(never)]
    fn check_zoned(&mut self, entry: &SubmissionEntry, ports: &mut Ports) -> Result<Command, Status> {
        let command = Command::check(entry, &self.limits)?;
        let is_copy = matches!(command.action, Action::Copy { .. });
        if is_copy { Ok(command) } else { self.ask_zones(command, &[], ports) }
    }

    /// Asks the zones about a command.
    pub(super) fn ask_zones(
        &mut self,
        mut command: Command,
        sources: &[(u64, u64)],
        ports: &mut Ports,
    ) -> Result<Command, Status> {
        let Some(SimulatedZones { zones, refusals, .. }) = self.zones.as_deref_mut() else { return Ok(command) };
        let (shift, place) = (self.limits.block_shift, (command.offset, command.bytes));
        let effect = admit(zones, command.action, place, sources, shift).inspect_err(|_| *refusals += 1)?;
        let layout = zones.layout();
        match effect {
            ZoneEffect::None => {}
            ZoneEffect::Placed(block) => command.offset = block << shift,
            ZoneEffect::Emptied(emptied) => emptied
                .into_iter()
                .for_each(|zone| ports.media.discard(layout.start(zone) << shift, layout.zone_blocks << shift)),
        }
        Ok(command)
    }

    /// True if fetched entries are the next of their queue; keeps them otherwise, as appends get their places in the order of entries.
    pub(super) fn is_next(&mut self, fetch: Fetch, bytes: &[u8]) -> bool {
        let is_next = fetch.first == self.queues[usize::from(fetch.queue)].head;
        if let Some(zones) = self.zones.as_deref_mut().filter(|_| !is_next) {
            zones.early.push((fetch, bytes.to_vec()));
        }
        is_next
    }

    /// Accepts entries of a queue that had come too early.
    pub(super) fn accept_early(&mut self, now: Time, queue: u16, ports: &mut Ports) {
        while let Some(SimulatedZones { early, .. }) = self.zones.as_deref_mut() {
            let head = self.queues[usize::from(queue)].head;
            let is_next = |(fetch, _): &(Fetch, Vec<u8>)| fetch.queue == queue && fetch.first == head;
            let Some(place) = early.iter().position(is_next) else { return };
            let (fetch, bytes) = early.swap_remove(place);
            self.accept_entries(now, fetch, &bytes, ports);
        }
    }

    /// Takes back a write that is refused after its zone has accepted it, because of its data pointer.
    #[cold]
    pub(super) fn take_back(&mut self, command: &Command) {
        let moves_pointer = matches!(command.action, Action::Write { .. } | Action::Append { .. });
        let Some(SimulatedZones { zones, .. }) = self.zones.as_deref_mut().filter(|_| moves_pointer) else { return };
        let shift = self.limits.block_shift;
        zones.take_back(command.offset >> shift, u64::from(command.bytes) >> shift);
    }

    /// Returns the value that a command returns in dwords 0 and 1 of its completion: the place of an append, or the length of the value
    /// of a key.
    #[inline(always)]
    pub(super) fn result_of(&self, command: &Command, value_bytes: u64) -> u64 {
        match command.action {
            Action::Append { .. } => command.offset >> self.limits.block_shift,
            Action::Key(_) => value_bytes,
            _ => 0,
        }
    }
}
