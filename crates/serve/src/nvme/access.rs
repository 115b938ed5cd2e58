//! Asymmetric namespace access (Base Specification 2.0, section 8.1): the status of commands on a path without access, and
//! the log page that tells a host how good its path to each namespace is.

use phaselink_core::number::short_length;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{AccessGroup, AccessHeader};

use crate::device::paths::{DrivePaths, PathState, TRANSITION_MAX};

/// Bits of ANACAP: the five states are reported, and the group of a namespace does not change.
pub(super) const ACCESS_CAPABILITIES: u8 = 0b0101_1111;
/// Longest time in seconds that a path stays in the state Change (ANATT).
pub(super) const TRANSITION_SECONDS: u8 = 10;
const _: () = assert!(TRANSITION_MAX.as_secs() == 10, "hosts are told the time that holds");

/// Returns the status with which commands on a path in this state are refused, or none if they are allowed.
pub(super) fn refusal_status(state: PathState) -> Option<Status> {
    match state {
        PathState::Optimized | PathState::NonOptimized => None,
        PathState::Lost => Some(Status::ACCESS_LOST),
        PathState::Inaccessible => Some(Status::INACCESSIBLE),
        PathState::Changing => Some(Status::ACCESS_CHANGES),
    }
}

/// Returns the log page Asymmetric Namespace Access of a path: a group for each of these namespaces, with its only
/// namespace unless the host asks for groups alone.
pub(super) fn log_page(
    paths: &DrivePaths,
    path: u32,
    namespaces: impl Iterator<Item = u32>,
    groups_alone: bool,
) -> Vec<u8> {
    let (mut groups, mut count) = (Vec::new(), 0_usize);
    for namespace in namespaces {
        let members = u32::from(!groups_alone);
        let group = AccessGroup::zeros()
            .with(AccessGroup::GROUP, namespace)
            .with(AccessGroup::NAMESPACES, members)
            .with(AccessGroup::CHANGES, paths.changes(path, namespace).1)
            .with(AccessGroup::STATE, paths.state(path, namespace).number());
        groups.extend(group.into_bytes());
        if !groups_alone {
            groups.extend(namespace.to_le_bytes());
        }
        count += 1;
    }
    let header = AccessHeader::zeros()
        .with(AccessHeader::CHANGES, paths.changes(path, 0).0)
        .with(AccessHeader::GROUPS, u16::try_from(short_length(count)).unwrap_or(u16::MAX));
    [&header.into_bytes()[..], &groups].concat()
}
