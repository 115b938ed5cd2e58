//! Moving the constants of a drive that are in doubt: to the ends of their ranges, or to any values at once.

use serde_json::Value as Json;

use super::overrides::Override;
use crate::config::doubt::SHARE_WITHOUT_RANGE;
use crate::config::{Cause, Doubt};
use crate::drive::Drive;

impl Drive {
    /// The constants in doubt on which this drive's results can depend, by key: not those of a protocol that it does not
    /// speak.
    pub fn doubts(&self) -> Vec<(Cause, &Doubt)> {
        let assumed = self.assumed.iter().map(|doubt| (Cause::Assumed, doubt));
        let fitted = self.fitted.iter().map(|doubt| (Cause::Fitted, doubt));
        let mut doubts: Vec<_> = assumed.chain(fitted).collect();
        doubts.retain(|(_, doubt)| doubt.key.split_once('.').is_some_and(|(section, _)| self.has_part_in(section)));
        doubts.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        doubts
    }

    /// The value in effect of a key, or of a cost of a stage, in the key's unit.
    pub fn value_of(&self, key: &str) -> Option<Json> {
        let resolved = self.resolved();
        match stage_cost(key) {
            None => resolved.pointer(&format!("/{}", key.replace('.', "/"))).cloned(),
            Some((stage, cost)) => stages(&resolved)?.iter().find(|item| item["name"] == stage)?.get(cost).cloned(),
        }
    }

    /// The overrides that bring a constant to the ends of its range, or to its other choice; an end that it is at already
    /// is left out. A fitted one goes at least a tenth either way: how narrowly a result pins it down says nothing on
    /// whether the result depends on it.
    pub fn extremes(&self, cause: Cause, doubt: &Doubt) -> Vec<Override> {
        if !doubt.is_range() {
            return Override::parse(&format!("{}={}", doubt.key, doubt.instead)).into_iter().collect();
        }
        let Some(value) = self.value_of(&doubt.key).and_then(|value| value.as_f64()) else { return Vec::new() };
        let (mut low, mut high) = doubt.range(value);
        if cause == Cause::Fitted {
            (low, high) = (low.min(value * (1.0 - SHARE_WITHOUT_RANGE)), high.max(value * (1.0 + SHARE_WITHOUT_RANGE)));
        }
        let ends = [low, high].into_iter().filter(|end| *end != value);
        ends.flat_map(|end| self.moved_together(&[(doubt, end)])).collect()
    }

    /// The overrides that bring constants to values, rounded where a key takes whole numbers.
    pub fn moved_together(&self, values: &[(&Doubt, f64)]) -> Vec<Override> {
        let values: Vec<(&str, f64)> = values.iter().map(|(doubt, value)| (doubt.key.as_str(), *value)).collect();
        self.moved_texts(&values).iter().filter_map(|text| Override::parse(text).ok()).collect()
    }

    /// The same for keys by name, as texts that `--set` takes.
    pub(crate) fn moved_texts(&self, values: &[(&str, f64)]) -> Vec<String> {
        let mut overrides = Vec::new();
        let mut stages = stages(&self.resolved()).cloned().unwrap_or_default();
        let mut is_staged = false;
        for (key, value) in values {
            match stage_cost(key) {
                None => overrides.push(format!("{key}={}", self.written(key, *value))),
                Some((stage, cost)) => is_staged |= set_cost(&mut stages, stage, cost, *value),
            }
        }
        let list = is_staged.then(|| toml::Value::try_from(stages).ok()).flatten();
        overrides.extend(list.map(|list| format!("stack.stages={list}")));
        overrides
    }

    fn written(&self, key: &str, value: f64) -> String {
        let (path, name) = key.split_once('.').unwrap_or(("", key));
        let section = self.sections().into_iter().find(|section| section.path() == path);
        let keys = section.map_or_else(Vec::new, |section| section.keys());
        let is_whole = keys.iter().any(|known| known.name == name && known.allowed.starts_with("whole number"));
        if is_whole { format!("{value:.0}") } else { format!("{value:?}") }
    }
}

/// Give a cost of a stage its value; false if there is no such stage.
fn set_cost(stages: &mut [Json], stage: &str, cost: &str, value: f64) -> bool {
    let Some(item) = stages.iter_mut().find(|item| item["name"] == stage) else { return false };
    item[cost] = if cost.ends_with("_lines") { Json::from(value.round() as u64) } else { Json::from(value) };
    true
}

/// Stage and cost of a key like `stack.stages.NAME.submit_ns`.
pub(crate) fn stage_cost(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("stack.stages.")?.rsplit_once('.')
}

fn stages(resolved: &Json) -> Option<&Vec<Json>> {
    resolved.pointer("/stack/stages")?.as_array()
}
