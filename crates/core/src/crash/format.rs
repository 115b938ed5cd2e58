//! File format of a recording.
//!
//! ```text
//! magic, capacity (8 bytes), block (4), atomic unit (4), durability (1), events of the preparation (8)
//! for each event: 1 write, 2 zero, 3 trim: offset (8), bytes (4), durable (1), and the data of a write
//!                 4 flush; 5 completed: place of the request (8); 6 printed: bytes (4), the line
//! 0, and the CRC-32 of everything before it
//! ```
//!
//! Numbers have their little end first.

use super::recording::{Durability, DurabilityRules, RecordedCommand, RecordedEvent, RecordedOp, Recording};

/// First bytes of every recording, with the version.
pub const MAGIC: [u8; 16] = *b"phaselink crash\x01";
/// Largest drive in bytes: its contents are held in memory several times.
pub const CAPACITY_BYTES_MAX: u64 = 4 << 30;
/// Smallest and largest block.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 16;

const END: u8 = 0;
const WRITE: u8 = 1;
const ZERO: u8 = 2;
const TRIM: u8 = 3;
const FLUSH: u8 = 4;
const COMPLETED: u8 = 5;
const PRINTED: u8 = 6;

/// Returns the bytes of a recording.
pub fn encode(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::from(MAGIC);
    let DurabilityRules { block_bytes, atomic_bytes, durability } = recording.rules;
    bytes.extend(recording.capacity_bytes.to_le_bytes());
    bytes.extend(block_bytes.to_le_bytes());
    bytes.extend(atomic_bytes.to_le_bytes());
    bytes.push(u8::from(durability == Durability::OnAcknowledgement));
    bytes.extend((recording.prepared as u64).to_le_bytes());
    for event in &recording.events {
        match *event {
            RecordedEvent::Arrived(request) => put_request(&mut bytes, &recording.requests[request]),
            RecordedEvent::Completed(request) => {
                bytes.push(COMPLETED);
                bytes.extend((request as u64).to_le_bytes());
            }
            RecordedEvent::Printed(line) => {
                let line = &recording.lines[line];
                bytes.push(PRINTED);
                bytes.extend((line.len() as u32).to_le_bytes());
                bytes.extend(line);
            }
        }
    }
    bytes.push(END);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn put_request(bytes: &mut Vec<u8>, request: &RecordedCommand) {
    let (kind, data): (u8, &[u8]) = match &request.kind {
        RecordedOp::Flush => return bytes.push(FLUSH),
        RecordedOp::Write(data) => (WRITE, data),
        RecordedOp::Zero => (ZERO, &[]),
        RecordedOp::Trim => (TRIM, &[]),
    };
    bytes.push(kind);
    bytes.extend(request.offset.to_le_bytes());
    bytes.extend(request.bytes.to_le_bytes());
    bytes.push(u8::from(request.durable));
    bytes.extend(data);
}

/// Returns the recording that these bytes hold.
///
/// # Errors
/// The reason why the bytes are no recording.
pub fn decode(bytes: &[u8]) -> Result<Recording, &'static str> {
    if !bytes.starts_with(&MAGIC) {
        return Err("no recording of phaselink crash");
    }
    let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err(CUT_SHORT) };
    if u32::from_le_bytes(*checksum) != crc32fast::hash(body) {
        return Err("a damaged recording: its checksum is another");
    }
    let mut reader = RecordingReader { rest: &body[MAGIC.len()..] };
    let capacity_bytes = reader.u64()?;
    let rules = DurabilityRules {
        block_bytes: reader.u32()?,
        atomic_bytes: reader.u32()?,
        durability: if reader.bool()? { Durability::OnAcknowledgement } else { Durability::OnFlush },
    };
    let prepared = reader.u64()?;
    let block = rules.block_bytes;
    let are_blocks = BLOCK_BYTES.contains(&block)
        && rules.atomic_bytes >= block
        && rules.atomic_bytes.is_multiple_of(block)
        && (1..=CAPACITY_BYTES_MAX).contains(&capacity_bytes)
        && capacity_bytes.is_multiple_of(block.into());
    if !are_blocks {
        return Err("a recording of a drive that cannot be: its size, block or atomic unit");
    }
    let mut recording = Recording {
        capacity_bytes,
        rules,
        requests: Vec::new(),
        lines: Vec::new(),
        events: Vec::new(),
        prepared: usize::try_from(prepared).unwrap_or(usize::MAX),
    };
    take_events(&mut reader, &mut recording)?;
    if recording.prepared > recording.events.len() {
        return Err("a recording whose preparation is longer than all of it");
    }
    Ok(recording)
}

const CUT_SHORT: &str = "a recording that is cut short";

fn take_events(reader: &mut RecordingReader<'_>, recording: &mut Recording) -> Result<(), &'static str> {
    let mut completed: Vec<bool> = Vec::new();
    loop {
        let event = match reader.u8()? {
            END if reader.rest.is_empty() => return Ok(()),
            COMPLETED => {
                let place = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
                match completed.get_mut(place) {
                    Some(is_completed) if !*is_completed => *is_completed = true,
                    _ => return Err("a recording with an answer that nobody has asked for"),
                }
                RecordedEvent::Completed(place)
            }
            PRINTED => {
                let bytes = reader.u32()?;
                recording.lines.push(reader.bytes(bytes)?.to_vec());
                RecordedEvent::Printed(recording.lines.len() - 1)
            }
            kind @ (WRITE | ZERO | TRIM | FLUSH) => {
                let request = take_request(reader, kind, recording)?;
                recording.requests.push(request);
                completed.push(false);
                RecordedEvent::Arrived(recording.requests.len() - 1)
            }
            _ => return Err("a recording with an event of no kind"),
        };
        recording.events.push(event);
    }
}

fn take_request(
    reader: &mut RecordingReader<'_>,
    kind: u8,
    recording: &Recording,
) -> Result<RecordedCommand, &'static str> {
    if kind == FLUSH {
        return Ok(RecordedCommand { kind: RecordedOp::Flush, offset: 0, bytes: 0, durable: false });
    }
    let (offset, bytes, durable) = (reader.u64()?, reader.u32()?, reader.bool()?);
    let block = u64::from(recording.rules.block_bytes);
    let end = offset.checked_add(bytes.into()).filter(|end| *end <= recording.capacity_bytes);
    let is_within = end.is_some_and(|end| bytes > 0 && offset.is_multiple_of(block) && end.is_multiple_of(block));
    if !is_within {
        return Err("a recording with a request beyond the drive or its blocks");
    }
    let kind = match kind {
        WRITE => RecordedOp::Write(reader.bytes(bytes)?.into()),
        ZERO => RecordedOp::Zero,
        _ => RecordedOp::Trim,
    };
    Ok(RecordedCommand { kind, offset, bytes, durable })
}

struct RecordingReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordingReader<'a> {
    fn bytes(&mut self, count: u32) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count as usize).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    fn bool(&mut self) -> Result<bool, &'static str> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a recording with a byte that is neither yes nor no"),
        }
    }
}
