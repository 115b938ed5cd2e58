//! Index of a store's keys in its file: a log of changes after the bytes of the values.
//!
//! ```text
//!     first half:   head: generation, layout, checksum │ record │ record │ ...        keys and room of their values
//!     second half:  head                               │ record │ ...
//! ```
//!
//! The half with the higher generation is valid. It begins with all keys, and each flush appends the keys that have
//! changed since the flush before. At the first flush of a server, and when changes find no room, all keys go to the
//! other half, whose head is written last. The checksum of a record covers the generation. So the log ends at the first
//! record that is incomplete, or left from another generation.

use std::io;

use phaselink_core::media::keys::{Key, KeyLayout, StoredKeyValue};
use phaselink_core::number::{index, length, short_length, wide_index};

/// First bytes of each half of the index log.
const MAGIC: [u8; 8] = *b"plkeyidx";
/// Length in bytes of a half's head, which a disk writes as a whole.
const HEAD_BYTES: u64 = 512;
/// Offset in the head of its checksum, which covers everything before it.
const CHECKSUM_AT: usize = 508;
/// Length in bytes of the header before each record of an index log: length and checksum.
const RECORD_HEAD_BYTES: usize = 8;
/// Length in bytes of an index log's record without the runs of its value. `RUN_BYTES` is the length of each run.
const RECORD_BYTES: usize = 22;
const RUN_BYTES: usize = 12;
/// Number of bytes of a half for each key that may exist: more than twice the length of the longest record. So a half
/// has as much room for changes as for all keys.
const KEY_ROOM_BYTES: u64 = 256;
/// Number of runs that marks the record of a deleted key in an index log.
const DELETED: u8 = u8::MAX;
/// Alignment in bytes of the length of a half: a page of a store.
const PAGE_BYTES: u64 = 4096;

/// Returns the length in bytes of the key index in a store's file, both halves together.
pub(super) fn index_bytes(layout: &KeyLayout) -> u64 {
    2 * log_half_bytes(layout)
}

fn log_half_bytes(layout: &KeyLayout) -> u64 {
    (HEAD_BYTES + u64::from(layout.keys_max) * KEY_ROOM_BYTES).next_multiple_of(PAGE_BYTES)
}

/// Keys that an index log contains, each with its value.
pub(super) type LoggedKeyValues = Vec<(Key, StoredKeyValue)>;

/// Log of a store's key index: position of its halves, and state of the valid one.
#[derive(Debug)]
pub(super) struct KeyIndexLog {
    layout: KeyLayout,
    /// Offset of the first half in the store.
    start: u64,
    /// Number of the valid half; `generation` is its generation, 0 if there is none yet.
    half: u64,
    generation: u64,
    /// Offset in the index log's valid half at which the next record begins.
    end: u64,
}

impl KeyIndexLog {
    /// Opens the log that begins at offset `start` of a store, which `read` reads. Returns the log, with the keys in
    /// it.
    ///
    /// # Errors
    ///
    /// If a read fails, or the log belongs to a namespace of another layout.
    pub(super) fn open(
        layout: KeyLayout,
        start: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<(KeyIndexLog, LoggedKeyValues)> {
        let mut log = KeyIndexLog { layout, start, half: 1, generation: 0, end: log_half_bytes(&layout) };
        for half in 0..2 {
            let mut head = [0; wide_index(HEAD_BYTES)];
            read(start + half * log_half_bytes(&layout), &mut head)?;
            let generation = log.half_generation(&head)?;
            if generation > log.generation {
                (log.half, log.generation) = (half, generation);
            }
        }
        if log.generation == 0 {
            return Ok((log, Vec::new()));
        }
        let mut records = vec![0; wide_index(log_half_bytes(&layout) - HEAD_BYTES)];
        read(log.place() + HEAD_BYTES, &mut records)?;
        // Set the log's end to the end of its half, so that the next change starts the other half. Complete records may
        // follow a torn one, and would become valid again if new records were written over the torn one.
        let keys = decode_log_records(&records, log.generation);
        Ok((log, keys))
    }

    /// Returns the generation of a half from its head, or 0 if the head is invalid. Fails if its layout is another one.
    fn half_generation(&self, head: &[u8; wide_index(HEAD_BYTES)]) -> io::Result<u64> {
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

    /// Returns the offset in the store of the valid half.
    fn place(&self) -> u64 {
        self.start + self.half * log_half_bytes(&self.layout)
    }

    /// True if records of `bytes` bytes can be appended to the index log's valid half.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.generation > 0 && self.end + length(bytes) <= log_half_bytes(&self.layout)
    }

    /// Encodes the index log's record of a key with its value, or of the key's deletion if there is no value.
    pub(super) fn record(key: Key, value: Option<&StoredKeyValue>) -> Vec<u8> {
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

    /// Encodes records for an index log of this generation, each with its length and checksum.
    fn encode_log_records(records: &[Vec<u8>], generation: u64) -> Vec<u8> {
        let sealed = |record: &Vec<u8>| {
            let length = short_length(record.len()).to_le_bytes();
            [&length[..], &checksum(generation, record).to_le_bytes(), record].concat()
        };
        records.iter().flat_map(sealed).collect()
    }

    /// Appends records of changed keys to the valid half of a key-value store's index log, and flushes them.
    ///
    /// # Errors
    ///
    /// Errors of `write` and `flush`. The log then ends where it did before.
    pub(super) fn append(
        &mut self,
        records: &[Vec<u8>],
        write: impl Fn(u64, &[u8]) -> io::Result<()>,
        flush: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let bytes = KeyIndexLog::encode_log_records(records, self.generation);
        write(self.place() + self.end, &bytes)?;
        flush()?;
        self.end += length(bytes.len());
        Ok(())
    }

    /// Writes the records of all keys to the index log's other half, flushes it, and makes it the valid half.
    ///
    /// # Errors
    ///
    /// Errors of `write` and `flush`. The valid half then stays as it was.
    pub(super) fn rewrite_other_half(
        &mut self,
        records: &[Vec<u8>],
        write: impl Fn(u64, &[u8]) -> io::Result<()>,
        flush: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let (half, generation) = (1 - self.half, self.generation + 1);
        let place = self.start + half * log_half_bytes(&self.layout);
        let bytes = KeyIndexLog::encode_log_records(records, generation);
        // An earlier attempt of the same generation may have left records here before its head was written. End the new
        // records with an empty one, so that those are not read.
        write(place + HEAD_BYTES, &[&bytes[..], &[0; RECORD_HEAD_BYTES]].concat())?;
        flush()?;
        write(place, &self.head(generation))?;
        flush()?;
        (self.half, self.generation, self.end) = (half, generation, HEAD_BYTES + length(bytes.len()));
        Ok(())
    }

    /// Encodes the head of a half with a generation.
    fn head(&self, generation: u64) -> [u8; wide_index(HEAD_BYTES)] {
        let KeyLayout { capacity_bytes, granule_bytes, keys_max } = self.layout;
        let mut head = [0; wide_index(HEAD_BYTES)];
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

/// Returns the keys that exist after a sequence of the index log's records, up to the first incomplete one.
fn decode_log_records(records: &[u8], generation: u64) -> LoggedKeyValues {
    let mut keys = std::collections::BTreeMap::new();
    let mut rest = records;
    while let Some((record, others)) = split_first_log_record(rest, generation) {
        let Some((key, value)) = decode_log_record(record) else { break };
        match value {
            Some(value) => keys.insert(key, value),
            None => keys.remove(&key),
        };
        rest = others;
    }
    keys.into_iter().collect()
}

/// Splits the first record off a sequence of the index log's records. None if it is incomplete, or of another
/// generation.
fn split_first_log_record(records: &[u8], generation: u64) -> Option<(&[u8], &[u8])> {
    let (head, rest) = records.split_first_chunk::<RECORD_HEAD_BYTES>()?;
    let [length, expected] = [0, 1].map(|word| u32::from_le_bytes(head.as_chunks().0[word]));
    let (record, others) = rest.split_at_checked(index(length)).filter(|_| length > 0)?;
    (checksum(generation, record) == expected).then_some((record, others))
}

/// Decodes key and value of a record of the index log; no value if the record deletes the key. None if the record is
/// invalid.
fn decode_log_record(record: &[u8]) -> Option<(Key, Option<StoredKeyValue>)> {
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
    Some((key, Some(StoredKeyValue { bytes, runs })))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use phaselink_core::media::keys::GranuleRange;

    use super::*;

    const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: 1 << 20, granule_bytes: 512, keys_max: 16 };

    /// Bytes of a simulated disk, which fails after `left` more bytes have been written.
    struct Disk {
        bytes: RefCell<Vec<u8>>,
        left: RefCell<usize>,
    }

    impl Disk {
        fn new() -> Disk {
            let bytes = RefCell::new(vec![0; 100 + index_bytes(&LAYOUT) as usize]);
            Disk { bytes, left: RefCell::new(usize::MAX) }
        }

        /// Writes as many bytes as the disk still takes, as if the power failed then.
        fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
            let taken = from.len().min(*self.left.borrow());
            self.bytes.borrow_mut()[at as usize..][..taken].copy_from_slice(&from[..taken]);
            *self.left.borrow_mut() -= taken;
            if taken == from.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn open(&self) -> (KeyIndexLog, LoggedKeyValues) {
            let bytes = self.bytes.borrow();
            let read = |at: u64, into: &mut [u8]| {
                into.copy_from_slice(&bytes[at as usize..][..into.len()]);
                Ok(())
            };
            KeyIndexLog::open(LAYOUT, 100, read).unwrap()
        }
    }

    fn value(bytes: u32, runs: &[GranuleRange]) -> StoredKeyValue {
        StoredKeyValue { bytes, runs: runs.iter().copied().collect() }
    }

    fn key(number: u64) -> Key {
        Key::of_number(number)
    }

    fn encode_put_record(number: u64, bytes: u32) -> Vec<u8> {
        KeyIndexLog::record(key(number), Some(&value(bytes, &[(number, 1), (number + 50, 2)])))
    }

    #[test]
    fn log_decodes_to_the_last_keys_and_fits_its_longest_record() {
        let disk = Disk::new();
        let (mut log, keys) = disk.open();
        assert!(keys.is_empty() && !log.has_room(0));
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.rewrite_other_half(&[encode_put_record(1, 600), encode_put_record(2, 700)], write, || Ok(())).unwrap();
        log.append(&[KeyIndexLog::record(key(1), None), encode_put_record(3, 0)], write, || Ok(())).unwrap();
        let (again, keys) = disk.open();
        let expected =
            [(2, 700), (3, 0)].map(|(number, bytes)| (key(number), value(bytes, &[(number, 1), (number + 50, 2)])));
        assert_eq!(keys, expected);
        assert_eq!((again.half, again.generation), (log.half, log.generation));
        assert!(log.has_room(9) && !again.has_room(9), "each server begins a half of its own");
        let longest =
            KeyIndexLog::record(key(0), Some(&value(4096, &[(u64::MAX, 1); phaselink_core::media::keys::PARTS_MAX])));
        assert!((longest.len() + RECORD_HEAD_BYTES) as u64 * 2 <= KEY_ROOM_BYTES);
    }

    /// Any number of bytes of an append, or of a new half, may be on the disk when the power fails.
    #[test]
    fn log_truncated_by_power_failure_has_a_state_between_two_flushes() {
        for cut in 0..200 {
            let disk = Disk::new();
            let (mut log, _) = disk.open();
            let write = |at, bytes: &[u8]| disk.write(at, bytes);
            log.rewrite_other_half(&[encode_put_record(1, 100)], write, || Ok(())).unwrap();
            *disk.left.borrow_mut() = cut;
            let appended =
                log.append(&[encode_put_record(2, 200), KeyIndexLog::record(key(1), None)], write, || Ok(()));
            let numbers = |keys: LoggedKeyValues| keys.iter().map(|(_, value)| value.bytes).collect::<Vec<_>>();
            let found = numbers(disk.open().1);
            assert!([&[100][..], &[100, 200], &[200]].contains(&&found[..]), "{cut}: {found:?}");
            assert!(appended.is_err() || found == [200]);
        }
        for cut in 0..700 {
            let disk = Disk::new();
            let (mut log, _) = disk.open();
            let write = |at, bytes: &[u8]| disk.write(at, bytes);
            log.rewrite_other_half(&[encode_put_record(1, 100)], write, || Ok(())).unwrap();
            *disk.left.borrow_mut() = cut;
            let begun = log.rewrite_other_half(&[encode_put_record(2, 200)], write, || Ok(()));
            let bytes = disk.open().1[0].1.bytes;
            assert_eq!(bytes, if begun.is_ok() { 200 } else { 100 }, "{cut}");
        }
    }

    #[test]
    fn records_of_another_generation_after_the_log_end_are_ignored() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.rewrite_other_half(
            &[encode_put_record(1, 1), encode_put_record(2, 2), encode_put_record(3, 3)],
            write,
            || Ok(()),
        )
        .unwrap();
        log.rewrite_other_half(&[encode_put_record(1, 1)], write, || Ok(())).unwrap();
        log.rewrite_other_half(&[encode_put_record(4, 4)], write, || Ok(())).unwrap();
        assert_eq!(disk.open().1.len(), 1, "two of three records of the first generation are behind it");
    }

    #[test]
    fn complete_records_after_a_torn_record_are_ignored() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        let write = |at, bytes: &[u8]| disk.write(at, bytes);
        log.rewrite_other_half(&[encode_put_record(1, 1)], write, || Ok(())).unwrap();
        let torn_at = (log.place() + log.end) as usize + RECORD_HEAD_BYTES;
        log.append(&[encode_put_record(2, 2), encode_put_record(3, 3)], write, || Ok(())).unwrap();
        disk.bytes.borrow_mut()[torn_at] ^= 1;
        let (mut log, keys) = disk.open();
        assert_eq!(keys.len(), 1);
        let record = KeyIndexLog::encode_log_records(&[encode_put_record(1, 1)], 0).len();
        // Power fails after three records have been written to the new half, but before its head.
        *disk.left.borrow_mut() = 3 * record;
        log.rewrite_other_half(
            &[encode_put_record(1, 1), encode_put_record(2, 2), encode_put_record(3, 3)],
            write,
            || Ok(()),
        )
        .unwrap_err();
        *disk.left.borrow_mut() = usize::MAX;
        let (mut log, keys) = disk.open();
        assert_eq!(keys.len(), 1);
        log.rewrite_other_half(&[encode_put_record(4, 4)], write, || Ok(())).unwrap();
        assert_eq!(disk.open().1, [(key(4), value(4, &[(4, 1), (54, 2)]))]);
    }

    #[test]
    fn log_of_another_layout_is_refused() {
        let disk = Disk::new();
        let (mut log, _) = disk.open();
        log.rewrite_other_half(&[], |at, bytes| disk.write(at, bytes), || Ok(())).unwrap();
        let other = KeyLayout { granule_bytes: 4096, ..LAYOUT };
        let bytes = disk.bytes.borrow();
        let read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at as usize..][..into.len()]);
            Ok(())
        };
        let refused = KeyIndexLog::open(other, 100, read).unwrap_err().to_string();
        assert_eq!(refused, "the store holds up to 16 keys, and 1048576 bytes of values in granules of 512");
    }
}
