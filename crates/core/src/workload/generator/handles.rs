//! Placement identifiers of a thread's writes, as fio's `fdp_pli` and `fdp_pli_select` choose them.

use crate::workload::PlacementChoice;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Placement identifiers of a thread's writes, as indices into the drive's list, with the state of their choice.
#[derive(Clone, Debug)]
pub(super) struct PlacementTurns {
    places: Vec<u16>,
    /// Index of the next placement identifier in `places`, if identifiers are used in turn.
    next: usize,
    /// Random numbers for the choice of identifiers, separate from those of addresses, which stay the same without
    /// placement. None if identifiers are used in turn.
    random: Option<Xoshiro256PlusPlus>,
}

impl PlacementTurns {
    /// Makes the choice of identifiers for a thread on a drive with `identifiers` of them. If the job names none, all
    /// are used.
    pub(super) fn new(choice: &PlacementChoice, identifiers: u16, random: Xoshiro256PlusPlus) -> PlacementTurns {
        let places = match choice.places.is_empty() {
            true => (0..identifiers.max(1)).collect(),
            false => choice.places.clone(),
        };
        PlacementTurns { places, next: 0, random: choice.is_random.then_some(random) }
    }

    /// Returns the placement identifier of the next write, as an index into the drive's list.
    pub(super) fn take(&mut self) -> u16 {
        let count = self.places.len();
        let chosen = match &mut self.random {
            // The high half of the product is a uniform number below `count`.
            Some(random) => ((u128::from(random.next_u64()) * count as u128) >> 64) as usize,
            None => self.next,
        };
        self.next = (chosen + 1) % count;
        self.places[chosen]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn turns(places: &[u16], is_random: bool) -> PlacementTurns {
        let choice = PlacementChoice { places: places.to_vec(), is_random };
        PlacementTurns::new(&choice, 4, Xoshiro256PlusPlus::seed_from_u64(1))
    }

    #[test]
    fn placement_identifiers_rotate_over_the_given_or_all() {
        let take = |mut turns: PlacementTurns| -> Vec<u16> { (0..5).map(|_| turns.take()).collect() };
        assert_eq!(take(turns(&[], false)), [0, 1, 2, 3, 0]);
        assert_eq!(take(turns(&[3, 1], false)), [3, 1, 3, 1, 3]);
        assert_eq!(take(turns(&[2], true)), [2; 5]);
    }

    #[test]
    fn random_placement_identifiers_are_equally_likely() {
        let mut turns = turns(&[1, 2, 3], true);
        let mut counts = [0; 4];
        (0..3000).for_each(|_| counts[usize::from(turns.take())] += 1);
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
