//! Choice of the current tag by one of the three strategies of section 3.1.

use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{StoredTrailerCounts, TagWidth, UnusedTrailerIntervals};

/// Source of tags. The choice depends on the seed and the writes alone.
///
/// Two strategies need the device, which sees every write: they never choose a tag in which a stored chunk ends. The host must
/// know a new tag before the device answers a read with the data that forced the change, since a read that is marked with the
/// old tag would never complete.
#[derive(Clone, Debug)]
pub struct ArrivalTagSource {
    width: TagWidth,
    rng: Xoshiro256PlusPlus,
    strategy: Strategy,
    current: Option<u64>,
}

#[derive(Clone, Debug)]
enum Strategy {
    Random,
    Compare(StoredTrailerCounts),
    Intervals(UnusedTrailerIntervals),
}

impl ArrivalTagSource {
    /// Returns a source of random tags. After a collision, the time-out calls [`ArrivalTagSource::renew`].
    pub fn random(width: TagWidth, seed: u64) -> ArrivalTagSource {
        ArrivalTagSource::new(width, seed, Strategy::Random)
    }

    /// Returns a source that draws random tags until one is not among the `stored` trailers.
    pub fn compare(width: TagWidth, seed: u64, stored: StoredTrailerCounts) -> ArrivalTagSource {
        ArrivalTagSource::new(width, seed, Strategy::Compare(stored))
    }

    /// Returns a source that takes tags from the intervals of unused values, in constant time. The record has the same `width`.
    pub fn intervals(width: TagWidth, seed: u64, unused: UnusedTrailerIntervals) -> ArrivalTagSource {
        ArrivalTagSource::new(width, seed, Strategy::Intervals(unused))
    }

    fn new(width: TagWidth, seed: u64, strategy: Strategy) -> ArrivalTagSource {
        let mut source =
            ArrivalTagSource { width, rng: Xoshiro256PlusPlus::seed_from_u64(seed), strategy, current: None };
        source.renew();
        source
    }

    /// Returns the present tag for marking buffers, or none if chunks end in every value of this width. Reads then need
    /// another sign of completion.
    pub fn current(&self) -> Option<u64> {
        self.current
    }

    /// Chooses another tag, as after a time-out, and returns the new tag. A random tag is uniformly
    /// distributed over all values; the other strategies choose among the unused ones.
    pub fn renew(&mut self) -> Option<u64> {
        self.current = match &self.strategy {
            Strategy::Random => Some(draw_uniform_tag(&mut self.rng, self.width)),
            Strategy::Compare(stored) => draw_unused_tag(&mut self.rng, self.width, stored),
            Strategy::Intervals(unused) => unused.choose(),
        };
        self.current
    }

    /// Records that a write replaced a chunk's trailer, and returns the new tag if that made one
    /// necessary or, where none was left, possible. [`ArrivalTagSource::current`] is none if the tag was lost and none is left.
    pub fn on_write(&mut self, old_trailer: u64, new_trailer: u64) -> Option<u64> {
        // Count the new trailer before removing the old one. If both are equal, the trailer must never appear unused.
        match &mut self.strategy {
            Strategy::Random => return None,
            Strategy::Compare(stored) => {
                stored.insert(new_trailer);
                stored.remove(old_trailer);
            }
            Strategy::Intervals(unused) => {
                unused.insert(new_trailer);
                unused.remove(old_trailer);
            }
        }
        let is_valid = self.current.is_some_and(|tag| tag != new_trailer);
        if is_valid { None } else { self.renew() }
    }
}

/// Returns a uniformly distributed value of the given width.
fn draw_uniform_tag(rng: &mut Xoshiro256PlusPlus, width: TagWidth) -> u64 {
    rng.next_u64() >> (u64::BITS - width.bits())
}

/// Returns a random value in which no chunk ends, or none if every value is used. The number of draws is geometric: 4 / 3 on average in the
/// paper's worst case of a quarter of the values in use.
fn draw_unused_tag(rng: &mut Xoshiro256PlusPlus, width: TagWidth, stored: &StoredTrailerCounts) -> Option<u64> {
    if stored.distinct() > width.max_tag_value() {
        return None;
    }
    loop {
        let tag = draw_uniform_tag(rng, width);
        if !stored.contains(tag) {
            return Some(tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag_sources_that_track_writes(width: TagWidth, chunks: u64) -> [ArrivalTagSource; 2] {
        let stored = StoredTrailerCounts::uniform(0, chunks);
        let unused = UnusedTrailerIntervals::uniform(width, 0, chunks);
        [ArrivalTagSource::compare(width, 1, stored), ArrivalTagSource::intervals(width, 1, unused)]
    }

    #[test]
    fn random_tags_are_uniformly_distributed() {
        let mut source = ArrivalTagSource::random(TagWidth::Bits8, 42);
        let mut counts = [0u32; 256];
        for _ in 0..256 * 100 {
            counts[source.renew().unwrap() as usize] += 1;
        }
        let deviations = counts.map(|count| (f64::from(count) - 100.0).powi(2) / 100.0);
        let chi_squared: f64 = deviations.iter().sum();
        // With 255 degrees of freedom, the mean is 255 and the standard deviation 22.6.
        assert!((170.0..340.0).contains(&chi_squared), "{chi_squared}");
    }

    #[test]
    fn random_tags_use_every_bit_of_their_width_and_repeat_with_the_seed() {
        for width in [TagWidth::Bits16, TagWidth::Bits32, TagWidth::Bits64] {
            let mut source = ArrivalTagSource::random(width, 7);
            let mut again = ArrivalTagSource::random(width, 7);
            let mut seen = 0;
            for _ in 0..100 {
                assert_eq!(source.renew(), again.renew());
                seen |= source.current().unwrap();
            }
            assert_eq!(seen, width.max_tag_value());
        }
    }

    #[test]
    fn random_tag_changes_only_on_renewal_and_not_on_writes() {
        let mut source = ArrivalTagSource::random(TagWidth::Bits64, 3);
        let tag = source.current().unwrap();
        assert_eq!(source.on_write(0, tag), None);
        assert_eq!(source.current(), Some(tag));
        assert_ne!(source.renew(), Some(tag));
    }

    #[test]
    fn only_a_write_whose_trailer_equals_the_tag_changes_the_tag() {
        for mut source in tag_sources_that_track_writes(TagWidth::Bits32, 8) {
            let tag = source.current().unwrap();
            assert_eq!(source.on_write(0, tag ^ 1), None);
            let renewed = source.on_write(0, tag);
            assert!(renewed.is_some_and(|new| new != tag && new != tag ^ 1 && new != 0));
            assert_eq!(source.current(), renewed);
        }
    }

    #[test]
    fn no_tag_exists_while_all_values_are_stored_until_a_write_frees_one() {
        for mut source in tag_sources_that_track_writes(TagWidth::Bits8, 300) {
            for trailer in 1..=255 {
                source.on_write(0, trailer);
            }
            assert_eq!(source.current(), None);
            assert_eq!(source.renew(), None);
            assert_eq!(source.on_write(9, 10), Some(9));
            assert_eq!(source.current(), Some(9));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn tag_is_never_the_trailer_of_a_stored_chunk(
            writes in prop::collection::vec((0usize..300, any::<u8>(), any::<bool>()), 1..600),
        ) {
            for mut source in tag_sources_that_track_writes(TagWidth::Bits8, 300) {
                let mut device = [0u64; 300];
                for &(chunk, trailer, hits_tag) in &writes {
                    let trailer = source.current().filter(|_| hits_tag).unwrap_or(u64::from(trailer));
                    let before = source.current();
                    let change = source.on_write(device[chunk], trailer);
                    device[chunk] = trailer;
                    let is_free = |tag: &u64| !device.contains(tag);
                    prop_assert_eq!(source.current().is_some(), (0..256).any(|tag| is_free(&tag)));
                    prop_assert!(source.current().iter().all(is_free));
                    prop_assert!(change.is_none() || change == source.current());
                    prop_assert!(change.is_some() || source.current().is_none() || source.current() == before);
                }
            }
        }
    }
}
