//! Keys and values of a store, and their persistence in its file.
//!
//! Values lie where the store has free space. A value is written before its key refers to it, and the space of a
//! replaced value is not used again while it may be read. So a reader finds the old value or the new one, and never
//! parts of both.
//!
//! Like a drive with a volatile write cache, the store saves keys with their values at a flush only. Changes after the
//! last flush are lost when the server ends. The space of values that the last flush has saved is not used again before
//! the next flush. A store that is opened has the keys of the last flush, each with its whole value.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use phaselink_core::media::keys::{Key, KeyLayout, KeySpace, KeySpaceRefusal, StoreConditions, StoredKeyValue};

use super::index_log::{KeyIndexLog, LoggedKeyValues};
use crate::device::tally::locked;

/// Keys and values of a store, shared by all threads.
#[derive(Debug)]
pub struct StoreKeys {
    table: RwLock<KeyTable>,
    /// Log of the key index in the file; none for a store in memory. It stays locked for as long as a flush takes.
    log: Option<Mutex<KeyIndexLog>>,
}

/// Keys and values, with their changes since the last flush.
#[derive(Debug)]
struct KeyTable {
    space: KeySpace,
    changed: BTreeSet<Key>,
    /// True if all keys have been deleted at once since the last flush; `clears` counts how often that happened.
    is_cleared: bool,
    clears: u64,
}

/// Space on the drive that has been reserved for a value.
#[derive(Debug)]
pub struct ReservedRoom {
    /// Length in bytes and place of the value.
    pub value: StoredKeyValue,
    /// Value of the table's `clears` at the reservation. If all keys are deleted at once later, the space becomes free
    /// without being given back.
    clears: u64,
}

impl KeyTable {
    fn new(space: KeySpace) -> KeyTable {
        KeyTable { space, changed: BTreeSet::new(), is_cleared: false, clears: 0 }
    }

    /// Returns the index log's records of the keys that have changed since the last flush.
    fn changes(&self) -> Vec<Vec<u8>> {
        self.changed.iter().map(|key| KeyIndexLog::record(*key, self.space.find(*key))).collect()
    }

    /// Returns the records of all keys, as the store's index log holds them.
    fn all(&self) -> Vec<Vec<u8>> {
        self.space.iter_from_key(Key::default()).map(|(key, value)| KeyIndexLog::record(*key, Some(value))).collect()
    }
}

/// Changes of the keys that one flush makes durable.
struct FlushedChanges {
    records: Vec<Vec<u8>>,
    /// True if `records` has every key, so that the index log is rewritten. False if it has only changed keys, which
    /// are appended.
    is_all: bool,
    changed: BTreeSet<Key>,
    is_cleared: bool,
    held: Vec<phaselink_core::media::keys::GranuleRange>,
}

impl StoreKeys {
    /// Returns the keys of a new store in memory, which ends with the process: none.
    pub(super) fn in_memory(layout: KeyLayout) -> StoreKeys {
        StoreKeys { table: RwLock::new(KeyTable::new(KeySpace::new(layout))), log: None }
    }

    /// Returns the keys of a store in a file, with the content of its log.
    ///
    /// # Errors
    ///
    /// If values overlap or lie outside the store, because the log is damaged.
    pub(super) fn of_log(layout: KeyLayout, log: KeyIndexLog, keys: LoggedKeyValues) -> io::Result<StoreKeys> {
        let mut space = KeySpace::holding(layout);
        if keys.into_iter().any(|(key, value)| !space.restore(key, value)) {
            let found = "the store holds values that lie outside of it, or overlap: its index is damaged";
            return Err(io::Error::new(io::ErrorKind::InvalidData, found));
        }
        Ok(StoreKeys { table: RwLock::new(KeyTable::new(space)), log: Some(Mutex::new(log)) })
    }

    fn lock_table_for_reading(&self) -> RwLockReadGuard<'_, KeyTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_table_for_writing(&self) -> RwLockWriteGuard<'_, KeyTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `look` with the keys. Meanwhile no key changes, and the space of no value is used for another.
    #[inline]
    pub fn with<T>(&self, look: impl FnOnce(&KeySpace) -> T) -> T {
        look(&self.lock_table_for_reading().space)
    }

    /// Returns the number of bytes that keys and values occupy.
    pub fn used_bytes(&self) -> u64 {
        self.with(KeySpace::used_bytes)
    }

    /// Reserves space for the value of a key. The caller writes the value there before [`StoreKeys::commit`].
    ///
    /// # Errors
    ///
    /// Errors of [`KeySpace::check_store_conditions`] and [`KeySpace::reserve`]. The refusal `Held` means that a flush frees
    /// enough space.
    pub fn reserve(&self, key: Key, bytes: u32, options: StoreConditions) -> Result<ReservedRoom, KeySpaceRefusal> {
        let mut table = self.lock_table_for_writing();
        table.space.check_store_conditions(key, options)?;
        Ok(ReservedRoom { value: table.space.reserve(bytes)?, clears: table.clears })
    }

    /// Makes a key refer to a value that has been written to its reserved space. Does nothing if all keys have been
    /// deleted since the reservation.
    ///
    /// # Errors
    ///
    /// Errors of [`KeySpace::commit`].
    pub fn commit(&self, key: Key, room: ReservedRoom, options: StoreConditions) -> Result<(), KeySpaceRefusal> {
        let mut table = self.lock_table_for_writing();
        if room.clears == table.clears {
            table.space.commit(key, room.value, options)?;
            self.note(&mut table, key);
        }
        Ok(())
    }

    /// Frees the reserved space of a value that could not be written.
    pub fn give_back(&self, room: &ReservedRoom) {
        let mut table = self.lock_table_for_writing();
        if room.clears == table.clears {
            table.space.give_back(&room.value);
        }
    }

    /// Calls `change` to change a key, and records the change for the next flush.
    ///
    /// # Errors
    ///
    /// Errors of `change`.
    pub fn change<T, E>(&self, key: Key, change: impl FnOnce(&mut KeySpace) -> Result<T, E>) -> Result<T, E> {
        let mut table = self.lock_table_for_writing();
        let changed = change(&mut table.space)?;
        self.note(&mut table, key);
        Ok(changed)
    }

    /// Records that a key has changed, if the store has a log.
    fn note(&self, table: &mut KeyTable, key: Key) {
        if self.log.is_some() {
            table.changed.insert(key);
        }
    }

    /// Deletes all keys, after the caller has cleared the bytes of the store.
    pub fn clear(&self) {
        let mut table = self.lock_table_for_writing();
        table.space.clear();
        table.changed.clear();
        table.clears += 1;
        table.is_cleared = self.log.is_some();
    }

    /// Flushes the store by `flush`, and makes the keys durable as they were when the flush began. `write` writes bytes
    /// of the store.
    ///
    /// # Errors
    ///
    /// Errors of `flush` and `write`. The next flush then makes these changes durable.
    pub(super) fn flush(
        &self,
        flush: impl Fn() -> io::Result<()>,
        write: impl Fn(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(log) = &self.log else { return flush() };
        let mut log = locked(log);
        let changes = self.begin_flush(&log);
        let kept = flush().and_then(|()| match (changes.is_all, changes.records.is_empty()) {
            (true, _) => log.rewrite_other_half(&changes.records, &write, &flush),
            (false, true) => Ok(()),
            (false, false) => log.append(&changes.records, &write, &flush),
        });
        self.end_flush(changes, kept.is_ok());
        kept
    }

    /// Takes the changes that a flush is to make durable out of the table.
    fn begin_flush(&self, log: &KeyIndexLog) -> FlushedChanges {
        let mut table = self.lock_table_for_writing();
        let mut records = table.changes();
        // Each record has a head of 8 bytes in the log.
        let bytes = records.iter().map(|record| record.len() + 8).sum();
        let is_all = table.is_cleared || !records.is_empty() && !log.has_room(bytes);
        if is_all {
            records = table.all();
        }
        FlushedChanges {
            records,
            is_all,
            changed: std::mem::take(&mut table.changed),
            is_cleared: std::mem::take(&mut table.is_cleared),
            held: table.space.take_held_space(),
        }
    }

    /// Ends a flush. If it succeeded, frees space that the saved index no longer needs; otherwise keeps the changes for
    /// the next flush.
    fn end_flush(&self, changes: FlushedChanges, is_kept: bool) {
        let mut table = self.lock_table_for_writing();
        match is_kept {
            // If all keys were deleted in the meantime, the space is free already.
            true if !table.is_cleared => table.space.release(changes.held),
            true => {}
            false => {
                if !table.is_cleared {
                    table.changed.extend(changes.changed);
                    table.space.hold(changes.held);
                }
                table.is_cleared |= changes.is_cleared;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::index_log::index_bytes;
    use super::*;

    const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: 8 * 512, granule_bytes: 512, keys_max: 16 };

    fn open_keys_on_disk(disk: &Mutex<Vec<u8>>) -> StoreKeys {
        let bytes = locked(disk);
        let read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at as usize..][..into.len()]);
            Ok(())
        };
        let (log, keys) = KeyIndexLog::open(LAYOUT, 0, read).unwrap();
        StoreKeys::of_log(LAYOUT, log, keys).unwrap()
    }

    fn flush(keys: &StoreKeys, disk: &Mutex<Vec<u8>>, meanwhile: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let write = |at: u64, from: &[u8]| {
            locked(disk)[at as usize..][..from.len()].copy_from_slice(from);
            Ok(())
        };
        keys.flush(meanwhile, write)
    }

    fn store(keys: &StoreKeys, number: u64, granules: u32) -> Result<(), KeySpaceRefusal> {
        let (key, options) = (Key::of_number(number), StoreConditions::default());
        let value = keys.reserve(key, granules * 512, options)?;
        keys.commit(key, value, options)
    }

    fn stored_value_numbers(keys: &StoreKeys) -> Vec<u32> {
        keys.with(|space| space.iter_from_key(Key::default()).map(|(_, value)| value.bytes / 512).collect())
    }

    #[test]
    fn reopened_store_has_the_keys_of_the_last_flush_and_reuses_no_space_earlier() {
        let disk = Mutex::new(vec![0; index_bytes(&LAYOUT) as usize]);
        let keys = open_keys_on_disk(&disk);
        store(&keys, 1, 3).unwrap();
        store(&keys, 2, 1).unwrap();
        flush(&keys, &disk, || Ok(())).unwrap();
        store(&keys, 1, 4).unwrap();
        assert_eq!(
            stored_value_numbers(&open_keys_on_disk(&disk)),
            [3, 1],
            "the second value of key 1 is not kept yet"
        );
        assert_eq!(store(&keys, 3, 3), Err(KeySpaceRefusal::Held));
        flush(&keys, &disk, || Ok(())).unwrap();
        assert_eq!((stored_value_numbers(&open_keys_on_disk(&disk)), store(&keys, 3, 3)), (vec![4, 1], Ok(())));
        keys.change(Key::of_number(2), |space| space.delete(Key::of_number(2))).unwrap();
        flush(&keys, &disk, || Ok(())).unwrap();
        assert_eq!(stored_value_numbers(&open_keys_on_disk(&disk)), [4, 3]);
        assert_eq!(open_keys_on_disk(&disk).with(KeySpace::inconsistency), None);
    }

    #[test]
    fn key_changes_during_a_flush_belong_to_the_next_flush() {
        let disk = Mutex::new(vec![0; index_bytes(&LAYOUT) as usize]);
        let keys = open_keys_on_disk(&disk);
        store(&keys, 1, 1).unwrap();
        let is_first = Cell::new(true);
        let meanwhile = || {
            if is_first.replace(false) {
                store(&keys, 1, 2).unwrap();
                store(&keys, 2, 2).unwrap();
            }
            Ok(())
        };
        flush(&keys, &disk, meanwhile).unwrap();
        assert_eq!(stored_value_numbers(&open_keys_on_disk(&disk)), [1]);
        assert_eq!(store(&keys, 3, 4), Err(KeySpaceRefusal::Held), "the first value of key 1 is the one that is kept");
        flush(&keys, &disk, || Ok(())).unwrap();
        assert_eq!(stored_value_numbers(&open_keys_on_disk(&disk)), [2, 2]);
    }

    #[test]
    fn failed_flush_leaves_its_key_changes_to_the_next_flush() {
        let disk = Mutex::new(vec![0; index_bytes(&LAYOUT) as usize]);
        let keys = open_keys_on_disk(&disk);
        store(&keys, 1, 4).unwrap();
        assert!(flush(&keys, &disk, || Err(io::ErrorKind::Other.into())).is_err());
        store(&keys, 1, 4).unwrap();
        assert_eq!(
            (stored_value_numbers(&open_keys_on_disk(&disk)), store(&keys, 2, 1)),
            (vec![], Err(KeySpaceRefusal::Held))
        );
        flush(&keys, &disk, || Ok(())).unwrap();
        assert_eq!((stored_value_numbers(&open_keys_on_disk(&disk)), store(&keys, 2, 1)), (vec![4], Ok(())));
    }

    #[test]
    fn index_log_is_rewritten_when_full_and_when_all_keys_are_deleted() {
        let disk = Mutex::new(vec![0; index_bytes(&LAYOUT) as usize]);
        let keys = open_keys_on_disk(&disk);
        for round in 0..500 {
            store(&keys, round % 3, 1 + (round % 2) as u32).unwrap();
            flush(&keys, &disk, || Ok(())).unwrap();
        }
        assert_eq!(stored_value_numbers(&open_keys_on_disk(&disk)), stored_value_numbers(&keys));
        keys.clear();
        assert_eq!(store(&keys, 9, 8), Ok(()), "all room is free");
        flush(&keys, &disk, || Ok(())).unwrap();
        assert_eq!((stored_value_numbers(&open_keys_on_disk(&disk)), keys.used_bytes()), (vec![8], 8 * 512 + 8));
    }

    #[test]
    fn value_reserved_before_deletion_of_all_keys_is_discarded() {
        let keys = StoreKeys::in_memory(LAYOUT);
        let (key, options) = (Key::of_number(1), StoreConditions::default());
        let [stored, failed] = [(); 2].map(|()| keys.reserve(key, 2 * 512, options).unwrap());
        keys.clear();
        keys.commit(key, stored, options).unwrap();
        keys.give_back(&failed);
        assert_eq!((stored_value_numbers(&keys), keys.with(KeySpace::inconsistency)), (vec![], None));
        assert_eq!(store(&keys, 2, 8), Ok(()));
    }

    #[test]
    fn damaged_index_is_refused() {
        let layout = KeyLayout { capacity_bytes: 512, ..LAYOUT };
        let read = |_: u64, into: &mut [u8]| {
            into.fill(0);
            Ok(())
        };
        let value = |first| StoredKeyValue { bytes: 1, runs: [(first, 1)].into_iter().collect() };
        for keys in
            [vec![(Key::of_number(1), value(1))], vec![(Key::of_number(1), value(0)), (Key::of_number(2), value(0))]]
        {
            let (log, _) = KeyIndexLog::open(layout, 0, read).unwrap();
            let refused = StoreKeys::of_log(layout, log, keys).unwrap_err().to_string();
            assert!(refused.contains("index is damaged"), "{refused}");
        }
    }
}
