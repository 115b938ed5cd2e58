//! Conversions between integer types that lose nothing.

const _: () = assert!(usize::BITS >= u32::BITS, "a 32-bit number is an index");

/// Returns a 32-bit number as an index.
#[inline(always)]
pub(crate) const fn index(number: u32) -> usize {
    number as usize
}

/// Returns a 64-bit number as an index.
///
/// # Panics
/// If the number is larger than any index.
#[inline]
pub(crate) fn wide_index(number: u64) -> usize {
    usize::try_from(number).expect("an index fits into the machine's words")
}

/// Returns a 64-bit number that has at most 32 significant bits, such as a remainder by a 32-bit divisor.
///
/// # Panics
/// If the number has more bits.
#[inline(always)]
pub(crate) fn narrow(number: u64) -> u32 {
    assert!(number <= u64::from(u32::MAX), "{number} has more than 32 bits");
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_32_bit_number_is_narrowed_unchanged() {
        assert_eq!(narrow(u64::from(u32::MAX)), u32::MAX);
    }

    #[test]
    #[should_panic(expected = "has more than 32 bits")]
    fn narrowing_a_33_bit_number_panics() {
        narrow(1 << 32);
    }
}
