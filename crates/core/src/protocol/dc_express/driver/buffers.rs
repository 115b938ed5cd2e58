//! Receive buffers in runs with data: the tags that really stand in them say whether a read is complete.

use super::{Driver, Read};
use crate::link::Link;
use crate::memory::HostMemory;
use crate::protocol::dc_express::ReadName;
use crate::protocol::dc_express::config::TagChoice;
use crate::protocol::dc_express::tags::{self, TagWidth};
use crate::protocol::dc_express::tails::announced;
use crate::shared::Shared;
use crate::time::Time;

impl Driver {
    /// Mark the buffer of the read in `slot` with a tag, which is returned.
    pub(super) fn mark(&mut self, number: usize, slot: u16, shared: &mut Shared) -> u64 {
        let read = self.queues[number].reads[usize::from(slot)].expect("a read is in this slot");
        shared.prepare_buffer(read.request);
        let tag = self.choose_tag(number, &read, &shared.memory);
        let request = &shared.requests[read.request];
        let (address, mut buffer) = (request.buffer, vec![0; request.io.bytes as usize]);
        shared.memory.read(address, &mut buffer);
        tags::mark(&mut buffer, self.chunk_bytes as usize, tag, self.width());
        shared.memory.write(address, &buffer);
        tag
    }

    /// The driver's own random tag, or the one that the endpoint has announced. A read that got stuck with that one
    /// is not protected by it (it does not end at the end of a block): another one may help.
    fn choose_tag(&mut self, number: usize, read: &Read, memory: &HostMemory) -> u64 {
        let own = self.own_tag();
        if self.tag_choice == TagChoice::Random {
            return own;
        }
        let tag = announced(self.queues[number].mode_word, self.width(), memory);
        tag.filter(|&tag| read.attempt == 0 || tag != read.tag).unwrap_or(own)
    }

    fn width(&self) -> TagWidth {
        TagWidth::from_bits(self.tag_bits).expect("the schema allows these widths alone")
    }

    /// Packets of a read's data have settled: look at the tags, as figure 2 has it.
    pub(super) fn on_bytes_settled(
        &mut self,
        now: Time,
        name: ReadName,
        total: u32,
        link: &mut Link,
        shared: &mut Shared,
    ) {
        let width = self.width();
        let read = self.queues[usize::from(name.queue)].reads[usize::from(name.slot)].as_mut().expect("a read");
        let request = &shared.requests[read.request];
        let marked = self.chunk_bytes as usize;
        let first =
            first_incomplete(&shared.memory, request.buffer, request.io.bytes as usize, marked, read.tag, width);
        let all_here = read.settled == total;
        match first {
            None => {
                assert!(all_here, "a read whose tags are gone has all its packets");
                self.finish(now, name, link, shared);
            }
            Some(_) if all_here => self.on_collision(now, name, shared),
            Some(chunk) => {
                let tail_gone = chunk + 1 < total as usize;
                self.counts.oops += u64::from(tail_gone && !std::mem::replace(&mut read.oops, tail_gone));
            }
        }
    }
}

/// As [`tags::first_incomplete`], in host memory. While the tail of the whole buffer stands, the rest is not touched.
fn first_incomplete(
    memory: &HostMemory,
    address: u64,
    bytes: usize,
    chunk_bytes: usize,
    tag: u64,
    width: TagWidth,
) -> Option<usize> {
    let chunks = bytes.div_ceil(chunk_bytes);
    let last = (chunks - 1) * chunk_bytes;
    let mut buffer = vec![0; bytes];
    memory.read(address + last as u64, &mut buffer[last..]);
    if tags::first_incomplete(&buffer[last..], chunk_bytes, tag, width).is_some() {
        return Some(chunks - 1);
    }
    memory.read(address, &mut buffer[..last]);
    tags::first_incomplete(&buffer, chunk_bytes, tag, width)
}
