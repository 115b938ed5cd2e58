//! Several hosts at one drive over NVMe/TCP: reservations (Base Specification 2.0, section 8.19), what they leave to each
//! host, and the notices of a change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry, admin};
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::initiator::Initiator;

use crate::nvme_tcp::{Running, bytes_of, io, serve_with};

/// Numbers of the types of reservations, and what each leaves to another registrant and to a host that has not
/// registered: reads, writes.
const TYPES: [(u32, [bool; 2], [bool; 2]); 6] = [
    (1, [true, false], [true, false]),
    (2, [false, false], [false, false]),
    (3, [true, true], [true, false]),
    (4, [true, true], [false, false]),
    (5, [true, true], [true, false]),
    (6, [true, true], [false, false]),
];

/// Actions of Reservation Acquire.
const ACQUIRE: u32 = 0;
const PREEMPT: u32 = 1;
const PREEMPT_AND_ABORT: u32 = 2;

/// A host with a connected I/O queue.
struct Host {
    initiator: Initiator,
    queue: Client,
    key: u64,
}

impl Host {
    fn of(running: &Running, number: u8) -> Host {
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000{number:02x}");
        let host = HostNameAndIdentifier { name, id: [number; 16], keys: None };
        let initiator = Initiator::open(&running.target, &host, 0).unwrap();
        let queue = initiator.queue(1, 32).unwrap();
        Host { initiator, queue, key: 0x1000 + u64::from(number) }
    }

    fn send(&mut self, opcode: u8, dword10: u32, keys: &[u64]) -> Status {
        let mut entry = SubmissionEntry { opcode, namespace_id: 1, ..SubmissionEntry::default() };
        entry.dwords[0] = dword10;
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        self.queue.execute(&entry, ClientCommandData::Send(&data)).unwrap().status.kind()
    }

    fn register(&mut self) -> Status {
        self.send(opcode::RESERVATION_REGISTER, 0, &[0, self.key])
    }

    fn acquire(&mut self, action: u32, kind: u32, other: u64) -> Status {
        self.send(opcode::RESERVATION_ACQUIRE, action | kind << 8, &[self.key, other])
    }

    fn release(&mut self, kind: u32) -> Status {
        self.send(opcode::RESERVATION_RELEASE, kind << 8, &[self.key])
    }

    fn clear(&mut self) -> Status {
        self.send(opcode::RESERVATION_RELEASE, 1, &[self.key])
    }

    fn try_write(&mut self, slba: u64, data: &[u8]) -> Status {
        let entry = io(opcode::WRITE, slba, data.len() as u32 / 512);
        self.queue.execute(&entry, ClientCommandData::Send(data)).unwrap().status.kind()
    }

    fn read_block(&mut self, slba: u64) -> Status {
        let data = ClientCommandData::Receive { bytes: 512, is_kept: true };
        self.queue.execute(&io(opcode::READ, slba, 1), data).unwrap().status.kind()
    }

    /// Reads and writes of every kind: whether each is let through.
    fn permitted_accesses(&mut self) -> [bool; 2] {
        let block = bytes_of(1, 512);
        let range = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut deallocate = SubmissionEntry { opcode: opcode::DATASET_MANAGEMENT, ..io(0, 0, 1) };
        deallocate.dwords = [0, 4, 0, 0, 0, 0];
        let reads = [
            (io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 512, is_kept: true }),
            (io(opcode::COMPARE, 0, 1), ClientCommandData::Send(&block)),
            (io(opcode::VERIFY, 0, 1), ClientCommandData::None),
        ];
        let writes = [
            (io(opcode::WRITE, 0, 1), ClientCommandData::Send(&block)),
            (io(opcode::WRITE_ZEROES, 8, 1), ClientCommandData::None),
            (deallocate, ClientCommandData::Send(&range)),
            (io(opcode::FLUSH, 0, 1), ClientCommandData::None),
            (SubmissionEntry { namespace_id: u32::MAX, ..io(opcode::FLUSH, 0, 1) }, ClientCommandData::None),
            (io(opcode::WRITE, 0, 1), ClientCommandData::Send(&block)),
        ];
        [&reads[..], &writes[..]].map(|commands| {
            let statuses: Vec<Status> = commands
                .iter()
                .map(|(entry, data)| self.queue.execute(entry, *data).unwrap().status.kind())
                .map(|status| if status == Status::COMPARE_FAILURE { Status::SUCCESS } else { status })
                .collect();
            assert!(statuses.iter().all(|it| *it == statuses[0]), "all of a kind alike: {statuses:x?}");
            assert!([Status::SUCCESS, Status::RESERVATION_CONFLICT].contains(&statuses[0]), "{statuses:x?}");
            statuses[0] == Status::SUCCESS
        })
    }

    /// The report of reservations: its header, and the keys of the registrants.
    fn report(&mut self) -> (Vec<u8>, Vec<u64>) {
        let mut entry =
            SubmissionEntry { opcode: opcode::RESERVATION_REPORT, namespace_id: 1, ..SubmissionEntry::default() };
        entry.dwords = [(64 + 4 * 64) / 4 - 1, 1, 0, 0, 0, 0];
        let data = ClientCommandData::Receive { bytes: 64 + 4 * 64, is_kept: true };
        let report = self.queue.execute(&entry, data).unwrap().data;
        let count = usize::from(report[5]);
        let key = |place: usize| u64::from_le_bytes(*report[64 + 64 * place + 8..].first_chunk().unwrap());
        ((report[..10]).to_vec(), (0..count).map(key).collect())
    }

    /// Reads the oldest notice of the log page Reservation Notification. Returns its log page type, the number of further
    /// notices, and its namespace; three zeros if there is none.
    fn read_oldest_notice(&mut self) -> (u8, u8, u8) {
        let mut log =
            SubmissionEntry { opcode: admin::GET_LOG_PAGE, namespace_id: u32::MAX, ..SubmissionEntry::default() };
        log.dwords[0] = 0x80 | 15 << 16;
        let page = self.initiator.execute_admin_read(&log, 64).unwrap();
        (page[8], page[9], page[12])
    }
}

fn connect_three_hosts(running: &Running) -> [Host; 3] {
    [1, 2, 3].map(|number| Host::of(running, number))
}

#[test]
fn reservation_types_give_hosts_the_specified_access_over_tcp() {
    for timing in [false, true] {
        let running = serve_with(&[], timing, 1, &[]);
        let [mut holder, mut registrant, mut other] = connect_three_hosts(&running);
        assert_eq!(holder.acquire(ACQUIRE, 1, 0), Status::RESERVATION_CONFLICT, "it has not registered");
        assert_eq!((holder.register(), registrant.register()), (Status::SUCCESS, Status::SUCCESS));
        for (kind, of_registrant, of_other) in TYPES {
            assert_eq!(holder.acquire(ACQUIRE, kind, 0), Status::SUCCESS);
            assert_eq!(holder.permitted_accesses(), [true, true], "type {kind}");
            assert_eq!(registrant.permitted_accesses(), of_registrant, "type {kind}");
            assert_eq!(other.permitted_accesses(), of_other, "type {kind}");
            let is_of_all = kind >= 5;
            let again = registrant.acquire(ACQUIRE, kind, 0);
            assert_eq!(again == Status::SUCCESS, is_of_all, "type {kind}");
            assert_eq!(holder.release(kind), Status::SUCCESS);
            assert_eq!(
                (registrant.permitted_accesses(), other.permitted_accesses()),
                ([true, true], [true, true]),
                "released"
            );
        }
    }
}

#[test]
fn reservation_report_lists_registrants_in_the_hosts_format() {
    let running = serve_with(&[], false, 1, &[]);
    let [mut first, mut second, mut third] = connect_three_hosts(&running);
    assert_eq!(first.report(), (vec![0; 10], vec![]));
    first.register();
    second.register();
    first.acquire(ACQUIRE, 4, 0);
    let (header, keys) = third.report();
    assert_eq!((&header[..], keys), (&[2, 0, 0, 0, 4, 2, 0, 0, 0, 0][..], vec![first.key, second.key]));
    let mut short =
        SubmissionEntry { opcode: opcode::RESERVATION_REPORT, namespace_id: 1, ..SubmissionEntry::default() };
    short.dwords[0] = 15;
    let refused = first.queue.execute(&short, ClientCommandData::Receive { bytes: 64, is_kept: true }).unwrap();
    assert_eq!(refused.status.kind(), Status::HOST_IDENTIFIER_INCONSISTENT);
    // Reserved actions and types, and a key that must be ignored, are refused.
    assert_eq!(first.send(opcode::RESERVATION_REGISTER, 3, &[0, 1]), Status::INVALID_FIELD);
    assert_eq!(first.acquire(ACQUIRE, 7, 0), Status::INVALID_FIELD);
    assert_eq!(first.acquire(3, 1, 0), Status::INVALID_FIELD);
    assert_eq!(first.acquire(ACQUIRE | 1 << 3, 1, 0), Status::INVALID_FIELD);
    assert_eq!(first.release(1), Status::INVALID_FIELD, "another type is held");
}

#[test]
fn preempted_host_loses_access_and_reads_the_notice() {
    let running = serve_with(&[], false, 1, &[]);
    let [mut first, mut second, mut third] = connect_three_hosts(&running);
    for host in [&mut first, &mut second, &mut third] {
        assert_eq!(host.register(), Status::SUCCESS);
    }
    assert_eq!(first.acquire(ACQUIRE, 3, 0), Status::SUCCESS);
    assert_eq!(first.read_oldest_notice(), (0, 0, 0), "there is none");
    let key = first.key;
    assert_eq!(second.acquire(PREEMPT, 1, key), Status::SUCCESS);
    assert_eq!(
        (first.permitted_accesses(), second.permitted_accesses(), third.permitted_accesses()),
        ([true, false], [true, true], [true, false])
    );
    assert_eq!(first.register(), Status::SUCCESS, "it is a stranger now, and may register again");
    // Each notice is (log page type, number of further notices, namespace). Types: 0 none, 1 registration preempted, 2 reservation
    // released, 3 reservation preempted (here by Clear).
    assert_eq!((first.read_oldest_notice(), first.read_oldest_notice()), ((1, 0, 1), (0, 0, 0)));
    assert_eq!(third.read_oldest_notice(), (2, 0, 1));
    assert_eq!(second.clear(), Status::SUCCESS);
    assert_eq!(
        (first.read_oldest_notice(), third.read_oldest_notice(), second.read_oldest_notice()),
        ((3, 0, 1), (3, 0, 1), (0, 0, 0))
    );
    assert_eq!(third.report().1, Vec::<u64>::new());
}

#[test]
fn notice_event_is_sent_unless_masked() {
    let running = serve_with(&[], false, 1, &[]);
    let [mut first, mut second, _] = connect_three_hosts(&running);
    let mut mask = SubmissionEntry { opcode: admin::SET_FEATURES, namespace_id: 1, ..SubmissionEntry::default() };
    (mask.dwords[0], mask.dwords[1]) = (0x82, 1 << 3);
    assert_eq!(first.initiator.admin.execute(&mask, ClientCommandData::None).unwrap().status, Status::SUCCESS);
    mask.dwords[1] = 1;
    let refused = first.initiator.admin.execute(&mask, ClientCommandData::None).unwrap();
    assert_eq!(refused.status.kind(), Status::INVALID_FIELD);
    first.register();
    second.register();
    let request = SubmissionEntry { opcode: admin::ASYNC_EVENT_REQUEST, ..SubmissionEntry::default() };
    first.initiator.admin.submit(40, &request, ClientCommandData::None);
    first.initiator.admin.send().unwrap();
    // The notice of a cleared reservation is masked, that of a preempted registration is not.
    assert_eq!(second.clear(), Status::SUCCESS);
    assert_eq!((first.register(), second.register()), (Status::SUCCESS, Status::SUCCESS));
    let key = first.key;
    assert_eq!(second.acquire(PREEMPT, 1, key), Status::SUCCESS);
    let event = loop {
        if let Some(completion) = first.initiator.admin.completion().unwrap() {
            break completion;
        }
        first.initiator.admin.sleep(None).unwrap();
        first.initiator.admin.receive().unwrap();
    };
    // Dword 0: type 6 (I/O command set), information 0, log page 80h.
    assert_eq!((event.id, event.result as u32), (40, 6 | 0x80 << 16));
    assert_eq!(first.read_oldest_notice(), (1, 0, 1));
}

/// One host writes as fast as it can, from a thread and a connection of its own; another preempts it and, once that has
/// completed, writes the same block. Nothing of the first may be found there afterwards.
#[test]
fn no_write_of_a_preempted_host_lands_after_the_preemption() {
    for (timing, threads, action) in
        [(false, 1, PREEMPT), (false, 2, PREEMPT), (false, 2, PREEMPT_AND_ABORT), (true, 2, PREEMPT_AND_ABORT)]
    {
        let running = serve_with(&[], timing, threads, &[]);
        let [mut first, mut second, _] = connect_three_hosts(&running);
        assert_eq!((first.register(), second.register()), (Status::SUCCESS, Status::SUCCESS));
        for round in 0..40_u64 {
            assert_eq!(first.acquire(ACQUIRE, 1, 0), Status::SUCCESS);
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let (mut written, mut refused) = (0, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        match first.try_write(16, &bytes_of(1000 + round, 4096)) {
                            Status::SUCCESS if refused > 0 => panic!("a write after one that was refused"),
                            Status::SUCCESS => written += 1,
                            Status::RESERVATION_CONFLICT | Status::PREEMPTED => refused += 1,
                            status => panic!("{status:?}"),
                        }
                    }
                    written
                });
                thread::sleep(std::time::Duration::from_millis(2));
                let (key, own) = (0x1001, bytes_of(round, 4096));
                assert_eq!(second.acquire(action, 2, key), Status::SUCCESS);
                assert_eq!(second.try_write(16, &own), Status::SUCCESS);
                thread::sleep(std::time::Duration::from_millis(1));
                let read = crate::nvme_tcp::read(&mut second.queue, 16, 4096);
                is_over.store(true, Ordering::Relaxed);
                assert!(read == own, "round {round}: a write of the preempted host has landed");
                let _ = writer.join().unwrap();
            });
            assert_eq!(first.read_block(16), Status::RESERVATION_CONFLICT);
            assert_eq!((second.release(2), first.register()), (Status::SUCCESS, Status::SUCCESS));
        }
    }
}

#[test]
fn connections_of_one_host_share_its_registration() {
    let running = serve_with(&[], false, 1, &[]);
    let [mut first, mut second, _] = connect_three_hosts(&running);
    assert_eq!((first.register(), first.acquire(ACQUIRE, 2, 0)), (Status::SUCCESS, Status::SUCCESS));
    let mut again = Host::of(&running, 1);
    assert_eq!((again.permitted_accesses(), second.permitted_accesses()), ([true, true], [false, false]));
    first.initiator.close().unwrap();
    assert_eq!((again.permitted_accesses(), second.permitted_accesses()), ([true, true], [false, false]));
    assert_eq!(again.release(2), Status::SUCCESS);
    assert_eq!(second.permitted_accesses(), [true, true]);
}
