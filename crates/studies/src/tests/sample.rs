//! Made-up outcome and made-up traces that the tests of the writers share.

use phaselink_core::ledger::stage::Ledger;
use phaselink_core::ledger::{
    CpuUse, DirectionOutcome, Energy, JobOutcome, Outcome, Stage, StageTimes, Step, Trace, WireUse,
};
use phaselink_core::time::{Span, Time};

pub(crate) use super::traces::{dc_express_read, down, record, trace_of, up};

/// 1000 reads of 4 KiB at 5.001 to 6 us and 10 writes at 2 us, in one run of 1 ms.
pub(crate) fn outcome() -> Outcome {
    Outcome {
        drive: "sample <pcm>".to_string(),
        seed: 7,
        elapsed: Span::from_ms(1),
        jobs: vec![JobOutcome {
            name: "rand & mix".to_string(),
            iodepth: 4,
            threads: 2,
            options: vec![("name", "rand & mix".to_string()), ("rw", "randrw".to_string()), ("bs", "4k".to_string())],
            read: reads(),
            write: writes(),
            ..JobOutcome::default()
        }],
        upstream: WireUse {
            bytes_per_ns: 4.0,
            data_bytes: 4_096_000,
            command_bytes: 16_000,
            header_bytes: 700_000,
            dllp_bytes: 60_000,
            packets: 33_000,
            replays: 0,
            busy: Span::from_us(900),
        },
        downstream: WireUse { bytes_per_ns: 4.0, command_bytes: 64_000, busy: Span::from_us(20), ..WireUse::default() },
        cpu: CpuUse {
            cores: 4,
            working: Span::from_us(500),
            spinning: Span::from_us(700),
            switching: Span::from_us(100),
            interrupts: 1010,
            context_switches: 2020,
        },
        energy: Some(Energy { server_w: 101.0, idle_w: 80.0 }),
        memory_j: Some(2e-5),
        stack_stages: vec!["system call".to_string(), "block layer".to_string()],
        counters: vec![("queue reads", 12_345), ("tag collisions", 0)],
        events: 54_321,
        finished: true,
        ..Outcome::default()
    }
}

fn reads() -> DirectionOutcome {
    let mut reads = DirectionOutcome { runtime: Span::from_ms(1), ..DirectionOutcome::default() };
    for n in 1..=1000 {
        add(&mut reads, Span::from_ns(800), Span::from_ns(4200 + n));
    }
    reads
}

fn writes() -> DirectionOutcome {
    let mut writes = DirectionOutcome { runtime: Span::from_ms(1), ..DirectionOutcome::default() };
    (0..10).for_each(|_| add(&mut writes, Span::from_ns(800), Span::from_ns(1200)));
    writes
}

fn add(direction: &mut DirectionOutcome, submission: Span, completion: Span) {
    direction.ios += 1;
    direction.bytes += 4096;
    direction.submission.record(submission);
    direction.completion.record(completion);
    direction.total.record(submission + completion);
    direction.stages.add(&stages(submission, completion));
}

/// A ledger whose stages sum to `submission + completion`.
fn stages(submission: Span, completion: Span) -> StageTimes {
    let mut ledger = Ledger::default();
    ledger.open(Time::ZERO);
    ledger.spend(Stage::stack(0), submission - Span::from_ns(200));
    ledger.spend(Stage::Driver, Span::from_ns(200));
    ledger.spend(Stage::Media, completion - Span::from_ns(1100));
    ledger.spend(Stage::Transfer, Span::from_ns(1100));
    ledger.close(Time::ZERO + submission + completion).clone()
}

/// A read of 4 KiB as Figure 1a of the FAST 2014 paper on DC Express draws it.
pub(crate) fn nvme_read() -> Trace {
    trace_of(vec![
        record(Some(0), 0, 60_000, Step::Host("enq".into())),
        record(Some(0), 60_000, 314_000, down("doorbell", 1, 28)),
        record(Some(0), 314_000, 566_000, up("command read", 1, 24)),
        record(Some(0), 566_000, 866_500, down("command", 1, 88)),
        record(Some(0), 866_500, 898_500, Step::Device("parse".into())),
        record(Some(0), 898_500, 1_008_500, Step::Media("PCM read".into())),
        record(Some(0), 1_008_500, 3_728_500, up("data", 32, 4864)),
        record(Some(0), 3_500_500, 3_760_500, up("completion entry", 1, 40)),
        record(Some(0), 3_520_500, 3_774_500, up("interrupt", 1, 28)),
        record(Some(0), 3_774_500, 4_974_500, Step::Host("interrupt".into())),
        record(Some(0), 4_974_500, 6_074_500, Step::Host("context switch".into())),
        record(Some(0), 6_074_500, 6_074_500, Step::Host("done".into())),
    ])
}
