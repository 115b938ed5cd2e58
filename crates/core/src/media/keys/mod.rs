//! Values that are stored by their keys: an index of the keys, and the room that the values take of the media (Key Value Command Set
//! Specification 1.0, section 2.1).
//!
//! The space has no time and moves no bytes. A value takes whole granules behind the value that was stored before it, as a log does,
//! so that small values share pages of the media. At the end it begins again, in the gaps that deleted and replaced values have left.
//!
//! ```text
//!     store:   check ──▶ reserve (room) ──▶ the caller moves the bytes ──▶ commit (index)
//!     delete:  index ──▶ room is free, or held until it is released
//! ```
//!
//! A value that replaces another one has room of its own, so that the old value is whole until the new one is. Callers whose index
//! outlives the power only as of the last flush hold the room of old values until then.

mod pages;
mod room;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::number::{length, low_u32, narrow};
pub use pages::{IndexAccess, IndexPages};
use room::Room;

/// Most bytes of a key: a command has room for no more.
pub const KEY_BYTES_MAX: usize = 16;
/// Most parts of a value, so that the index has bounds (assumed).
pub const PARTS_MAX: usize = 8;

/// Key of a value. Keys of different lengths differ, whatever their bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Bytes of the key; those behind its length are 0. Bytes and no number, which would be aligned to 16 bytes in every command.
    padded: [u8; KEY_BYTES_MAX],
    bytes: u8,
}

impl Key {
    /// Returns the key of these bytes, if they are no more than a key has.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let mut padded = [0; KEY_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Key { padded, bytes: narrow::<u8, usize>(bytes.len()) })
    }

    /// Returns the key of 8 bytes that a number has, its highest byte first.
    pub fn of_number(number: u64) -> Key {
        Key { padded: (u128::from(number) << 64).to_be_bytes(), bytes: 8 }
    }

    /// Returns the bytes of the key; those behind its length are 0.
    pub fn padded(&self) -> [u8; KEY_BYTES_MAX] {
        self.padded
    }

    /// Returns the length of the key in bytes.
    pub fn length(&self) -> u8 {
        self.bytes
    }

    /// Returns a number that is spread evenly over its 64 bits, for keys of any kind (the finaliser of SplitMix64: Steele, Lea and
    /// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    fn spread(&self) -> u64 {
        let number = u128::from_be_bytes(self.padded);
        let folded = (number >> 64) as u64 ^ (number as u64).rotate_left(32) ^ u64::from(self.bytes);
        let mixed = (folded ^ folded >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Size of the space: bytes of values, and number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// Number of bytes that hold values, a multiple of the granule.
    pub capacity_bytes: u64,
    /// Number of bytes in which values get their room.
    pub granule_bytes: u32,
    /// Largest number of keys.
    pub keys_max: u32,
}

/// Run of granules: the first one, and their number.
pub type GranuleRun = (u64, u32);

/// Length and room of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredValue {
    /// Length in bytes.
    pub bytes: u32,
    /// Runs of granules, in the order of the bytes.
    pub runs: SmallVec<[GranuleRun; 1]>,
}

impl StoredValue {
    /// Returns offset and length in bytes of each part of the first `bytes` bytes of the value, or of all of it if that is less.
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

/// Conditions of a store beside room for its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// True if the value is stored only if its key exists.
    pub must_exist: bool,
    /// True if the value is stored only if its key does not exist.
    pub must_be_new: bool,
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The key does not exist.
    Missing,
    /// The key exists.
    Exists,
    /// There is no room for the value, or its key is one more than there may be.
    Full,
    /// There is room for the value once held room is released.
    Held,
}

/// Keys with their values.
#[derive(Clone, Debug)]
pub struct KeySpace {
    layout: KeyLayout,
    values: BTreeMap<Key, StoredValue>,
    room: Room,
    /// Room of values that are gone, if it is held.
    held: Vec<GranuleRun>,
    holds: bool,
    /// Number of granules of all values in the index, and of bytes of all keys.
    used_granules: u64,
    key_bytes: u64,
}

impl KeySpace {
    /// Makes a space without keys, which frees room at once.
    pub fn new(layout: KeyLayout) -> KeySpace {
        KeySpace {
            layout,
            values: BTreeMap::new(),
            room: Room::new(layout.capacity_bytes / u64::from(layout.granule_bytes)),
            held: Vec::new(),
            holds: false,
            used_granules: 0,
            key_bytes: 0,
        }
    }

    /// Makes a space without keys, which holds the room of values that are gone until it is [released](KeySpace::release).
    pub fn holding(layout: KeyLayout) -> KeySpace {
        KeySpace { holds: true, ..KeySpace::new(layout) }
    }

    /// Returns the size of the space.
    pub fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> u64 {
        length(self.values.len())
    }

    /// Returns the bytes that are taken: whole granules of values, and the keys.
    pub fn used_bytes(&self) -> u64 {
        self.used_granules * u64::from(self.layout.granule_bytes) + self.key_bytes
    }

    /// Returns the value of a key.
    #[inline]
    pub fn find(&self, key: Key) -> Option<&StoredValue> {
        self.values.get(&key)
    }

    /// Returns all keys from this one on, in the order of their bytes, with their values.
    pub fn from_key(&self, key: Key) -> impl Iterator<Item = (&Key, &StoredValue)> {
        self.values.range(key..)
    }

    /// Checks the conditions of a store, as far as they do not depend on its value.
    ///
    /// # Errors
    /// The key exists, or does not, and the options say otherwise; or it is one more than there may be.
    pub fn check_store(&self, key: Key, options: StoreOptions) -> Result<(), KeyRefusal> {
        let is_there = self.values.contains_key(&key);
        match is_there {
            true if options.must_be_new => Err(KeyRefusal::Exists),
            false if options.must_exist => Err(KeyRefusal::Missing),
            false if self.keys() >= u64::from(self.layout.keys_max) => Err(KeyRefusal::Full),
            _ => Ok(()),
        }
    }

    /// Reserves the room of a value, which [`KeySpace::commit`] or [`KeySpace::give_back`] takes.
    ///
    /// # Errors
    /// There is too little room, or it is in too many pieces.
    pub fn reserve(&mut self, bytes: u32) -> Result<StoredValue, KeyRefusal> {
        let granules = u64::from(bytes.div_ceil(self.layout.granule_bytes));
        match self.room.take(granules, PARTS_MAX) {
            Some(runs) => Ok(StoredValue { bytes, runs }),
            None if self.held.is_empty() => Err(KeyRefusal::Full),
            None => Err(KeyRefusal::Held),
        }
    }

    /// Stores a value in the room that was reserved for it. Returns the value that it has replaced.
    ///
    /// # Errors
    /// As [`KeySpace::check_store`]: other requests may have come in between. The room is given back then.
    pub fn commit(
        &mut self,
        key: Key,
        value: StoredValue,
        options: StoreOptions,
    ) -> Result<Option<StoredValue>, KeyRefusal> {
        if let Err(refusal) = self.check_store(key, options) {
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

    /// Frees the room of a value that is not stored after all.
    pub fn give_back(&mut self, value: &StoredValue) {
        value.runs.iter().for_each(|run| self.room.free(*run));
    }

    /// Stores a value of so many bytes. Returns its room, and the value that it has replaced.
    ///
    /// # Errors
    /// As [`KeySpace::check_store`] and [`KeySpace::reserve`].
    pub fn store(
        &mut self,
        key: Key,
        bytes: u32,
        options: StoreOptions,
    ) -> Result<(StoredValue, Option<StoredValue>), KeyRefusal> {
        self.check_store(key, options)?;
        let value = self.reserve(bytes)?;
        let replaced = self.commit(key, value.clone(), options)?;
        Ok((value, replaced))
    }

    /// Deletes a key. Returns its value.
    ///
    /// # Errors
    /// The key does not exist.
    pub fn delete(&mut self, key: Key) -> Result<StoredValue, KeyRefusal> {
        let value = self.values.remove(&key).ok_or(KeyRefusal::Missing)?;
        self.key_bytes -= u64::from(key.length());
        self.free(&value);
        Ok(value)
    }

    /// Puts a value back into the room that it had when its index was saved; false if that is not free, or none of this space.
    pub fn restore(&mut self, key: Key, value: StoredValue) -> bool {
        let granules = u64::from(value.bytes.div_ceil(self.layout.granule_bytes));
        let is_fine = value.granules() == granules && value.runs.len() <= PARTS_MAX;
        if !is_fine || self.check_store(key, StoreOptions::default()).is_err() {
            return false;
        }
        let taken = value.runs.iter().take_while(|run| self.room.take_run(**run)).count();
        if taken < value.runs.len() {
            value.runs[..taken].iter().for_each(|run| self.room.free(*run));
            return false;
        }
        self.commit(key, value, StoreOptions::default()).is_ok()
    }

    /// Deletes all keys, and frees all room.
    pub fn clear(&mut self) {
        *self = KeySpace { holds: self.holds, ..KeySpace::new(self.layout) };
    }

    /// Takes the room that has been held since the last call, for [`KeySpace::release`].
    pub fn take_held(&mut self) -> Vec<GranuleRun> {
        std::mem::take(&mut self.held)
    }

    /// Holds room again that was taken from what is held.
    pub fn hold(&mut self, runs: Vec<GranuleRun>) {
        self.held.extend(runs);
    }

    /// Frees room that was held.
    pub fn release(&mut self, runs: Vec<GranuleRun>) {
        runs.into_iter().for_each(|run| self.room.free(run));
    }

    /// Returns offset and length in bytes of all room that is free.
    pub fn free_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let granule = u64::from(self.layout.granule_bytes);
        self.room.runs().map(move |(first, granules)| (first * granule, granules * granule))
    }

    /// Returns the first byte of the free room that a run lies in, and the one behind its last, if the run is free.
    pub fn free_around(&self, (first, _): GranuleRun) -> Option<(u64, u64)> {
        let granule = u64::from(self.layout.granule_bytes);
        let (start, granules) = self.room.run_of(first)?;
        Some((start * granule, (start + granules) * granule))
    }

    fn free(&mut self, value: &StoredValue) {
        self.used_granules -= value.granules();
        match self.holds {
            true => self.held.extend(value.runs.iter().copied()),
            false => self.give_back(value),
        }
    }

    /// Returns the first contradiction between index and room, if there is one.
    pub fn inconsistency(&self) -> Option<String> {
        let granules = self.layout.capacity_bytes / u64::from(self.layout.granule_bytes);
        let held: u64 = self.held.iter().map(|(_, granules)| u64::from(*granules)).sum();
        let valued: u64 = self.values.values().map(StoredValue::granules).sum();
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
