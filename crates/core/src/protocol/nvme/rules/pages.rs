//! Host memory that a command's data pointer describes (section 4.1): PRP entries or a scatter-gather list (SGL).
//!
//! A command holds two physical region page (PRP) entries. If the data takes more than two pages, the second entry
//! points to a PRP list, which may continue in other pages. Alternatively the command holds one SGL descriptor: of the
//! data itself, or of a segment of descriptors, the last of which may lead to another segment. The caller reads the
//! memory that [`Data::next_list_part`] names and passes its bytes to [`Data::add_prp_list_part`], until
//! [`Data::next_list_part`] returns none. Each part of a list is read once.

use smallvec::SmallVec;

use crate::number::{index, low_u32, short_length};
use crate::protocol::nvme::spec::layout::{Layout, LayoutBytes};
use crate::protocol::nvme::spec::lists::SegmentDescriptor;
use crate::protocol::nvme::spec::{PAGE_BYTES, Status, SubmissionEntry};

/// Contiguous run of host memory: address of its first byte, and length in bytes.
pub type Run = (u64, u32);
/// SGL descriptor in a command or in a part of a segment.
type Descriptor<'a> = LayoutBytes<SegmentDescriptor, &'a [u8]>;

/// Size of an SGL descriptor in bytes.
const DESCRIPTOR_BYTES: u32 = short_length(SegmentDescriptor::BYTES);
/// Type byte of an SGL Data Block descriptor with an address.
const DATA_BLOCK: u8 = 0x00;
/// Type byte of an SGL Segment descriptor with an address.
const SEGMENT: u8 = 0x20;
/// Type byte of an SGL Last Segment descriptor with an address.
const LAST_SEGMENT: u8 = 0x30;
/// Maximum number of SGL descriptors of a command, so that every chain of segments ends (assumed: 2 MiB in pieces of
/// 512 bytes).
const DESCRIPTORS_MAX: u32 = 4096;
/// Maximum number of bytes of an SGL segment that are read at a time.
const PART_BYTES_MAX: u32 = PAGE_BYTES as u32;

/// Host memory of one command's data, as far as its data pointer and the parts of its list that have been read describe
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Contiguous runs of host memory that are known, in the order of the data.
    runs: SmallVec<[Run; 2]>,
    /// Host address from which the PRP list or SGL segment is read next.
    list: u64,
    /// Bytes of data whose host memory is not known yet; 0 if all is known.
    left: u32,
    /// Bytes of the current SGL segment that have not been read yet; 0 outside of segments.
    segment_bytes: u32,
    /// True if the current SGL segment is the last one.
    is_last_segment: bool,
    /// Number of SGL descriptors read so far.
    descriptors: u32,
}

impl Data {
    /// Returns the host memory of a command without data: none.
    pub fn none() -> Data {
        Data::default()
    }

    /// True if the data has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.next_list_part().is_none()
    }

    /// Returns the host memory of `bytes` of data as far as the data pointer in the command describes it without a
    /// list.
    ///
    /// # Errors
    /// PRP Offset Invalid for a PRP entry that is not aligned as the specification demands; for SGL descriptors the
    /// errors of [`Data::add_prp_list_part`].
    #[inline]
    pub fn of(entry: &SubmissionEntry, bytes: u32) -> Result<Data, Status> {
        match entry.has_sgl_pointer() {
            false => Data::of_prp_entries(entry.prp1, entry.prp2, bytes),
            true => Data::of_sgl_descriptor(entry.prp1, entry.prp2, bytes),
        }
    }

    /// Returns the host memory of `bytes` of data that two PRP entries describe (section 4.1.1).
    #[inline]
    fn of_prp_entries(first: u64, second: u64, bytes: u32) -> Result<Data, Status> {
        if !first.is_multiple_of(4) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        let in_first = ((PAGE_BYTES - first % PAGE_BYTES) as u32).min(bytes);
        let mut data = Data { list: second, left: bytes - in_first, ..Data::default() };
        data.runs.push((first, in_first));
        if data.left == 0 {
            return Ok(data);
        }
        if data.left <= low_u32(PAGE_BYTES) {
            data.append(second)?;
            return Ok(data);
        }
        if second.is_multiple_of(8) { Ok(data) } else { Err(Status::INVALID_PRP_OFFSET) }
    }

    /// Returns the host memory of `bytes` of data that the SGL descriptor in the command describes (section 4.1.2.1).
    fn of_sgl_descriptor(low: u64, high: u64, bytes: u32) -> Result<Data, Status> {
        let mut data = Data { left: bytes, ..Data::default() };
        let descriptor = [low.to_le_bytes(), high.to_le_bytes()];
        let descriptor = SegmentDescriptor::over(descriptor.as_flattened());
        match descriptor.get(SegmentDescriptor::TYPE) {
            DATA_BLOCK => {
                data.append_data_block(&descriptor)?;
                data.check_described_length()?;
            }
            _ => data.begin_sgl_segment(&descriptor)?,
        }
        Ok(data)
    }

    /// Starts to read the SGL segment that a segment descriptor points to.
    fn begin_sgl_segment(&mut self, descriptor: &Descriptor) -> Result<(), Status> {
        let (address, bytes) = address_and_length_of(descriptor);
        self.is_last_segment = match descriptor.get(SegmentDescriptor::TYPE) {
            SEGMENT => false,
            LAST_SEGMENT => true,
            _ => return Err(Status::INVALID_SGL_TYPE),
        };
        if bytes == 0 || !bytes.is_multiple_of(DESCRIPTOR_BYTES) || address.checked_add(bytes.into()).is_none() {
            return Err(Status::INVALID_SGL_SEGMENT);
        }
        (self.list, self.segment_bytes) = (address, bytes);
        Ok(())
    }

    /// Adds the host memory that the descriptors in this part of an SGL segment describe.
    fn add_sgl_segment(&mut self, part: &[u8]) -> Result<(), Status> {
        for descriptor in SegmentDescriptor::iter_structures(part) {
            self.descriptors += 1;
            if self.descriptors > DESCRIPTORS_MAX {
                return Err(Status::INVALID_SGL_COUNT);
            }
            self.list += u64::from(DESCRIPTOR_BYTES);
            self.segment_bytes -= DESCRIPTOR_BYTES;
            self.add_sgl_descriptor(&descriptor)?;
        }
        if self.segment_bytes == 0 { self.check_described_length() } else { Ok(()) }
    }

    /// Handles one SGL descriptor: adds its data block, or begins the next segment. Only the last descriptor of a
    /// segment leads to another segment, and only if the segment is not the last.
    fn add_sgl_descriptor(&mut self, descriptor: &Descriptor) -> Result<(), Status> {
        let has_to_lead_on = self.segment_bytes == 0 && !self.is_last_segment;
        match descriptor.get(SegmentDescriptor::TYPE) {
            DATA_BLOCK if has_to_lead_on => Err(Status::INVALID_SGL_SEGMENT),
            DATA_BLOCK => self.append_data_block(descriptor),
            SEGMENT | LAST_SEGMENT if !has_to_lead_on => Err(Status::INVALID_SGL_SEGMENT),
            _ => self.begin_sgl_segment(descriptor),
        }
    }

    /// Checks, after the last SGL descriptor, that the descriptors describe as many bytes as the command transfers.
    fn check_described_length(&self) -> Result<(), Status> {
        if self.left == 0 { Ok(()) } else { Err(Status::INVALID_SGL_LENGTH) }
    }

    /// Adds the next block of host memory, which may be empty and is merged with the previous one if it is adjacent.
    fn append_data_block(&mut self, descriptor: &Descriptor) -> Result<(), Status> {
        let (address, bytes) = address_and_length_of(descriptor);
        if bytes > self.left || address.checked_add(bytes.into()).is_none() {
            return Err(Status::INVALID_SGL_LENGTH);
        }
        self.left -= bytes;
        match self.runs.last_mut() {
            Some((first, length)) if first.checked_add(u64::from(*length)) == Some(address) => *length += bytes,
            _ if bytes > 0 => self.runs.push((address, bytes)),
            _ => {}
        }
        Ok(())
    }

    /// Returns host address and length in bytes of the part of the PRP list or SGL segment to read next. Returns none
    /// if all data is known.
    ///
    /// A part of a PRP list ends with its page at the latest. If more pages follow, the last entry of that page points
    /// to the list's next page. Only the first part may begin in the middle of a page, so every further part describes
    /// pages and the chain ends.
    #[inline]
    pub fn next_list_part(&self) -> Option<Run> {
        if self.segment_bytes > 0 {
            return Some((self.list, self.segment_bytes.min(PART_BYTES_MAX)));
        }
        (self.left > 0).then(|| (self.list, self.unknown_pages_left().min(self.room()) * 8))
    }

    /// Adds the host memory that a part of the list describes; the part is the one that [`Data::next_list_part`] named.
    ///
    /// # Errors
    /// PRP Offset Invalid for a PRP entry that is not page-aligned. For SGL descriptors: Invalid SGL Segment
    /// Descriptor, Invalid Number of SGL Descriptors, Data SGL Length Invalid, or SGL Descriptor Type Invalid.
    ///
    /// # Panics
    /// If the part does not have the length that [`Data::next_list_part`] named.
    pub fn add_prp_list_part(&mut self, part: &[u8]) -> Result<(), Status> {
        let expected = self.next_list_part().map_or(0, |(_, bytes)| bytes);
        assert_eq!(part.len(), index(expected), "a list is read as it was asked for");
        if self.segment_bytes > 0 {
            return self.add_sgl_segment(part);
        }
        let (entries, _) = part.as_chunks::<8>();
        let (pages, next) = match entries.split_last() {
            Some((next, pages)) if self.unknown_pages_left() > self.room() => (pages, Some(next)),
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

    /// Returns all contiguous runs of host memory, in the order of the data. Precondition:
    /// [`Data::next_list_part`] returns none.
    #[inline]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Shortens the data to its first `bytes` bytes. Precondition: [`Data::next_list_part`] returns none.
    pub fn truncate(&mut self, bytes: u32) {
        let mut left = bytes;
        for (_, length) in &mut self.runs {
            *length = left.min(*length);
            left -= *length;
        }
        self.runs.retain(|(_, length)| *length > 0);
    }

    /// Returns the number of memory pages of the data whose addresses are not known yet.
    fn unknown_pages_left(&self) -> u32 {
        self.left.div_ceil(low_u32(PAGE_BYTES))
    }

    /// Returns the number of PRP entries from the current position of the list to the end of its page.
    fn room(&self) -> u32 {
        low_u32((PAGE_BYTES - self.list % PAGE_BYTES) / 8)
    }

    /// Adds the page of host memory that a PRP entry points to, merged with the previous page if it is adjacent.
    #[inline]
    fn append(&mut self, entry: u64) -> Result<(), Status> {
        let address = page(entry)?;
        let bytes = self.left.min(low_u32(PAGE_BYTES));
        self.left -= bytes;
        match self.runs.last_mut() {
            Some((first, length)) if first.checked_add(u64::from(*length)) == Some(address) => *length += bytes,
            _ => self.runs.push((address, bytes)),
        }
        Ok(())
    }
}

/// Returns host address and length in bytes that an SGL descriptor holds.
fn address_and_length_of(descriptor: &Descriptor) -> Run {
    (descriptor.get(SegmentDescriptor::ADDRESS), descriptor.get(SegmentDescriptor::LENGTH))
}

/// Returns the page address that a PRP entry holds, or PRP Offset Invalid if the entry is not page-aligned.
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
    fn two_prp_entries_merge_adjacent_pages() {
        assert_eq!(Data::of_prp_entries(0x1200, 0, 0xe00).unwrap().runs(), [(0x1200, 0xe00)]);
        assert_eq!(Data::of_prp_entries(0x1200, 0x2000, 0x1000).unwrap().runs(), [(0x1200, 0x1000)]);
        assert_eq!(Data::of_prp_entries(0x1200, 0x5000, 0x1000).unwrap().runs(), [(0x1200, 0xe00), (0x5000, 0x200)]);
        assert_eq!(Data::of_prp_entries(0x1202, 0, 4), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(Data::of_prp_entries(0x1000, 0x2004, 0x1001), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(Data::of_prp_entries(0x1000, 0x2004, 0x2001), Err(Status::INVALID_PRP_OFFSET));
    }

    #[test]
    fn prp_list_continues_at_its_last_entry() {
        // Four data pages. The list begins two entries before the end of a page, so it continues on another page.
        let mut data = Data::of_prp_entries(0x1000, 0x8ff0, 0x4000).unwrap();
        assert_eq!(data.next_list_part(), Some((0x8ff0, 16)));
        data.add_prp_list_part(&list(&[0x3000, 0x9000])).unwrap();
        assert_eq!(data.next_list_part(), Some((0x9000, 16)));
        data.add_prp_list_part(&list(&[0x4000, 0x7000])).unwrap();
        assert_eq!(
            (data.next_list_part(), data.runs()),
            (None, &[(0x1000, 0x1000), (0x3000, 0x2000), (0x7000, 0x1000)][..])
        );
    }

    #[test]
    fn prp_list_that_fits_its_page_has_no_continuation() {
        let mut data = Data::of_prp_entries(0x1000, 0x8ff0, 0x3000).unwrap();
        assert_eq!(data.next_list_part(), Some((0x8ff0, 16)));
        data.add_prp_list_part(&list(&[0x3000, 0x9000])).unwrap();
        assert_eq!((data.next_list_part(), data.runs().len()), (None, 3));
    }

    #[test]
    fn prp_list_entries_are_page_aligned() {
        for entries in [[0x3004, 0x9000], [0x3000, 0x9008]] {
            let mut data = Data::of_prp_entries(0x1000, 0x8ff0, 0x4000).unwrap();
            assert_eq!(data.add_prp_list_part(&list(&entries)), Err(Status::INVALID_PRP_OFFSET));
        }
    }

    /// Addresses of the data's pages in host memory, no two of them adjacent.
    const PAGES: [u64; 6] = [0x10_0000, 0x30_0000, 0x50_0000, 0x20_0000, 0x70_0000, 0x60_0000];
    /// Addresses of the pages of the PRP list in host memory.
    const LIST: [u64; 2] = [0xa0_0000, 0xc0_0000];

    /// Returns the parts of a PRP list for `pages`, each with its address. The list begins `room` entries before the
    /// end of its page.
    fn parts(pages: &[u64], room: usize) -> Vec<(u64, Vec<u64>)> {
        let first = LIST[0] + PAGE_BYTES - 8 * room as u64;
        if pages.len() <= room {
            return vec![(first, pages.to_vec())];
        }
        let (here, rest) = pages.split_at(room - 1);
        vec![(first, [here, &[LIST[1]]].concat()), (LIST[1], rest.to_vec())]
    }

    #[test]
    fn short_prp_lists_give_the_intended_pages_for_all_offsets() {
        for offset in (0..PAGE_BYTES).step_by(4) {
            for bytes in (512..=5 * PAGE_BYTES as u32).step_by(512) {
                let count = (offset as u32 + bytes).div_ceil(PAGE_BYTES as u32) as usize;
                let mut left = bytes;
                let meant: Vec<Run> = (0..count)
                    .map(|page| {
                        let address = if page == 0 { PAGES[0] + offset } else { PAGES[page] };
                        let here = left.min((PAGE_BYTES - address % PAGE_BYTES) as u32);
                        left -= here;
                        (address, here)
                    })
                    .collect();
                for room in 1..PAGES.len() {
                    let parts = parts(&PAGES[1..count], room);
                    let second = match count {
                        1 => 0,
                        2 => PAGES[1],
                        _ => parts[0].0,
                    };
                    let mut data = Data::of_prp_entries(PAGES[0] + offset, second, bytes).unwrap();
                    for (address, entries) in parts.iter().filter(|_| count > 2) {
                        assert_eq!(data.next_list_part(), Some((*address, 8 * entries.len() as u32)));
                        data.add_prp_list_part(&list(entries)).unwrap();
                    }
                    assert_eq!((data.next_list_part(), data.runs()), (None, &meant[..]), "{offset} {bytes} {room}");
                }
            }
        }
    }

    fn descriptor(kind: u8, address: u64, bytes: u32) -> [u64; 2] {
        [address, u64::from(kind) << 56 | u64::from(bytes)]
    }

    /// Returns the runs of host memory that a chain of SGL segments describes, each read when
    /// [`Data::next_list_part`] asks for it, or the error.
    fn runs_of_sgl_segments(first: [u64; 2], bytes: u32, segments: &[&[[u64; 2]]]) -> Result<Vec<Run>, Status> {
        let mut data = Data::of_sgl_descriptor(first[0], first[1], bytes)?;
        for segment in segments {
            let (_, wanted) = data.next_list_part().expect("a segment is wanted");
            assert_eq!(wanted as usize, segment.len() * 16);
            data.add_prp_list_part(&list(&segment.concat()))?;
        }
        assert_eq!(data.next_list_part(), None);
        Ok(data.runs().to_vec())
    }

    #[test]
    fn sgl_segments_chain_and_adjacent_blocks_merge() {
        let block = |address, bytes| descriptor(DATA_BLOCK, address, bytes);
        assert_eq!(runs_of_sgl_segments(block(3, 512), 512, &[]), Ok(vec![(3, 512)]), "any address will do");
        let last = [block(0x1000, 100), block(0x1064, 156), block(7, 0), block(0x9001, 256)];
        let runs = vec![(0x1000, 256), (0x9001, 256)];
        assert_eq!(runs_of_sgl_segments(descriptor(LAST_SEGMENT, 0x5000, 64), 512, &[&last]), Ok(runs.clone()));
        let first = [block(0x1000, 100), descriptor(LAST_SEGMENT, 0x77, 48)];
        assert_eq!(runs_of_sgl_segments(descriptor(SEGMENT, 0x5008, 32), 512, &[&first, &last[1..]]), Ok(runs));
    }

    #[test]
    fn invalid_sgl_descriptors_have_their_statuses() {
        let block = |bytes| descriptor(DATA_BLOCK, 0x1000, bytes);
        let (lead, last) = (descriptor(SEGMENT, 0x5000, 32), descriptor(LAST_SEGMENT, 0x5000, 32));
        for (first, segment, expected) in [
            (block(511), None, Status::INVALID_SGL_LENGTH),
            (descriptor(DATA_BLOCK, u64::MAX - 511, 512), None, Status::INVALID_SGL_LENGTH),
            (descriptor(0x10, 0, 512), None, Status::INVALID_SGL_TYPE),
            (descriptor(0x01, 0, 512), None, Status::INVALID_SGL_TYPE),
            (descriptor(LAST_SEGMENT, 0, 0), None, Status::INVALID_SGL_SEGMENT),
            (descriptor(LAST_SEGMENT, 0, 24), None, Status::INVALID_SGL_SEGMENT),
            (last, Some([block(256), block(255)]), Status::INVALID_SGL_LENGTH),
            (last, Some([block(256), block(257)]), Status::INVALID_SGL_LENGTH),
            (last, Some([block(256), last]), Status::INVALID_SGL_SEGMENT),
            (lead, Some([last, block(512)]), Status::INVALID_SGL_SEGMENT),
            (lead, Some([block(256), block(256)]), Status::INVALID_SGL_SEGMENT),
            (last, Some([block(256), descriptor(0x40, 0, 256)]), Status::INVALID_SGL_TYPE),
        ] {
            let segments: Vec<&[[u64; 2]]> = segment.iter().map(|segment| &segment[..]).collect();
            assert_eq!(runs_of_sgl_segments(first, 512, &segments), Err(expected), "{first:x?} {segment:x?}");
        }
    }

    #[test]
    fn chain_of_empty_sgl_segments_ends() {
        let endless = descriptor(SEGMENT, 0x5000, 4096);
        let mut data = Data::of_sgl_descriptor(endless[0], endless[1], 512).unwrap();
        let mut segment = vec![descriptor(DATA_BLOCK, 0, 0); 255];
        segment.push(endless);
        let part = list(&segment.concat());
        let ended = (0..100).find_map(|_| data.add_prp_list_part(&part).err());
        assert_eq!(ended, Some(Status::INVALID_SGL_COUNT));
        let long = descriptor(LAST_SEGMENT, 0x5000, 10_000 * 16);
        assert_eq!(
            Data::of_sgl_descriptor(long[0], long[1], 512).unwrap().next_list_part(),
            Some((0x5000, 4096)),
            "a page at a time"
        );
    }
}
