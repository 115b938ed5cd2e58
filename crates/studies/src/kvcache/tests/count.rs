//! Totals beside an independent count, which reads the files on its own and keeps plain lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{accelerators, generated, plan};
use crate::kvcache::formats::{TokenTrace, TokenTraceFormat};
use crate::kvcache::generate::PromptMix;
use crate::kvcache::source::PromptSource;
use crate::kvcache::tiers::{CachePlan, CacheTotals, DriveWrites, TierReplacement};
use crate::kvcache::windows::StripedDrives;
use phaselink_core::workload::trace::File;

/// One access of the independent count: blocks with their bytes and tokens, in order, and true if they are stored anew.
type CountedAccess = (Vec<(String, u64, u64)>, bool);

/// An access with the numbers of its blocks in place of their names.
type NumberedAccess = (Vec<(usize, u64, u64)>, bool);

fn file(format: TokenTraceFormat, block_tokens: u64) -> Vec<u8> {
    let model = plan(block_tokens, [0; 3]).model;
    let mut bytes = format.heading();
    for request in generated(PromptMix::Conversation, 60.0, block_tokens).requests() {
        bytes.extend(format.encode_request(&request, &model, block_tokens));
    }
    bytes
}

fn json_accesses(text: &str, block_tokens: u64) -> Vec<CountedAccess> {
    let access = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let mut left = value["input_length"].as_u64().unwrap();
        let blocks = value["hash_ids"].as_array().unwrap().iter().map(|id| {
            let tokens = left.min(block_tokens);
            left -= tokens;
            (id.to_string(), tokens * 327_680, tokens)
        });
        (blocks.collect(), false)
    };
    text.lines().map(access).collect()
}

fn csv_accesses(text: &str) -> Vec<CountedAccess> {
    let access = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (vec![(fields[4].into(), fields[2].parse().unwrap(), 0)], fields[1] == "Write")
    };
    text.lines().skip(1).map(access).collect()
}

fn record_accesses(bytes: &[u8]) -> Vec<CountedAccess> {
    let access = |record: &[u8]| {
        let id = u64::from_le_bytes(record[4..12].try_into().unwrap());
        let size = u32::from_le_bytes(record[12..16].try_into().unwrap());
        (vec![(id.to_string(), size.into(), 0)], false)
    };
    bytes.chunks(24).map(access).collect()
}

/// Tiers as plain lists of names, the next to leave first.
#[derive(Default)]
struct PlainTiers {
    lists: [Vec<usize>; 3],
    used: [BTreeSet<usize>; 2],
    hit: BTreeSet<usize>,
    sizes: Vec<(u64, u64)>,
    seen: BTreeSet<usize>,
    totals: CacheTotals,
}

impl PlainTiers {
    fn room(&self, name: &usize, plan: &CachePlan) -> u64 {
        match self.sizes[*name] {
            (bytes, 0) => bytes.div_ceil(4096) * 4096,
            _ => plan.block_tokens * 327_680,
        }
    }

    fn tier_holding_block(&self, name: &usize) -> Option<usize> {
        (0..3).find(|tier| self.lists[*tier].contains(name))
    }

    fn evict_until_fits(&mut self, tier: usize, name: &usize, plan: &CachePlan) -> bool {
        let room = self.room(name, plan);
        if room > plan.tier_bytes[tier] {
            return false;
        }
        while self.lists[tier].iter().map(|held| self.room(held, plan)).sum::<u64>() + room > plan.tier_bytes[tier] {
            let victim = self.lists[tier].remove(0);
            if plan.replacement == TierReplacement::Clock && self.used[tier / 2].remove(&victim) {
                self.lists[tier].push(victim);
                continue;
            }
            self.totals.evicted_blocks[tier] += 1;
            match tier {
                2 => self.drop_if_in_no_tier(&victim),
                _ => self.put(tier + 1, &victim, plan),
            }
        }
        true
    }

    fn put(&mut self, tier: usize, name: &usize, plan: &CachePlan) {
        if tier == 2 {
            if !self.lists[2].contains(name) && (plan.writes != DriveWrites::Reused || self.hit.contains(name)) {
                self.write(name, plan);
            }
            return self.drop_if_in_no_tier(name);
        }
        match self.evict_until_fits(tier, name, plan) {
            true => {
                self.used[0].remove(name);
                self.lists[tier].push(*name);
            }
            false => self.put(tier + 1, name, plan),
        }
    }

    fn write(&mut self, name: &usize, plan: &CachePlan) {
        if self.evict_until_fits(2, name, plan) {
            self.used[1].remove(name);
            self.lists[2].push(*name);
            let (bytes, tokens) = self.sizes[*name];
            let written = &mut self.totals.written;
            (written.blocks, written.tokens, written.bytes) =
                (written.blocks + 1, written.tokens + tokens, written.bytes + bytes);
        }
    }

    fn drop_if_in_no_tier(&mut self, name: &usize) {
        if self.tier_holding_block(name).is_none() {
            self.hit.remove(name);
        }
    }

    fn touch(&mut self, tier: usize, name: &usize, plan: &CachePlan) {
        match plan.replacement {
            TierReplacement::Fifo => {}
            TierReplacement::Clock => drop(self.used[tier / 2].insert(*name)),
            TierReplacement::Lru => {
                self.lists[tier].retain(|held| held != name);
                self.lists[tier].push(*name);
            }
        }
    }

    fn count(&mut self, blocks: &[(usize, u64, u64)], is_write: bool) -> usize {
        let known = blocks.iter().take_while(|(name, ..)| !is_write && self.seen.contains(name)).count();
        let cached = blocks.iter().take_while(|(name, ..)| self.tier_holding_block(name).is_some()).count();
        for (place, (name, bytes, tokens)) in blocks.iter().enumerate() {
            let tier = self.tier_holding_block(name);
            let is_new = self.seen.insert(*name);
            let totals = &mut self.totals;
            let mut sums = vec![&mut totals.used];
            sums.extend(is_new.then_some(&mut totals.distinct));
            sums.extend((place < known).then_some(&mut totals.ideal));
            sums.push(match tier.filter(|_| place < cached) {
                Some(tier) => &mut totals.hits[tier],
                None => &mut totals.computed,
            });
            for sum in sums {
                (sum.blocks, sum.tokens, sum.bytes) = (sum.blocks + 1, sum.tokens + tokens, sum.bytes + bytes);
            }
        }
        cached
    }

    fn access(&mut self, (blocks, is_write): &NumberedAccess, plan: &CachePlan) {
        if *is_write {
            self.lists.iter_mut().for_each(|list| list.retain(|held| *held != blocks[0].0));
            self.hit.remove(&blocks[0].0);
        }
        let cached = self.count(blocks, *is_write);
        for (name, bytes, tokens) in blocks.iter().rev() {
            let tier = self.tier_holding_block(name);
            self.sizes[*name] = (*bytes, *tokens);
            if self.lists[2].contains(name) {
                self.touch(2, name, plan);
            }
            match tier {
                Some(0) => self.touch(0, name, plan),
                Some(1) => {
                    self.lists[1].retain(|held| held != name);
                    self.put(0, name, plan);
                }
                _ => {
                    if tier.is_none() && plan.writes == DriveWrites::All {
                        self.write(name, plan);
                    }
                    self.put(0, name, plan);
                }
            }
        }
        let names = blocks[..cached].iter().map(|(name, ..)| *name);
        let held: Vec<usize> = names.filter(|name| self.tier_holding_block(name).is_some()).collect();
        self.hit.extend(held);
    }
}

/// Accesses with the numbers of blocks in place of their names, and how many names there are.
fn replace_names_by_numbers(accesses: Vec<CountedAccess>) -> (Vec<NumberedAccess>, usize) {
    let mut numbers = BTreeMap::new();
    let mut number = |name: String| {
        let next = numbers.len();
        *numbers.entry(name).or_insert(next)
    };
    let mut with_numbers = |blocks: Vec<(String, u64, u64)>| {
        blocks.into_iter().map(|(name, bytes, tokens)| (number(name), bytes, tokens)).collect()
    };
    let accesses = accesses.into_iter().map(|(blocks, is_write)| (with_numbers(blocks), is_write)).collect();
    (accesses, numbers.len())
}

fn compare_with_plain_count(format: TokenTraceFormat, plan: &CachePlan, file_bytes: &[u8]) {
    let file = File::in_memory("trace", file_bytes);
    let trace = TokenTrace::open(file, None, None).unwrap();
    assert_eq!(trace.format, format);
    let source = PromptSource::File(trace);
    let striped = StripedDrives { count: 1, chunk_bytes: 1 << 20 };
    let walk = crate::kvcache::study::walk(&source, plan, &accelerators(), &[], striped).unwrap();
    let text = || std::str::from_utf8(file_bytes).unwrap();
    let accesses = match format {
        TokenTraceFormat::Mlperf => csv_accesses(text()),
        TokenTraceFormat::OracleGeneral => record_accesses(file_bytes),
        _ => json_accesses(text(), plan.block_tokens),
    };
    let (accesses, names) = replace_names_by_numbers(accesses);
    let mut plain = PlainTiers { sizes: vec![(0, 0); names], ..PlainTiers::default() };
    accesses.iter().for_each(|access| plain.access(access, plan));
    plain.totals.requests = accesses.len() as u64;
    plain.totals.input_tokens = accesses.iter().flat_map(|(blocks, _)| blocks).map(|(.., tokens)| tokens).sum();
    plain.totals.output_tokens = walk.totals.output_tokens;
    assert_eq!(walk.totals, plain.totals, "{} {plan:?}", format.name());
    assert!(walk.totals.hits.iter().all(|hits| hits.blocks > 0), "{:?}", walk.totals);
}

#[test]
fn cache_totals_equal_an_independent_count_for_all_formats() {
    for format in TokenTraceFormat::ALL {
        let block_tokens = format.block_tokens();
        let bytes = file(format, block_tokens);
        let block = block_tokens * 327_680;
        // The trace has about 14,000 blocks of 512 tokens. With blocks of 16 tokens there would be 32 times as many,
        // and the naive model would take minutes.
        let tier_bytes = [300 * block, 900 * block, 3000 * block].map(|bytes| bytes / 2);
        let plan = |replacement, writes| CachePlan { replacement, writes, ..plan(block_tokens, tier_bytes) };
        if format == TokenTraceFormat::Bailian {
            let end = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(60).unwrap().0;
            let tier_bytes = [300 * block, 900 * block, 6000 * block];
            let small = CachePlan { tier_bytes, ..plan(TierReplacement::Lru, DriveWrites::Evicted) };
            compare_with_plain_count(format, &small, &bytes[..=end]);
            continue;
        }
        for replacement in TierReplacement::ALL {
            compare_with_plain_count(format, &plan(replacement, DriveWrites::Evicted), &bytes);
        }
        for writes in [DriveWrites::Reused, DriveWrites::All] {
            compare_with_plain_count(format, &plan(TierReplacement::Lru, writes), &bytes);
        }
    }
}

#[test]
fn blocks_skip_absent_tiers() {
    let block = 512 * 327_680;
    for tier_bytes in [[0, 0, 900 * block], [0, 900 * block, 0], [500 * block, 0, 900 * block]] {
        let source = PromptSource::generated(generated(PromptMix::ToolAgent, 60.0, 512));
        let striped = StripedDrives { count: 1, chunk_bytes: 1 << 20 };
        let walk = crate::kvcache::study::walk(&source, &plan(512, tier_bytes), &accelerators(), &[], striped).unwrap();
        for (hits, bytes) in walk.totals.hits.iter().zip(tier_bytes) {
            assert_eq!(hits.blocks > 0, bytes > 0, "{tier_bytes:?}: {:?}", walk.totals);
        }
    }
}
