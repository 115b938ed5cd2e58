//! Events that survive a power cycle of the drive, and the log page that reports them: Persistent Event Log (Base
//! Specification 2.0, section 5.16.1.14).

use phaselink_core::number::{index, short_length};
use std::collections::VecDeque;

/// Most events in the persistent event log. One more replaces the oldest.
const EVENTS_MAX: usize = 512;
/// Length in bytes of the log page's header, before the first event; `EVENT_HEADER_BYTES` is the length of an event's
/// header, before its data.
const HEADER_BYTES: usize = 512;
const EVENT_HEADER_BYTES: usize = 24;
/// Most bytes of data of one event in the log. The rest is cut off.
const DATA_BYTES_MAX: usize = 64;
/// Largest size of the persistent event log in units of 64 KiB (PELS).
pub(super) const LOG_UNITS: u32 = 1;

/// Types of events in the persistent event log (figure 225).
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
pub struct EventLog {
    /// Events in the format of the log page (figure 224), the oldest first.
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

impl EventLog {
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
    pub(super) fn decode(record: &[u8]) -> EventLog {
        let mut log = EventLog::default();
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
        let bytes = HEADER_BYTES + events.iter().map(|event| event.len()).sum::<usize>();
        let mut page = vec![0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x0d]);
        put(4, &short_length(events.len()).to_le_bytes());
        put(8, &(bytes as u64).to_le_bytes());
        // Revision of the log page, and length of the header after this field.
        put(16, &[2]);
        put(18, &(HEADER_BYTES as u16 - 20).to_le_bytes());
        put(20, &reporter.timestamp);
        // Power Cycle Count.
        put(44, &1_u64.to_le_bytes());
        put(52, &reporter.vendor.to_le_bytes());
        put(54, &reporter.vendor.to_le_bytes());
        // Serial number, model number and subsystem name, copied from Identify Controller.
        put(56, &reporter.controller[4..64]);
        put(116, &reporter.controller[768..1024]);
        put(372, &self.generation.to_le_bytes());
        for kind in event::ALL {
            page[480 + usize::from(kind / 8)] |= 1 << (kind % 8);
        }
        events.iter().fold(page, |page, event| [page, event.to_vec()].concat())
    }
}

/// Returns an event in the format of the log page (figure 224).
fn encode(kind: u8, timestamp: [u8; 8], data: &[u8]) -> Vec<u8> {
    let mut event = vec![0; EVENT_HEADER_BYTES];
    event[0] = kind;
    event[1] = 1;
    // Length of the header after this field.
    event[2] = EVENT_HEADER_BYTES as u8 - 3;
    event[6..14].copy_from_slice(&timestamp);
    event[22..24].copy_from_slice(&(data.len() as u16).to_le_bytes());
    event.extend(data);
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_events_are_kept_and_come_back_from_their_record() {
        let mut log = EventLog::default();
        for number in 0..EVENTS_MAX as u32 + 10 {
            log.push(event::SANITIZE_START, [0; 8], &number.to_le_bytes());
        }
        let controller = vec![0; 4096];
        let reporter = LogReporter { timestamp: [0; 8], vendor: 1, controller: &controller };
        let page = log.report(&reporter, &[0; 512]);
        let last = page.len() - EVENT_HEADER_BYTES - 512 - 4;
        assert_eq!(page[last..last + 4], (EVENTS_MAX as u32 + 9).to_le_bytes());
        assert_eq!(page[8..16], (page.len() as u64).to_le_bytes());
        assert!(page.len() <= LOG_UNITS as usize * (64 << 10));
        assert_eq!(EventLog::decode(&log.encode()), log);
        assert_eq!(EventLog::decode(&log.encode()[..40]).events.len(), 1, "as far as it is whole");
    }
}
