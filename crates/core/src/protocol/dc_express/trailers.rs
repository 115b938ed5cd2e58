//! The endpoint's choice of the tag, in runs with data: it sees every write, keeps what chunks end in, and tells the
//! host when a write makes the tag one in which a chunk ends (section 3.1, the two deterministic strategies).
//!
//! The new tag travels to the host as a posted write, before the write that forced it is acknowledged. Reads that were
//! marked with the old tag before it arrived, and meet the new data, are stuck until the host's time-out: that window
//! is the only one in which a block-aligned read collides. Comparing candidates with the contents takes the device
//! time, but none on the link, and the next tag can be sought in advance: nothing is charged for it.

use super::Role;
use super::endpoint::Endpoint;
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::protocol::dc_express::config::TagChoice;
use crate::protocol::ports::Ports;
use crate::random::Random;
use crate::shared::Shared;
use crate::tlp::{Direction, Packet};
use phaselink_ring::trailer::{self, StoredTrailers, TagSource, TagWidth, UnusedTrailers};

/// Where the tag stands, behind a queue's mode word.
const TAG_WORD: u64 = 8;

/// What chunks end in, and the tag chosen so that none ends in it.
#[derive(Clone, Debug)]
pub(super) struct Trailers {
    source: TagSource,
    width: TagWidth,
    chunk_bytes: u64,
    changes: u64,
}

impl Trailers {
    /// A fresh device's, all zeros; none where tags are chosen blindly.
    fn new(drive: &Drive, seed: u64) -> Option<Trailers> {
        let config = &drive.dc_express;
        let width = TagWidth::from_bits(config.tag_bits).expect("the schema allows these widths alone");
        // Where packets are larger than blocks, the end of any block may be the end of a read.
        let chunk_bytes = u64::from(drive.link.max_payload_bytes).min(BLOCK_BYTES);
        let chunks = drive.media.capacity_bytes() / chunk_bytes;
        let seed = Random::stream(seed, "tag source").bits();
        let source = match config.tag_choice {
            TagChoice::Random => return None,
            TagChoice::Compare => TagSource::compare(width, seed, StoredTrailers::uniform(0, chunks)),
            TagChoice::Intervals => TagSource::intervals(width, seed, UnusedTrailers::uniform(width, 0, chunks)),
        };
        Some(Trailers { source, width, chunk_bytes, changes: 0 })
    }

    /// Take over what a device holds that begins anew after others have written; pages that nobody wrote to are zeros.
    fn take_over(&mut self, contents: &SparseBytes) {
        for page in contents.pages() {
            for place in trailer::places(page.len(), self.chunk_bytes as usize, self.width) {
                let mut found = [0; 8];
                found[..place.len()].copy_from_slice(&page[place]);
                self.source.on_write(0, u64::from_le_bytes(found));
            }
        }
    }

    /// Record what a write changes; true if the tag is another one now.
    fn learn(&mut self, packet: &Packet, shared: &Shared) -> bool {
        let data = shared.data.as_ref().expect("trailers are kept in runs with data");
        let before = self.source.current();
        let chunk_bytes = self.chunk_bytes as usize;
        let whole_bytes = packet.bytes as usize / chunk_bytes * chunk_bytes;
        for place in trailer::places(whole_bytes, chunk_bytes, self.width) {
            let (at, bytes) = (place.start as u64, place.len());
            let (mut old, mut new) = ([0; 8], [0; 8]);
            data.contents.read(packet.device_offset + at, &mut old[..bytes]);
            shared.memory.read(packet.address + at, &mut new[..bytes]);
            self.source.on_write(u64::from_le_bytes(old), u64::from_le_bytes(new));
        }
        self.source.current() != before
    }

    /// What the host is told.
    fn announcement(&self) -> [u8; 8] {
        let none = u64::MAX;
        self.source.current().unwrap_or(none).to_le_bytes()
    }
}

impl Endpoint {
    /// Keep what chunks end in from now on, if the choice of tags needs it. The host learns the first tag when it
    /// sets up its queues.
    pub(super) fn keep_trailers(&mut self, drive: &Drive, seed: u64, shared: &mut Shared) {
        let Some(mut trailers) = Trailers::new(drive, seed) else { return };
        if let Some(data) = &shared.data {
            trailers.take_over(&data.contents);
        }
        for word in self.mode_words() {
            shared.memory.write(word + TAG_WORD, &trailers.announcement());
        }
        self.trailers = Some(Box::new(trailers));
    }

    /// Data of a write has arrived and is about to be stored: record its trailers, and announce the tag if it has to
    /// change.
    pub(super) fn learn_trailers(&mut self, packet: &Packet, ports: &mut Ports) {
        let Some(trailers) = &mut self.trailers else { return };
        if !trailers.learn(packet, ports.shared) {
            return;
        }
        trailers.changes += 1;
        let tag = trailers.announcement();
        let token = Role::TAG.token(0);
        for word in self.mode_words() {
            ports.link.write(Direction::Up, word + TAG_WORD, &tag, token, ports.shared);
        }
    }

    /// How often the tag has changed, if it is the endpoint's to choose.
    pub(super) fn tag_changes(&self) -> Option<u64> {
        self.trailers.as_ref().map(|trailers| trailers.changes)
    }
}

/// The tag that the endpoint has told a queue's host of; none if chunks end in every value of this width, for which a
/// value beyond the width stands. Chunks never end in every value of 64 bits.
pub(super) fn announced(mode_word: u64, width: TagWidth, memory: &HostMemory) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(mode_word + TAG_WORD, &mut bytes);
    Some(u64::from_le_bytes(bytes)).filter(|&tag| tag <= width.value_max())
}
