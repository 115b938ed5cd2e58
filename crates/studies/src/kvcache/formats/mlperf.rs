//! MLPerf Storage's trace format of a key-value cache: CSV with `Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase`.
//!
//! A line is one access to one object, with the tier in which the recorded system had the object. Here, the simulated
//! sizes and replacement decide the tier. Lines of the phase `Evict` are therefore skipped and counted: they record
//! what the original tiers did. Source: the benchmark kv-cache of MLPerf Storage v3, its option `--io-trace-log`.

use super::{LineMistake, TraceLine};
use crate::kvcache::request::PromptRequest;
use phaselink_core::random::mix;

/// First line of an MLPerf Storage trace: its column names.
pub(super) const HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";
/// Largest object that an MLPerf Storage trace may have, in bytes: 1 TiB.
const OBJECT_BYTES_MAX: u64 = 1 << 40;
/// Description of a valid line of an MLPerf Storage trace, for error messages.
pub(super) const EXPECTED: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase, as MLPerf Storage has it: seconds, Read or \
                                   Write, bytes, Tier-0 to Tier-2, a name, and Prefill, Decode or Evict";

pub(super) fn read(text: &str) -> Result<TraceLine, LineMistake> {
    if text.trim() == HEADER {
        return Ok(TraceLine::Heading);
    }
    let wrong = |found: String| LineMistake::new(found, EXPECTED);
    let fields: Vec<&str> = text.trim().split(',').collect();
    let [time, operation, bytes, tier, key, phase] = fields[..] else {
        return Err(wrong(format!("{} fields", fields.len())));
    };
    let seconds = time.parse::<f64>().map_err(|_| wrong(format!("`{time}` as a time")))?;
    let is_write = match operation {
        "Read" => false,
        "Write" => true,
        other => return Err(wrong(format!("`{other}` as an operation"))),
    };
    let bytes = bytes.parse::<u64>().ok().filter(|bytes| (1..=OBJECT_BYTES_MAX).contains(bytes));
    let bytes = bytes.ok_or_else(|| wrong(format!("`{}` as a size", fields[2])))?;
    if !["Tier-0", "Tier-1", "Tier-2"].contains(&tier) {
        return Err(wrong(format!("`{tier}` as a tier")));
    }
    match phase {
        "Prefill" | "Decode" => {}
        "Evict" => return Ok(TraceLine::LeftOut("evictions of the recorded tiers")),
        other => return Err(wrong(format!("`{other}` as a phase"))),
    }
    Ok(TraceLine::Request(PromptRequest {
        at_ns: super::nanoseconds(seconds, 1e9)?,
        ids: vec![identity(key)],
        object_bytes: Some(bytes),
        is_write,
        ..PromptRequest::default()
    }))
}

/// Returns a 64-bit identity for an object's key: its value if the key is a number, otherwise a hash of its bytes.
fn identity(key: &str) -> u64 {
    key.parse().unwrap_or_else(|_| key.bytes().fold(0x6b65_7976, |hash, byte| mix(hash ^ u64::from(byte))))
}

/// Returns a request as MLPerf Storage lines, one per block, each with its newline. Blocks that an earlier request has
/// used are reads; others are writes. `block_bytes` gives the bytes of a block by its index.
pub(super) fn encode_request(request: &PromptRequest, block_bytes: impl Fn(usize) -> u64) -> String {
    let line = |(place, id): (usize, &u64)| {
        let (operation, phase) =
            if place < request.repeated_blocks { ("Read", "Decode") } else { ("Write", "Prefill") };
        let (seconds, micros) = (request.at_ns / 1_000_000_000, request.at_ns % 1_000_000_000 / 1000);
        format!("{seconds}.{micros:06},{operation},{},Tier-0,{id},{phase}\n", block_bytes(place))
    };
    request.ids.iter().enumerate().map(line).collect()
}
