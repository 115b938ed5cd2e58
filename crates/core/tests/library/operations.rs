//! Operations beside reads and writes: which drives have them, what they cost, and what they leave behind.

use crate::common::{counter, drive};
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::Outcome;
use phaselink_core::protocol::real_hosts::{HostCommand, HostCommandForm};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

const MIB: u32 = 1 << 20;

fn io(op: Op, offset: u64, bytes: u32) -> Io {
    Io { op, offset, bytes }
}

/// Outcome of requests that a client makes one after the other.
fn outcome(drive: &Drive, mut engine: Engine, requests: &[Io]) -> Outcome {
    let thread = engine.add_client(1);
    for (token, io) in (0..).zip(requests) {
        engine.inject(engine.now(), Input::Request { thread, io: *io, token });
        engine.run_until(engine.now() + Span::from_ms(20));
        assert_eq!(engine.take_completed().map(|done| done.token), Some(token), "{io:?}");
    }
    assert_eq!(engine.data_problems(), [""; 0]);
    engine.outcome(drive, 1)
}

#[test]
fn drives_have_the_operations_of_their_protocol() {
    for (name, flushes) in [("tlc-gen4", true), ("nvme", true), ("dc-express", false), ("moneta", false)] {
        let drive = drive(name, &[]);
        for op in [Op::Flush, Op::Discard, Op::WriteZeroes] {
            assert_eq!(drive.check_supports_operation(op).is_ok(), flushes, "{name} {op:?}");
        }
        assert!(drive.check_supports_operation(Op::Read).is_ok() && drive.check_supports_operation(Op::Write).is_ok());
    }
    let problem = drive("moneta", &[]).check_supports_operation(Op::Discard).unwrap_err().to_string();
    assert!(problem.contains("a discard to drive `moneta`") && problem.contains("read, write"), "{problem}");
}

#[test]
#[should_panic(expected = "has no command for a discard")]
fn unsupported_operation_cannot_be_injected() {
    let drive = drive("moneta", &[]);
    outcome(&drive, Engine::new(&drive, 1), &[io(Op::Discard, 0, 4096)]);
}

#[test]
fn discard_and_write_zeroes_are_one_command_without_data() {
    let drive = drive("tlc-gen4", &[]);
    let before = outcome(&drive, Engine::new(&drive, 1), &[io(Op::Write, 0, 4096)]);
    let requests = [io(Op::Write, 0, 4096), io(Op::Discard, 0, 64 * MIB), io(Op::WriteZeroes, 0, MIB), Io::flush()];
    let after = outcome(&drive, Engine::new(&drive, 1), &requests);
    assert_eq!(counter(&after, "commands"), counter(&before, "commands") + 3);
    assert_eq!(after.downstream.data_bytes, before.downstream.data_bytes);
    let job = &after.jobs[0];
    assert_eq!((job.discard.ios, job.write.ios, job.flush.ios, job.zeroes.ios), (1, 1, 1, 1));
    let (zeroes, discard) = (job.zeroes.total.max(), job.discard.total.max());
    assert!(zeroes > discard && discard > drive.nvme.parse, "{zeroes} {discard}");
}

#[test]
fn written_zeroes_read_back_and_discard_keeps_data() {
    for name in ["tlc-gen4", "nvme"] {
        let drive = drive(name, &[]);
        let requests = [
            io(Op::Write, 0, 8192),
            io(Op::WriteZeroes, 4096, 8192),
            io(Op::Read, 0, 16384),
            io(Op::Write, 8192, 512),
            io(Op::Discard, 0, 4096),
            io(Op::Read, 0, 16384),
        ];
        let outcome = outcome(&drive, Engine::with_data(&drive, 1), &requests);
        assert_eq!((counter(&outcome, "verified_reads"), counter(&outcome, "data_errors")), (2, 0), "{name}");
    }
}

#[test]
fn injected_flush_waits_for_acknowledged_writes() {
    let drive = drive("tlc-gen4", &[]);
    let mut engine = Engine::new(&drive, 1);
    let thread = engine.add_client(1);
    let mut ask = |at: Time, io, token| {
        engine.inject(at, Input::Request { thread, io, token });
        while engine.take_completed().is_none() {
            engine.run_until(engine.next_at().expect("a request is in flight"));
        }
        engine.now()
    };
    let written = ask(Time::ZERO, io(Op::Write, 0, 4096), 1);
    let flushed = ask(written, Io::flush(), 2);
    assert!(flushed.since(written) > drive.media.program, "{}", flushed.since(written));
    let idle = ask(flushed, Io::flush(), 3);
    assert!(idle.since(flushed) < drive.media.program);
}

#[test]
fn flush_of_one_caller_delays_no_read_of_another() {
    let mut engine = Engine::new(&drive("tlc-gen4", &[]), 1);
    let thread = engine.add_client(8);
    let mut inject = |ms: u64, io, token| {
        engine.inject(Time::ZERO + Span::from_ms(ms), Input::Request { thread, io, token });
    };
    inject(0, io(Op::Write, 0, 4096), 0);
    inject(1, Io::flush(), 1);
    inject(1, io(Op::Read, 512 * u64::from(MIB), 4096), 2);
    engine.run_until(Time::ZERO + Span::from_ms(20));
    let done: Vec<u32> = std::iter::from_fn(|| engine.take_completed()).map(|done| done.token).collect();
    assert_eq!(done, [0, 2, 1]);
}

/// Command of a real host: its operation for the counters, its opcode, its dwords from 10 on, and the list at the
/// address of its data.
type LoneHostCommand<'a> = (Op, u8, [u32; 3], &'a [u8]);

/// Latencies of commands of a real host, each of which is alone in the drive.
fn lone_host_command_latencies(drive: &Drive, commands: &[LoneHostCommand]) -> Vec<Span> {
    let mut engine = Engine::for_real_host_drivers(drive, 1).unwrap();
    assert!(engine.begin_queue(0, 64, true));
    let mut latency = |(number, (op, opcode, dwords, list)): (u32, &LoneHostCommand)| {
        let at = Time::ZERO + Span::from_ms(20) * u64::from(number);
        let mut entry = [0; 64];
        (entry[0], entry[4]) = (*opcode, 1);
        entry[24..32].copy_from_slice(&0x10_0000u64.to_le_bytes());
        entry[40..52].copy_from_slice(dwords.map(u32::to_le_bytes).as_flattened());
        let (io, lists) = (Some(io(*op, 0, 4096)), Some(*list));
        let form = HostCommandForm::Bytes { entry: &entry, lists };
        engine.place(at, HostCommand { queue: 0, form, io, token: 3, delayed: Span::ZERO });
        engine.inject(at, Input::Ring { queue: 0 });
        engine.run_until(at + Span::from_ms(20));
        engine.take_completed().expect("20 ms are enough").at.since(at)
    };
    (0..).zip(commands).map(&mut latency).collect()
}

/// Latency of a lone command of a real host that writes 4 KiB, with these bits in dword 12.
fn write_of_a_real_host(drive: &Drive, opcode: u8, dword_12: u32) -> Span {
    let blocks = 4096 / drive.nvme.block_bytes;
    lone_host_command_latencies(drive, &[(Op::Write, opcode, [0, 0, dword_12 | (blocks - 1)], &[])])[0]
}

#[test]
fn blocks_of_a_dataset_hint_are_still_read_from_cells() {
    const READ: u8 = 2;
    const DATASET_MANAGEMENT: u8 = 9;
    let drive = drive("tlc-gen4", &[]);
    let blocks = 4096 / drive.nvme.block_bytes;
    let range = [0, blocks, 0, 0].map(u32::to_le_bytes);
    let read_after = |attributes: u32| {
        let named = (Op::Discard, DATASET_MANAGEMENT, [0, attributes, 0], range.as_flattened());
        lone_host_command_latencies(&drive, &[named, (Op::Read, READ, [0, 0, blocks - 1], &[])])[1]
    };
    // Bits 0 and 1 say that the ranges are read or written as a whole; bit 2 (AD) deallocates them.
    for hint in 0..4 {
        assert!(read_after(hint) > drive.media.read, "{hint}: {}", read_after(hint));
    }
    for deallocation in 4..8 {
        assert!(read_after(deallocation) < drive.media.read, "{deallocation}: {}", read_after(deallocation));
    }
}

#[test]
fn host_write_with_fua_waits_until_durable() {
    const FORCE_UNIT_ACCESS: u32 = 1 << 30;
    for (name, opcode) in [("tlc-gen4", 1), ("tlc-gen4", 8), ("tlc-gen5", 1), ("nvme", 1)] {
        let drive = drive(name, &[]);
        let [plain, forced] = [0, FORCE_UNIT_ACCESS].map(|bits| write_of_a_real_host(&drive, opcode, bits));
        match drive.keeps_acknowledged() {
            true => assert_eq!(plain, forced, "{name}"),
            false => assert!(forced > plain + drive.media.program && plain < drive.media.program, "{plain} {forced}"),
        }
    }
}
