//! State of both directions of a connection, which the handshakes of both sides change.

use super::alert::Alert;
use super::hello::{kind, message};
use super::record::{ContentType, RecordProtectionKey, append_unencrypted_records};
use super::schedule::finished_key;
use crate::front::nvme_tcp::authentication::hash::Hash;
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Keys and messages of both directions.
#[derive(Debug)]
pub(super) struct TlsFlowState {
    /// Bytes for the network.
    pub(super) outgoing: Vec<u8>,
    /// Handshake messages so far.
    pub(super) transcript: Vec<u8>,
    pub(super) reader: Option<RecordProtectionKey>,
    pub(super) writer: Option<RecordProtectionKey>,
    pub(super) random: fn(&mut [u8]),
}

impl TlsFlowState {
    /// Sends a handshake message, which counts for the transcript.
    pub(super) fn send(&mut self, message: &[u8]) {
        self.transcript.extend(message);
        match &mut self.writer {
            Some(writer) => writer.seal(ContentType::Handshake, message, &mut self.outgoing),
            None => append_unencrypted_records(ContentType::Handshake, message, &mut self.outgoing),
        }
    }

    /// Replaces the first message in the transcript by its hash, as a request for another share demands (section 4.4.1).
    pub(super) fn hash_first_transcript_message(&mut self, hash: Hash) {
        self.transcript = message(kind::MESSAGE_HASH, &hash.digest(&self.transcript));
    }

    /// Returns the proof that the side with this traffic secret knows all keys and has seen all messages.
    pub(super) fn finished(&self, hash: Hash, secret: &Secret) -> Vec<u8> {
        let proof = hash.hmac(&finished_key(hash, secret), &[&hash.digest(&self.transcript)]);
        message(kind::FINISHED, &proof)
    }

    /// Checks the Finished message of the side with this traffic secret.
    pub(super) fn verify_finished_message(
        &mut self,
        hash: Hash,
        secret: &Secret,
        received: &[u8],
    ) -> Result<(), Alert> {
        if received[0] != kind::FINISHED {
            return Err(Alert::UnexpectedMessage);
        }
        let parts: [&[u8]; 1] = [&hash.digest(&self.transcript)];
        if !hash.verify_hmac_in_constant_time(&finished_key(hash, secret), &parts, &received[4..]) {
            return Err(Alert::DecryptError);
        }
        self.transcript.extend(received);
        Ok(())
    }
}
