//! Which memory of the host a command's data pointer means (section 4.1).
//!
//! Two physical region page entries are in the command; beyond two pages, the second points to a list, which may go on in
//! other pages. Whoever asks reads what [`Data::wanted`] names and hands it to [`Data::on_list`], until nothing more is
//! wanted; each part of a list is read once.

use smallvec::SmallVec;

use crate::protocol::nvme::spec::{PAGE_BYTES, Status, SubmissionEntry};

/// Consecutive memory of the host: first address, bytes.
pub type Run = (u64, u32);

/// Type and subtype of a data block descriptor whose address is one (figure 93 and 94).
const DATA_BLOCK: u64 = 0;

/// The memory of one command's data, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// In the order of the data.
    runs: SmallVec<[Run; 2]>,
    /// Where the list goes on, and the bytes that the rest of it describes: 0 if all is known.
    list: u64,
    left: u32,
}

impl Data {
    /// No data.
    pub fn none() -> Data {
        Data::default()
    }

    /// The `bytes` that the data pointer of a command describes.
    ///
    /// # Errors
    /// PRP Offset Invalid where the specification asks for a whole page, or a whole word; SGL Descriptor Type and Data SGL
    /// Length Invalid for a segment that is not just this data.
    #[inline]
    pub fn of(entry: &SubmissionEntry, bytes: u32) -> Result<Data, Status> {
        match entry.is_sgl() {
            false => Data::of_pages(entry.prp1, entry.prp2, bytes),
            true => Data::of_segment(entry.prp1, entry.prp2, bytes),
        }
    }

    /// Section 4.1.1.
    #[inline]
    fn of_pages(first: u64, second: u64, bytes: u32) -> Result<Data, Status> {
        if !first.is_multiple_of(4) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        let in_first = ((PAGE_BYTES - first % PAGE_BYTES) as u32).min(bytes);
        let mut data = Data { runs: SmallVec::new(), list: second, left: bytes - in_first };
        data.runs.push((first, in_first));
        if data.left == 0 {
            return Ok(data);
        }
        if data.left <= PAGE_BYTES as u32 {
            data.append(second)?;
            return Ok(data);
        }
        if second.is_multiple_of(8) { Ok(data) } else { Err(Status::INVALID_PRP_OFFSET) }
    }

    /// A data block descriptor in the command itself (section 4.1.2.1).
    fn of_segment(address: u64, length: u64, bytes: u32) -> Result<Data, Status> {
        if length >> 56 != DATA_BLOCK {
            return Err(Status::INVALID_SGL_TYPE);
        }
        if length != u64::from(bytes) || address.checked_add(length).is_none() {
            return Err(Status::INVALID_SGL_LENGTH);
        }
        Ok(Data { runs: SmallVec::from_slice(&[(address, bytes)]), list: 0, left: 0 })
    }

    /// What has to be read before all is known: address and bytes. Nothing if all is.
    ///
    /// A part of a list ends with its page at the latest, and its last entry then leads to the next page of it, as long as
    /// there is more to describe. Only the first part may begin in the middle of a page, so that every further one brings
    /// pages and the chain ends.
    #[inline]
    pub fn wanted(&self) -> Option<Run> {
        (self.left > 0).then(|| (self.list, self.pages_left().min(self.room()) * 8))
    }

    /// The part of the list that was [wanted](Data::wanted) is this.
    ///
    /// # Errors
    /// PRP Offset Invalid for an entry that is no whole page.
    ///
    /// # Panics
    /// If it is not as long.
    pub fn on_list(&mut self, part: &[u8]) -> Result<(), Status> {
        let wanted = self.wanted().map_or(0, |(_, bytes)| bytes);
        assert_eq!(part.len(), wanted as usize, "a list is read as it was asked for");
        let (entries, _) = part.as_chunks::<8>();
        let (pages, next) = match entries.split_last() {
            Some((next, pages)) if self.pages_left() > self.room() => (pages, Some(next)),
            _ => (entries, None),
        };
        for entry in pages {
            self.append(u64::from_le_bytes(*entry))?;
        }
        if let Some(next) = next {
            self.list = page(u64::from_le_bytes(*next))?;
        }
        Ok(())
    }

    /// All of the data, once nothing more is wanted: runs of consecutive memory.
    #[inline]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn pages_left(&self) -> u32 {
        self.left.div_ceil(PAGE_BYTES as u32)
    }

    /// Entries of the list from here to the end of its page.
    fn room(&self) -> u32 {
        ((PAGE_BYTES - self.list % PAGE_BYTES) / 8) as u32
    }

    /// The next page of the data.
    #[inline]
    fn append(&mut self, entry: u64) -> Result<(), Status> {
        let address = page(entry)?;
        let bytes = self.left.min(PAGE_BYTES as u32);
        self.left -= bytes;
        match self.runs.last_mut() {
            Some((first, length)) if first.checked_add(u64::from(*length)) == Some(address) => *length += bytes,
            _ => self.runs.push((address, bytes)),
        }
        Ok(())
    }
}

/// An entry that has to be a whole page.
#[inline]
fn page(entry: u64) -> Result<u64, Status> {
    if entry.is_multiple_of(PAGE_BYTES) { Ok(entry) } else { Err(Status::INVALID_PRP_OFFSET) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn two_pages_are_in_the_command_and_neighbours_are_one_run() {
        assert_eq!(Data::of_pages(0x1200, 0, 0xe00).unwrap().runs(), [(0x1200, 0xe00)]);
        assert_eq!(Data::of_pages(0x1200, 0x2000, 0x1000).unwrap().runs(), [(0x1200, 0x1000)]);
        assert_eq!(Data::of_pages(0x1200, 0x5000, 0x1000).unwrap().runs(), [(0x1200, 0xe00), (0x5000, 0x200)]);
        assert_eq!(Data::of_pages(0x1202, 0, 4), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(Data::of_pages(0x1000, 0x2004, 0x1001), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(Data::of_pages(0x1000, 0x2004, 0x2001), Err(Status::INVALID_PRP_OFFSET));
    }

    #[test]
    fn a_list_goes_on_where_the_last_entry_of_its_page_says() {
        // Four pages, described from two entries before the end of a page.
        let mut data = Data::of_pages(0x1000, 0x8ff0, 0x4000).unwrap();
        assert_eq!(data.wanted(), Some((0x8ff0, 16)));
        data.on_list(&list(&[0x3000, 0x9000])).unwrap();
        assert_eq!(data.wanted(), Some((0x9000, 16)));
        data.on_list(&list(&[0x4000, 0x7000])).unwrap();
        assert_eq!((data.wanted(), data.runs()), (None, &[(0x1000, 0x1000), (0x3000, 0x2000), (0x7000, 0x1000)][..]));
    }

    #[test]
    fn a_list_that_just_fits_its_page_has_no_further_one() {
        let mut data = Data::of_pages(0x1000, 0x8ff0, 0x3000).unwrap();
        assert_eq!(data.wanted(), Some((0x8ff0, 16)));
        data.on_list(&list(&[0x3000, 0x9000])).unwrap();
        assert_eq!((data.wanted(), data.runs().len()), (None, 3));
    }

    #[test]
    fn entries_of_a_list_are_whole_pages() {
        for entries in [[0x3004, 0x9000], [0x3000, 0x9008]] {
            let mut data = Data::of_pages(0x1000, 0x8ff0, 0x4000).unwrap();
            assert_eq!(data.on_list(&list(&entries)), Err(Status::INVALID_PRP_OFFSET));
        }
    }
}
