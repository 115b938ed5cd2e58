//! Events that survive a power cycle of the drive, and the log page that reports them: Persistent Event Log (Base
//! Specification 2.0, section 5.16.1.14).

use std::collections::VecDeque;

use phaselink_core::number::{index, length, low_u8, low_u16, short_length};
use phaselink_core::protocol::nvme::spec::identify::IdentifyController;
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{PersistentEvent, PersistentEventHeader as Header};

/// Most events in the persistent event log. One more replaces the oldest.
const EVENTS_MAX: usize = 512;
/// Most bytes of data of one event in the log. The rest is cut off.
const DATA_BYTES_MAX: usize = 64;
/// Largest size of the persistent event log in units of 64 KiB (PELS).
pub(super) const LOG_UNITS: u32 = 1;

/// Types of events in the persistent event log.
pub(super) mod event {
    /// SMART / Health Log Snapshot: the log page SMART / Health Information at the time of the report.
    pub(crate) const HEALTH_SNAPSHOT: u8 = 0x01;
    /// Change Namespace: a namespace has been created or deleted.
    pub(crate) const CHANGE_NAMESPACE: u8 = 0x06;
    /// Format NVM Completion: a Format NVM command has ended.
    pub(crate) const FORMAT_COMPLETION: u8 = 0x08;
    /// Sanitize Start: a sanitize operation has begun.
    pub(crate) const SANITIZE_START: u8 = 0x09;
    /// Sanitize Completion: a sanitize operation has ended.
    pub(crate) const SANITIZE_COMPLETION: u8 = 0x0a;
    pub(crate) const ALL: [u8; 5] =
        [HEALTH_SNAPSHOT, CHANGE_NAMESPACE, FORMAT_COMPLETION, SANITIZE_START, SANITIZE_COMPLETION];
}

/// Latest events of a drive, which its store keeps across power cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentEventLog {
    /// Events in the format of the log page, the oldest first.
    events: VecDeque<Vec<u8>>,
    /// Number of reporting contexts that hosts have established, modulo 65536.
    generation: u16,
}

/// Fields of the persistent event log's header that describe the controller that reports it.
#[derive(Clone, Debug)]
pub(super) struct LogReporter<'a> {
    /// Timestamp, in the format of the feature Timestamp.
    pub timestamp: [u8; 8],
    /// PCI vendor identifier, which is the subsystem vendor identifier too.
    pub vendor: u16,
    /// Data structure of Identify Controller.
    pub controller: &'a [u8],
}

impl PersistentEventLog {
    /// Adds an event of a type (see `event`) with its data, and removes the oldest if the log is full.
    pub(super) fn push(&mut self, kind: u8, timestamp: [u8; 8], data: &[u8]) {
        self.events.push_back(encode(kind, timestamp, &data[..data.len().min(DATA_BYTES_MAX)]));
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    /// Returns the record from which the store restores the log after a power cycle.
    pub(super) fn encode(&self) -> Vec<u8> {
        let lengths =
            self.events.iter().flat_map(|event| [&short_length(event.len()).to_le_bytes()[..], event].concat());
        self.generation.to_le_bytes().into_iter().chain(lengths).collect()
    }

    /// Restores the log from a store's record. An incomplete event at its end is dropped.
    pub(super) fn decode(record: &[u8]) -> PersistentEventLog {
        let mut log = PersistentEventLog::default();
        let Some((generation, mut rest)) = record.split_first_chunk() else { return log };
        log.generation = u16::from_le_bytes(*generation);
        while let Some((length, others)) = rest.split_first_chunk() {
            let Some((event, others)) = others.split_at_checked(index(u32::from_le_bytes(*length))) else { break };
            log.events.push_back(event.to_vec());
            rest = others;
        }
        log
    }

    /// Establishes a reporting context: returns the whole log page as of now, with a snapshot of the log page SMART /
    /// Health Information as its last event.
    pub(super) fn report(&mut self, reporter: &LogReporter<'_>, health: &[u8]) -> Vec<u8> {
        self.generation = self.generation.wrapping_add(1);
        let snapshot = encode(event::HEALTH_SNAPSHOT, reporter.timestamp, health);
        let events: Vec<&Vec<u8>> = self.events.iter().chain([&snapshot]).collect();
        let bytes = Header::BYTES + events.iter().map(|event| event.len()).sum::<usize>();
        let controller = IdentifyController::over(reporter.controller);
        let header = Header::zeros()
            .with(Header::ID, 0x0d)
            .with(Header::EVENTS, short_length(events.len()))
            .with(Header::LENGTH, length(bytes))
            .with(Header::REVISION, 2)
            .with(Header::HEADER_LENGTH, low_u16(short_length(Header::BYTES)) - 20)
            .with(Header::TIMESTAMP, reporter.timestamp)
            .with(Header::POWER_CYCLES, 1)
            .with(Header::VENDOR, reporter.vendor)
            .with(Header::SUBSYSTEM_VENDOR, reporter.vendor)
            .with(Header::SERIAL, controller.get(IdentifyController::SERIAL))
            .with(Header::MODEL, controller.get(IdentifyController::MODEL))
            .with(Header::SUBSYSTEM_NAME, controller.get(IdentifyController::SUBSYSTEM_NAME))
            .with(Header::GENERATION, self.generation)
            .with(Header::EVENT_TYPES, logged_event_types());
        events.iter().fold(header.into_bytes().to_vec(), |page, event| [page, event.to_vec()].concat())
    }
}

/// Returns the bits of the types of events in the log.
fn logged_event_types() -> [u8; 32] {
    let mut types = [0; 32];
    event::ALL.into_iter().for_each(|kind| types[usize::from(kind / 8)] |= 1 << (kind % 8));
    types
}

/// Returns an event in the format of the log page.
fn encode(kind: u8, timestamp: [u8; 8], data: &[u8]) -> Vec<u8> {
    let header = PersistentEvent::zeros()
        .with(PersistentEvent::TYPE, kind)
        .with(PersistentEvent::REVISION, 1)
        .with(PersistentEvent::HEADER_LENGTH, low_u8(short_length(PersistentEvent::BYTES)) - 3)
        .with(PersistentEvent::TIMESTAMP, timestamp)
        .with(PersistentEvent::DATA_BYTES, low_u16(short_length(data.len())));
    [&header.into_bytes()[..], data].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_events_are_kept_and_restored() {
        let mut log = PersistentEventLog::default();
        for number in 0..EVENTS_MAX as u32 + 10 {
            log.push(event::SANITIZE_START, [0; 8], &number.to_le_bytes());
        }
        let controller = vec![0; 4096];
        let reporter = LogReporter { timestamp: [0; 8], vendor: 1, controller: &controller };
        let page = log.report(&reporter, &[0; 512]);
        let last = page.len() - PersistentEvent::BYTES - 512 - 4;
        assert_eq!(page[last..last + 4], (EVENTS_MAX as u32 + 9).to_le_bytes());
        assert_eq!(page[8..16], (page.len() as u64).to_le_bytes());
        assert!(page.len() <= LOG_UNITS as usize * (64 << 10));
        assert_eq!(PersistentEventLog::decode(&log.encode()), log);
        assert_eq!(PersistentEventLog::decode(&log.encode()[..40]).events.len(), 1, "as far as it is whole");
    }
}
