//! Client's side of a handshake of TLS 1.3 with a pre-shared key; the messages are in the head of [`super::server`].

use super::alert::Alert;
use super::flow::TlsFlowState;
use super::hello::{ServerHello, kind, write_client_hello};
use super::record::RecordProtectionKey;
use super::schedule::{EarlySecret, TrafficSecrets};
use super::suite::{ExchangeGroup, KeyExchangePair, TlsCipherSuite};
use crate::front::nvme_tcp::authentication::keys::Psk;

/// Message that the client waits for.
#[derive(Debug)]
enum AwaitedServerMessage {
    /// ServerHello, or HelloRetryRequest if there has been none.
    Hello {
        pair: KeyExchangePair,
        group: ExchangeGroup,
        is_retried: bool,
    },
    EncryptedExtensions(Box<AgreedHandshakeKeys>),
    Finished(Box<AgreedHandshakeKeys>),
    Done,
    /// State before the first message, and after an error.
    Idle,
}

/// Keys of a handshake whose ServerHello has come.
#[derive(Debug)]
struct AgreedHandshakeKeys {
    suite: TlsCipherSuite,
    handshake: super::schedule::HandshakeSecret,
    secrets: TrafficSecrets,
}

/// Client's side of a handshake.
#[derive(Debug)]
pub(super) struct ClientHandshake {
    psks: Vec<Psk>,
    random: [u8; 32],
    step: AwaitedServerMessage,
    identity: String,
}

impl ClientHandshake {
    pub(super) fn new(psks: Vec<Psk>) -> ClientHandshake {
        ClientHandshake { psks, random: [0; 32], step: AwaitedServerMessage::Idle, identity: String::new() }
    }

    pub(super) fn identity(&self) -> Option<&str> {
        matches!(self.step, AwaitedServerMessage::Done).then_some(&self.identity[..])
    }

    /// Sends the first ClientHello.
    pub(super) fn start(&mut self, flow: &mut TlsFlowState) {
        (flow.random)(&mut self.random);
        self.send_client_hello(ExchangeGroup::ALL[0], false, flow);
    }

    fn send_client_hello(&mut self, group: ExchangeGroup, is_retried: bool, flow: &mut TlsFlowState) {
        let pair = KeyExchangePair::generate(group, &mut flow.random);
        let mut suites: Vec<TlsCipherSuite> = self.psks.iter().map(|psk| TlsCipherSuite::of(psk.hash)).collect();
        suites.dedup();
        let offers: Vec<(&str, usize)> = self.psks.iter().map(|psk| (&psk.identity[..], psk.hash.bytes())).collect();
        let (mut message, bound) = write_client_hello(&self.random, &suites, (group, &pair.public()), &offers);
        let proved = [&flow.transcript[..], &message[..bound]].concat();
        // The total length of all binders takes two bytes, and the length of each takes one.
        let mut at = bound + 2;
        for psk in &self.psks {
            let key = EarlySecret::new(psk.hash, &psk.key).binder_key();
            let binder = psk.hash.hmac(&key, &[&psk.hash.digest(&proved)]);
            message[at + 1..][..binder.len()].copy_from_slice(&binder);
            at += 1 + binder.len();
        }
        flow.send(&message);
        self.step = AwaitedServerMessage::Hello { pair, group, is_retried };
    }

    pub(super) fn receive(&mut self, received: &[u8], flow: &mut TlsFlowState) -> Result<(), Alert> {
        let step = std::mem::replace(&mut self.step, AwaitedServerMessage::Idle);
        self.step = match step {
            AwaitedServerMessage::Hello { pair, group, is_retried } if received[0] == kind::SERVER_HELLO => {
                match ServerHello::read(received)? {
                    ServerHello::Chosen { suite, share, psk } if share.0 == group.code() => {
                        let shared = pair.shared(share.1).ok_or(Alert::IllegalParameter)?;
                        self.derive_agreed_keys((suite, psk), &shared, received, flow)?
                    }
                    ServerHello::Retry { suite, group: wanted } if !is_retried && wanted != group.code() => {
                        return self.retry_with_requested_group(suite, wanted, received, flow);
                    }
                    _ => return Err(Alert::IllegalParameter),
                }
            }
            AwaitedServerMessage::EncryptedExtensions(agreed) if received[0] == kind::ENCRYPTED_EXTENSIONS => {
                flow.transcript.extend(received);
                AwaitedServerMessage::Finished(agreed)
            }
            AwaitedServerMessage::Finished(agreed) => {
                let AgreedHandshakeKeys { suite, handshake, secrets } = *agreed;
                flow.verify_finished_message(suite.hash(), &secrets.server, received)?;
                let application = handshake.application(&flow.transcript);
                flow.send(&flow.finished(suite.hash(), &secrets.client));
                flow.writer = Some(RecordProtectionKey::new(suite, application.client));
                flow.reader = Some(RecordProtectionKey::new(suite, application.server));
                AwaitedServerMessage::Done
            }
            _ => return Err(Alert::UnexpectedMessage),
        };
        Ok(())
    }

    /// Sends another ClientHello, with a share of the group that the server asks for.
    fn retry_with_requested_group(
        &mut self,
        suite: u16,
        group: u16,
        received: &[u8],
        flow: &mut TlsFlowState,
    ) -> Result<(), Alert> {
        self.psks.retain(|psk| TlsCipherSuite::of(psk.hash).code() == suite);
        let hash = self.psks.first().ok_or(Alert::IllegalParameter)?.hash;
        let group = ExchangeGroup::from_code(group).ok_or(Alert::IllegalParameter)?;
        flow.hash_first_transcript_message(hash);
        flow.transcript.extend(received);
        self.send_client_hello(group, true, flow);
        Ok(())
    }

    /// Derives the keys from what the server has chosen.
    fn derive_agreed_keys(
        &mut self,
        (suite, psk): (u16, u16),
        shared: &[u8],
        received: &[u8],
        flow: &mut TlsFlowState,
    ) -> Result<AwaitedServerMessage, Alert> {
        let psk = self.psks.get(usize::from(psk)).filter(|psk| TlsCipherSuite::of(psk.hash).code() == suite);
        let psk = psk.ok_or(Alert::IllegalParameter)?;
        let suite = TlsCipherSuite::of(psk.hash);
        self.identity = psk.identity.clone();
        flow.transcript.extend(received);
        let handshake = EarlySecret::new(psk.hash, &psk.key).handshake(shared);
        let secrets = handshake.traffic(&flow.transcript);
        flow.reader = Some(RecordProtectionKey::new(suite, secrets.server.clone()));
        flow.writer = Some(RecordProtectionKey::new(suite, secrets.client.clone()));
        Ok(AwaitedServerMessage::EncryptedExtensions(Box::new(AgreedHandshakeKeys { suite, handshake, secrets })))
    }
}
