//! Drives over NVMe/TCP with keys: hosts that authenticate, TLS, and hosts with other keys or none.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::nvme_tcp::{Running, bytes_of, io, read, serve_with, write};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_serve::front::nvme_tcp::address::TargetAddress;
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::fabrics::{
    ANY_CONTROLLER, AuthenticationTransferFields, Connect, ConnectData, DISCOVERY_NQN, FabricsCommand, authentication,
    status,
};
use phaselink_serve::front::nvme_tcp::initiator::{Initiator, read_discovery_records};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba";
const KEY: &str = "dhchap_key=DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
const WRONG: &str = "dhchap_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
const WRONG_CONTROLLER_KEY: &str = "dhchap_ctrl_key=DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";
const TLS: &str = "tls_key=NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const TLS_384: &str =
    "tls_key=NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const WRONG_TLS: &str = "tls_key=NVMeTLSkey-1:01:YzrPElk4OYy1uUERriPwiiyEJE/+J5ckYpLB+5NHMsR2iBuT:";
/// A small group, since tests are not optimised.
const GROUP: &str = "dhchap_dhgroup=ffdhe2048";

/// File of keys of one host, removed at the end.
struct Keys(PathBuf);

impl Keys {
    fn new(words: &[&str]) -> Keys {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nvme-tcp-keys-{}-{number}", std::process::id()));
        fs::write(&path, format!("{HOST} {GROUP} {}\n", words.join(" "))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Keys(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn serve(words: &[&str], threads: usize) -> Running {
    let keys = Keys::new(words);
    serve_with(&[], false, threads, &[("nvme-tcp-keys", keys.path())])
}

/// Host of a file of keys.
fn host_of_key_file(words: &[&str]) -> HostNameAndIdentifier {
    let keys = Keys::new(words);
    HostNameAndIdentifier::of(&TargetAddress {
        keys: Some(keys.path()),
        ..TargetAddress::of(([127, 0, 0, 1], 0).into())
    })
    .unwrap()
}

fn open(running: &Running, words: &[&str]) -> io::Result<Initiator> {
    let keys = Keys::new(words);
    let target = TargetAddress { keys: Some(keys.path()), ..running.target.clone() };
    Initiator::open(&target, &HostNameAndIdentifier::of(&target)?, 0)
}

#[test]
fn host_with_right_keys_reads_its_writes() {
    for words in [&[KEY][..], &[KEY, CONTROLLER_KEY], &[TLS], &[TLS_384], &[TLS, KEY, CONTROLLER_KEY]] {
        for threads in [1, 2] {
            let running = serve(words, threads);
            let mut initiator = open(&running, words).unwrap();
            initiator.namespace().unwrap();
            let mut queues = [1, 2].map(|queue| initiator.queue(queue, 32).unwrap());
            for (queue, seed) in queues.iter_mut().zip([1, 2]) {
                for bytes in [512, 8192, 8704, 128 << 10] {
                    let data = bytes_of(seed, bytes);
                    write(queue, seed * 1000, &data);
                    assert!(read(queue, seed * 1000, bytes) == data, "{bytes} bytes, {words:?}");
                }
            }
            initiator.close().unwrap();
        }
    }
}

#[test]
fn host_with_wrong_keys_is_refused_without_harm_to_others() {
    for (served, attempts) in [
        (&[KEY, CONTROLLER_KEY][..], &[&[WRONG][..], &[KEY, WRONG_CONTROLLER_KEY], &[]][..]),
        (&[TLS], &[&[WRONG_TLS], &[TLS_384], &[]]),
        (&[TLS, KEY], &[&[TLS, WRONG], &[TLS], &[KEY]]),
    ] {
        let running = serve(served, 1);
        for words in attempts {
            assert!(open(&running, words).is_err(), "{served:?} {words:?}");
        }
        // A host that the key file does not list is refused.
        assert!(Initiator::open(&running.target, &HostNameAndIdentifier::default(), 0).is_err());
        open(&running, served).unwrap().close().unwrap();
    }
}

#[test]
fn commands_before_authentication_are_refused() {
    let running = serve(&[KEY], 1);
    let host = HostNameAndIdentifier { name: String::from(HOST), ..HostNameAndIdentifier::default() };
    // Discovery lists the drive only for authenticated hosts.
    assert!(read_discovery_records(running.target.port, running.target.digests, &host).is_err());
    let known = host_of_key_file(&[KEY]);
    assert_eq!(read_discovery_records(running.target.port, running.target.digests, &known).unwrap().1.len(), 1);
    let mut client = Client::connect(running.target.port, running.target.digests).unwrap();
    let connect = Connect { entries_field: 31, ..Connect::default() };
    let data = ConnectData {
        host_id: host.id,
        controller: ANY_CONTROLLER,
        subsystem: running.subsystem.clone(),
        host: host.name.clone(),
    };
    let entry = FabricsCommand::Connect(connect).entry(0);
    let connected = client.execute(&entry, ClientCommandData::Send(&data.encode())).unwrap();
    assert_eq!(connected.status, Status::SUCCESS);
    assert!(connected.result & u64::from(authentication::IN_BAND) != 0);
    let mut status_of = |command: FabricsCommand, data| client.execute(&command.entry(0), data).unwrap().status.kind();
    let enable = FabricsCommand::PropertySet { offset: 0x14, value: 0x46_0001, is_wide: false };
    assert_eq!(status_of(enable, ClientCommandData::None), status::AUTHENTICATION_REQUIRED);
    // Use fields of other security protocols, and a length that differs from the data's.
    for (protocol, specific, bytes) in [(0xea, 0x0101, 16), (0xe9, 0x0100, 16), (0xe9, 0x0001, 16), (0xe9, 0x0101, 15)]
    {
        let send = FabricsCommand::AuthenticationSend(AuthenticationTransferFields { protocol, specific, bytes });
        assert_eq!(status_of(send, ClientCommandData::Send(&[0; 16])), Status::INVALID_FIELD);
    }
    let identify =
        client.execute(&io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 512, is_kept: false }).unwrap();
    assert_eq!(identify.status.kind(), status::AUTHENTICATION_REQUIRED);
    // A malformed authentication message is answered with a failure, and the connection ends.
    let transfer = AuthenticationTransferFields { protocol: 0xe9, specific: 0x0101, bytes: 16 };
    let send = FabricsCommand::AuthenticationSend(transfer).entry(0);
    assert_eq!(client.execute(&send, ClientCommandData::Send(&[0xff; 16])).unwrap().status, Status::SUCCESS);
    let receive =
        FabricsCommand::AuthenticationReceive(AuthenticationTransferFields { bytes: 64, ..transfer }).entry(0);
    let answer = client.execute(&receive, ClientCommandData::Receive { bytes: 64, is_kept: true }).unwrap();
    assert_eq!(answer.data[..8], [0, 0xf1, 0, 0, 0, 0, 1, 7]);
    assert!(client.execute(&send, ClientCommandData::Send(&[0xff; 16])).is_err());
    open(&running, &[KEY]).unwrap().close().unwrap();
}

/// Sends Connect for the admin queue as a host that has no keys.
fn connect_without_keys(running: &Running, subsystem: &str) -> Client {
    let mut client = Client::connect(running.target.port, running.target.digests).unwrap();
    let data = ConnectData {
        host_id: HostNameAndIdentifier::default().id,
        controller: ANY_CONTROLLER,
        subsystem: String::from(subsystem),
        host: String::from(HOST),
    };
    let entry = FabricsCommand::Connect(Connect { entries_field: 31, ..Connect::default() }).entry(0);
    let connected = client.execute(&entry, ClientCommandData::Send(&data.encode())).unwrap();
    assert_eq!(connected.status, Status::SUCCESS);
    assert!(connected.result & u64::from(authentication::IN_BAND) != 0);
    client
}

#[test]
fn unauthenticated_hosts_occupy_no_place_and_are_ended() {
    let running = serve(&[KEY, CONTROLLER_KEY], 1);
    for subsystem in [DISCOVERY_NQN, &running.subsystem] {
        let mut unproven: Vec<Client> = (0..12).map(|_| connect_without_keys(&running, subsystem)).collect();
        let mut initiator = open(&running, &[KEY, CONTROLLER_KEY]).unwrap();
        // An unauthenticated I/O queue must not occupy a queue of the host's controller: it gives way to the host's own
        // connection.
        let mut thief = Client::connect(running.target.port, running.target.digests).unwrap();
        let data = ConnectData {
            host_id: HostNameAndIdentifier::default().id,
            controller: initiator.controller_id,
            subsystem: running.subsystem.clone(),
            host: String::from(HOST),
        };
        let connect = Connect { queue: 1, entries_field: 7, ..Connect::default() };
        thief.connect_queue(connect, &data).unwrap();
        let mut queue = initiator.queue(1, 8).unwrap();
        write(&mut queue, 0, &[5; 512]);
        // The keep-alive timer counts only commands of the authenticated host, which is silent here. All other
        // connections end by their time-out.
        let identify = FabricsCommand::PropertyGet { offset: 0, is_wide: true }.entry(0);
        let start = Instant::now();
        let is_over = |client: &mut Client| client.execute(&identify, ClientCommandData::None).is_err();
        if subsystem != DISCOVERY_NQN {
            while !unproven.iter_mut().all(is_over) {
                assert!(start.elapsed() < Duration::from_secs(40), "hosts without proof are still connected");
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        assert_eq!(read(&mut queue, 0, 512), [5; 512]);
        initiator.property(0, true).unwrap();
        initiator.close().unwrap();
    }
}

#[test]
fn host_refuses_a_target_that_cannot_authenticate() {
    // A server without keys accepts the host without asking for authentication.
    let running = serve(&[], 1);
    open(&running, &[KEY]).unwrap().close().unwrap();
    let refused = open(&running, &[KEY, CONTROLLER_KEY]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("dhchap_ctrl_key"), "{refused}");
}

#[test]
fn non_tls_bytes_do_not_harm_a_tls_server() {
    use std::io::{Read, Write};
    let running = serve(&[TLS], 1);
    for bytes in [&[22, 3, 3, 0, 5, 1, 0, 0, 1, 0][..], &[22; 4096], &[22, 3, 3, 0xff, 0xff], &[0; 128]] {
        let mut stream = std::net::TcpStream::connect(running.target.port).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // The server may reset a connection that has unread bytes, so ignore the error.
        let _ = stream.read_to_end(&mut answer);
    }
    open(&running, &[TLS]).unwrap().close().unwrap();
}
