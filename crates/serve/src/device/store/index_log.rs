//! Index of the keys of a store in its file: a log of changes behind the bytes of the values.
//!
//! ```text
//!     first half:   head: generation, layout, checksum │ record │ record │ ...        keys and room of their values
//!     second half:  head                               │ record │ ...
//! ```
//!
//! The half with the higher generation counts. It begins with all keys, and each flush appends those that have changed since the one
//! before. At the first flush of a server, and where there is no room for them, all keys go to the other half, whose head is written
//! last. A record has the generation in its checksum, so that the log ends at the first one that is not whole, or is left from another
//! time.

use std::io;

use phaselink_core::media::keys::{Key, KeyLayout, StoredValue};

/// First bytes of the head of a half.
const MAGIC: [u8; 8] = *b"plkeyidx";
/// Bytes of the head, which a disk writes as a whole.
const HEAD_BYTES: u64 = 512;
/// Place of the checksum of the head, which covers everything before it.
const CHECKSUM_AT: usize = 508;
/// Bytes in front of each record: length and checksum.
const RECORD_HEAD_BYTES: usize = 8;
/// Bytes of a record without the room of its value, and of each run of this room.
const RECORD_BYTES: usize = 22;
const RUN_BYTES: usize = 12;
/// Bytes of a half for each key that there may be: more than twice as many as the longest record has, so that a half has as much room
/// for changes as for all keys.
const KEY_ROOM_BYTES: u64 = 256;
/// Number of runs in the record of a key that has been deleted.
const DELETED: u8 = u8::MAX;
/// Multiple of bytes that a half has: pages of a store.
const PAGE_BYTES: u64 = 4096;

/// Returns the bytes of the index of a store in its file.
pub(super) fn index_bytes(layout: &KeyLayout) -> u64 {
    2 * half_bytes(layout)
}

fn half_bytes(layout: &KeyLayout) -> u64 {
    (HEAD_BYTES + u64::from(layout.keys_max) * KEY_ROOM_BYTES).next_multiple_of(PAGE_BYTES)
}

/// Keys that a log has, each with its value.
pub(super) type LoggedKeys = Vec<(Key, StoredValue)>;

/// Log of the index of a store.
#[derive(Debug)]
pub(super) struct IndexLog {
    layout: KeyLayout,
    /// Offset of the first half in the store.
    start: u64,
    /// Number of the half that counts, and its generation; 0 if there is none yet.
    half: u64,
    generation: u64,
    /// Offset in the half at which the next record begins.
    end: u64,
}

impl IndexLog {
    /// Opens the log that begins at an offset of a store, which `read` reads. Returns it with the keys that it has.
    ///
    /// # Errors
    /// If the store is not read, or the log is of a namespace of another layout.
    pub(super) fn open(
        layout: KeyLayout,
        start: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<(IndexLog, LoggedKeys)> {
        let mut log = IndexLog { layout, start, half: 1, generation: 0, end: half_bytes(&layout) };
        for half in 0..2 {
            let mut head = [0; HEAD_BYTES as usize];
            read(start + half * half_bytes(&layout), &mut head)?;
            let generation = log.generation_of(&head)?;
            if generation > log.generation {
                (log.half, log.generation) = (half, generation);
            }
        }
        if log.generation == 0 {
            return Ok((log, Vec::new()));
        }
        let mut records = vec![0; (half_bytes(&layout) - HEAD_BYTES) as usize];
        read(log.place() + HEAD_BYTES, &mut records)?;
        // The end stays that of the half, so that the next change begins the other one: whole records may be behind one that is torn, and
        // would count again once something has been written over it.
        let keys = decode(&records, log.generation);
        Ok((log, keys))
    }

    /// Returns the generation of a half by its head; 0 if the head is none.
    fn generation_of(&self, head: &[u8; HEAD_BYTES as usize]) -> io::Result<u64> {
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].as_chunks().0[0]);
        let is_whole = head[..8] == MAGIC && head[CHECKSUM_AT..] == crc32fast::hash(&head[..CHECKSUM_AT]).to_le_bytes();
        if !is_whole {
            return Ok(0);
        }
        let KeyLayout { capacity_bytes, granule_bytes, keys_max } = self.layout;
        let numbers = [capacity_bytes, granule_bytes.into(), keys_max.into()];
        let found = [long(16), long(24), long(32)];
        if found == numbers {
            return Ok(long(8));
        }
        let [bytes, granule, keys] = found;
        let found = format!("the store holds up to {keys} keys, and {bytes} bytes of values in granules of {granule}");
        Err(io::Error::new(io::ErrorKind::InvalidData, found))
    }

    /// Returns the offset of the half that counts.
    fn place(&self) -> u64 {
        self.start + self.half * half_bytes(&self.layout)
    }

    /// True if so many bytes of records can be appended.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.generation > 0 && self.end + bytes as u64 <= half_bytes(&self.layout)
    }

    /// Returns the record of a key: with its value, or of its deletion.
    pub(super) fn record(key: Key, value: Option<&StoredValue>) -> Vec<u8> {
        let mut record = key.padded().to_vec();
        record.push(key.length());
        record.push(value.map_or(DELETED, |value| value.runs.len() as u8));
        record.extend(value.map_or(0, |value| value.bytes).to_le_bytes());
        for (first, granules) in value.iter().flat_map(|value| &value.runs) {
            record.extend(first.to_le_bytes());
            record.extend(granules.to_le_bytes());
        }
        record
    }

    /// Returns the bytes of records in the log of a generation.
    fn sealed(records: &[Vec<u8>], generation: u64) -> Vec<u8> {
        let sealed = |record: &Vec<u8>| {
            let length = (record.len() as u32).to_le_bytes();
            [&length[..], &checksum(generation, record).to_le_bytes(), record].concat()
        };
        records.iter().flat_map(sealed).collect()
    }

    /// Appends records, durably.
    ///
    /// # Errors
    /// As `write` and `flush`. The log is as before then.
    pub(super) fn append(
        &mut self,
        records: &[Vec<u8>],
        write: impl Fn(u64, &[u8]) -> io::Result<()>,
        flush: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let bytes = IndexLog::sealed(records, self.generation);
        write(self.place() + self.end, &bytes)?;
        flush()?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Begins the other half with the records of all keys, durably.
    ///
    /// # Errors
    /// As `write` and `flush`. The log is as before then.
    pub(super) fn begin_again(
        &mut self,
        records: &[Vec<u8>],
        write: impl Fn(u64, &[u8]) -> io::Result<()>,
        flush: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let (half, generation) = (1 - self.half, self.generation + 1);
        let place = self.start + half * half_bytes(&self.layout);
        let bytes = IndexLog::sealed(records, generation);
        // The end of an earlier attempt of the same generation, which came to no head, may be behind these records.
        write(place + HEAD_BYTES, &[&bytes[..], &[0; RECORD_HEAD_BYTES]].concat())?;
        flush()?;
        write(place, &self.head(generation))?;
        flush()?;
        (self.half, self.generation, self.end) = (half, generation, HEAD_BYTES + bytes.len() as u64);
        Ok(())
    }

    /// Returns the head of a half of a generation.
    fn head(&self, generation: u64) -> [u8; HEAD_BYTES as usize] {
        let KeyLayout { capacity_bytes, granule_bytes, keys_max } = self.layout;
        let mut head = [0; HEAD_BYTES as usize];
        head[..8].copy_from_slice(&MAGIC);
        let numbers = [generation, capacity_bytes, granule_bytes.into(), keys_max.into()];
        for (place, number) in head[8..].as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = u64::to_le_bytes(number);
        }
        let checksum = crc32fast::hash(&head[..CHECKSUM_AT]);
        head[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        head
    }
}

fn checksum(generation: u64, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// Returns the keys that records leave, up to the first record that is not whole.
fn decode(records: &[u8], generation: u64) -> LoggedKeys {
    let mut keys = std::collections::BTreeMap::new();
    let mut rest = records;
    while let Some((record, others)) = split_record(rest, generation) {
        let Some((key, value)) = decode_record(record) else { break };
        match value {
            Some(value) => keys.insert(key, value),
            None => keys.remove(&key),
        };
        rest = others;
    }
    keys.into_iter().collect()
}

/// Returns the first record, and the bytes behind it, if it is whole.
fn split_record(records: &[u8], generation: u64) -> Option<(&[u8], &[u8])> {
    let (head, rest) = records.split_first_chunk::<RECORD_HEAD_BYTES>()?;
    let [length, expected] = [0, 1].map(|word| u32::from_le_bytes(head.as_chunks().0[word]));
    let (record, others) = rest.split_at_checked(length as usize).filter(|_| length > 0)?;
    (checksum(generation, record) == expected).then_some((record, others))
}

/// Returns key and value of a record; no value if the key has been deleted.
fn decode_record(record: &[u8]) -> Option<(Key, Option<StoredValue>)> {
    let (fields, runs) = record.split_first_chunk::<RECORD_BYTES>()?;
    let key = Key::new(fields.get(..usize::from(fields[16]))?)?;
    if fields[17] == DELETED {
        return Some((key, None));
    }
    let bytes = u32::from_le_bytes(fields[18..].as_chunks().0[0]);
    let run = |run: &[u8; RUN_BYTES]| {
        let (first, granules) = run.split_at(8);
        (u64::from_le_bytes(first.as_chunks().0[0]), u32::from_le_bytes(granules.as_chunks().0[0]))
    };
    let runs = runs.as_chunks().0.iter().map(run).collect();
    Some((key, Some(StoredValue { bytes, runs })))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use phaselink_core::media::keys::GranuleRun;

    use super::*;

    const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: 1 << 20, granule_bytes: 512, keys_max: 16 };

    /// Bytes of a store, of which only so many more can be written.
    struct Disk {
        bytes: RefCell<Vec<u8>>,
        left: RefCell<usize>,
    }

    impl Disk {
        fn new() -> Disk {
            let bytes = RefCell::new(vec![0; 100 + index_bytes(&LAYOUT) as usize]);
            Disk { bytes, left: RefCell::new(usize::MAX) }
        }

        /// Writes as much as the disk still takes, as if the power were cut then.
        fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
            let taken = from.len().min(*self.left.borrow());
            self.bytes.borrow_mut()[at as usize..][..taken].copy_from_slice(&from[..taken]);
            *self.left.borrow_mut() -= taken;
            if taken == from.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn open(&self) -> (IndexLog, LoggedKeys) {
            let bytes = self.bytes.borrow();
            let read = |at: u64, into: &mut [u8]| {
                into.copy_from_slice(&bytes[at as usize..][..into.len()]);
                Ok(())
            };
            IndexLog::open(LAYOUT, 100, read).unwrap()
        }
    }

    fn value(bytes: u32, runs: &[GranuleRun]) -> StoredValue {
        StoredValue { bytes, runs: runs.iter().copied().collect() }
    }

    fn key(number: u64) -> Key {
        Key::of_number(number)
    }

    fn put(number: u64, bytes: u32) -> Vec<u8> {
        IndexLog::record(key(number), Some(&value(bytes, &[(number, 1), (number + 50, 2)])))
    }

    #[test]
    fn keys_are_those_of_all_records_and_the_longest_record_has_its_room() {
        let disk = Disk::new();
        let (mut log, keys) = disk.open();
        assert!(keys.is_empty() && !log.has_room(0));
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.begin_again(&[put(1, 600), put(2, 700)], write, || Ok(())).unwrap();
        log.append(&[IndexLog::record(key(1), None), put(3, 0)], write, || Ok(())).unwrap();
        let (again, keys) = disk.open();
        let expected =
            [(2, 700), (3, 0)].map(|(number, bytes)| (key(number), value(bytes, &[(number, 1), (number + 50, 2)])));
        assert_eq!(keys, expected);
        assert_eq!((again.half, again.generation), (log.half, log.generation));
        assert!(log.has_room(9) && !again.has_room(9), "each server begins a half of its own");
        let longest =
            IndexLog::record(key(0), Some(&value(4096, &[(u64::MAX, 1); phaselink_core::media::keys::PARTS_MAX])));
        assert!((longest.len() + RECORD_HEAD_BYTES) as u64 * 2 <= KEY_ROOM_BYTES);
    }

    /// Any number of bytes of an append, or of a new half, may be on the disk when the power fails.
    #[test]
    fn log_that_was_cut_anywhere_has_a_state_between_the_flushes() {
        for cut in 0..200 {
            let disk = Disk::new();
            let (mut log, _) = disk.open();
            let write = |at, bytes: &[u8]| disk.write(at, bytes);
            log.begin_again(&[put(1, 100)], write, || Ok(())).unwrap();
            *disk.left.borrow_mut() = cut;
            let appended = log.append(&[put(2, 200), IndexLog::record(key(1), None)], write, || Ok(()));
            let numbers = |keys: LoggedKeys| keys.iter().map(|(_, value)| value.bytes).collect::<Vec<_>>();
            let found = numbers(disk.open().1);
            assert!([&[100][..], &[100, 200], &[200]].contains(&&found[..]), "{cut}: {found:?}");
            assert!(appended.is_err() || found == [200]);
        }
        for cut in 0..700 {
            let disk = Disk::new();
            let (mut log, _) = disk.open();
            let write = |at, bytes: &[u8]| disk.write(at, bytes);
            log.begin_again(&[put(1, 100)], write, || Ok(())).unwrap();
            *disk.left.borrow_mut() = cut;
            let begun = log.begin_again(&[put(2, 200)], write, || Ok(()));
            let bytes = disk.open().1[0].1.bytes;
            assert_eq!(bytes, if begun.is_ok() { 200 } else { 100 }, "{cut}");
        }
    }

    #[test]
    fn records_of_another_generation_behind_the_end_are_none() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.begin_again(&[put(1, 1), put(2, 2), put(3, 3)], write, || Ok(())).unwrap();
        log.begin_again(&[put(1, 1)], write, || Ok(())).unwrap();
        log.begin_again(&[put(4, 4)], write, || Ok(())).unwrap();
        assert_eq!(disk.open().1.len(), 1, "two of three records of the first generation are behind it");
    }

    #[test]
    fn whole_records_behind_a_torn_one_never_count() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.begin_again(&[put(1, 1)], write, || Ok(())).unwrap();
        let torn_at = (log.place() + log.end) as usize + RECORD_HEAD_BYTES;
        log.append(&[put(2, 2), put(3, 3)], write, || Ok(())).unwrap();
        disk.bytes.borrow_mut()[torn_at] ^= 1;
        let (mut log, keys) = disk.open();
        assert_eq!(keys.len(), 1);
        let record = IndexLog::sealed(&[put(1, 1)], 0).len();
        // The power fails before the new half has its head, and records of three keys are left there.
        *disk.left.borrow_mut() = 3 * record;
        log.begin_again(&[put(1, 1), put(2, 2), put(3, 3)], write, || Ok(())).unwrap_err();
        *disk.left.borrow_mut() = usize::MAX;
        let (mut log, keys) = disk.open();
        assert_eq!(keys.len(), 1);
        log.begin_again(&[put(4, 4)], write, || Ok(())).unwrap();
        assert_eq!(disk.open().1, [(key(4), value(4, &[(4, 1), (54, 2)]))]);
    }

    #[test]
    fn log_of_another_layout_is_refused() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        log.begin_again(&[], |at, bytes| disk.write(at, bytes), || Ok(())).unwrap();
        let other = KeyLayout { granule_bytes: 4096, ..LAYOUT };
        let bytes = disk.bytes.borrow();
        let read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at as usize..][..into.len()]);
            Ok(())
        };
        let refused = IndexLog::open(other, 100, read).unwrap_err().to_string();
        assert_eq!(refused, "the store holds up to 16 keys, and 1048576 bytes of values in granules of 512");
    }
}
