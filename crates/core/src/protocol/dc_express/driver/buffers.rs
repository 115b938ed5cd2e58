//! Receive buffers of the DC Express driver in runs with data, in which the tags tell whether a read is complete.

use phaselink_ring::trailer::{self, Tag, TagWidth};

use super::{Driver, Read};
use crate::memory::HostMemory;
use crate::number::{index, length};
use crate::protocol::dc_express::ReadIdentity;
use crate::protocol::dc_express::config::IncompleteTagChoice;
use crate::protocol::dc_express::trailers::announced;
use crate::protocol::ports::HostPorts;
use crate::time::Time;

impl Driver {
    /// Marks every chunk of the buffer of the read in `slot` with a tag. Stores the tag with the read and returns it.
    #[inline(never)]
    pub(super) fn mark(&mut self, number: usize, slot: u16, ports: &mut HostPorts) -> u64 {
        let read = *self.queues[number].reads.get_mut(usize::from(slot));
        ports.fill_write_buffer(read.request);
        let tag = Tag { value: self.choose_read_tag(number, &read, ports.memory), width: self.width() };
        self.queues[number].reads.get_mut(usize::from(slot)).tag = tag.value;
        let request = &ports.shared.requests[read.request];
        for place in trailer::places(index(request.io.bytes), index(self.chunk_bytes), tag.width) {
            let mut bytes = [0; 8];
            let bytes = &mut bytes[..place.len()];
            tag.mark(bytes);
            ports.memory.write(request.buffer + length(place.start), bytes);
        }
        tag.value
    }

    /// Returns the tag for a read: the driver's own random tag, or the one that the endpoint has announced. A read that
    /// got stuck with a tag that is still announced is repeated with the driver's own tag. Such a read does not end at
    /// the end of a block, so the announced tag does not protect it.
    fn choose_read_tag(&mut self, number: usize, read: &Read, memory: &HostMemory) -> u64 {
        let own = self.own_tag();
        if self.tag_choice == IncompleteTagChoice::Random {
            return own;
        }
        let tag = announced(self.queues[number].mode_word, self.width(), memory);
        tag.filter(|&tag| read.attempt == 0 || tag != read.tag).unwrap_or(own)
    }

    /// Returns the width of the incomplete tags in bits, as the drive file sets it.
    fn width(&self) -> TagWidth {
        TagWidth::from_bits(self.tag_bits).expect("the schema allows these widths alone")
    }

    /// Handles packets of a read's data that have become visible in memory, by checking the tags in its buffer as in
    /// figure 2. Completes the read, or counts a collision or a last packet that arrived early.
    #[inline(never)]
    pub(super) fn on_bytes_settled(&mut self, now: Time, name: ReadIdentity, total: u32, ports: &mut HostPorts) {
        let width = self.width();
        let read = self.queues[usize::from(name.queue)].reads.get_mut(usize::from(name.slot));
        let request = &ports.shared.requests[read.request];
        let tag = Tag { value: read.tag, width };
        let buffer = (request.buffer, index(request.io.bytes));
        let first = first_incomplete(ports.memory, buffer, index(self.chunk_bytes), tag);
        let all_here = read.settled == total;
        match first {
            None => {
                assert!(all_here, "a read whose tags are gone has all its packets");
                self.finish(now, name, ports);
            }
            Some(_) if all_here => self.on_tag_collision(now, name, ports),
            Some(chunk) => {
                let tail_gone = chunk + 1 < index(total);
                self.counts.oops += u64::from(tail_gone && !std::mem::replace(&mut read.oops, tail_gone));
            }
        }
    }
}

/// Returns the number of a chunk that still ends in the tag, in a buffer that is given by address and length; none if
/// no chunk does.
fn first_incomplete(memory: &HostMemory, buffer: (u64, usize), chunk_bytes: usize, tag: Tag) -> Option<usize> {
    let (address, bytes) = buffer;
    let is_marked = |chunk| {
        let place = trailer::place(chunk, bytes, chunk_bytes, tag.width);
        let mut trailer = [0; 8];
        let trailer = &mut trailer[..place.len()];
        memory.read(address + length(place.start), trailer);
        tag.ends(trailer)
    };
    trailer::first_incomplete(bytes.div_ceil(chunk_bytes), is_marked)
}
