//! Coverage of torture runs: the packets of each protocol that were on the wire in runs with each fault.

use std::collections::{BTreeMap, BTreeSet};

use super::trial::TrialCoverage;
use crate::config::{Fault, FaultAction, FaultSubject};
use crate::drive::{Drive, Interface};
use crate::drive_file::shipped;

/// Number of runs that had each packet of a protocol on the wire, by the packet's name.
type Packets = BTreeMap<String, u64>;

/// True if a fault can occur with this drive's protocol. Every fault can, except two kinds: faults of interrupts if no
/// message of the protocol is an interrupt, and faults of connections, because drives of these runs are in their host.
fn is_fault_possible(action: FaultAction, drive: &Drive) -> bool {
    let has_interrupts = || drive.protocol().messages().iter().any(|name| name.starts_with("interrupt"));
    let fault = Fault { action, ..Fault::default() };
    !action.is_network_connection_effect() && (fault.subject() != FaultSubject::Interrupt || has_interrupts())
}

/// Returns the name of a packet without its direction (`up` or `down`).
fn message(packet: &str) -> &str {
    packet.rsplit_once(' ').map_or(packet, |(message, _)| message)
}

/// Packets and faults that all torture runs together have covered so far.
#[derive(Clone, Debug, Default)]
pub struct TortureCoverage {
    /// Packets by name of the protocol and fault; `None` for runs in which no fault occurred.
    reached: BTreeMap<(&'static str, Option<FaultAction>), Packets>,
    runs: BTreeMap<&'static str, u64>,
    /// Number of requests in all torture runs so far.
    pub ios: u64,
}

impl TortureCoverage {
    /// Adds the packets and faults that one run has covered.
    pub fn add(&mut self, run: &TrialCoverage) {
        if run.interface.is_empty() {
            return;
        }
        *self.runs.entry(run.interface).or_default() += 1;
        self.ios += run.ios;
        let happened: Vec<Option<FaultAction>> = match run.faults.is_empty() {
            true => vec![None],
            false => run.faults.iter().copied().map(Some).collect(),
        };
        for action in happened {
            let packets = self.reached.entry((run.interface, action)).or_default();
            for packet in &run.packets {
                *packets.entry(packet.clone()).or_default() += 1;
            }
        }
    }

    /// Returns the number of covered pairs of a protocol's packet and a fault that occurred in the same run.
    pub fn pairs(&self) -> usize {
        self.reached.values().map(BTreeMap::len).sum()
    }

    /// Returns the number of torture runs with drives of a protocol, given by the protocol's name.
    pub fn runs(&self, interface: &str) -> u64 {
        self.runs.get(interface).copied().unwrap_or(0)
    }

    /// Returns the number of kinds of packets that a protocol, given by its name, has had on the wire in any run.
    pub fn packet_kind_count(&self, interface: &str) -> usize {
        self.packet_kinds_of_protocol(interface).len()
    }

    /// Returns the number of kinds of packets on the wire in runs of a protocol with a fault, or without any fault.
    /// `None` if there was no such run.
    pub fn packet_kinds_with_fault(&self, interface: &'static str, fault: Option<FaultAction>) -> Option<usize> {
        self.reached.get(&(interface, fault)).map(BTreeMap::len)
    }

    /// Returns texts for what no run has covered: faults that never occurred with a protocol, and messages that were
    /// never on the wire.
    pub fn uncovered_case_texts(&self) -> Vec<String> {
        let of = |interface: &Interface| {
            let name = interface.name();
            let drive = shipped::names().filter_map(Drive::shipped).find(|drive| drive.interface == *interface);
            let drive = drive.expect("every interface has a drive that is shipped");
            let no_row = |action: &FaultAction| !self.reached.contains_key(&(name, Some(*action)));
            let faults =
                FaultAction::ALL.into_iter().filter(|action| is_fault_possible(*action, &drive)).filter(no_row);
            let faults = faults.map(|action| format!("{name}: {} has happened in no run", action.name()));
            let been: BTreeSet<&str> = self.packet_kinds_of_protocol(name).into_iter().map(message).collect();
            let messages: BTreeSet<&str> = drive.protocol().messages().into_iter().collect();
            let missing = messages.into_iter().filter(|message| !been.contains(message));
            let missing = missing.map(|message| format!("{name}: no run has had \"{message}\" on the wire"));
            faults.chain(missing).collect::<Vec<_>>()
        };
        Interface::ALL.iter().flat_map(of).collect()
    }

    /// Returns all kinds of packets that a protocol has had on the wire in any run.
    fn packet_kinds_of_protocol(&self, name: &str) -> BTreeSet<&str> {
        let own = self.reached.iter().filter(|((interface, _), _)| *interface == name);
        own.flat_map(|(_, packets)| packets.keys().map(String::as_str)).collect()
    }
}
