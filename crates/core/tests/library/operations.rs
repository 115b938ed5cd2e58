//! Operations beside reads and writes: which drives have them, what they cost, and what they leave behind.

use crate::common::{counter, drive};
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::Outcome;
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
fn drives_have_the_operations_of_their_protocol_and_say_which() {
    for (name, flushes) in [("tlc-gen4", true), ("nvme", true), ("dc-express", false), ("moneta", false)] {
        let drive = drive(name, &[]);
        for op in [Op::Flush, Op::Discard, Op::WriteZeroes] {
            assert_eq!(drive.check_operation(op).is_ok(), flushes, "{name} {op:?}");
        }
        assert!(drive.check_operation(Op::Read).is_ok() && drive.check_operation(Op::Write).is_ok());
    }
    let problem = drive("moneta", &[]).check_operation(Op::Discard).unwrap_err().to_string();
    assert!(problem.contains("a discard to drive `moneta`") && problem.contains("read, write"), "{problem}");
}

#[test]
#[should_panic(expected = "has no command for a discard")]
fn an_operation_that_the_protocol_lacks_cannot_be_injected() {
    let drive = drive("moneta", &[]);
    outcome(&drive, Engine::new(&drive, 1), &[io(Op::Discard, 0, 4096)]);
}

#[test]
fn discards_and_zeroes_of_any_size_are_one_command_and_move_no_data() {
    let drive = drive("tlc-gen4", &[]);
    let before = outcome(&drive, Engine::new(&drive, 1), &[io(Op::Write, 0, 4096)]);
    let requests = [io(Op::Write, 0, 4096), io(Op::Discard, 0, 64 * MIB), io(Op::WriteZeroes, 0, MIB), Io::flush()];
    let after = outcome(&drive, Engine::new(&drive, 1), &requests);
    assert_eq!(counter(&after, "commands"), counter(&before, "commands") + 3);
    assert_eq!(after.downstream.data_bytes, before.downstream.data_bytes);
    let job = &after.jobs[0];
    assert_eq!((job.discard.ios, job.write.ios, job.flush.ios), (1, 2, 1));
    let (zeroes, discard) = (job.write.total.max(), job.discard.total.max());
    assert!(zeroes > discard && discard > drive.nvme.parse, "{zeroes} {discard}");
}

#[test]
fn zeroes_are_read_where_they_were_written_and_a_discard_changes_no_data() {
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
fn a_flush_that_is_injected_waits_for_what_was_acknowledged() {
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
