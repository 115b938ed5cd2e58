//! Server's side of a handshake of TLS 1.3 with a pre-shared key.
//!
//! ```text
//! client                                         server
//!  │ ClientHello  groups, share, keys, binders      │
//!  ├───────────────────────────────────────────────►│
//!  │ [HelloRetryRequest, if the share is of a group │
//!  │  that the server does not know, and once more] │
//!  │ ServerHello  share, key                        │
//!  │ {EncryptedExtensions} {Finished}               │
//!  │◄───────────────────────────────────────────────┤
//!  │ {Finished}                                     │
//!  ├───────────────────────────────────────────────►│
//! ```

use super::alert::Alert;
use super::flow::TlsFlowState;
use super::hello::{ClientHello, encode_hello_retry_request, encode_server_hello, kind, message};
use super::record::{ContentType, RecordProtectionKey, append_unencrypted_records};
use super::schedule::EarlySecret;
use super::suite::{ExchangeGroup, KeyExchangePair, TlsCipherSuite};
use crate::front::nvme_tcp::authentication::keys::Psk;
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Message that the server waits for.
#[derive(Debug)]
enum AwaitedClientMessage {
    Hello,
    /// ClientHello with a share of the group that the server has asked for.
    RetriedHello(TlsCipherSuite, ExchangeGroup),
    /// Finished of the client; the secret is that of its data.
    Finished(TlsCipherSuite, Secret),
    Done,
}

/// Server's side of a handshake.
#[derive(Debug)]
pub(super) struct ServerHandshake {
    psks: Vec<Psk>,
    step: AwaitedClientMessage,
    identity: String,
}

impl ServerHandshake {
    pub(super) fn new(psks: Vec<Psk>) -> ServerHandshake {
        ServerHandshake { psks, step: AwaitedClientMessage::Hello, identity: String::new() }
    }

    pub(super) fn identity(&self) -> Option<&str> {
        matches!(self.step, AwaitedClientMessage::Done).then_some(&self.identity[..])
    }

    pub(super) fn receive(&mut self, received: &[u8], flow: &mut TlsFlowState) -> Result<(), Alert> {
        let step = std::mem::replace(&mut self.step, AwaitedClientMessage::Hello);
        self.step = match step {
            AwaitedClientMessage::Hello => self.receive_client_hello(received, None, flow)?,
            AwaitedClientMessage::RetriedHello(suite, group) => {
                self.receive_client_hello(received, Some((suite, group)), flow)?
            }
            AwaitedClientMessage::Finished(suite, application) => {
                let reader = flow.reader.as_ref().map(|reader| reader.secret().clone()).unwrap_or_default();
                flow.verify_finished_message(suite.hash(), &reader, received)?;
                flow.reader = Some(RecordProtectionKey::new(suite, application));
                AwaitedClientMessage::Done
            }
            AwaitedClientMessage::Done => return Err(Alert::UnexpectedMessage),
        };
        Ok(())
    }

    fn receive_client_hello(
        &mut self,
        received: &[u8],
        retried: Option<(TlsCipherSuite, ExchangeGroup)>,
        flow: &mut TlsFlowState,
    ) -> Result<AwaitedClientMessage, Alert> {
        if received[0] != kind::CLIENT_HELLO {
            return Err(Alert::UnexpectedMessage);
        }
        let hello = ClientHello::read(received)?;
        let (offer, psk) = self.choose_psk(&hello, &received[..hello.bound_bytes], retried, flow)?;
        let suite = TlsCipherSuite::of(psk.hash);
        let has_share = |group: &ExchangeGroup| hello.shares.iter().any(|(code, _)| *code == group.code());
        let group = match retried {
            Some((_, group)) => Some(group).filter(has_share).ok_or(Alert::IllegalParameter)?,
            None => match ExchangeGroup::ALL.into_iter().find(has_share) {
                Some(group) => group,
                None => return ServerHandshake::request_share_of_common_group(received, &hello, suite, flow),
            },
        };
        let share = hello.shares.iter().find(|(code, _)| *code == group.code()).map_or(&[][..], |(_, share)| share);
        let pair = KeyExchangePair::generate(group, &mut flow.random);
        let shared = pair.shared(share).ok_or(Alert::IllegalParameter)?;
        let early = EarlySecret::new(psk.hash, &psk.key);
        self.identity = psk.identity.clone();
        flow.transcript.extend(received);
        let mut random = [0; 32];
        (flow.random)(&mut random);
        flow.send(&encode_server_hello(&random, hello.session, suite, (group, &pair.public()), offer));
        if !hello.session.is_empty() {
            append_unencrypted_records(ContentType::ChangeCipherSpec, &[1], &mut flow.outgoing);
        }
        let handshake = early.handshake(&shared);
        let secrets = handshake.traffic(&flow.transcript);
        flow.writer = Some(RecordProtectionKey::new(suite, secrets.server.clone()));
        flow.reader = Some(RecordProtectionKey::new(suite, secrets.client));
        flow.send(&message(kind::ENCRYPTED_EXTENSIONS, &[0, 0]));
        flow.send(&flow.finished(suite.hash(), &secrets.server));
        let application = handshake.application(&flow.transcript);
        flow.writer = Some(RecordProtectionKey::new(suite, application.server));
        Ok(AwaitedClientMessage::Finished(suite, application.client))
    }

    /// Chooses the first offered key that is known, whose suite the client supports, and whose binder is right. Returns its
    /// place among the offers, too.
    fn choose_psk(
        &self,
        hello: &ClientHello<'_>,
        bound: &[u8],
        retried: Option<(TlsCipherSuite, ExchangeGroup)>,
        flow: &TlsFlowState,
    ) -> Result<(u16, &Psk), Alert> {
        let mut refused = Alert::UnknownPskIdentity;
        for (at, offer) in (0..).zip(&hello.offers) {
            for psk in self.psks.iter().filter(|psk| psk.identity.as_bytes() == offer.identity) {
                let suite = TlsCipherSuite::of(psk.hash);
                if !hello.suites.contains(&suite.code()) || retried.is_some_and(|(chosen, _)| chosen != suite) {
                    refused = Alert::HandshakeFailure;
                    continue;
                }
                let transcript = psk.hash.digest(&[&flow.transcript[..], bound].concat());
                let key = EarlySecret::new(psk.hash, &psk.key).binder_key();
                if psk.hash.verify_hmac_in_constant_time(&key, &[&transcript], offer.binder) {
                    return Ok((at, psk));
                }
                refused = Alert::DecryptError;
            }
        }
        Err(refused)
    }

    /// Asks for a share of a group that both sides know.
    fn request_share_of_common_group(
        received: &[u8],
        hello: &ClientHello<'_>,
        suite: TlsCipherSuite,
        flow: &mut TlsFlowState,
    ) -> Result<AwaitedClientMessage, Alert> {
        let is_known = |group: &ExchangeGroup| hello.groups.contains(&group.code());
        let group = ExchangeGroup::ALL.into_iter().find(is_known).ok_or(Alert::HandshakeFailure)?;
        flow.transcript.extend(received);
        flow.hash_first_transcript_message(suite.hash());
        flow.send(&encode_hello_retry_request(hello.session, suite, group));
        Ok(AwaitedClientMessage::RetriedHello(suite, group))
    }
}
