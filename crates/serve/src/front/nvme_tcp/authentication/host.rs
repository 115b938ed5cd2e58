//! Host's side of authentication: one for each queue, by which a client answers the challenge of a controller and challenges
//! the controller in turn.

use super::controller::TransactionSequenceNumbers;
use super::group::{DhGroup, DhKeyPair};
use super::hash::Hash;
use super::key_file::HostAuthenticationKeys;
use super::message::{
    AuthenticationFailureReason, AuthenticationMessage, AuthenticationSide, ChallengeResponseInput, SecureChannel,
};
use super::secret::{RandomSource, Secret};

/// Failed authentication, as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAuthenticationFailure {
    /// Reason that one of the sides gives.
    pub reason: AuthenticationFailureReason,
    /// AUTH_Failure2, which the controller is to get before the connection ends; none if the controller gave the reason.
    pub message: Option<Vec<u8>>,
}

/// Challenge of a controller, whose choices the host has checked.
struct CheckedControllerChallenge {
    hash: Hash,
    group: DhGroup,
    sequence: u32,
    challenge: Vec<u8>,
    public: Vec<u8>,
}

/// Host's side of the authentication of one queue.
#[derive(Debug)]
pub struct HostAuthentication<'a> {
    keys: &'a HostAuthenticationKeys,
    names: [&'a str; 2],
    transaction: u16,
    /// Response that the controller has to give, if the host has challenged it.
    expected: Option<Secret>,
    hash_bytes: usize,
}

impl<'a> HostAuthentication<'a> {
    /// Begins a transaction. The names are those of the host and of the subsystem.
    pub fn new(keys: &'a HostAuthenticationKeys, names: [&'a str; 2], transaction: u16) -> HostAuthentication<'a> {
        HostAuthentication { keys, names, transaction, expected: None, hash_bytes: 0 }
    }

    /// Returns AUTH_Negotiate, which proposes what the keys allow.
    pub fn negotiate(&self) -> Vec<u8> {
        let hashes = self.keys.hashes().into_iter().map(Hash::id).collect();
        let groups = self.keys.groups().into_iter().map(DhGroup::id).collect();
        let proposals = Some((hashes, groups));
        AuthenticationMessage::Negotiate { channel: SecureChannel::None, proposals }.encode(self.transaction)
    }

    /// Returns the reply to the challenge of the controller.
    ///
    /// # Errors
    /// If the controller refuses, or sends a message that it must not.
    pub fn reply(
        &mut self,
        bytes: &[u8],
        sequences: &TransactionSequenceNumbers,
        random: RandomSource<'_>,
    ) -> Result<Vec<u8>, HostAuthenticationFailure> {
        let CheckedControllerChallenge { hash, group, sequence, challenge, public } = self.challenge(bytes)?;
        let pair = DhKeyPair::generate(group, random);
        let shared = match group {
            DhGroup::Null => Secret::default(),
            _ => pair
                .shared(&public)
                .ok_or_else(|| self.authentication_failure(AuthenticationFailureReason::IncorrectPayload))?,
        };
        let key = self.keys.dhchap.as_ref().map(|secret| secret.key(self.names[0]));
        let key = key.ok_or_else(|| self.authentication_failure(AuthenticationFailureReason::AuthenticationFailed))?;
        let own = Secret::random(hash.bytes(), random);
        let (transaction, names) = (self.transaction, self.names);
        let channel = SecureChannel::None;
        let input = ChallengeResponseInput {
            hash,
            group,
            shared: &shared,
            challenge: &challenge,
            sequence,
            transaction,
            channel,
            names,
        };
        let response = input.with_parts(AuthenticationSide::Host, |parts| hash.hmac(&key, parts)).to_vec();
        self.hash_bytes = hash.bytes();
        let sequence = self.keys.dhchap_controller.as_ref().map_or(0, |secret| {
            let sequence = sequences.next();
            let key = secret.key(self.names[1]);
            let input = ChallengeResponseInput { challenge: &own, sequence, ..input };
            self.expected = Some(input.with_parts(AuthenticationSide::Controller, |parts| hash.hmac(&key, parts)));
            sequence
        });
        let challenge = self.expected.as_ref().map(|_| own.to_vec());
        Ok(AuthenticationMessage::Reply { response, sequence, challenge, public: pair.public().to_vec() }
            .encode(transaction))
    }

    /// Reads the challenge of the controller, and checks what it has chosen.
    fn challenge(&self, bytes: &[u8]) -> Result<CheckedControllerChallenge, HostAuthenticationFailure> {
        let (hash, group, sequence, challenge, public) = match self.read(bytes)? {
            AuthenticationMessage::Challenge { hash, group, sequence, challenge, public } => {
                (hash, group, sequence, challenge, public)
            }
            _ => return Err(self.authentication_failure(AuthenticationFailureReason::IncorrectMessage)),
        };
        let hash = self.keys.hashes().into_iter().find(|known| known.id() == hash);
        let hash = hash.ok_or_else(|| self.authentication_failure(AuthenticationFailureReason::HashNotUsable))?;
        let group = self.keys.groups().into_iter().find(|known| known.id() == group);
        let group = group.ok_or_else(|| self.authentication_failure(AuthenticationFailureReason::GroupNotUsable))?;
        if challenge.len() != hash.bytes() || public.len() != group.bytes() {
            return Err(self.authentication_failure(AuthenticationFailureReason::IncorrectPayload));
        }
        Ok(CheckedControllerChallenge { hash, group, sequence, challenge, public })
    }

    /// Checks the success that the controller reports, and its response. Returns DH-HMAC-CHAP_Success2, if it is due.
    ///
    /// # Errors
    /// If the controller refuses, or does not know its key.
    pub fn finish(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, HostAuthenticationFailure> {
        let (hash_bytes, response) = match self.read(bytes)? {
            AuthenticationMessage::Success1 { hash_bytes, response } => (hash_bytes, response),
            _ => return Err(self.authentication_failure(AuthenticationFailureReason::IncorrectMessage)),
        };
        if usize::from(hash_bytes) != self.hash_bytes {
            return Err(self.authentication_failure(AuthenticationFailureReason::IncorrectPayload));
        }
        let Some(expected) = &self.expected else { return Ok(None) };
        let is_right = response.is_some_and(|response| expected.is_same(&response));
        if is_right {
            return Ok(Some(AuthenticationMessage::Success2.encode(self.transaction)));
        }
        Err(self.authentication_failure(AuthenticationFailureReason::AuthenticationFailed))
    }

    fn read(&self, bytes: &[u8]) -> Result<AuthenticationMessage, HostAuthenticationFailure> {
        match AuthenticationMessage::decode(bytes) {
            Ok((_, AuthenticationMessage::Failure1(reason))) => {
                Err(HostAuthenticationFailure { reason, message: None })
            }
            Ok((transaction, message)) if transaction == self.transaction => Ok(message),
            Ok(_) => Err(self.authentication_failure(AuthenticationFailureReason::IncorrectPayload)),
            Err(reason) => Err(self.authentication_failure(reason)),
        }
    }

    fn authentication_failure(&self, reason: AuthenticationFailureReason) -> HostAuthenticationFailure {
        HostAuthenticationFailure {
            reason,
            message: Some(AuthenticationMessage::Failure2(reason).encode(self.transaction)),
        }
    }
}
