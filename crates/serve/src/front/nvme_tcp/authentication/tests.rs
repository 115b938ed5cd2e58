//! Whole transactions of both sides, and what becomes of those that are changed.

use std::sync::Arc;

use super::controller::{ControllerAuthentication, QueueChannel, ReceiveError, SequenceNumbers};
use super::host::{HostAuthentication, HostFailure};
use super::key_file::{HostKeys, KeyFile};
use super::message::{AuthenticationMessage, FailureReason, SecureChannel};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba";
const SUBSYSTEM: &str = "nqn.2026-01.example:drive";
const NAMES: [&str; 2] = [HOST, SUBSYSTEM];
const KEY: &str = "dhchap_key=DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
const WRONG: &str = "dhchap_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
const WRONG_CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const NULL: &str = "dhchap_dhgroup=null";

fn keys(words: &[&str]) -> Arc<HostKeys> {
    let file = KeyFile::parse("keys", &format!("{HOST} {}", words.join(" "))).unwrap();
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
type RandomBytes = Box<dyn FnMut(&mut [u8])>;

/// Both sides of one queue.
struct Pair {
    controller: ControllerAuthentication,
    host_keys: Arc<HostKeys>,
    sequences: SequenceNumbers,
    random: RandomBytes,
}

impl Pair {
    fn new(controller: &[&str], host: &[&str]) -> Pair {
        Pair::seeded(controller, host, 1)
    }

    fn seeded(controller: &[&str], host: &[&str], seed: u64) -> Pair {
        let mut random = random(seed);
        let sequences = Arc::new(SequenceNumbers::new(&mut random));
        let channel = QueueChannel::AdminInTheClear;
        Pair {
            controller: ControllerAuthentication::new(keys(controller), sequences, channel, NAMES),
            host_keys: keys(host),
            sequences: SequenceNumbers::new(&mut random),
            random: Box::new(random),
        }
    }

    /// Sends a message to the controller, and returns its answer.
    fn exchange(&mut self, message: &[u8]) -> Vec<u8> {
        self.controller.take(message, &mut self.random);
        self.controller.give(4096).unwrap()
    }

    /// Runs a whole transaction, where a function may change the messages: 0 to 4 in their order.
    fn run(&mut self, change: impl Fn(usize, &mut Vec<u8>)) -> Result<(), HostFailure> {
        let changed = |at: usize, mut message: Vec<u8>| {
            change(at, &mut message);
            message
        };
        let host_keys = Arc::clone(&self.host_keys);
        let mut host = HostAuthentication::new(&host_keys, NAMES, 7);
        let challenge = self.exchange(&changed(0, host.negotiate()));
        let challenge = changed(1, challenge);
        let reply = match host.reply(&challenge, &self.sequences, &mut self.random) {
            Ok(reply) => reply,
            Err(failure) => return self.fail(failure),
        };
        let success = self.exchange(&changed(2, reply));
        match host.finish(&changed(3, success)) {
            Ok(Some(message)) => self.controller.take(&changed(4, message), &mut self.random),
            Ok(None) => {}
            Err(failure) => return self.fail(failure),
        }
        Ok(())
    }

    fn fail(&mut self, failure: HostFailure) -> Result<(), HostFailure> {
        if let Some(message) = &failure.message {
            self.controller.take(message, &mut self.random);
        }
        Err(failure)
    }

    fn reason(&mut self, change: impl Fn(usize, &mut Vec<u8>)) -> FailureReason {
        let reason = self.run(change).unwrap_err().reason;
        assert!(!self.controller.is_authenticated() && self.controller.has_failed());
        reason
    }
}

fn unchanged(_: usize, _: &mut Vec<u8>) {}

#[test]
fn every_hash_and_group_authenticates_in_one_direction_and_in_both() {
    for (hash, group) in ["sha256", "sha384", "sha512"].into_iter().flat_map(|hash| {
        let groups = ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"];
        // Each group with one hash function is enough for the larger ones, which take their time.
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
            pair.run(unchanged).unwrap();
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
        assert_eq!(pair.reason(unchanged), FailureReason::AuthenticationFailed, "{controller:?} {host:?}");
    }
}

#[test]
fn host_that_need_not_authenticate_and_does_so_is_refused_without_a_key() {
    let mut pair = Pair::new(&["dhchap_hash=sha256"], &[KEY]);
    assert!(pair.controller.is_authenticated());
    assert_eq!(pair.run(unchanged).unwrap_err().reason, FailureReason::AuthenticationFailed);
}

#[test]
fn policies_without_anything_in_common_name_what_is_missing() {
    let mut pair = Pair::new(&[KEY, "dhchap_hash=sha512"], &[KEY, "dhchap_hash=sha256,sha384"]);
    assert_eq!(pair.reason(unchanged), FailureReason::HashNotUsable);
    let mut pair = Pair::new(&[KEY, "dhchap_dhgroup=ffdhe3072"], &[KEY, "dhchap_dhgroup=null,ffdhe2048"]);
    assert_eq!(pair.reason(unchanged), FailureReason::GroupNotUsable);
    let other = |at: usize, message: &mut Vec<u8>| {
        if at == 0 {
            message[8] = 2;
        }
    };
    assert_eq!(Pair::new(&[KEY], &[KEY]).reason(other), FailureReason::ProtocolNotUsable);
}

#[test]
fn change_of_any_byte_that_counts_ends_the_transaction() {
    // Reserved bytes and the padding of lists do not count, and a host that proposes less may still succeed.
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
fn changed_public_value_ends_the_transaction() {
    for (message, byte) in [(1, 16 + 32 + 100), (2, 16 + 64 + 100)] {
        let group = "dhchap_dhgroup=ffdhe2048";
        let mut pair = Pair::new(&[KEY, group, "dhchap_hash=sha256"], &[KEY, group]);
        let change = |at: usize, bytes: &mut Vec<u8>| {
            if at == message {
                bytes[byte] ^= 1;
            }
        };
        assert_eq!(pair.reason(change), FailureReason::AuthenticationFailed);
    }
    for (message, values) in [(1, 16 + 32), (2, 16 + 64)] {
        let group = "dhchap_dhgroup=ffdhe2048";
        let mut pair = Pair::new(&[KEY, group, "dhchap_hash=sha256"], &[KEY, group]);
        let change = |at: usize, bytes: &mut Vec<u8>| {
            if at == message {
                bytes[values..].fill(0);
            }
        };
        assert_eq!(pair.reason(change), FailureReason::IncorrectPayload);
    }
}

#[test]
fn truncated_messages_are_incorrect_payloads() {
    for message in 0..4 {
        for keep in [0, 5, 15, 40] {
            let mut pair = Pair::new(&[KEY, CONTROLLER_KEY, NULL], &[KEY, CONTROLLER_KEY, NULL]);
            let change = |at: usize, bytes: &mut Vec<u8>| {
                if at == message {
                    bytes.truncate(keep);
                }
            };
            assert_eq!(pair.reason(change), FailureReason::IncorrectPayload, "message {message}, {keep} bytes");
        }
    }
}

#[test]
fn reply_of_an_earlier_transaction_is_refused() {
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
    // The controller has a new challenge and a new sequence number for each transaction.
    assert_eq!(pair.run(replay).unwrap_err().reason, FailureReason::AuthenticationFailed);
    assert!(pair.controller.has_failed());
}

#[test]
fn response_counts_for_its_sequence_number_only() {
    let mut pair = Pair::new(&[KEY, CONTROLLER_KEY, NULL], &[KEY, CONTROLLER_KEY, NULL]);
    let earlier = |at: usize, bytes: &mut Vec<u8>| {
        if at == 1 {
            let sequence = u32::from_le_bytes(bytes[12..16].try_into().unwrap()).wrapping_sub(1);
            bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
        }
    };
    assert_eq!(pair.reason(earlier), FailureReason::AuthenticationFailed);
    let [first, second] = [pair.sequences.next(), pair.sequences.next()];
    assert!(first != second && first != 0 && second != 0);
    let last = SequenceNumbers::new(&mut |bytes| bytes.fill(0xff));
    assert_eq!([last.next(), last.next()], [u32::MAX, 1], "0 is skipped");
}

#[test]
fn challenge_that_is_sent_back_and_response_of_the_wrong_direction_are_refused() {
    let challenge = std::cell::RefCell::new(Vec::new());
    let reflect = |at: usize, bytes: &mut Vec<u8>| match at {
        1 => drop(challenge.replace(bytes[16..48].to_vec())),
        2 => bytes[48..80].copy_from_slice(&challenge.borrow()),
        _ => {}
    };
    let both = [KEY, CONTROLLER_KEY, NULL, "dhchap_hash=sha256"];
    assert_eq!(Pair::new(&both, &both).reason(reflect), FailureReason::AuthenticationFailed);
    // A controller that gives the host its own response back knows no key.
    let response = std::cell::RefCell::new(Vec::new());
    let mirror = |at: usize, bytes: &mut Vec<u8>| match at {
        2 => drop(response.replace(bytes[16..48].to_vec())),
        3 => bytes[16..48].copy_from_slice(&response.borrow()),
        _ => {}
    };
    assert_eq!(Pair::new(&both, &both).reason(mirror), FailureReason::AuthenticationFailed);
    // A success without the response that the host has asked for.
    let silent = |at: usize, bytes: &mut Vec<u8>| {
        if at == 3 {
            bytes[8] = 0;
        }
    };
    assert_eq!(Pair::new(&both, &both).reason(silent), FailureReason::AuthenticationFailed);
}

#[test]
fn message_out_of_order_fails_and_a_new_start_does_not() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let answer = pair.exchange(&AuthenticationMessage::Success2.encode(0));
    assert_eq!(
        AuthenticationMessage::decode(&answer),
        Ok((0, AuthenticationMessage::Failure1(FailureReason::IncorrectMessage)))
    );
    assert!(pair.controller.has_failed());

    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let answer = pair.controller.give(4096).unwrap();
    assert_eq!(
        AuthenticationMessage::decode(&answer),
        Ok((0, AuthenticationMessage::Failure1(FailureReason::IncorrectMessage)))
    );

    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let host_keys = Arc::clone(&pair.host_keys);
    let host = HostAuthentication::new(&host_keys, NAMES, 3);
    pair.exchange(&host.negotiate());
    pair.run(unchanged).unwrap();
    assert!(pair.controller.is_authenticated());
}

#[test]
fn failed_authentication_after_a_good_one_ends_the_queue_and_a_good_one_does_not() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    pair.run(unchanged).unwrap();
    pair.run(unchanged).unwrap();
    assert!(pair.controller.is_authenticated());
    pair.host_keys = keys(&[WRONG, NULL]);
    assert_eq!(pair.reason(unchanged), FailureReason::AuthenticationFailed);
}

#[test]
fn host_with_too_little_room_gets_the_message_when_it_asks_again() {
    let mut pair = Pair::new(&[KEY, NULL], &[KEY, NULL]);
    let host_keys = Arc::clone(&pair.host_keys);
    let host = HostAuthentication::new(&host_keys, NAMES, 3);
    pair.controller.take(&host.negotiate(), &mut pair.random);
    assert_eq!(pair.controller.give(47), Err(ReceiveError::TooShort));
    assert_eq!(pair.controller.give(48).unwrap().len(), 48);
}

/// Runs a transaction of a host that asks for a secure channel, and returns the reason of a failure.
fn concatenate(pair: &mut Pair, channel: SecureChannel, groups: &[u8]) -> Option<FailureReason> {
    let proposals = Some((vec![1, 2], groups.to_vec()));
    let challenge = pair.exchange(&AuthenticationMessage::Negotiate { channel, proposals }.encode(7));
    match AuthenticationMessage::decode(&challenge).unwrap().1 {
        AuthenticationMessage::Failure1(reason) => Some(reason),
        _ => None,
    }
}

#[test]
fn secure_channel_is_refused_where_there_can_be_none() {
    for (channel, groups, reason) in [
        (SecureChannel::ReplaceTlsPsk, &[1][..], FailureReason::SecureChannelMismatch),
        (SecureChannel::Reserved(1), &[1], FailureReason::SecureChannelMismatch),
        (SecureChannel::NewTlsPsk, &[0, 1], FailureReason::GroupNotUsable),
    ] {
        assert_eq!(concatenate(&mut Pair::new(&[KEY], &[KEY]), channel, groups), Some(reason), "{channel:?}");
    }
    let mut pair = Pair::new(&[KEY], &[KEY]);
    pair.controller = ControllerAuthentication::new(
        keys(&[KEY]),
        Arc::new(SequenceNumbers::new(&mut random(1))),
        QueueChannel::Other,
        NAMES,
    );
    let refused = concatenate(&mut pair, SecureChannel::NewTlsPsk, &[1]);
    assert_eq!(refused, Some(FailureReason::SecureChannelMismatch));
    assert_eq!(concatenate(&mut Pair::new(&[KEY], &[KEY]), SecureChannel::NewTlsPsk, &[1]), None);
}
