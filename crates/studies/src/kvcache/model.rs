//! Language models as a key-value cache needs them: cached bytes per token, and operations and time to compute a
//! prompt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use phaselink_core::number::real;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::spelling;

/// Text of the file `models.toml`: the language models that the project ships, one TOML table each.
const SHIPPED: &str = include_str!("models.toml");
/// Names of all keys of a language model's description, listed in error messages.
const KEYS: &str = "layers, kv_heads or latent_values, query_heads, head_dim, value_bytes and parameters";

/// Dimensions of a language model that decide the size of its key-value cache and the work of computing a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageModel {
    /// Number of layers of the language model.
    pub layers: u32,
    /// Number of key-value heads in each layer. `None` if the model caches compressed (latent) values instead.
    pub kv_heads: Option<u32>,
    /// Number of compressed (latent) values that are cached for each token in each layer. `None` if the model caches
    /// heads.
    pub latent_values: Option<u32>,
    /// Number of query heads in each attention layer.
    pub query_heads: u32,
    /// Dimension of an attention head: number of values in its key, and in its value vector.
    pub head_dim: u32,
    /// Bytes of one cached number, such as 2 for 16-bit floating point.
    pub value_bytes: u32,
    /// Number of model parameters that take part in computing one token.
    pub parameters: f64,
}

impl LanguageModel {
    /// Returns the names of the language models that the project ships, in alphabetical order.
    pub fn shipped_names() -> Vec<String> {
        let mut names: Vec<String> = shipped().keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the language model that the project ships under this name.
    ///
    /// # Errors
    /// If no shipped model has this name; the message suggests the nearest name.
    pub fn shipped_named(name: &str) -> Result<LanguageModel, Problem> {
        shipped().remove(name).ok_or_else(|| {
            let names = LanguageModel::shipped_names();
            let meant = spelling::question(spelling::nearest(name, names.iter().map(String::as_str)));
            let allowed = format!("{}, or a file with {KEYS}", names.join(", "));
            Problem::new("--kv-model", None, format!("there is no model `{name}`{meant}"), allowed)
        })
    }

    /// Parses a language model from TOML text. `file` is the name that messages give.
    ///
    /// # Errors
    /// TOML text that does not describe a language model, and values that no model can have.
    pub fn parse(file: &str, text: &str) -> Result<LanguageModel, Problems> {
        let model: LanguageModel = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            Problem::new(file, line, error.message(), KEYS)
        })?;
        let problem = |found: String, allowed: &str| Problem::new(file, None, found, allowed);
        let mut problems = Problems::default();
        if model.kv_heads.is_some() == model.latent_values.is_some() {
            let found = "kv_heads and latent_values: both or neither";
            problems
                .0
                .push(problem(found.into(), "one of them: the cache holds heads, or values that stand for all heads"));
        }
        let counts = [
            ("layers", model.layers),
            ("kv_heads", model.kv_heads.unwrap_or(1)),
            ("latent_values", model.latent_values.unwrap_or(1)),
            ("query_heads", model.query_heads),
            ("head_dim", model.head_dim),
            ("value_bytes", model.value_bytes),
        ];
        for (name, value) in counts.into_iter().filter(|(_, value)| !(1..=1 << 20).contains(value)) {
            problems.0.push(problem(format!("{name} = {value}"), "1 to 1048576"));
        }
        if !(1.0..=1e15).contains(&model.parameters) {
            problems.0.push(problem(format!("parameters = {}", model.parameters), "1 to 1e15"));
        }
        // The checks above bound each count so that the product of three fits in 64 bits. This check bounds the whole
        // product.
        if problems.0.is_empty()
            && u128::from(model.cached_bytes_per_token_layer()) * u128::from(model.layers) > 1 << 30
        {
            problems.0.push(problem(String::from("a token of more than 1 GiB"), "fewer layers, heads or dimensions"));
        }
        problems.or(model)
    }

    /// Returns the cached bytes of one token in one layer: key and value of each key-value head, or the compressed
    /// values.
    pub fn cached_bytes_per_token_layer(&self) -> u64 {
        let values = match self.latent_values {
            Some(values) => u64::from(values),
            None => 2 * u64::from(self.kv_heads.unwrap_or(1)) * u64::from(self.head_dim),
        };
        values * u64::from(self.value_bytes)
    }

    /// Returns the cached bytes of one token: 2 x layers x key-value heads x dimension of a head x bytes of a value, or
    /// layers x compressed values x bytes of a value.
    pub fn token_bytes(&self) -> u64 {
        u64::from(self.layers) * self.cached_bytes_per_token_layer()
    }

    /// Returns the floating-point operations that compute `tokens` tokens of a prompt after `cached` cached tokens.
    /// Each token takes two operations per parameter. Attention takes four per layer, value of the query heads, and
    /// pair of a token with an earlier one.
    pub fn prefill_flops(&self, cached: u64, tokens: u64) -> f64 {
        let (cached, tokens) = (real(cached), real(tokens));
        let width = f64::from(self.query_heads) * f64::from(self.head_dim);
        let pairs = tokens * cached + tokens * tokens / 2.0;
        2.0 * self.parameters * tokens + 4.0 * f64::from(self.layers) * width * pairs
    }
}

fn shipped() -> std::collections::BTreeMap<String, LanguageModel> {
    toml::from_str(SHIPPED).expect("the shipped models can be read")
}

/// Layout of a block of key-value cache in storage: number of objects into which the block is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KvLayout {
    /// Block is one object: all layers of all its tokens.
    Block,
    /// Block has one object for each layer of the model, with all its tokens.
    Layer,
    /// Block has one object for each token, with all layers.
    Token,
}

impl KvLayout {
    /// All ways to split a key-value block into objects: one per block, one per layer, one per token.
    pub const ALL: [KvLayout; 3] = [KvLayout::Block, KvLayout::Layer, KvLayout::Token];

    /// Returns the name of this key-value layout on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvLayout::Block => "block",
            KvLayout::Layer => "layer",
            KvLayout::Token => "token",
        }
    }

    /// Returns the number of storage objects of a block of `tokens` tokens, and the bytes of each object.
    pub fn objects(self, model: &LanguageModel, tokens: u64) -> (u64, u64) {
        match self {
            KvLayout::Block => (1, tokens * model.token_bytes()),
            KvLayout::Layer => (model.layers.into(), tokens * model.cached_bytes_per_token_layer()),
            KvLayout::Token => (tokens, model.token_bytes()),
        }
    }
}

/// Total compute rate and host bandwidth of the accelerators that compute prompts, as if they were one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accelerators {
    /// Floating-point operations per second at full rate, summed over all accelerators.
    pub operations_per_s: f64,
    /// Fraction of the accelerators' full rate that the computation of a prompt (prefill) reaches.
    pub utilisation: f64,
    /// Bandwidth between host memory and the accelerators, in bytes per second, summed over all accelerators.
    pub host_bytes_per_s: f64,
}

/// Known accelerators: name, 10^12 operations per second at 16 bits without sparsity, and bytes per second of the link
/// to the host. Rates are from the data sheets: A100 312, H100 and H200 (SXM) 989, B200 2,250.
const ACCELERATORS: [(&str, f64, f64); 4] =
    [("a100", 312.0, 25e9), ("h100", 989.0, 50e9), ("h200", 989.0, 50e9), ("b200", 2250.0, 50e9)];
/// Fraction of an accelerator's full rate at which prompts are computed. Assumed; published figures lie between 0.4 and
/// 0.6.
const UTILISATION: f64 = 0.5;

impl Accelerators {
    /// Returns the names of all known accelerators.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ACCELERATORS.iter().map(|(name, ..)| *name)
    }

    /// Returns the summed rates of `count` accelerators of this name, or `None` if the name is unknown. Each has its
    /// own link to the host. The link is assumed to reach four fifths of its rate: 25 GB/s for gen 4 x16, 50 GB/s for
    /// gen 5 x16.
    pub fn named(name: &str, count: u32) -> Option<Accelerators> {
        let (_, tera, host) = ACCELERATORS.iter().find(|(known, ..)| *known == name)?;
        let count = f64::from(count);
        Some(Accelerators {
            operations_per_s: tera * 1e12 * count,
            utilisation: UTILISATION,
            host_bytes_per_s: host * count,
        })
    }

    /// Returns the seconds to compute `tokens` tokens of a prompt after `cached` cached tokens, without queueing for
    /// other prompts.
    pub fn prefill_s(&self, model: &LanguageModel, cached: u64, tokens: u64) -> f64 {
        model.prefill_flops(cached, tokens) / (self.operations_per_s * self.utilisation)
    }
}
