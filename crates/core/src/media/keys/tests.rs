use std::collections::BTreeMap;

use super::*;
use crate::random::Random;

const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: 64 * 512, granule_bytes: 512, keys_max: 12 };

fn key(text: &str) -> Key {
    Key::new(text.as_bytes()).expect("it is short")
}

#[test]
fn keys_are_ordered_by_bytes_then_length() {
    let mut keys = [key("b"), key("a\0"), Key::of_number(0x6200_0000_0000_0000), key("a"), key(""), key("ab")];
    keys.sort_unstable();
    assert_eq!(keys, [key(""), key("a"), key("a\0"), key("ab"), key("b"), key("b\0\0\0\0\0\0\0")]);
    assert_eq!((Key::new(&[1; 16]).map(|key| key.length()), Key::new(&[1; 17])), (Some(16), None));
    assert_eq!(&key("abc").padded()[..5], b"abc\0\0");
}

#[test]
fn values_fill_granules_sequentially_and_then_gaps() {
    let mut space = KeySpace::new(LAYOUT);
    let mut store =
        |name: &str, bytes| space.store(key(name), bytes, StoreConditions::default()).map(|(value, _)| value.runs);
    assert_eq!(store("a", 1024).unwrap().as_slice(), [(0, 2)]);
    assert_eq!(store("b", 1).unwrap().as_slice(), [(2, 1)]);
    assert_eq!(store("c", 0).unwrap().as_slice(), []);
    assert_eq!(store("d", 59 * 512).unwrap().as_slice(), [(3, 59)]);
    assert_eq!(space.used_bytes(), 62 * 512 + 4);
    space.delete(key("b")).unwrap();
    let (value, _) = space.store(key("e"), 1300, StoreConditions::default()).unwrap();
    assert_eq!(value.runs.as_slice(), [(62, 2), (2, 1)], "from the last place on, and then the gap");
    assert_eq!(value.parts(1300, 512).collect::<Vec<_>>(), [(62 * 512, 1024), (1024, 276)]);
    assert_eq!(value.parts(700, 512).collect::<Vec<_>>(), [(62 * 512, 700)]);
    assert_eq!(space.store(key("f"), 1, StoreConditions::default()), Err(KeySpaceRefusal::Full));
    assert_eq!(space.inconsistency(), None);
}

#[test]
fn store_options_decide_whether_a_key_may_exist() {
    let mut space = KeySpace::new(LAYOUT);
    let options = |must_exist, must_be_new| StoreConditions { must_exist, must_be_new };
    assert_eq!(space.store(key("a"), 1, options(true, false)), Err(KeySpaceRefusal::Missing));
    assert!(space.store(key("a"), 1, options(false, true)).is_ok());
    assert_eq!(space.store(key("a"), 1, options(false, true)), Err(KeySpaceRefusal::Exists));
    assert!(space.store(key("a"), 2, options(true, false)).is_ok());
    assert_eq!(space.store(key("a"), 1, options(true, true)), Err(KeySpaceRefusal::Exists), "never");
    assert_eq!(space.store(key("b"), 1, options(true, true)), Err(KeySpaceRefusal::Missing), "never");
    for number in 0..11 {
        assert!(space.store(Key::of_number(number), 0, options(false, false)).is_ok());
    }
    assert_eq!(space.store(key("b"), 0, options(false, false)), Err(KeySpaceRefusal::Full), "one key too many");
    assert!(space.store(key("a"), 0, options(false, false)).is_ok(), "it is there");
    assert_eq!(space.delete(key("b")), Err(KeySpaceRefusal::Missing));
}

#[test]
fn space_of_a_replaced_value_is_free_after_release() {
    let mut space = KeySpace::holding(LAYOUT);
    let store =
        |space: &mut KeySpace, name: &str| space.store(key(name), 30 * 512, StoreConditions::default()).map(drop);
    assert_eq!((store(&mut space, "a"), store(&mut space, "a")), (Ok(()), Ok(())));
    assert_eq!(store(&mut space, "a"), Err(KeySpaceRefusal::Held));
    assert_eq!(space.used_bytes(), 30 * 512 + 1, "what is held counts no more");
    let held = space.take_held_space();
    assert_eq!(store(&mut space, "a"), Err(KeySpaceRefusal::Full), "it is neither free nor held");
    space.release(held);
    assert_eq!((store(&mut space, "a"), space.inconsistency()), (Ok(()), None));
    assert_eq!(
        store(&mut KeySpace::new(KeyLayout { capacity_bytes: 29 * 512, ..LAYOUT }), "a"),
        Err(KeySpaceRefusal::Full)
    );
}

#[test]
fn value_needing_too_many_parts_takes_the_longest_gaps_or_fails() {
    let mut space = KeySpace::new(KeyLayout { keys_max: 64, ..LAYOUT });
    let mut store = |number, granules: u32| {
        space.store(Key::of_number(number), granules * 512, StoreConditions::default()).expect("there is room")
    };
    (0..60).for_each(|number| drop(store(number, 1)));
    store(60, 4);
    for number in (0..60).step_by(2) {
        space.delete(Key::of_number(number)).unwrap();
    }
    // The free space consists of thirty gaps of one granule each.
    assert_eq!(space.store(key("long"), 9 * 512, StoreConditions::default()), Err(KeySpaceRefusal::Full));
    assert_eq!(space.store(key("long"), 8 * 512, StoreConditions::default()).unwrap().0.runs.len(), 8);
    space.delete(Key::of_number(41)).unwrap();
    space.delete(Key::of_number(43)).unwrap();
    let (value, _) = space.store(key("longer"), 10 * 512, StoreConditions::default()).unwrap();
    assert_eq!((value.runs[0], value.runs.len()), ((40, 5), 6), "the longest gap comes first");
    assert_eq!(space.inconsistency(), None);
}

#[test]
fn values_are_restored_only_into_matching_free_space() {
    let mut space = KeySpace::new(LAYOUT);
    let value = |bytes, runs: &[GranuleRange]| StoredKeyValue { bytes, runs: SmallVec::from_slice(runs) };
    assert!(space.restore(key("a"), value(1000, &[(5, 1), (60, 1)])));
    for (bytes, runs) in [
        (1000, &[(5, 2)][..]),
        (1000, &[(6, 1), (60, 1)]),
        (1000, &[(6, 1)]),
        (1000, &[(6, 3)]),
        (512, &[(64, 1)]),
        (512, &[(u64::MAX, 1)]),
        (0, &[(7, 0)]),
    ] {
        assert!(!space.restore(key("b"), value(bytes, runs)), "{bytes} {runs:?}");
        assert_eq!(space.inconsistency(), None);
    }
    assert!(space.restore(key("b"), value(1024, &[(6, 1), (4, 1)])), "refused ones have left nothing");
    assert_eq!(space.find(key("a")).map(|value| value.bytes), Some(1000));
    space.clear();
    assert_eq!((space.keys(), space.used_bytes(), space.free_ranges().count()), (0, 0, 1));
}

/// Compares random requests with a second model: a map from keys to lengths, and the space that these need.
#[test]
fn random_key_requests_match_a_reference_map() {
    for seed in 0..20 {
        let mut random = Random::stream(seed, "keys");
        let layout = KeyLayout { capacity_bytes: 256 * 64, granule_bytes: 64, keys_max: 40 };
        let mut space = if seed % 2 == 0 { KeySpace::new(layout) } else { KeySpace::holding(layout) };
        let mut model: BTreeMap<Key, u32> = BTreeMap::new();
        for _ in 0..2_000 {
            let key = Key::of_number(random.bits() % 60);
            let bytes = (random.bits() % 900) as u32;
            match random.bits() % 8 {
                0..5 => {
                    let free: u64 = space.free_ranges().map(|(_, bytes)| bytes).sum();
                    let fits = u64::from(bytes.next_multiple_of(64)) <= free;
                    let has_key = model.contains_key(&key) || model.len() < 40;
                    match space.store(key, bytes, StoreConditions::default()) {
                        Ok(_) => assert!(fits && has_key && model.insert(key, bytes).is_none_or(|_| true)),
                        // A value cannot be stored if the free space is split into more ranges than a value may have.
                        Err(_) => assert!(!fits || !has_key || space.free_ranges().count() > PARTS_MAX),
                    }
                }
                5..7 => assert_eq!(space.delete(key).ok().map(|value| value.bytes), model.remove(&key)),
                _ => {
                    let held = space.take_held_space();
                    space.release(held);
                }
            }
            assert_eq!(space.inconsistency(), None);
        }
        let found: Vec<(Key, u32)> =
            space.iter_from_key(Key::default()).map(|(key, value)| (*key, value.bytes)).collect();
        assert_eq!(found, model.into_iter().collect::<Vec<_>>());
        let from = space.iter_from_key(Key::of_number(30)).next().map(|(key, _)| *key);
        assert_eq!(from, found.iter().map(|(key, _)| *key).find(|key| *key >= Key::of_number(30)));
    }
}

#[test]
fn least_recent_index_page_is_evicted_and_written_if_dirty() {
    let layout = KeyLayout { capacity_bytes: 1 << 20, granule_bytes: 512, keys_max: 1024 };
    let mut pages = KeyIndexPages::new(&layout, 4096, 2 * 4096);
    assert_eq!(
        (KeyIndexPages::count(1024, 4096), pages.listed(129), pages.listed(1 << 40)),
        (8, (1 << 20, 8192), (1 << 20, 32768))
    );
    // Find one key for each index page, by the page that its lookup reads.
    let mut of_page: BTreeMap<u64, Key> = BTreeMap::new();
    for number in 0..200 {
        let key = Key::of_number(number);
        let read = KeyIndexPages::new(&layout, 4096, 4096).access(key, false).read.expect("nothing is in memory");
        of_page.entry(read).or_insert(key);
    }
    let places: Vec<u64> = of_page.keys().copied().collect();
    assert_eq!(places, (0..8).map(|page| (1 << 20) + page * 4096).collect::<Vec<_>>());
    let keys: Vec<Key> = of_page.into_values().collect();
    let access = |read: Option<usize>, written: Option<usize>| IndexPageAccess {
        read: read.map(|page| places[page]),
        written: written.map(|page| places[page]),
    };
    assert_eq!(pages.access(keys[0], true), access(Some(0), None));
    assert_eq!(pages.access(keys[1], false), access(Some(1), None));
    assert_eq!(pages.access(keys[0], false), access(None, None));
    assert_eq!(pages.access(keys[2], false), access(Some(2), None), "page 1 has not changed");
    assert_eq!(pages.access(keys[1], false), access(Some(1), Some(0)), "page 0 has");
    assert_eq!(pages.access(keys[2], true), access(None, None));
}
