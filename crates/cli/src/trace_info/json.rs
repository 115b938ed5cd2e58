//! What a trace holds, as a document.

use phaselink_core::workload::trace::{BLOCK_BYTES, Info};
use serde_json::{Value, json};

use super::advice::Advice;
use crate::output;

/// The whole document.
pub(super) fn document(path: &str, info: &Info, advice: &Advice) -> Value {
    let seconds = info.span.as_s();
    let requests = info.summary.count;
    let of = |part: u64| part as f64 / requests.max(1) as f64;
    let percentile = |percent| json!({ "percent": percent, "bytes": info.size_percentile(percent) });
    let percentiles: Vec<Value> = [50, 90, 99, 100].map(percentile).into();
    let device = |(name, requests): &(String, u64)| json!({ "name": name, "requests": requests });
    let devices: Vec<Value> = info.devices.iter().map(device).collect();
    let kind = |(kind, records): &(&str, u64)| json!({ "kind": kind, "records": records });
    let left_out: Vec<Value> = info.left_out.iter().map(kind).collect();
    let depth = info
        .depth
        .map(|depth| json!({ "mean": depth.mean, "most": depth.most, "response_ns": depth.response.as_ns() }));
    let body = json!({
        "file": path,
        "format": info.format.word(),
        "devices": devices,
        "device": info.device,
        "requests": requests,
        "read_share": of(info.reads()),
        "read_bytes": info.read_bytes,
        "written_bytes": info.written_bytes,
        "seconds": seconds,
        "requests_per_s": (seconds > 0.0).then(|| requests as f64 / seconds),
        "busiest_second_requests": info.busiest_second,
        "sizes": sizes(info),
        "size_percentiles": percentiles,
        "granule_bytes": info.summary.granule_bytes,
        "aligned_4k_share": of(info.aligned),
        "sequential_share": of(info.sequential),
        "end_bytes": info.summary.end_bytes,
        "footprint": footprint(info),
        "queue_depth": depth,
        "left_out": left_out,
        "command": advice.command,
        "notes": advice.notes,
    });
    output::headed("trace-info", body)
}

fn sizes(info: &Info) -> Vec<Value> {
    let size = |(&(writes, bytes), &count): (&(bool, u32), &u64)| json!({ "op": if writes { "write" } else { "read" }, "bytes": bytes, "requests": count });
    info.summary.sizes.iter().map(size).collect()
}

fn footprint(info: &Info) -> Value {
    let it = &info.footprint;
    json!({
        "is_exact": it.is_exact,
        "bytes": it.blocks * BLOCK_BYTES,
        "read_bytes": it.read_blocks * BLOCK_BYTES,
        "written_bytes": it.written_blocks * BLOCK_BYTES,
        "accesses_per_block": it.accesses_mean,
        "once_share": it.once_share,
        "busiest_tenth_share": it.busiest_tenth_share,
    })
}
