//! Values in fio job files: numbers with suffixes, times, percentages, splits.
//!
//! Every function returns none for text that is not in the notation, or beyond 64 bits. As in fio, the case of suffixes
//! does not matter, and `kb_base` is 1024: `4k` is 4096. Fractions, which fio silently cuts off, are refused.

use super::{BlockShare, Distribution};
use crate::number::{real, real_length};
use crate::time::Span;

/// Number of bytes, absolute, in zones, or in per cent of a drive or region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteAmount {
    Bytes(u64),
    Percent(u64),
    Zones(u64),
}

/// Splits a number such as `12kb` into its digits `12` and its suffix `kb` in lower case.
fn split_number_suffix(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start().to_ascii_lowercase())
}

/// Parses a whole number with a suffix of quantity (fio type `int`), or a hexadecimal one without suffix.
pub(super) fn whole(text: &str) -> Option<u64> {
    if let Some(hexadecimal) = text.trim().strip_prefix("0x") {
        let plain = !hexadecimal.starts_with('+');
        return plain.then(|| u64::from_str_radix(hexadecimal, 16).ok())?;
    }
    let (digits, suffix) = split_number_suffix(text);
    digits.parse::<u64>().ok()?.checked_mul(suffix_multiplier(&suffix)?)
}

/// Returns the factor that a suffix of a quantity stands for: `k`, `kb` and `ki` are 1024, `kib` is 1000. fio reads
/// suffixes so with `kb_base=1024`, its default (measured with fio 3.33).
fn suffix_multiplier(suffix: &str) -> Option<u64> {
    let (prefix, base): (&str, u64) = match suffix {
        "" | "b" => return Some(1),
        _ if suffix.ends_with("ib") => (&suffix[..suffix.len() - 2], 1000),
        _ => (suffix.strip_suffix(['b', 'i']).unwrap_or(suffix), 1024),
    };
    let power = ["k", "m", "g", "t", "p"].iter().position(|&letter| letter == prefix)?;
    Some(base.pow(power as u32 + 1))
}

/// Parses a whole number, with a suffix of quantity, that fits 32 bits.
pub(super) fn parse_u32_quantity(text: &str) -> Option<u32> {
    whole(text)?.try_into().ok()
}

/// Parses a time with a unit (fio type `time`); a number without a unit counts in `bare`.
pub(super) fn time(text: &str, bare: Span) -> Option<Span> {
    let (digits, suffix) = split_number_suffix(text);
    let unit = match suffix.as_str() {
        "" => bare,
        "us" | "usec" => Span::from_us(1),
        "ms" | "msec" => Span::from_ms(1),
        "s" | "sec" => Span::from_s(1),
        "m" => Span::from_s(60),
        "h" => Span::from_s(3600),
        "d" => Span::from_s(86400),
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit.as_ps()).map(Span::from_ps)
}

/// Parses a whole percentage from 0 to 100, written without the per cent sign.
pub(super) fn percent(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|percent| *percent <= 100)
}

/// Parses a number of bytes, a number of zones such as `4z`, or a percentage from `1%` to `100%`.
pub(super) fn amount(text: &str) -> Option<ByteAmount> {
    if let Some(zones) = text.trim().strip_suffix('z') {
        return zones.parse().ok().map(ByteAmount::Zones);
    }
    match text.trim().strip_suffix('%') {
        Some(number) => percent(number).filter(|&number| number > 0).map(ByteAmount::Percent),
        None => whole(text).map(ByteAmount::Bytes),
    }
}

/// Parses the value of an on-off option: `1` is true, `0` is false.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Parses values for reads and for writes with `read`: `a` means both, `a,b` one each, `a,` reads only, `,b` writes
/// only. A third value, which fio uses for trims, is parsed and ignored.
pub(super) fn parse_per_direction<T: Clone>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<[Option<T>; 2]> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 || parts.iter().all(|part| part.trim().is_empty()) {
        return None;
    }
    let mut values = Vec::new();
    for part in parts {
        values.push(if part.trim().is_empty() { None } else { Some(read(part)?) });
    }
    let reads = values[0].clone();
    let writes = values.get(1).cloned().unwrap_or_else(|| reads.clone());
    Some([reads, writes])
}

/// Parses block sizes with their shares in per cent, such as `4k/60:8k/40`. Sizes without a share divide the rest
/// evenly.
pub(super) fn parse_block_split(text: &str) -> Option<Vec<BlockShare>> {
    let mut entries = Vec::new();
    for entry in text.split(':') {
        let (bytes, share) = entry.split_once('/').unwrap_or((entry, ""));
        let share = if share.trim().is_empty() { None } else { Some(percent(share)?) };
        entries.push((parse_u32_quantity(bytes).filter(|&bytes| bytes > 0)?, share));
    }
    let given: u64 = entries.iter().filter_map(|entry| entry.1).sum();
    let open = entries.iter().filter(|entry| entry.1.is_none()).count();
    if given > 100 || (open == 0 && given < 100) {
        return None;
    }
    let rest = real(100 - given) / real_length(open.max(1));
    let share = |(bytes, share): (u32, Option<u64>)| BlockShare { bytes, percent: share.map_or(rest, real) };
    Some(entries.into_iter().map(share).collect())
}

/// Parses a distribution of addresses: `random`, `zipf:theta`, `pareto:h` or `normal:deviation`. Without a parameter,
/// theta is fio's default of 1.1 and h is 0.2.
pub(super) fn distribution(text: &str) -> Option<Distribution> {
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter.trim().parse::<f64>().ok().filter(|p| p.is_finite())?)),
        None => (text, None),
    };
    match (name.trim(), parameter) {
        ("random", None) => Some(Distribution::Uniform),
        ("zipf", theta) => Some(Distribution::Zipf(theta.unwrap_or(1.1))),
        ("pareto", h) => Some(Distribution::Pareto(h.unwrap_or(0.2))),
        ("normal", Some(percent)) => Some(Distribution::Normal(percent)),
        _ => None,
    }
}

/// Parses a list of numbers with commas and ranges, such as `0,2-4`, in the order of the list. Returns none if a number
/// is above 65535 or a range ends before it begins.
pub(super) fn places(text: &str) -> Option<Vec<u16>> {
    let mut places = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| parse_u32_quantity(text.trim()).and_then(|number| u16::try_from(number).ok());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        places.extend(first..=last);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_suffixes_have_fios_meaning() {
        // Compared with the output of `fio --debug=parse`, fio 3.33.
        for (text, bytes) in [
            ("4096", 4096),
            ("4096b", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4KB", 4096),
            ("4ki", 4096),
            ("4KiB", 4000),
            ("1m", 1 << 20),
            ("1mib", 1_000_000),
            ("2g", 2 << 30),
            ("1t", 1 << 40),
            ("1p", 1 << 50),
            ("0x1000", 4096),
        ] {
            assert_eq!(whole(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "4q", "1.5m", "-1", "+1", "0x", "0x+1", "4kk", "4i", "99999999p", "(1+1)"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn times_without_unit_use_their_options_unit() {
        assert_eq!(time("10", Span::from_s(1)), Some(Span::from_s(10)));
        assert_eq!(time("10", Span::from_us(1)), Some(Span::from_us(10)));
        for (text, span) in [
            ("3us", Span::from_us(3)),
            ("3usec", Span::from_us(3)),
            ("3ms", Span::from_ms(3)),
            ("3MSEC", Span::from_ms(3)),
            ("3s", Span::from_s(3)),
            ("3sec", Span::from_s(3)),
            ("3m", Span::from_s(180)),
            ("2h", Span::from_s(7200)),
            ("2d", Span::from_s(172_800)),
        ] {
            assert_eq!(time(text, Span::from_s(1)), Some(span), "{text}");
        }
        for text in ["", "s", "1.5s", "5x", "-1", "300d"] {
            assert_eq!(time(text, Span::from_s(1)), None, "{text}");
        }
    }

    #[test]
    fn missing_shares_divide_the_rest() {
        let shares = |text| parse_block_split(text).map(|s| s.iter().map(|s| (s.bytes, s.percent)).collect::<Vec<_>>());
        assert_eq!(shares("4k/60:8k/40"), Some(vec![(4096, 60.0), (8192, 40.0)]));
        assert_eq!(shares("4k/50:1k/:32k/"), Some(vec![(4096, 50.0), (1024, 25.0), (32768, 25.0)]));
        assert_eq!(shares("4k:8k"), Some(vec![(4096, 50.0), (8192, 50.0)]));
        for text in ["", "4k/60:8k/30", "4k/60:8k/50", "4k/x", "0/100", "4k/-1", "4k/101", "5g/100"] {
            assert_eq!(shares(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_bytes_zones_or_percentages() {
        let amounts = ["4k", "3z", "20%", "z", "-1z", "0%"].map(amount);
        let known = [ByteAmount::Bytes(4096), ByteAmount::Zones(3), ByteAmount::Percent(20)];
        assert_eq!(amounts, [Some(known[0]), Some(known[1]), Some(known[2]), None, None, None]);
    }

    #[test]
    fn comma_separates_read_and_write_values() {
        let values = |text| parse_per_direction(text, whole);
        assert_eq!(values("4k"), Some([Some(4096), Some(4096)]));
        assert_eq!(values("4k,8k"), Some([Some(4096), Some(8192)]));
        assert_eq!(values("4k,8k,16k"), Some([Some(4096), Some(8192)]));
        assert_eq!(values("4k,"), Some([Some(4096), None]));
        assert_eq!(values(",8k"), Some([None, Some(8192)]));
        assert_eq!((values(""), values(","), values("4k,x"), values("1,2,3,4")), (None, None, None, None));
    }
}
