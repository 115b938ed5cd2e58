//! Choice of the incomplete tag (the value that marks a receive buffer as not filled) by the endpoint, in runs with
//! data. The endpoint sees every write and keeps the last bytes of each chunk. It tells the host a new tag when a write
//! makes some chunk end in the current one (section 3.1, the two deterministic strategies).
//!
//! The new tag travels to the host as a posted write, before the write that forced it is acknowledged. A read may have
//! been marked with the old tag before that. If it then meets the new data, it is stuck until the host's time-out. Only
//! in that window can a block-aligned read collide. No time is charged for the comparison of candidates with the
//! contents: it takes no time on the link, and the next tag can be chosen in advance.

use super::Role;
use super::endpoint::Endpoint;
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::number::{index, length, wide_index};
use crate::protocol::dc_express::config::IncompleteTagChoice;
use crate::protocol::ports::Ports;
use crate::random::Random;
use crate::tlp::{Direction, Packet};
use phaselink_ring::trailer::{self, ArrivalTagSource, StoredTrailerCounts, TagWidth, UnusedTrailerIntervals};

/// Offset in bytes of the announced tag from a queue's mode word in host memory.
const TAG_WORD: u64 = 8;

/// Endpoint's record of the last bytes of all chunks (data of one packet each) on the device, and the current tag, in
/// which no chunk ends.
#[derive(Clone, Debug)]
pub(super) struct ChunkTrailers {
    source: ArrivalTagSource,
    width: TagWidth,
    chunk_bytes: u64,
    changes: u64,
}

impl ChunkTrailers {
    /// Returns the record of the last bytes of chunks for a device full of zeros; none if the host draws tags at
    /// random.
    fn new(drive: &Drive, seed: u64) -> Option<ChunkTrailers> {
        let config = &drive.dc_express;
        let width = TagWidth::from_bits(config.tag_bits).expect("the schema allows these widths alone");
        // If packets are larger than blocks, a read may end at any block, so each block needs a tag.
        let chunk_bytes = u64::from(drive.link.max_payload_bytes).min(BLOCK_BYTES);
        let chunks = drive.media.capacity_bytes() / chunk_bytes;
        let seed = Random::stream(seed, "tag source").bits();
        let source = match config.tag_choice {
            IncompleteTagChoice::Random => return None,
            IncompleteTagChoice::Compare => {
                ArrivalTagSource::compare(width, seed, StoredTrailerCounts::uniform(0, chunks))
            }
            IncompleteTagChoice::Intervals => {
                ArrivalTagSource::intervals(width, seed, UnusedTrailerIntervals::uniform(width, 0, chunks))
            }
        };
        Some(ChunkTrailers { source, width, chunk_bytes, changes: 0 })
    }

    /// Adds the contents that the device already holds, such as after a reset. Pages that were never written are zeros.
    fn add_stored_contents(&mut self, contents: &SparseBytes) {
        for page in contents.pages() {
            for place in trailer::places(page.len(), wide_index(self.chunk_bytes), self.width) {
                let mut found = [0; 8];
                found[..place.len()].copy_from_slice(&page[place]);
                self.source.on_write(0, u64::from_le_bytes(found));
            }
        }
    }

    /// Records that a write replaces the last bytes of chunks (data of one packet each). Returns true if the tag has to
    /// change because of it.
    fn record_replaced_trailers(&mut self, packet: &Packet, held: &SparseBytes, arrived: &[u8]) -> bool {
        let before = self.source.current();
        let chunk_bytes = wide_index(self.chunk_bytes);
        let whole_bytes = index(packet.bytes) / chunk_bytes * chunk_bytes;
        for place in trailer::places(whole_bytes, chunk_bytes, self.width) {
            let (at, bytes) = (length(place.start), place.len());
            let (mut old, mut new) = ([0; 8], [0; 8]);
            held.read(packet.device_offset + at, &mut old[..bytes]);
            new[..bytes].copy_from_slice(&arrived[place]);
            self.source.on_write(u64::from_le_bytes(old), u64::from_le_bytes(new));
        }
        self.source.current() != before
    }

    /// Returns the bytes that announce the current tag to the host. All ones mean that every value is in use.
    fn tag_announcement_bytes(&self) -> [u8; 8] {
        let none = u64::MAX;
        self.source.current().unwrap_or(none).to_le_bytes()
    }
}

impl Endpoint {
    /// Starts to keep the last bytes of chunks (data of one packet each), if the choice of tags needs them. Writes the
    /// first tag into the host's mode words, where the driver finds it when it sets up its queues.
    pub(super) fn keep_trailers(&mut self, drive: &Drive, seed: u64, held: &SparseBytes, memory: &mut HostMemory) {
        let Some(mut trailers) = ChunkTrailers::new(drive, seed) else { return };
        trailers.add_stored_contents(held);
        for word in self.mode_word_addresses() {
            memory.write(word + TAG_WORD, &trailers.tag_announcement_bytes());
        }
        self.trailers = Some(Box::new(trailers));
    }

    /// Records the last bytes of chunks of write data that is about to be stored. Announces a new tag to the host if
    /// one of them equals the current tag.
    pub(super) fn record_written_trailers(&mut self, packet: &Packet, arrived: &[u8], ports: &mut Ports) {
        let Some((trailers, data)) = self.trailers.as_mut().zip(ports.data.as_ref()) else { return };
        if !trailers.record_replaced_trailers(packet, &data.contents, arrived) {
            return;
        }
        trailers.changes += 1;
        let tag = trailers.tag_announcement_bytes();
        let token = Role::TAG.token(0);
        for word in self.mode_word_addresses() {
            ports.link.write(Direction::Up, word + TAG_WORD, &tag, token, ports.shared);
        }
    }

    /// Returns the number of times that the endpoint has changed the tag; none if the host draws tags at random.
    pub(super) fn count_tag_changes(&self) -> Option<u64> {
        self.trailers.as_ref().map(|trailers| trailers.changes)
    }
}

/// Returns the tag that the endpoint has announced for a queue, from host memory. Returns none if chunks end in every
/// value of this width, which the endpoint announces by a value beyond the width. With 64 bits, some value is always
/// free.
pub(super) fn announced(mode_word: u64, width: TagWidth, memory: &HostMemory) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(mode_word + TAG_WORD, &mut bytes);
    Some(u64::from_le_bytes(bytes)).filter(|&tag| tag <= width.max_tag_value())
}
