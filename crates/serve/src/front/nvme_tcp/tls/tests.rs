//! Handshakes of both sides with each other and with OpenSSL and GnuTLS, and what becomes of connections that are changed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64ct::{Base64, Encoding};

use super::alert::Alert;
use super::channel::TlsChannel;
use super::suite::{ExchangeGroup, KeyExchangePair};
use crate::front::nvme_tcp::authentication::group::DhGroup;
use crate::front::nvme_tcp::authentication::keys::{Psk, TlsKey};
use crate::front::nvme_tcp::authentication::secret::{Secret, system_random};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba";
const SUBSYSTEM: &str = "nqn.2026-01.example:drive";
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const KEY_384: &str = "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const WRONG: &str = "NVMeTLSkey-1:01:YzrPElk4OYy1uUERriPwiiyEJE/+J5ckYpLB+5NHMsR2iBuT:";

fn psks(key: &str) -> Vec<Psk> {
    TlsKey::parse(key).unwrap().psks(HOST, SUBSYSTEM)
}

fn random(bytes: &mut [u8]) {
    static STATE: AtomicU64 = AtomicU64::new(1);
    for byte in bytes {
        let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        *byte = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[0];
    }
}

/// Passes bytes between both ends until there are none, changed by a function; the first error of each end is kept.
fn connect(
    client: &mut TlsChannel,
    server: &mut TlsChannel,
    mut change: impl FnMut(bool, &mut Vec<u8>),
) -> [Result<(), Alert>; 2] {
    let mut results = [Ok(()); 2];
    loop {
        let mut to_server = std::mem::take(client.outgoing());
        let mut to_client = std::mem::take(server.outgoing());
        if to_server.is_empty() && to_client.is_empty() {
            return results;
        }
        change(true, &mut to_server);
        change(false, &mut to_client);
        // Deliver bytes in pieces that do not match record boundaries.
        results[1] = to_server.chunks(77).try_for_each(|piece| server.receive(piece));
        results[0] = to_client.chunks(77).try_for_each(|piece| client.receive(piece));
        if results.iter().any(Result::is_err) {
            return results;
        }
    }
}

fn create_channel_pair(client: &str, server: &str) -> (TlsChannel, TlsChannel) {
    (TlsChannel::client(psks(client), random), TlsChannel::server(psks(server), random))
}

/// Change of the bytes of some records.
type RecordBytesChange = fn(&mut Vec<u8>);

fn leave_record_unaltered(_: bool, _: &mut Vec<u8>) {}

#[test]
fn both_ends_agree_and_exchange_data_in_both_directions_for_both_suites() {
    for key in [KEY, KEY_384] {
        let (mut client, mut server) = create_channel_pair(key, key);
        assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
        assert_eq!(client.identity(), Some(&psks(key)[0].identity[..]));
        assert_eq!(client.identity(), server.identity());
        let data: Vec<u8> = (0..100_000u32).map(|at| at.to_le_bytes()[0]).collect();
        for _ in 0..2 {
            client.send(&data);
            server.send(&data[1..]);
            assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
            assert!(std::mem::take(server.plaintext()) == data && std::mem::take(client.plaintext()) == data[1..]);
        }
        client.close();
        assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
        assert!(server.is_closed() && !client.is_closed());
    }
}

#[test]
fn unknown_psk_identity_or_wrong_psk_fails_the_handshake() {
    let (mut client, mut server) = create_channel_pair(WRONG, KEY);
    // The identity of version 0 does not depend on the key, so only the binder reveals the wrong key.
    let results = connect(&mut client, &mut server, leave_record_unaltered);
    assert_eq!(results[1], Err(Alert::DecryptError));
    let other = TlsKey::parse(KEY).unwrap().psks("nqn.other", SUBSYSTEM);
    let mut client = TlsChannel::client(other, random);
    let (_, mut server) = create_channel_pair(KEY, KEY);
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered)[1], Err(Alert::UnknownPskIdentity));
    assert!(server.identity().is_none() && client.identity().is_none());
    let (mut client, mut server) = create_channel_pair(KEY, KEY_384);
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered)[1], Err(Alert::UnknownPskIdentity));
    assert_eq!(client.receive(&[21, 3, 3, 0, 2, 2, 115]), Err(Alert::Peer(115)));
}

#[test]
fn psk_derived_by_older_libnvme_is_identified_by_its_binder() {
    let mut server = TlsChannel::server(psks(KEY), random);
    let old = psks(KEY).pop().unwrap();
    assert_eq!(old.identity, psks(KEY)[1].identity);
    let mut client = TlsChannel::client(vec![old], random);
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
    assert!(server.identity().is_some());
}

#[test]
fn altering_any_byte_of_the_tls_handshake_fails_it() {
    let (mut client, mut server) = create_channel_pair(KEY, KEY);
    let sizes = std::cell::RefCell::new(Vec::new());
    let _ = connect(&mut client, &mut server, |is_client, bytes| {
        if !bytes.is_empty() {
            sizes.borrow_mut().push((is_client, bytes.len()));
        }
    });
    let sizes = sizes.into_inner();
    assert_eq!(sizes.iter().map(|(is_client, _)| *is_client).collect::<Vec<_>>(), [true, false, true]);
    for (flight, (_, bytes)) in sizes.iter().enumerate() {
        for at in (0..*bytes).step_by(3) {
            let (mut client, mut server) = create_channel_pair(KEY, KEY);
            let mut flights = 0;
            let _ = connect(&mut client, &mut server, |_, bytes| {
                if !bytes.is_empty() {
                    // The low byte of the record version must be ignored.
                    if flights == flight && bytes.len() > at {
                        bytes[at] ^= 0x40;
                    }
                    flights += 1;
                }
            });
            let is_version = [2, 129].contains(&at) || flight == 1;
            let is_broken = client.identity().is_none() || server.identity().is_none();
            assert!(is_broken || is_version, "byte {at} of flight {flight}");
        }
    }
}

#[test]
fn altered_repeated_reordered_and_oversized_records_end_the_connection() {
    let changes: [(&str, RecordBytesChange, Alert); 6] = [
        ("changed", |bytes| *bytes.last_mut().unwrap() ^= 1, Alert::BadRecordMac),
        ("repeated", |bytes| bytes.extend(bytes.clone()), Alert::BadRecordMac),
        ("reordered", |bytes| bytes.rotate_left(5 + 4 + 17), Alert::BadRecordMac),
        ("too long", |bytes| bytes[3] = 0x42, Alert::RecordOverflow),
        ("in the clear", |bytes| bytes[0] = 22, Alert::UnexpectedMessage),
        ("of no type", |bytes| bytes[0] = 99, Alert::UnexpectedMessage),
    ];
    for (name, change, alert) in changes {
        let (mut client, mut server) = create_channel_pair(KEY, KEY);
        assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
        client.send(b"data");
        client.send(b"more data");
        let changed = connect(&mut client, &mut server, |is_client, bytes| {
            if is_client && !bytes.is_empty() {
                change(bytes);
            }
        });
        assert_eq!(changed[1], Err(alert), "{name}");
    }
}

#[test]
fn data_still_pass_after_a_key_update_requested_by_the_other_side() {
    let (mut client, mut server) = create_channel_pair(KEY, KEY);
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
    client.replace_own_key_and_request_peer_key();
    client.send(b"one");
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
    server.send(b"two");
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
    assert_eq!((&server.plaintext()[..], &client.plaintext()[..]), (&b"one"[..], &b"two"[..]));
}

#[test]
fn both_sides_derive_one_shared_key_in_every_exchange_group() {
    for group in ExchangeGroup::ALL {
        let [one, other] = [(); 2].map(|()| KeyExchangePair::generate(group, &mut random));
        let keys = [one.shared(&other.public()), other.shared(&one.public())];
        assert!(keys[0].as_deref().is_some() && keys[0].as_deref() == keys[1].as_deref(), "{group:?}");
        assert!(one.shared(&other.public()[1..]).is_none());
        assert_eq!(ExchangeGroup::from_code(group.code()), Some(group));
    }
    let codes = ExchangeGroup::ALL.map(ExchangeGroup::code);
    assert_eq!(codes, [0x1d, 0x101, 0x100]);
    assert_eq!(ExchangeGroup::Field(DhGroup::Ffdhe8192).code(), 0x104);
}

/// Waits for bytes on a socket, and gives them to one end, until a condition holds or the other side ends.
fn transfer_socket_bytes_until(
    channel: &mut TlsChannel,
    stream: &mut TcpStream,
    is_done: impl Fn(&mut TlsChannel) -> bool,
) -> Result<(), Alert> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = [0; 4096];
    loop {
        stream.write_all(&std::mem::take(channel.outgoing())).unwrap();
        if is_done(channel) {
            return Ok(());
        }
        let count = stream.read(&mut bytes).unwrap_or(0);
        let received = channel.receive(&bytes[..count]);
        let _ = stream.write_all(&std::mem::take(channel.outgoing()));
        received?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Child process that is ended when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program, or says that the test is skipped since the program is missing.
fn start(program: &str, arguments: &[String]) -> Option<Running> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => Some(Running(child)),
        Err(error) => {
            println!("skipped: {program} cannot be started: {error}");
            None
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lets a client program connect to this server, which echoes a line, and returns what the client printed.
fn run_client_program_against_server(
    program: &str,
    arguments: impl Fn(u16) -> Vec<String>,
    psks: Vec<Psk>,
) -> Option<Result<String, Alert>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut running = start(program, &arguments(listener.local_addr().unwrap().port()))?;
    let mut input = running.0.stdin.take().unwrap();
    input.write_all(b"hello drive\n").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut channel = TlsChannel::server(psks, system_random);
    let received =
        transfer_socket_bytes_until(&mut channel, &mut stream, |channel| channel.plaintext().ends_with(b"\n"));
    if let Err(alert) = received {
        return Some(Err(alert));
    }
    let line = std::mem::take(channel.plaintext());
    channel.send(&[&b"echo: "[..], &line].concat());
    channel.close();
    stream.write_all(&std::mem::take(channel.outgoing())).unwrap();
    drop((stream, input));
    let mut printed = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    Some(Ok(printed))
}

fn openssl_client_arguments(psk: &Psk, more: &[&str]) -> impl Fn(u16) -> Vec<String> {
    let (identity, key) = (psk.identity.clone(), hex(&psk.key));
    let more: Vec<String> = more.iter().copied().map(String::from).collect();
    move |port| {
        let address = format!("127.0.0.1:{port}");
        let words = ["s_client", "-connect", &address, "-tls1_3", "-psk", &key, "-psk_identity", &identity, "-quiet"];
        [&words.map(String::from)[..], &more].concat()
    }
}

#[test]
fn openssl_client_connects_to_the_tls_server() {
    let psk = &psks(KEY)[1];
    // The last list begins with a group that this server does not support, so the server asks for another key share.
    for more in [&[][..], &["-groups", "ffdhe3072"], &["-groups", "P-521:ffdhe2048:X25519"]] {
        let Some(printed) =
            run_client_program_against_server("openssl", openssl_client_arguments(psk, more), psks(KEY))
        else {
            return;
        };
        let printed = printed.unwrap();
        assert!(printed.contains("echo: hello drive"), "{more:?}: {printed}");
    }
    let wrong = run_client_program_against_server("openssl", openssl_client_arguments(psk, &[]), psks(WRONG)).unwrap();
    assert_eq!(wrong, Err(Alert::DecryptError));
    let unknown =
        run_client_program_against_server("openssl", openssl_client_arguments(&psks(KEY)[0], &[]), psks(WRONG))
            .unwrap();
    assert_eq!(unknown, Err(Alert::UnknownPskIdentity));
    let curve =
        run_client_program_against_server("openssl", openssl_client_arguments(psk, &["-groups", "P-521"]), psks(KEY))
            .unwrap();
    assert_eq!(curve, Err(Alert::HandshakeFailure));
}

/// Writes a session of OpenSSL that stands for a pre-shared key of the suite with SHA-384, which `-psk` cannot name.
fn write_openssl_session(path: &std::path::Path, key: &[u8]) {
    let value = |tag: u8, bytes: &[u8]| [&[tag, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let number = |bytes: &[u8]| value(2, bytes);
    // Version, TLS 1.3, cipher suite, no session identifier, key, and a lifetime from 1970 to 2038.
    let fields = [
        number(&[1]),
        number(&[3, 4]),
        value(4, &[0x13, 0x02]),
        value(4, &[]),
        value(4, key),
        value(0xa1, &number(&[1])),
        value(0xa2, &number(&[0x7f, 0xff, 0xff, 0xf0])),
    ];
    let text = Base64::encode_string(&value(0x30, &fields.concat()));
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} SSL SESSION PARAMETERS-----"));
    std::fs::write(path, format!("{begin}\n{}\n{end}\n", lines.join("\n"))).unwrap();
}

#[test]
fn openssl_client_connects_with_the_256_bit_suite() {
    let path = std::env::temp_dir().join(format!("tls-session-{}.pem", std::process::id()));
    let psk = psks(KEY_384).remove(0);
    write_openssl_session(&path, &psk.key);
    let arguments = |port: u16| {
        let (address, path) = (format!("127.0.0.1:{port}"), path.display().to_string());
        let key = ["-psk_session", &path, "-psk_identity", &psk.identity];
        [&["s_client", "-connect", &address, "-tls1_3", "-quiet"][..], &key]
            .concat()
            .into_iter()
            .map(String::from)
            .collect()
    };
    let printed = run_client_program_against_server("openssl", arguments, psks(KEY_384));
    std::fs::remove_file(&path).unwrap();
    let Some(printed) = printed else { return };
    assert!(printed.as_ref().is_ok_and(|printed| printed.contains("echo: hello drive")), "{printed:?}");
}

/// Linux does its handshakes by GnuTLS (`tlshd`).
#[test]
fn gnutls_client_connects_to_the_tls_server() {
    let psk = psks(KEY).remove(1);
    let arguments = |port: u16| {
        let (port, key) = (port.to_string(), hex(&psk.key));
        let priority = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+PSK:+DHE-PSK:+ECDHE-PSK";
        let key = ["--pskusername", &psk.identity, "--pskkey", &key];
        [&["--port", &port, "--priority", priority, "127.0.0.1"][..], &key]
            .concat()
            .into_iter()
            .map(String::from)
            .collect()
    };
    let Some(printed) = run_client_program_against_server("gnutls-cli", arguments, psks(KEY)) else { return };
    assert!(printed.as_ref().is_ok_and(|printed| printed.contains("echo: hello drive")), "{printed:?}");
}

#[test]
fn tls_client_connects_to_an_openssl_server() {
    let psk = psks(KEY).remove(1);
    for (groups, key) in [("X25519", &psk.key), ("ffdhe2048", &psk.key), ("X25519", &psks(WRONG)[1].key)] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments = [
            "s_server",
            "-accept",
            &format!("127.0.0.1:{port}"),
            "-tls1_3",
            "-nocert",
            "-psk",
            &hex(key),
            "-psk_identity",
            &psk.identity,
            "-quiet",
            "-groups",
            groups,
            "-rev",
        ];
        let Some(_running) = start("openssl", &arguments.map(String::from)) else { return };
        let mut stream = (0..200)
            .find_map(|_| {
                TcpStream::connect(("127.0.0.1", port)).ok().or_else(|| {
                    std::thread::sleep(Duration::from_millis(25));
                    None
                })
            })
            .expect("the server listens");
        let mut client = TlsChannel::client(vec![psk.clone()], system_random);
        let connected = transfer_socket_bytes_until(&mut client, &mut stream, |client| client.identity().is_some());
        if key[..] != psk.key[..] {
            assert!(matches!(connected, Err(Alert::Peer(_))), "{connected:?}");
            continue;
        }
        assert_eq!(connected, Ok(()), "{groups}");
        client.send(b"drive\n");
        transfer_socket_bytes_until(&mut client, &mut stream, |client| client.plaintext().ends_with(b"\n")).unwrap();
        assert_eq!(&client.plaintext()[..], b"evird\n");
    }
}

#[test]
fn debug_output_of_a_channel_contains_no_secret() {
    let (mut client, mut server) = create_channel_pair(KEY, KEY);
    assert_eq!(connect(&mut client, &mut server, leave_record_unaltered), [Ok(()); 2]);
    let key = &psks(KEY)[0].key;
    let printed = format!("{client:?} {server:?} {:?}", Secret::from(key.to_vec()));
    assert!(!printed.contains(&format!("{}, {}, {}", key[0], key[1], key[2])) && !printed.contains(&hex(&key[..4])));
}
