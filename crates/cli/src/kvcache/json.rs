//! JSON document of `phaselink kvcache`.

use phaselink_studies::inference::study::{CacheLifetime, SampledTime};
use phaselink_studies::inference::tiers::BlockCount;
use serde_json::{Value, json};

use super::{AnsweredDrive, CacheQuestion};

/// Returns the JSON document of `phaselink kvcache` with the results of all drives.
pub(super) fn document(question: &CacheQuestion, answered: &[AnsweredDrive]) -> Value {
    let (plan, sums) = (&question.plan, question.source.sums());
    json!({
        "requests": sums.requests,
        "input_tokens": sums.input_tokens,
        "duration_s": sums.duration_ns as f64 / 1e9,
        "token_bytes": plan.model.token_bytes(),
        "block_tokens": plan.block_tokens,
        "layout": plan.layout.name(),
        "replacement": plan.replacement.name(),
        "drive_writes": plan.writes.name(),
        "drives_per_host": question.drives,
        "windows": question.windows,
        "seed": question.seed,
        "drives": answered.iter().map(|one| drive(one, question)).collect::<Vec<_>>(),
    })
}

fn drive(one: &AnsweredDrive, question: &CacheQuestion) -> Value {
    let AnsweredDrive { drive, plan, answer } = one;
    let totals = &answer.totals;
    json!({
        "drive": drive.name,
        "tier_bytes": plan.tier_bytes,
        "accelerator_hits": count(&totals.hits[0]),
        "host_hits": count(&totals.hits[1]),
        "drive_hits": count(&totals.hits[2]),
        "computed": count(&totals.computed),
        "used": count(&totals.used),
        "distinct": count(&totals.distinct),
        "ideal": count(&totals.ideal),
        "written": count(&totals.written),
        "evicted_blocks": totals.evicted_blocks,
        "unnamed_tokens": totals.unnamed_tokens,
        "output_tokens": totals.output_tokens,
        "read_bytes_per_s": answer.read_bytes_per_s,
        "written_bytes_per_s": answer.written_bytes_per_s,
        "most_bytes_per_s": answer.load.map(|load| load.most_bytes_per_s),
        "load": answer.load.map(|load| load.share),
        "load_low": answer.load.map(|load| load.interval[0]),
        "load_high": answer.load.map(|load| load.interval[1]),
        "drives_needed": answer.load.map(|load| (load.share * question.drives as f64).ceil()),
        "read_wait": answer.read_wait.as_ref().map(time),
        "first_token": answer.first_token.as_ref().map(time),
        "first_token_without_drive": time(&answer.without_drive),
        "first_token_without_cache": time(&answer.recomputed),
        "prefill_shares": answer.prefill_shares,
        "sampled_requests": answer.sampled_requests,
        "drive_writes_per_day": answer.drive_writes_per_day,
        "lifetime": lifetime(&answer.lifetime),
    })
}

fn count(count: &BlockCount) -> Value {
    json!({ "blocks": count.blocks, "tokens": count.tokens, "bytes": count.bytes })
}

fn time(time: &SampledTime) -> Value {
    let [low, high] = time.interval_s;
    json!({ "mean_s": time.mean_s, "low_s": low, "high_s": high, "p50_s": time.p50_s, "p99_s": time.p99_s })
}

fn lifetime(lifetime: &CacheLifetime) -> Value {
    match lifetime {
        CacheLifetime::Known(cells) => json!({
            "years": cells.years,
            "write_amplification": cells.write_amplification,
            "placed_years": cells.placed_years,
            "rated_writes_per_day": cells.rated_writes_per_day,
        }),
        CacheLifetime::Missing(why) => json!({ "missing": why }),
        CacheLifetime::NoWrites => Value::Null,
    }
}
