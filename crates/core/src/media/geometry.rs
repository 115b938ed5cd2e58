//! Mapping of device addresses to channels and banks.
//!
//! The mapping is a bijection for every 64-bit address: the protocol refuses addresses beyond the capacity. Wear
//! levelling maps lines once more within their bank ([`super::wear`]), which changes nothing here.
//!
//! ```text
//!     stripe      0          1          2          3          4   ...
//!     bank        0 (ch 0)   1 (ch 1)   2 (ch 0)   3 (ch 1)   0 (ch 0), row 1      with 2 channels of 2 banks
//! ```

use super::timing::Timing;
use crate::number::narrow;

/// Size and costs of a device's memory, as its configuration gives them: channels, banks, stripes and access times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of independent channels, each with a bus of its own.
    pub channels: u16,
    /// Number of banks on each channel, which share its bus.
    pub banks_per_channel: u16,
    /// Number of consecutive bytes that go to one bank before the next bytes go to a bank on the next channel.
    pub stripe_bytes: u32,
    /// Costs of each access: command, array read, transfer and programming.
    pub timing: Timing,
}

/// Interleaving of addresses over banks: successive stripes go to successive channels first, then to the next bank of
/// each channel.
#[derive(Clone, Copy, Debug)]
pub struct BankInterleave {
    stripe_bytes: AddressDivisor,
    channels: AddressDivisor,
    banks: AddressDivisor,
}

/// Constant by which addresses are divided. Most are powers of two, for which a shift is far cheaper than a 64-bit
/// division.
#[derive(Clone, Copy, Debug)]
struct AddressDivisor {
    value: u32,
    /// Base-2 logarithm of the divisor if it is a power of two; `None` for other divisors.
    shift: Option<u32>,
}

/// Location of one byte in a memory: bank, stripe and position. Banks are numbered across channels: bank `b` is on
/// channel `b` modulo the number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteLocation {
    /// Number of the bank that holds the byte.
    pub bank: u32,
    /// Number of the stripe within its bank, from 0.
    pub row: u64,
    /// Number of the byte within its stripe, from 0.
    pub column: u32,
}

/// Piece of a request that lies in one stripe, and therefore in one bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankRequestPiece {
    /// Number of the bank that holds the piece.
    pub bank: u32,
    /// Address of the piece's first byte, counted in bytes from the start of its bank.
    pub bank_offset: u64,
    /// Number of bytes in the piece.
    pub bytes: u32,
}

/// Iterator over the pieces of one request in address order: one piece for each stripe that it touches.
#[derive(Clone, Copy, Debug)]
pub struct BankRequestPieces {
    interleave: BankInterleave,
    next: ByteLocation,
    bytes_left: u32,
}

impl BankInterleave {
    /// Creates the interleaving of addresses over the channels and banks of `geometry`.
    ///
    /// # Panics
    /// If there is no channel, no bank, or no byte in a stripe.
    pub fn new(geometry: &Geometry) -> BankInterleave {
        let channels = u32::from(geometry.channels);
        let banks = channels * u32::from(geometry.banks_per_channel);
        assert!(banks > 0, "a memory has at least one channel with at least one bank");
        assert!(geometry.stripe_bytes > 0, "a stripe has at least one byte");
        let [stripe_bytes, channels, banks] = [geometry.stripe_bytes, channels, banks].map(AddressDivisor::new);
        BankInterleave { stripe_bytes, channels, banks }
    }

    /// Returns the number of banks of the memory, summed over all channels.
    pub fn banks(&self) -> u32 {
        self.banks.value
    }

    /// Returns the number of the channel whose bus `bank` is connected to.
    pub fn channel(&self, bank: u32) -> u32 {
        self.channels.divide(bank.into()).1
    }

    /// Returns the bank, the stripe and the position in the stripe that hold the byte at device address `offset`.
    pub fn locate(&self, offset: u64) -> ByteLocation {
        let (stripe, column) = self.stripe_bytes.divide(offset);
        let (row, bank) = self.banks.divide(stripe);
        ByteLocation { bank, row, column }
    }

    /// Returns the device address of the byte at `location`: the inverse of [`BankInterleave::locate`].
    pub fn offset(&self, location: ByteLocation) -> u64 {
        let stripe = location.row * u64::from(self.banks.value) + u64::from(location.bank);
        stripe * u64::from(self.stripe_bytes.value) + u64::from(location.column)
    }

    /// Divides the `bytes` from device address `offset` on into one piece per stripe, in address order.
    pub fn pieces(&self, offset: u64, bytes: u32) -> BankRequestPieces {
        BankRequestPieces { interleave: *self, next: self.locate(offset), bytes_left: bytes }
    }

    /// Returns the number, within its bank, of the stripe that holds a piece.
    pub fn row(&self, piece: BankRequestPiece) -> u64 {
        self.stripe_bytes.divide(piece.bank_offset).0
    }

    /// Returns the location of the first byte of the stripe that follows the stripe `row` of `bank` in address order.
    fn next_stripe(&self, bank: u32, row: u64) -> ByteLocation {
        let last = bank + 1 == self.banks.value;
        ByteLocation { bank: if last { 0 } else { bank + 1 }, row: row.wrapping_add(u64::from(last)), column: 0 }
    }
}

impl BankRequestPieces {
    /// Returns the whole request as one piece; `None` if it spans stripes or is empty.
    #[inline(always)]
    pub fn only(&self) -> Option<BankRequestPiece> {
        let ByteLocation { bank, row, column } = self.next;
        let stripe_bytes = self.interleave.stripe_bytes.value;
        let piece = BankRequestPiece {
            bank,
            bank_offset: row * u64::from(stripe_bytes) + u64::from(column),
            bytes: self.bytes_left,
        };
        (1..=stripe_bytes - column).contains(&self.bytes_left).then_some(piece)
    }
}

impl Iterator for BankRequestPieces {
    type Item = BankRequestPiece;

    fn next(&mut self) -> Option<BankRequestPiece> {
        if self.bytes_left == 0 {
            return None;
        }
        let ByteLocation { bank, row, column } = self.next;
        let stripe_bytes = self.interleave.stripe_bytes.value;
        let bytes = self.bytes_left.min(stripe_bytes - column);
        self.bytes_left -= bytes;
        self.next = self.interleave.next_stripe(bank, row);
        Some(BankRequestPiece { bank, bank_offset: row * u64::from(stripe_bytes) + u64::from(column), bytes })
    }
}

impl AddressDivisor {
    fn new(value: u32) -> AddressDivisor {
        AddressDivisor { value, shift: value.is_power_of_two().then(|| value.trailing_zeros()) }
    }

    /// Returns the quotient and the remainder of `dividend` by this divisor.
    #[inline(always)]
    fn divide(self, dividend: u64) -> (u64, u32) {
        match self.shift {
            Some(shift) => (dividend >> shift, dividend as u32 & (self.value - 1)),
            None => self.divide_by_any(dividend),
        }
    }

    #[inline(never)]
    fn divide_by_any(self, dividend: u64) -> (u64, u32) {
        (dividend / u64::from(self.value), narrow::<u32, u64>(dividend % u64::from(self.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interleave(channels: u16, banks_per_channel: u16, stripe_bytes: u32) -> BankInterleave {
        BankInterleave::new(&Geometry { channels, banks_per_channel, stripe_bytes, timing: Timing::default() })
    }

    #[test]
    fn stripes_cover_channels_first_then_banks() {
        let layout = interleave(2, 3, 512);
        let places: Vec<_> = (0..7)
            .map(|stripe| layout.locate(stripe * 512))
            .map(|at| (layout.channel(at.bank), at.bank, at.row))
            .collect();
        assert_eq!(places, [(0, 0, 0), (1, 1, 0), (0, 2, 0), (1, 3, 0), (0, 4, 0), (1, 5, 0), (0, 0, 1)]);
    }

    #[test]
    fn request_crossing_a_stripe_makes_two_pieces() {
        let layout = interleave(2, 1, 512);
        let sizes = |offset, bytes| -> Vec<u32> { layout.pieces(offset, bytes).map(|piece| piece.bytes).collect() };
        assert_eq!(sizes(500, 12), [12]);
        assert_eq!(sizes(500, 13), [12, 1]);
        assert_eq!(sizes(512, 0), Vec::<u32>::new());
    }

    #[test]
    fn highest_64_bit_addresses_have_a_location() {
        let layout = interleave(1, 1, 1);
        assert_eq!(layout.offset(layout.locate(u64::MAX)), u64::MAX);
        assert_eq!(layout.pieces(u64::MAX, 3).count(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn byte_location_is_a_bijection(
            channels in 1u16..20, banks in 1u16..20, stripe_bytes in 1u32..5000, offset: u64,
        ) {
            let layout = interleave(channels, banks, stripe_bytes);
            let location = layout.locate(offset);
            prop_assert!(location.bank < layout.banks() && location.column < stripe_bytes);
            prop_assert_eq!(layout.offset(location), offset);
        }

        #[test]
        fn pieces_cover_a_request_once_in_order(
            channels in 1u16..9, banks in 1u16..9, stripe_bytes in 1u32..600,
            offset in 0..u64::MAX / 2, bytes in 0u32..10_000,
        ) {
            let layout = interleave(channels, banks, stripe_bytes);
            let mut next = offset;
            for piece in layout.pieces(offset, bytes) {
                let at = layout.locate(next);
                let bank_offset = at.row * u64::from(stripe_bytes) + u64::from(at.column);
                prop_assert_eq!((piece.bank, piece.bank_offset), (at.bank, bank_offset));
                prop_assert!(at.column + piece.bytes <= stripe_bytes);
                next += u64::from(piece.bytes);
            }
            prop_assert_eq!(next, offset + u64::from(bytes));
        }
    }
}
