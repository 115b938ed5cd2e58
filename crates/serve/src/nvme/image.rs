//! Encoding of a controller's state for another server: numbers in little-endian order, lists with their length.
//!
//! Every type of the state implements [`ImageField`], most by the macro `image_fields!`, which lists the fields once for
//! both directions. A reader refuses what it cannot be: a list longer than its bytes, a flag that is neither 0 nor 1, an
//! index outside of its queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use phaselink_core::number::short_length;
use phaselink_core::protocol::nvme::rules::ShadowDoorbellPages;
use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::rules::queues::{CompletionQueueRing, SubmissionQueueRing};
use phaselink_core::protocol::nvme::rules::reservation::{ReservationNoticeKind, ReservingHost};
use phaselink_core::protocol::nvme::spec::Status;

/// Reason for which the state of a drive from another server is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRefusal(pub String);

impl ImageRefusal {
    /// Returns the refusal of a field that cannot have its value.
    pub fn of_field(what: &str) -> ImageRefusal {
        ImageRefusal(format!("{what} is not valid: the image is damaged; read it from the source again"))
    }
}

impl fmt::Display for ImageRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Rest of an image, from which fields are read in sequence.
#[derive(Clone, Copy, Debug)]
pub struct ImageReader<'a>(pub &'a [u8]);

impl<'a> ImageReader<'a> {
    /// Takes the next `count` bytes off the image.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ImageRefusal> {
        let short = || ImageRefusal(String::from("the image ends within a field; read it from the source again"));
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Takes a field of any type off the image.
    ///
    /// # Errors
    /// If the field is incomplete or invalid.
    pub fn field<T: ImageField + Default>(&mut self) -> Result<T, ImageRefusal> {
        let mut field = T::default();
        field.fill(self)?;
        Ok(field)
    }
}

/// Part of a controller's state that an image has.
pub trait ImageField {
    /// Appends the field to an image.
    fn put(&self, image: &mut Vec<u8>);

    /// Replaces the field by the next one of an image.
    ///
    /// # Errors
    /// If the field is incomplete or invalid.
    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal>;
}

/// Implements [`ImageField`] for a structure by the list of its fields. A check behind the list refuses values that
/// contradict each other.
macro_rules! image_fields {
    ($type:ty { $($field:tt),+ $(,)? }) => {
        image_fields!($type { $($field),+ } |_| true);
    };
    ($type:ty { $($field:tt),+ $(,)? } $check:expr) => {
        impl $crate::nvme::image::ImageField for $type {
            fn put(&self, image: &mut Vec<u8>) {
                $($crate::nvme::image::ImageField::put(&self.$field, image);)+
            }

            fn fill(
                &mut self,
                image: &mut $crate::nvme::image::ImageReader<'_>,
            ) -> Result<(), $crate::nvme::image::ImageRefusal> {
                $($crate::nvme::image::ImageField::fill(&mut self.$field, image)?;)+
                let is_valid: fn(&$type) -> bool = $check;
                let refusal = || $crate::nvme::image::ImageRefusal::of_field(stringify!($type));
                is_valid(self).then_some(()).ok_or_else(refusal)
            }
        }
    };
}
pub(super) use image_fields;

macro_rules! image_numbers {
    ($($number:ty),+) => {
        $(impl ImageField for $number {
            fn put(&self, image: &mut Vec<u8>) {
                image.extend(self.to_le_bytes());
            }

            fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
                let bytes = image.bytes(size_of::<$number>())?;
                *self = bytes.iter().rev().fold(0, |number, byte| number.wrapping_shl(8) | <$number>::from(*byte));
                Ok(())
            }
        })+
    };
}

impl ImageField for u8 {
    fn put(&self, image: &mut Vec<u8>) {
        image.push(*self);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = image.bytes(1)?[0];
        Ok(())
    }
}

image_numbers!(u16, u32, u64);

impl ImageField for bool {
    fn put(&self, image: &mut Vec<u8>) {
        image.push((*self).into());
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = match image.bytes(1)? {
            [0] => false,
            [1] => true,
            _ => return Err(ImageRefusal::of_field("a flag")),
        };
        Ok(())
    }
}

impl<T: ImageField, const COUNT: usize> ImageField for [T; COUNT] {
    fn put(&self, image: &mut Vec<u8>) {
        self.iter().for_each(|field| field.put(image));
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        self.iter_mut().try_for_each(|field| field.fill(image))
    }
}

impl<A: ImageField, B: ImageField> ImageField for (A, B) {
    fn put(&self, image: &mut Vec<u8>) {
        self.0.put(image);
        self.1.put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        self.0.fill(image)?;
        self.1.fill(image)
    }
}

impl<T: ImageField + Default> ImageField for Option<T> {
    fn put(&self, image: &mut Vec<u8>) {
        self.is_some().put(image);
        self.iter().for_each(|field| field.put(image));
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = if image.field::<bool>()? { Some(image.field()?) } else { None };
        Ok(())
    }
}

impl<T: ImageField + Default + Ord> ImageField for BTreeSet<T> {
    fn put(&self, image: &mut Vec<u8>) {
        short_length(self.len()).put(image);
        self.iter().for_each(|entry| entry.put(image));
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = image.field::<Vec<T>>()?.into_iter().collect();
        Ok(())
    }
}

impl<K: ImageField + Default + Ord, V: ImageField + Default> ImageField for BTreeMap<K, V> {
    fn put(&self, image: &mut Vec<u8>) {
        short_length(self.len()).put(image);
        for (key, value) in self {
            key.put(image);
            value.put(image);
        }
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = image.field::<Vec<(K, V)>>()?.into_iter().collect();
        Ok(())
    }
}

impl<T: ImageField + Default> ImageField for Vec<T> {
    fn put(&self, image: &mut Vec<u8>) {
        short_length(self.len()).put(image);
        self.iter().for_each(|entry| entry.put(image));
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        let count: u32 = image.field()?;
        // The image may be damaged, so memory grows with the entries that it has, not with its count.
        self.clear();
        for _ in 0..count {
            self.push(image.field()?);
        }
        Ok(())
    }
}

impl<T: ImageField + Default + Clone> ImageField for VecDeque<T> {
    fn put(&self, image: &mut Vec<u8>) {
        self.iter().cloned().collect::<Vec<T>>().put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = image.field::<Vec<T>>()?.into();
        Ok(())
    }
}

impl ImageField for Status {
    fn put(&self, image: &mut Vec<u8>) {
        self.0.put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        self.0.fill(image)
    }
}

impl ImageField for SubmissionQueueRing {
    fn put(&self, image: &mut Vec<u8>) {
        [self.entries(), self.head(), self.tail()].iter().for_each(|number| number.put(image));
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        let (entries, (head, tail)): (u32, (u32, u32)) = image.field()?;
        let ring = SubmissionQueueRing::restored(entries, head, tail);
        *self = ring.ok_or_else(|| ImageRefusal::of_field("an index of a submission queue"))?;
        Ok(())
    }
}

impl ImageField for CompletionQueueRing {
    fn put(&self, image: &mut Vec<u8>) {
        let (tail, phase) = self.next_entry();
        [self.entries(), self.head(), tail].iter().for_each(|number| number.put(image));
        phase.put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        let (entries, indices): (u32, (u32, u32)) = image.field()?;
        let ring = CompletionQueueRing::restored(entries, indices, image.field()?);
        *self = ring.ok_or_else(|| ImageRefusal::of_field("an index of a completion queue"))?;
        Ok(())
    }
}

image_fields!(
    ShadowDoorbellPages { doorbells, event_index }
        | shadow
        | ShadowDoorbellPages::check(shadow.doorbells, shadow.event_index).is_ok()
);
image_fields!(Done { command_id, submission_queue, submission_head, result, status });

impl ImageField for ReservingHost {
    fn put(&self, image: &mut Vec<u8>) {
        self.encode().put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        let mut encoded = self.encode();
        let bytes = image.bytes(encoded.len())?;
        encoded.copy_from_slice(bytes);
        let host = ReservingHost::decode(&encoded);
        *self = host.ok_or_else(|| ImageRefusal::of_field("a host of reservations"))?;
        Ok(())
    }
}

impl ImageField for ReservationNoticeKind {
    fn put(&self, image: &mut Vec<u8>) {
        self.number().put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        *self = ReservationNoticeKind::of(image.field()?)
            .ok_or_else(|| ImageRefusal::of_field("a notice of reservations"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(field: &impl ImageField) -> Vec<u8> {
        let mut image = Vec::new();
        field.put(&mut image);
        image
    }

    #[test]
    fn fields_come_back_from_their_encoding() {
        let lists = (vec![(1_u16, true), (2, false)], Some(BTreeMap::from([(7_u32, [1_u8, 2])])));
        let image = encoded(&lists);
        let mut rest = ImageReader(&image);
        assert_eq!(rest.field::<(Vec<(u16, bool)>, Option<BTreeMap<u32, [u8; 2]>>)>(), Ok(lists));
        assert!(rest.0.is_empty());
    }

    #[test]
    fn field_that_is_cut_off_or_out_of_range_is_refused() {
        assert!(ImageReader(&[1, 2, 3]).field::<u32>().is_err());
        assert!(ImageReader(&[2]).field::<bool>().is_err());
        assert!(ImageReader(&[0xff; 4]).field::<Vec<u8>>().is_err(), "a list that is longer than its bytes");
        let ring = encoded(&vec![4_u32, 4, 0]);
        let mut queue = SubmissionQueueRing::new(2);
        assert!(queue.fill(&mut ImageReader(&ring[4..])).is_err(), "an index of four among four entries");
        assert!(ShadowDoorbellPages::default().fill(&mut ImageReader(&[1; 16])).is_err(), "a page that is not aligned");
        let mut host = ReservingHost::OfController(0);
        assert!(host.fill(&mut ImageReader(&[9; 17])).is_err());
    }
}
