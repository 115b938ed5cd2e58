//! What hosts do that the NVMe specification leaves undefined, done over vfio-user and found by a strict server.

// Other tests use the rest of it.
#[allow(dead_code)]
#[path = "common/vfio_client.rs"]
mod vfio_client;

#[path = "common/background.rs"]
mod background;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use background::{Background, alone, device};
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::spec::{admin, opcode};
use phaselink_ring::shared::memory::Memory;
use phaselink_serve::device::metrics;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::vfio_user::wire::command;
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::nvme::strict;
use phaselink_serve::server::Server;
use vfio_client::{Client, DATA, Driver, PAGE, RAM, RAM_BYTES, Rings, words};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;

/// A kind, and what a client or a driver does that is of it.
type ByClient = (&'static str, fn(&Client));
type ByDriver = (&'static str, Box<dyn Fn(&mut Driver)>);

/// What a strict server has counted of what `act` does as a client. If that is to be found, what it rings for last is waited
/// for, with the client connected as long: a doorbell that nobody has looked at goes with its connection.
fn seen<Connected>(
    timing: bool,
    is_strict: bool,
    is_found: bool,
    act: impl FnOnce(Client) -> Connected,
) -> Vec<(&'static str, u64)> {
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strict.vfio");
    let device = device(Drive::shipped("nvme").unwrap(), Store::in_memory(GEOMETRY).unwrap());
    let served = ControllerSocket::bind(&path, &device.drive, GEOMETRY, 0).unwrap();
    let served = if is_strict { served.strictly() } else { served };
    let server = Server {
        device,
        timing,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(VfioUser(vec![served]))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    let tallies = Arc::clone(&server.device.tallies);
    let server = Background::start(server, alone);
    let client = Client::connect(&path);
    client.agree("");
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    let connected = act(client);
    let until = Instant::now() + Duration::from_secs(10);
    while is_found && tallies.sum().undefined.is_empty() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    drop(connected);
    let tally = server.finish().tally;
    for (behaviour, _) in &tally.undefined {
        let line = format!("phaselink_undefined_total{{kind=\"{}\"}}", behaviour.kind);
        assert!(metrics::text(&tally, &[]).contains(&line), "{line}");
    }
    tally.undefined.iter().map(|(behaviour, count)| (behaviour.kind, *count)).collect()
}

/// A driver with its queues, which rings through the page of the doorbells.
fn driver(client: Client) -> Driver {
    let (_, fds) = client.region_info(0, 128);
    let page = Memory::open(&fds[0], 0x2000).unwrap();
    let mut driver = Driver::start(client, RAM, Rings::Page(page));
    driver.bring_up(0);
    driver
}

/// What a client does, and the client.
fn done(act: fn(&Client), client: Client) -> Client {
    act(&client);
    client
}

fn well_behaved(driver: &mut Driver) {
    let data = vec![7; 2 * PAGE as usize];
    driver.write(3, &data);
    assert_eq!(driver.read(3, data.len()), data);
    driver.administer(admin::KEEP_ALIVE, 0, 0, [0; 6]);
}

#[test]
fn a_host_that_does_what_the_specification_says_is_not_reported() {
    for timing in [false, true] {
        let acted = |client| {
            let mut driver = driver(client);
            well_behaved(&mut driver);
            driver
        };
        assert_eq!(seen(timing, true, false, acted), []);
    }
}

#[test]
fn nothing_is_looked_for_unless_it_is_asked_for() {
    assert_eq!(seen(false, false, false, |client| done(|client| client.set_register(0x14, 1 << 31), client)), []);
}

/// Several words of registers, written by one message: the controller has no turn in between.
fn write_all(client: &Client, writes: &[(u64, u32)]) {
    let one = |(offset, value): &(u64, u32)| [&Client::access(0, *offset, 4)[..], &words(&[*value, 0])].concat();
    let writes: Vec<u8> = writes.iter().flat_map(one).collect();
    let count = (writes.len() / 24) as u64;
    client.ask(command::REGION_WRITE_MULTI, &[&count.to_le_bytes()[..], &writes].concat(), &[]).unwrap();
}

#[test]
fn what_is_done_to_registers_before_there_is_a_queue_is_found() {
    let cases: [ByClient; 5] = [
        (strict::REGISTER_ACCESS.kind, |client| client.region_write(0, 0x14, &[0]).unwrap()),
        (strict::RESERVED_REGISTER_BITS.kind, |client| client.set_register(0x14, 1 << 31)),
        (strict::DISABLE_BEFORE_READY.kind, |client| write_all(client, &[(0x14, ENABLED), (0x14, 0)])),
        (strict::DOORBELL_BEFORE_READY.kind, |client| client.set_register(0x1000, 1)),
        (strict::MASK_WITH_VECTORS.kind, |client| {
            client.region_write(7, 0x53, &[0x80]).unwrap();
            client.set_register(0x0c, 1);
        }),
    ];
    for (kind, act) in cases {
        assert_eq!(seen(false, true, true, |client| done(act, client)), [(kind, 1)]);
    }
}

#[test]
fn what_is_done_to_a_controller_that_is_enabled_is_found() {
    let cases: [ByClient; 7] = [
        (strict::ENABLE_BEFORE_DISABLED.kind, |client| write_all(client, &[(0x14, 0), (0x14, ENABLED)])),
        (strict::CONFIGURATION_WHILE_ENABLED.kind, |client| client.set_register(0x14, ENABLED | 1 << 11)),
        (strict::ADMIN_QUEUE_WHILE_ENABLED.kind, |client| client.set_register(0x28, 0x8000)),
        (strict::DOORBELL_STALE.kind, |client| {
            let tail = u32::from_le_bytes(client_doorbell(client));
            client.set_register(0x1000, tail);
        }),
        (strict::DOORBELL_VALUE.kind, |client| client.set_register(0x1000, 5000)),
        (strict::DOORBELL_OF_NO_QUEUE.kind, |client| client.set_register(0x1000 + 8 * 100, 0)),
        (strict::DOORBELL_ACCESS.kind, |client| client.region_write(0, 0x1002, &[0; 2]).unwrap()),
    ];
    for (kind, act) in cases {
        let acted = |client| {
            let driver = driver(client);
            act(&driver.client);
            driver
        };
        assert_eq!(seen(false, true, true, acted), [(kind, 1)]);
    }
}

/// The tail of the admin queue's doorbell, in its page.
fn client_doorbell(client: &Client) -> [u8; 4] {
    let (_, fds) = client.region_info(0, 128);
    let both = Memory::open(&fds[0], 0x2000).unwrap().word(0x1000).load(std::sync::atomic::Ordering::Acquire);
    (both as u32).to_le_bytes()
}

#[test]
fn what_is_wrong_with_commands_is_found_whether_they_are_answered_at_once_or_when_the_model_says() {
    let read = |prp: [u64; 2], blocks: u32| {
        move |driver: &mut Driver| {
            driver.submit(1, opcode::READ, 1, prp, [0, 0, blocks - 1, 0, 0, 0]);
            driver.answer(1);
        }
    };
    let page = RAM + DATA;
    let cases: [ByDriver; 6] = [
        (
            strict::RESERVED_COMMAND_BITS.kind,
            Box::new(|driver| {
                driver.submit(1, opcode::FLUSH, 1, [0; 2], [1, 0, 0, 0, 0, 0]);
                driver.answer(1);
            }),
        ),
        (
            strict::COMMAND_IDENTIFIER.kind,
            Box::new(|driver| {
                driver.submit(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 6]);
                driver.next_id -= 1;
                driver.administer(admin::KEEP_ALIVE, 0, 0, [0; 6]);
            }),
        ),
        (strict::PRP_NOT_ALIGNED.kind, Box::new(read([page + 2, 0], 1))),
        (strict::PRP_OFFSET.kind, Box::new(read([page, page + PAGE + 8], 16))),
        (strict::PRP_WITHOUT_NEED.kind, Box::new(read([page, page + PAGE], 1))),
        (
            strict::ABORT_OF_UNKNOWN.kind,
            Box::new(|driver| {
                driver.submit(0, admin::ABORT, 0, [0; 2], [1 | 0xbeef << 16, 0, 0, 0, 0, 0]);
                assert_eq!(driver.answer(0).result, 1, "nothing was aborted");
            }),
        ),
    ];
    for (place, (kind, act)) in cases.iter().enumerate() {
        let acted = |client| {
            let mut driver = driver(client);
            // As often as that, and nothing else.
            (0..2).for_each(|_| act(&mut driver));
            driver
        };
        let found = seen(place.is_multiple_of(2), true, true, acted);
        let expected = if *kind == strict::COMMAND_IDENTIFIER.kind { found[0].1 } else { 2 };
        assert_eq!(found, [(*kind, expected)]);
    }
}

#[test]
fn every_kind_is_tried_here() {
    let text = include_str!("strict.rs");
    let tried = |behaviour: &phaselink_serve::device::tally::UndefinedBehaviour| {
        text.contains(&format!("strict::{}.kind", behaviour.kind.to_uppercase().replace('-', "_")))
    };
    let missing: Vec<&str> =
        strict::ALL.iter().filter(|behaviour| !tried(behaviour)).map(|behaviour| behaviour.kind).collect();
    assert_eq!(missing, [""; 0]);
}
