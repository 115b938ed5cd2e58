//! Values that are stored by their keys: an index of the keys, and the space that the values take on the media (Key
//! Value Command Set Specification 1.0, section 2.1).
//!
//! The key space has no time and moves no bytes. Space is allocated in granules. A value takes whole granules after the
//! value that was stored before it, as in a log, so that small values share pages of the media. At the end of the
//! media, allocation wraps around to the gaps that deleted and replaced values have left.
//!
//! ```text
//!     store:   check ──▶ reserve (room) ──▶ the caller moves the bytes ──▶ commit (index)
//!     delete:  index ──▶ room is free, or held until it is released
//! ```
//!
//! A value that replaces another one has space of its own, so that the old value is whole until the new one is. A
//! caller whose index survives a power loss only as of the last flush holds the space of old values until then.

mod pages;
mod room;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::number::{length, low_u32, narrow};
pub use pages::{IndexPageAccess, KeyIndexPages};
use room::FreeGranuleRuns;

/// Largest length of a key in bytes: the size of the key field of a command.
pub const KEY_BYTES_MAX: usize = 16;
/// Largest number of runs of granules that hold one value, so that an index entry is bounded (assumed).
pub const PARTS_MAX: usize = 8;

/// Key of a stored value, of up to 16 bytes. Keys of different lengths differ, even if only zeros follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Bytes of the key, followed by zeros up to 16 bytes. Bytes and not a number, which would be aligned to 16 bytes
    /// in every command.
    padded: [u8; KEY_BYTES_MAX],
    bytes: u8,
}

impl Key {
    /// Returns the key with these bytes; `None` if there are more than 16.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let mut padded = [0; KEY_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Key { padded, bytes: narrow::<u8, usize>(bytes.len()) })
    }

    /// Returns the key whose 8 bytes are `number` in big-endian order.
    pub fn of_number(number: u64) -> Key {
        Key { padded: (u128::from(number) << 64).to_be_bytes(), bytes: 8 }
    }

    /// Returns the bytes of the key, followed by zeros up to 16 bytes.
    pub fn padded(&self) -> [u8; KEY_BYTES_MAX] {
        self.padded
    }

    /// Returns the length of the key in bytes, from 0 to 16.
    pub fn length(&self) -> u8 {
        self.bytes
    }

    /// Returns a 64-bit hash of the key, evenly spread for keys of any kind (the finaliser of SplitMix64: Steele, Lea
    /// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    fn spread(&self) -> u64 {
        let number = u128::from_be_bytes(self.padded);
        let folded = (number >> 64) as u64 ^ (number as u64).rotate_left(32) ^ u64::from(self.bytes);
        let mixed = (folded ^ folded >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Size of a key space: bytes for values, allocation granule, and number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// Number of bytes of the media that hold values, a multiple of the granule.
    pub capacity_bytes: u64,
    /// Number of bytes in a granule, the unit in which space is allocated to values.
    pub granule_bytes: u32,
    /// Largest number of keys in the key space.
    pub keys_max: u32,
}

/// Run of adjacent allocation granules of the media: number of the first granule, and number of granules.
pub type GranuleRange = (u64, u32);

/// Stored value of a key: its length in bytes, and the granules of the media that hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredKeyValue {
    /// Length of the value in bytes.
    pub bytes: u32,
    /// Runs of allocation granules that hold the value, in the order of its bytes.
    pub runs: SmallVec<[GranuleRange; 1]>,
}

impl StoredKeyValue {
    /// Returns a pair for each run that holds some of the first `bytes` bytes of the value: offset on the media and
    /// length, in bytes. At most the whole value is covered.
    pub fn parts(&self, bytes: u32, granule_bytes: u32) -> impl Iterator<Item = (u64, u32)> {
        let (mut left, granule) = (bytes.min(self.bytes), u64::from(granule_bytes));
        let runs = self.runs.iter().map(move |(first, granules)| {
            let here = low_u32((u64::from(*granules) * granule).min(left.into()));
            left -= here;
            (first * granule, here)
        });
        runs.take_while(|(_, bytes)| *bytes > 0)
    }

    fn granules(&self) -> u64 {
        self.runs.iter().map(|(_, granules)| u64::from(*granules)).sum()
    }
}

/// Conditions of a store on the existence of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreConditions {
    /// True if a store is refused unless its key already exists.
    pub must_exist: bool,
    /// True if a store is refused when its key already exists.
    pub must_be_new: bool,
}

/// Reason for which a request to a key space is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpaceRefusal {
    /// The key of the request does not exist.
    Missing,
    /// The key exists, and the request requires that it does not.
    Exists,
    /// The key space is full: there is too little space for the value, or there are as many keys as allowed.
    Full,
    /// There is too little space for the value now, but some space is held and will be free once it is released.
    Held,
}

/// Key space: an index from keys to values, and the free and held space of the media.
#[derive(Clone, Debug)]
pub struct KeySpace {
    layout: KeyLayout,
    values: BTreeMap<Key, StoredKeyValue>,
    room: FreeGranuleRuns,
    /// Runs of allocation granules of deleted and replaced values that are held, and not free yet.
    held: Vec<GranuleRange>,
    /// True if the space of deleted and replaced values is held until it is released; false if it is free at once.
    holds: bool,
    /// Number of allocation granules that all values in the index take.
    used_granules: u64,
    /// Number of bytes of all keys in the index.
    key_bytes: u64,
}

impl KeySpace {
    /// Creates a key space without keys, in which the space of deleted and replaced values is free at once.
    pub fn new(layout: KeyLayout) -> KeySpace {
        KeySpace {
            layout,
            values: BTreeMap::new(),
            room: FreeGranuleRuns::new(layout.capacity_bytes / u64::from(layout.granule_bytes)),
            held: Vec::new(),
            holds: false,
            used_granules: 0,
            key_bytes: 0,
        }
    }

    /// Creates a key space without keys, which holds the space of deleted and replaced values until it is
    /// [released](KeySpace::release).
    pub fn holding(layout: KeyLayout) -> KeySpace {
        KeySpace { holds: true, ..KeySpace::new(layout) }
    }

    /// Returns the sizes of the key space: bytes for values, granule and number of keys.
    pub fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// Returns the number of keys that have a value.
    pub fn keys(&self) -> u64 {
        length(self.values.len())
    }

    /// Returns the number of bytes in use: whole granules of all values, and the bytes of all keys. Held space does not
    /// count.
    pub fn used_bytes(&self) -> u64 {
        self.used_granules * u64::from(self.layout.granule_bytes) + self.key_bytes
    }

    /// Returns the value that is stored under a key; `None` if the key does not exist.
    #[inline]
    pub fn find(&self, key: Key) -> Option<&StoredKeyValue> {
        self.values.get(&key)
    }

    /// Returns all keys from `key` on, in the order of their bytes, each with its value.
    pub fn iter_from_key(&self, key: Key) -> impl Iterator<Item = (&Key, &StoredKeyValue)> {
        self.values.range(key..)
    }

    /// Checks the conditions of a store that do not depend on its value: existence of the key, and number of keys.
    ///
    /// # Errors
    /// The key exists, or does not, and the options say otherwise; or there are as many keys as allowed.
    pub fn check_store_conditions(&self, key: Key, options: StoreConditions) -> Result<(), KeySpaceRefusal> {
        let is_there = self.values.contains_key(&key);
        match is_there {
            true if options.must_be_new => Err(KeySpaceRefusal::Exists),
            false if options.must_exist => Err(KeySpaceRefusal::Missing),
            false if self.keys() >= u64::from(self.layout.keys_max) => Err(KeySpaceRefusal::Full),
            _ => Ok(()),
        }
    }

    /// Reserves space for a value of `bytes` bytes, to be used by [`KeySpace::commit`] or returned by
    /// [`KeySpace::give_back`].
    ///
    /// # Errors
    /// There is too little space, or it is in too many runs.
    pub fn reserve(&mut self, bytes: u32) -> Result<StoredKeyValue, KeySpaceRefusal> {
        let granules = u64::from(bytes.div_ceil(self.layout.granule_bytes));
        match self.room.take(granules, PARTS_MAX) {
            Some(runs) => Ok(StoredKeyValue { bytes, runs }),
            None if self.held.is_empty() => Err(KeySpaceRefusal::Full),
            None => Err(KeySpaceRefusal::Held),
        }
    }

    /// Stores a value in the space that was reserved for it. Returns the value that it has replaced, if there was one.
    ///
    /// # Errors
    /// As [`KeySpace::check_store_conditions`]: other requests may have come in between. The reserved space is then freed.
    pub fn commit(
        &mut self,
        key: Key,
        value: StoredKeyValue,
        options: StoreConditions,
    ) -> Result<Option<StoredKeyValue>, KeySpaceRefusal> {
        if let Err(refusal) = self.check_store_conditions(key, options) {
            self.give_back(&value);
            return Err(refusal);
        }
        self.used_granules += value.granules();
        let replaced = self.values.insert(key, value);
        match &replaced {
            Some(replaced) => self.free(replaced),
            None => self.key_bytes += u64::from(key.length()),
        }
        Ok(replaced)
    }

    /// Frees the space that was reserved for a value which is not stored after all.
    pub fn give_back(&mut self, value: &StoredKeyValue) {
        value.runs.iter().for_each(|run| self.room.free(*run));
    }

    /// Stores a value of `bytes` bytes under a key. Returns the space of the value, and the value that it has replaced.
    ///
    /// # Errors
    /// As [`KeySpace::check_store_conditions`] and [`KeySpace::reserve`].
    pub fn store(
        &mut self,
        key: Key,
        bytes: u32,
        options: StoreConditions,
    ) -> Result<(StoredKeyValue, Option<StoredKeyValue>), KeySpaceRefusal> {
        self.check_store_conditions(key, options)?;
        let value = self.reserve(bytes)?;
        let replaced = self.commit(key, value.clone(), options)?;
        Ok((value, replaced))
    }

    /// Deletes a key and its value, and returns the value. Its space becomes free, or is held.
    ///
    /// # Errors
    /// The key does not exist.
    pub fn delete(&mut self, key: Key) -> Result<StoredKeyValue, KeySpaceRefusal> {
        let value = self.values.remove(&key).ok_or(KeySpaceRefusal::Missing)?;
        self.key_bytes -= u64::from(key.length());
        self.free(&value);
        Ok(value)
    }

    /// Restores a value to the space that it had when the index was saved. Returns false, and changes nothing, if that
    /// space is in use, lies beyond the media or does not fit the length, or if there are as many keys as allowed.
    pub fn restore(&mut self, key: Key, value: StoredKeyValue) -> bool {
        let granules = u64::from(value.bytes.div_ceil(self.layout.granule_bytes));
        let is_fine = value.granules() == granules && value.runs.len() <= PARTS_MAX;
        if !is_fine || self.check_store_conditions(key, StoreConditions::default()).is_err() {
            return false;
        }
        let taken = value.runs.iter().take_while(|run| self.room.allocate_run(**run)).count();
        if taken < value.runs.len() {
            value.runs[..taken].iter().for_each(|run| self.room.free(*run));
            return false;
        }
        self.commit(key, value, StoreConditions::default()).is_ok()
    }

    /// Deletes all keys, and frees all space, held space included.
    pub fn clear(&mut self) {
        *self = KeySpace { holds: self.holds, ..KeySpace::new(self.layout) };
    }

    /// Removes and returns the space that is held, to be freed later with [`KeySpace::release`].
    pub fn take_held_space(&mut self) -> Vec<GranuleRange> {
        std::mem::take(&mut self.held)
    }

    /// Adds runs of granules to the space that is held, after [`KeySpace::take_held_space`] has removed them.
    pub fn hold(&mut self, runs: Vec<GranuleRange>) {
        self.held.extend(runs);
    }

    /// Frees space that was held, after [`KeySpace::take_held_space`] has removed it.
    pub fn release(&mut self, runs: Vec<GranuleRange>) {
        runs.into_iter().for_each(|run| self.room.free(run));
    }

    /// Returns a pair for each free range of the media: its offset and its length in bytes.
    pub fn free_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let granule = u64::from(self.layout.granule_bytes);
        self.room.runs().map(move |(first, granules)| (first * granule, granules * granule))
    }

    /// Returns the start and the end, in bytes, of the free range that holds the first granule of a run; `None` if that
    /// granule is in use. The end is exclusive.
    pub fn free_range_around(&self, (first, _): GranuleRange) -> Option<(u64, u64)> {
        let granule = u64::from(self.layout.granule_bytes);
        let (start, granules) = self.room.free_run_containing(first)?;
        Some((start * granule, (start + granules) * granule))
    }

    fn free(&mut self, value: &StoredKeyValue) {
        self.used_granules -= value.granules();
        match self.holds {
            true => self.held.extend(value.runs.iter().copied()),
            false => self.give_back(value),
        }
    }

    /// Checks that no granule has two uses, and that the counts of granules agree. Returns a description of the first
    /// contradiction; `None` if there is none.
    pub fn inconsistency(&self) -> Option<String> {
        let granules = self.layout.capacity_bytes / u64::from(self.layout.granule_bytes);
        let held: u64 = self.held.iter().map(|(_, granules)| u64::from(*granules)).sum();
        let valued: u64 = self.values.values().map(StoredKeyValue::granules).sum();
        let mut runs: Vec<(u64, u64)> = self.room.runs().collect();
        let of_values = self.values.values().flat_map(|value| value.runs.iter()).chain(&self.held);
        runs.extend(of_values.map(|(first, granules)| (*first, u64::from(*granules))));
        runs.sort_unstable();
        let overlap = runs.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        match overlap {
            Some(pair) => Some(format!("granules {} and {} have two uses", pair[0].0, pair[1].0)),
            None if valued != self.used_granules => Some(format!("{valued} granules count as {}", self.used_granules)),
            None if self.room.granules() + held + valued > granules => {
                Some(String::from("there is more room than bytes"))
            }
            None => None,
        }
    }
}
