//! Exact simulation of a tiered key-value cache: accelerator memory, host memory and drive, each with a size and a
//! replacement policy.
//!
//! A block is in accelerator memory or in host memory, never in both. Every block that a prompt uses moves to
//! accelerator memory. A block evicted from there moves to host memory, and from there to the drive. A block that was
//! read from the drive also stays there, so that it is not written again. Every block of a prompt takes the space of a
//! full block.
//!
//! The cached part of a prompt is its longest beginning of which every block is in some tier; the rest is computed. Its
//! blocks are then used from the last to the first, so that beginnings, which more prompts share, are evicted last.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{KvLayout, LanguageModel};
use super::request::PromptRequest;
use phaselink_core::number::{index, short_length, wide_index};
use phaselink_core::random::mix;
use phaselink_core::request::Op;

/// Alignment of objects on a drive in bytes: each object is padded to a multiple of it.
pub const PADDING_BYTES: u64 = 4096;
/// Index that stands for no block, at both ends of a replacement list.
const NONE: u32 = u32::MAX;
/// Lowest block identity that is remembered in a hash set; smaller ones have a bit in a bitmap.
const DENSE_IDS: u64 = 1 << 28;

/// Names of the cache's tiers for reports, fastest first.
pub const TIER_NAMES: [&str; 3] = ["accelerator memory", "host memory", "drive"];
const ACCELERATOR: usize = 0;
const DRIVE: usize = 2;

/// Replacement policy of a tier: the rule that chooses the block to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TierReplacement {
    /// Evicts the least recently used block.
    Lru,
    /// Evicts the block that entered the tier first, whether used since or not.
    Fifo,
    /// Evicts the first block of the queue that was not used since it was last examined (second chance).
    Clock,
}

impl TierReplacement {
    /// All replacement policies of a tier.
    pub const ALL: [TierReplacement; 3] = [TierReplacement::Lru, TierReplacement::Fifo, TierReplacement::Clock];

    /// Returns the name of this replacement policy on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TierReplacement::Lru => "lru",
            TierReplacement::Fifo => "fifo",
            TierReplacement::Clock => "clock",
        }
    }
}

/// Rule that decides which blocks the cache writes to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveWrites {
    /// Writes every block that host memory evicts, unless the drive has it.
    Evicted,
    /// Writes a block that host memory evicts only if it has been a hit before.
    Reused,
    /// Writes every new block as soon as it is computed.
    All,
}

impl DriveWrites {
    /// All rules by which a cache can choose the blocks that it writes to the drive.
    pub const ALL: [DriveWrites; 3] = [DriveWrites::Evicted, DriveWrites::Reused, DriveWrites::All];

    /// Returns the command-line name of this rule for writing cached blocks to the drive.
    pub fn name(self) -> &'static str {
        match self {
            DriveWrites::Evicted => "evicted",
            DriveWrites::Reused => "reused",
            DriveWrites::All => "all",
        }
    }
}

/// Configuration of a tiered key-value cache: everything that decides its hits and misses.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePlan {
    /// Language model whose key-value cache is stored.
    pub model: LanguageModel,
    /// Layout of a block in storage: number of objects into which the block is split.
    pub layout: KvLayout,
    /// Number of tokens in a full block of the cache.
    pub block_tokens: u64,
    /// Bytes of accelerator memory, host memory and drives that the cache may use; 0 for a missing tier.
    pub tier_bytes: [u64; 3],
    /// Replacement policy of all tiers.
    pub replacement: TierReplacement,
    /// Rule that decides which blocks are written to the drive.
    pub writes: DriveWrites,
}

impl CachePlan {
    /// Returns the bytes that a block of `tokens` tokens occupies, with each of its objects padded.
    fn room_bytes(&self, tokens: u64) -> u64 {
        let (objects, bytes) = self.layout.objects(&self.model, tokens);
        objects * bytes.next_multiple_of(PADDING_BYTES)
    }

    /// Returns the bytes that a full block occupies in a tier, with each of its objects padded.
    pub fn block_padded_bytes(&self) -> u64 {
        self.room_bytes(self.block_tokens)
    }
}

/// Count of key-value blocks, with their tokens and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockCount {
    /// Number of key-value blocks that are counted.
    pub blocks: u64,
    /// Number of tokens in the counted blocks; 0 in traces of objects.
    pub tokens: u64,
    /// Bytes of the counted key-value blocks, without padding.
    pub bytes: u64,
}

impl BlockCount {
    fn add(&mut self, tokens: u64, bytes: u64) {
        self.blocks += 1;
        self.tokens += tokens;
        self.bytes += bytes;
    }
}

/// Exact totals of a tiered cache over all requests of a trace: hits, computed blocks, writes and evictions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Number of requests that the cache has served.
    pub requests: u64,
    /// Number of input tokens, summed over all prompts.
    pub input_tokens: u64,
    /// Number of tokens that the model generated, summed over all requests.
    pub output_tokens: u64,
    /// Number of prompt tokens that belong to no block with an identity. They are computed each time.
    pub unnamed_tokens: u64,
    /// Blocks of all prompts, each counted as often as a prompt uses it.
    pub used: BlockCount,
    /// Different blocks of all prompts, each counted once.
    pub distinct: BlockCount,
    /// Cached blocks that prompts used (hits), by the tier that had them.
    pub hits: [BlockCount; 3],
    /// Blocks of prompts that were not cached and had to be computed.
    pub computed: BlockCount,
    /// Hits that a cache of unlimited size would have.
    pub ideal: BlockCount,
    /// Blocks that the cache has written to the drive.
    pub written: BlockCount,
    /// Number of blocks that each tier has evicted.
    pub evicted_blocks: [u64; 3],
}

/// Cached and computed blocks of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestBlockParts {
    /// Cached blocks of the request, by the tier that had them.
    pub hits: [BlockCount; 3],
    /// Blocks of the request that are computed. Its tokens include those of no block with an identity.
    pub computed: BlockCount,
}

/// Read or write of one cached block on the drive tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveAccess {
    /// Operation of the cache on the drive: read or write.
    pub op: Op,
    /// Byte offset of the access in the address space of all drives of the tier together.
    pub offset: u64,
    /// Number of objects that the access covers, at consecutive addresses.
    pub objects: u64,
    /// Bytes of each accessed object, padded to the alignment of the drive.
    pub object_bytes: u64,
}

/// Hasher for block identities, which are 64-bit numbers: mixes their bits.
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

/// State of a block that is in at least one tier of the cache.
#[derive(Clone, Debug)]
struct CachedBlock {
    id: u64,
    tokens: u64,
    bytes: u64,
    room_bytes: u64,
    /// Memory tier (accelerator or host) that holds the block. `None` if only the drive does.
    memory: Option<usize>,
    /// Byte offset of the block on the drive tier. `None` if the block is not there.
    on_drive: Option<u64>,
    /// Previous and next block in the replacement list of the block's memory tier, and in that of the drive.
    links: [(u32, u32); 2],
    /// True if the block was used since its replacement list last examined it; for the memory tier and for the drive.
    was_used: [bool; 2],
    /// True if a request has found the block in a tier since it was created.
    was_hit: bool,
}

/// Replacement list of a tier, as indices of its first and last block. The last one is evicted first.
#[derive(Clone, Copy, Debug)]
struct TierList {
    first: u32,
    last: u32,
    used_bytes: u64,
}

/// Tiered key-value cache being simulated: its blocks, the free space on the drive, and the totals so far.
#[derive(Clone, Debug)]
pub struct Tiers {
    plan: CachePlan,
    blocks: Vec<CachedBlock>,
    free_blocks: Vec<u32>,
    places: Identities<u32>,
    lists: [TierList; 3],
    /// Offsets of free space on the drive by size in bytes. The next field is the end of the space ever used.
    free_room: BTreeMap<u64, Vec<u64>>,
    drive_end: u64,
    seen: SeenIdentities,
    totals: CacheTotals,
}

/// Set of block identities that any request has used: a bitmap for small ones, a hash set for others.
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

    /// Adds a block identity to the set. Returns true if it was not in it.
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

/// Returns the index in a block's `links` and `was_used` for a tier: 0 for both memories, 1 for the drive.
fn tier_link_index(tier: usize) -> usize {
    usize::from(tier == DRIVE)
}

impl Tiers {
    /// Returns a cache with this configuration whose tiers are all empty.
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

    /// Returns the totals over all requests that the cache has served so far.
    pub fn totals(&self) -> &CacheTotals {
        &self.totals
    }

    /// Serves a request: counts its hits and moves its blocks to the fastest tier. Calls `access` for each read and
    /// write of the drive, in order. Returns the cached and computed blocks of the request.
    pub fn serve(&mut self, request: &PromptRequest, access: &mut impl FnMut(DriveAccess)) -> RequestBlockParts {
        self.count_unlimited_cache_hits(request);
        if request.object_bytes.is_some() && (request.is_write || self.has_changed_block_size(request)) {
            self.forget(request.ids[0]);
        }
        let parts = self.count_cached_and_computed(request, access);
        for place in (0..request.ids.len()).rev() {
            let (tokens, bytes, room_bytes) = self.size(request, place);
            self.use_block(request.ids[place], (tokens, bytes, room_bytes), access);
        }
        let cached = wide_index(parts.hits.iter().map(|count| count.blocks).sum::<u64>());
        for id in &request.ids[..cached] {
            if let Some(place) = self.places.get(id) {
                self.blocks[index(*place)].was_hit = true;
            }
        }
        parts
    }

    /// Returns the tokens, the bytes and the padded bytes of the request's block with index `place`. An object has 0
    /// tokens.
    fn size(&self, request: &PromptRequest, place: usize) -> (u64, u64, u64) {
        match request.object_bytes {
            Some(bytes) => (0, bytes, bytes.next_multiple_of(PADDING_BYTES)),
            None => {
                let tokens = request.tokens_in_block(place, self.plan.block_tokens);
                (tokens, tokens * self.plan.model.token_bytes(), self.plan.block_padded_bytes())
            }
        }
    }

    fn has_changed_block_size(&self, request: &PromptRequest) -> bool {
        let block = self.places.get(&request.ids[0]).map(|place| &self.blocks[index(*place)]);
        block.is_some_and(|block| Some(block.bytes) != request.object_bytes)
    }

    /// Counts the request's new blocks, and the hits that a cache of unlimited size would have for it.
    fn count_unlimited_cache_hits(&mut self, request: &PromptRequest) {
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

    /// Counts the cached and the computed blocks of a request, and reads the blocks that only the drive has.
    fn count_cached_and_computed(
        &mut self,
        request: &PromptRequest,
        access: &mut impl FnMut(DriveAccess),
    ) -> RequestBlockParts {
        let mut parts = RequestBlockParts::default();
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

    /// Uses a block: creates it if it is new, and moves it to the front of the fastest tier.
    fn use_block(&mut self, id: u64, size: (u64, u64, u64), access: &mut impl FnMut(DriveAccess)) {
        let (block, is_new) = match self.places.get(&id) {
            Some(block) => (*block, false),
            None => (self.create_cached_block(id, size), true),
        };
        let this = &self.blocks[index(block)];
        let (memory, is_on_drive) = (this.memory, this.on_drive.is_some());
        if is_on_drive {
            self.touch_block(DRIVE, block);
        }
        match memory {
            Some(tier) if tier == ACCELERATOR || size.2 > self.plan.tier_bytes[ACCELERATOR] => {
                self.touch_block(tier, block)
            }
            Some(tier) => {
                self.unlink(tier, block);
                self.blocks[index(block)].memory = None;
                self.insert_block(ACCELERATOR, block, access);
            }
            None => {
                if is_new && self.plan.writes == DriveWrites::All {
                    self.write(block, access);
                }
                self.insert_block(ACCELERATOR, block, access);
            }
        }
    }

    fn create_cached_block(&mut self, id: u64, (tokens, bytes, room_bytes): (u64, u64, u64)) -> u32 {
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

    /// Inserts a block into memory tier `tier`, evicting others. A block larger than the tier goes to the next slower
    /// one.
    fn insert_block(&mut self, tier: usize, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let room = self.blocks[index(block)].room_bytes;
        if tier == DRIVE {
            return self.handle_memory_eviction(block, access);
        }
        if room > self.plan.tier_bytes[tier] {
            return self.insert_block(tier + 1, block, access);
        }
        while self.lists[tier].used_bytes + room > self.plan.tier_bytes[tier] {
            let victim = self.take_eviction_victim(tier);
            self.blocks[index(victim)].memory = None;
            self.insert_block(tier + 1, victim, access);
        }
        let this = &mut self.blocks[index(block)];
        (this.memory, this.was_used[0]) = (Some(tier), false);
        self.link(tier, block);
    }

    /// Handles a block that host memory evicts: writes it to the drive if the write rule says so, or frees it.
    fn handle_memory_eviction(&mut self, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let CachedBlock { on_drive, was_hit, .. } = self.blocks[index(block)];
        let is_worth = self.plan.writes != DriveWrites::Reused || was_hit;
        if on_drive.is_none() && is_worth {
            self.write(block, access);
        }
        self.free_block_if_unused(block);
    }

    /// Writes a block to the drive and evicts others for it. Does nothing if the block is larger than the tier.
    fn write(&mut self, block: u32, access: &mut impl FnMut(DriveAccess)) {
        let CachedBlock { tokens, bytes, room_bytes, .. } = self.blocks[index(block)];
        if room_bytes > self.plan.tier_bytes[DRIVE] {
            return;
        }
        while self.lists[DRIVE].used_bytes + room_bytes > self.plan.tier_bytes[DRIVE] {
            let victim = self.take_eviction_victim(DRIVE);
            self.evict_from_drive(victim);
            self.free_block_if_unused(victim);
        }
        let offset = self.allocate_drive_offset(room_bytes);
        let this = &mut self.blocks[index(block)];
        (this.on_drive, this.was_used[1]) = (Some(offset), false);
        self.link(DRIVE, block);
        self.totals.written.add(tokens, bytes);
        access(self.drive_access(Op::Write, offset, tokens, bytes));
    }

    /// Returns the offset of free space on the drive for `bytes` bytes. Objects of many sizes fragment the drive;
    /// allocation then starts again at offset 0.
    fn allocate_drive_offset(&mut self, bytes: u64) -> u64 {
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

    fn evict_from_drive(&mut self, block: u32) {
        let this = &mut self.blocks[index(block)];
        if let Some(offset) = this.on_drive.take() {
            self.free_room.entry(this.room_bytes).or_default().push(offset);
        }
    }

    fn free_block_if_unused(&mut self, block: u32) {
        let this = &self.blocks[index(block)];
        if this.memory.is_none() && this.on_drive.is_none() {
            self.places.remove(&this.id);
            self.free_blocks.push(block);
        }
    }

    /// Removes a block from all tiers, so that the next use computes it again.
    fn forget(&mut self, id: u64) {
        let Some(block) = self.places.get(&id).copied() else { return };
        if let Some(tier) = self.blocks[index(block)].memory.take() {
            self.unlink(tier, block);
        }
        if self.blocks[index(block)].on_drive.is_some() {
            self.unlink(DRIVE, block);
            self.evict_from_drive(block);
        }
        self.free_block_if_unused(block);
    }

    /// Tells the replacement policy of a tier that one of its blocks is used.
    fn touch_block(&mut self, tier: usize, block: u32) {
        match self.plan.replacement {
            TierReplacement::Lru => {
                self.unlink(tier, block);
                self.link(tier, block);
            }
            TierReplacement::Fifo => {}
            TierReplacement::Clock => self.blocks[index(block)].was_used[tier_link_index(tier)] = true,
        }
    }

    /// Removes the block that the replacement policy evicts next from its tier's list. Returns its index.
    fn take_eviction_victim(&mut self, tier: usize) -> u32 {
        loop {
            let last = self.lists[tier].last;
            assert!(last != NONE, "a tier that is full has a block");
            self.unlink(tier, last);
            let was_used = std::mem::take(&mut self.blocks[index(last)].was_used[tier_link_index(tier)]);
            if self.plan.replacement == TierReplacement::Clock && was_used {
                self.link(tier, last);
                continue;
            }
            self.totals.evicted_blocks[tier] += 1;
            return last;
        }
    }

    fn link(&mut self, tier: usize, block: u32) {
        let (list, side) = (&mut self.lists[tier], tier_link_index(tier));
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
        let side = tier_link_index(tier);
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
