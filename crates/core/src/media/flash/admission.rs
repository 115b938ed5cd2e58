//! Admission of write commands to a flash drive's write buffer: servers that each command occupies once its data is in
//! the buffer, and after them the zone that it writes.
//!
//! Firmware or hardware handles a bounded number of commands at a time, so that commands a second have a limit however
//! few bytes they carry. A zone accepts one command at a time. Both keep the order of arrival, and the zone follows the
//! servers, so that a crowded zone keeps no server from the commands of others.
//!
//! ```text
//!     data in the buffer -> wait -> [server: command, append, merges] -> wait -> [zone] -> acknowledged
//! ```

use crate::config;
use crate::number::{narrow, short_length};
use crate::table::SmallSortedMap;
use crate::time::{Span, Time};

/// Servers of the write buffer's command path and the zones behind them, each with the time at which it is free.
#[derive(Clone, Debug)]
pub(super) struct WriteAdmission {
    costs: AdmissionServiceTimes,
    /// Time at which each server of the write buffer's command path is free.
    servers: Vec<Time>,
    /// Time at which each zone that has been written accepts another command, by zone number.
    zones: SmallSortedMap<u32, Time>,
    /// Number of bytes from the start of one zone to the start of the next; 0 if zones have no limit of their own.
    zone_bytes: u64,
    /// Service time of all commands so far, summed over the servers.
    busy: Span,
    /// True if the next command is a Zone Append.
    is_append: bool,
}

/// Service times of a write command at the write buffer and at its zone.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionServiceTimes {
    /// Service time of any write command.
    command: Span,
    /// Service time that a Zone Append adds.
    append: Span,
    /// Service time that each mapping unit adds that is covered only in part.
    merge: Span,
    /// Time for which a command occupies its zone.
    pub zone: Span,
}

/// Write command as its admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct AdmittedWriteCommand {
    /// First byte of the command's range on the drive.
    pub offset: u64,
    /// True if the command is a Zone Append.
    pub is_append: bool,
    /// Number of mapping units that the command covers only in part.
    pub partial_units: u32,
}

/// Passage of a write command through the servers and its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdmissionPassage {
    /// Time that the command has waited for a server and for its zone.
    pub(super) waited: Span,
    /// Time at which the command has passed.
    pub(super) ended: Time,
}

impl AdmissionServiceTimes {
    /// Returns the service times that the configuration of write buffer and zones gives.
    pub fn of(buffer: &config::Buffer, zones: &config::Zoning) -> AdmissionServiceTimes {
        let config::Buffer { command, merge, .. } = *buffer;
        AdmissionServiceTimes { command, append: zones.append, merge, zone: zones.command }
    }

    /// Returns the time for which a write command occupies a server of the write buffer.
    pub fn buffer_service_time(&self, write: &AdmittedWriteCommand) -> Span {
        let append = if write.is_append { self.append } else { Span::ZERO };
        self.command + append + self.merge * u64::from(write.partial_units)
    }
}

impl WriteAdmission {
    /// Creates the idle servers of a write buffer from its configuration, without zones.
    pub(super) fn new(buffer: &config::Buffer) -> WriteAdmission {
        WriteAdmission {
            costs: AdmissionServiceTimes::of(buffer, &config::Zoning::default()),
            servers: vec![Time::ZERO; buffer.command_servers.into()],
            zones: SmallSortedMap::default(),
            zone_bytes: 0,
            busy: Span::ZERO,
            is_append: false,
        }
    }

    /// Adds the service times of appends and of zones from the configuration of zones.
    pub(super) fn add_zones(&mut self, zones: &config::Zoning) {
        (self.costs.append, self.costs.zone) = (zones.append, zones.command);
        self.zone_bytes = if zones.command.is_zero() { 0 } else { zones.zone_bytes() };
    }

    /// Makes the next command a Zone Append.
    pub(super) fn mark_append(&mut self) {
        self.is_append = true;
    }

    /// Returns the next command, a write from byte `offset` of the drive on, without partial units so far.
    pub(super) fn take_command(&mut self, offset: u64) -> AdmittedWriteCommand {
        AdmittedWriteCommand { offset, is_append: std::mem::take(&mut self.is_append), partial_units: 0 }
    }

    /// Passes a write command whose data is in the buffer at `at` through the first free server and through its zone.
    pub(super) fn pass(&mut self, at: Time, write: &AdmittedWriteCommand) -> AdmissionPassage {
        let service = self.costs.buffer_service_time(write);
        let (mut waited, mut ended) = (Span::ZERO, at);
        if !service.is_zero() {
            let server = self.servers.iter_mut().min().expect("a write buffer has at least one server");
            waited = server.since(at);
            ended = at + waited + service;
            *server = ended;
            self.busy += service;
        }
        if let Some(zone) = write.offset.checked_div(self.zone_bytes) {
            let zone = narrow::<u32, u64>(zone);
            let free_at = self.zones.get(&zone).copied().unwrap_or(Time::ZERO);
            let wait = free_at.since(ended);
            (waited, ended) = (waited + wait, ended + wait + self.costs.zone);
            self.zones.insert(zone, ended);
        }
        AdmissionPassage { waited, ended }
    }

    /// Makes all servers and zones idle, as a loss of power does.
    pub(super) fn cut_power(&mut self) {
        self.servers.fill(Time::ZERO);
        self.zones = SmallSortedMap::default();
    }

    /// Returns the number of servers, and their busy time up to `now` summed over all of them; `None` if commands take
    /// no time.
    pub(super) fn used(&self, now: Time) -> Option<(u32, Span)> {
        let AdmissionServiceTimes { command, append, merge, .. } = self.costs;
        let later: Span = self.servers.iter().map(|free_at| free_at.since(now)).sum();
        let servers = short_length(self.servers.len());
        (!(command + append + merge).is_zero()).then(|| (servers, self.busy.saturating_sub(later)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn write(offset: u64) -> AdmittedWriteCommand {
        AdmittedWriteCommand { offset, is_append: false, partial_units: 0 }
    }

    fn admission(command_servers: u16, zone_us: u64) -> WriteAdmission {
        let us = Span::from_us;
        let buffer = config::Buffer { command: us(4), command_servers, merge: us(1), ..config::Buffer::default() };
        let zones = config::Zoning { size_mib: 1, append: us(2), command: us(zone_us), ..config::Zoning::default() };
        let mut admission = WriteAdmission::new(&buffer);
        admission.add_zones(&zones);
        admission
    }

    #[test]
    fn write_command_waits_for_the_first_free_server() {
        let mut two = admission(2, 0);
        let ends = [0, 0, 1, 20].map(|us| two.pass(at(us), &write(0)));
        assert_eq!(ends.map(|passage| passage.ended), [at(4), at(4), at(8), at(24)]);
        assert_eq!(ends.map(|passage| passage.waited.as_ns()), [0.0, 0.0, 3000.0, 0.0]);
        assert_eq!((two.used(at(24)), two.used(at(22))), (Some((2, Span::from_us(16))), Some((2, Span::from_us(14)))));
    }

    #[test]
    fn appends_and_partial_units_take_longer_at_the_buffer() {
        let mut one = admission(1, 0);
        let append = AdmittedWriteCommand { is_append: true, partial_units: 2, ..write(0) };
        assert_eq!(one.pass(at(0), &append), AdmissionPassage { waited: Span::ZERO, ended: at(8) });
    }

    #[test]
    fn commands_of_a_zone_are_serialised_and_other_zones_do_not_wait() {
        let mut many = admission(8, 10);
        let ends = [0, 4096, 1 << 20, 1 << 21].map(|offset| many.pass(at(0), &write(offset)).ended);
        assert_eq!(ends, [at(14), at(24), at(14), at(14)]);
        many.cut_power();
        assert_eq!(many.pass(at(0), &write(0)).ended, at(14));
    }
}
