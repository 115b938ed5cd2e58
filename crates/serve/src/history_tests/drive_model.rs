//! Drive that executes the calls of hosts one by one, as a model for the [checker](super::checker).
//!
//! It is written without the controller. It shares the core's rules of reservations with the controller; their table is
//! proved elsewhere.

use std::collections::VecDeque;
use std::fmt;

use phaselink_core::protocol::nvme::rules::reservation::{
    AcquireAction, NamespaceAccess, ReservationCommand, ReservationKeys, ReservationNoticeKind, Reservations,
    ReservingHost,
};
use phaselink_core::protocol::nvme::spec::Status;

use crate::device::paths::PathState;

/// Number of blocks that hosts read and write.
pub(super) const BLOCKS: usize = 3;

/// Action of a host, of the administrator or of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostAction {
    /// Read of a block, whose response has its value.
    Read {
        /// Number of the block.
        block: usize,
    },
    /// Write of a value to a block.
    Write {
        /// Number of the block.
        block: usize,
        /// Value of the whole block.
        value: u64,
    },
    /// Compare of a block with a value.
    Compare {
        /// Number of the block.
        block: usize,
        /// Value with which the block is compared.
        value: u64,
    },
    /// Reservation command; the response to a report has its bytes.
    Reserve(ReservationCommand, ReservationKeys),
    /// Read of the log page Reservation Notification, whose response has the kind of the oldest notice, 0 for none.
    ReadNotice,
    /// Read of the log page Asymmetric Namespace Access, whose response has the number of changes and the state.
    ReadPath,
    /// Reset of the path's controller, which the host then sets up anew.
    Connect,
    /// Change of the path's state by the administrator.
    SetPath(PathState),
    /// Restart of the server, which ends all controllers.
    Restart,
    /// Look at a block in the store, at the end of the history.
    Inspect {
        /// Number of the block.
        block: usize,
    },
}

/// Response to a call: the status of its completion, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallOutcome {
    /// Status of the completion, without Do Not Retry.
    pub(super) status: Status,
    /// Data that the host has received.
    pub(super) data: Vec<u8>,
}

/// Call of a host with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostCall {
    /// Number of the host.
    pub(super) host: usize,
    /// Number of the path.
    pub(super) path: usize,
    /// Action that the call demands.
    pub(super) action: HostAction,
    /// Step at which the call was submitted.
    pub(super) invoked: u32,
    /// Step after which the call has no effect any more: that of its completion, or that of the reset that ended it.
    pub(super) ended: u32,
    /// Step at which the controller refused or executed the command, none if it never did. The search tries this order first.
    pub(super) executed: Option<u32>,
    /// Response that the host has seen; none if a reset or a restart has ended the call, with its effect or without.
    pub(super) response: Option<CallOutcome>,
}

/// Drive, as the calls before a moment have left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReferenceDrive {
    blocks: [u64; BLOCKS],
    reservations: Reservations,
    /// State and number of changes of each path.
    paths: Vec<(PathState, u8)>,
    /// Notices that the host of each path has not read.
    notices: Vec<VecDeque<ReservationNoticeKind>>,
    /// Host of each path.
    hosts: Vec<usize>,
    /// Hosts whose commands another host has aborted.
    aborted: Vec<usize>,
}

/// Returns the identifier with which a host registers.
pub(super) fn host_id(host: usize) -> [u8; 16] {
    [u8::try_from(host + 1).unwrap_or(u8::MAX); 16]
}

impl ReferenceDrive {
    /// Returns a new drive with a path for each of these hosts.
    pub(super) fn new(hosts: &[usize]) -> ReferenceDrive {
        ReferenceDrive {
            blocks: [0; BLOCKS],
            reservations: Reservations::default(),
            paths: vec![(PathState::Optimized, 0); hosts.len()],
            notices: vec![VecDeque::new(); hosts.len()],
            hosts: hosts.to_vec(),
            aborted: Vec::new(),
        }
    }

    /// Returns the states in which a call may leave the drive, if it is the next one; none if it cannot be.
    pub(super) fn successors(&self, call: &HostCall) -> Vec<ReferenceDrive> {
        let (next, expected) = self.executed(call);
        match &call.response {
            None if next == *self => vec![next],
            None if call.executed.is_none() => vec![self.clone(), next],
            None => vec![next, self.clone()],
            Some(response) if *response == expected => vec![next],
            Some(response) if response.status == Status::PREEMPTED && self.aborted.contains(&call.host) => {
                vec![self.clone()]
            }
            Some(_) => Vec::new(),
        }
    }

    /// Returns the drive after a call, and its response.
    fn executed(&self, call: &HostCall) -> (ReferenceDrive, CallOutcome) {
        let mut next = self.clone();
        let (status, data) = next.execute(call);
        (next, CallOutcome { status: status.kind(), data })
    }

    fn execute(&mut self, call: &HostCall) -> (Status, Vec<u8>) {
        match call.action {
            HostAction::ReadNotice => {
                return (
                    Status::SUCCESS,
                    vec![self.notices[call.path].pop_front().map_or(0, ReservationNoticeKind::number)],
                );
            }
            HostAction::ReadPath => {
                let (state, changes) = self.paths[call.path];
                return (Status::SUCCESS, vec![changes, state.number()]);
            }
            HostAction::Connect => self.notices[call.path].clear(),
            HostAction::SetPath(state) => self.paths[call.path] = (state, self.paths[call.path].1 + 1),
            HostAction::Restart => self.restart_after_power_loss(),
            HostAction::Inspect { block } => {
                return (Status::SUCCESS, self.blocks[block].to_le_bytes().to_vec());
            }
            HostAction::Read { .. } | HostAction::Write { .. } | HostAction::Compare { .. } => {
                return self.transfer(call);
            }
            HostAction::Reserve(command, keys) => return self.reserve(call, command, keys),
        }
        (Status::SUCCESS, Vec::new())
    }

    /// Keeps blocks, and reservations that persist through power loss.
    fn restart_after_power_loss(&mut self) {
        let kept = self.reservations.persists().then(|| Reservations::decode(&self.reservations.encode())).flatten();
        let blocks = self.blocks;
        *self = ReferenceDrive { blocks, reservations: kept.unwrap_or_default(), ..ReferenceDrive::new(&self.hosts) };
    }

    /// Returns the status that a path without access gives to commands.
    fn path_access_status(&self, path: usize) -> Result<(), Status> {
        match self.paths[path].0 {
            PathState::Optimized | PathState::NonOptimized => Ok(()),
            PathState::Inaccessible => Err(Status::INACCESSIBLE),
            PathState::Lost => Err(Status::ACCESS_LOST),
            PathState::Changing => Err(Status::ACCESS_CHANGES),
        }
    }

    fn transfer(&mut self, call: &HostCall) -> (Status, Vec<u8>) {
        let is_write = matches!(call.action, HostAction::Write { .. });
        let needed = if is_write { NamespaceAccess::Write } else { NamespaceAccess::Read };
        if let Err(status) = self.path_access_status(call.path) {
            return (status, Vec::new());
        }
        if self.reservations.access(ReservingHost::Named(host_id(call.host))) < needed {
            return (Status::RESERVATION_CONFLICT, Vec::new());
        }
        match call.action {
            HostAction::Read { block } => return (Status::SUCCESS, self.blocks[block].to_le_bytes().to_vec()),
            HostAction::Compare { block, value } if self.blocks[block] != value => {
                return (Status::COMPARE_FAILURE, Vec::new());
            }
            HostAction::Write { block, value } => self.blocks[block] = value,
            _ => {}
        }
        (Status::SUCCESS, Vec::new())
    }

    fn reserve(&mut self, call: &HostCall, command: ReservationCommand, keys: ReservationKeys) -> (Status, Vec<u8>) {
        if let Err(status) = self.path_access_status(call.path) {
            return (status, Vec::new());
        }
        if let ReservationCommand::Report { bytes, is_long } = command {
            return (Status::SUCCESS, self.reservations.report(bytes, is_long));
        }
        let own = ReservingHost::Named(host_id(call.host));
        let notices = match self.reservations.execute(command, keys, own) {
            Ok(notices) => notices,
            Err(status) => return (status, Vec::new()),
        };
        let aborts = matches!(command, ReservationCommand::Acquire { action: AcquireAction::PreemptAndAbort, .. });
        for (of, kind) in notices {
            for (path, host) in self.hosts.iter().enumerate().filter(|(_, host)| of.id() == host_id(**host)) {
                self.notices[path].push_back(kind);
                if aborts && kind == ReservationNoticeKind::RegistrationPreempted && !self.aborted.contains(host) {
                    self.aborted.push(*host);
                }
            }
        }
        (Status::SUCCESS, Vec::new())
    }
}

impl fmt::Display for HostCall {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let HostCall { host, path, action, invoked, ended, response, .. } = self;
        write!(to, "{invoked:4} to {ended:4}  host {host} path {path}  {action:?}: ")?;
        match response {
            None => write!(to, "ended by a reset or restart"),
            Some(CallOutcome { status, data }) if data.len() <= 8 => write!(to, "status {:#x} {data:?}", status.0),
            Some(CallOutcome { status, .. }) => write!(to, "status {:#x}", status.0),
        }
    }
}
