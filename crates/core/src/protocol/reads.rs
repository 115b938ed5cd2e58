//! Flow control of a device's reads of host memory: a read is sent once enough tags are free, and waits in order until
//! then.

use std::collections::VecDeque;

use crate::config;
use crate::link::Link;
use crate::shared::Shared;
use crate::tlp::Packet;

/// Tags for a device's outstanding read requests (one for each request packet), and the reads that wait for tags.
#[derive(Clone, Debug)]
pub struct Reads {
    request_bytes_max: u32,
    tags: u32,
    tags_free: u32,
    waiting: VecDeque<Packet>,
}

impl Reads {
    /// Returns the state of a device with `tags` free tags. Each of its read request packets asks for at most
    /// `request_bytes_max` bytes.
    pub fn new(tags: u16, request_bytes_max: u32) -> Reads {
        Reads { request_bytes_max, tags: tags.into(), tags_free: tags.into(), waiting: VecDeque::new() }
    }

    /// Returns the state of a device at this link, all of whose tags are free.
    pub fn at(link: &config::Link) -> Reads {
        Reads::new(link.read_tags, link.max_read_request_bytes)
    }

    /// Returns the most bytes that one read request packet may ask for.
    pub fn request_bytes_max(&self) -> u32 {
        self.request_bytes_max
    }

    /// Sends a read of host memory at once, if enough tags are free and no read waits. Otherwise queues it behind the
    /// waiting reads.
    #[inline(always)]
    pub fn request(&mut self, packet: Packet, link: &mut Link, shared: &mut Shared) {
        let tags = self.tags(packet.bytes);
        if self.waiting.is_empty() && tags <= self.tags_free {
            self.tags_free -= tags;
            return link.send(packet, shared);
        }
        self.wait_for_tags(packet);
    }

    #[cold]
    #[inline(never)]
    fn wait_for_tags(&mut self, packet: Packet) {
        self.waiting.push_back(packet);
    }

    /// Frees the tags of a completed read of `bytes` bytes, and sends waiting reads for which tags are now free.
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

    /// Returns the number of tags that a read of `bytes` bytes needs: one for each request packet, at most all tags of
    /// the device.
    fn tags(&self, bytes: u32) -> u32 {
        if bytes <= self.request_bytes_max {
            return 1;
        }
        self.tags_needed(bytes)
    }

    #[inline(never)]
    fn tags_needed(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.request_bytes_max).min(self.tags)
    }
}
