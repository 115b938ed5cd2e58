//! Made-up outcome and traces that the tests of the writers use. Most are those of the core's tests.

use phaselink_core::ledger::{Step, Trace};

use sample::{down, record, trace_of, up};

#[path = "../../../core/src/tests/sample.rs"]
pub(crate) mod sample;

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
