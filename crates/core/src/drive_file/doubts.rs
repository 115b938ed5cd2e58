//! Overrides that set the uncertain constants of a drive to the ends of their ranges, or several of them to given
//! values.

use serde_json::Value as Json;

use super::overrides::KeyOverride;
use crate::config::doubt::SHARE_WITHOUT_RANGE;
use crate::config::{UncertainConstant, UncertaintyCause};
use crate::drive::Drive;
use crate::number::whole;

impl Drive {
    /// Returns the uncertain constants on which this drive's results can depend, sorted by key, each with the reason of
    /// its uncertainty. Constants of protocols that the drive does not use are left out.
    pub fn relevant_uncertain_constants(&self) -> Vec<(UncertaintyCause, &UncertainConstant)> {
        let assumed = self.assumed.iter().map(|doubt| (UncertaintyCause::Assumed, doubt));
        let fitted = self.fitted.iter().map(|doubt| (UncertaintyCause::Fitted, doubt));
        let mut doubts: Vec<_> = assumed.chain(fitted).collect();
        doubts.retain(|(_, doubt)| doubt.key.split_once('.').is_some_and(|(section, _)| self.has_part_in(section)));
        doubts.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        doubts
    }

    /// Returns the value in effect of a key, or of a cost of a software stage, in the key's unit; none for an unknown
    /// key.
    pub fn value_of(&self, key: &str) -> Option<Json> {
        let resolved = self.resolved();
        match stage_and_cost_of_key(key) {
            None => resolved.pointer(&format!("/{}", key.replace('.', "/"))).cloned(),
            Some((stage, cost)) => stages(&resolved)?.iter().find(|item| item["name"] == stage)?.get(cost).cloned(),
        }
    }

    /// Returns the values in effect of several keys as numbers, in the keys' units; `None` for a key whose value is no
    /// number.
    pub fn numeric_values_of(&self, keys: &[&str]) -> Vec<Option<f64>> {
        let resolved = self.resolved();
        let number = |key: &&str| match stage_and_cost_of_key(key) {
            None => resolved.pointer(&format!("/{}", key.replace('.', "/")))?.as_f64(),
            Some((stage, cost)) => stages(&resolved)?.iter().find(|item| item["name"] == stage)?.get(cost)?.as_f64(),
        };
        keys.iter().map(number).collect()
    }

    /// Returns overrides that set an uncertain constant to the ends of its range, one override for each end, or to its
    /// alternative value. An end that equals the value in effect is left out. A fitted constant is moved by at least a
    /// tenth in both directions: a narrow fit does not tell whether a result depends on the constant.
    pub fn extremes(&self, cause: UncertaintyCause, doubt: &UncertainConstant) -> Vec<KeyOverride> {
        if !doubt.is_range() {
            return KeyOverride::parse(&format!("{}={}", doubt.key, doubt.instead)).into_iter().collect();
        }
        let Some(value) = self.value_of(&doubt.key).and_then(|value| value.as_f64()) else { return Vec::new() };
        let (mut low, mut high) = doubt.range(value);
        if cause == UncertaintyCause::Fitted {
            (low, high) = (low.min(value * (1.0 - SHARE_WITHOUT_RANGE)), high.max(value * (1.0 + SHARE_WITHOUT_RANGE)));
        }
        let ends = [low, high].into_iter().filter(|end| *end != value);
        ends.flat_map(|end| self.overrides_for(&[(doubt, end)])).collect()
    }

    /// Returns overrides that together set several uncertain constants to given values, rounded where a key takes whole
    /// numbers.
    pub fn overrides_for(&self, values: &[(&UncertainConstant, f64)]) -> Vec<KeyOverride> {
        let values: Vec<(&str, f64)> = values.iter().map(|(doubt, value)| (doubt.key.as_str(), *value)).collect();
        self.override_texts(&values).iter().filter_map(|text| KeyOverride::parse(text).ok()).collect()
    }

    /// Returns the texts of overrides (as for `--set`) that set several keys, given by full name, to values. Costs of
    /// software stages become one new list of stages.
    pub fn override_texts(&self, values: &[(&str, f64)]) -> Vec<String> {
        let mut overrides = Vec::new();
        let mut stages = stages(&self.resolved()).cloned().unwrap_or_default();
        let mut is_staged = false;
        for (key, value) in values {
            match stage_and_cost_of_key(key) {
                None => overrides.push(format!("{key}={}", self.value_for_key(key, *value))),
                Some((stage, cost)) => is_staged |= set_stage_cost(&mut stages, stage, cost, *value),
            }
        }
        let list = is_staged.then(|| toml::Value::try_from(stages).ok()).flatten();
        overrides.extend(list.map(|list| format!("stack.stages={list}")));
        overrides
    }

    /// Formats a value for a key: without a fraction if the key takes whole numbers.
    fn value_for_key(&self, key: &str, value: f64) -> String {
        let (path, name) = key.split_once('.').unwrap_or(("", key));
        let section = self.sections().into_iter().find(|section| section.path() == path);
        let keys = section.map_or_else(Vec::new, |section| section.keys());
        let is_whole = keys.iter().any(|known| known.name == name && known.allowed.starts_with("whole number"));
        if is_whole { format!("{value:.0}") } else { format!("{value:?}") }
    }
}

/// Sets a cost of a software stage in a list of stages; returns false if there is no such stage.
fn set_stage_cost(stages: &mut [Json], stage: &str, cost: &str, value: f64) -> bool {
    let Some(item) = stages.iter_mut().find(|item| item["name"] == stage) else { return false };
    item[cost] = if cost.ends_with("_lines") { Json::from(whole(value.round())) } else { Json::from(value) };
    true
}

/// Splits a key such as `stack.stages.NAME.submit_ns` into the stage's name and the cost; `None` for any other key.
pub fn stage_and_cost_of_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("stack.stages.")?.rsplit_once('.')
}

/// Returns the list of software stages in a resolved drive.
fn stages(resolved: &Json) -> Option<&Vec<Json>> {
    resolved.pointer("/stack/stages")?.as_array()
}
