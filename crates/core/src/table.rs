//! Tables whose places are used again, for what comes and goes by the million.

use std::ops::{Index, IndexMut};

/// Places among which builds with debug assertions look for one that is vacated twice: all of them, unless a great many
/// have been in use at once.
const VACANT_CHECKED: usize = 256;

/// Values by place. What a vacated place held stays there until the place is used again.
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
    /// Keep `value`; its place, until that is vacated.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let Some(place) = self.vacant.pop() else { return self.add(value) };
        self.places[place as usize] = value;
        place
    }

    /// One more place. There are soon enough of them.
    #[cold]
    fn add(&mut self, value: T) -> u32 {
        self.places.push(value);
        self.places.len() as u32 - 1
    }

    /// A place to be filled; it still holds what was there before.
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

    /// What is in a place, which is vacated.
    #[inline]
    pub fn take(&mut self, place: u32) -> T
    where
        T: Copy,
    {
        self.vacate(place);
        self.places[place as usize]
    }

    /// Places that are or have been in use.
    #[cfg(test)]
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many places are in use.
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Let the place be used again. Its owner must not look at it any more.
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
    fn a_vacated_place_is_the_next_one_to_be_used() {
        let mut table = Table::default();
        let (first, second) = (table.insert('a'), table.insert('b'));
        table.vacate(first);
        assert_eq!((table.insert('c'), table[second as usize]), (first, 'b'));
        assert_eq!((table.insert('d'), table[first as usize]), (2, 'c'));
    }
}
