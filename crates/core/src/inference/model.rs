//! Language models as a cache sees them: bytes of a token, and the work of computing one.

use serde::Deserialize;

use crate::problem::{Problem, Problems};
use crate::spelling;

/// Shipped models, one table each.
const SHIPPED: &str = include_str!("models.toml");
/// Keys of the description of a model, for messages.
const KEYS: &str = "layers, kv_heads or latent_values, query_heads, head_dim, value_bytes and parameters";

/// A language model, as far as its key-value cache depends on it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageModel {
    /// Number of layers.
    pub layers: u32,
    /// Heads of a layer that keep keys and values.
    pub kv_heads: Option<u32>,
    /// Values of a token and layer, for models that keep keys and values compressed.
    pub latent_values: Option<u32>,
    /// Heads of a layer that ask.
    pub query_heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// Bytes of a cached value.
    pub value_bytes: u32,
    /// Parameters that a token activates.
    pub parameters: f64,
}

impl LanguageModel {
    /// Names of the shipped models.
    pub fn shipped_names() -> Vec<String> {
        let mut names: Vec<String> = shipped().keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the shipped model of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn shipped_named(name: &str) -> Result<LanguageModel, Problem> {
        shipped().remove(name).ok_or_else(|| {
            let names = LanguageModel::shipped_names();
            let meant = spelling::question(spelling::nearest(name, names.iter().map(String::as_str)));
            let allowed = format!("{}, or a file with {KEYS}", names.join(", "));
            Problem::new("--kv-model", None, format!("there is no model `{name}`{meant}"), allowed)
        })
    }

    /// Reads the description of a model in TOML.
    ///
    /// # Errors
    /// Text that is no such description, and values that no model can have.
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
        // Each count is small enough for the product of three of them, and the product of all is bounded here.
        if problems.0.is_empty() && u128::from(model.layer_bytes()) * u128::from(model.layers) > 1 << 30 {
            problems.0.push(problem(String::from("a token of more than 1 GiB"), "fewer layers, heads or dimensions"));
        }
        problems.or(model)
    }

    /// Bytes of a token in one layer: two values for each head and dimension, or the compressed values.
    pub fn layer_bytes(&self) -> u64 {
        let values = match self.latent_values {
            Some(values) => u64::from(values),
            None => 2 * u64::from(self.kv_heads.unwrap_or(1)) * u64::from(self.head_dim),
        };
        values * u64::from(self.value_bytes)
    }

    /// Bytes of a token in the cache: 2 x layers x key-value heads x dimension of a head x bytes of a value.
    pub fn token_bytes(&self) -> u64 {
        u64::from(self.layers) * self.layer_bytes()
    }

    /// Floating-point operations that compute `tokens` of a prompt behind `cached` tokens: two for each parameter and token, and four
    /// for each layer, value of the query heads, and pair of a token with one before it.
    pub fn prefill_operations(&self, cached: u64, tokens: u64) -> f64 {
        let (cached, tokens) = (cached as f64, tokens as f64);
        let width = f64::from(self.query_heads) * f64::from(self.head_dim);
        let pairs = tokens * cached + tokens * tokens / 2.0;
        2.0 * self.parameters * tokens + 4.0 * f64::from(self.layers) * width * pairs
    }
}

fn shipped() -> std::collections::BTreeMap<String, LanguageModel> {
    toml::from_str(SHIPPED).expect("the shipped models can be read")
}

/// Objects that a block of tokens consists of where it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvLayout {
    /// One object: all layers of all tokens of the block.
    Block,
    /// One object for each layer.
    Layer,
    /// One object for each token.
    Token,
}

impl KvLayout {
    /// All layouts.
    pub const ALL: [KvLayout; 3] = [KvLayout::Block, KvLayout::Layer, KvLayout::Token];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvLayout::Block => "block",
            KvLayout::Layer => "layer",
            KvLayout::Token => "token",
        }
    }

    /// Number of objects of a block of `tokens`, and bytes of each.
    pub fn objects(self, model: &LanguageModel, tokens: u64) -> (u64, u64) {
        match self {
            KvLayout::Block => (1, tokens * model.token_bytes()),
            KvLayout::Layer => (model.layers.into(), tokens * model.layer_bytes()),
            KvLayout::Token => (tokens, model.token_bytes()),
        }
    }
}

/// Accelerators that compute prompts, together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accelerators {
    /// Operations a second of all of them at full rate.
    pub operations_per_s: f64,
    /// Share of that rate that the computation of a prompt reaches.
    pub utilisation: f64,
    /// Bytes a second between host memory and the accelerators.
    pub host_bytes_per_s: f64,
}

/// Accelerators by name: operations a second at 16 bits without sparsity, in 10^12, and the generation of the link to the host.
/// From the data sheets: A100 312, H100 and H200 (SXM) 989, B200 2,250.
const ACCELERATORS: [(&str, f64, f64); 4] =
    [("a100", 312.0, 25e9), ("h100", 989.0, 50e9), ("h200", 989.0, 50e9), ("b200", 2250.0, 50e9)];
/// Share of the full rate at which prompts are computed: assumed; published figures lie between 0.4 and 0.6.
const UTILISATION: f64 = 0.5;

impl Accelerators {
    /// Names of the accelerators that are known.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ACCELERATORS.iter().map(|(name, ..)| *name)
    }

    /// Returns `count` accelerators of this name. Each has a link of its own to the host; four fifths of its rate are assumed to be
    /// reached (25 GB/s of gen 4 x16, 50 of gen 5 x16).
    pub fn named(name: &str, count: u32) -> Option<Accelerators> {
        let (_, tera, host) = ACCELERATORS.iter().find(|(known, ..)| *known == name)?;
        let count = f64::from(count);
        Some(Accelerators {
            operations_per_s: tera * 1e12 * count,
            utilisation: UTILISATION,
            host_bytes_per_s: host * count,
        })
    }

    /// Seconds that compute `tokens` of a prompt behind `cached` tokens, without waiting for other prompts.
    pub fn prefill_s(&self, model: &LanguageModel, cached: u64, tokens: u64) -> f64 {
        model.prefill_operations(cached, tokens) / (self.operations_per_s * self.utilisation)
    }
}
