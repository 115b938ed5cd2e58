//! Placement identifiers of a thread's writes, as fio's `fdp_pli` and `fdp_pli_select` choose them.

use crate::workload::HandleChoice;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Placement identifiers that a thread's writes name, by their places in the drive's list.
#[derive(Clone, Debug)]
pub(super) struct HandleTurns {
    places: Vec<u16>,
    /// Next of them, if they come in turn.
    next: usize,
    /// Numbers of their own, so that addresses stay as they are without placement; none if identifiers come in turn.
    random: Option<Xoshiro256PlusPlus>,
}

impl HandleTurns {
    /// Makes the turns of a thread on a drive with so many identifiers, all of which it uses if the job names none.
    pub(super) fn new(choice: &HandleChoice, identifiers: u16, random: Xoshiro256PlusPlus) -> HandleTurns {
        let places = match choice.places.is_empty() {
            true => (0..identifiers.max(1)).collect(),
            false => choice.places.clone(),
        };
        HandleTurns { places, next: 0, random: choice.is_random.then_some(random) }
    }

    /// Returns the identifier of the next write.
    pub(super) fn take(&mut self) -> u16 {
        let count = self.places.len();
        let chosen = match &mut self.random {
            // The high half of a product is below the number of places, each with the same chance.
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

    fn turns(places: &[u16], is_random: bool) -> HandleTurns {
        let choice = HandleChoice { places: places.to_vec(), is_random };
        HandleTurns::new(&choice, 4, Xoshiro256PlusPlus::seed_from_u64(1))
    }

    #[test]
    fn identifiers_come_in_turn_and_are_all_of_the_drive_if_none_is_named() {
        let take = |mut turns: HandleTurns| -> Vec<u16> { (0..5).map(|_| turns.take()).collect() };
        assert_eq!(take(turns(&[], false)), [0, 1, 2, 3, 0]);
        assert_eq!(take(turns(&[3, 1], false)), [3, 1, 3, 1, 3]);
        assert_eq!(take(turns(&[2], true)), [2; 5]);
    }

    #[test]
    fn random_identifiers_are_drawn_alike_often() {
        let mut turns = turns(&[1, 2, 3], true);
        let mut counts = [0; 4];
        (0..3000).for_each(|_| counts[usize::from(turns.take())] += 1);
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
