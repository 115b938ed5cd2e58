//! A made-up outcome and made-up traces that the tests of the writers share.

use crate::ledger::stage::Ledger;
use crate::ledger::{
    CpuUse, DirectionOutcome, Energy, JobOutcome, MeasuredState, Outcome, Record, Stage, StageTimes, Step, Trace,
    WireUse,
};
use crate::time::{Span, Time};

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
        parts: Vec::new(),
        memory_j: Some(2e-5),
        stack_stages: vec!["system call".to_string(), "block layer".to_string()],
        counters: vec![("queue reads", 12_345), ("tag collisions", 0)],
        events: 54_321,
        trouble: Vec::new(),
        measured: MeasuredState::Only,
        finished: true,
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

pub(crate) fn record(request: Option<u64>, from_ps: u64, to_ps: u64, step: Step) -> Record {
    Record { request, from: Time::from_ps(from_ps), to: Time::from_ps(to_ps), step, memory: None }
}

pub(crate) fn up(what: &'static str, packets: u32, wire_bytes: u32) -> Step {
    Step::Up { what: what.into(), packets, wire_bytes }
}

pub(crate) fn down(what: &'static str, packets: u32, wire_bytes: u32) -> Step {
    Step::Down { what: what.into(), packets, wire_bytes }
}

pub(crate) fn trace_of(records: Vec<Record>) -> Trace {
    let mut trace = Trace::new(records.len());
    records.into_iter().for_each(|record| trace.push(record));
    trace
}

/// A read of 512 B as Figure 1b draws it: queue reads without end, one of which finds a command.
pub(crate) fn dc_express_read() -> Trace {
    trace_of(vec![
        record(None, 0, 252_000, up("queue read", 1, 24)),
        record(Some(7), 200_000, 260_000, Step::Host("enq and mark".into())),
        record(None, 252_000, 552_000, down("empty answer", 1, 88)),
        record(Some(7), 300_000, 552_000, up("queue read", 1, 24)),
        record(Some(7), 552_000, 852_500, down("command", 1, 88)),
        record(None, 612_000, 864_000, up("queue read", 1, 24)),
        record(Some(7), 852_500, 884_500, Step::Device("parse".into())),
        record(None, 864_000, 1_164_000, down("empty answer", 1, 88)),
        record(Some(7), 884_500, 994_500, Step::Media("PCM read".into())),
        record(Some(7), 994_500, 1_450_500, up("data", 4, 608)),
        record(Some(7), 1_450_500, 1_460_100, Step::Host("check tags".into())),
    ])
}
