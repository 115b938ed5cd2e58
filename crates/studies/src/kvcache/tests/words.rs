//! Text of an answer, and problems of a question.

use super::generated;
use crate::kvcache::answer::KvCacheAssumptions;
use crate::kvcache::generate::PromptMix;
use crate::kvcache::model::KvLayout;
use crate::kvcache::source::PromptSource;
use crate::kvcache::study::{CacheLifetime, CellLifetime, SampledTime};
use crate::kvcache::tiers::{BlockCount, DriveWrites, TierReplacement};
use crate::kvcache::{KvCacheAnswer, KvCacheBlocks, KvCacheDrive, KvCacheQuestion};
use crate::report::{Answer, Table};

fn time(mean_s: f64, low_s: f64, high_s: f64) -> SampledTime {
    SampledTime { mean_s, low_s, high_s, p50_s: mean_s, p99_s: 2.0 * mean_s }
}

fn count(blocks: u64) -> BlockCount {
    BlockCount { blocks, tokens: 512 * blocks, bytes: blocks << 20 }
}

/// Returns a drive without which the first token comes after 400 ms.
fn drive(name: &str, first_token: Option<SampledTime>) -> KvCacheDrive {
    KvCacheDrive {
        drive: String::from(name),
        tier_bytes: [0; 3],
        blocks: KvCacheBlocks {
            accelerator_hits: count(1),
            host_hits: count(2),
            drive_hits: count(7),
            computed: count(10),
            used: count(20),
            distinct: count(15),
            ideal: count(12),
            written: count(9),
            evicted_blocks: [5, 4, 3],
            unnamed_tokens: 0,
            output_tokens: 100,
        },
        read_bytes_per_s: 1e9,
        written_bytes_per_s: 2e9,
        most_bytes_per_s: Some(6e9),
        load: Some(0.5),
        load_low: Some(0.4),
        load_high: Some(0.6),
        drives_needed: Some(1.0),
        read_wait: first_token,
        first_token,
        first_token_without_drive: time(0.4, 0.4, 0.4),
        first_token_without_cache: time(0.6, 0.6, 0.6),
        prefill_shares: [0.3, 0.35, 0.5],
        sampled_requests: 24,
        drive_writes_per_day: 6.5,
        lifetime: CacheLifetime::Known(CellLifetime {
            years: 0.5,
            write_amplification: 2.0,
            placed_years: Some(1.5),
            rated_writes_per_day: 1.0,
        }),
        interface: "NVMe",
        is_flash: true,
    }
}

fn text(drives: Vec<KvCacheDrive>) -> String {
    let answer = KvCacheAnswer {
        requests: 100,
        input_tokens: 10_240,
        duration_s: 60.0,
        token_bytes: 2048,
        block_tokens: 512,
        layout: KvLayout::Block,
        replacement: TierReplacement::Lru,
        drive_writes: DriveWrites::Evicted,
        drives_per_host: 1,
        windows: 4,
        seed: 1,
        drives,
        assumed: KvCacheAssumptions {
            source: String::from("Generated"),
            request: "prompt",
            memory_bytes: [1 << 30, 0],
            objects: (1, 1 << 20),
            full_rate_windows: 4,
        },
    };
    answer.text().within(100, str::to_owned, Table::to_string)
}

#[test]
fn kvcache_text_starts_with_verdict_and_wear_of_each_drive() {
    let used = [
        ("tlc-gen5", time(0.3, 0.29, 0.31), "tlc-gen5 pays: the first token comes 25.0 % sooner (300 ms (290 ms to"),
        ("xl-flash", time(0.5, 0.45, 0.55), "xl-flash does not pay: the first token comes 25.0 % later (500 ms"),
        ("tlc-gen4", time(0.39, 0.37, 0.41), "Whether tlc-gen4 pays is unsure: the first token comes after 390 ms"),
    ];
    for (name, first_token, begin) in used {
        let text = text(vec![drive(name, Some(first_token))]).replace('\n', " ");
        assert!(text.starts_with(begin), "{begin}: {text}");
        assert!(
            text.contains("its cells wear out in 183 days: it takes 6.50 drive writes a day, and 1.00 last five"),
            "{text}"
        );
    }
    let unused = drive("tlc-gen4", Some(time(0.4, 0.4, 0.4)));
    let unused = KvCacheDrive { blocks: KvCacheBlocks { drive_hits: count(0), ..unused.blocks.clone() }, ..unused };
    assert!(text(vec![unused]).starts_with("tlc-gen4 does not pay: no block is found on the drive"));
    let behind = KvCacheDrive { load: Some(1.8), load_low: Some(1.7), load_high: Some(1.9), ..drive("tlc-gen4", None) };
    let behind = text(vec![KvCacheDrive { drives_needed: Some(2.0), ..behind }]).replace('\n', " ");
    assert!(
        behind.starts_with("tlc-gen4 cannot keep up: 1.8 times what it does is asked for (1.7 to 1.9)"),
        "{behind}"
    );
    assert!(behind.contains("2 drives would do."), "{behind}");
}

#[test]
fn kvcache_tables_have_a_row_per_drive_within_100_columns() {
    let names = ["tlc-gen5", "xl-flash", "tlc-gen4", "optane-p5800x"];
    let text = text(names.iter().map(|name| drive(name, Some(time(0.3, 0.29, 0.31)))).collect());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for name in names {
        let rows = text.lines().filter(|line| line.starts_with(&format!("{name}  "))).count();
        assert_eq!(rows, 1, "{name}: {text}");
    }
    assert_eq!(text.matches("Blocks with ").count(), 1, "{text}");
}

#[test]
fn all_out_of_range_kvcache_values_are_reported_together() {
    let wrong = KvCacheQuestion {
        windows: 1,
        drives_per_host: 65,
        io_size: 5000,
        utilisation: Some(0.0),
        block_tokens: Some(0),
        rate: Some(-1.0),
        ..Default::default()
    };
    let source = PromptSource::generated(generated(PromptMix::Conversation, 20.0, 512));
    let told = wrong.clone().study(source).unwrap_err().to_string();
    for problem in ["--windows 1; allowed: 2 to 1000", "--drives-per-host 65", "--io-size 5000", "--utilisation 0"] {
        assert!(told.contains(problem), "{problem}: {told}");
    }
    let told = wrong.source(None, false).unwrap_err().to_string();
    assert!(told.contains("--block-tokens 0") && told.contains("--rate -1"), "{told}");
}
