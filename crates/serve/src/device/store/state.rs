//! Wear-levelling state in two slots, written in turn: a power cut in one leaves the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Refusal;
use super::header::STATE_STARTS;

/// Longest state.
pub const STATE_BYTES_MAX: usize = (2 << 20) - HEAD_BYTES;

/// Sequence number, length, checksum over both and the bytes.
const HEAD_BYTES: usize = 8 + 4 + 4;

/// The state, and where it goes next.
#[derive(Debug, Default)]
pub(super) struct Slots {
    bytes: Vec<u8>,
    /// Of the state saved last; zero if there is none. Odd ones are in slot 1.
    sequence: u64,
}

impl Slots {
    /// The newer of the slots that are whole.
    pub fn load(file: &File) -> Result<Slots, Refusal> {
        let [first, second] = [load(file, 0)?, load(file, 1)?];
        let damaged = [&first, &second].iter().any(|slot| matches!(slot, Slot::Damaged));
        let newest = [first, second].into_iter().filter_map(Slot::whole).max_by_key(|slots| slots.sequence);
        match newest {
            None if damaged => Err(Refusal::new(
                "the wear-levelling state is damaged: no checksum is right",
                "the store as it was written",
            )),
            newest => Ok(newest.unwrap_or_default()),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Save `bytes` in the slot that does not hold the present state.
    pub fn save(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        // Only a file that is not of our making has the last number.
        let sequence = self.sequence.checked_add(1).ok_or(io::ErrorKind::InvalidData)?;
        let start = STATE_STARTS[(sequence % 2) as usize];
        file.write_all_at(&encode(sequence, bytes), start)?;
        file.sync_data()?;
        *self = Slots { bytes: bytes.to_vec(), sequence };
        Ok(())
    }
}

/// What a slot holds.
enum Slot {
    Empty,
    Whole(Slots),
    Damaged,
}

impl Slot {
    fn whole(self) -> Option<Slots> {
        match self {
            Slot::Whole(slots) => Some(slots),
            Slot::Empty | Slot::Damaged => None,
        }
    }
}

fn encode(sequence: u64, bytes: &[u8]) -> Vec<u8> {
    let mut slot = Vec::with_capacity(HEAD_BYTES + bytes.len());
    slot.extend(sequence.to_le_bytes());
    slot.extend((bytes.len() as u32).to_le_bytes());
    slot.extend(checksum(&slot, bytes).to_le_bytes());
    slot.extend(bytes);
    slot
}

fn load(file: &File, place: usize) -> Result<Slot, Refusal> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, STATE_STARTS[place])?;
    let [sequence, length, found] = [number(&head[..8]), number(&head[8..12]), number(&head[12..])];
    if head == [0; HEAD_BYTES] {
        return Ok(Slot::Empty);
    }
    if length > STATE_BYTES_MAX as u64 || sequence % 2 != place as u64 {
        return Ok(Slot::Damaged);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, STATE_STARTS[place] + HEAD_BYTES as u64)?;
    match u64::from(checksum(&head[..12], &bytes)) == found {
        true => Ok(Slot::Whole(Slots { bytes, sequence })),
        false => Ok(Slot::Damaged),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn checksum(head: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(bytes);
    hasher.finalize()
}
