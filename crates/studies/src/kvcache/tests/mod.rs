mod count;
mod files;
mod times;
mod words;

use super::generate::{GeneratedTrace, PromptMix};
use super::model::{Accelerators, KvLayout, LanguageModel};
use super::tiers::{CachePlan, DriveWrites, TierReplacement};

fn generated(mix: PromptMix, seconds: f64, block_tokens: u64) -> GeneratedTrace {
    GeneratedTrace { mix, rate_per_s: 10.0, duration_s: seconds, block_tokens, seed: 7 }
}

fn accelerators() -> Accelerators {
    Accelerators::named("h100", 8).unwrap()
}

fn plan(block_tokens: u64, tier_bytes: [u64; 3]) -> CachePlan {
    CachePlan {
        model: LanguageModel::shipped_named("llama-3.1-70b").unwrap(),
        layout: KvLayout::Block,
        block_tokens,
        tier_bytes,
        replacement: TierReplacement::Lru,
        writes: DriveWrites::Evicted,
    }
}

#[test]
fn kv_cache_bytes_of_a_70b_model_match_its_layers_and_heads() {
    let model = LanguageModel::shipped_named("llama-3.1-70b").unwrap();
    assert_eq!(model.token_bytes(), 320 << 10);
    assert_eq!(KvLayout::Block.objects(&model, 16), (1, 5 << 20));
    assert_eq!(KvLayout::Layer.objects(&model, 16), (80, 64 << 10));
    assert_eq!(KvLayout::Token.objects(&model, 16), (16, 320 << 10));
    let latent = LanguageModel::shipped_named("deepseek-v3").unwrap();
    assert_eq!(latent.token_bytes(), 61 * 576 * 2);
}

#[test]
fn prefill_flops_of_a_70b_model_are_two_per_parameter_plus_attention() {
    let model = LanguageModel::shipped_named("llama-3.1-70b").unwrap();
    assert_eq!(model.prefill_flops(0, 1000), 2.0 * 70.6e9 * 1000.0 + 4.0 * 80.0 * 8192.0 * 500_000.0);
    let whole = model.prefill_flops(0, 3000);
    let parts = model.prefill_flops(0, 1000) + model.prefill_flops(1000, 2000);
    assert!((whole / parts - 1.0).abs() < 1e-12);
}

#[test]
fn invalid_language_models_are_refused_with_allowed_values() {
    let problem = LanguageModel::shipped_named("lama-3.1-70b").unwrap_err().to_string();
    assert!(problem.contains("did you mean llama-3.1-70b"), "{problem}");
    let text = "layers = 0\nkv_heads = 8\nlatent_values = 3\nquery_heads = 1\nhead_dim = 1\nvalue_bytes = 2\nparameters = 0.0\n";
    let problems = LanguageModel::parse("m.toml", text).unwrap_err().to_string();
    for told in ["kv_heads and latent_values", "layers = 0; allowed: 1 to", "parameters = 0"] {
        assert!(problems.contains(told), "{told}: {problems}");
    }
    let large = text.replace("layers = 0", "layers = 1048576").replace("latent_values = 3\n", "");
    let large = large.replace("head_dim = 1", "head_dim = 1048576").replace("parameters = 0.0", "parameters = 1e9");
    let problem = LanguageModel::parse("m.toml", &large).unwrap_err().to_string();
    assert!(problem.contains("a token of more than 1 GiB"), "{problem}");
    assert!(
        LanguageModel::parse("m.toml", "layers = 1\nlayres = 2\n").unwrap_err().to_string().starts_with("m.toml:2:")
    );
}

#[test]
fn generated_traces_match_published_lengths_and_reuse() {
    for (mix, input, output, block_reuse_text) in
        [(PromptMix::Conversation, 12_035.0, 343.0, 0.40), (PromptMix::ToolAgent, 8596.0, 182.0, 0.59)]
    {
        let trace = generated(mix, 3600.0, 512);
        let mut tiers = super::tiers::Tiers::new(plan(512, [0; 3]));
        for request in trace.requests() {
            tiers.serve(&request, &mut |_| ());
        }
        let totals = tiers.totals();
        let mean = |sum: u64| sum as f64 / totals.requests as f64;
        let near = |found: f64, published: f64| (found / published - 1.0).abs() < 0.1;
        assert!(near(totals.requests as f64, 36_000.0), "{totals:?}");
        assert!(near(mean(totals.input_tokens), input), "{} {totals:?}", mean(totals.input_tokens));
        assert!(near(mean(totals.output_tokens), output), "{} {totals:?}", mean(totals.output_tokens));
        let found = totals.ideal.blocks as f64 / totals.used.blocks as f64;
        assert!(near(found, block_reuse_text), "{found} {totals:?}");
    }
}

#[test]
fn generated_trace_depends_only_on_its_seed() {
    let trace = generated(PromptMix::Conversation, 20.0, 16);
    assert!(trace.requests().eq(trace.requests()));
    assert!(!trace.requests().eq(GeneratedTrace { seed: 8, ..trace }.requests()));
    assert!(trace.requests().zip(trace.requests().skip(1)).all(|(one, next)| one.at_ns <= next.at_ns));
}
