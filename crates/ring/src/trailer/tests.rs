//! The receive buffer: marks, orders of arrival, collisions.

use super::*;
use proptest::prelude::*;

/// Writes the tag into every trailer of a buffer.
fn mark(buffer: &mut [u8], chunk_bytes: usize, value: u64, width: TagWidth) {
    let tag = Tag { value, width };
    places(buffer.len(), chunk_bytes, width).for_each(|place| tag.mark(&mut buffer[place]));
}

/// The first chunk whose trailer still is the tag.
fn first_chunk_with_tag(buffer: &[u8], chunk_bytes: usize, value: u64, width: TagWidth) -> Option<usize> {
    let tag = Tag { value, width };
    let is_marked = |chunk| tag.ends(&buffer[place(chunk, buffer.len(), chunk_bytes, width)]);
    first_incomplete(buffer.len().div_ceil(chunk_bytes), is_marked)
}

const WIDTHS: [TagWidth; 4] = [TagWidth::Bits8, TagWidth::Bits16, TagWidth::Bits32, TagWidth::Bits64];

#[test]
fn widths_are_8_16_32_and_64_bits() {
    let accepted: Vec<_> = (0..=255).filter_map(TagWidth::from_bits).collect();
    assert_eq!(accepted, WIDTHS);
    let largest = WIDTHS.map(TagWidth::max_tag_value);
    assert_eq!(largest, [0xff, 0xffff, 0xffff_ffff, u64::MAX]);
}

#[test]
fn trailer_is_the_last_bytes_of_a_chunk_as_a_little_endian_number() {
    let chunk = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let trailers = WIDTHS.map(|width| value(&chunk[place(0, 10, 10, width)]));
    assert_eq!(trailers, [9, 0x0908, 0x0908_0706, 0x0908_0706_0504_0302]);
    assert_eq!(place(2, 19, 8, TagWidth::Bits32), 16..19, "a stub is its own trailer");
    assert_eq!(value(&[1, 2, 3]), 0x03_0201);
}

#[test]
fn word_matches_the_tag_if_its_last_bytes_do() {
    for width in WIDTHS {
        let tag = Tag { value: 0x8877_6655_4433_22f1 & width.max_tag_value(), width };
        let bytes = tag.word().to_le_bytes();
        assert!(tag.ends(&bytes[place(0, 8, 8, width)]));
        assert!(tag.matches_chunk_trailer(tag.word() | u64::from(width != TagWidth::Bits64)));
        assert!(!tag.matches_chunk_trailer(tag.word() ^ 1 << 63));
    }
}

#[test]
fn marking_changes_only_the_trailing_bytes_of_each_chunk() {
    let mut buffer = [0; 11];
    mark(&mut buffer, 4, 0xb2a1, TagWidth::Bits16);
    assert_eq!(buffer, [0, 0, 0xa1, 0xb2, 0, 0, 0xa1, 0xb2, 0, 0xa1, 0xb2]);
}

#[test]
fn last_chunk_shorter_than_the_tag_is_marked_with_its_low_order_bytes() {
    let mut buffer = [0; 10];
    mark(&mut buffer, 8, 0x4433_2211, TagWidth::Bits32);
    assert_eq!(buffer, [0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x11, 0x22]);
    buffer[4] = 0;
    assert_eq!(first_chunk_with_tag(&buffer, 8, 0x4433_2211, TagWidth::Bits32), Some(1));
    buffer[9] = 0;
    assert_eq!(first_chunk_with_tag(&buffer, 8, 0x4433_2211, TagWidth::Bits32), None);
}

#[test]
fn host_polls_the_last_chunk_first_and_then_the_others_in_order() {
    let mut buffer = [0; 16];
    mark(&mut buffer, 4, 7, TagWidth::Bits32);
    let missing = |buffer: &[u8]| first_chunk_with_tag(buffer, 4, 7, TagWidth::Bits32);
    assert_eq!(missing(&buffer), Some(3));
    buffer[12] = 0;
    assert_eq!(missing(&buffer), Some(0), "the oops of figure 1d");
    buffer[0] = 0;
    assert_eq!(missing(&buffer), Some(1));
    buffer[4] = 0;
    buffer[8] = 0;
    assert_eq!(missing(&buffer), None);
    assert_eq!(missing(&[]), None);
}

/// Delivers the chunks of `data` into a marked buffer in the given order, and says after each
/// whether the host takes the read for complete.
fn completion_after_each_delivered_chunk(
    data: &[u8],
    chunk_bytes: usize,
    order: &[usize],
    tag: u64,
    width: TagWidth,
) -> Vec<bool> {
    let mut buffer = vec![0xee; data.len()];
    mark(&mut buffer, chunk_bytes, tag, width);
    let arrive = |&chunk: &usize| {
        let range = chunk * chunk_bytes..data.len().min((chunk + 1) * chunk_bytes);
        buffer[range.clone()].copy_from_slice(&data[range]);
        first_chunk_with_tag(&buffer, chunk_bytes, tag, width).is_none()
    };
    order.iter().map(arrive).collect()
}

fn all_permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, &first) in items.iter().enumerate() {
        let others = [&items[..i], &items[i + 1..]].concat();
        all.extend(all_permutations(&others).into_iter().map(|rest| [&[first][..], &rest].concat()));
    }
    all
}

#[test]
fn read_completes_with_the_last_of_five_chunks_in_every_arrival_order() {
    let data: Vec<u8> = (0..40).collect();
    for width in WIDTHS {
        for order in all_permutations(&[0, 1, 2, 3, 4]) {
            let complete = completion_after_each_delivered_chunk(&data, 8, &order, 0xfefe_fefe_fefe_fefe, width);
            assert_eq!(complete, [false, false, false, false, true], "{order:?}");
        }
    }
}

fn chunked_read_strategy() -> impl Strategy<Value = (Vec<u8>, Vec<usize>, u64, TagWidth)> {
    let width = prop::sample::select(&WIDTHS[1..]);
    (1usize..300, any::<u64>(), width).prop_flat_map(|(bytes, tag, width)| {
        let order: Vec<usize> = (0..bytes.div_ceil(CHUNK)).collect();
        let data = prop::collection::vec(any::<u8>(), bytes);
        (data, Just(order).prop_shuffle(), Just(tag), Just(width))
    })
}

const CHUNK: usize = 32;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn data_without_the_tag_completes_exactly_at_the_last_arrival(
        (data, order, tag, width) in chunked_read_strategy(),
    ) {
        prop_assume!(data.chunks(CHUNK).all(|chunk| first_chunk_with_tag(chunk, CHUNK, tag, width).is_none()));
        let complete = completion_after_each_delivered_chunk(&data, CHUNK, &order, tag, width);
        let (last, earlier) = complete.split_last().unwrap();
        prop_assert!(*last && earlier.iter().all(|&done| !done));
    }

    #[test]
    fn data_with_a_trailer_equal_to_the_tag_is_never_seen_as_complete(
        (mut data, order, tag, width) in chunked_read_strategy(), victim: prop::sample::Index,
    ) {
        let victim = victim.index(order.len());
        let chunk = data.chunks_mut(CHUNK).nth(victim).unwrap();
        mark(chunk, CHUNK, tag, width);
        prop_assert!(!completion_after_each_delivered_chunk(&data, CHUNK, &order, tag, width).contains(&true));
    }
}
