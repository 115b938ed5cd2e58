//! Key schedule of TLS 1.3 with a pre-shared key (RFC 8446, section 7.1).

use super::suite::TlsCipherSuite;
use crate::front::nvme_tcp::authentication::hash::Hash;
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Secrets of both directions from one point of a handshake on.
#[derive(Debug)]
pub(super) struct TrafficSecrets {
    /// Secret by which the client encrypts.
    pub(super) client: Secret,
    /// Secret by which the server encrypts.
    pub(super) server: Secret,
}

/// First stage of the key schedule: the pre-shared key only.
#[derive(Debug)]
pub(super) struct EarlySecret {
    hash: Hash,
    secret: Secret,
}

impl EarlySecret {
    /// Begins with a pre-shared key.
    pub(super) fn new(hash: Hash, psk: &[u8]) -> EarlySecret {
        EarlySecret { hash, secret: hash.hkdf_extract(&zeros_of_hash_length(hash), psk) }
    }

    /// Returns the key of the binder, by which a client proves that it knows the pre-shared key.
    pub(super) fn binder_key(&self) -> Secret {
        let binder = derive(self.hash, &self.secret, "ext binder", &[]);
        finished_key(self.hash, &binder)
    }

    /// Mixes in the shared key of the exchange, and returns the next stage.
    pub(super) fn handshake(&self, shared: &[u8]) -> HandshakeSecret {
        let salt = derive(self.hash, &self.secret, "derived", &[]);
        HandshakeSecret { hash: self.hash, secret: self.hash.hkdf_extract(&salt, shared) }
    }
}

/// Second stage: the pre-shared key and the shared key of the exchange.
#[derive(Debug)]
pub(super) struct HandshakeSecret {
    hash: Hash,
    secret: Secret,
}

impl HandshakeSecret {
    /// Returns the secrets for the rest of the handshake, after the messages up to ServerHello.
    pub(super) fn traffic(&self, transcript: &[u8]) -> TrafficSecrets {
        let secret = |label| derive(self.hash, &self.secret, label, transcript);
        TrafficSecrets { client: secret("c hs traffic"), server: secret("s hs traffic") }
    }

    /// Returns the secrets for application data, after the messages up to the server's Finished.
    pub(super) fn application(&self, transcript: &[u8]) -> TrafficSecrets {
        let salt = derive(self.hash, &self.secret, "derived", &[]);
        let master = self.hash.hkdf_extract(&salt, &zeros_of_hash_length(self.hash));
        let secret = |label| derive(self.hash, &master, label, transcript);
        TrafficSecrets { client: secret("c ap traffic"), server: secret("s ap traffic") }
    }
}

/// Returns the secret of a direction after an update of its key.
pub(super) fn derive_updated_traffic_secret(hash: Hash, secret: &[u8]) -> Secret {
    hash.hkdf_expand_label(secret, "traffic upd", &[], hash.bytes())
}

/// Returns the key of the Finished message of the side with this secret.
pub(super) fn finished_key(hash: Hash, secret: &[u8]) -> Secret {
    hash.hkdf_expand_label(secret, "finished", &[], hash.bytes())
}

/// Returns key and initialisation vector of the records of the side with this secret.
pub(super) fn derive_record_key_and_iv(suite: TlsCipherSuite, secret: &[u8]) -> (Secret, Secret) {
    let hash = suite.hash();
    (hash.hkdf_expand_label(secret, "key", &[], suite.key_bytes()), hash.hkdf_expand_label(secret, "iv", &[], 12))
}

/// Derive-Secret: the secret with this label after these messages.
fn derive(hash: Hash, secret: &[u8], label: &str, messages: &[u8]) -> Secret {
    hash.hkdf_expand_label(secret, label, &hash.digest(messages), hash.bytes())
}

fn zeros_of_hash_length(hash: Hash) -> Vec<u8> {
    vec![0; hash.bytes()]
}
