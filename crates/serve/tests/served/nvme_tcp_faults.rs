//! Faults of connections on a drive over NVMe/TCP, as the host of the project meets them.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::nvme_tcp::{Running, bytes_of, io, read, retry_until_ok, serve_with, write};
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_serve::device::faults::{FaultRuleScope, Faults};
use phaselink_serve::front::nvme_tcp::address::TargetAddress;
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::fabrics::status;
use phaselink_serve::front::nvme_tcp::initiator::Initiator;
use phaselink_serve::front::nvme_tcp::wire::Digests;

/// Time of the stalls of these tests.
const STALL: Duration = Duration::from_millis(300);

/// Adds the fault of a line, and returns its number.
fn add(running: &Running, line: &str) -> u64 {
    let fault = Drive::shipped("nvme").unwrap().fault_from_line("test", line).unwrap();
    running.faults.add("test", fault).unwrap()
}

fn fault_occurrences(running: &Running) -> u64 {
    running.faults.list()[0]["happened"].as_u64().unwrap()
}

fn open(running: &Running, digests: Digests) -> Initiator {
    let target = TargetAddress { digests, ..running.target.clone() };
    retry_until_ok(|| Initiator::open(&target, &HostNameAndIdentifier::default(), 0))
}

const PLAIN: Digests = Digests { header: false, data: false };
const WITH_DIGESTS: Digests = Digests { header: true, data: true };

/// Sends a read of the first block, and returns its outcome.
fn read_first_block(queue: &mut Client) -> io::Result<Status> {
    let data = ClientCommandData::Receive { bytes: 512, is_kept: true };
    queue.execute(&io(opcode::READ, 0, 1), data).map(|completion| completion.status)
}

#[test]
fn stalled_tcp_connection_delays_only_its_queue() {
    for (timing, threads) in [(false, 1), (false, 2), (true, 1)] {
        let running = serve_with(&[], timing, threads, &[]);
        let mut initiator = open(&running, PLAIN);
        let (mut first, mut second) = (initiator.queue(1, 8).unwrap(), initiator.queue(2, 8).unwrap());
        write(&mut first, 0, &[1; 512]);
        add(&running, "at=request:1 for=300ms connection-stall thread=1");
        let start = Instant::now();
        first.submit(0, &io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 512, is_kept: true });
        first.send().unwrap();
        // The second queue completes while the first is stalled.
        assert_eq!(read(&mut second, 0, 512), [1; 512]);
        initiator.read_identify_structure(1, 0).unwrap();
        assert!(start.elapsed() < STALL, "{:?}, timing {timing}", start.elapsed());
        let data = loop {
            first.sleep(Some(Duration::from_secs(5))).unwrap();
            assert!(first.receive().unwrap(), "the stall has an end");
            if let Some(completion) = first.completion().unwrap() {
                break completion.data;
            }
        };
        assert!(start.elapsed() >= STALL && start.elapsed() < 10 * STALL, "{:?}", start.elapsed());
        assert_eq!((data, fault_occurrences(&running)), (vec![1; 512], 1));
        assert_eq!(read(&mut first, 0, 512), [1; 512]);
    }
}

#[test]
fn reset_tcp_connection_loses_its_command_and_reconnects() {
    for threads in [1, 2] {
        let running = serve_with(&[], false, threads, &[]);
        let initiator = open(&running, PLAIN);
        let (mut first, mut second) = (initiator.queue(1, 8).unwrap(), initiator.queue(2, 8).unwrap());
        write(&mut first, 0, &[1; 512]);
        add(&running, "at=request:2 connection-reset thread=1");
        write(&mut first, 0, &[2; 512]);
        let refused =
            first.execute(&io(opcode::WRITE, 0, 1), ClientCommandData::Send(&[3; 512])).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionReset, "{refused}");
        assert_eq!(read(&mut second, 0, 512), [2; 512], "the command is not executed");
        let mut again = retry_until_ok(|| initiator.queue(1, 8));
        write(&mut again, 0, &[4; 512]);
        assert_eq!((read(&mut again, 0, 512), fault_occurrences(&running)), (vec![4; 512], 1));
    }
}

#[test]
fn wrong_tcp_data_digest_is_a_status_or_host_error() {
    let running = serve_with(&[], false, 1, &[]);
    let initiator = open(&running, WITH_DIGESTS);
    let mut queue = initiator.queue(1, 8).unwrap();
    let data = bytes_of(1, 512);
    write(&mut queue, 0, &data);
    add(&running, "at=request:1 digest-error operation=write");
    add(&running, "at=request:2 digest-error operation=read");
    let refused = queue.execute(&io(opcode::WRITE, 0, 1), ClientCommandData::Send(&[3; 512])).unwrap();
    assert_eq!(refused.status.kind(), status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(read(&mut queue, 0, 512), data, "wrong data is not stored");
    let error = read_first_block(&mut queue).unwrap_err();
    assert!(error.to_string().contains("a wrong data digest"), "{error}");
}

#[test]
fn wrong_tcp_header_digest_is_noticed_by_the_host() {
    for operation in [opcode::READ, opcode::WRITE] {
        let running = serve_with(&[], false, 1, &[]);
        let initiator = open(&running, WITH_DIGESTS);
        let mut queue = initiator.queue(1, 8).unwrap();
        add(&running, "at=request:1 digest-error digest=header");
        let data = [5; 512];
        let data = match operation {
            opcode::READ => ClientCommandData::Receive { bytes: 512, is_kept: true },
            _ => ClientCommandData::Send(&data),
        };
        let error = queue.execute(&io(operation, 0, 1), data).map(drop).unwrap_err();
        assert!(error.to_string().contains("HeaderDigest"), "{error}");
    }
}

#[test]
fn connection_without_digests_ignores_digest_faults() {
    let running = serve_with(&[], false, 1, &[]);
    let initiator = open(&running, PLAIN);
    let mut queue = initiator.queue(1, 8).unwrap();
    add(&running, "digest-error");
    write(&mut queue, 0, &[1; 512]);
    assert_eq!((read(&mut queue, 0, 512), fault_occurrences(&running)), (vec![1; 512], 0));
}

#[test]
fn half_open_connection_never_responds_until_closed() {
    let running = serve_with(&[], false, 1, &[]);
    let mut initiator = open(&running, PLAIN);
    let mut queue = initiator.queue(1, 8).unwrap();
    add(&running, "at=request:1 half-open");
    for id in [0, 1] {
        queue.submit(id, &io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 512, is_kept: true });
    }
    queue.send().unwrap();
    queue.sleep(Some(STALL)).unwrap();
    assert!(!queue.receive().unwrap(), "neither an answer nor an end");
    initiator.read_identify_structure(1, 0).unwrap();
    drop(queue);
    let mut again = retry_until_ok(|| initiator.queue(1, 8));
    write(&mut again, 0, &[1; 512]);
    assert_eq!((read(&mut again, 0, 512), fault_occurrences(&running)), (vec![1; 512], 1));
}

#[test]
fn connection_fault_is_refused_for_other_front_ends() {
    let faults = Faults::new(FaultRuleScope { model: true, interrupts: true, connections: false });
    for line in ["for=1ms connection-stall", "connection-reset", "digest-error", "half-open"] {
        let fault = Drive::shipped("nvme").unwrap().fault_from_line("test", line).unwrap();
        let problem = faults.add("test", fault).unwrap_err().to_string();
        assert!(
            problem.contains("no network connections") && problem.contains("a front-end over a network"),
            "{problem}"
        );
    }
}
