//! Outcome of a run, and properties of its drive, with round numbers, for tests.

use super::Facts;
use phaselink_core::config::UncertaintyCause;
use phaselink_core::ledger::stage::Ledger;
use phaselink_core::ledger::{
    CpuUse, DirectionOutcome, Energy, JobOutcome, Latency, Outcome, Stage, StageTimes, WireUse,
};
use phaselink_core::time::{Span, Time};

/// Returns an outcome of reads of 512 bytes with these latencies, of which 1000 ns each are in the software stack and
/// the rest is waiting for a poll.
pub(super) fn reads(latencies_ns: &[u64]) -> DirectionOutcome {
    let (mut total, mut stages) = (Latency::default(), StageTimes::default());
    for latency in latencies_ns.iter().copied().map(Span::from_ns) {
        let mut ledger = Ledger::default();
        ledger.open(Time::ZERO);
        ledger.spend(Stage::stack(0), Span::from_ns(1000));
        ledger.spend(Stage::PollWait, latency - Span::from_ns(1000));
        stages.add(ledger.close(Time::ZERO + latency));
        total.record(latency);
    }
    let ios = latencies_ns.len() as u64;
    let runtime = Span::from_ns(latencies_ns.iter().sum());
    DirectionOutcome { ios, bytes: 512 * ios, runtime, total, stages, ..DirectionOutcome::default() }
}

/// Returns the outcome of a run with two reads, one after the other, of 1000 and 3000 ns.
pub(super) fn outcome() -> Outcome {
    outcome_of(&[1000, 3000])
}

/// Returns the outcome of a run with reads of 512 bytes, one after the other, that take `latencies_ns`.
pub(super) fn outcome_of(latencies_ns: &[u64]) -> Outcome {
    let read = reads(latencies_ns);
    let elapsed = read.runtime;
    let wire = |data_bytes| WireUse { bytes_per_ns: 2.0, data_bytes, busy: elapsed / 4, ..WireUse::default() };
    Outcome {
        drive: String::from("sample"),
        seed: 1,
        elapsed,
        upstream: wire(read.bytes),
        downstream: wire(0),
        counters: vec![("queue_reads", 2 * read.ios)],
        jobs: vec![JobOutcome { read, ..JobOutcome::default() }],
        cpu: CpuUse { cores: 1, spinning: elapsed / 2, ..CpuUse::default() },
        energy: Some(Energy { server_w: 100.0, idle_w: 80.0 }),
        stack_stages: vec![String::from("read() call")],
        finished: true,
        ..Outcome::default()
    }
}

/// Returns properties of a drive with a few keys and two uncertain constants.
pub(super) fn facts() -> Facts {
    Facts {
        doubts: vec![
            (UncertaintyCause::Fitted, String::from("link.one_way_ns")),
            (UncertaintyCause::Assumed, String::from("media.read_ns")),
        ],
        description: serde_json::json!({
            "media": { "read_ns": 110 },
            "link": { "one_way_ns": 240.0 },
            "dc_express": { "predict": true },
            "stack": { "stages": [{ "name": "read() call" }, { "name": "system call (submit)" }] },
        }),
    }
}
