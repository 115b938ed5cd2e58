//! Made-up traces, for the tests of traces and of what prints them.

use phaselink_core::ledger::{Record, Step, Trace};
use phaselink_core::time::Time;

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
