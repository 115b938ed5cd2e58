//! Coverage of trials: packets of each protocol that were on the wire in runs with each fault.

use std::collections::{BTreeMap, BTreeSet};

use super::trial::Reached;
use crate::config::{Fault, FaultAction, FaultSubject};
use crate::drive::{Drive, Interface};
use crate::drive_file::shipped;
use crate::report::Table;

/// Number of runs in which each packet of a protocol, by name, was on the wire.
type Packets = BTreeMap<String, u64>;

/// True if a fault can happen to some drive of this one's protocol: every fault can, but those of interrupts only if
/// one of the protocol's messages is an interrupt.
fn can_happen(action: FaultAction, drive: &Drive) -> bool {
    let has_interrupts = || drive.protocol().messages().iter().any(|name| name.starts_with("interrupt"));
    let fault = Fault { action, ..Fault::default() };
    fault.subject() != FaultSubject::Interrupt || has_interrupts()
}

/// Name of a packet without its direction.
fn message(packet: &str) -> &str {
    packet.rsplit_once(' ').map_or(packet, |(message, _)| message)
}

/// Packets and faults that have been reached so far.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Packets by protocol and fault; `None` for runs without a fault.
    reached: BTreeMap<(&'static str, Option<FaultAction>), Packets>,
    runs: BTreeMap<&'static str, u64>,
    /// Number of requests of all runs.
    pub ios: u64,
}

impl Coverage {
    /// Adds what a run has reached.
    pub fn add(&mut self, run: &Reached) {
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

    /// Number of pairs of a protocol's packet and a fault that have been reached.
    pub fn pairs(&self) -> usize {
        self.reached.values().map(BTreeMap::len).sum()
    }

    /// Table of the number of kinds of packets that were on the wire while each fault happened, for each protocol, out
    /// of all its kinds.
    pub fn table(&self) -> String {
        let mut table = Table::new().left("packets reached");
        for interface in Interface::ALL {
            table = table.right(interface.name());
        }
        table.row(self.row("runs", |name| self.runs.get(name).copied().unwrap_or(0).to_string()));
        table.row(self.row("kinds of packets", |name| self.kinds(name).len().to_string()));
        table.group();
        let actions = std::iter::once(None).chain(FaultAction::ALL.into_iter().map(Some));
        for action in actions {
            let title = action.map_or("nothing happens", FaultAction::name);
            table.row(self.row(title, |name| {
                self.reached.get(&(name, action)).map_or(String::from("-"), |packets| packets.len().to_string())
            }));
        }
        table.to_string()
    }

    /// Lists what protocols and faults make reachable and has not been reached: faults that have happened in no run of
    /// a protocol, and messages that no run has had on the wire.
    pub fn unreached(&self) -> Vec<String> {
        let of = |interface: &Interface| {
            let name = interface.name();
            let drive = shipped::names().filter_map(Drive::shipped).find(|drive| drive.interface == *interface);
            let drive = drive.expect("every interface has a drive that is shipped");
            let no_row = |action: &FaultAction| !self.reached.contains_key(&(name, Some(*action)));
            let faults = FaultAction::ALL.into_iter().filter(|action| can_happen(*action, &drive)).filter(no_row);
            let faults = faults.map(|action| format!("{name}: {} has happened in no run", action.name()));
            let been: BTreeSet<&str> = self.kinds(name).into_iter().map(message).collect();
            let messages: BTreeSet<&str> = drive.protocol().messages().into_iter().collect();
            let missing = messages.into_iter().filter(|message| !been.contains(message));
            let missing = missing.map(|message| format!("{name}: no run has had \"{message}\" on the wire"));
            faults.chain(missing).collect::<Vec<_>>()
        };
        Interface::ALL.iter().flat_map(of).collect()
    }

    fn row(&self, title: &str, cell: impl Fn(&'static str) -> String) -> Vec<String> {
        let cells = Interface::ALL.iter().map(|interface| cell(interface.name()));
        std::iter::once(String::from(title)).chain(cells).collect()
    }

    /// All kinds of a protocol's packets that have been on the wire.
    fn kinds(&self, name: &str) -> BTreeSet<&str> {
        let own = self.reached.iter().filter(|((interface, _), _)| *interface == name);
        own.flat_map(|(_, packets)| packets.keys().map(String::as_str)).collect()
    }
}
