//! Arrival of hosts: connections before their Connect command, and the controllers that they connect to.
//!
//! One thread accepts connections, initializes them and checks Connect. A valid Connect goes with its connection to the
//! device thread that owns the controller.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{PollFd, PollFlags};

use super::address::parse_port;
use super::connection::HostConnection;
use super::fabrics::{
    ANY_CONTROLLER, Connect, ConnectData, DISCOVERY_NQN, FabricsCommand, InvalidParameter, field, status,
};
use super::keyring::Keyring;
use super::stream::ByteStream;
use crate::device::Device;
use crate::device::tally::locked;
use crate::front::poll_group::sleep;
use crate::nvme::discovery::{ChannelSecurity, DiscoveryLog, DiscoveryRecord, SubsystemType};

/// Maximum number of hosts that have a controller of the drive at a time.
pub(super) const DRIVE_PLACES: usize = 8;
/// Maximum number of hosts that have a discovery controller at a time.
pub(super) const DISCOVERY_PLACES: usize = 8;
/// Maximum number of entries of an admin submission queue.
pub(super) const ADMIN_ENTRIES_MAX: u16 = 128;
/// Maximum number of connections without a queue. Further ones wait in the listening socket.
const WAITING_MAX: usize = 64;
/// Time within which a host must have sent its Connect command.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time between two checks of waiting connections and of the file of referrals.
const LOOK: Duration = Duration::from_millis(250);
/// Highest identifier of a dynamic controller (Base Specification 2.0, section 3.1.2.1).
const CONTROLLER_ID_MAX: u16 = 0xffef;

/// Host that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    controller_id: u16,
    host: String,
    host_id: [u8; 16],
}

/// Controllers of all hosts by their places: first those of the drive, then those of discovery.
#[derive(Debug)]
pub(super) struct Directory {
    state: Mutex<DirectoryState>,
}

#[derive(Debug)]
struct DirectoryState {
    places: Vec<Option<Holder>>,
    last_id: u16,
}

impl Default for Directory {
    fn default() -> Directory {
        let places = vec![None; DRIVE_PLACES + DISCOVERY_PLACES];
        Directory { state: Mutex::new(DirectoryState { places, last_id: 0 }) }
    }
}

impl Directory {
    /// Gives a host a controller, and returns its place and its identifier; none if all places are taken.
    fn open(&self, data: &ConnectData) -> Option<(usize, u16)> {
        let mut state = locked(&self.state);
        let places = if data.subsystem == DISCOVERY_NQN { DRIVE_PLACES.. } else { 0.. };
        let end = if data.subsystem == DISCOVERY_NQN { DRIVE_PLACES + DISCOVERY_PLACES } else { DRIVE_PLACES };
        let place = places.take_while(|place| *place < end).find(|place| state.places[*place].is_none())?;
        let is_used = |id: u16| state.places.iter().flatten().any(|holder| holder.controller_id == id);
        let next = |id: u16| if id >= CONTROLLER_ID_MAX { 1 } else { id + 1 };
        let mut controller_id = next(state.last_id);
        while is_used(controller_id) {
            controller_id = next(controller_id);
        }
        state.last_id = controller_id;
        state.places[place] = Some(Holder { controller_id, host: data.host.clone(), host_id: data.host_id });
        Some((place, controller_id))
    }

    /// Returns the place of the controller that the host of an I/O queue has; none if it is another host's, or does not
    /// exist.
    fn find(&self, data: &ConnectData) -> Result<usize, InvalidParameter> {
        let state = locked(&self.state);
        let is_named =
            |holder: &Option<Holder>| holder.as_ref().is_some_and(|holder| holder.controller_id == data.controller);
        let place = state.places.iter().take(DRIVE_PLACES).position(is_named).ok_or(field::CONTROLLER)?;
        match &state.places[place] {
            Some(holder) if holder.host != data.host => Err(field::HOST),
            Some(holder) if holder.host_id != data.host_id => Err(field::HOST_ID),
            _ => Ok(place),
        }
    }

    /// Frees the place of a controller whose host has gone.
    pub(super) fn close(&self, place: usize) {
        locked(&self.state).places[place] = None;
    }
}

/// Connection whose Connect command is valid, and which goes to the owner of its controller.
#[derive(Debug)]
pub(super) struct Arrival {
    pub connection: Box<HostConnection>,
    /// Slot of the Connect command, which is still to be answered.
    pub slot: u16,
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
    pub discovery: Arc<DiscoveryLog>,
    /// Controllers of all hosts.
    pub directory: Directory,
    /// Maximum number of data bytes of a command.
    pub data_max: u32,
}

/// Reason for which a Connect is refused: its status, and dword 0 of the response.
type Refusal = (Status, u32);

fn invalid(parameter: InvalidParameter) -> Refusal {
    (status::INVALID_PARAMETERS, parameter.result())
}

impl Admission {
    /// Fills the log page with the addresses at which the drive is served, and the referrals.
    pub(super) fn publish(&self, addresses: &[SocketAddr]) {
        let record = |(port, address): (usize, &SocketAddr)| DiscoveryRecord {
            kind: SubsystemType::Drive,
            subsystem: self.subsystem.clone(),
            address: *address,
            port_id: u16::try_from(port + 1).unwrap_or(u16::MAX),
            admin_entries: ADMIN_ENTRIES_MAX,
            security: match &self.keyring {
                Some(keyring) if keyring.requires_tls() => ChannelSecurity::Required,
                _ => ChannelSecurity::None,
            },
        };
        let drives = addresses.iter().enumerate().map(record);
        let referral = |address| DiscoveryRecord {
            kind: SubsystemType::Referral,
            subsystem: String::from(DISCOVERY_NQN),
            address,
            port_id: 0,
            admin_entries: ADMIN_ENTRIES_MAX,
            security: ChannelSecurity::None,
        };
        let referrals = self.referral_addresses().into_iter().map(referral);
        self.discovery.replace(drives.chain(referrals).collect());
    }

    /// Checks that the keys let a host connect over this connection. What is wrong with the command itself is found later.
    fn check_keys(&self, connection: &mut HostConnection, connect: &Connect, slot: u16) -> Result<(), Refusal> {
        let Some(keyring) = &self.keyring else { return Ok(()) };
        let data = connection.session.data(slot).try_into().ok().and_then(|data| ConnectData::decode(data).ok());
        let admitted = data.map_or(Ok(()), |data| keyring.admit(connection, connect.queue, &data));
        admitted.map_err(|status| (status, 0))
    }

    /// Returns the addresses in the file of referrals. Lines without an address count as comments.
    fn referral_addresses(&self) -> Vec<SocketAddr> {
        let text = self.referrals.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines().filter_map(|line| parse_port(line.trim(), true).ok()).collect()
    }

    /// Checks a Connect command, and returns the place and the identifier of the controller.
    fn admit(&self, connect: &Connect, data: &[u8]) -> Result<(usize, u16), Refusal> {
        if connect.record_format != 0 {
            return Err((status::INCOMPATIBLE_FORMAT, 0));
        }
        let data = data.try_into().map_err(|_| invalid(field::DATA_POINTER))?;
        let data = ConnectData::decode(data).map_err(invalid)?;
        let is_discovery = data.subsystem == DISCOVERY_NQN;
        if !is_discovery && data.subsystem != self.subsystem {
            return Err(invalid(field::SUBSYSTEM));
        }
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.contains(&data.host)) {
            return Err((status::INVALID_HOST, 0));
        }
        if connect.entries_field == 0 || connect.queue == 0 && connect.entries_field >= ADMIN_ENTRIES_MAX {
            return Err(invalid(field::ENTRIES));
        }
        match connect.queue {
            0 if data.controller != ANY_CONTROLLER => Err(invalid(field::CONTROLLER)),
            0 => self.directory.open(&data).ok_or((status::CONTROLLER_BUSY, 0)),
            _ if is_discovery => Err(invalid(field::QUEUE)),
            _ => Ok((self.directory.find(&data).map_err(invalid)?, data.controller)),
        }
    }
}

/// Connection without a queue, and the instant at which it was accepted.
struct Newcomer {
    connection: Box<HostConnection>,
    since: Instant,
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
    let _stop = device.stop.at_the_end();
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<SocketAddr>>>()?;
    let mut newcomers: Vec<Newcomer> = Vec::new();
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
                newcomers.push(Newcomer { connection, since: Instant::now() });
            }
        }
        newcomers = newcomers.into_iter().filter_map(|newcomer| attend(newcomer, admission, &deliver)).collect();
    }
    Ok(())
}

fn wait(device: &Device, listeners: &[TcpListener], newcomers: &mut [Newcomer]) -> io::Result<()> {
    let watched: Vec<_> = newcomers.iter_mut().map(|newcomer| newcomer.connection.watched()).collect();
    let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(&*device.stop, PollFlags::IN)];
    if newcomers.len() < WAITING_MAX {
        polled.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
    }
    polled.extend(watched.iter().map(|(socket, events)| PollFd::new(&**socket, *events)));
    sleep(&mut polled, Some(LOOK))
}

/// Receives the PDUs of a connection without a queue. Returns the connection unless it has ended or has been delivered.
fn attend(mut newcomer: Newcomer, admission: &Admission, deliver: &impl Fn(usize, Arrival)) -> Option<Newcomer> {
    let connection = &mut newcomer.connection;
    // Decrypted bytes may be left of which the socket does not tell.
    while connection.receive(true) && !connection.session.has_arrived() {
        connection.flush();
    }
    while let Some((slot, entry)) = connection.session.arrived() {
        let command = FabricsCommand::decode(entry);
        connection.session.take_arrived();
        let Some(FabricsCommand::Connect(connect)) = command else {
            // Connect is the first command of every queue.
            connection.session.respond(slot, refusal(Status::COMMAND_SEQUENCE_ERROR), 0);
            continue;
        };
        let checked = admission.check_keys(connection, &connect, slot);
        match checked.and_then(|()| admission.admit(&connect, connection.session.data(slot))) {
            Ok((place, controller_id)) => {
                let Newcomer { connection, .. } = newcomer;
                let host_id = connection.session.data(slot).first_chunk().copied().unwrap_or_default();
                deliver(place, Arrival { connection, slot, connect, host_id, controller_id });
                return None;
            }
            Err((status, result)) => connection.session.respond_to_connect(slot, refusal(status), result),
        }
    }
    connection.flush();
    let is_late = newcomer.since.elapsed() > CONNECT_TIME_MAX;
    (!newcomer.connection.is_over() && !is_late).then_some(newcomer)
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
    fn connect_is_refused_with_the_status_and_the_field_that_are_wrong() {
        let admission = admission();
        let admin = Connect { entries_field: 31, ..Connect::default() };
        let io = Connect { queue: 1, ..admin };
        let (a, any) = ("nqn.a", ANY_CONTROLLER);
        for (connect, data, expected) in [
            (Connect { record_format: 1, ..admin }, data(a, "nqn.drive", any), (status::INCOMPATIBLE_FORMAT, 0)),
            (admin, data(a, "nqn.other", any), invalid(field::SUBSYSTEM)),
            (admin, data("nqn.c", "nqn.drive", any), (status::INVALID_HOST, 0)),
            (Connect { entries_field: 0, ..admin }, data(a, "nqn.drive", any), invalid(field::ENTRIES)),
            (Connect { entries_field: 128, ..admin }, data(a, "nqn.drive", any), invalid(field::ENTRIES)),
            (admin, data(a, "nqn.drive", 1), invalid(field::CONTROLLER)),
            (io, data(a, "nqn.drive", 9), invalid(field::CONTROLLER)),
            (io, data(a, DISCOVERY_NQN, 9), invalid(field::QUEUE)),
        ] {
            assert_eq!(admission.admit(&connect, &data.encode()), Err(expected), "{connect:?} {data:?}");
        }
        assert_eq!(admission.admit(&admin, &[0; 100]), Err(invalid(field::DATA_POINTER)));
        let (place, id) = admission.admit(&admin, &data(a, "nqn.drive", any).encode()).unwrap();
        assert_eq!((place, id), (0, 1));
        // The queues of a controller belong to the host that has it.
        assert_eq!(admission.admit(&io, &data("nqn.b", "nqn.drive", 1).encode()), Err(invalid(field::HOST)));
        assert!(admission.admit(&io, &data(a, "nqn.drive", 1).encode()).is_ok());
    }

    #[test]
    fn places_are_limited_and_free_again_and_identifiers_differ() {
        let admission = admission();
        let any = |subsystem: &str| data("nqn.a", subsystem, ANY_CONTROLLER);
        let opened: Vec<_> = (0..=DRIVE_PLACES).map(|_| admission.directory.open(&any("nqn.drive"))).collect();
        assert_eq!(opened[DRIVE_PLACES], None);
        assert_eq!(admission.directory.open(&any(DISCOVERY_NQN)), Some((DRIVE_PLACES, 9)));
        admission.directory.close(3);
        assert_eq!(admission.directory.open(&any("nqn.drive")), Some((3, 10)));
    }
}
