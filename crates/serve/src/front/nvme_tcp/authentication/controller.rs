//! Controller's side of authentication: one for each queue of a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::group::{DhGroup, DhKeyPair};
use super::hash::Hash;
use super::key_file::HostKeys;
use super::keys::{Psk, generated_psk};
use super::message::{AuthenticationMessage, FailureReason, ResponseInput, SecureChannel, Side};
use super::secret::{RandomSource, Secret};

/// Sequence numbers of all transactions of a subsystem or of a host. They begin at random and skip 0.
#[derive(Debug)]
pub struct SequenceNumbers(AtomicU32);

impl SequenceNumbers {
    /// Draws the first number.
    pub fn new(random: RandomSource<'_>) -> SequenceNumbers {
        let mut bytes = [0; 4];
        random(&mut bytes);
        SequenceNumbers(AtomicU32::new(u32::from_le_bytes(bytes)))
    }

    /// Returns the next number, which is not 0.
    pub fn next(&self) -> u32 {
        let next = || self.0.fetch_add(1, Ordering::Relaxed);
        Some(next()).filter(|number| *number != 0).unwrap_or_else(next)
    }
}

/// Connection that a queue is on, as far as authentication depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChannel {
    /// Admin queue without TLS: a host may derive a key for TLS there.
    AdminInTheClear,
    /// Any other queue.
    Other,
}

/// AuthenticationMessage that the controller has to send, or the one that it waits for.
#[derive(Debug)]
enum ControllerStep {
    AwaitNegotiate,
    SendChallenge(Box<Transaction>),
    AwaitReply(Box<Transaction>),
    SendSuccess1(Box<Transaction>, Option<Secret>),
    AwaitSuccess2(Box<Transaction>),
    SendFailure1(FailureReason),
}

/// Values of a transaction that both sides have agreed on.
#[derive(Debug)]
struct Transaction {
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
pub enum ReceiveError {
    /// The host has less room than the message has bytes; it may ask again.
    TooShort,
}

/// Controller's side of the authentication of one queue.
///
/// [`take`](Self::take) gets the data of Authentication Send, [`give`](Self::give) returns those of Authentication Receive.
/// Failures travel as messages, so that both commands succeed.
#[derive(Debug)]
pub struct ControllerAuthentication {
    keys: Arc<HostKeys>,
    sequences: Arc<SequenceNumbers>,
    channel: QueueChannel,
    names: [String; 2],
    transaction: u16,
    step: ControllerStep,
    is_authenticated: bool,
    has_failed: bool,
    generated: Option<Psk>,
}

impl ControllerAuthentication {
    /// Begins with a queue that the host has connected. The names are those of the host and of the subsystem.
    pub fn new(
        keys: Arc<HostKeys>,
        sequences: Arc<SequenceNumbers>,
        channel: QueueChannel,
        names: [&str; 2],
    ) -> ControllerAuthentication {
        ControllerAuthentication {
            is_authenticated: keys.dhchap.is_none(),
            keys,
            sequences,
            channel,
            names: names.map(String::from),
            transaction: 0,
            step: ControllerStep::AwaitNegotiate,
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
    pub fn take_generated(&mut self) -> Option<Psk> {
        self.generated.take()
    }

    /// Takes a message of the host.
    pub fn take(&mut self, bytes: &[u8], random: RandomSource<'_>) {
        let step = std::mem::replace(&mut self.step, ControllerStep::AwaitNegotiate);
        self.step = match self.advance(step, bytes, random) {
            Ok(step) => step,
            Err(reason) => ControllerStep::SendFailure1(reason),
        };
    }

    fn advance(
        &mut self,
        step: ControllerStep,
        bytes: &[u8],
        random: RandomSource<'_>,
    ) -> Result<ControllerStep, FailureReason> {
        let (transaction, message) = AuthenticationMessage::decode(bytes)?;
        match (step, message) {
            (ControllerStep::SendFailure1(reason), _) => Err(reason),
            // A host may begin anew at any time.
            (_, AuthenticationMessage::Negotiate { channel, proposals }) => {
                self.transaction = transaction;
                let (hashes, groups) = proposals.ok_or(FailureReason::ProtocolNotUsable)?;
                Ok(ControllerStep::SendChallenge(Box::new(self.agree(channel, &hashes, &groups, random)?)))
            }
            _ if transaction != self.transaction => Err(FailureReason::IncorrectPayload),
            (
                ControllerStep::AwaitReply(agreed),
                AuthenticationMessage::Reply { response, sequence, challenge, public },
            ) => self.check_reply(agreed, &response, (sequence, challenge.as_deref()), &public),
            (ControllerStep::AwaitSuccess2(agreed), AuthenticationMessage::Success2) => {
                self.accept(*agreed);
                Ok(ControllerStep::AwaitNegotiate)
            }
            (_, AuthenticationMessage::Failure2(_)) => {
                (self.has_failed, self.is_authenticated) = (true, false);
                Ok(ControllerStep::AwaitNegotiate)
            }
            _ => Err(FailureReason::IncorrectMessage),
        }
    }

    /// Chooses among the proposals of the host.
    fn agree(
        &self,
        channel: SecureChannel,
        hashes: &[u8],
        groups: &[u8],
        random: RandomSource<'_>,
    ) -> Result<Transaction, FailureReason> {
        if self.keys.dhchap.is_none() {
            return Err(FailureReason::AuthenticationFailed);
        }
        let is_possible = match channel {
            SecureChannel::None => true,
            SecureChannel::NewTlsPsk => self.channel == QueueChannel::AdminInTheClear,
            SecureChannel::ReplaceTlsPsk | SecureChannel::Reserved(_) => false,
        };
        if !is_possible {
            return Err(FailureReason::SecureChannelMismatch);
        }
        let with_channel = channel != SecureChannel::None;
        // TLS 1.3 has no cipher suite with SHA-512.
        let is_usable = |hash: &Hash| hashes.contains(&hash.id()) && !(with_channel && *hash == Hash::Sha512);
        let hash = self.keys.hashes().into_iter().find(is_usable).ok_or(FailureReason::HashNotUsable)?;
        let is_proposed = |group: &DhGroup| groups.contains(&group.id());
        let group = self.keys.groups().into_iter().find(is_proposed).ok_or(FailureReason::GroupNotUsable)?;
        if with_channel && groups.contains(&DhGroup::Null.id()) {
            return Err(FailureReason::GroupNotUsable);
        }
        Ok(Transaction {
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
    fn check_reply(
        &mut self,
        mut agreed: Box<Transaction>,
        response: &[u8],
        (sequence, challenge): (u32, Option<&[u8]>),
        public: &[u8],
    ) -> Result<ControllerStep, FailureReason> {
        let (hash, [host, subsystem]) = (agreed.hash, [&self.names[0][..], &self.names[1][..]]);
        if response.len() != hash.bytes() || public.len() != agreed.group.bytes() {
            return Err(FailureReason::IncorrectPayload);
        }
        let shared = match agreed.group {
            DhGroup::Null => Secret::default(),
            _ => agreed.pair.shared(public).ok_or(FailureReason::IncorrectPayload)?,
        };
        let input = |challenge, sequence| ResponseInput {
            hash,
            group: agreed.group,
            shared: &shared,
            challenge,
            sequence,
            transaction: self.transaction,
            channel: agreed.channel,
            names: [host, subsystem],
        };
        let key = self.keys.dhchap.as_ref().map(|secret| secret.key(host));
        let key = key.ok_or(FailureReason::AuthenticationFailed)?;
        let own = input(&agreed.challenge, agreed.sequence);
        if !own.with_parts(Side::Host, |parts| hash.is_hmac(&key, parts, response)) {
            return Err(FailureReason::AuthenticationFailed);
        }
        // A host that returns the challenge could have its own answer computed.
        if challenge.is_some_and(|challenge| *challenge == agreed.challenge[..]) {
            return Err(FailureReason::AuthenticationFailed);
        }
        let answer = match challenge.filter(|_| sequence != 0) {
            Some(challenge) => {
                let secret = self.keys.dhchap_controller.as_ref().ok_or(FailureReason::AuthenticationFailed)?;
                let key = secret.key(subsystem);
                Some(input(challenge, sequence).with_parts(Side::Controller, |parts| hash.hmac(&key, parts)))
            }
            None => None,
        };
        if agreed.channel != SecureChannel::None {
            let challenge = challenge.ok_or(FailureReason::IncorrectPayload)?;
            let challenges = [&agreed.challenge[..], challenge];
            agreed.generated = generated_psk(hash, &hash.digest(&shared), challenges, [host, subsystem]);
        }
        Ok(ControllerStep::SendSuccess1(agreed, answer))
    }

    fn accept(&mut self, agreed: Transaction) {
        self.is_authenticated = true;
        self.generated = agreed.generated;
    }

    /// Returns the message that the host is to get, which fits its room.
    ///
    /// # Errors
    /// If the room is too short.
    pub fn give(&mut self, room: usize) -> Result<Vec<u8>, ReceiveError> {
        let message = match &self.step {
            ControllerStep::SendChallenge(agreed) => AuthenticationMessage::Challenge {
                hash: agreed.hash.id(),
                group: agreed.group.id(),
                sequence: agreed.sequence,
                challenge: agreed.challenge.to_vec(),
                public: agreed.pair.public().to_vec(),
            },
            ControllerStep::SendSuccess1(agreed, answer) => AuthenticationMessage::Success1 {
                hash_bytes: phaselink_core::number::narrow(agreed.hash.bytes()),
                response: answer.as_ref().map(|answer| answer.to_vec()),
            },
            ControllerStep::SendFailure1(reason) => AuthenticationMessage::Failure1(*reason),
            // The host waits although it is its turn.
            _ => AuthenticationMessage::Failure1(FailureReason::IncorrectMessage),
        };
        let bytes = message.encode(self.transaction);
        if bytes.len() > room {
            return Err(ReceiveError::TooShort);
        }
        self.step = match std::mem::replace(&mut self.step, ControllerStep::AwaitNegotiate) {
            ControllerStep::SendChallenge(agreed) => ControllerStep::AwaitReply(agreed),
            ControllerStep::SendSuccess1(agreed, Some(_)) => ControllerStep::AwaitSuccess2(agreed),
            ControllerStep::SendSuccess1(agreed, None) => {
                self.accept(*agreed);
                ControllerStep::AwaitNegotiate
            }
            _ => {
                (self.has_failed, self.is_authenticated) = (true, false);
                ControllerStep::AwaitNegotiate
            }
        };
        Ok(bytes)
    }
}
