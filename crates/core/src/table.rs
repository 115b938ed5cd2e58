//! Tables whose slots are reused, for values that come and go by the million.

use crate::number::{index, short_length};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

/// Number of vacant slots, the latest ones, that debug builds search for a slot that is being vacated twice.
const VACANT_CHECKED: usize = 256;

/// Table of values by slot number. A vacated slot keeps its old value until it is used again.
#[derive(Clone, Debug)]
pub struct Table<T> {
    places: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { places: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Stores `value` in a vacant slot of the table, and returns the slot's number, which stays valid until it is
    /// vacated.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let Some(place) = self.vacant.pop() else { return self.add(value) };
        self.places[index(place)] = value;
        place
    }

    /// Adds a slot with `value` at the end of the table, and returns its number. This is rare: vacated slots are
    /// reused.
    #[cold]
    fn add(&mut self, value: T) -> u32 {
        self.places.push(value);
        short_length(self.places.len()) - 1
    }

    /// Reserves a slot for the caller to fill, and returns its number. The slot still holds its old value.
    #[inline]
    pub fn occupy(&mut self) -> u32
    where
        T: Default,
    {
        match self.vacant.pop() {
            Some(place) => place,
            None => self.add(T::default()),
        }
    }

    /// Vacates a slot of the table, and returns its value.
    #[inline]
    pub fn take(&mut self, place: u32) -> T
    where
        T: Copy,
    {
        self.vacate(place);
        self.places[index(place)]
    }

    /// Returns the number of slots that are or have been in use.
    #[cfg(test)]
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// Returns the number of slots in use.
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// True if no slot of the table is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees a slot of the table for reuse. Its owner must not use it any more.
    pub fn vacate(&mut self, place: u32) {
        let latest = || self.vacant.iter().rev().take(VACANT_CHECKED);
        debug_assert!(latest().all(|vacant| *vacant != place), "place {place} is vacated twice");
        self.vacant.push(place);
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;
    fn index(&self, place: usize) -> &T {
        &self.places[place]
    }
}

impl<T> IndexMut<usize> for Table<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.places[place]
    }
}

/// Map of a few keys in ascending order. Its memory is reused: a map that empties and fills again allocates nothing.
#[derive(Clone, Debug)]
pub struct SmallSortedMap<K, V> {
    entries: VecDeque<(K, V)>,
}

impl<K, V> Default for SmallSortedMap<K, V> {
    fn default() -> SmallSortedMap<K, V> {
        SmallSortedMap { entries: VecDeque::new() }
    }
}

impl<K: Ord + Copy, V> SmallSortedMap<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        // Most keys are inserted in rising order, so compare with the last key first.
        match self.entries.back() {
            Some((last, _)) if last < key => Err(self.entries.len()),
            _ => self.entries.binary_search_by(|(other, _)| other.cmp(key)),
        }
    }

    /// True if the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries in the map.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of a key; `None` if the map does not have the key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|place| &self.entries[place].1)
    }

    /// Returns the value of a key for changing, if the key has one.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|place| &mut self.entries[place].1)
    }

    /// Sets the value of a key, and returns the previous value, if any.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (key, value));
                None
            }
        }
    }

    /// Removes a key from the map, and returns its value, if there was one.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.find(key).ok()?;
        self.entries.remove(place).map(|(_, value)| value)
    }

    /// Returns the entry with the smallest key of the map; `None` if the map is empty.
    pub fn first(&self) -> Option<&(K, V)> {
        self.entries.front()
    }

    /// Removes and returns the entry with the smallest key of the map; `None` if the map is empty.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.entries.pop_front()
    }

    /// Returns the smallest key of the map that is not below `from`; `None` if there is none.
    pub fn smallest_key_from(&self, from: &K) -> Option<K> {
        let place = self.find(from).unwrap_or_else(|place| place);
        self.entries.get(place).map(|(key, _)| *key)
    }
}

/// Hash map of many numbers, in no defined order: nobody may iterate over it where order shows. It grows by doubling,
/// so that keys that come and go allocate nothing.
pub type NumberHashMap<K, V> = HashMap<K, V, BuildHasherDefault<MultiplicativeHasher>>;

/// Hasher of numbers with the same result on every machine: mixes each number in by a multiplication with 2^64 divided
/// by the golden ratio.
#[derive(Clone, Copy, Debug, Default)]
pub struct MultiplicativeHasher(u64);

impl Hasher for MultiplicativeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_numbers_hash_to_different_bits() {
        let hash = |number: u64| {
            let mut hasher = MultiplicativeHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        for shift in [0, 57] {
            let mut found: Vec<u64> = (0..4096).map(|number| hash(number) >> shift & 127).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 128, "the bits from {shift} on");
        }
    }

    #[test]
    fn sorted_map_equals_a_btree_map() {
        let (mut map, mut tree) = (SmallSortedMap::default(), std::collections::BTreeMap::new());
        for round in 0..2000u64 {
            let key = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
            match round % 3 {
                0 | 1 => assert_eq!(map.insert(key, round), tree.insert(key, round)),
                _ if round % 7 == 0 => assert_eq!(map.pop_first(), tree.pop_first()),
                _ => assert_eq!(map.remove(&key), tree.remove(&key)),
            }
            assert_eq!(map.get(&key), tree.get(&key));
            assert_eq!(map.first().map(|(key, _)| key), tree.first_key_value().map(|(key, _)| key));
            assert_eq!(map.smallest_key_from(&key), tree.range(key..).next().map(|(key, _)| *key));
            assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
        }
    }

    #[test]
    fn vacated_slot_is_reused_next() {
        let mut table = Table::default();
        let (first, second) = (table.insert('a'), table.insert('b'));
        table.vacate(first);
        assert_eq!((table.insert('c'), table[second as usize]), (first, 'b'));
        assert_eq!((table.insert('d'), table[first as usize]), (2, 'c'));
    }
}
