//! Host memory that a command's data pointer describes (section 4.1).
//!
//! Two physical region page (PRP) entries are in the command. Beyond two pages, the second points to a list, which may
//! continue in other pages. Alternatively the command holds a scatter-gather (SGL) descriptor: of the data itself, or
//! of a segment of descriptors, the last of which may lead to another segment. The caller reads the memory that
//! [`Data::wanted`] names and passes its bytes to [`Data::on_list`], until nothing more is wanted; each part of a list
//! is read once.

use smallvec::SmallVec;

use crate::protocol::nvme::spec::{PAGE_BYTES, Status, SubmissionEntry};

/// Contiguous host memory: first address, bytes.
pub type Run = (u64, u32);

/// Bytes of a scatter-gather descriptor, and the accepted descriptor types with the subtype of an address (figures 93
/// and 94).
const DESCRIPTOR_BYTES: u32 = 16;
const DATA_BLOCK: u64 = 0x00;
const SEGMENT: u64 = 0x20;
const LAST_SEGMENT: u64 = 0x30;
/// Most descriptors of a command, so that every chain ends (assumed: 2 MiB in pieces of 512 bytes).
const DESCRIPTORS_MAX: u32 = 4096;
/// Most bytes of a list that are read at a time.
const PART_BYTES_MAX: u32 = PAGE_BYTES as u32;

/// Host memory of one command's data, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Contiguous runs in the order of the data.
    runs: SmallVec<[Run; 2]>,
    /// Address at which the list continues, and the bytes that the rest of it describes: 0 if all is known.
    list: u64,
    left: u32,
    /// Bytes left of the current segment of descriptors (0 outside segments), true if it is the last segment, and
    /// number of descriptors read so far.
    segment_bytes: u32,
    is_last_segment: bool,
    descriptors: u32,
}

impl Data {
    /// Returns the data pointer of a command without data.
    pub fn none() -> Data {
        Data::default()
    }

    /// Returns the host memory of `bytes` of data as far as the data pointer of a command describes it.
    ///
    /// # Errors
    /// PRP Offset Invalid for an address that is not aligned as the specification demands; for descriptors the errors of
    /// [`Data::on_list`].
    #[inline]
    pub fn of(entry: &SubmissionEntry, bytes: u32) -> Result<Data, Status> {
        match entry.is_sgl() {
            false => Data::of_pages(entry.prp1, entry.prp2, bytes),
            true => Data::of_segment(entry.prp1, entry.prp2, bytes),
        }
    }

    /// Returns the memory that two PRP entries describe (section 4.1.1).
    #[inline]
    fn of_pages(first: u64, second: u64, bytes: u32) -> Result<Data, Status> {
        if !first.is_multiple_of(4) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        let in_first = ((PAGE_BYTES - first % PAGE_BYTES) as u32).min(bytes);
        let mut data = Data { list: second, left: bytes - in_first, ..Data::default() };
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

    /// Returns the memory that the scatter-gather descriptor in the command describes (section 4.1.2.1).
    fn of_segment(address: u64, descriptor: u64, bytes: u32) -> Result<Data, Status> {
        let mut data = Data { left: bytes, ..Data::default() };
        match descriptor >> 56 {
            DATA_BLOCK => {
                data.append_block(address, descriptor as u32)?;
                data.check_whole()?;
            }
            _ => data.begin_segment(address, descriptor)?,
        }
        Ok(data)
    }

    /// Starts a segment of descriptors.
    fn begin_segment(&mut self, address: u64, descriptor: u64) -> Result<(), Status> {
        let bytes = descriptor as u32;
        self.is_last_segment = match descriptor >> 56 {
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

    /// Handles a part of a segment and adds the memory that its descriptors describe.
    fn on_segment(&mut self, part: &[u8]) -> Result<(), Status> {
        for descriptor in part.as_chunks::<16>().0 {
            let [address, descriptor] = [0, 1].map(|word| u64::from_le_bytes(descriptor.as_chunks().0[word]));
            self.descriptors += 1;
            if self.descriptors > DESCRIPTORS_MAX {
                return Err(Status::INVALID_SGL_COUNT);
            }
            self.list += u64::from(DESCRIPTOR_BYTES);
            self.segment_bytes -= DESCRIPTOR_BYTES;
            self.on_descriptor(address, descriptor)?;
        }
        if self.segment_bytes == 0 { self.check_whole() } else { Ok(()) }
    }

    /// Handles one descriptor. The last descriptor of a segment leads to another segment, unless the segment is the
    /// last; no other descriptor does.
    fn on_descriptor(&mut self, address: u64, descriptor: u64) -> Result<(), Status> {
        let has_to_lead_on = self.segment_bytes == 0 && !self.is_last_segment;
        match descriptor >> 56 {
            DATA_BLOCK if has_to_lead_on => Err(Status::INVALID_SGL_SEGMENT),
            DATA_BLOCK => self.append_block(address, descriptor as u32),
            SEGMENT | LAST_SEGMENT if !has_to_lead_on => Err(Status::INVALID_SGL_SEGMENT),
            _ => self.begin_segment(address, descriptor),
        }
    }

    /// Checks, when all descriptors are known, that they describe as many bytes as the command moves.
    fn check_whole(&self) -> Result<(), Status> {
        if self.left == 0 { Ok(()) } else { Err(Status::INVALID_SGL_LENGTH) }
    }

    /// Adds the next block of the data, which may be empty.
    fn append_block(&mut self, address: u64, bytes: u32) -> Result<(), Status> {
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

    /// Returns address and bytes of the part of the list to read next, or none if all data is known.
    ///
    /// A part of a PRP list ends with its page at the latest, and its last entry then leads to the list's next page, as
    /// long as there is more to describe. Only the first part may begin in the middle of a page, so that every further
    /// one describes pages and the chain ends.
    #[inline]
    pub fn wanted(&self) -> Option<Run> {
        if self.segment_bytes > 0 {
            return Some((self.list, self.segment_bytes.min(PART_BYTES_MAX)));
        }
        (self.left > 0).then(|| (self.list, self.pages_left().min(self.room()) * 8))
    }

    /// Handles the part of the list that [`Data::wanted`] named.
    ///
    /// # Errors
    /// PRP Offset Invalid for an entry that is not page-aligned; for descriptors Invalid SGL Segment Descriptor, Invalid Number
    /// of SGL Descriptors, Data SGL Length Invalid, or SGL Descriptor Type Invalid.
    ///
    /// # Panics
    /// If the part does not have the length that was wanted.
    pub fn on_list(&mut self, part: &[u8]) -> Result<(), Status> {
        let wanted = self.wanted().map_or(0, |(_, bytes)| bytes);
        assert_eq!(part.len(), wanted as usize, "a list is read as it was asked for");
        if self.segment_bytes > 0 {
            return self.on_segment(part);
        }
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

    /// Returns all runs of contiguous host memory, once nothing more is wanted.
    #[inline]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Keeps only the first `bytes` of the data, once nothing more is wanted.
    pub fn truncate(&mut self, bytes: u32) {
        let mut left = bytes;
        for (_, length) in &mut self.runs {
            *length = left.min(*length);
            left -= *length;
        }
        self.runs.retain(|(_, length)| *length > 0);
    }

    /// Returns the number of pages that are not described yet.
    fn pages_left(&self) -> u32 {
        self.left.div_ceil(PAGE_BYTES as u32)
    }

    /// Returns the number of entries of the list from here to the end of its page.
    fn room(&self) -> u32 {
        ((PAGE_BYTES - self.list % PAGE_BYTES) / 8) as u32
    }

    /// Adds the next page of the data.
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

/// Returns the address of a PRP entry, which has to be page-aligned.
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

    /// Pages of the data, none of them beside another, and of its list.
    const PAGES: [u64; 6] = [0x10_0000, 0x30_0000, 0x50_0000, 0x20_0000, 0x70_0000, 0x60_0000];
    const LIST: [u64; 2] = [0xa0_0000, 0xc0_0000];

    /// The parts of a list of `pages` that begins so many entries before the end of its page, each with its address.
    fn parts(pages: &[u64], room: usize) -> Vec<(u64, Vec<u64>)> {
        let first = LIST[0] + PAGE_BYTES - 8 * room as u64;
        if pages.len() <= room {
            return vec![(first, pages.to_vec())];
        }
        let (here, rest) = pages.split_at(room - 1);
        vec![(first, [here, &[LIST[1]]].concat()), (LIST[1], rest.to_vec())]
    }

    #[test]
    fn every_offset_length_and_place_of_a_short_list_gives_the_pages_that_a_host_meant() {
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
                    let mut data = Data::of_pages(PAGES[0] + offset, second, bytes).unwrap();
                    for (address, entries) in parts.iter().filter(|_| count > 2) {
                        assert_eq!(data.wanted(), Some((*address, 8 * entries.len() as u32)));
                        data.on_list(&list(entries)).unwrap();
                    }
                    assert_eq!((data.wanted(), data.runs()), (None, &meant[..]), "{offset} {bytes} {room}");
                }
            }
        }
    }

    fn descriptor(kind: u64, address: u64, bytes: u32) -> [u64; 2] {
        [address, kind << 56 | u64::from(bytes)]
    }

    /// The data that segments describe, each read when it is wanted, or why they describe none.
    fn described(first: [u64; 2], bytes: u32, segments: &[&[[u64; 2]]]) -> Result<Vec<Run>, Status> {
        let mut data = Data::of_segment(first[0], first[1], bytes)?;
        for segment in segments {
            let (_, wanted) = data.wanted().expect("a segment is wanted");
            assert_eq!(wanted as usize, segment.len() * 16);
            data.on_list(&list(&segment.concat()))?;
        }
        assert_eq!(data.wanted(), None);
        Ok(data.runs().to_vec())
    }

    #[test]
    fn descriptors_lead_from_segment_to_segment_and_neighbours_are_one_run() {
        let block = |address, bytes| descriptor(DATA_BLOCK, address, bytes);
        assert_eq!(described(block(3, 512), 512, &[]), Ok(vec![(3, 512)]), "any address will do");
        let last = [block(0x1000, 100), block(0x1064, 156), block(7, 0), block(0x9001, 256)];
        let runs = vec![(0x1000, 256), (0x9001, 256)];
        assert_eq!(described(descriptor(LAST_SEGMENT, 0x5000, 64), 512, &[&last]), Ok(runs.clone()));
        let first = [block(0x1000, 100), descriptor(LAST_SEGMENT, 0x77, 48)];
        assert_eq!(described(descriptor(SEGMENT, 0x5008, 32), 512, &[&first, &last[1..]]), Ok(runs));
    }

    #[test]
    fn what_is_wrong_with_descriptors_has_its_status() {
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
            assert_eq!(described(first, 512, &segments), Err(expected), "{first:x?} {segment:x?}");
        }
    }

    #[test]
    fn a_chain_of_segments_that_describe_nothing_ends() {
        let endless = descriptor(SEGMENT, 0x5000, 4096);
        let mut data = Data::of_segment(endless[0], endless[1], 512).unwrap();
        let mut segment = vec![descriptor(DATA_BLOCK, 0, 0); 255];
        segment.push(endless);
        let part = list(&segment.concat());
        let ended = (0..100).find_map(|_| data.on_list(&part).err());
        assert_eq!(ended, Some(Status::INVALID_SGL_COUNT));
        let long = descriptor(LAST_SEGMENT, 0x5000, 10_000 * 16);
        assert_eq!(Data::of_segment(long[0], long[1], 512).unwrap().wanted(), Some((0x5000, 4096)), "a page at a time");
    }
}
