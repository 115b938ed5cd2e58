//! Parsing of the options that describe bare DMA transfers, as plans and command lines give them.

use super::{Cache, Node, Op, Question};
use crate::problem::{Problem, Problems};
use crate::spelling;
use crate::workload::bytes;

/// Names of the options, each with a text of the values that it takes.
const OPTIONS: &[(&str, &str)] = &[
    ("op", "read, write, both, write-read"),
    ("size", "bytes, as in 64 or 4k"),
    ("window", "bytes, as in 8k or 64m"),
    ("outstanding", "a number of transfers"),
    ("transfers", "a number of transfers"),
    ("direct", "on or off"),
    ("cache", "warm, cold, device-written"),
    ("node", "local, remote"),
    ("iommu", "on or off"),
];

impl Question {
    /// Parses options with their values into a question about bare transfers; options that are not given have their
    /// defaults.
    ///
    /// # Errors
    /// All options and values that are not known.
    pub fn from_option_texts(options: &[(String, String)]) -> Result<Question, Problems> {
        let mut question = Question::default();
        let problems = options.iter().filter_map(|(name, value)| question.set(name, value).err());
        let problems = Problems(problems.collect());
        problems.or(question)
    }

    /// Sets the option called `name` to `value`, which is given as text.
    ///
    /// # Errors
    /// If the option is not known, or does not take the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        let Some((_, allowed)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            let meant = spelling::question(spelling::nearest(name, names.iter().copied()));
            return Err(super::problem(format!("unknown option {name}{meant}"), names.join(", ")));
        };
        let taken = self.take(name, value);
        taken.ok_or_else(|| super::problem(format!("{name} is `{value}`"), String::from(*allowed)))
    }

    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "op" => self.op = Op::of(value)?,
            "size" => self.bytes = bytes(value)?.try_into().ok()?,
            "window" => self.window_bytes = bytes(value)?,
            "outstanding" => self.outstanding = value.parse().ok()?,
            "transfers" => self.transfers = value.parse().ok()?,
            "direct" => self.direct = parse_switch(value)?,
            "cache" => self.cache = Some(Cache::of(value)?),
            "node" => self.node = Some(Node::of(value)?),
            _ => self.iommu = Some(parse_switch(value)?),
        }
        Some(())
    }
}

/// Parses `on` and `off`, and also `true`, `false`, 1 and 0, as plans give them. Returns `None` for another text.
fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Parses sizes of transfers in bytes: one size, or a range by doubling as in `8..2048`.
pub fn sizes(text: &str) -> Option<Vec<u32>> {
    let size = |text: &str| u32::try_from(bytes(text)?).ok().filter(|size| (1..=super::BYTES_MAX).contains(size));
    let Some((from, to)) = text.split_once("..") else { return Some(vec![size(text)?]) };
    let (from, to) = (size(from)?, size(to)?);
    let doubled = std::iter::successors(Some(from), |size| size.checked_mul(2));
    (from <= to).then(|| doubled.take_while(|size| *size <= to).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(options: &[(&str, &str)]) -> Result<Question, Problems> {
        let options: Vec<_> = options.iter().map(|(name, value)| (String::from(*name), String::from(*value))).collect();
        Question::from_option_texts(&options)
    }

    #[test]
    fn dma_options_are_set_by_name() {
        let options = [("op", "both"), ("size", "4k"), ("window", "64m"), ("node", "remote"), ("iommu", "on")];
        let expected = Question {
            op: Op::Both,
            bytes: 4096,
            window_bytes: 64 << 20,
            node: Some(Node::Remote),
            iommu: Some(true),
            ..Question::default()
        };
        assert_eq!(question(&options), Ok(expected));
    }

    #[test]
    fn unknown_dma_options_and_values_are_reported_together() {
        let problems = question(&[("sise", "64"), ("cache", "hot"), ("size", "64")]).unwrap_err().to_string();
        let expected = "dma: unknown option sise, did you mean size?; allowed: op, size, window, outstanding, \
                        transfers, direct, cache, node, iommu\ndma: cache is `hot`; allowed: warm, cold, device-written";
        assert_eq!(problems, expected);
    }

    #[test]
    fn size_range_doubles_within_its_bounds() {
        assert_eq!(sizes("8..64"), Some(vec![8, 16, 32, 64]));
        assert_eq!(sizes("48..100"), Some(vec![48, 96]));
        assert_eq!(sizes("4k"), Some(vec![4096]));
        for wrong in ["", "0", "64..8", "8..", "2m", "-1", "8..64..128"] {
            assert_eq!(sizes(wrong), None, "{wrong}");
        }
    }
}
