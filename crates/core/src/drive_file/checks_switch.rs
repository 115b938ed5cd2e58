//! Conditions on switches between root ports and drives, and on a peer of the drives at one.

use crate::config::{Duplex, Peer, Switch};
use crate::drive::Drive;
use crate::link::rate::WireRate;
use crate::problem::Broken;

/// All conditions that switches and peers break.
pub(super) fn broken(drive: &Drive) -> Vec<Broken> {
    let peer: Vec<Broken> = match drive.peer.is_there() {
        false => peer_without_effect(drive).into_iter().collect(),
        true => [peer_at_switch, peer_translated, peer_interrupted].iter().filter_map(|check| check(drive)).collect(),
    };
    switches(drive).into_iter().chain(peer).collect()
}

fn switches(drive: &Drive) -> Vec<Broken> {
    match drive.switch.is_there() {
        false => without_effect(drive).into_iter().collect(),
        true => [interface, faults, duplex, late, width].iter().filter_map(|check| check(drive)).collect(),
    }
}

/// What switches are like matters where there are any.
fn without_effect(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.switch != Switch::default(),
        &["switch.drives", "switch.uplink_generation", "switch.uplink_lanes", "switch.pass_ns"],
        String::from("switch.drives is 0, with other keys of [switch]"),
        String::from("switch.drives above 0, or none of them"),
    )
}

fn interface(drive: &Drive) -> Option<Broken> {
    let found = format!("switch.drives is {} with {}", drive.switch.drives, drive.protocol().title());
    let allowed = String::from("switch.drives = 0, or an interface of which several drives can stand in one host");
    Broken::when(!drive.protocol().stands_beside_others(drive), &["switch.drives", "interface"], found, allowed)
}

fn faults(drive: &Drive) -> Option<Broken> {
    let found = format!("switch.drives is {} with faults, whose packets meet one link", drive.switch.drives);
    Broken::when(!drive.faults.is_empty(), &["switch.drives", "faults"], found, String::from("one of them"))
}

fn duplex(drive: &Drive) -> Option<Broken> {
    let found = format!("link.duplex is \"shared\" with switch.drives {}", drive.switch.drives);
    let allowed = String::from("link.duplex = \"full\", or switch.drives = 0");
    Broken::when(drive.link.duplex == Duplex::Shared, &["link.duplex", "switch.drives"], found, allowed)
}

/// A write that is late holds the credits of the root port that it came by back, which is all drives' here.
fn late(drive: &Drive) -> Option<Broken> {
    let ratio = drive.root_complex.late_write_ratio;
    Broken::when(
        ratio > 0.0,
        &["root_complex.late_write_ratio", "switch.drives"],
        format!("root_complex.late_write_ratio is {ratio} with switch.drives {}", drive.switch.drives),
        String::from("root_complex.late_write_ratio = 0, or switch.drives = 0"),
    )
}

/// Packets pass a switch without waiting for their end only where the uplink keeps up with the link by which they come.
fn width(drive: &Drive) -> Option<Broken> {
    let rates = [drive.switch.uplink(&drive.link), drive.link.clone()].map(|link| WireRate::new(&link).bytes_per_ns());
    let [uplink, link] = rates;
    Broken::when(
        uplink < link,
        &["switch.uplink_generation", "switch.uplink_lanes", "link.generation", "link.lanes"],
        format!("the uplink of a switch carries {uplink:.1} GB/s, the link of one drive {link:.1}"),
        String::from("an uplink no slower than the link of a drive"),
    )
}

/// What a peer is like matters where something is in its memory.
fn peer_without_effect(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.peer != Peer::default(),
        &[
            "peer.holds",
            "peer.link_generation",
            "peer.link_lanes",
            "peer.payload_bytes",
            "peer.memory_read_ns",
            "peer.memory_write_ns",
        ],
        String::from("peer.holds is \"nothing\", with other keys of [peer]"),
        String::from("peer.holds = \"data\" or \"all\", or none of them"),
    )
}

/// All drives reach the peer without passing another switch.
fn peer_at_switch(drive: &Drive) -> Option<Broken> {
    let (behind, drives) = (drive.switch.drives, drive.drives);
    Broken::when(
        behind < drives,
        &["peer.holds", "switch.drives", "drives"],
        format!("switch.drives is {behind} with {drives} drives and a peer"),
        String::from("one switch for all drives, at which the peer stands: switch.drives no less than drives"),
    )
}

/// What stays behind a switch is translated by nobody.
fn peer_translated(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.root_complex.iommu,
        &["peer.holds", "root_complex.iommu"],
        String::from("root_complex.iommu is true with a peer, whose memory is reached without the root complex"),
        String::from("root_complex.iommu = false, or peer.holds = \"nothing\""),
    )
}

/// A peer that asks looks for completions in its own memory.
fn peer_interrupted(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.peer.has(false) && drive.protocol().no_interrupts().is_none(),
        &["peer.holds", "interface"],
        String::from("peer.holds is \"all\" with interrupts, which go to a host's processors"),
        String::from("an interface without interrupts, or peer.holds = \"data\""),
    )
}
