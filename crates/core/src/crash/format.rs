//! Binary file format of a recording of a drive's requests.
//!
//! ```text
//! magic, capacity (8 bytes), block (4), atomic unit (4), durability (1), events of the preparation (8)
//! on a drive with zones, which has a magic of its own: number of zones (4), blocks of a zone (8), of them writable (8), most
//!                 active zones (4), most open zones (4)
//! for each event: 1 write, 2 zero, 3 trim: offset (8), bytes (4), durable (1), and the data of a write
//!                 4 flush; 5 completed: place of the request (8); 6 printed: bytes (4), the line
//!                 7 zone reset, 8 zone finish: offset (8), bytes (4), durable (1)
//! 0, and the CRC-32 of everything before it
//! ```
//!
//! Numbers are little-endian.

use crate::media::zones::ZoneLayout;
use crate::number::{index, short_length};

use super::recording::{Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording};
use super::zones::do_zones_accept_all;

/// First bytes of a recording file of a drive without zones.
const MAGIC: [u8; MAGIC_BYTES] = *b"phaselink crash\x01";
/// First bytes of a recording file of a drive with zones.
const MAGIC_OF_ZONES: [u8; MAGIC_BYTES] = *b"phaselink crash\x02";
/// Number of first bytes that identify a recording file.
pub const MAGIC_BYTES: usize = 16;
/// Largest capacity in bytes of a recorded drive. Its contents are held in memory several times.
pub const CAPACITY_BYTES_MAX: u64 = 4 << 30;
/// Allowed sizes of a logical block in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 16;

const END: u8 = 0;
const WRITE: u8 = 1;
const ZERO: u8 = 2;
const TRIM: u8 = 3;
const FLUSH: u8 = 4;
const COMPLETED: u8 = 5;
const PRINTED: u8 = 6;
const RESET: u8 = 7;
const FINISH: u8 = 8;

/// True if bytes begin with the magic number of a recording file.
pub fn has_recording_magic(bytes: &[u8]) -> bool {
    [MAGIC, MAGIC_OF_ZONES].iter().any(|magic| bytes.starts_with(magic))
}

/// Returns a recording encoded as the bytes of a file.
pub fn encode(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::from(if recording.zones.is_some() { MAGIC_OF_ZONES } else { MAGIC });
    let DurabilityRules { block_bytes, atomic_bytes, durability } = recording.rules;
    bytes.extend(recording.capacity_bytes.to_le_bytes());
    bytes.extend(block_bytes.to_le_bytes());
    bytes.extend(atomic_bytes.to_le_bytes());
    bytes.push(u8::from(durability == Durability::OnAcknowledgement));
    bytes.extend((recording.prepared as u64).to_le_bytes());
    if let Some(ZoneLayout { zones, zone_blocks, capacity_blocks, active_max, open_max }) = recording.zones {
        bytes.extend(zones.to_le_bytes());
        bytes.extend([zone_blocks, capacity_blocks].map(u64::to_le_bytes).as_flattened());
        bytes.extend([active_max, open_max].map(u32::to_le_bytes).as_flattened());
    }
    for event in &recording.events {
        match *event {
            RecordedEventKind::Arrived(request) => write_recorded_request(&mut bytes, &recording.requests[request]),
            RecordedEventKind::Completed(request) => {
                bytes.push(COMPLETED);
                bytes.extend((request as u64).to_le_bytes());
            }
            RecordedEventKind::Printed(line) => {
                let line = &recording.lines[line];
                bytes.push(PRINTED);
                bytes.extend(short_length(line.len()).to_le_bytes());
                bytes.extend(line);
            }
        }
    }
    bytes.push(END);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn write_recorded_request(bytes: &mut Vec<u8>, request: &RecordedCommand) {
    let (kind, data): (u8, &[u8]) = match &request.kind {
        RecordedOp::Flush => return bytes.push(FLUSH),
        RecordedOp::Write(data) => (WRITE, data),
        RecordedOp::Zero => (ZERO, &[]),
        RecordedOp::Trim => (TRIM, &[]),
        RecordedOp::Reset => (RESET, &[]),
        RecordedOp::Finish => (FINISH, &[]),
    };
    bytes.push(kind);
    bytes.extend(request.offset.to_le_bytes());
    bytes.extend(request.bytes.to_le_bytes());
    bytes.push(u8::from(request.durable));
    bytes.extend(data);
}

/// Parses the bytes of a recording file.
///
/// # Errors
/// The reason why the bytes are not a valid recording.
pub fn decode(bytes: &[u8]) -> Result<Recording, &'static str> {
    if !has_recording_magic(bytes) {
        return Err("no recording of phaselink crash");
    }
    let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err(CUT_SHORT) };
    if u32::from_le_bytes(*checksum) != crc32fast::hash(body) {
        return Err("a damaged recording: its checksum is another");
    }
    let mut reader = RecordingBytes { rest: &body[MAGIC_BYTES..] };
    let capacity_bytes = reader.u64()?;
    let rules = DurabilityRules {
        block_bytes: reader.u32()?,
        atomic_bytes: reader.u32()?,
        durability: if reader.bool()? { Durability::OnAcknowledgement } else { Durability::OnFlush },
    };
    let prepared = reader.u64()?;
    let has_zones = bytes.starts_with(&MAGIC_OF_ZONES);
    let zones = has_zones.then(|| read_zone_layout(&mut reader)).transpose()?;
    check_recorded_drive_layout(capacity_bytes, &rules, zones)?;
    let prepared = usize::try_from(prepared).unwrap_or(usize::MAX);
    let mut recording = Recording { zones, prepared, ..Recording::empty(capacity_bytes, rules) };
    read_recorded_events(&mut reader, &mut recording)?;
    if recording.prepared > recording.events.len() {
        return Err("a recording whose preparation is longer than all of it");
    }
    if !do_zones_accept_all(&recording) {
        return Err("a recording with a request that its zone refuses");
    }
    Ok(recording)
}

/// Checks that a drive of this capacity can have such blocks and zones. Fails with a text for the user.
fn check_recorded_drive_layout(
    capacity_bytes: u64,
    rules: &DurabilityRules,
    zones: Option<ZoneLayout>,
) -> Result<(), &'static str> {
    let block = rules.block_bytes;
    let are_blocks = BLOCK_BYTES.contains(&block)
        && rules.atomic_bytes >= block
        && rules.atomic_bytes.is_multiple_of(block)
        && (1..=CAPACITY_BYTES_MAX).contains(&capacity_bytes)
        && capacity_bytes.is_multiple_of(block.into());
    if !are_blocks {
        return Err("a recording of a drive that cannot be: its size, block or atomic unit");
    }
    let blocks = |zones: ZoneLayout| zones.zone_blocks.checked_mul(zones.zones.into());
    match zones.is_none_or(|zones| blocks(zones) == Some(capacity_bytes / u64::from(block))) {
        true => Ok(()),
        false => Err("a recording of zones that are another size than the drive"),
    }
}

fn read_zone_layout(reader: &mut RecordingBytes<'_>) -> Result<ZoneLayout, &'static str> {
    let layout = ZoneLayout {
        zones: reader.u32()?,
        zone_blocks: reader.u64()?,
        capacity_blocks: reader.u64()?,
        active_max: reader.u32()?,
        open_max: reader.u32()?,
    };
    let is_possible = (1..=layout.zone_blocks).contains(&layout.capacity_blocks);
    if is_possible { Ok(layout) } else { Err("a recording of zones with no block, or more than they have") }
}

const CUT_SHORT: &str = "a recording that is cut short";

fn read_recorded_events(reader: &mut RecordingBytes<'_>, recording: &mut Recording) -> Result<(), &'static str> {
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
                RecordedEventKind::Completed(place)
            }
            PRINTED => {
                let bytes = reader.u32()?;
                recording.lines.push(reader.bytes(bytes)?.to_vec());
                RecordedEventKind::Printed(recording.lines.len() - 1)
            }
            kind @ (WRITE | ZERO | TRIM | FLUSH | RESET | FINISH) => {
                let request = read_recorded_request(reader, kind, recording)?;
                recording.requests.push(request);
                completed.push(false);
                RecordedEventKind::Arrived(recording.requests.len() - 1)
            }
            _ => return Err("a recording with an event of no kind"),
        };
        recording.events.push(event);
    }
}

fn read_recorded_request(
    reader: &mut RecordingBytes<'_>,
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
        RESET => RecordedOp::Reset,
        FINISH => RecordedOp::Finish,
        _ => RecordedOp::Trim,
    };
    Ok(RecordedCommand { kind, offset, bytes, durable })
}

/// Reader of a recording's bytes, with those that have not been read.
struct RecordingBytes<'a> {
    rest: &'a [u8],
}

impl<'a> RecordingBytes<'a> {
    fn bytes(&mut self, count: u32) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(index(count)).ok_or(CUT_SHORT)?;
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
