//! Targets that read what the other side of an authentication or of a TLS connection sends, and files of keys.

use std::sync::Arc;

use phaselink_serve::front::nvme_tcp::authentication::controller::{
    ControllerAuthentication, QueueTransportChannel, TransactionSequenceNumbers,
};
use phaselink_serve::front::nvme_tcp::authentication::host::HostAuthentication;
use phaselink_serve::front::nvme_tcp::authentication::key_file::{HostAuthenticationKeys, HostKeyFile};
use phaselink_serve::front::nvme_tcp::authentication::keys::{Psk, TlsKey};
use phaselink_serve::front::nvme_tcp::authentication::message::{
    AuthenticationFailureReason, AuthenticationMessage, MESSAGE_BYTES_MAX, SecureChannel,
};
use phaselink_serve::front::nvme_tcp::tls::channel::TlsChannel;

use crate::Target;
use crate::script::Script;

/// Checks the messages of a host, and of a controller, that are what an attacker likes. Each begins with its length.
pub(super) const MESSAGES: Target = Target { name: "dhchap", run: messages, seeds: message_seeds };
/// Checks both ends of a TLS connection. The first byte chooses the end, and if its handshake is over; the second is the
/// size of the pieces that arrive.
pub(super) const TLS: Target = Target { name: "tls", run: tls, seeds: tls_seeds };
/// Checks a file of keys.
pub(super) const KEYS: Target = Target { name: "key-file", run: keys, seeds: key_seeds };

const NAMES: [&str; 2] = ["nqn.host", "nqn.drive"];
const LINE: &str = "nqn.host dhchap_key=DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV: \
                    dhchap_ctrl_key=DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz: dhchap_dhgroup=null\n";
const TLS_KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

fn fixed(bytes: &mut [u8]) {
    (1..=u8::MAX).cycle().zip(bytes).for_each(|(count, byte)| *byte = count);
}

fn host_keys() -> Arc<HostAuthenticationKeys> {
    let file = HostKeyFile::parse("keys", LINE).expect("the line is valid");
    Arc::clone(file.host(NAMES[0]).expect("the host has a line"))
}

fn messages(input: &[u8]) {
    let (mut script, keys) = (Script::new(input), host_keys());
    let sequences = Arc::new(TransactionSequenceNumbers::new(&mut fixed));
    let channel = QueueTransportChannel::AdminInTheClear;
    let mut controller = ControllerAuthentication::new(Arc::clone(&keys), Arc::clone(&sequences), channel, NAMES);
    let mut host = HostAuthentication::new(&keys, NAMES, 1);
    while !script.is_over() {
        let length = script.number(2) as usize % (2 * MESSAGE_BYTES_MAX);
        let message = script.bytes(length);
        controller.take(message, &mut fixed);
        if let Ok(answer) = controller.give(MESSAGE_BYTES_MAX) {
            assert!(answer.len() <= MESSAGE_BYTES_MAX && AuthenticationMessage::decode(&answer).is_ok());
        }
        let reply = host.reply(message, &sequences, &mut fixed);
        assert!(reply.is_err() || reply.is_ok_and(|reply| AuthenticationMessage::decode(&reply).is_ok()));
        let _ = host.finish(message);
    }
    // A response of 32 bytes cannot be guessed.
    assert!(!controller.is_authenticated());
}

fn message_seeds() -> Vec<Vec<u8>> {
    let proposals = Some((vec![1, 2, 3], vec![0]));
    let (challenge, response) = (vec![1; 32], vec![2; 32]);
    let all = [
        AuthenticationMessage::Negotiate { channel: SecureChannel::None, proposals: proposals.clone() },
        AuthenticationMessage::Negotiate { channel: SecureChannel::NewTlsPsk, proposals },
        AuthenticationMessage::Challenge {
            hash: 1,
            group: 0,
            sequence: 7,
            challenge: challenge.clone(),
            public: Vec::new(),
        },
        AuthenticationMessage::Reply {
            response: response.clone(),
            sequence: 7,
            challenge: Some(challenge),
            public: Vec::new(),
        },
        AuthenticationMessage::Success1 { hash_bytes: 32, response: Some(response) },
        AuthenticationMessage::Success2,
        AuthenticationMessage::Failure1(AuthenticationFailureReason::HashNotUsable),
        AuthenticationMessage::Failure2(AuthenticationFailureReason::IncorrectPayload),
    ];
    let with_length = |message: &AuthenticationMessage| {
        let bytes = message.encode(1);
        [&(bytes.len() as u16).to_le_bytes(), &bytes[..]].concat()
    };
    let mut seeds: Vec<Vec<u8>> = all.iter().map(with_length).collect();
    seeds.push(seeds.concat());
    seeds
}

fn psks() -> Vec<Psk> {
    TlsKey::parse(TLS_KEY).expect("the key is valid").psks(NAMES[0], NAMES[1])
}

fn tls(input: &[u8]) {
    let mut script = Script::new(input);
    let (mode, piece_bytes) = (script.byte(), 1 + usize::from(script.byte()) * 4);
    let (mut client, mut server) = (TlsChannel::client(psks(), fixed), TlsChannel::server(psks(), fixed));
    if mode & 2 != 0 {
        for _ in 0..2 {
            server.receive(&std::mem::take(client.outgoing())).expect("the client has the key");
            client.receive(&std::mem::take(server.outgoing())).expect("the server has the key");
        }
        assert!(server.identity().is_some() && client.identity().is_some());
    }
    let end = if mode & 1 == 0 { &mut server } else { &mut client };
    let was_open = end.identity().is_some();
    let received = script.bytes(usize::MAX).chunks(piece_bytes).try_for_each(|piece| end.receive(piece));
    // Only a client with the key ends a handshake, and no byte reaches the application that the other end has not sent.
    assert!(was_open || received.is_err() || end.identity().is_none());
    assert!(end.plaintext().is_empty());
}

fn tls_seeds() -> Vec<Vec<u8>> {
    let mut client = TlsChannel::client(psks(), fixed);
    let mut server = TlsChannel::server(psks(), fixed);
    let hello = std::mem::take(client.outgoing());
    server.receive(&hello).expect("the client has the key");
    let answer = std::mem::take(server.outgoing());
    let alert = [21, 3, 3, 0, 2, 2, 40];
    // Without the key, the answer belongs to another hello, since every connection has its own random values.
    vec![
        [&[4, 40], &hello[..hello.len() - 1]].concat(),
        [&[1, 40], &answer[..100]].concat(),
        [&[0, 255], &alert[..]].concat(),
        [&[2, 255], &alert[..]].concat(),
        [&[3, 9][..], &[23, 3, 3, 0, 20], &[7; 20]].concat(),
        [&[2, 9][..], &[20, 3, 3, 0, 1, 1]].concat(),
    ]
}

fn keys(input: &[u8]) {
    let text = super::text(input);
    if let Ok(file) = HostKeyFile::parse("keys", &text) {
        let _ = file.warnings();
        assert!(file.hosts().all(|(host, _)| host.starts_with("nqn.") && file.host(host).is_some()));
    }
}

fn key_seeds() -> Vec<Vec<u8>> {
    [LINE, &format!("# keys\nnqn.a tls_key={TLS_KEY} dhchap_hash=sha384 # a\n"), "nqn.b dhchap_key=DHHC-1:00:AAAA:\n"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
