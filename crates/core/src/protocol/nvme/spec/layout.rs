//! Typed layouts of the structures that hosts and controllers exchange: each structure is declared once, with the place
//! and the type of every field, and readers and writers follow from the declaration.
//!
//! The compiler checks that the fields of a structure lie within it and do not overlap, and that a field is used with
//! its own structure alone. All numbers are little-endian.

use std::marker::PhantomData;

use super::SubmissionEntry;
use crate::number::{index, short_length};

/// Structure with a layout. The macro `layouts!` implements it for a type that only names the structure.
pub trait Layout: Sized {
    /// Length of the structure in bytes.
    const BYTES: usize;
    /// Array of as many bytes as the structure has.
    type Array: AsRef<[u8]> + AsMut<[u8]>;
    /// Structure of zeros.
    const ZEROS: Self::Array;

    /// Returns a structure of zeros with bytes of its own.
    fn zeros() -> LayoutBytes<Self, Self::Array> {
        LayoutBytes(Self::ZEROS, PhantomData)
    }

    /// Returns the structure that begins with the first of these bytes.
    ///
    /// # Panics
    /// If there are fewer bytes than the structure has.
    fn over<B: AsRef<[u8]>>(bytes: B) -> LayoutBytes<Self, B> {
        assert!(bytes.as_ref().len() >= Self::BYTES, "the bytes hold the whole structure");
        LayoutBytes(bytes, PhantomData)
    }

    /// Iterates over the structures that lie one after the other in these bytes. An incomplete one at the end is left
    /// out.
    fn iter_structures(bytes: &[u8]) -> impl Iterator<Item = LayoutBytes<Self, &[u8]>> {
        bytes.chunks_exact(Self::BYTES).map(Self::over)
    }
}

/// Type that a field may have.
pub trait LayoutFieldType {
    /// Length of the field in bytes.
    const BYTES: usize;
}

/// Type of a field that is read and written as a whole.
pub trait LayoutFieldValue: LayoutFieldType + Copy {
    /// Returns the value that the bytes hold; there are as many as the type has.
    fn load(bytes: &[u8]) -> Self;
    /// Stores the value in the bytes; there are as many as the type has.
    fn store(self, bytes: &mut [u8]);
}

impl<L: Layout> LayoutFieldType for L {
    const BYTES: usize = L::BYTES;
}

impl<T: LayoutFieldType, const N: usize> LayoutFieldType for [T; N] {
    const BYTES: usize = N * T::BYTES;
}

impl<const N: usize> LayoutFieldValue for [u8; N] {
    fn load(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("a field has all of its bytes")
    }

    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self);
    }
}

/// Implements the traits of fields for an integer, and how bits of it are read and written.
macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl LayoutFieldType for $integer {
            const BYTES: usize = size_of::<$integer>();
        }

        impl LayoutFieldValue for $integer {
            fn load(bytes: &[u8]) -> $integer {
                <$integer>::from_le_bytes(LayoutFieldValue::load(bytes))
            }

            fn store(self, bytes: &mut [u8]) {
                self.to_le_bytes().store(bytes);
            }
        }

        impl<L> Bits<L, $integer> {
            /// Returns the largest value that the bits hold.
            pub const fn max(self) -> $integer {
                <$integer>::MAX >> (<$integer>::BITS - self.width)
            }
        }

        impl<L> FieldAccess<L> for Bits<L, $integer> {
            type Value = $integer;

            fn read(self, bytes: &[u8]) -> $integer {
                self.field().read(bytes) >> self.low & self.max()
            }

            fn write(self, bytes: &mut [u8], value: $integer) {
                assert!(value <= self.max(), "the value has no more bits than its field");
                let others = self.field().read(bytes) & !(self.max() << self.low);
                self.field().write(bytes, others | value << self.low);
            }
        }

        impl<L> FieldAccess<L> for Flag<L, $integer> {
            type Value = bool;

            fn read(self, bytes: &[u8]) -> bool {
                self.0.read(bytes) == 1
            }

            fn write(self, bytes: &mut [u8], value: bool) {
                self.0.write(bytes, value.into());
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128);

/// FieldAccess to one field of the structure `L`.
pub trait FieldAccess<L>: Copy {
    /// Type of the field's value.
    type Value;

    /// Returns the value of the field of a structure with these bytes.
    fn read(self, bytes: &[u8]) -> Self::Value;

    /// Sets the field of a structure with these bytes.
    fn write(self, bytes: &mut [u8], value: Self::Value);
}

/// Makes a type of fields copyable whatever its structure is.
macro_rules! copyable {
    ($($name:ident),*) => {$(
        impl<L, T> Clone for $name<L, T> {
            fn clone(&self) -> $name<L, T> {
                *self
            }
        }

        impl<L, T> Copy for $name<L, T> {}
    )*};
}

copyable!(LayoutByteField, Bits, Flag);

/// Field of the structure `L` that consists of whole bytes.
#[derive(Debug)]
pub struct LayoutByteField<L, T> {
    at: usize,
    of: PhantomData<(L, T)>,
}

/// Several bits of an integer in the structure `L`.
#[derive(Debug)]
pub struct Bits<L, T> {
    at: usize,
    low: u32,
    width: u32,
    of: PhantomData<(L, T)>,
}

/// One bit of an integer in the structure `L`.
#[derive(Debug)]
pub struct Flag<L, T>(Bits<L, T>);

impl<L, T: LayoutFieldType> LayoutByteField<L, T> {
    /// Returns the field that begins at this byte of its structure.
    pub const fn at(at: usize) -> LayoutByteField<L, T> {
        LayoutByteField { at, of: PhantomData }
    }

    /// Returns the first bit of the field, and the first bit after it.
    pub const fn span(self) -> (usize, usize) {
        (self.at * 8, (self.at + T::BYTES) * 8)
    }
}

impl<L, E: LayoutFieldType, const N: usize> LayoutByteField<L, [E; N]> {
    /// Returns the number of elements of the field.
    pub const fn count(self) -> usize {
        N
    }

    /// Returns the element of the field with this number, counted from 0.
    ///
    /// # Panics
    /// If the field has fewer elements.
    pub const fn element(self, number: usize) -> LayoutByteField<L, E> {
        assert!(number < N, "the field has the element");
        LayoutByteField::at(self.at + number * E::BYTES)
    }
}

impl<L, T: LayoutFieldValue> FieldAccess<L> for LayoutByteField<L, T> {
    type Value = T;

    fn read(self, bytes: &[u8]) -> T {
        T::load(&bytes[self.at..self.at + T::BYTES])
    }

    fn write(self, bytes: &mut [u8], value: T) {
        value.store(&mut bytes[self.at..self.at + T::BYTES]);
    }
}

impl<L, T: LayoutFieldType> Bits<L, T> {
    /// Returns bits `low` to `high` of the integer at this byte of its structure.
    pub const fn at(at: usize, low: u32, high: u32) -> Bits<L, T> {
        Bits { at, low, width: high + 1 - low, of: PhantomData }
    }

    /// Returns the first of the bits, and the first bit after them.
    pub const fn span(self) -> (usize, usize) {
        let first = self.at * 8 + index(self.low);
        assert!(self.low + self.width <= short_length(T::BYTES) * 8, "the integer has the bits");
        (first, first + index(self.width))
    }

    const fn field(self) -> LayoutByteField<L, T> {
        LayoutByteField::at(self.at)
    }
}

impl<L, T: LayoutFieldType> Flag<L, T> {
    /// Returns the bit with this number of the integer at this byte of its structure.
    pub const fn at(at: usize, bit: u32) -> Flag<L, T> {
        Flag(Bits::at(at, bit, bit))
    }

    /// Returns the number of the bit in its structure, and the next number.
    pub const fn span(self) -> (usize, usize) {
        self.0.span()
    }
}

/// Bytes with the layout `L`: an array, or a part of other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutBytes<L, B>(B, PhantomData<L>);

impl<L: Layout, B: AsRef<[u8]>> LayoutBytes<L, B> {
    /// Returns the value of a field.
    pub fn get<A: FieldAccess<L>>(&self, field: A) -> A::Value {
        field.read(self.0.as_ref())
    }

    /// Returns the structure that a field consists of.
    pub fn part<P: Layout>(&self, field: LayoutByteField<L, P>) -> LayoutBytes<P, &[u8]> {
        P::over(&self.0.as_ref()[field.at..field.at + P::BYTES])
    }

    /// Returns the bytes of the structure.
    pub fn into_bytes(self) -> B {
        self.0
    }
}

impl<L: Layout, B: AsRef<[u8]> + AsMut<[u8]>> LayoutBytes<L, B> {
    /// Sets a field.
    pub fn set<A: FieldAccess<L>>(&mut self, field: A, value: A::Value) {
        field.write(self.0.as_mut(), value);
    }

    /// Returns the structure with a field set.
    #[must_use]
    pub fn with<A: FieldAccess<L>>(mut self, field: A, value: A::Value) -> LayoutBytes<L, B> {
        self.set(field, value);
        self
    }

    /// Returns the structure that a field consists of, to write its fields.
    pub fn field_structure_mut<P: Layout>(&mut self, field: LayoutByteField<L, P>) -> LayoutBytes<P, &mut [u8]> {
        P::over(&mut self.0.as_mut()[field.at..field.at + P::BYTES])
    }

    /// Sets a field of ASCII characters to a text, padded with spaces (Base Specification 2.0, section 1.4.2). Other
    /// characters become question marks, and what finds no room is cut off.
    pub fn set_padded_text<const N: usize>(&mut self, field: LayoutByteField<L, [u8; N]>, text: &str) {
        let known = |byte: u8| if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'?' };
        let mut padded = text.bytes().map(known).chain(std::iter::repeat(b' '));
        self.set(field, std::array::from_fn(|_| padded.next().unwrap_or(b' ')));
    }
}

/// Panics if a field ends outside a structure of this many bytes, or two fields overlap. Each field is given by its
/// first bit and the first bit after it.
pub const fn check_fields(spans: &[(usize, usize)], bytes: usize) {
    let mut one = 0;
    while one < spans.len() {
        assert!(spans[one].1 <= bytes * 8, "a field ends outside its structure");
        let mut other = 0;
        while other < one {
            let is_apart = spans[one].1 <= spans[other].0 || spans[other].1 <= spans[one].0;
            assert!(is_apart, "two fields of a structure overlap");
            other += 1;
        }
        one += 1;
    }
}

/// Declares structures. A structure has a name and a length in bytes; a field has a name, a type, and the byte at which
/// it begins. `[5]` behind the byte is one bit of the integer there, `[4..=7]` several bits.
macro_rules! layouts {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $bytes:literal {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident: $type:ty = $at:literal $([$low:literal $(..= $high:literal)?])?,
            )*
        }
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl $crate::protocol::nvme::spec::layout::Layout for $name {
            const BYTES: usize = $bytes;
            type Array = [u8; $bytes];
            const ZEROS: [u8; $bytes] = [0; $bytes];
        }

        impl $name {
            $($crate::protocol::nvme::spec::layout::field! {
                $name, $field, $type, $at, [$($low $(, $high)?)?], $($field_doc),+
            })*
        }

        const _: () = $crate::protocol::nvme::spec::layout::check_fields(&[$($name::$field.span()),*], $bytes);
    )*};
}

/// Declares one field of a structure: whole bytes, one bit, or several bits.
macro_rules! field {
    ($name:ident, $field:ident, $type:ty, $at:literal, [], $($doc:literal),+) => {
        $(#[doc = $doc])+
        pub const $field: $crate::protocol::nvme::spec::layout::LayoutByteField<$name, $type> =
            $crate::protocol::nvme::spec::layout::LayoutByteField::at($at);
    };
    ($name:ident, $field:ident, $type:ty, $at:literal, [$bit:literal], $($doc:literal),+) => {
        $(#[doc = $doc])+
        pub const $field: $crate::protocol::nvme::spec::layout::Flag<$name, $type> =
            $crate::protocol::nvme::spec::layout::Flag::at($at, $bit);
    };
    ($name:ident, $field:ident, $type:ty, $at:literal, [$low:literal, $high:literal], $($doc:literal),+) => {
        $(#[doc = $doc])+
        pub const $field: $crate::protocol::nvme::spec::layout::Bits<$name, $type> =
            $crate::protocol::nvme::spec::layout::Bits::at($at, $low, $high);
    };
}

pub(crate) use {field, layouts};

/// Masks of the reserved bits in command dwords 10 to 15.
pub type ReservedDwordBits = [u32; 6];

/// First command dword whose meaning depends on the opcode.
const FIRST_DWORD: usize = 10;

/// Bits of one of command dwords 10 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DwordField {
    /// Number of the dword, less 10.
    place: usize,
    low: u32,
    width: u32,
}

impl DwordField {
    /// Returns bits `low` to `high` of command dword `dword`.
    pub const fn of(dword: usize, low: u32, high: u32) -> DwordField {
        assert!(dword >= FIRST_DWORD && dword < FIRST_DWORD + 6 && low <= high && high < u32::BITS);
        DwordField { place: dword - FIRST_DWORD, low, width: high + 1 - low }
    }

    /// Returns the mask of the field in its dword.
    #[inline(always)]
    pub const fn mask(self) -> u32 {
        (u32::MAX >> (u32::BITS - self.width)) << self.low
    }

    /// Returns the value that the field has in this value of its dword.
    #[inline(always)]
    pub const fn of_dword(self, dword: u32) -> u32 {
        (dword & self.mask()) >> self.low
    }

    /// Returns this value of the field's dword with the field set. Bits of `value` that the field does not have are cut
    /// off.
    #[inline(always)]
    pub const fn in_dword(self, dword: u32, value: u32) -> u32 {
        dword & !self.mask() | value << self.low & self.mask()
    }
}

impl SubmissionEntry {
    /// Returns the value of a field in command dwords 10 to 15.
    #[inline(always)]
    pub const fn get(&self, field: DwordField) -> u32 {
        field.of_dword(self.dwords[field.place])
    }

    /// True if any bit of a field is set.
    #[inline(always)]
    pub const fn has(&self, field: DwordField) -> bool {
        self.dwords[field.place] & field.mask() != 0
    }

    /// Returns the value of 64 bits whose halves two fields hold, the low half first.
    #[inline(always)]
    pub fn joined_u64(&self, [low, high]: [DwordField; 2]) -> u64 {
        u64::from(self.get(low)) | u64::from(self.get(high)) << 32
    }

    /// Returns this command with a field set. Bits of `value` that the field does not have are cut off.
    #[inline(always)]
    #[must_use]
    pub const fn with(mut self, field: DwordField, value: u32) -> SubmissionEntry {
        self.dwords[field.place] = field.in_dword(self.dwords[field.place], value);
        self
    }
}

/// Returns the bits of command dwords 10 to 15 that none of the fields of a command has. The fields come in groups, some
/// of which several commands have.
///
/// # Panics
/// If two of the fields overlap.
pub const fn all_but(groups: &[&[DwordField]]) -> ReservedDwordBits {
    let (mut reserved, mut group) = ([u32::MAX; 6], 0);
    while group < groups.len() {
        let mut next = 0;
        while next < groups[group].len() {
            let (place, mask) = (groups[group][next].place, groups[group][next].mask());
            assert!(reserved[place] & mask == mask, "two fields of a command overlap");
            reserved[place] &= !mask;
            next += 1;
        }
        group += 1;
    }
    reserved
}

/// Declares the fields of commands in dwords 10 to 15, in one module for each group of commands.
macro_rules! command_fields {
    ($(
        $(#[doc = $doc:literal])+
        $module:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident = $dword:literal[$low:literal..=$high:literal],
            )*
        }
    )*) => {$(
        $(#[doc = $doc])+
        pub mod $module {
            use $crate::protocol::nvme::spec::layout::DwordField;
            $(
                $(#[doc = $field_doc])+
                pub const $field: DwordField = DwordField::of($dword, $low, $high);
            )*
        }
    )*};
}

pub(crate) use command_fields;

#[cfg(test)]
mod tests {
    use super::super::identify::{IdentifyNamespace, LbaFormatEntry};
    use super::super::logs::{FirmwareSlots, TimestampClock, ZoneDescriptor};
    use super::*;

    #[test]
    fn layout_fields_change_only_their_bits() {
        let mut zone = ZoneDescriptor::over([0xff_u8; 64]);
        zone.set(ZoneDescriptor::STATE, 0b0101);
        zone.set(ZoneDescriptor::CAPACITY, 0x0102);
        assert_eq!((zone.get(ZoneDescriptor::STATE), zone.get(ZoneDescriptor::CAPACITY)), (0b0101, 0x0102));
        assert_eq!(zone.into_bytes()[..17], [255, 0x5f, 255, 255, 255, 255, 255, 255, 2, 1, 0, 0, 0, 0, 0, 0, 255]);
        let clock = TimestampClock::over([0xff_u8; 8]).with(TimestampClock::IS_SET, false).with(TimestampClock::MS, 7);
        assert_eq!((clock.get(TimestampClock::IS_SET), clock.into_bytes()), (false, [7, 0, 0, 0, 0, 0, 0xfd, 0xff]));
    }

    #[test]
    fn layout_array_elements_are_structures_and_texts_padded() {
        let mut page = IdentifyNamespace::zeros();
        page.field_structure_mut(IdentifyNamespace::LBA_FORMATS.element(2)).set(LbaFormatEntry::BLOCK_SHIFT, 12);
        let format = page.part(IdentifyNamespace::LBA_FORMATS.element(2));
        assert_eq!((format.get(LbaFormatEntry::BLOCK_SHIFT), page.into_bytes()[138]), (12, 12));
        let mut slots = FirmwareSlots::zeros();
        slots.set_padded_text(FirmwareSlots::REVISION, "a\u{e9}");
        assert_eq!(slots.get(FirmwareSlots::REVISION), *b"a??     ");
        slots.set_padded_text(FirmwareSlots::REVISION, "longer text");
        assert_eq!(slots.get(FirmwareSlots::REVISION), *b"longer t");
    }

    #[test]
    #[should_panic(expected = "more bits")]
    fn value_wider_than_its_field_is_refused() {
        let _ = ZoneDescriptor::zeros().with(ZoneDescriptor::STATE, 16);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn overlapping_layout_fields_are_detected() {
        let (number, bit) = (LayoutByteField::<TimestampClock, u16>::at(1), Flag::<TimestampClock, u8>::at(2, 7));
        check_fields(&[number.span(), bit.span()], 16);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn layout_field_outside_its_structure_is_detected() {
        check_fields(&[LayoutByteField::<TimestampClock, u64>::at(9).span()], 16);
    }

    #[test]
    fn command_fields_change_only_their_bits() {
        let (field, whole) = (DwordField::of(11, 4, 7), DwordField::of(15, 0, 31));
        let entry = SubmissionEntry { dwords: [u32::MAX; 6], ..SubmissionEntry::default() };
        let entry = entry.with(field, 0b1_0010).with(whole, 9);
        assert_eq!((entry.dwords[1], entry.dwords[5], entry.get(field)), (0xffff_ff2f, 9, 2));
        assert_eq!(all_but(&[&[field], &[whole]]), [u32::MAX, 0xffff_ff0f, u32::MAX, u32::MAX, u32::MAX, 0]);
    }
}
