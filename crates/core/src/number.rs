//! Conversions between integer and floating-point types for which the standard library has only `as`. Each is named for
//! what it promises.

const _: () = assert!(usize::BITS >= u32::BITS && usize::BITS <= u64::BITS, "an index has 32 to 64 bits");

/// Returns a number of 32 bits as an index or length in memory. Lossless, since an index has at least as many bits.
#[inline(always)]
pub const fn index(number: u32) -> usize {
    number as usize
}

/// Returns a number of 64 bits as an index or length in memory; the largest one where an index has too few bits.
#[inline(always)]
pub const fn wide_index(number: u64) -> usize {
    if number > usize::MAX as u64 {
        return usize::MAX;
    }
    number as usize
}

/// Returns an index or length in memory as a number of 64 bits. Lossless, since an index has no more bits.
#[inline(always)]
pub const fn length(length: usize) -> u64 {
    length as u64
}

/// Returns a length in memory as a number of 32 bits.
///
/// # Panics
/// If the length does not fit; lengths of commands, packets and tables do.
#[inline(always)]
pub const fn short_length(length: usize) -> u32 {
    assert!(length <= u32::MAX as usize, "a length fits 32 bits");
    length as u32
}

/// Returns the lowest 32 bits of a word, which are the whole number if the caller knows it to fit.
#[inline(always)]
pub fn low_u32(word: impl Into<u64>) -> u32 {
    word.into() as u32
}

/// Returns the lowest 16 bits of a word, which are the whole number if the caller knows it to fit.
#[inline(always)]
pub fn low_u16(word: impl Into<u64>) -> u16 {
    word.into() as u16
}

/// Returns the lowest 8 bits of a word, which are the whole number if the caller knows it to fit.
#[inline(always)]
pub fn low_u8(word: impl Into<u64>) -> u8 {
    word.into() as u8
}

/// Converts a number to a narrower type, which the caller knows it to fit.
///
/// # Panics
/// If the number does not fit the narrower type.
#[inline(always)]
pub fn narrow<N: TryFrom<W>, W>(number: W) -> N {
    match N::try_from(number) {
        Ok(number) => number,
        Err(_) => does_not_fit(),
    }
}

#[cold]
#[inline(never)]
fn does_not_fit() -> ! {
    panic!("a number does not fit the type that it was to have");
}

/// Returns an integer as a floating-point number, rounded to the nearest representable one.
#[inline(always)]
pub const fn real(number: u64) -> f64 {
    number as f64
}

/// Returns an index or length in memory as a floating-point number, rounded to the nearest representable one.
#[inline(always)]
pub const fn real_length(number: usize) -> f64 {
    real(length(number))
}

/// Returns the whole part of a floating-point number: 0 if it is negative, `u64::MAX` if it is larger than that.
#[inline(always)]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_fit_a_narrower_type_keep_their_value() {
        assert_eq!((index(u32::MAX), length(7), short_length(7)), (4_294_967_295, 7, 7));
        assert_eq!((wide_index(1 << 31), wide_index(u64::MAX)), (1 << 31, usize::MAX));
        assert_eq!((narrow::<u8, u32>(255), narrow::<u16, usize>(65_535)), (255, 65_535));
        assert_eq!((low_u32(0x1_2345_6789_u64), low_u16(0x1_2345_u32), low_u8(0x123_u16)), (0x2345_6789, 0x2345, 0x23));
        assert_eq!((whole(2.9), whole(-1.0), real(3)), (2, 0, 3.0));
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_number_that_does_not_fit_a_narrower_type_is_no_other_number() {
        narrow::<u8, u32>(256);
    }
}
