//! Two paths of one host to a drive over NVMe/TCP, whose states change (asymmetric namespace access, Base Specification 2.0,
//! section 8.1).

use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry, admin};
use phaselink_serve::device::paths::PathState;
use phaselink_serve::device::store::Store;
use phaselink_serve::front::nvme_tcp::address::TargetAddress;
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::initiator::Initiator;

use crate::nvme_tcp::{GEOMETRY, Running, bytes_of, drive_of, io, local, read, serve_drive, write};

/// A drive at two ports.
fn serve_on_two_ports(settings: &[&str], threads: usize) -> Running {
    let store = Store::in_memory(GEOMETRY).unwrap();
    serve_drive(drive_of("nvme", settings), store, (false, threads), local(2, &[]))
}

/// A path: the controller at one port, and an I/O queue of it.
struct Path {
    initiator: Initiator,
    queue: Client,
}

impl Path {
    fn new(running: &Running, number: usize) -> Path {
        let subsystem = Some(running.subsystem.clone());
        let target = TargetAddress { subsystem, ..TargetAddress::parse(&running.addresses[number]).unwrap() };
        let initiator = Initiator::open(&target, &HostNameAndIdentifier::default(), 0).unwrap();
        let queue = initiator.queue(1, 32).unwrap();
        Path { initiator, queue }
    }

    fn status(&mut self, opcode: u8) -> Status {
        let block = bytes_of(5, 512);
        let data = match opcode {
            opcode::READ => ClientCommandData::Receive { bytes: 512, is_kept: false },
            opcode::WRITE => ClientCommandData::Send(&block),
            _ => ClientCommandData::None,
        };
        self.queue.execute(&io(opcode, 0, 1), data).unwrap().status
    }

    /// The log page Asymmetric Namespace Access: number of changes, and group, changes and state of each group.
    fn namespace_access_log(&mut self) -> (u8, Vec<(u8, u8, u8)>) {
        let mut log =
            SubmissionEntry { opcode: admin::GET_LOG_PAGE, namespace_id: u32::MAX, ..SubmissionEntry::default() };
        log.dwords[0] = 0x0c | 255 << 16;
        let page = self.initiator.execute_admin_read(&log, 1024).unwrap();
        let group = |number: usize| {
            let group = &page[16 + 36 * number..];
            assert_eq!((group[4], group[32]), (1, group[0]), "its only namespace");
            (group[0], group[8], group[16])
        };
        (page[0], (0..usize::from(page[8])).map(group).collect())
    }
}

#[test]
fn commands_on_an_inaccessible_path_may_be_retried_elsewhere() {
    let running = serve_on_two_ports(&["nvme.namespaces=2"], 2);
    let [mut first, mut second] = [0, 1].map(|number| Path::new(&running, number));
    assert_ne!(first.initiator.controller_id, second.initiator.controller_id);
    assert_eq!(first.initiator.subsystem, second.initiator.subsystem);
    assert_eq!(first.namespace_access_log(), (0, vec![(1, 0, 1), (2, 0, 1)]));
    for (state, refusal) in [
        (PathState::Inaccessible, Status::INACCESSIBLE),
        (PathState::Lost, Status::ACCESS_LOST),
        (PathState::Changing, Status::ACCESS_CHANGES),
    ] {
        write(&mut first.queue, 0, &bytes_of(7, 512));
        assert!(running.faults.paths.set(&running.addresses[0], Some(1), state));
        for opcode in [opcode::READ, opcode::WRITE, opcode::FLUSH, opcode::VERIFY] {
            // The status has no Do Not Retry bit, so the host retries on the other path.
            assert_eq!((first.status(opcode), second.status(opcode).kind()), (refusal, Status::SUCCESS), "{state:?}");
        }
        assert_eq!(read(&mut second.queue, 0, 512), bytes_of(5, 512));
        let other = SubmissionEntry { namespace_id: 2, ..io(opcode::FLUSH, 0, 1) };
        assert_eq!(
            first.queue.execute(&other, ClientCommandData::None).unwrap().status,
            Status::SUCCESS,
            "another group"
        );
        assert!(running.faults.paths.set(&running.addresses[0], None, PathState::Optimized));
    }
    assert!(running.faults.paths.set(&running.addresses[0], Some(2), PathState::NonOptimized));
    assert_eq!(first.namespace_access_log(), (7, vec![(1, 6, 1), (2, 7, 2)]));
    assert_eq!(second.namespace_access_log(), (0, vec![(1, 0, 1), (2, 0, 1)]));
}

#[test]
fn changing_path_refuses_commands_until_its_time() {
    let running = serve_on_two_ports(&[], 1);
    let (mut path, due) = (Path::new(&running, 0), Instant::now() + Duration::from_secs(1));
    assert!(running.faults.paths.set_path_state_after_transition(
        &running.addresses[0],
        None,
        PathState::NonOptimized,
        due
    ));
    assert_eq!(
        (path.status(opcode::READ), path.namespace_access_log()),
        (Status::ACCESS_CHANGES, (1, vec![(1, 1, 15)]))
    );
    assert_eq!(running.faults.paths.complete_due(due), None);
    assert_eq!(
        (path.status(opcode::READ).kind(), path.namespace_access_log()),
        (Status::SUCCESS, (2, vec![(1, 2, 2)]))
    );
}

#[test]
fn access_change_event_is_sent_if_enabled() {
    let running = serve_on_two_ports(&[], 1);
    let mut path = Path::new(&running, 1);
    let controller = path.initiator.read_identify_structure(1, 0).unwrap();
    // The controller reports: several controllers, access reporting, its events, and five access states in fixed
    // groups.
    assert_eq!((controller[76] & 0b1010, controller[93] >> 3 & 1, controller[343]), (0b1010, 1, 0b101_1111));
    // Numbers of groups and of namespaces per controller. Linux refuses 0 namespaces.
    assert_eq!((controller[344], controller[348], controller[540]), (1, 1, 1));
    let namespace = path.initiator.read_identify_structure(0, 1).unwrap();
    assert_eq!((namespace[30] & 1, namespace[92]), (1, 1));
    let mut events = SubmissionEntry { opcode: admin::SET_FEATURES, ..SubmissionEntry::default() };
    (events.dwords[0], events.dwords[1]) = (0x0b, 1 << 11);
    assert_eq!(path.initiator.admin.execute(&events, ClientCommandData::None).unwrap().status, Status::SUCCESS);
    let request = SubmissionEntry { opcode: admin::ASYNC_EVENT_REQUEST, ..SubmissionEntry::default() };
    path.initiator.admin.submit(40, &request, ClientCommandData::None);
    path.initiator.admin.send().unwrap();
    // Changing the other path does not affect this one.
    assert!(running.faults.paths.set(&running.addresses[0], None, PathState::Lost));
    assert_eq!(path.status(opcode::READ), Status::SUCCESS);
    assert!(running.faults.paths.set(&running.addresses[1], None, PathState::NonOptimized));
    let event = loop {
        if let Some(completion) = path.initiator.admin.completion().unwrap() {
            break completion;
        }
        path.initiator.admin.sleep(None).unwrap();
        path.initiator.admin.receive().unwrap();
    };
    // Dword 0: type 2 (notice), information 3, log page 0Ch.
    assert_eq!((event.id, event.result as u32), (40, 2 | 3 << 8 | 0x0c << 16));
    assert_eq!(path.namespace_access_log(), (1, vec![(1, 1, 2)]));
}
