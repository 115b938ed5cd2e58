//! State of both directions of a connection, which the handshakes of both sides change.

use super::alert::Alert;
use super::hello::{kind, message};
use super::record::{ContentType, RecordKey, write_plain};
use super::schedule::finished_key;
use crate::front::nvme_tcp::authentication::hash::Hash;
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Keys and messages of both directions.
#[derive(Debug)]
pub(super) struct Flow {
    /// Bytes for the network.
    pub(super) outgoing: Vec<u8>,
    /// Handshake messages so far.
    pub(super) transcript: Vec<u8>,
    pub(super) reader: Option<RecordKey>,
    pub(super) writer: Option<RecordKey>,
    pub(super) random: fn(&mut [u8]),
}

impl Flow {
    /// Sends a handshake message, which counts for the transcript.
    pub(super) fn send(&mut self, message: &[u8]) {
        self.transcript.extend(message);
        match &mut self.writer {
            Some(writer) => writer.seal(ContentType::Handshake, message, &mut self.outgoing),
            None => write_plain(ContentType::Handshake, message, &mut self.outgoing),
        }
    }

    /// Replaces the first message in the transcript by its hash, as a request for another share demands (section 4.4.1).
    pub(super) fn shorten_transcript(&mut self, hash: Hash) {
        self.transcript = message(kind::MESSAGE_HASH, &hash.digest(&self.transcript));
    }

    /// Returns the proof that the side with this traffic secret knows all keys and has seen all messages.
    pub(super) fn finished(&self, hash: Hash, secret: &Secret) -> Vec<u8> {
        let proof = hash.hmac(&finished_key(hash, secret), &[&hash.digest(&self.transcript)]);
        message(kind::FINISHED, &proof)
    }

    /// Checks the Finished message of the side with this traffic secret.
    pub(super) fn check_finished(&mut self, hash: Hash, secret: &Secret, received: &[u8]) -> Result<(), Alert> {
        if received[0] != kind::FINISHED {
            return Err(Alert::UnexpectedMessage);
        }
        let parts: [&[u8]; 1] = [&hash.digest(&self.transcript)];
        if !hash.is_hmac(&finished_key(hash, secret), &parts, &received[4..]) {
            return Err(Alert::DecryptError);
        }
        self.transcript.extend(received);
        Ok(())
    }
}
