//! Tables whose slots are reused, for values that come and go by the million.

use std::ops::{Index, IndexMut};

/// Number of vacant slots that builds with debug assertions search for one that is vacated twice: all slots, unless a
/// great many have been in use at once.
const VACANT_CHECKED: usize = 256;

/// Values by slot number. A vacated slot keeps its old value until it is used again.
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
    /// Stores `value`, and returns its slot, which stays valid until it is vacated.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let Some(place) = self.vacant.pop() else { return self.add(value) };
        self.places[place as usize] = value;
        place
    }

    /// Adds a slot. This is rare: soon there are enough slots.
    #[cold]
    fn add(&mut self, value: T) -> u32 {
        self.places.push(value);
        self.places.len() as u32 - 1
    }

    /// Takes a slot to be filled by the caller; it still holds its old value.
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

    /// Vacates a slot and returns its value.
    #[inline]
    pub fn take(&mut self, place: u32) -> T
    where
        T: Copy,
    {
        self.vacate(place);
        self.places[place as usize]
    }

    /// Number of slots that are or have been in use.
    #[cfg(test)]
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// Number of slots in use.
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees a slot for reuse. Its owner must not use it any more.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vacated_slot_is_the_next_one_to_be_used() {
        let mut table = Table::default();
        let (first, second) = (table.insert('a'), table.insert('b'));
        table.vacate(first);
        assert_eq!((table.insert('c'), table[second as usize]), (first, 'b'));
        assert_eq!((table.insert('d'), table[first as usize]), (2, 'c'));
    }
}
