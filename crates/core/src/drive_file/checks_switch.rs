//! Conditions on switches between root ports and drives, and on a peer device at such a switch.

use crate::config::{Duplex, Switch};
use crate::drive::Drive;
use crate::link::rate::WireRate;
use crate::problem::BrokenCondition;

/// Returns all conditions that the switches and the peer device of a drive break.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let peer = [check_drives_at_peer_switch, check_peer_without_iommu, check_peer_without_interrupts];
    let peer = peer.iter().filter(|_| drive.peer.is_there()).filter_map(|check| check(drive));
    switch_conditions_to_check(drive)
        .iter()
        .filter_map(|check| check(drive))
        .chain(peer)
        .chain(check_shared_drive_without_network(drive))
        .collect()
}

/// Returns the checks of the drive's switches; none without switches.
fn switch_conditions_to_check(drive: &Drive) -> &'static [fn(&Drive) -> Option<BrokenCondition>] {
    match (drive.switch.has_hosts(), drive.switch.is_there()) {
        (true, _) => &[
            check_shared_device_interface,
            check_hosts_share_one_device,
            faults,
            duplex,
            check_no_delayed_writes_with_switch,
        ],
        (false, true) => {
            &[interface, faults, duplex, check_no_delayed_writes_with_switch, check_uplink_not_slower_than_link]
        }
        (false, false) => &[],
    }
}

/// Checks that no hosts share a drive behind a network through a switch of its link, and that no peer device holds its
/// data.
fn check_shared_drive_without_network(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.fabric.is_there() && (drive.switch.has_hosts() || drive.peer.is_there()),
        &["fabric.transport", "switch.hosts", "peer.holds"],
        String::from("fabric.transport is given with hosts or a peer at the switch of the drive's link"),
        String::from("switch.hosts = 0 and peer.holds = \"nothing\", or fabric.transport = \"none\""),
    )
}

/// Checks that several hosts share only a device whose protocol is routed by port.
fn check_shared_device_interface(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        !drive.protocol().is_routed_by_port(),
        &["switch.hosts", "interface"],
        format!(
            "switch.hosts is {} with {}, whose driver has its device alone",
            drive.switch.hosts,
            drive.protocol().title()
        ),
        String::from("switch.hosts = 0, or an interface whose device several hosts can share"),
    )
}

/// Checks that several hosts share only one device, and that no keys of switches in front of drives are given: all
/// ports of the shared switch have links as the device has.
fn check_hosts_share_one_device(drive: &Drive) -> Option<BrokenCondition> {
    let Switch { drives, generation, lanes, .. } = drive.switch;
    let of_none = Switch::default();
    let is_other = (drives, generation, lanes) != (of_none.drives, of_none.generation, of_none.lanes);
    BrokenCondition::when(
        is_other || drive.drives > 1,
        &["switch.hosts", "switch.drives", "switch.uplink_generation", "switch.uplink_lanes", "drives"],
        format!("switch.hosts is {} with several drives, or keys of switches in front of drives", drive.switch.hosts),
        String::from("one drive, switch.drives = 0 and no keys of uplinks: all ports of the switch are as [link] says"),
    )
}

/// Checks that the driver of the interface serves several drives, which a switch connects.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let found = format!("switch.drives is {} with {}", drive.switch.drives, drive.protocol().title());
    let allowed = String::from("switch.drives = 0, or an interface whose driver serves several drives");
    BrokenCondition::when(
        !drive.protocol().stands_beside_others(drive),
        &["switch.drives", "interface"],
        found,
        allowed,
    )
}

/// Checks that there are no fault rules with switches, because these rules match packets on a single link.
fn faults(drive: &Drive) -> Option<BrokenCondition> {
    let found = format!("switch.drives is {} with faults, which need a link without switches", drive.switch.drives);
    let allowed = String::from("switch.drives = 0, or no faults");
    BrokenCondition::when(!drive.faults.is_empty(), &["switch.drives", "faults"], found, allowed)
}

/// Checks that links behind a switch are full duplex.
fn duplex(drive: &Drive) -> Option<BrokenCondition> {
    let found = format!("link.duplex is \"shared\" with switch.drives {}", drive.switch.drives);
    let allowed = String::from("link.duplex = \"full\", or switch.drives = 0");
    BrokenCondition::when(drive.link.duplex == Duplex::Shared, &["link.duplex", "switch.drives"], found, allowed)
}

/// Checks that no writes are delayed at the root complex if there are switches: such a write keeps the credits of its
/// root port, which all drives behind the switch share.
fn check_no_delayed_writes_with_switch(drive: &Drive) -> Option<BrokenCondition> {
    let ratio = drive.root_complex.late_write_ratio;
    BrokenCondition::when(
        ratio > 0.0,
        &["root_complex.late_write_ratio", "switch.drives"],
        format!("root_complex.late_write_ratio is {ratio} with switch.drives {}", drive.switch.drives),
        String::from("root_complex.late_write_ratio = 0, or switch.drives = 0"),
    )
}

/// Checks that the uplink of a switch is no slower than a drive's link, so that a packet can leave the switch before
/// its end has arrived.
fn check_uplink_not_slower_than_link(drive: &Drive) -> Option<BrokenCondition> {
    let rates = [drive.switch.uplink(&drive.link), drive.link.clone()].map(|link| WireRate::new(&link).bytes_per_ns());
    let [uplink, link] = rates;
    BrokenCondition::when(
        uplink < link,
        &["switch.uplink_generation", "switch.uplink_lanes", "link.generation", "link.lanes"],
        format!("the uplink of a switch carries {uplink:.1} GB/s, the link of one drive {link:.1}"),
        String::from("an uplink no slower than the link of a drive"),
    )
}

/// Checks that all drives are behind the switch at which the peer device is.
fn check_drives_at_peer_switch(drive: &Drive) -> Option<BrokenCondition> {
    let (behind, drives) = (drive.switch.drives, drive.drives);
    BrokenCondition::when(
        behind < drives,
        &["peer.holds", "switch.drives", "drives"],
        format!("switch.drives is {behind} with {drives} drives and a peer"),
        String::from("switch.drives no less than drives: all drives and the peer share one switch"),
    )
}

/// Checks that no IOMMU translates addresses if there is a peer device: packets between drives and a peer do not pass
/// the IOMMU.
fn check_peer_without_iommu(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.root_complex.iommu,
        &["peer.holds", "root_complex.iommu"],
        String::from("root_complex.iommu is true with a peer, whose memory is reached without the root complex"),
        String::from("root_complex.iommu = false, or peer.holds = \"nothing\""),
    )
}

/// Checks that the interface has no interrupts if the peer device submits requests itself: such a peer polls for
/// completions in its own memory.
fn check_peer_without_interrupts(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.peer.has(false) && drive.protocol().no_interrupts().is_none(),
        &["peer.holds", "interface"],
        String::from("peer.holds is \"all\" with an interface that interrupts the host's processors"),
        String::from("an interface without interrupts, or peer.holds = \"data\""),
    )
}
