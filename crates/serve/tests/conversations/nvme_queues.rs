//! The NVMe controller between commands: queues, doorbells, interrupts, events, resets, and hosts that keep to nothing.

use std::io;

use crate::nvme_bench::*;
use phaselink_core::protocol::nvme::commands::{INVALID_COMMAND_ID, opcode};
use phaselink_core::protocol::nvme::spec::{Status, admin};
use phaselink_serve::nvme::arbitration::QueuePriorityClass;
use phaselink_serve::nvme::{CommandProgress, NextCommand};
use proptest::prelude::*;

#[test]
fn full_completion_queue_holds_commands_back() {
    let mut bench = Bench::new();
    let mut pair = bench.io;
    for round in 0..3 {
        for _ in 0..ENTRIES - 1 {
            pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        }
        bench.step();
        // One command more than the completion queue can hold has to wait.
        pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        bench.step();
        let mut reaped = 0;
        let mut reader = pair;
        while bench.reap(&mut reader).is_some() {
            reaped += 1;
        }
        assert_eq!(reaped, ENTRIES - 1, "round {round}");
        bench.step();
        assert!(bench.reap(&mut reader).is_some() && bench.reap(&mut reader).is_none());
        pair = reader;
    }
}

#[test]
fn batch_completions_are_written_despite_lost_memory_elsewhere() {
    let mut bench = Bench::new();
    let last_page = MEMORY as u64 - PAGE;
    let completions = Fields { prp: [last_page, 0], ..create_completion_queue(2, ENTRIES) };
    let submissions = Fields { prp: [5 * PAGE, 0], ..create_submission_queue(2, ENTRIES) };
    let to_second = Fields { dwords: [submissions.dwords[0], 1 | 2 << 16, 0, 0, 0, 0], ..submissions };
    assert_eq!(bench.administer(completions).status, Status::SUCCESS);
    assert_eq!(bench.administer(to_second).status, Status::SUCCESS);
    let (first, second) = (bench.io, pair(2, 5 * PAGE, last_page));
    for pair in [first, second] {
        bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        let NextCommand::Io(command) = bench.controller.next_command(pair.number, &mut bench.machine) else {
            panic!("a command")
        };
        let set = bench.controller.set_of_submission_queue(pair.number);
        set.complete(&command, Ok(()), &mut bench.machine);
    }
    bench.machine.memory.truncate(MEMORY - PAGE as usize);
    bench.controller.set_of_submission_queue(1).write_batched_completions(&mut bench.machine);
    let mut reader = first;
    assert_eq!(bench.reap(&mut reader).map(|entry| entry.status), Some(Status::SUCCESS));
    bench.step();
    assert_eq!(bench.get(0x1c) & 2, 2, "Controller Fatal Status");
}

#[test]
fn uncompleted_commands_occupy_no_queue_slot() {
    let mut bench = Bench::new();
    let mut pair = bench.io;
    for _ in 0..3 * ENTRIES {
        pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
        let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else {
            panic!("a command")
        };
        bench.controller.set_of_submission_queue(1).drop_without_completion(&command);
    }
}

/// Lets the next commands of the I/O queue hang, as a fault does: they are fetched, and get no completion.
fn hang_next_commands(bench: &mut Bench, commands: &[Fields]) {
    for fields in commands {
        bench.io = bench.submit(bench.io, *fields);
        let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else {
            panic!("a command")
        };
        bench.controller.set_of_submission_queue(1).drop_without_completion(&command);
    }
}

#[test]
fn abort_completes_only_its_hung_command() {
    let mut bench = Bench::new();
    let read = |id| Fields { id, ..transfer(opcode::READ, 0, 1, [DATA, 0]) };
    let abort =
        |queue: u32, id: u32| Fields { opcode: admin::ABORT, dwords: [queue | id << 16, 0, 0, 0, 0, 0], ..read(0) };
    hang_next_commands(&mut bench, &[read(5), read(6)]);
    assert_eq!(bench.administer(abort(1, 7)).result, 1, "no such command");
    assert_eq!(bench.administer(abort(2, 5)).result, 1, "another queue");
    assert_eq!(bench.administer(abort(1, 5)).result, 0);
    let mut pair = bench.io;
    let aborted = bench.reap(&mut pair).expect("a completion");
    assert_eq!((aborted.command_id, aborted.status), (5, Status::ABORT_REQUESTED));
    assert!(bench.reap(&mut pair).is_none());
    bench.io = pair;
    assert_eq!(bench.administer(abort(1, 5)).result, 1, "it has ended");
    // A new queue must not contain commands of the deleted one.
    let delete = Fields { opcode: admin::DELETE_SUBMISSION_QUEUE, dwords: [1, 0, 0, 0, 0, 0], ..Fields::default() };
    assert_eq!(bench.administer(delete).status, Status::SUCCESS);
    assert_eq!(bench.administer(create_submission_queue(1, ENTRIES)).status, Status::SUCCESS);
    assert_eq!(bench.administer(abort(1, 6)).result, 1);
}

#[test]
fn cancel_completes_hung_commands_of_its_queue() {
    let mut bench = Bench::new();
    let read = |id| Fields { id, ..transfer(opcode::READ, 0, 1, [DATA, 0]) };
    let cancel = |id: u32, dword11, namespace| Fields {
        opcode: opcode::CANCEL,
        id: 99,
        namespace,
        dwords: [1 | id << 16, dword11, 0, 0, 0, 0],
        ..Fields::default()
    };
    hang_next_commands(&mut bench, &[read(5), read(6), read(7), read(8)]);
    for (fields, status) in [
        (cancel(99, 0, 1), INVALID_COMMAND_ID),
        (cancel(5, 1, 1), Status::INVALID_FIELD),
        (cancel(5, 2, 1), Status::INVALID_FIELD),
        (cancel(5, 0, 2), Status::INVALID_NAMESPACE),
        (Fields { dwords: [2 | 5 << 16, 0, 0, 0, 0, 0], ..cancel(5, 0, 1) }, Status::INVALID_FIELD),
    ] {
        assert_eq!(bench.ask(fields).status, status, "{:x?}", fields.dwords);
    }
    let unknown = bench.ask(cancel(4, 0, 1));
    assert_eq!((unknown.status, unknown.result), (Status::SUCCESS, 0), "no such command");
    for (fields, ended) in
        [(cancel(6, 0, 1), &[6][..]), (cancel(5, 0, u32::MAX), &[5]), (cancel(0xffff, 1, 1), &[7, 8])]
    {
        bench.io = bench.submit(bench.io, fields);
        bench.step();
        let mut pair = bench.io;
        for id in ended {
            let aborted = bench.reap(&mut pair).expect("a completion of an aborted command");
            assert_eq!((aborted.command_id, aborted.status), (*id, Status::ABORT_REQUESTED));
        }
        let done = bench.reap(&mut pair).expect("the completion of the Cancel");
        assert_eq!((done.command_id, done.status, done.result), (99, Status::SUCCESS, ended.len() as u64));
        bench.io = pair;
    }
    assert_eq!(bench.ask(cancel(0xffff, 1, u32::MAX)).result, 0);
}

#[test]
fn cancel_aborts_no_command_of_other_namespaces() {
    let mut bench = Bench::with(LIMITS.divided(2));
    let read = |id, namespace| Fields { id, namespace, ..transfer(opcode::READ, 0, 1, [DATA, 0]) };
    hang_next_commands(&mut bench, &[read(5, 1), read(6, 2)]);
    let cancel = |id: u32, code, namespace| {
        let dwords = [1 | id << 16, code, 0, 0, 0, 0];
        Fields { opcode: opcode::CANCEL, id: 99, namespace, dwords, ..Fields::default() }
    };
    assert_eq!(bench.ask(cancel(5, 0, 2)).status, Status::INVALID_FIELD);
    bench.io = bench.submit(bench.io, cancel(0xffff, 1, 2));
    bench.step();
    let mut pair = bench.io;
    let [aborted, done] = [0; 2].map(|_| bench.reap(&mut pair).expect("a completion"));
    assert_eq!((aborted.command_id, done.command_id, done.result), (6, 99, 1));
}

/// A host that polls the oldest entry must find a whole batch there, and not take the cache line away after each entry.
#[test]
fn completions_of_a_batch_are_written_at_once() {
    let mut bench = Bench::new();
    let (mut pair, mut reader) = (bench.io, bench.io);
    for _ in 0..3 {
        pair = bench.submit(pair, transfer(opcode::READ, 0, 1, [DATA, 0]));
    }
    for _ in 0..3 {
        let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else {
            panic!("a command")
        };
        let set = bench.controller.set_of_submission_queue(1);
        let done = set.perform(&command, &mut bench.machine, &bench.store, &mut bench.space);
        assert_eq!(set.complete(&command, done, &mut bench.machine), CommandProgress::Completed(Status::SUCCESS));
        set.recycle(command);
        assert!(bench.reap(&mut reader).is_none());
    }
    bench.controller.set_of_submission_queue(1).write_batched_completions(&mut bench.machine);
    assert_eq!(std::iter::from_fn(|| bench.reap(&mut reader)).count(), 3);
}

#[test]
fn invalid_doorbell_is_reported_once_until_the_log_is_read() {
    let mut bench = Bench::new();
    let wait = Fields { opcode: admin::ASYNC_EVENT_REQUEST, id: 77, ..Fields::default() };
    for _ in 0..5 {
        bench.admin = bench.submit(bench.admin, wait);
    }
    bench.step();
    let mut pair = bench.admin;
    assert_eq!(bench.reap(&mut pair).unwrap().status, Status::ASYNC_EVENT_LIMIT_EXCEEDED);
    assert!(bench.reap(&mut pair).is_none());
    bench.machine.doorbells[1].0 = ENTRIES;
    bench.step();
    bench.machine.doorbells[1].0 = ENTRIES + 1;
    bench.step();
    let told = bench.reap(&mut pair).unwrap();
    // The event is an error: an invalid doorbell value. Log page 1 has the details.
    assert_eq!((told.command_id, told.status, told.result), (77, Status::SUCCESS, 0x0001_0100));
    assert!(bench.reap(&mut pair).is_none());
    bench.admin = pair;
    let log = Fields {
        opcode: admin::GET_LOG_PAGE,
        prp: [DATA, 0],
        dwords: [1 | 15 << 16, 0, 0, 0, 0, 0],
        ..Fields::default()
    };
    bench.admin = bench.submit(bench.admin, log);
    bench.step();
    let mut pair = bench.admin;
    assert_eq!(bench.reap(&mut pair).unwrap().command_id, 0);
    assert_eq!(bench.reap(&mut pair).unwrap().command_id, 77);
    bench.admin = pair;
    // The queue continues at the entry that it had reached.
    bench.machine.doorbells[1].0 = 0;
    assert_eq!(bench.ask(transfer(opcode::READ, 0, 1, [DATA, 0])).status, Status::SUCCESS);
    // Aborting the event request completes it with a status.
    let abort = Fields { opcode: admin::ABORT, id: 9, dwords: [77 << 16, 0, 0, 0, 0, 0], ..Fields::default() };
    bench.admin = bench.submit(bench.admin, abort);
    bench.step();
    let mut pair = bench.admin;
    let (first, second) = (bench.reap(&mut pair).unwrap(), bench.reap(&mut pair).unwrap());
    assert_eq!((first.command_id, first.status), (77, Status::ABORT_REQUESTED));
    assert_eq!((second.command_id, second.result), (9, 0));
}

#[test]
fn completion_between_commands_raises_an_interrupt() {
    let mut bench = Bench::new();
    let wait = Fields { opcode: admin::ASYNC_EVENT_REQUEST, ..Fields::default() };
    bench.admin = bench.submit(bench.admin, wait);
    // With more completions than the queue can hold, the last one is held back.
    for place in 0..ENTRIES {
        let at = (QUEUE + u64::from(place) * 64) as usize;
        bench.machine.memory[at..at + 64].copy_from_slice(&transfer(opcode::READ, 0, 1, [DATA, 0]).bytes());
    }
    bench.machine.doorbells[1].0 = ENTRIES - 1;
    let mut commands = Vec::new();
    for _ in 0..ENTRIES - 1 {
        let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else {
            panic!("a command")
        };
        commands.push(command);
    }
    bench.machine.doorbells[1].0 = 0;
    let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else { panic!("a command") };
    commands.push(command);
    for command in &commands {
        bench.execute(command);
    }
    bench.step();
    bench.machine.interrupts.clear();
    bench.machine.doorbells[1].1 = 4;
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1]);
    bench.machine.registers.invalid_doorbell = true;
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1, 0]);
    bench.controller.update(&mut bench.machine, &bench.store);
    assert_eq!(bench.machine.interrupts, [1, 0]);
}

#[test]
fn shadow_doorbells_are_polled_and_doorbells_requested_before_sleep() {
    let mut bench = Bench::new();
    let (shadow, events) = (LISTS, LISTS + PAGE);
    let share = Fields { opcode: admin::DOORBELL_BUFFER_CONFIG, prp: [shadow, events], ..Fields::default() };
    assert_eq!(bench.administer(Fields { prp: [shadow + 4, events], ..share }).status, Status::INVALID_PRP_OFFSET);
    assert_eq!(bench.administer(Fields { prp: [1 << 40, events], ..share }).status, Status::INVALID_FIELD);
    assert_eq!(bench.administer(share).status, Status::SUCCESS);
    let mut pair = bench.submit(bench.io, transfer(opcode::READ, 0, 1, [DATA, 0]));
    bench.step();
    assert!(bench.reap(&mut pair.clone()).is_none(), "the register no longer counts");
    bench.machine.memory[shadow as usize + 8] = 1;
    assert!(bench.controller.request_doorbells(&mut bench.machine));
    bench.step();
    assert_eq!(bench.reap(&mut pair).unwrap().status, Status::SUCCESS);
    assert!(!bench.controller.request_doorbells(&mut bench.machine));
    assert_eq!(bench.machine.word(events + 8), 1);
}

#[test]
fn commands_before_a_reset_complete_for_nobody_after_it() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..512].fill(9);
    bench.io = bench.submit(bench.io, transfer(opcode::READ, 0, 1, [DATA, 0]));
    let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else { panic!("a command") };
    bench.set(0x14, 0);
    bench.enable();
    let status = bench.execute(&command);
    assert_eq!((status, bench.machine.memory[DATA as usize]), (Status::ABORT_REQUESTED, 9));
}

#[test]
fn durable_write_completes_with_the_disks_result() {
    let flush = Fields { opcode: opcode::FLUSH, namespace: 1, ..Fields::default() };
    let write = transfer(opcode::WRITE, 0, 1, [DATA, 0]);
    let forced = Fields { dwords: [0, 0, 1 << 30, 0, 0, 0], ..write };
    for (fields, loss) in [(flush, Status::INTERNAL_ERROR), (forced, Status::WRITE_FAULT)] {
        for (flushed, expected) in [(Ok(()), Status::SUCCESS), (Err(io::ErrorKind::Other.into()), loss)] {
            let mut bench = Bench::new();
            let mut pair = bench.submit(bench.io, fields);
            let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else {
                panic!("a command")
            };
            let executed = bench.controller.execute(&command, &mut bench.machine, &bench.store, &mut bench.space);
            assert_eq!((executed, bench.reap(&mut pair)), (CommandProgress::NeedsFlush, None));
            assert_eq!(bench.controller.complete_flushed(&command, flushed, &mut bench.machine), expected);
            assert_eq!(bench.reap(&mut pair).expect("an answer").status, expected);
        }
    }
    let mut bench = Bench::new();
    bench.io = bench.submit(bench.io, write);
    let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else { panic!("a command") };
    assert_eq!(bench.execute(&command), Status::SUCCESS);
    bench.io = bench.submit(bench.io, flush);
    let NextCommand::Io(command) = bench.controller.next_command(1, &mut bench.machine) else { panic!("a command") };
    bench.set(0x14, 0);
    bench.enable();
    assert_eq!(bench.controller.complete_flushed(&command, Ok(()), &mut bench.machine), Status::ABORT_REQUESTED);
}

#[test]
fn shutdown_is_reported_and_invalid_configuration_is_fatal() {
    let mut bench = Bench::new();
    bench.set(0x14, 1 | 6 << 16 | 4 << 20 | 1 << 14);
    assert_eq!(bench.get(0x1c), 0b1001);
    bench.set(0x14, 0);
    assert_eq!(bench.get(0x1c), 0);
    bench.set(0x14, 1 | 3 << 7);
    assert_eq!(bench.get(0x1c), 0b10);
}

/// Base Specification 2.0, sections 3.1.3.5, 3.4.4.2, 5.5 and 5.27.1.1.
#[test]
fn weighted_arbitration_serves_queues_by_class() {
    let mut bench = Bench::off();
    assert_eq!(bench.get(0) >> 17 & 0b11, 0b01, "CAP.AMS");
    let enable = |bench: &mut Bench, arbitration: u32| {
        bench.set(0x14, 0);
        bench.set(0x24, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        bench.set(0x28, ADMIN_QUEUE as u32);
        bench.set(0x30, ADMIN_ANSWERS as u32);
        bench.set(0x14, 1 | arbitration << 11 | 6 << 16 | 4 << 20);
        bench.get(0x1c)
    };
    assert_eq!([2, 7, 1].map(|arbitration| enable(&mut bench, arbitration)), [2, 2, 1], "fatal, fatal, ready");
    // Arbitration burst of two commands, and weights of 3, 2 and 1 commands.
    let dwords = [1, 2 << 24 | 1 << 16 | 1, 0, 0, 0, 0];
    assert_eq!(
        bench.administer(Fields { opcode: admin::SET_FEATURES, dwords, ..Fields::default() }).status,
        Status::SUCCESS
    );
    for (queue, class) in [(1, 3), (2, 1), (3, 1), (4, 0)] {
        let at = ANSWERS + PAGE + u64::from(queue) * PAGE;
        let completion = Fields { prp: [at, 0], ..create_completion_queue(queue, ENTRIES) };
        assert_eq!(bench.administer(completion).status, Status::SUCCESS);
        let mut submission = create_submission_queue(queue, ENTRIES);
        submission.dwords[1] = queue << 16 | class << 1 | 1;
        assert_eq!(bench.administer(Fields { prp: [QUEUE, 0], ..submission }).status, Status::SUCCESS);
    }
    let mut turn = |class, left, ready: &[u16]| {
        (1..=4).for_each(|queue| bench.machine.doorbells[usize::from(queue)].0 = ready.contains(&queue).into());
        bench.controller.queue_sets()[0].take_turn(class, left, &mut bench.machine)
    };
    assert_eq!(turn(QueuePriorityClass::Urgent, u32::MAX, &[]), None);
    assert_eq!(turn(QueuePriorityClass::Medium, 2, &[1, 2, 3, 4]), None);
    assert_eq!(turn(QueuePriorityClass::High, 3, &[1, 2, 3, 4]), Some((2, 2)));
    assert_eq!(turn(QueuePriorityClass::High, 1, &[1, 2, 3, 4]), Some((3, 1)));
    assert_eq!(turn(QueuePriorityClass::Low, 1, &[1, 2, 3, 4]), Some((1, 1)));
    assert_eq!(turn(QueuePriorityClass::Urgent, u32::MAX, &[1, 2, 3, 4]), Some((4, 2)));
}

#[test]
fn lost_queue_memory_is_fatal_until_a_reset() {
    let mut bench = Bench::new();
    let memory = std::mem::replace(&mut bench.machine.memory, vec![0; 64]);
    bench.machine.doorbells[1].0 = 1;
    bench.step();
    assert_eq!(bench.get(0x1c) & 2, 2);
    bench.machine.memory = memory;
    bench.set(0x14, 0);
    bench.enable();
    assert_eq!(bench.identify(1, 0).0, Status::SUCCESS);
}

/// Where the tests below have the queues of a number: pages that nothing else is in.
fn submission_queue_address(queue: u64) -> u64 {
    (16 + queue) * PAGE
}

fn answers_of(queue: u64) -> u64 {
    (32 + queue) * PAGE
}

/// One step of a host that creates, uses and deletes queues as it likes.
fn random_host_step(bench: &mut Bench, kind: u8, [queue, other, noise]: [u8; 3]) {
    let (number, answers) = (u32::from(queue), u32::from(other));
    let size = (ENTRIES - 1) << 16;
    let fields = |opcode, prp, dwords| Fields { opcode, prp: [prp, 0], dwords, ..Fields::default() };
    let administer = |bench: &mut Bench, fields| bench.admin = bench.submit(bench.admin, fields);
    match kind {
        0 => {
            let dwords = [number | size, 0b11 | number << 16, 0, 0, 0, 0];
            administer(bench, fields(admin::CREATE_COMPLETION_QUEUE, answers_of(queue.into()), dwords));
        }
        1 => {
            let dwords = [number | size, 1 | answers << 16, 0, 0, 0, 0];
            administer(bench, fields(admin::CREATE_SUBMISSION_QUEUE, submission_queue_address(queue.into()), dwords));
        }
        2 => administer(bench, fields(admin::DELETE_SUBMISSION_QUEUE, 0, [number, 0, 0, 0, 0, 0])),
        3 => administer(bench, fields(admin::DELETE_COMPLETION_QUEUE, 0, [number, 0, 0, 0, 0, 0])),
        // Leave the admin queue's head alone, so that its driver stays in step.
        4.. if queue == 0 => {}
        4 => bench.machine.doorbells[usize::from(queue)].1 = u32::from(noise) % (ENTRIES + 1),
        5 if noise < 16 => {
            bench.set(0x14, 0);
            bench.enable();
        }
        _ => {
            // Submit a command, or write any tail.
            let tail = bench.machine.doorbells[usize::from(queue)].0;
            let opcode = if noise % 2 == 0 { opcode::READ } else { opcode::WRITE };
            let at = (submission_queue_address(queue.into()) + u64::from(tail % ENTRIES) * 64) as usize;
            let command =
                Fields { id: noise.into(), ..transfer(opcode, other.into(), 1, [DATA + PAGE * u64::from(queue), 0]) };
            bench.machine.memory[at..at + 64].copy_from_slice(&command.bytes());
            let next = if noise % 32 == 31 { u32::from(noise) } else { (tail + 1) % ENTRIES };
            bench.machine.doorbells[usize::from(queue)].0 = next;
        }
    }
    bench.step();
    // The host consumes the admin completions, so that this queue never fills up.
    let mut pair = bench.admin;
    while bench.reap(&mut pair).is_some() {}
    bench.admin = pair;
    bench.step();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a host does, it cannot tell how its queues are divided.
    #[test]
    fn division_of_queues_is_invisible_to_the_host(
        sets in 2_usize..5,
        steps in prop::collection::vec((0_u8..12, (0_u8..6, 0_u8..6, any::<u8>())), 1..200)
    ) {
        let mut benches = [Bench::divided(1), Bench::divided(sets)];
        for (kind, numbers) in steps {
            benches.iter_mut().for_each(|bench| random_host_step(bench, kind, numbers.into()));
            let [one, other] = &mut benches;
            one.machine.interrupts.sort_unstable();
            other.machine.interrupts.sort_unstable();
            prop_assert_eq!(&one.machine.interrupts, &other.machine.interrupts);
            prop_assert_eq!(&one.machine.registers, &other.machine.registers);
            prop_assert!(one.machine.memory == other.machine.memory, "after {} {:?}", kind, numbers);
        }
        // The health log counts the commands of all queue sets.
        let dwords = [2 | 127 << 16, 0, 0, 0, 0, 0];
        let health = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], dwords, ..Fields::default() };
        let [one, other] = &mut benches;
        prop_assert_eq!(one.administer(health).status, other.administer(health).status);
        prop_assert!(one.machine.memory == other.machine.memory);
    }

    /// Whatever a host writes: an answer or none, and never a panic.
    #[test]
    fn random_commands_and_registers_cause_no_panic(
        steps in prop::collection::vec((0_u8..6, any::<[u8; 32]>(), any::<u32>(), 0_u64..0x80), 1..60)
    ) {
        let mut bench = Bench::new();
        for (kind, noise, value, register) in steps {
            let mut bytes = [0; 64];
            bytes[..32].copy_from_slice(&noise);
            bytes[32..].copy_from_slice(&noise);
            match kind {
                0 => bench.machine.registers.write(register, &value.to_le_bytes()),
                1 => bench.machine.doorbells[value as usize % 3] = (value % 20, value >> 8 & 31),
                2 => bench.machine.memory[register as usize * 512..][..32].copy_from_slice(&noise),
                _ => {
                    // Draw mostly existing opcodes, with field values near the valid range.
                    bytes[0] %= 16;
                    bytes[1] &= 0x3c;
                    bytes[4..8].copy_from_slice(&(value % 3).to_le_bytes());
                    for at in [27, 35, 28, 36, 29, 30, 31, 37, 38, 39, 26, 34, 44, 45, 46, 47] {
                        bytes[at] = if at == 26 || at == 34 { bytes[at] & 15 } else { 0 };
                    }
                    let queue = u16::from(kind == 3);
                    if let NextCommand::Io(command) = bench.controller.accept(queue, 2, &bytes, &mut bench.machine) {
                        bench.execute(&command);
                    }
                }
            }
            bench.step();
        }
    }
}
