//! Whole transactions of both sides, and what becomes of those that are changed.

use std::sync::Arc;

use super::controller::{
    AuthenticationReceiveError, ControllerAuthentication, QueueTransportChannel, TransactionSequenceNumbers,
};
use super::host::{HostAuthentication, HostAuthenticationFailure};
use super::key_file::{HostAuthenticationKeys, HostKeyFile};
use super::message::{AuthenticationFailureReason, AuthenticationMessage, SecureChannel};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba";
const SUBSYSTEM: &str = "nqn.2026-01.example:drive";
const NAMES: [&str; 2] = [HOST, SUBSYSTEM];
const KEY: &str = "dhchap_key=DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
const WRONG: &str = "dhchap_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
const WRONG_CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const NULL: &str = "dhchap_dhgroup=null";

fn keys(words: &[&str]) -> Arc<HostAuthenticationKeys> {
    let file = HostKeyFile::parse("keys", &format!("{HOST} {}", words.join(" "))).unwrap();
    Arc::clone(file.host(HOST).unwrap())
}

/// Returns a source of random bytes that differ with the seed.
fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut state = seed;
    move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    }
}

/// Source of random bytes of a test.
type TestRandomSource = Box<dyn FnMut(&mut [u8])>;

/// Both sides of one queue.
struct Pair {
    controller: ControllerAuthentication,
    host_keys: Arc<HostAuthenticationKeys>,
    sequences: TransactionSequenceNumbers,
    random: TestRandomSource,
}

impl Pair {
    fn new(controller: &[&str], host: &[&str]) -> Pair {
        Pair::authentication_pair_with_seed(controller, host, 1)
    }

    fn authentication_pair_with_seed(controller: &[&str], host: &[&str], seed: u64) -> Pair {
        let mut random = random(seed);
        let sequences = Arc::new(TransactionSequenceNumbers::new(&mut random));
        let channel = QueueTransportChannel::AdminInTheClear;
        Pair {
            controller: ControllerAuthentication::new(keys(controller), sequences, channel, NAMES),
            host_keys: keys(host),
            sequences: TransactionSequenceNumbers::new(&mut random),
            random: Box::new(random),
        }
    }

    /// Sends a message to the controller, and returns its answer.
    fn send_to_controller(&mut self, message: &[u8]) -> Vec<u8> {
        self.controller.take(message, &mut self.random);
        self.controller.give(4096).unwrap()
    }

    /// Runs a whole transaction, where a function may change the messages: 0 to 4 in their order.
    fn run(&mut self, change: impl Fn(usize, &mut Vec<u8>)) -> Result<(), HostAuthenticationFailure> {
        let changed = |at: usize, mut message: Vec<u8>| {
            change(at, &mut message);
            message
        };
        let host_keys = Arc::clone(&self.host_keys);
        let mut host = HostAuthentication::new(&host_keys, NAMES, 7);
        let challenge = self.send_to_controller(&changed(0, host.negotiate()));
        let challenge = changed(1, challenge);
        let reply = match host.reply(&challenge, &self.sequences, &mut self.random) {
            Ok(reply) => reply,
            Err(failure) => return self.send_failure_to_controller(failure),
        };
        let success = self.send_to_controller(&changed(2, reply));
        match host.finish(&changed(3, success)) {
            Ok(Some(message)) => self.controller.take(&changed(4, message), &mut self.random),
            Ok(None) => {}
            Err(failure) => return self.send_failure_to_controller(failure),
        }
        Ok(())
    }

    fn send_failure_to_controller(
        &mut self,
        failure: HostAuthenticationFailure,
    ) -> Result<(), HostAuthenticationFailure> {
        if let Some(message) = &failure.message {
            self.controller.take(message, &mut self.random);
        }
        Err(failure)
    }

    fn reason(&mut self, change: impl Fn(usize, &mut Vec<u8>)) -> AuthenticationFailureReason {
        let reason = self.run(change).unwrap_err().reason;
        assert!(!self.controller.is_authenticated() && self.controller.has_failed());
        reason
    }
}

fn leave_message_unaltered(_: usize, _: &mut Vec<u8>) {}

#[test]
fn every_hash_and_dh_group_authenticates_one_or_both_sides() {
    for (hash, group) in ["sha256", "sha384", "sha512"].into_iter().flat_map(|hash| {
        let groups = ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"];
        // Large groups are slow, so test each of them with one hash function only.
        groups
            .into_iter()
            .enumerate()
            .filter(move |(at, _)| *at < 2 || hash == "sha384")
            .map(move |(_, group)| (hash, group))
    }) {
        let policy =
            [KEY, CONTROLLER_KEY, &format!("dhchap_hash={hash}"), &format!("dhchap_dhgroup={group}")].map(String::from);
        let controller: Vec<&str> = policy.iter().map(String::as_str).collect();
        for host in [&[KEY][..], &[KEY, CONTROLLER_KEY]] {
            let mut pair = Pair::new(&controller, host);
            assert!(!pair.controller.is_authenticated());
            pair.run(leave_message_unaltered).unwrap();
            assert!(pair.controller.is_authenticated() && !pair.controller.has_failed(), "{hash} {group} {host:?}");
        }
    }
}

#[test]
fn wrong_or_missing_key_of_either_side_is_an_authentication_failure() {
    for (controller, host) in [
        (&[KEY][..], &[WRONG][..]),
        (&[KEY], &["dhchap_hash=sha256"]),
        (&[KEY], &[KEY, CONTROLLER_KEY]),
        (&[KEY, CONTROLLER_KEY], &[KEY, WRONG_CONTROLLER_KEY]),
        (&[KEY, NULL], &[WRONG, NULL]),
    ] {
        let mut pair = Pair::new(controller, host);
        assert_eq!(
            pair.reason(leave_message_unaltered),
            AuthenticationFailureReason::AuthenticationFailed,
            "{controller:?} {host:?}"
        );
    }
}

#[test]
fn host_without_configured_key_that_authenticates_anyway_is_refused() {
    let mut pair = Pair::new(&["dhchap_hash=sha256"], &[KEY]);
    assert!(pair.controller.is_authenticated());
    assert_eq!(
        pair.run(leave_message_unaltered).unwrap_err().reason,
        AuthenticationFailureReason::AuthenticationFailed
    );
}

#[test]
fn policies_with_nothing_in_common_report_the_missing_item() {
    let mut pair = Pair::new(&[KEY, "dhchap_hash=sha512"], &[KEY, "dhchap_hash=sha256,sha384"]);
    assert_eq!(pair.reason(leave_message_unaltered), AuthenticationFailureReason::HashNotUsable);
    let mut pair = Pair::new(&[KEY, "dhchap_dhgroup=ffdhe3072"], &[KEY, "dhchap_dhgroup=null,ffdhe2048"]);
    assert_eq!(pair.reason(leave_message_unaltered), AuthenticationFailureReason::GroupNotUsable);
    let other = |at: usize, message: &mut Vec<u8>| {
        if at == 0 {
            message[8] = 2;
        }
    };
    assert_eq!(Pair::new(&[KEY], &[KEY]).reason(other), AuthenticationFailureReason::ProtocolNotUsable);
}

#[test]
fn altering_any_significant_byte_fails_the_authentication() {
    // Reserved bytes and list padding are ignored, and a host that proposes less may still succeed.
    let negotiate = [0, 1, 4, 5, 6, 7, 8, 10].map(|at| (0, at));
    let challenge = [0, 1, 4, 5, 6, 8, 9, 10, 12, 16, 47].map(|at| (1, at));
    let reply = [0, 1, 4, 5, 6, 8, 10, 12, 16, 47, 48, 79].map(|at| (2, at));
    let success = [0, 1, 4, 5, 6, 8, 16, 47].map(|at| (3, at));
    for (message, byte) in [&negotiate[..], &challenge, &reply, &success].concat() {
        let mut pair = Pair::new(&[KEY, CONTROLLER_KEY, NULL], &[KEY, CONTROLLER_KEY, NULL]);
        let change = |at: usize, bytes: &mut Vec<u8>| {
            if at == message {
                bytes[byte] ^= 0x40;
            }
        };
        let changed = pair.run(change);
        assert!(changed.is_err(), "byte {byte} of message {message}");
        assert!(!pair.controller.is_authenticated());
    }
}

#[test]
fn altered_public_value_fails_the_authentication() {
    for (message, byte) in [(1, 16 + 32 + 100), (2, 16 + 64 + 100)] {
        let group = "dhchap_dhgroup=ffdhe2048";
        let mut pair = Pair::new(&[KEY, group, "dhchap_hash=sha256"], &[KEY, group]);
        let change = |at: usize, bytes: &mut Vec<u8>| {
            if at == message {
                bytes[byte] ^= 1;
            }
        };
        assert_eq!(pair.reason(change), AuthenticationFailureReason::AuthenticationFailed);
    }
    for (message, values) in [(1, 16 + 32), (2, 16 + 64)] {
        let group = "dhchap_dhgroup=ffdhe2048";
        let mut pair = Pair::new(&[KEY, group, "dhchap_hash=sha256"], &[KEY, group]);
        let change = |at: usize, bytes: &mut Vec<u8>| {
            if at == message {
                bytes[values..].fill(0);
            }
        };
        assert_eq!(pair.reason(change), AuthenticationFailureReason::IncorrectPayload);
    }
}

#[test]
fn truncated_authentication_messages_are_reported_as_incorrect_payload() {
    for message in 0..4 {
        for keep in [0, 5, 15, 40] {
            let mut pair = Pair::new(&[KEY, CONTROLLER_KEY, NULL], &[KEY, CONTROLLER_KEY, NULL]);
            let change = |at: usize, bytes: &mut Vec<u8>| {
                if at == message {
                    bytes.truncate(keep);
                }
            };
            assert_eq!(
                pair.reason(change),
                AuthenticationFailureReason::IncorrectPayload,
                "message {message}, {keep} bytes"
            );
        }
    }
}

#[test]
fn reply_of_an_earlier_authentication_transaction_is_refused() {
    let recorded = std::cell::RefCell::new(Vec::new());
    let record = |at: usize, bytes: &mut Vec<u8>| {
        if at == 2 {
            recorded.replace(bytes.clone());
        }
    };
    let replay = |at: usize, bytes: &mut Vec<u8>| {
        if at == 2 {
            bytes.clone_from(&recorded.borrow());
        }
    };
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    pair.run(record).unwrap();
    // Each transaction has a new challenge and sequence number, so a replayed message fails.
    assert_eq!(pair.run(replay).unwrap_err().reason, AuthenticationFailureReason::AuthenticationFailed);
    assert!(pair.controller.has_failed());
}

#[test]
fn challenge_response_is_valid_only_for_its_sequence_number() {
    let mut pair = Pair::new(&[KEY, CONTROLLER_KEY, NULL], &[KEY, CONTROLLER_KEY, NULL]);
    let earlier = |at: usize, bytes: &mut Vec<u8>| {
        if at == 1 {
            let sequence = u32::from_le_bytes(bytes[12..16].try_into().unwrap()).wrapping_sub(1);
            bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
        }
    };
    assert_eq!(pair.reason(earlier), AuthenticationFailureReason::AuthenticationFailed);
    let [first, second] = [pair.sequences.next(), pair.sequences.next()];
    assert!(first != second && first != 0 && second != 0);
    let last = TransactionSequenceNumbers::new(&mut |bytes| bytes.fill(0xff));
    assert_eq!([last.next(), last.next()], [u32::MAX, 1], "0 is skipped");
}

#[test]
fn reflected_challenge_and_response_of_the_wrong_direction_are_refused() {
    let challenge = std::cell::RefCell::new(Vec::new());
    let reflect = |at: usize, bytes: &mut Vec<u8>| match at {
        1 => drop(challenge.replace(bytes[16..48].to_vec())),
        2 => bytes[48..80].copy_from_slice(&challenge.borrow()),
        _ => {}
    };
    let both = [KEY, CONTROLLER_KEY, NULL, "dhchap_hash=sha256"];
    assert_eq!(Pair::new(&both, &both).reason(reflect), AuthenticationFailureReason::AuthenticationFailed);
    // A controller that reflects the host's response does not know the key.
    let response = std::cell::RefCell::new(Vec::new());
    let mirror = |at: usize, bytes: &mut Vec<u8>| match at {
        2 => drop(response.replace(bytes[16..48].to_vec())),
        3 => bytes[16..48].copy_from_slice(&response.borrow()),
        _ => {}
    };
    assert_eq!(Pair::new(&both, &both).reason(mirror), AuthenticationFailureReason::AuthenticationFailed);
    // The controller reports success without the response that the host asked for.
    let silent = |at: usize, bytes: &mut Vec<u8>| {
        if at == 3 {
            bytes[8] = 0;
        }
    };
    assert_eq!(Pair::new(&both, &both).reason(silent), AuthenticationFailureReason::AuthenticationFailed);
}

#[test]
fn out_of_order_message_fails_and_a_new_negotiation_succeeds() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let answer = pair.send_to_controller(&AuthenticationMessage::Success2.encode(0));
    assert_eq!(
        AuthenticationMessage::decode(&answer),
        Ok((0, AuthenticationMessage::Failure1(AuthenticationFailureReason::IncorrectMessage)))
    );
    assert!(pair.controller.has_failed());

    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let answer = pair.controller.give(4096).unwrap();
    assert_eq!(
        AuthenticationMessage::decode(&answer),
        Ok((0, AuthenticationMessage::Failure1(AuthenticationFailureReason::IncorrectMessage)))
    );

    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let host_keys = Arc::clone(&pair.host_keys);
    let host = HostAuthentication::new(&host_keys, NAMES, 3);
    pair.send_to_controller(&host.negotiate());
    pair.run(leave_message_unaltered).unwrap();
    assert!(pair.controller.is_authenticated());
}

#[test]
fn failed_reauthentication_ends_the_queue_and_a_successful_one_does_not() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    pair.run(leave_message_unaltered).unwrap();
    pair.run(leave_message_unaltered).unwrap();
    assert!(pair.controller.is_authenticated());
    pair.host_keys = keys(&[WRONG, NULL]);
    assert_eq!(pair.reason(leave_message_unaltered), AuthenticationFailureReason::AuthenticationFailed);
}

#[test]
fn message_too_long_for_the_hosts_buffer_is_returned_on_the_next_receive() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let host_keys = Arc::clone(&pair.host_keys);
    let host = HostAuthentication::new(&host_keys, NAMES, 3);
    pair.controller.take(&host.negotiate(), &mut pair.random);
    assert_eq!(pair.controller.give(47), Err(AuthenticationReceiveError::TooShort));
    assert_eq!(pair.controller.give(48).unwrap().len(), 48);
}

/// Runs a transaction of a host that asks for a secure channel, and returns the reason of a failure.
fn run_secure_channel_transaction(
    pair: &mut Pair,
    channel: SecureChannel,
    groups: &[u8],
) -> Option<AuthenticationFailureReason> {
    let proposals = Some((vec![1, 2], groups.to_vec()));
    let challenge = pair.send_to_controller(&AuthenticationMessage::Negotiate { channel, proposals }.encode(7));
    match AuthenticationMessage::decode(&challenge).unwrap().1 {
        AuthenticationMessage::Failure1(reason) => Some(reason),
        _ => None,
    }
}

#[test]
fn secure_channel_request_is_refused_where_unsupported() {
    for (channel, groups, reason) in [
        (SecureChannel::ReplaceTlsPsk, &[1][..], AuthenticationFailureReason::SecureChannelMismatch),
        (SecureChannel::Reserved(1), &[1], AuthenticationFailureReason::SecureChannelMismatch),
        (SecureChannel::NewTlsPsk, &[0, 1], AuthenticationFailureReason::GroupNotUsable),
    ] {
        assert_eq!(
            run_secure_channel_transaction(&mut Pair::new(&[KEY], &[KEY]), channel, groups),
            Some(reason),
            "{channel:?}"
        );
    }
    let mut pair = Pair::new(&[KEY], &[KEY]);
    pair.controller = ControllerAuthentication::new(
        keys(&[KEY]),
        Arc::new(TransactionSequenceNumbers::new(&mut random(1))),
        QueueTransportChannel::Other,
        NAMES,
    );
    let refused = run_secure_channel_transaction(&mut pair, SecureChannel::NewTlsPsk, &[1]);
    assert_eq!(refused, Some(AuthenticationFailureReason::SecureChannelMismatch));
    assert_eq!(run_secure_channel_transaction(&mut Pair::new(&[KEY], &[KEY]), SecureChannel::NewTlsPsk, &[1]), None);
}
