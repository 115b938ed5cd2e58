//! The endpoint's choice of the tag, in runs with data: it sees every write, keeps what chunks end in, and tells the
//! host when a write makes the tag one in which a chunk ends (section 3.1, the two deterministic strategies).
//!
//! The new tag travels to the host as a posted write, before the write that forced it is acknowledged. Reads that were
//! marked with the old tag before it arrived, and meet the new data, are stuck until the host's time-out: that window
//! is the only one in which a block-aligned read collides. Comparing candidates with the contents takes the device
//! time, but none on the link, and the next tag can be sought in advance: nothing is charged for it.

use super::Role;
use super::endpoint::Endpoint;
use super::tags::{StoredTails, TagSource, TagWidth, UnusedTails, tail};
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::protocol::dc_express::config::TagChoice;
use crate::protocol::ports::Ports;
use crate::random::Random;
use crate::shared::Shared;
use crate::tlp::{Direction, Packet};

/// Where the tag stands, behind a queue's mode word.
const TAG_WORD: u64 = 8;

/// What chunks end in, and the tag chosen so that none ends in it.
#[derive(Clone, Debug)]
pub(super) struct Tails {
    source: TagSource,
    width: TagWidth,
    chunk_bytes: u64,
    changes: u64,
}

impl Tails {
    /// A fresh device's, all zeros; none where tags are chosen blindly.
    fn new(drive: &Drive, seed: u64) -> Option<Tails> {
        let config = &drive.dc_express;
        let width = TagWidth::from_bits(config.tag_bits).expect("the schema allows these widths alone");
        // Where packets are larger than blocks, the end of any block may be the end of a read.
        let chunk_bytes = u64::from(drive.link.max_payload_bytes).min(BLOCK_BYTES);
        let chunks = (drive.media.capacity_mib << 20) / chunk_bytes;
        let seed = Random::stream(seed, "tag source").bits();
        let source = match config.tag_choice {
            TagChoice::Random => return None,
            TagChoice::Compare => TagSource::compare(width, seed, StoredTails::uniform(0, chunks)),
            TagChoice::Intervals => TagSource::intervals(width, seed, UnusedTails::uniform(width, 0, chunks)),
        };
        Some(Tails { source, width, chunk_bytes, changes: 0 })
    }

    /// Record what a write changes; true if the tag is another one now.
    fn learn(&mut self, packet: &Packet, shared: &Shared) -> bool {
        let data = shared.data.as_ref().expect("tails are kept in runs with data");
        let before = self.source.current();
        let mut place = self.chunk_bytes;
        while place <= packet.bytes.into() {
            let at = place - self.width.bytes() as u64;
            let (mut old, mut new) = ([0; 8], [0; 8]);
            let (old, new) = (&mut old[..self.width.bytes()], &mut new[..self.width.bytes()]);
            data.contents.read(packet.device_offset + at, old);
            shared.memory.read(packet.address + at, new);
            self.source.on_write(tail(old, self.width), tail(new, self.width));
            place += self.chunk_bytes;
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
    pub(super) fn keep_tails(&mut self, drive: &Drive, seed: u64, shared: &mut Shared) {
        let Some(tails) = Tails::new(drive, seed) else { return };
        for word in self.mode_words() {
            shared.memory.write(word + TAG_WORD, &tails.announcement());
        }
        self.tails = Some(Box::new(tails));
    }

    /// Data of a write has arrived and is about to be stored: record its tails, and announce the tag if it has to
    /// change.
    pub(super) fn learn_tails(&mut self, packet: &Packet, ports: &mut Ports) {
        let Some(tails) = &mut self.tails else { return };
        if !tails.learn(packet, ports.shared) {
            return;
        }
        tails.changes += 1;
        let tag = tails.announcement();
        let token = Role::TAG.token(0);
        for word in self.mode_words() {
            ports.link.write(Direction::Up, word + TAG_WORD, &tag, token, ports.shared);
        }
    }

    /// How often the tag has changed, if it is the endpoint's to choose.
    pub(super) fn tag_changes(&self) -> Option<u64> {
        self.tails.as_ref().map(|tails| tails.changes)
    }
}

/// The tag that the endpoint has told a queue's host of; none if chunks end in every value of this width, for which a
/// value beyond the width stands. Chunks never end in every value of 64 bits.
pub(super) fn announced(mode_word: u64, width: TagWidth, memory: &HostMemory) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(mode_word + TAG_WORD, &mut bytes);
    Some(u64::from_le_bytes(bytes)).filter(|&tag| tag <= width.value_max())
}
