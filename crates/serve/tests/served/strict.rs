//! What hosts do that the NVMe specification leaves undefined, done over vfio-user and found by a strict server.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use crate::vfio_client::{Client, DATA, DoorbellMethod, Driver, ENTRIES, PAGE, RAM, RAM_BYTES, words};
use phaselink_client::shared::memory::Memory;
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::device::faults::{FaultRuleScope, Faults};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::tally::{Tally, UndefinedBehaviour};
use phaselink_serve::device::{metrics, report};
use phaselink_serve::front::vfio_user::wire::command;
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::nvme::strict;
use phaselink_serve::server::Server;
use rustix::event::EventfdFlags;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;

/// A kind, and what a client or a driver does that is of it.
type ByClient = (&'static str, fn(&Client));
type DriverViolation = (&'static str, Box<dyn Fn(&mut Driver)>);

/// What a strict server has counted of what `act` does as a client. If that is to be found, what it rings for last is waited
/// for, with the client connected as long: a doorbell that nobody has looked at goes with its connection.
fn seen<Connected>(
    timing: bool,
    is_strict: bool,
    is_found: bool,
    act: impl FnOnce(Client) -> Connected,
) -> Vec<(&'static str, u64)> {
    let tally =
        strict_counts_after(&ViolationSetup { timing, is_strict, is_found, faults: &[], queue_entries: 1024 }, act);
    tally.undefined.iter().map(|(behaviour, count)| (behaviour.kind, *count)).collect()
}

/// A server for one client, and what the client is to meet.
struct ViolationSetup<'a> {
    timing: bool,
    is_strict: bool,
    /// True if something is to be found.
    is_found: bool,
    /// Fault rules that hold from the beginning.
    faults: &'a [&'a str],
    queue_entries: u32,
}

/// The counts of a server for what `act` does as its client.
fn strict_counts_after<Connected>(setup: &ViolationSetup<'_>, act: impl FnOnce(Client) -> Connected) -> Tally {
    let ViolationSetup { timing, is_strict, is_found, .. } = *setup;
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strict.vfio");
    let mut drive = Drive::shipped("nvme").unwrap();
    drive.nvme.queue_entries = setup.queue_entries;
    let mut device = device(drive, Store::in_memory(GEOMETRY).unwrap());
    device.faults = Arc::new(Faults::new(FaultRuleScope { model: timing, interrupts: true, connections: false }));
    for rule in setup.faults {
        device.faults.add("test", device.drive.fault_from_line("test", rule).unwrap()).unwrap();
    }
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
    let server = BackgroundServer::start(server, alone);
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
    tally
}

/// A driver with its admin queue alone.
fn start(client: Client) -> Driver {
    let (_, fds) = client.region_info(0, 128);
    let page = Memory::open(&fds[0], 0x2000).unwrap();
    Driver::start(client, RAM, DoorbellMethod::Page(page))
}

/// A driver with its queues, which rings through the page of the doorbells.
fn driver(client: Client) -> Driver {
    let mut driver = start(client);
    driver.bring_up_like_linux(0);
    driver
}

/// What a client does, and the client.
fn act_as_client(act: fn(&Client), client: Client) -> Client {
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
fn conforming_host_is_not_reported() {
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
fn strict_checks_are_off_by_default() {
    assert_eq!(
        seen(false, false, false, |client| act_as_client(|client| client.set_register(0x14, 1 << 31), client)),
        []
    );
}

/// Several words of registers, written by one message: the controller has no turn in between.
fn write_all(client: &Client, writes: &[(u64, u32)]) {
    let one = |(offset, value): &(u64, u32)| [&Client::access(0, *offset, 4)[..], &words(&[*value, 0])].concat();
    let writes: Vec<u8> = writes.iter().flat_map(one).collect();
    let count = (writes.len() / 24) as u64;
    client.ask(command::REGION_WRITE_MULTI, &[&count.to_le_bytes()[..], &writes].concat(), &[]).unwrap();
}

#[test]
fn violations_before_queue_creation_are_detected() {
    let cases: [ByClient; 6] = [
        (strict::DMA_OVERLAP.kind, |client| {
            assert_eq!(client.map(RAM + PAGE, 0, PAGE, None), Err(libc::EEXIST.unsigned_abs()));
        }),
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
        assert_eq!(seen(false, true, true, |client| act_as_client(act, client)), [(kind, 1)]);
    }
}

#[test]
fn violations_of_an_enabled_controller_are_detected() {
    let cases: [ByClient; 7] = [
        (strict::ENABLE_BEFORE_DISABLED.kind, |client| write_all(client, &[(0x14, 0), (0x14, ENABLED)])),
        (strict::CONFIGURATION_WHILE_ENABLED.kind, |client| client.set_register(0x14, ENABLED | 1 << 11)),
        (strict::ADMIN_QUEUE_WHILE_ENABLED.kind, |client| client.set_register(0x28, 0x8000)),
        (strict::DOORBELL_STALE.kind, |client| {
            let tail = u32::from_le_bytes(admin_tail_doorbell(client));
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
fn admin_tail_doorbell(client: &Client) -> [u8; 4] {
    let (_, fds) = client.region_info(0, 128);
    let both = Memory::open(&fds[0], 0x2000).unwrap().word(0x1000).load(std::sync::atomic::Ordering::Acquire);
    (both as u32).to_le_bytes()
}

#[test]
fn wrong_commands_are_detected_with_and_without_timing() {
    let read = |prp: [u64; 2], blocks: u32| {
        move |driver: &mut Driver| {
            driver.submit(1, opcode::READ, 1, prp, [0, 0, blocks - 1, 0, 0, 0]);
            driver.answer(1);
        }
    };
    let page = RAM + DATA;
    let cases: [DriverViolation; 6] = [
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
            // Repeat the violation, so that the count must be two.
            (0..2).for_each(|_| act(&mut driver));
            driver
        };
        let found = seen(place.is_multiple_of(2), true, true, acted);
        let expected = if *kind == strict::COMMAND_IDENTIFIER.kind { found[0].1 } else { 2 };
        assert_eq!(found, [(*kind, expected)]);
    }
}

/// The place of the next entry of a completion queue of `driver` in its memory.
fn next_completion_slot(driver: &Driver, queue: usize) -> u64 {
    (2 + 2 * queue as u64) * PAGE + u64::from(driver.heads[queue]) * 16
}

/// Checks that a server has seen one kind of behaviour, and that its report names the section.
fn check_reported_violation(tally: &Tally, behaviour: &'static UndefinedBehaviour) {
    let kinds: Vec<&str> = tally.undefined.iter().map(|(seen, _)| seen.kind).collect();
    assert_eq!(kinds, [behaviour.kind]);
    let reported = &report::undefined_behaviour_json(tally)[0];
    assert_eq!([&reported["section"], &reported["what"]], [behaviour.section, behaviour.what]);
}

/// Asks for eight queue pairs, and returns the number of pairs that the controller grants, as the driver understands it.
fn granted_queue_pairs(driver: &mut Driver, waits_for_the_whole_entry: bool) -> u32 {
    let at = next_completion_slot(driver, 0);
    driver.memory().write_all_at(&[0xee; 4], at).unwrap();
    driver.submit(0, admin::SET_FEATURES, 0, [0; 2], [7, 7 | 7 << 16, 0, 0, 0, 0]);
    let mut entry = driver.peek_completion(0);
    while waits_for_the_whole_entry && entry.result == 0xeeee_eeee {
        let mut bytes = [0; 16];
        driver.memory().read_exact_at(&mut bytes, at).unwrap();
        entry = CompletionEntry::decode(&bytes);
    }
    driver.ring(0);
    (entry.result as u32 & 0xffff) + 1
}

/// A driver loads the first double word before the phase tag, or without a barrier behind it, and so combines the old one with
/// the new tag. The fault makes that moment long.
#[test]
fn driver_taking_a_torn_completion_is_detected() {
    const TORN: &[&str] = &[r#"action = "torn-completion", delay_us = 300000, times = 1"#];
    for waits in [false, true] {
        let setup =
            ViolationSetup { timing: false, is_strict: true, is_found: !waits, faults: TORN, queue_entries: 1024 };
        let tally = strict_counts_after(&setup, |client| {
            let mut driver = start(client);
            let granted = granted_queue_pairs(&mut driver, waits);
            assert_eq!(granted, if waits { 8 } else { 0xeeef });
            driver
        });
        match waits {
            true => assert_eq!(tally.undefined, []),
            false => check_reported_violation(&tally, &strict::COMPLETION_TORN),
        }
    }
}

#[test]
fn driver_trusting_interrupts_without_phase_is_detected() {
    const STALE: &[&str] = &[r#"action = "stale-phase", delay_us = 300000, first = 2, times = 1"#];
    for looks in [false, true] {
        let setup =
            ViolationSetup { timing: false, is_strict: true, is_found: !looks, faults: STALE, queue_entries: 1024 };
        let tally = strict_counts_after(&setup, |client| {
            let mut driver = start(client);
            driver.administer(admin::KEEP_ALIVE, 0, 0, [0; 6]);
            let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            driver.client.set_msix_eventfds(&[event.as_fd()]).unwrap();
            driver.submit(0, admin::KEEP_ALIVE, 0, [0; 2], [0; 6]);
            // The device sends an interrupt before the entry is valid, and another one when it is.
            for _ in 0..if looks { 2 } else { 1 } {
                rustix::io::read(&event, &mut [0; 8]).unwrap();
            }
            match looks {
                true => drop(driver.answer(0)),
                false => {
                    driver.heads[0] += 1;
                    driver.ring(0);
                }
            }
            driver
        });
        match looks {
            true => assert_eq!(tally.undefined, []),
            false => check_reported_violation(&tally, &strict::COMPLETION_STALE),
        }
    }
}

/// A driver takes an entry of a submission queue as free once it has rung for it, and not once a completion has passed it by
/// SQHD. As long as the device reads doorbells at once, nothing happens.
#[test]
fn overwriting_unfetched_commands_is_detected() {
    const LATE: &[&str] = &[r#"action = "late-doorbell-read", delay_us = 1000000, first = 2, times = 1"#];
    for waits in [false, true] {
        let setup =
            ViolationSetup { timing: false, is_strict: true, is_found: !waits, faults: LATE, queue_entries: 1024 };
        let tally = strict_counts_after(&setup, |client| {
            let mut driver = start(client);
            driver.administer(admin::KEEP_ALIVE, 0, 0, [0; 6]);
            let begun = Instant::now();
            for _ in 0..ENTRIES + 3 {
                driver.submit(0, admin::KEEP_ALIVE, 0, [0; 2], [0; 6]);
                match waits {
                    true => drop(driver.answer(0)),
                    // The doorbell is a word in memory, so the device sees its values only when it polls it.
                    false => thread::sleep(Duration::from_millis(3)),
                }
            }
            assert!(!waits || begun.elapsed() >= Duration::from_secs(1));
            driver
        });
        match waits {
            true => assert_eq!(tally.undefined, []),
            false => assert!(tally.undefined.iter().any(|(seen, _)| seen.kind == strict::SUBMISSION_OVERRUN.kind)),
        }
    }
}

/// A controller offers 256 entries (CAP.MQES = 255), and the host has queues of 1,024.
#[test]
fn oversized_queue_is_detected_and_refused() {
    let setup = ViolationSetup { timing: false, is_strict: true, is_found: true, faults: &[], queue_entries: 256 };
    let tally = strict_counts_after(&setup, |client| {
        let mut driver = start(client);
        assert_eq!(driver.client.register(0) & 0xffff, 255);
        driver.submit(0, admin::CREATE_COMPLETION_QUEUE, 0, [RAM + 4 * PAGE, 0], [1 | 1023 << 16, 3, 0, 0, 0, 0]);
        assert_eq!(driver.answer(0).status.kind(), Status::INVALID_QUEUE_SIZE);
        driver.administer(admin::CREATE_COMPLETION_QUEUE, 0, 4, [1 | 255 << 16, 3, 0, 0, 0, 0]);
        driver
    });
    check_reported_violation(&tally, &strict::QUEUE_BEYOND_MQES);
}

#[test]
fn overlapping_queue_memory_is_detected() {
    let setup = ViolationSetup { timing: false, is_strict: true, is_found: true, faults: &[], queue_entries: 1024 };
    let tally = strict_counts_after(&setup, |client| {
        let mut driver = start(client);
        // The admin completion queue begins at page 2, so this queue overlaps it.
        driver.administer(admin::CREATE_COMPLETION_QUEUE, 0, 2, [1 | 63 << 16, 1, 0, 0, 0, 0]);
        driver
    });
    check_reported_violation(&tally, &strict::QUEUE_OVERLAP);
}

/// A guest has two memory ranges that overlap, and its machine maps both.
#[test]
fn overlapping_guest_memory_is_detected() {
    let setup = ViolationSetup { timing: false, is_strict: true, is_found: true, faults: &[], queue_entries: 1024 };
    let tally = strict_counts_after(&setup, |client| {
        let (start, bytes) = (RAM + RAM_BYTES - PAGE, 4 * PAGE);
        assert_eq!(client.map(start, 0, bytes, Some(client.ram.as_fd())), Err(libc::EEXIST.unsigned_abs()));
        client
    });
    check_reported_violation(&tally, &strict::DMA_OVERLAP);
}

/// Completions that a host has taken by polling, and after interrupts.
fn taken(has_interrupts: bool) -> (u64, u64) {
    let setup = ViolationSetup { timing: false, is_strict: false, is_found: false, faults: &[], queue_entries: 1024 };
    let tally = strict_counts_after(&setup, |client| {
        let mut driver = start(client);
        let flags = 1 | u32::from(has_interrupts) << 1;
        driver.administer(admin::CREATE_COMPLETION_QUEUE, 0, 4, [1 | 63 << 16, flags, 0, 0, 0, 0]);
        driver.administer(admin::CREATE_SUBMISSION_QUEUE, 0, 3, [1 | 63 << 16, 1 | 1 << 16, 0, 0, 0, 0]);
        for _ in 0..100 {
            driver.transfer(opcode::READ, 0, 1);
            // The device sends the interrupt after the entry. A driver that looks for the entry earlier would be
            // polling.
            thread::sleep(Duration::from_millis(1));
            assert_eq!(driver.answer(1).status, Status::SUCCESS);
        }
        driver.administer(admin::DELETE_SUBMISSION_QUEUE, 0, 0, [1, 0, 0, 0, 0, 0]);
        driver.administer(admin::DELETE_COMPLETION_QUEUE, 0, 0, [1, 0, 0, 0, 0, 0]);
        driver
    });
    let text = metrics::text(&tally, &[]);
    assert!(text.contains(&format!("phaselink_completions_total{{seen=\"polled\"}} {}", tally.taken.polled)), "{text}");
    (tally.taken.polled, tally.taken.after_interrupt)
}

#[test]
fn polled_queues_are_distinguished_from_interrupted_ones() {
    assert_eq!(taken(false), (100, 0));
    let (polled, after_interrupt) = taken(true);
    assert_eq!(polled + after_interrupt, 100);
    assert!(after_interrupt >= 90, "{after_interrupt}");
}

#[test]
fn all_violation_kinds_are_tested() {
    let text = include_str!("strict.rs");
    let tried = |behaviour: &phaselink_serve::device::tally::UndefinedBehaviour| {
        let name = format!("strict::{}", behaviour.kind.to_uppercase().replace('-', "_"));
        [".kind", ")"].iter().any(|end| text.contains(&format!("{name}{end}")))
    };
    let missing: Vec<&str> =
        strict::ALL.iter().filter(|behaviour| !tried(behaviour)).map(|behaviour| behaviour.kind).collect();
    assert_eq!(missing, [""; 0]);
}
