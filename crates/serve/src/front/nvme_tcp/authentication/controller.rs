//! Controller's side of authentication: one for each queue of a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::group::{DhGroup, DhKeyPair};
use super::hash::Hash;
use super::key_file::HostAuthenticationKeys;
use super::keys::{Psk, derive_generated_psk};
use super::message::{
    AuthenticationFailureReason, AuthenticationMessage, AuthenticationSide, ChallengeResponseInput, SecureChannel,
};
use super::secret::{RandomSource, Secret};

/// Sequence numbers of all transactions of a subsystem or of a host. They begin at random and skip 0.
#[derive(Debug)]
pub struct TransactionSequenceNumbers(AtomicU32);

impl TransactionSequenceNumbers {
    /// Draws the first number.
    pub fn new(random: RandomSource<'_>) -> TransactionSequenceNumbers {
        let mut bytes = [0; 4];
        random(&mut bytes);
        TransactionSequenceNumbers(AtomicU32::new(u32::from_le_bytes(bytes)))
    }

    /// Returns the next number, which is not 0.
    pub fn next(&self) -> u32 {
        let next = || self.0.fetch_add(1, Ordering::Relaxed);
        Some(next()).filter(|number| *number != 0).unwrap_or_else(next)
    }
}

/// Connection that a queue is on, as far as authentication depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueTransportChannel {
    /// Admin queue without TLS: a host may derive a key for TLS there.
    AdminInTheClear,
    /// Any other queue.
    Other,
}

/// AuthenticationMessage that the controller has to send, or the one that it waits for.
#[derive(Debug)]
enum ControllerAuthenticationStep {
    AwaitNegotiate,
    SendChallenge(Box<AgreedTransactionValues>),
    AwaitReply(Box<AgreedTransactionValues>),
    SendSuccess1(Box<AgreedTransactionValues>, Option<Secret>),
    AwaitSuccess2(Box<AgreedTransactionValues>),
    SendFailure1(AuthenticationFailureReason),
}

/// Values of a transaction that both sides have agreed on.
#[derive(Debug)]
struct AgreedTransactionValues {
    channel: SecureChannel,
    hash: Hash,
    group: DhGroup,
    sequence: u32,
    challenge: Secret,
    pair: DhKeyPair,
    /// Key for TLS that the transaction yields once it has ended well.
    generated: Option<Psk>,
}

/// Reason why a command of the host fails, in place of a message that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationReceiveError {
    /// The host has less room than the message has bytes; it may ask again.
    TooShort,
}

/// Controller's side of the authentication of one queue.
///
/// [`take`](Self::take) gets the data of Authentication Send, [`give`](Self::give) returns those of Authentication Receive.
/// Failures travel as messages, so that both commands succeed.
#[derive(Debug)]
pub struct ControllerAuthentication {
    keys: Arc<HostAuthenticationKeys>,
    sequences: Arc<TransactionSequenceNumbers>,
    channel: QueueTransportChannel,
    names: [String; 2],
    transaction: u16,
    step: ControllerAuthenticationStep,
    is_authenticated: bool,
    has_failed: bool,
    generated: Option<Psk>,
}

impl ControllerAuthentication {
    /// Begins with a queue that the host has connected. The names are those of the host and of the subsystem.
    pub fn new(
        keys: Arc<HostAuthenticationKeys>,
        sequences: Arc<TransactionSequenceNumbers>,
        channel: QueueTransportChannel,
        names: [&str; 2],
    ) -> ControllerAuthentication {
        ControllerAuthentication {
            is_authenticated: keys.dhchap.is_none(),
            keys,
            sequences,
            channel,
            names: names.map(String::from),
            transaction: 0,
            step: ControllerAuthenticationStep::AwaitNegotiate,
            has_failed: false,
            generated: None,
        }
    }

    /// Returns true if the host may use the queue: it has authenticated, or it need not.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Returns true if the connection has to be closed, since a transaction has failed and the host knows it.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Takes the pre-shared key for TLS that the host and the controller have derived, if they have.
    pub fn take_generated_psk(&mut self) -> Option<Psk> {
        self.generated.take()
    }

    /// Takes a message of the host.
    pub fn take(&mut self, bytes: &[u8], random: RandomSource<'_>) {
        let step = std::mem::replace(&mut self.step, ControllerAuthenticationStep::AwaitNegotiate);
        self.step = match self.advance(step, bytes, random) {
            Ok(step) => step,
            Err(reason) => ControllerAuthenticationStep::SendFailure1(reason),
        };
    }

    fn advance(
        &mut self,
        step: ControllerAuthenticationStep,
        bytes: &[u8],
        random: RandomSource<'_>,
    ) -> Result<ControllerAuthenticationStep, AuthenticationFailureReason> {
        let (transaction, message) = AuthenticationMessage::decode(bytes)?;
        match (step, message) {
            (ControllerAuthenticationStep::SendFailure1(reason), _) => Err(reason),
            // A host may restart authentication at any time.
            (_, AuthenticationMessage::Negotiate { channel, proposals }) => {
                self.transaction = transaction;
                let (hashes, groups) = proposals.ok_or(AuthenticationFailureReason::ProtocolNotUsable)?;
                Ok(ControllerAuthenticationStep::SendChallenge(Box::new(
                    self.choose_from_host_proposals(channel, &hashes, &groups, random)?,
                )))
            }
            _ if transaction != self.transaction => Err(AuthenticationFailureReason::IncorrectPayload),
            (
                ControllerAuthenticationStep::AwaitReply(agreed),
                AuthenticationMessage::Reply { response, sequence, challenge, public },
            ) => self.check_host_response(agreed, &response, (sequence, challenge.as_deref()), &public),
            (ControllerAuthenticationStep::AwaitSuccess2(agreed), AuthenticationMessage::Success2) => {
                self.accept_authenticated_host(*agreed);
                Ok(ControllerAuthenticationStep::AwaitNegotiate)
            }
            (_, AuthenticationMessage::Failure2(_)) => {
                (self.has_failed, self.is_authenticated) = (true, false);
                Ok(ControllerAuthenticationStep::AwaitNegotiate)
            }
            _ => Err(AuthenticationFailureReason::IncorrectMessage),
        }
    }

    /// Chooses among the proposals of the host.
    fn choose_from_host_proposals(
        &self,
        channel: SecureChannel,
        hashes: &[u8],
        groups: &[u8],
        random: RandomSource<'_>,
    ) -> Result<AgreedTransactionValues, AuthenticationFailureReason> {
        if self.keys.dhchap.is_none() {
            return Err(AuthenticationFailureReason::AuthenticationFailed);
        }
        let is_possible = match channel {
            SecureChannel::None => true,
            SecureChannel::NewTlsPsk => self.channel == QueueTransportChannel::AdminInTheClear,
            SecureChannel::ReplaceTlsPsk | SecureChannel::Reserved(_) => false,
        };
        if !is_possible {
            return Err(AuthenticationFailureReason::SecureChannelMismatch);
        }
        let with_channel = channel != SecureChannel::None;
        // TLS 1.3 has no cipher suite with SHA-512.
        let is_usable = |hash: &Hash| hashes.contains(&hash.id()) && !(with_channel && *hash == Hash::Sha512);
        let hash = self.keys.hashes().into_iter().find(is_usable).ok_or(AuthenticationFailureReason::HashNotUsable)?;
        let is_proposed = |group: &DhGroup| groups.contains(&group.id());
        let group =
            self.keys.groups().into_iter().find(is_proposed).ok_or(AuthenticationFailureReason::GroupNotUsable)?;
        if with_channel && groups.contains(&DhGroup::Null.id()) {
            return Err(AuthenticationFailureReason::GroupNotUsable);
        }
        Ok(AgreedTransactionValues {
            channel,
            hash,
            group,
            sequence: self.sequences.next(),
            challenge: Secret::random(hash.bytes(), random),
            pair: DhKeyPair::generate(group, random),
            generated: None,
        })
    }

    /// Checks the response of the host, and computes that of the controller if the host asks for it.
    fn check_host_response(
        &mut self,
        mut agreed: Box<AgreedTransactionValues>,
        response: &[u8],
        (sequence, challenge): (u32, Option<&[u8]>),
        public: &[u8],
    ) -> Result<ControllerAuthenticationStep, AuthenticationFailureReason> {
        let (hash, [host, subsystem]) = (agreed.hash, [&self.names[0][..], &self.names[1][..]]);
        if response.len() != hash.bytes() || public.len() != agreed.group.bytes() {
            return Err(AuthenticationFailureReason::IncorrectPayload);
        }
        let shared = match agreed.group {
            DhGroup::Null => Secret::default(),
            _ => agreed.pair.shared(public).ok_or(AuthenticationFailureReason::IncorrectPayload)?,
        };
        let input = |challenge, sequence| ChallengeResponseInput {
            hash,
            group: agreed.group,
            shared: &shared,
            challenge,
            sequence,
            transaction: self.transaction,
            channel: agreed.channel,
            names: [host, subsystem],
        };
        let key = self.keys.dhchap.as_ref().ok_or(AuthenticationFailureReason::AuthenticationFailed)?.key(host);
        let own = input(&agreed.challenge, agreed.sequence);
        if !own.with_parts(AuthenticationSide::Host, |parts| hash.verify_hmac_in_constant_time(&key, parts, response)) {
            return Err(AuthenticationFailureReason::AuthenticationFailed);
        }
        // A host that reflects the controller's challenge could let the controller compute the host's own response.
        if challenge.is_some_and(|challenge| *challenge == agreed.challenge[..]) {
            return Err(AuthenticationFailureReason::AuthenticationFailed);
        }
        let answer = match challenge.filter(|_| sequence != 0) {
            Some(challenge) => {
                let key = self.keys.dhchap_controller.as_ref().map(|secret| secret.key(subsystem));
                let key = key.ok_or(AuthenticationFailureReason::AuthenticationFailed)?;
                let own = input(challenge, sequence);
                Some(own.with_parts(AuthenticationSide::Controller, |parts| hash.hmac(&key, parts)))
            }
            None => None,
        };
        if agreed.channel != SecureChannel::None {
            let challenge = challenge.ok_or(AuthenticationFailureReason::IncorrectPayload)?;
            let challenges = [&agreed.challenge[..], challenge];
            agreed.generated = derive_generated_psk(hash, &hash.digest(&shared), challenges, [host, subsystem]);
        }
        Ok(ControllerAuthenticationStep::SendSuccess1(agreed, answer))
    }

    fn accept_authenticated_host(&mut self, agreed: AgreedTransactionValues) {
        self.is_authenticated = true;
        self.generated = agreed.generated;
    }

    /// Returns the message that the host is to get, which fits its room.
    ///
    /// # Errors
    /// If the room is too short.
    pub fn give(&mut self, room: usize) -> Result<Vec<u8>, AuthenticationReceiveError> {
        let message = match &self.step {
            ControllerAuthenticationStep::SendChallenge(agreed) => AuthenticationMessage::Challenge {
                hash: agreed.hash.id(),
                group: agreed.group.id(),
                sequence: agreed.sequence,
                challenge: agreed.challenge.to_vec(),
                public: agreed.pair.public().to_vec(),
            },
            ControllerAuthenticationStep::SendSuccess1(agreed, answer) => AuthenticationMessage::Success1 {
                hash_bytes: phaselink_core::number::narrow(agreed.hash.bytes()),
                response: answer.as_ref().map(|answer| answer.to_vec()),
            },
            ControllerAuthenticationStep::SendFailure1(reason) => AuthenticationMessage::Failure1(*reason),
            // The host has to reply now, so a message out of order fails the authentication.
            _ => AuthenticationMessage::Failure1(AuthenticationFailureReason::IncorrectMessage),
        };
        let bytes = message.encode(self.transaction);
        if bytes.len() > room {
            return Err(AuthenticationReceiveError::TooShort);
        }
        self.step = match std::mem::replace(&mut self.step, ControllerAuthenticationStep::AwaitNegotiate) {
            ControllerAuthenticationStep::SendChallenge(agreed) => ControllerAuthenticationStep::AwaitReply(agreed),
            ControllerAuthenticationStep::SendSuccess1(agreed, Some(_)) => {
                ControllerAuthenticationStep::AwaitSuccess2(agreed)
            }
            ControllerAuthenticationStep::SendSuccess1(agreed, None) => {
                self.accept_authenticated_host(*agreed);
                ControllerAuthenticationStep::AwaitNegotiate
            }
            _ => {
                (self.has_failed, self.is_authenticated) = (true, false);
                ControllerAuthenticationStep::AwaitNegotiate
            }
        };
        Ok(bytes)
    }
}
