//! Choice of the incomplete tag by the endpoint, in runs with data. The endpoint sees every write, keeps the last bytes
//! of each chunk, and tells the host a new tag when a write makes some chunk end in the current one (section 3.1, the
//! two deterministic strategies).
//!
//! The new tag travels to the host as a posted write, before the write that forced it is acknowledged. Reads that were
//! marked with the old tag before it arrived, and meet the new data, are stuck until the host's time-out: only in that
//! window can a block-aligned read collide. Comparing candidates with the contents takes the device time, but none on
//! the link, and the next tag can be chosen in advance, so no time is charged for it.

use super::Role;
use super::endpoint::Endpoint;
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::protocol::dc_express::config::TagChoice;
use crate::protocol::ports::Ports;
use crate::random::Random;
use crate::tlp::{Direction, Packet};
use phaselink_ring::trailer::{self, StoredTrailers, TagSource, TagWidth, UnusedTrailers};

/// Offset of the tag from a queue's mode word.
const TAG_WORD: u64 = 8;

/// Last bytes of all chunks, and the tag that no chunk ends in.
#[derive(Clone, Debug)]
pub(super) struct Trailers {
    source: TagSource,
    width: TagWidth,
    chunk_bytes: u64,
    changes: u64,
}

impl Trailers {
    /// Returns the trailers of a fresh device, all zeros, or none where tags are random.
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

    /// Takes over the contents of a device that is reset after writes; pages without a write are zeros.
    fn take_over(&mut self, contents: &SparseBytes) {
        for page in contents.pages() {
            for place in trailer::places(page.len(), self.chunk_bytes as usize, self.width) {
                let mut found = [0; 8];
                found[..place.len()].copy_from_slice(&page[place]);
                self.source.on_write(0, u64::from_le_bytes(found));
            }
        }
    }

    /// Records the change by a write; true if the tag changes.
    fn learn(&mut self, packet: &Packet, held: &SparseBytes, arrived: &[u8]) -> bool {
        let before = self.source.current();
        let chunk_bytes = self.chunk_bytes as usize;
        let whole_bytes = packet.bytes as usize / chunk_bytes * chunk_bytes;
        for place in trailer::places(whole_bytes, chunk_bytes, self.width) {
            let (at, bytes) = (place.start as u64, place.len());
            let (mut old, mut new) = ([0; 8], [0; 8]);
            held.read(packet.device_offset + at, &mut old[..bytes]);
            new[..bytes].copy_from_slice(&arrived[place]);
            self.source.on_write(u64::from_le_bytes(old), u64::from_le_bytes(new));
        }
        self.source.current() != before
    }

    /// Returns the bytes that announce the tag to the host.
    fn announcement(&self) -> [u8; 8] {
        let none = u64::MAX;
        self.source.current().unwrap_or(none).to_le_bytes()
    }
}

impl Endpoint {
    /// Keeps the last bytes of chunks from now on, if the choice of tags needs them. The host learns the first tag when
    /// it sets up its queues.
    pub(super) fn keep_trailers(&mut self, drive: &Drive, seed: u64, held: &SparseBytes, memory: &mut HostMemory) {
        let Some(mut trailers) = Trailers::new(drive, seed) else { return };
        trailers.take_over(held);
        for word in self.mode_words() {
            memory.write(word + TAG_WORD, &trailers.announcement());
        }
        self.trailers = Some(Box::new(trailers));
    }

    /// Records the trailers of write data that is about to be stored, and announces the tag if it has to change.
    pub(super) fn learn_trailers(&mut self, packet: &Packet, arrived: &[u8], ports: &mut Ports) {
        let Some((trailers, data)) = self.trailers.as_mut().zip(ports.data.as_ref()) else { return };
        if !trailers.learn(packet, &data.contents, arrived) {
            return;
        }
        trailers.changes += 1;
        let tag = trailers.announcement();
        let token = Role::TAG.token(0);
        for word in self.mode_words() {
            ports.link.write(Direction::Up, word + TAG_WORD, &tag, token, ports.shared);
        }
    }

    /// Returns the number of tag changes, if the endpoint chooses the tag.
    pub(super) fn tag_changes(&self) -> Option<u64> {
        self.trailers.as_ref().map(|trailers| trailers.changes)
    }
}

/// Returns the tag that the endpoint has announced to a queue's host, or none if chunks end in every value of this
/// width, which a value beyond the width announces. Chunks never end in every value of 64 bits.
pub(super) fn announced(mode_word: u64, width: TagWidth, memory: &HostMemory) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(mode_word + TAG_WORD, &mut bytes);
    Some(u64::from_le_bytes(bytes)).filter(|&tag| tag <= width.value_max())
}
