//! Keys of the server, and the authentication of hosts on their queues.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use phaselink_core::number::index;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::protocol::nvme::spec::Status;
use zeroize::Zeroizing;

use super::authentication::controller::{ControllerAuthentication, QueueTransportChannel, TransactionSequenceNumbers};
use super::authentication::key_file::{HostAuthenticationKeys, HostKeyFile, permission_warning};
use super::authentication::keys::Psk;
use super::authentication::message::{PROTOCOL_SPECIFIC, SECURITY_PROTOCOL};
use super::authentication::secret::system_random;
use super::connection::HostConnection;
use super::fabrics::{AuthenticationTransferFields, ConnectData, DISCOVERY_NQN, authentication, status};
use crate::device::tally::locked;

/// Start of the identity of a key that a host and a controller have derived while they authenticated.
const GENERATED: &str = "NVMe1G";
/// Number of derived keys that are kept at most: those of the latest hosts.
const GENERATED_MAX: usize = 64;

/// Keys of all hosts, and the keys of TLS that follow from them.
#[derive(Debug)]
pub(super) struct Keyring {
    file: HostKeyFile,
    psks: Vec<Psk>,
    generated: Mutex<Vec<Psk>>,
    sequences: Arc<TransactionSequenceNumbers>,
}

/// Reads a file of keys, and prints warnings on its contents and on who may read it.
///
/// # Errors
/// If the file cannot be read, or holds anything else.
pub(super) fn read_host_key_file(path: &str) -> Result<HostKeyFile, Problems> {
    let problem = |error| Problem::new(path, None, format!("the file of keys cannot be read: {error}"), "");
    let text = Zeroizing::new(fs::read_to_string(path).map_err(problem)?);
    let mode = fs::metadata(path).map_err(problem)?.permissions().mode();
    let file = HostKeyFile::parse(path, &text)?;
    for warning in permission_warning(path, mode).into_iter().chain(file.warnings()) {
        eprintln!("phaselink: {warning}");
    }
    Ok(file)
}

impl Keyring {
    /// Returns the keys of a file, for the hosts of one subsystem and of its discovery controller.
    pub(super) fn new(file: HostKeyFile, subsystem: &str) -> Keyring {
        let of_host = |(host, keys): (&str, &Arc<HostAuthenticationKeys>)| {
            let of_subsystem =
                |subsystem| keys.tls.iter().flat_map(move |key| key.psks(host, subsystem)).collect::<Vec<Psk>>();
            [subsystem, DISCOVERY_NQN].map(of_subsystem).concat()
        };
        let psks = file.hosts().flat_map(of_host).collect::<Vec<Psk>>();
        let sequences = Arc::new(TransactionSequenceNumbers::new(&mut system_random));
        Keyring { file, psks, generated: Mutex::default(), sequences }
    }

    /// Returns the keys with which a client may begin TLS.
    pub(super) fn psks(&self) -> Vec<Psk> {
        [&self.psks[..], &locked(&self.generated)].concat()
    }

    /// Returns true if every host has to use TLS.
    pub(super) fn requires_tls(&self) -> bool {
        self.file.hosts().all(|(_, keys)| keys.tls.is_some())
    }

    fn store_generated_psk(&self, psk: Psk) {
        let mut kept = locked(&self.generated);
        if kept.len() >= GENERATED_MAX {
            kept.remove(0);
        }
        kept.push(psk);
    }

    /// Checks that a host may connect over this connection, and lets it authenticate if it has to.
    ///
    /// # Errors
    /// The status of a refused Connect.
    pub(super) fn admit(
        self: &Arc<Keyring>,
        connection: &mut HostConnection,
        queue: u16,
        data: &ConnectData,
    ) -> Result<(), Status> {
        let keys = self.file.host(&data.host).ok_or(status::INVALID_HOST)?;
        let identity = connection.identity().map(String::from);
        let is_named = |identity: &String| {
            let mut names = identity.split(' ').skip(1);
            names.next() == Some(&data.host[..]) && names.next() == Some(&data.subsystem[..])
        };
        if !identity.as_ref().map_or(keys.tls.is_none(), is_named) {
            return Err(status::INVALID_HOST);
        }
        let is_generated = identity.as_ref().is_some_and(|identity| identity.starts_with(GENERATED));
        if is_generated {
            return Ok(());
        }
        let channel = match (queue, identity) {
            (0, None) => QueueTransportChannel::AdminInTheClear,
            _ => QueueTransportChannel::Other,
        };
        let names = [&data.host[..], &data.subsystem[..]];
        let side = ControllerAuthentication::new(Arc::clone(keys), Arc::clone(&self.sequences), channel, names);
        connection.is_authenticated = side.is_authenticated();
        connection.security = Some(Box::new(QueueAuthenticationState { side, keyring: Arc::clone(self) }));
        Ok(())
    }
}

/// Authentication of a host on one queue.
#[derive(Debug)]
pub(super) struct QueueAuthenticationState {
    side: ControllerAuthentication,
    keyring: Arc<Keyring>,
}

impl HostConnection {
    /// Returns what the response to a successful Connect says of authentication.
    pub(super) fn connect_response_requirements(&self) -> u32 {
        if self.is_authenticated { 0 } else { authentication::IN_BAND }
    }

    /// Takes the message of Authentication Send.
    ///
    /// # Errors
    /// The status of a command whose fields are invalid, or that has no place here.
    pub(super) fn receive_authentication_message(
        &mut self,
        slot: u16,
        transfer: AuthenticationTransferFields,
    ) -> Result<u64, Status> {
        let security = self
            .security
            .as_mut()
            .filter(|_| is_nvme_authentication_transfer(transfer))
            .ok_or(Status::INVALID_FIELD)?;
        let message = self.session.data(slot);
        if message.len() != index(transfer.bytes) {
            return Err(Status::INVALID_FIELD);
        }
        security.side.take(message, &mut system_random);
        self.process_transaction_end();
        Ok(0)
    }

    /// Writes the message that Authentication Receive asks for, with zeros behind it.
    ///
    /// # Errors
    /// The status of a command whose fields are invalid, or that has no place here.
    pub(super) fn return_authentication_message(
        &mut self,
        slot: u16,
        transfer: AuthenticationTransferFields,
    ) -> Result<u64, Status> {
        let security = self
            .security
            .as_mut()
            .filter(|_| is_nvme_authentication_transfer(transfer))
            .ok_or(Status::INVALID_FIELD)?;
        let room = self.session.writable(slot, 0, index(transfer.bytes)).ok_or(Status::INVALID_FIELD)?;
        let message = security.side.give(room.len()).map_err(|_| Status::INVALID_FIELD)?;
        room.fill(0);
        room[..message.len()].copy_from_slice(&message);
        self.process_transaction_end();
        Ok(0)
    }

    /// Acts on the end of a transaction.
    fn process_transaction_end(&mut self) {
        let Some(security) = &mut self.security else { return };
        if let Some(psk) = security.side.take_generated_psk() {
            security.keyring.store_generated_psk(psk);
        }
        self.is_authenticated = security.side.is_authenticated();
        if security.side.has_failed() {
            self.close();
        }
    }
}

/// True if the fields of a security command are those of NVMe in-band authentication, with at least one byte of data.
fn is_nvme_authentication_transfer(transfer: AuthenticationTransferFields) -> bool {
    let AuthenticationTransferFields { protocol, specific, bytes } = transfer;
    protocol == SECURITY_PROTOCOL && specific == PROTOCOL_SPECIFIC && bytes > 0
}
