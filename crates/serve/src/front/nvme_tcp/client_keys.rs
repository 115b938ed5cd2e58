//! Keys of a client's host, and the transaction by which the client authenticates on a queue.

use std::io;
use std::sync::Arc;

use phaselink_core::number::low_u16;

use super::authentication::controller::TransactionSequenceNumbers;
use super::authentication::host::{HostAuthentication, HostAuthenticationFailure};
use super::authentication::key_file::HostAuthenticationKeys;
use super::authentication::keys::Psk;
use super::authentication::secret::system_random;

/// Command of an authentication transaction.
#[derive(Clone, Copy, Debug)]
pub enum AuthenticationCommandExchange<'m> {
    /// Authentication Send with a message.
    Send(&'m [u8]),
    /// Authentication Receive, which returns a message.
    Receive,
}

/// Keys of a host, with the sequence numbers of its transactions.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    keys: Arc<HostAuthenticationKeys>,
    sequences: Arc<TransactionSequenceNumbers>,
}

/// Keys are equal if they are the same object: who compares secrets byte by byte tells their bytes.
impl PartialEq for ClientKeys {
    fn eq(&self, other: &ClientKeys) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for ClientKeys {}

impl ClientKeys {
    /// Takes the keys of a host.
    pub fn new(keys: Arc<HostAuthenticationKeys>) -> ClientKeys {
        ClientKeys { keys, sequences: Arc::new(TransactionSequenceNumbers::new(&mut system_random)) }
    }

    /// Returns the keys of TLS between the host and a subsystem; none if the host has no key for TLS. Offers those that
    /// the specification describes, not those of older programs.
    pub fn psks(&self, host: &str, subsystem: &str) -> Vec<Psk> {
        let mut psks = self.keys.tls.as_ref().map_or_else(Vec::new, |key| key.psks(host, subsystem));
        psks.truncate(psks.len() / 2);
        psks
    }

    /// True if the host has a key by which a target has to prove who it is.
    pub fn requires_target_authentication(&self) -> bool {
        self.keys.dhchap_controller.is_some()
    }

    /// Runs a transaction. The names are those of the host and of the subsystem; `exchange` executes a command.
    ///
    /// # Errors
    /// If a command fails, or one of the sides does not know its key.
    pub fn authenticate(
        &self,
        names: [&str; 2],
        mut exchange: impl FnMut(AuthenticationCommandExchange<'_>) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let mut host = HostAuthentication::new(&self.keys, names, low_u16(self.sequences.next()));
        exchange(AuthenticationCommandExchange::Send(&host.negotiate()))?;
        let challenge = exchange(AuthenticationCommandExchange::Receive)?;
        let reply = match host.reply(&challenge, &self.sequences, &mut system_random) {
            Ok(reply) => reply,
            Err(failure) => return Err(report_failed_transaction(&failure, exchange)),
        };
        exchange(AuthenticationCommandExchange::Send(&reply))?;
        let success = exchange(AuthenticationCommandExchange::Receive)?;
        match host.finish(&success) {
            Ok(Some(message)) => exchange(AuthenticationCommandExchange::Send(&message)).map(drop),
            Ok(None) => Ok(()),
            Err(failure) => Err(report_failed_transaction(&failure, exchange)),
        }
    }
}

/// Tells the controller that the transaction has failed, if it does not know, and returns the error.
fn report_failed_transaction(
    failure: &HostAuthenticationFailure,
    mut exchange: impl FnMut(AuthenticationCommandExchange<'_>) -> io::Result<Vec<u8>>,
) -> io::Error {
    if let Some(message) = &failure.message {
        // The controller closes the connection, perhaps before it reads this message, so ignore an error.
        let _ = exchange(AuthenticationCommandExchange::Send(message));
    }
    io::Error::new(io::ErrorKind::PermissionDenied, failure.reason.to_string())
}
