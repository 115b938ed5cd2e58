//! libCacheSim's trace format `oracleGeneral`. Each record has 24 bytes, little-endian: time in seconds (32 bits),
//! object (64), size in bytes (32), and the number of the next access to the object (64), which is ignored.
//!
//! Source: the reader of libCacheSim (1a1a11a/libCacheSim).

use super::{LineMistake, TraceLine};
use crate::kvcache::request::PromptRequest;

/// Bytes of one record of an oracleGeneral trace.
pub(super) const RECORD_BYTES: usize = 24;
/// Description of a valid oracleGeneral record, for error messages.
pub(super) const EXPECTED: &str = "records of 24 bytes, as libCacheSim's oracleGeneral has them: 32 bits of seconds, 64 of the object, \
                                   32 of its size, which is above 0, 64 of the next access";
/// Value of a record's field "next access" if the next access is not known.
const UNKNOWN: i64 = -2;

pub(super) fn read(record: &[u8; RECORD_BYTES]) -> Result<TraceLine, LineMistake> {
    let word = |from: usize| u32::from_le_bytes([record[from], record[from + 1], record[from + 2], record[from + 3]]);
    let (seconds, bytes) = (word(0), word(12));
    let object = u64::from(word(4)) | u64::from(word(8)) << 32;
    if bytes == 0 {
        return Err(LineMistake::new("an object of 0 bytes", EXPECTED));
    }
    Ok(TraceLine::Request(PromptRequest {
        at_ns: u64::from(seconds) * 1_000_000_000,
        ids: vec![object],
        object_bytes: Some(bytes.into()),
        ..PromptRequest::default()
    }))
}

/// Returns a request as oracleGeneral records, one for each block. `block_bytes` gives the bytes of a block by its
/// index.
pub(super) fn encode_request(request: &PromptRequest, block_bytes: impl Fn(usize) -> u64) -> Vec<u8> {
    let mut records = Vec::with_capacity(request.ids.len() * RECORD_BYTES);
    for (place, id) in request.ids.iter().enumerate() {
        let seconds = u32::try_from(request.at_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let bytes = u32::try_from(block_bytes(place)).unwrap_or(u32::MAX);
        records.extend(seconds.to_le_bytes());
        records.extend(id.to_le_bytes());
        records.extend(bytes.to_le_bytes());
        records.extend(UNKNOWN.to_le_bytes());
    }
    records
}
