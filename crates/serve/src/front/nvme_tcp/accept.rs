//! Arrival of hosts: connections before their Connect command, and the controllers that they connect to.
//!
//! One thread accepts connections, initializes them and checks Connect. A valid Connect goes with its connection to the
//! device thread that owns the controller. If the host has to authenticate on its admin queue, it does so before: a host
//! that cannot takes neither a place nor time of a device thread.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{PollFd, PollFlags};

use super::address::parse_port_address;
use super::connection::HostConnection;
use super::directory::Directory;
use super::fabrics::{
    ANY_CONTROLLER, Connect, ConnectData, DISCOVERY_NQN, FabricsCommand, InvalidConnectParameter, field, status,
};
use super::keyring::Keyring;
use super::stream::ByteStream;
use crate::device::Device;
use crate::front::poll_group::sleep;
use crate::nvme::discovery::{DiscoveredSubsystemType, DiscoveryChannelSecurity, DiscoveryLogPage, DiscoveryLogRecord};

/// Maximum number of entries of an admin submission queue.
pub(super) const ADMIN_ENTRIES_MAX: u16 = 128;
/// Maximum number of connections without a queue. Further ones wait in the listening socket.
const WAITING_MAX: usize = 64;
/// Time within which a host must have sent its Connect command.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time within which a host must have authenticated on a queue (assumed: the largest group takes an emulated processor
/// some seconds).
pub(super) const AUTHENTICATION_TIME_MAX: Duration = Duration::from_secs(10);
/// Time between two checks of waiting connections and of the file of referrals.
const LOOK: Duration = Duration::from_millis(250);

/// Connection whose Connect command is valid, and which goes to the owner of its controller.
#[derive(Debug)]
pub(super) struct Arrival {
    pub connection: Box<HostConnection>,
    /// Slot of the Connect command if it is still to be answered; none if the host has authenticated since.
    pub slot: Option<u16>,
    pub connect: Connect,
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Identifier of the controller.
    pub controller_id: u16,
}

/// Rules by which hosts are admitted, and the log page that tells them of subsystems.
#[derive(Debug)]
pub(super) struct Admission {
    /// Name of the drive's subsystem.
    pub subsystem: String,
    /// Names of the hosts that are admitted; none admits all.
    pub hosts: Option<Vec<String>>,
    /// Keys of the hosts; none lets all hosts connect without.
    pub keyring: Option<Arc<Keyring>>,
    /// File with addresses of other discovery services, one a line.
    pub referrals: Option<PathBuf>,
    /// Log page of the discovery controllers.
    pub discovery: Arc<DiscoveryLogPage>,
    /// Controllers of all hosts.
    pub directory: Directory,
    /// Maximum number of data bytes of a command.
    pub data_max: u32,
}

/// Reason for which a Connect is refused: its status, and dword 0 of the response.
type Refusal = (Status, u32);

fn invalid_parameter_refusal(parameter: InvalidConnectParameter) -> Refusal {
    (status::INVALID_PARAMETERS, parameter.result())
}

impl Admission {
    /// Fills the log page with the addresses at which the drive is served, and the referrals.
    pub(super) fn publish(&self, addresses: &[SocketAddr]) {
        let record = |(port, address): (usize, &SocketAddr)| DiscoveryLogRecord {
            kind: DiscoveredSubsystemType::Drive,
            subsystem: self.subsystem.clone(),
            address: *address,
            port_id: u16::try_from(port + 1).unwrap_or(u16::MAX),
            admin_entries: ADMIN_ENTRIES_MAX,
            security: match &self.keyring {
                Some(keyring) if keyring.requires_tls() => DiscoveryChannelSecurity::Required,
                _ => DiscoveryChannelSecurity::None,
            },
        };
        let drives = addresses.iter().enumerate().map(record);
        let referral = |address| DiscoveryLogRecord {
            kind: DiscoveredSubsystemType::Referral,
            subsystem: String::from(DISCOVERY_NQN),
            address,
            port_id: 0,
            admin_entries: ADMIN_ENTRIES_MAX,
            security: DiscoveryChannelSecurity::None,
        };
        let referrals = self.read_referral_addresses().into_iter().map(referral);
        self.discovery.replace(drives.chain(referrals).collect());
    }

    /// Checks that the keys let a host connect over this connection.
    fn check_host_authentication_keys(
        &self,
        connection: &mut HostConnection,
        queue: u16,
        data: &ConnectData,
    ) -> Result<(), Refusal> {
        let Some(keyring) = &self.keyring else { return Ok(()) };
        keyring.admit(connection, queue, data).map_err(|status| (status, 0))
    }

    /// Returns the addresses in the file of referrals. Lines without an address count as comments.
    fn read_referral_addresses(&self) -> Vec<SocketAddr> {
        let text = self.referrals.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines().filter_map(|line| parse_port_address(line.trim(), true).ok()).collect()
    }

    /// Checks a Connect command, and returns its data with the identifier of the controller.
    fn admit(&self, connect: &Connect, data: &[u8]) -> Result<(ConnectData, u16), Refusal> {
        if connect.record_format != 0 {
            return Err((status::INCOMPATIBLE_FORMAT, 0));
        }
        let data = data.try_into().map_err(|_| invalid_parameter_refusal(field::DATA_POINTER))?;
        let data = ConnectData::decode(data).map_err(invalid_parameter_refusal)?;
        let is_discovery = data.subsystem == DISCOVERY_NQN;
        if !is_discovery && data.subsystem != self.subsystem {
            return Err(invalid_parameter_refusal(field::SUBSYSTEM));
        }
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.contains(&data.host)) {
            return Err((status::INVALID_HOST, 0));
        }
        if connect.entries_field == 0 || connect.queue == 0 && connect.entries_field >= ADMIN_ENTRIES_MAX {
            return Err(invalid_parameter_refusal(field::ENTRIES));
        }
        match connect.queue {
            0 if data.controller != ANY_CONTROLLER => Err(invalid_parameter_refusal(field::CONTROLLER)),
            0 => {
                let id = self.directory.reserve_controller_id(&data).ok_or((status::CONTROLLER_BUSY, 0))?;
                Ok((data, id))
            }
            _ if is_discovery => Err(invalid_parameter_refusal(field::QUEUE)),
            _ => {
                self.directory.find(&data).map_err(invalid_parameter_refusal)?;
                let id = data.controller;
                Ok((data, id))
            }
        }
    }

    /// Returns the place of an admitted queue's controller. An admin queue takes a place.
    fn place(&self, connect: &Connect, data: &ConnectData, controller_id: u16) -> Result<usize, Refusal> {
        match connect.queue {
            0 => self.directory.open(data, controller_id).ok_or((status::CONTROLLER_BUSY, 0)),
            _ => self.directory.find(data).map_err(invalid_parameter_refusal),
        }
    }
}

/// Admin queue that has been connected, and whose host has still to authenticate.
struct UnauthenticatedHost {
    connect: Connect,
    data: ConnectData,
    controller_id: u16,
}

/// Connection without a controller, and the instant at which it was accepted.
struct ConnectionWithoutController {
    connection: Box<HostConnection>,
    since: Instant,
    /// Host that has still to authenticate; none before Connect.
    unproven: Option<UnauthenticatedHost>,
}

impl ConnectionWithoutController {
    /// True if the host has taken longer than it may, `waited` after the connection was accepted.
    fn is_late(&self, waited: Duration) -> bool {
        let authentication = if self.unproven.is_some() { AUTHENTICATION_TIME_MAX } else { Duration::ZERO };
        waited > CONNECT_TIME_MAX + authentication
    }
}

/// Accepts connections until the device is told to stop. `deliver` hands a connection over to the owner of a place.
///
/// # Errors
/// If the system cannot wait for sockets.
pub(super) fn accept(
    device: &Device,
    listeners: &[TcpListener],
    admission: &Admission,
    deliver: impl Fn(usize, Arrival),
) -> io::Result<()> {
    let _stop = device.stop.stop_when_dropped();
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<SocketAddr>>>()?;
    let mut newcomers: Vec<ConnectionWithoutController> = Vec::new();
    while !device.stop.is_requested() {
        // The file of referrals may have changed.
        if admission.referrals.is_some() {
            admission.publish(&addresses);
        }
        wait(device, listeners, &mut newcomers)?;
        for listener in listeners {
            while newcomers.len() < WAITING_MAX
                && let Ok((socket, _)) = listener.accept()
            {
                // If the socket cannot be set up, only its host is affected.
                let Ok(stream) = ByteStream::new(socket) else { continue };
                let stream =
                    stream.with_keys(admission.keyring.as_ref().map_or_else(Vec::new, |keyring| keyring.psks()));
                let connection = Box::new(HostConnection::new(stream, admission.data_max));
                newcomers.push(ConnectionWithoutController { connection, since: Instant::now(), unproven: None });
            }
        }
        newcomers = newcomers
            .into_iter()
            .filter_map(|newcomer| receive_pdus_before_controller(newcomer, admission, &deliver))
            .collect();
    }
    Ok(())
}

fn wait(device: &Device, listeners: &[TcpListener], newcomers: &mut [ConnectionWithoutController]) -> io::Result<()> {
    let watched: Vec<_> = newcomers.iter_mut().map(|newcomer| newcomer.connection.watched()).collect();
    let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(&*device.stop, PollFlags::IN)];
    if newcomers.len() < WAITING_MAX {
        polled.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
    }
    polled.extend(watched.iter().map(|(socket, events)| PollFd::new(&**socket, *events)));
    sleep(&mut polled, Some(LOOK))
}

/// Receives the PDUs of a connection without a controller. Returns the connection unless it has ended or has been
/// delivered.
fn receive_pdus_before_controller(
    mut newcomer: ConnectionWithoutController,
    admission: &Admission,
    deliver: &impl Fn(usize, Arrival),
) -> Option<ConnectionWithoutController> {
    loop {
        // TLS may have decrypted more bytes than have been taken, which the socket does not report, so read until
        // nothing is left.
        while newcomer.connection.receive(true) && !newcomer.connection.session.has_arrived() {
            newcomer.connection.flush();
        }
        let Some((slot, entry)) = newcomer.connection.session.arrived() else { break };
        let command = FabricsCommand::decode(entry);
        newcomer.connection.session.take_arrived();
        newcomer = match newcomer.unproven.take() {
            None => connect(newcomer, slot, command, admission, deliver)?,
            Some(host) => execute_authentication_command(newcomer, host, (slot, command), admission, deliver)?,
        };
    }
    newcomer.connection.flush();
    let is_late = newcomer.is_late(newcomer.since.elapsed());
    (!newcomer.connection.is_over() && !is_late).then_some(newcomer)
}

/// Executes the first command of a connection, which has to be Connect. Returns the connection unless it has been
/// delivered.
fn connect(
    mut newcomer: ConnectionWithoutController,
    slot: u16,
    command: Option<FabricsCommand>,
    admission: &Admission,
    deliver: &impl Fn(usize, Arrival),
) -> Option<ConnectionWithoutController> {
    let connection = &mut newcomer.connection;
    let Some(FabricsCommand::Connect(connect)) = command else {
        connection.session.respond(slot, refusal(Status::COMMAND_SEQUENCE_ERROR), 0);
        return Some(newcomer);
    };
    let admitted = admission.admit(&connect, connection.session.data(slot)).and_then(|(data, controller_id)| {
        admission.check_host_authentication_keys(connection, connect.queue, &data)?;
        let is_unproven = connect.queue == 0 && !connection.is_authenticated;
        let place = if is_unproven { None } else { Some(admission.place(&connect, &data, controller_id)?) };
        Ok((place, UnauthenticatedHost { connect, data, controller_id }))
    });
    match admitted {
        Ok((Some(place), UnauthenticatedHost { data: ConnectData { host_id, .. }, controller_id, .. })) => {
            let ConnectionWithoutController { connection, .. } = newcomer;
            deliver(place, Arrival { connection, slot: Some(slot), connect, host_id, controller_id });
            return None;
        }
        Ok((None, host)) => {
            connection.accept_connect_command(slot, &connect, host.controller_id);
            newcomer.unproven = Some(host);
        }
        Err((status, result)) => connection.session.respond_to_connect(slot, refusal(status), result),
    }
    Some(newcomer)
}

/// Executes a command of a host that has still to authenticate. Returns the connection unless it has been delivered, or
/// all places have been taken meanwhile.
fn execute_authentication_command(
    mut newcomer: ConnectionWithoutController,
    host: UnauthenticatedHost,
    (slot, command): (u16, Option<FabricsCommand>),
    admission: &Admission,
    deliver: &impl Fn(usize, Arrival),
) -> Option<ConnectionWithoutController> {
    let connection = &mut newcomer.connection;
    let done = match command {
        Some(FabricsCommand::AuthenticationSend(transfer)) => connection.receive_authentication_message(slot, transfer),
        Some(FabricsCommand::AuthenticationReceive(transfer)) => {
            connection.return_authentication_message(slot, transfer)
        }
        _ => Err(status::AUTHENTICATION_REQUIRED),
    };
    match done {
        Ok(result) => connection.session.respond(slot, Status::SUCCESS, result),
        Err(status) => connection.session.respond(slot, refusal(status), 0),
    }
    connection.flush();
    if !connection.is_authenticated {
        newcomer.unproven = Some(host);
        return Some(newcomer);
    }
    let UnauthenticatedHost { connect, data, controller_id } = host;
    let place = admission.place(&connect, &data, controller_id).ok()?;
    let ConnectionWithoutController { connection, .. } = newcomer;
    deliver(place, Arrival { connection, slot: None, connect, host_id: data.host_id, controller_id });
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(host: &str, subsystem: &str, controller: u16) -> ConnectData {
        ConnectData { host_id: [1; 16], controller, subsystem: String::from(subsystem), host: String::from(host) }
    }

    fn admission() -> Admission {
        Admission {
            subsystem: String::from("nqn.drive"),
            hosts: Some(vec![String::from("nqn.a"), String::from("nqn.b")]),
            keyring: None,
            referrals: None,
            discovery: Arc::default(),
            directory: Directory::default(),
            data_max: 4096,
        }
    }

    #[test]
    fn invalid_connect_is_refused_with_status_and_offset_of_the_wrong_field() {
        let admission = admission();
        let admin = Connect { entries_field: 31, ..Connect::default() };
        let io = Connect { queue: 1, ..admin };
        let (a, any) = ("nqn.a", ANY_CONTROLLER);
        for (connect, data, expected) in [
            (Connect { record_format: 1, ..admin }, data(a, "nqn.drive", any), (status::INCOMPATIBLE_FORMAT, 0)),
            (admin, data(a, "nqn.other", any), invalid_parameter_refusal(field::SUBSYSTEM)),
            (admin, data("nqn.c", "nqn.drive", any), (status::INVALID_HOST, 0)),
            (
                Connect { entries_field: 0, ..admin },
                data(a, "nqn.drive", any),
                invalid_parameter_refusal(field::ENTRIES),
            ),
            (
                Connect { entries_field: 128, ..admin },
                data(a, "nqn.drive", any),
                invalid_parameter_refusal(field::ENTRIES),
            ),
            (admin, data(a, "nqn.drive", 1), invalid_parameter_refusal(field::CONTROLLER)),
            (io, data(a, "nqn.drive", 9), invalid_parameter_refusal(field::CONTROLLER)),
            (io, data(a, DISCOVERY_NQN, 9), invalid_parameter_refusal(field::QUEUE)),
        ] {
            assert_eq!(admission.admit(&connect, &data.encode()), Err(expected), "{connect:?} {data:?}");
        }
        assert_eq!(admission.admit(&admin, &[0; 100]), Err(invalid_parameter_refusal(field::DATA_POINTER)));
        let (admitted, id) = admission.admit(&admin, &data(a, "nqn.drive", any).encode()).unwrap();
        assert_eq!((admission.place(&admin, &admitted, id), id), (Ok(0), 1));
        // An I/O queue of another host must not join the controller.
        assert_eq!(
            admission.admit(&io, &data("nqn.b", "nqn.drive", 1).encode()),
            Err(invalid_parameter_refusal(field::HOST))
        );
        assert!(admission.admit(&io, &data(a, "nqn.drive", 1).encode()).is_ok());
    }
}
