//! Reads of host memory by the device: as many in flight as there are tags, the others waiting in order.

use std::collections::VecDeque;

use crate::link::Link;
use crate::shared::Shared;
use crate::tlp::Packet;

/// Tags of outstanding read requests (one for each request packet) and the reads that wait for tags.
#[derive(Clone, Debug)]
pub struct Reads {
    request_bytes_max: u32,
    tags: u32,
    tags_free: u32,
    waiting: VecDeque<Packet>,
}

impl Reads {
    /// Returns the state of a device with `tags` tags, whose read requests ask for up to `request_bytes_max` bytes
    /// each.
    pub fn new(tags: u16, request_bytes_max: u32) -> Reads {
        Reads { request_bytes_max, tags: tags.into(), tags_free: tags.into(), waiting: VecDeque::new() }
    }

    /// Returns the most bytes that one read request packet may ask for.
    pub fn request_bytes_max(&self) -> u32 {
        self.request_bytes_max
    }

    /// Sends a read now, or as soon as enough tags are free.
    #[inline(always)]
    pub fn request(&mut self, packet: Packet, link: &mut Link, shared: &mut Shared) {
        let tags = self.tags(packet.bytes);
        if self.waiting.is_empty() && tags <= self.tags_free {
            self.tags_free -= tags;
            return link.send(packet, shared);
        }
        self.put_off(packet);
    }

    #[cold]
    #[inline(never)]
    fn put_off(&mut self, packet: Packet) {
        self.waiting.push_back(packet);
    }

    /// Frees the tags of a read of `bytes` that has completed, and sends waiting reads.
    #[inline(always)]
    pub fn answered(&mut self, bytes: u32, link: &mut Link, shared: &mut Shared) {
        self.tags_free += self.tags(bytes);
        assert!(self.tags_free <= self.tags, "a completion has a tag that is not in flight");
        if !self.waiting.is_empty() {
            self.issue(link, shared);
        }
    }

    #[inline(never)]
    fn issue(&mut self, link: &mut Link, shared: &mut Shared) {
        while let Some(packet) = self.waiting.front() {
            let tags = self.tags(packet.bytes);
            if tags > self.tags_free {
                return;
            }
            self.tags_free -= tags;
            link.send(self.waiting.pop_front().expect("a read is waiting"), shared);
        }
    }

    /// Returns the number of tags that a read needs. A burst of more request packets than there are tags takes all
    /// tags.
    fn tags(&self, bytes: u32) -> u32 {
        if bytes <= self.request_bytes_max {
            return 1;
        }
        self.tags_of_several(bytes)
    }

    #[inline(never)]
    fn tags_of_several(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.request_bytes_max).min(self.tags)
    }
}
