use super::faults::codec;
use crate::media::ecc::sector::flip;
use crate::media::ecc::{
    CHIP_BYTES, CHIPS, CORRECTED_BITS, Chips, DecodeVerdict, SECTOR_BYTES, STORED_BITS, SectorCodec, latency,
};
use proptest::prelude::*;

const ADDRESS: u64 = 0x1234_5678;

fn encoded_sector_chips() -> Chips {
    codec().encode(&std::array::from_fn(|place| (place * 7 + place / 256) as u8), ADDRESS)
}

fn sector_with_flipped_bits(positions: impl IntoIterator<Item = usize>) -> Chips {
    let mut chips = encoded_sector_chips();
    positions.into_iter().for_each(|position| flip(&mut chips, position));
    chips
}

/// Returns positions that are spread over all chips.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| place * STORED_BITS / count + place % 5)
}

#[test]
fn data_chips_contain_the_sector_unchanged() {
    let sector: [u8; SECTOR_BYTES] = std::array::from_fn(|place| (place * 31) as u8);
    let chips = codec().encode(&sector, 0);
    assert_eq!(SectorCodec::data(&chips), &sector);
    assert_eq!(chips.as_flattened().len(), SECTOR_BYTES / 8 * 9);
    assert!(codec().check(&chips, 0));
}

#[test]
fn thirty_nine_wrong_bits_are_corrected_and_forty_detected() {
    for (count, verdict) in [
        (0, DecodeVerdict::Clean),
        (1, DecodeVerdict::Corrected { bits: 1 }),
        (CORRECTED_BITS, DecodeVerdict::Corrected { bits: CORRECTED_BITS }),
        (CORRECTED_BITS + 1, DecodeVerdict::Uncorrectable),
    ] {
        let mut chips = sector_with_flipped_bits(spread(count));
        let read = chips;
        assert_eq!(codec().decode(&mut chips, ADDRESS, None), verdict);
        assert_eq!(chips, if verdict == DecodeVerdict::Uncorrectable { read } else { encoded_sector_chips() });
    }
}

#[test]
fn single_wrong_bits_are_corrected() {
    for position in 0..STORED_BITS {
        let mut chips = sector_with_flipped_bits([position]);
        assert!(!codec().check(&chips, ADDRESS));
        assert_eq!(codec().decode(&mut chips, ADDRESS, None), DecodeVerdict::Corrected { bits: 1 });
        assert_eq!(chips, encoded_sector_chips());
    }
}

#[test]
fn any_failed_chip_is_restored_from_the_others() {
    for chip in 0..CHIPS {
        let mut chips = encoded_sector_chips();
        chips[chip] = [0xff; CHIP_BYTES];
        assert_eq!(codec().decode(&mut chips, ADDRESS, None), DecodeVerdict::Uncorrectable);
        assert_eq!(codec().decode(&mut chips, ADDRESS, Some(chip)), DecodeVerdict::Restored { chip });
        assert_eq!(chips, encoded_sector_chips());
    }
}

#[test]
fn wrong_bit_beside_a_restored_chip_is_undetected() {
    let mut chips = sector_with_flipped_bits([3]);
    assert_eq!(codec().decode(&mut chips, ADDRESS, Some(0)), DecodeVerdict::Restored { chip: 0 });
    assert_ne!(chips, encoded_sector_chips());
    assert!(codec().check(&chips, ADDRESS));
}

#[test]
fn sector_of_another_address_is_detected() {
    for bit in 0..64 {
        let mut chips = encoded_sector_chips();
        assert_eq!(codec().decode(&mut chips, ADDRESS ^ 1 << bit, None), DecodeVerdict::Uncorrectable);
    }
}

#[test]
fn codewords_have_even_weight() {
    let ones = |chips: &Chips| chips.as_flattened().iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert_eq!((ones(&codec().encode(&[0x5a; 512], 0))) % 2, 0);
    let mut sector = [0; 512];
    sector[17] = 1;
    assert_eq!((ones(&codec().encode(&sector, 0))) % 2, 0);
    assert!(ones(&codec().encode(&sector, 0)) >= 80, "the distance of the code");
}

#[test]
#[should_panic]
fn decoding_a_chip_number_out_of_range_panics() {
    codec().decode(&mut encoded_sector_chips(), ADDRESS, Some(CHIPS));
}

#[test]
fn decoder_takes_20_ns_for_clean_and_1150_ns_for_damaged_sectors() {
    assert_eq!(latency::nanoseconds(DecodeVerdict::Clean), 20);
    assert_eq!(latency::nanoseconds(DecodeVerdict::Corrected { bits: 1 }), 1150);
    assert_eq!(latency::nanoseconds(DecodeVerdict::Restored { chip: 8 }), 20);
    assert_eq!(latency::nanoseconds(DecodeVerdict::Restored { chip: 0 }), 340);
    assert_eq!(latency::mean_decode_ns(0.0), 20.0);
    // At a raw error rate of 1e-6, one sector in 218 has a wrong bit: 20 + 1130 * 0.004597.
    assert!((latency::mean_decode_ns(1e-6) - 25.19).abs() < 0.01);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn code_is_linear(left: [u64; 32], right: [u64; 32], address: u64) {
        let sector = |words: [u64; 32]| -> [u8; SECTOR_BYTES] {
            std::array::from_fn(|place| words[place / 16].to_le_bytes()[place % 8])
        };
        let (a, b) = (codec().encode(&sector(left), address), codec().encode(&sector(right), 0));
        let both = codec().encode(&std::array::from_fn(|place| sector(left)[place] ^ sector(right)[place]), address);
        for chip in 0..CHIPS {
            for place in 0..CHIP_BYTES {
                prop_assert_eq!(a[chip][place] ^ b[chip][place], both[chip][place]);
            }
        }
    }

    #[test]
    fn any_bytes_get_a_verdict_and_good_ones_are_codewords(
        noise in proptest::collection::vec(any::<u8>(), CHIPS * CHIP_BYTES), address: u64, failed in proptest::option::of(0..CHIPS),
    ) {
        let mut chips = [[0; CHIP_BYTES]; CHIPS];
        chips.as_flattened_mut().copy_from_slice(&noise);
        let verdict = codec().decode(&mut chips, address, failed);
        prop_assert_eq!(codec().check(&chips, address), verdict != DecodeVerdict::Uncorrectable);
    }
}
