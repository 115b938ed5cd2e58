//! JSON document of `phaselink trace-info`, which describes a block trace.

use phaselink_core::number::real;
use phaselink_core::workload::trace::{BLOCK_BYTES, TraceStatistics};
use phaselink_studies::results::documents::{
    LeftOutRecords, OpName, SizePercentile, SizedRequests, TraceDevice, TraceFootprint, TraceInfoDocument,
    TraceQueueDepth, value,
};
use serde_json::Value;

use super::advice::Advice;
use crate::output;

/// Returns the JSON document of `phaselink trace-info`.
pub(super) fn document(path: &str, info: &TraceStatistics, advice: &Advice) -> Value {
    let seconds = info.span.as_s();
    let requests = info.summary.count;
    let of = |part: u64| real(part) / real(requests.max(1));
    let percentile = |percent| SizePercentile { percent, bytes: info.size_percentile(percent) };
    let depth = info.depth.map(|depth| TraceQueueDepth {
        mean: depth.mean,
        most: depth.most,
        response_ns: depth.response.as_ns(),
    });
    let device = |(name, requests): &(String, u64)| TraceDevice { name: name.clone(), requests: *requests };
    let left_out = |(kind, records): &(&str, u64)| LeftOutRecords { kind: String::from(*kind), records: *records };
    let body = TraceInfoDocument {
        file: String::from(path),
        format: info.format.word().into(),
        devices: info.devices.iter().map(device).collect(),
        device: info.device.clone(),
        requests,
        read_share: of(info.reads()),
        read_bytes: info.read_bytes,
        written_bytes: info.written_bytes,
        seconds,
        requests_per_s: (seconds > 0.0).then(|| real(requests) / seconds),
        busiest_second_requests: info.busiest_second,
        sizes: sizes(info),
        size_percentiles: [50, 90, 99, 100].map(percentile).into(),
        granule_bytes: info.summary.granule_bytes,
        aligned_4k_share: of(info.aligned),
        sequential_share: of(info.sequential),
        end_bytes: info.summary.end_bytes,
        footprint: footprint(info),
        queue_depth: depth,
        left_out: info.left_out.iter().map(left_out).collect(),
        command: advice.command.clone(),
        notes: advice.notes.clone(),
    };
    output::headed("trace-info", value(&body))
}

fn sizes(info: &TraceStatistics) -> Vec<SizedRequests> {
    let size = |(&(writes, bytes), &requests): (&(bool, u32), &u64)| SizedRequests {
        op: if writes { OpName::Write } else { OpName::Read },
        bytes,
        requests,
    };
    info.summary.sizes.iter().map(size).collect()
}

fn footprint(info: &TraceStatistics) -> TraceFootprint {
    let it = &info.footprint;
    TraceFootprint {
        is_exact: it.is_exact,
        bytes: it.blocks * BLOCK_BYTES,
        read_bytes: it.read_blocks * BLOCK_BYTES,
        written_bytes: it.written_blocks * BLOCK_BYTES,
        accesses_per_block: it.accesses_mean,
        once_share: it.once_share,
        busiest_tenth_share: it.busiest_tenth_share,
    }
}
