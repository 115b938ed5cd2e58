//! Saved state of a store beside its bytes: records by tags, in the space between the file's header and the device's
//! bytes.
//!
//! ```text
//!    4 KiB  slot 0: number of the save, length, checksum; records
//! 1024 KiB  slot 1
//! ```
//!
//! A save goes to the slot with the older state, and is flushed before it returns. After a crash in between, the other
//! slot is intact.

use phaselink_core::number::{index, length, short_length, wide_index};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Offset of the first slot in the file; `SLOT_BYTES` is the length of each slot in bytes.
const SLOTS_AT: u64 = 4 << 10;
const SLOT_BYTES: u64 = 1020 << 10;
/// Length in bytes of the head of a slot with state records: number of the save, length, checksum.
const HEAD_BYTES: usize = 20;
/// Length in bytes of the head of a saved state record: tag and length.
const RECORD_HEAD_BYTES: usize = 8;

/// Tag that identifies a record of the state that a store saves beside the device's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateRecordTag {
    /// Ranges of bytes that cannot be read until they are written.
    Unreadable = 1,
    /// Namespaces of the drive, with their formats.
    Namespaces = 2,
    /// Latest sanitize operation.
    Sanitize = 3,
    /// Persistent event log of the drive.
    Events = 4,
    /// States and write pointers of zones.
    Zones = 5,
    /// Handles and settings of data placement.
    Placement = 6,
    /// Settings of a namespace that stores values by their keys.
    KeyValue = 7,
    /// Reservations of namespaces, and the hosts that have registered for them.
    Reservations = 8,
}

/// Saved state of a store beside the device's bytes, such as namespaces: records by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreState {
    records: BTreeMap<u32, Vec<u8>>,
    /// Number of saves so far, by which the newer slot is found.
    saves: u64,
}

impl StoreState {
    /// Reads the newest intact state of a file. Returns an empty state if there is none.
    pub(super) fn read(file: &File) -> io::Result<StoreState> {
        let mut newest = StoreState::default();
        for slot in 0..2 {
            if let Some(state) = read_state_slot(file, slot)?.filter(|state| state.saves > newest.saves) {
                newest = state;
            }
        }
        Ok(newest)
    }

    /// Returns the state record with this tag, or none if it was never saved.
    pub(super) fn record(&self, tag: StateRecordTag) -> Option<&Vec<u8>> {
        self.records.get(&(tag as u32))
    }

    /// Replaces the state record with this tag, and durably writes all records to the file, if there is one. After an
    /// error, they are unchanged.
    pub(super) fn save(&mut self, tag: StateRecordTag, record: Vec<u8>, file: Option<&File>) -> io::Result<()> {
        let mut next = self.clone();
        next.records.insert(tag as u32, record);
        next.saves += 1;
        if let Some(file) = file {
            file.write_all_at(&next.encode()?, SLOTS_AT + next.saves % 2 * SLOT_BYTES)?;
            file.sync_data()?;
        }
        *self = next;
        Ok(())
    }

    /// Clears both slots of a file of an older version, which may have held other bytes there.
    pub(super) fn clear(file: &File) -> io::Result<()> {
        (0..2).try_for_each(|slot| file.write_all_at(&[0; HEAD_BYTES], SLOTS_AT + slot * SLOT_BYTES))
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut records = Vec::new();
        for (tag, record) in &self.records {
            records.extend(tag.to_le_bytes());
            records.extend(short_length(record.len()).to_le_bytes());
            records.extend(record);
        }
        if length(records.len() + HEAD_BYTES) > SLOT_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let numbers = [self.saves.to_le_bytes(), (records.len() as u64).to_le_bytes()].concat();
        let checksum = checksum(&numbers, &records);
        Ok([&numbers[..], &checksum.to_le_bytes(), &records].concat())
    }

    /// Decodes the state records of a slot in a store's file whose head has the number `saves`. None if they are
    /// damaged.
    fn decode(saves: u64, mut rest: &[u8]) -> Option<StoreState> {
        let mut state = StoreState { records: BTreeMap::new(), saves };
        while !rest.is_empty() {
            let (head, others) = rest.split_first_chunk::<RECORD_HEAD_BYTES>()?;
            let [tag, length] = [0, 1].map(|word| u32::from_le_bytes(head.as_chunks().0[word]));
            let (record, others) = others.split_at_checked(index(length))?;
            state.records.insert(tag, record.to_vec());
            rest = others;
        }
        Some(state)
    }
}

fn read_state_slot(file: &File, slot: u64) -> io::Result<Option<StoreState>> {
    let at = SLOTS_AT + slot * SLOT_BYTES;
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, at)?;
    let [saves, length] = [0, 1].map(|word| u64::from_le_bytes(head[..16].as_chunks().0[word]));
    if saves == 0 || length > SLOT_BYTES - HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut records = vec![0; wide_index(length)];
    file.read_exact_at(&mut records, at + HEAD_BYTES as u64)?;
    let is_whole = head[16..] == checksum(&head[..16], &records).to_le_bytes();
    Ok(StoreState::decode(saves, &records).filter(|_| is_whole))
}

fn checksum(numbers: &[u8], records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(numbers);
    hasher.update(records);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let fd = rustix::fs::memfd_create("state", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(fd);
        file.set_len(2 << 20).unwrap();
        file
    }

    #[test]
    fn newest_intact_state_is_read_and_a_damaged_one_falls_back_to_the_previous() {
        let file = file();
        assert_eq!(StoreState::read(&file).unwrap(), StoreState::default());
        let mut state = StoreState::default();
        for value in 1..=3_u8 {
            state.save(StateRecordTag::Unreadable, vec![value; 40], Some(&file)).unwrap();
            state.save(StateRecordTag::Sanitize, vec![value], Some(&file)).unwrap();
        }
        let found = StoreState::read(&file).unwrap();
        assert_eq!((found.record(StateRecordTag::Unreadable), found.saves), (Some(&vec![3; 40]), 6));
        file.write_all_at(&[0xff], SLOTS_AT + HEAD_BYTES as u64 + 9).unwrap();
        let before = StoreState::read(&file).unwrap();
        assert_eq!((before.record(StateRecordTag::Sanitize), before.saves), (Some(&vec![2]), 5));
        StoreState::clear(&file).unwrap();
        assert_eq!(StoreState::read(&file).unwrap(), StoreState::default());
    }

    #[test]
    fn state_record_too_large_for_its_slot_is_refused_without_changes() {
        let (file, mut state) = (file(), StoreState::default());
        state.save(StateRecordTag::Events, vec![1], Some(&file)).unwrap();
        let large = vec![0; SLOT_BYTES as usize];
        let refused = state.save(StateRecordTag::Events, large, Some(&file)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            (StoreState::read(&file).unwrap(), state.record(StateRecordTag::Events)),
            (state.clone(), Some(&vec![1]))
        );
    }
}
