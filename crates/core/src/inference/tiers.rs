//! Tiers of a cache: accelerator memory, host memory and drive, each with a size and a replacement.
//!
//! A block lies in accelerator memory or in host memory, not in both. Whatever a prompt uses moves to accelerator memory; a block
//! that has to leave it moves to host memory, and from there to the drive. A block that was read from the drive also stays there, so
//! that it is not written again. A block takes the room of a full one.
//!
//! A prompt's cached part is its longest beginning of which every block lies in some tier; the rest is computed. Its blocks are then
//! used from the last to the first, so that beginnings, which more prompts share, are replaced last.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::model::{KvLayout, LanguageModel};
use super::request::PromptRequest;
use crate::number::{index, short_length};
use crate::random::mix;
use crate::request::Op;

/// Bytes to a multiple of which an object is padded on a drive.
pub const PADDING_BYTES: u64 = 4096;
/// No entry.
const NONE: u32 = u32::MAX;
/// Identities up to this one are told apart by bits of a map, others by a set.
const DENSE_IDS: u64 = 1 << 28;

/// Tiers, fastest first.
pub const TIER_NAMES: [&str; 3] = ["accelerator memory", "host memory", "drive"];
const ACCELERATOR: usize = 0;
const DRIVE: usize = 2;

/// Rule by which a tier chooses the block that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierReplacement {
    /// The block that has not been used for longest.
    Lru,
    /// The block that came first.
    Fifo,
    /// The first of those that came that has not been used since it was looked at last.
    Clock,
}

impl TierReplacement {
    /// All rules.
    pub const ALL: [TierReplacement; 3] = [TierReplacement::Lru, TierReplacement::Fifo, TierReplacement::Clock];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TierReplacement::Lru => "lru",
            TierReplacement::Fifo => "fifo",
            TierReplacement::Clock => "clock",
        }
    }
}

/// Blocks that are written to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveWrites {
    /// Blocks that leave host memory.
    Evicted,
    /// Blocks that leave host memory and have been used again before.
    Reused,
    /// All blocks, once they are computed.
    All,
}

impl DriveWrites {
    /// All choices.
    pub const ALL: [DriveWrites; 3] = [DriveWrites::Evicted, DriveWrites::Reused, DriveWrites::All];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DriveWrites::Evicted => "evicted",
            DriveWrites::Reused => "reused",
            DriveWrites::All => "all",
        }
    }
}

/// Everything that hits and misses of a cache depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePlan {
    /// The model.
    pub model: LanguageModel,
    /// Objects that a block consists of.
    pub layout: KvLayout,
    /// Tokens of a block.
    pub block_tokens: u64,
    /// Bytes of accelerator memory, host memory and drives; 0 for a tier that is not there.
    pub tier_bytes: [u64; 3],
    /// Replacement in all tiers.
    pub replacement: TierReplacement,
    /// Blocks that are written to the drive.
    pub writes: DriveWrites,
}

impl CachePlan {
    /// Bytes of the room for a block of `tokens`.
    fn room_bytes(&self, tokens: u64) -> u64 {
        let (objects, bytes) = self.layout.objects(&self.model, tokens);
        objects * bytes.next_multiple_of(PADDING_BYTES)
    }

    /// Bytes of the room for a full block.
    pub fn block_room_bytes(&self) -> u64 {
        self.room_bytes(self.block_tokens)
    }
}

/// Numbers of blocks, tokens and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of tokens in them; 0 in traces of objects.
    pub tokens: u64,
    /// Bytes of these tokens, without padding.
    pub bytes: u64,
}

impl BlockCount {
    fn add(&mut self, tokens: u64, bytes: u64) {
        self.blocks += 1;
        self.tokens += tokens;
        self.bytes += bytes;
    }
}

/// Exact totals of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Number of requests.
    pub requests: u64,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Tokens that were generated.
    pub output_tokens: u64,
    /// Tokens of prompts that no identity stands for; they are computed each time.
    pub unnamed_tokens: u64,
    /// All blocks of all prompts.
    pub used: BlockCount,
    /// Blocks that differ.
    pub distinct: BlockCount,
    /// Cached blocks, by tier.
    pub hits: [BlockCount; 3],
    /// Blocks that were computed.
    pub computed: BlockCount,
    /// Blocks that tiers without an end would have had.
    pub ideal: BlockCount,
    /// Blocks that were written to the drive.
    pub written: BlockCount,
    /// Blocks that left each tier.
    pub evicted_blocks: [u64; 3],
}

/// Cached and computed part of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestParts {
    /// Cached blocks, by tier.
    pub hits: [BlockCount; 3],
    /// Blocks that are computed, with tokens that have no identity.
    pub computed: BlockCount,
}

/// Access of the cache to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveAccess {
    /// Read or write.
    pub op: Op,
    /// First byte, over all drives of the tier.
    pub offset: u64,
    /// Number of objects, one behind the other.
    pub objects: u64,
    /// Bytes of an object, padded.
    pub object_bytes: u64,
}

/// Hash of identities, which are numbers already.
#[derive(Clone, Copy, Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }
}

type Identities<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// A block in some tier.
#[derive(Clone, Debug)]
struct CachedBlock {
    id: u64,
    tokens: u64,
    bytes: u64,
    room_bytes: u64,
    /// Memory that holds the block, if any does.
    memory: Option<usize>,
    /// First byte on the drive, if it is there.
    on_drive: Option<u64>,
    /// Neighbours in the lists of memory and of the drive: towards the front, and towards the end.
    links: [(u32, u32); 2],
    /// True if the block was used since its list looked at it last.
    was_used: [bool; 2],
    /// True if the block was a hit.
    was_hit: bool,
}

/// Blocks of a tier in the order of their replacement: the last one leaves first.
#[derive(Clone, Copy, Debug)]
struct TierList {
    first: u32,
    last: u32,
    used_bytes: u64,
}

/// Tiers that are being used.
#[derive(Clone, Debug)]
pub struct Tiers {
    plan: CachePlan,
    blocks: Vec<CachedBlock>,
    free_blocks: Vec<u32>,
    places: Identities<u32>,
    lists: [TierList; 3],
    /// Room on the drive that blocks have left, by size, and the end of what was ever used.
    free_room: BTreeMap<u64, Vec<u64>>,
    drive_end: u64,
    seen: SeenIdentities,
    totals: CacheTotals,
}

/// Identities that have been seen.
#[derive(Clone, Debug, Default)]
struct SeenIdentities {
    dense: Vec<u64>,
    sparse: Identities<()>,
}

impl SeenIdentities {
    fn contains(&self, id: u64) -> bool {
        match id < DENSE_IDS {
            true => self.dense.get((id / 64) as usize).is_some_and(|word| word >> (id % 64) & 1 == 1),
            false => self.sparse.contains_key(&id),
        }
    }

    /// Adds an identity; true if it was new.
    fn add(&mut self, id: u64) -> bool {
        if id >= DENSE_IDS {
            return self.sparse.insert(id, ()).is_none();
        }
        let (word, bit) = ((id / 64) as usize, 1 << (id % 64));
        if self.dense.len() <= word {
            self.dense.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.dense[word] & bit == 0;
        self.dense[word] |= bit;
        is_new
    }
}

/// List to which a tier's links belong.
fn links_of(tier: usize) -> usize {
    usize::from(tier == DRIVE)
}

impl Tiers {
    /// Empty tiers.
    pub fn new(plan: CachePlan) -> Tiers {
        Tiers {
            plan,
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            places: HashMap::default(),
            lists: [TierList { first: NONE, last: NONE, used_bytes: 0 }; 3],
            free_room: BTreeMap::new(),
            drive_end: 0,
            seen: SeenIdentities::default(),
            totals: CacheTotals::default(),
        }
    }

    /// Totals so far.
    pub fn totals(&self) -> &CacheTotals {
        &self.totals
    }

    /// Serves a request. `access` gets the reads and writes of the drive in their order.
    pub fn serve(&mut self, request: &PromptRequest, access: &mut impl FnMut(DriveAccess)) -> RequestParts {
        self.count_ideal(request);
        if request.object_bytes.is_some() && (request.is_write || self.has_other_size(request)) {
            self.forget(request.ids[0]);
        }
        let parts = self.count_parts(request, access);
        for place in (0..request.ids.len()).rev() {
            let (tokens, bytes, room_bytes) = self.size(request, place);
            self.use_block(request.ids[place], (tokens, bytes, room_bytes), access);
        }
        let cached = parts.hits.iter().map(|count| count.blocks).sum::<u64>() as usize;
        for id in &request.ids[..cached] {
            if let Some(place) = self.places.get(id) {
                self.blocks[index(*place)].was_hit = true;
            }
        }
        parts
    }

    /// Tokens, bytes and room of a block.
    fn size(&self, request: &PromptRequest, place: usize) -> (u64, u64, u64) {
        match request.object_bytes {
            Some(bytes) => (0, bytes, bytes.next_multiple_of(PADDING_BYTES)),
            None => {
                let tokens = request.tokens_of(place, self.plan.block_tokens);
                (tokens, tokens * self.plan.model.token_bytes(), self.plan.block_room_bytes())
            }
        }
    }

    fn has_other_size(&self, request: &PromptRequest) -> bool {
        let block = self.places.get(&request.ids[0]).map(|place| &self.blocks[index(*place)]);
        block.is_some_and(|block| Some(block.bytes) != request.object_bytes)
    }

    /// Counts what tiers without an end would have.
    fn count_ideal(&mut self, request: &PromptRequest) {
        let known = request.ids.iter().take_while(|id| !request.is_write && self.seen.contains(**id)).count();
        for (place, id) in request.ids.iter().enumerate() {
            let (tokens, bytes, _) = self.size(request, place);
            if self.seen.add(*id) {
                self.totals.distinct.add(tokens, bytes);
            }
            if place < known {
                self.totals.ideal.add(tokens, bytes);
            }
        }
    }

    /// Counts the cached and the computed part, and reads what lies on the drive alone.
    fn count_parts(&mut self, request: &PromptRequest, access: &mut impl FnMut(DriveAccess)) -> RequestParts {
        let mut parts = RequestParts::default();
        let mut is_cached = true;
        for (place, id) in request.ids.iter().enumerate() {
            let (tokens, bytes, _) = self.size(request, place);
            self.totals.used.add(tokens, bytes);
            let block = self.places.get(id).map(|place| &self.blocks[index(*place)]).filter(|_| is_cached);
            is_cached = block.is_some();
            match block {
                Some(CachedBlock { memory: Some(tier), .. }) => parts.hits[*tier].add(tokens, bytes),
                Some(CachedBlock { on_drive: Some(offset), .. }) => {
                    parts.hits[DRIVE].add(tokens, bytes);
                    access(self.drive_access(Op::Read, *offset, tokens, bytes));
                }
                _ => parts.computed.add(tokens, bytes),
            }
        }
        let named: u64 = parts.hits.iter().chain([&parts.computed]).map(|count| count.tokens).sum();
        let unnamed = request.input_tokens - named;
        let totals = &mut self.totals;
        totals.requests += 1;
        totals.input_tokens += request.input_tokens;
        totals.output_tokens += request.output_tokens;
        totals.unnamed_tokens += unnamed;
        let all = totals.hits.iter_mut().chain([&mut totals.computed]);
        all.zip(parts.hits.iter().chain([&parts.computed])).for_each(|(sum, part)| {
            sum.blocks += part.blocks;
            sum.tokens += part.tokens;
            sum.bytes += part.bytes;
        });
        parts.computed.tokens += unnamed;
        parts
    }

    fn drive_access(&self, op: Op, offset: u64, tokens: u64, bytes: u64) -> DriveAccess {
        let (objects, object_bytes) = match tokens {
            0 => (1, bytes),
            tokens => self.plan.layout.objects(&self.plan.model, tokens),
        };
        DriveAccess { op, offset, objects, object_bytes: object_bytes.next_multiple_of(PADDING_BYTES) }
    }

    /// Uses a block: it moves to the front of the fastest tier.
    fn use_block(&mut self, id: u64, size: (u64, u64, u64), access: &mut impl FnMut(DriveAccess)) {
        let (block, is_new) = match self.places.get(&id) {
            Some(block) => (*block, false),
            None => (self.create(id, size), true),
        };
        let this = &self.blocks[index(block)];
        let (memory, is_on_drive) = (this.memory, this.on_drive.is_some());
        if is_on_drive {
            self.touch(DRIVE, block);
        }
        match memory {
            Some(tier) if tier == ACCELERATOR || size.2 > self.plan.tier_bytes[ACCELERATOR] => self.touch(tier, block),
            Some(tier) => {
                self.unlink(tier, block);
                self.blocks[index(block)].memory = None;
                self.hold(ACCELERATOR, block, access);
            }
            None => {
                if is_new && self.plan.writes == DriveWrites::All {
                    self.write(block, access);
                }
                self.hold(ACCELERATOR, block, access);
            }
        }
    }

    fn create(&mut self, id: u64, (tokens, bytes, room_bytes): (u64, u64, u64)) -> u32 {
        let block = CachedBlock {
            id,
            tokens,
            bytes,
            room_bytes,
            memory: None,
            on_drive: None,
            links: [(NONE, NONE); 2],
            was_used: [false; 2],
            was_hit: false,
        };
        let place = match self.free_blocks.pop() {
            Some(place) => {
                self.blocks[index(place)] = block;
                place
            }
            None => {
                self.blocks.push(block);
                short_length(self.blocks.len() - 1)
            }
        };
        self.places.insert(id, place);
        place
    }

    /// Puts a block into a memory, or into the next tier if it is larger than that memory.
    fn hold(&mut self, tier: usize, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let room = self.blocks[index(block)].room_bytes;
        if tier == DRIVE {
            return self.leave_memory(block, access);
        }
        if room > self.plan.tier_bytes[tier] {
            return self.hold(tier + 1, block, access);
        }
        while self.lists[tier].used_bytes + room > self.plan.tier_bytes[tier] {
            let victim = self.take_victim(tier);
            self.blocks[index(victim)].memory = None;
            self.hold(tier + 1, victim, access);
        }
        let this = &mut self.blocks[index(block)];
        (this.memory, this.was_used[0]) = (Some(tier), false);
        self.link(tier, block);
    }

    /// Lets a block go that no memory holds any more: to the drive, if it is to be there.
    fn leave_memory(&mut self, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let CachedBlock { on_drive, was_hit, .. } = self.blocks[index(block)];
        let is_worth = self.plan.writes != DriveWrites::Reused || was_hit;
        if on_drive.is_none() && is_worth {
            self.write(block, access);
        }
        self.free_if_nowhere(block);
    }

    /// Writes a block to the drive, if it fits there.
    fn write(&mut self, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let CachedBlock { tokens, bytes, room_bytes, .. } = self.blocks[index(block)];
        if room_bytes > self.plan.tier_bytes[DRIVE] {
            return;
        }
        while self.lists[DRIVE].used_bytes + room_bytes > self.plan.tier_bytes[DRIVE] {
            let victim = self.take_victim(DRIVE);
            self.leave_drive(victim);
            self.free_if_nowhere(victim);
        }
        let offset = self.take_room(room_bytes);
        let this = &mut self.blocks[index(block)];
        (this.on_drive, this.was_used[1]) = (Some(offset), false);
        self.link(DRIVE, block);
        self.totals.written.add(tokens, bytes);
        access(self.drive_access(Op::Write, offset, tokens, bytes));
    }

    /// Room on the drive for so many bytes. Objects of many sizes leave gaps; the first of them then begin anew.
    fn take_room(&mut self, bytes: u64) -> u64 {
        if let Some(offset) = self.free_room.get_mut(&bytes).and_then(Vec::pop) {
            return offset;
        }
        if self.drive_end + bytes > self.plan.tier_bytes[DRIVE] {
            self.drive_end = 0;
        }
        let offset = self.drive_end;
        self.drive_end += bytes;
        offset
    }

    fn leave_drive(&mut self, block: u32) {
        let this = &mut self.blocks[index(block)];
        if let Some(offset) = this.on_drive.take() {
            self.free_room.entry(this.room_bytes).or_default().push(offset);
        }
    }

    fn free_if_nowhere(&mut self, block: u32) {
        let this = &self.blocks[index(block)];
        if this.memory.is_none() && this.on_drive.is_none() {
            self.places.remove(&this.id);
            self.free_blocks.push(block);
        }
    }

    /// Removes a block from all tiers.
    fn forget(&mut self, id: u64) {
        let Some(block) = self.places.get(&id).copied() else { return };
        if let Some(tier) = self.blocks[index(block)].memory.take() {
            self.unlink(tier, block);
        }
        if self.blocks[index(block)].on_drive.is_some() {
            self.unlink(DRIVE, block);
            self.leave_drive(block);
        }
        self.free_if_nowhere(block);
    }

    /// Notes that a block of a tier is used.
    fn touch(&mut self, tier: usize, block: u32) {
        match self.plan.replacement {
            TierReplacement::Lru => {
                self.unlink(tier, block);
                self.link(tier, block);
            }
            TierReplacement::Fifo => {}
            TierReplacement::Clock => self.blocks[index(block)].was_used[links_of(tier)] = true,
        }
    }

    /// Takes the block that leaves a tier next out of its list.
    fn take_victim(&mut self, tier: usize) -> u32 {
        loop {
            let last = self.lists[tier].last;
            assert!(last != NONE, "a tier that is full has a block");
            self.unlink(tier, last);
            let was_used = std::mem::take(&mut self.blocks[index(last)].was_used[links_of(tier)]);
            if self.plan.replacement == TierReplacement::Clock && was_used {
                self.link(tier, last);
                continue;
            }
            self.totals.evicted_blocks[tier] += 1;
            return last;
        }
    }

    fn link(&mut self, tier: usize, block: u32) {
        let (list, side) = (&mut self.lists[tier], links_of(tier));
        let first = std::mem::replace(&mut list.first, block);
        if list.last == NONE {
            list.last = block;
        }
        list.used_bytes += self.blocks[index(block)].room_bytes;
        self.blocks[index(block)].links[side] = (NONE, first);
        if first != NONE {
            self.blocks[index(first)].links[side].0 = block;
        }
    }

    fn unlink(&mut self, tier: usize, block: u32) {
        let side = links_of(tier);
        let (before, behind) = self.blocks[index(block)].links[side];
        match before {
            NONE => self.lists[tier].first = behind,
            before => self.blocks[index(before)].links[side].1 = behind,
        }
        match behind {
            NONE => self.lists[tier].last = before,
            behind => self.blocks[index(behind)].links[side].0 = before,
        }
        self.lists[tier].used_bytes -= self.blocks[index(block)].room_bytes;
    }
}
