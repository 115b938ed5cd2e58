//! Texts for people: sizes, counts, lists, and what a job does.

use super::units;
use phaselink_core::ledger::{CreditState, MeasuredState};
use phaselink_core::number::{real, whole};
use phaselink_core::time::Span;
use phaselink_core::words::grouped;
pub use phaselink_core::words::{counted, listed};

/// No-break space, for instance between a number and its unit.
pub const UNBROKEN: &str = "\u{a0}";

/// Breaks a paragraph between words into lines of at most `width` columns. `indent` precedes each line but the first.
pub fn wrap_paragraph(paragraph: &str, indent: &str, width: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for word in paragraph.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            text.push('\n');
            text.push_str(indent);
            used = indent.len();
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
    text.replace(UNBROKEN, " ")
}

/// Formats a value with three significant digits and no unit prefix, for columns whose heading names the unit: `0.125`,
/// `3.67`, `2550`.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Returns a number of bytes as text, such as `512 B` or `4 KiB`, in the largest unit of which it is a whole number.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or(format!("{bytes} B"), |(name, factor)| format!("{} {name}", bytes / factor))
}

/// Returns the capacity of a drive as text: in GiB or TiB if it is a whole number of these, otherwise in decimal units
/// as on data sheets, such as `480 GB` or `3.84 TB`.
pub fn capacity(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        _ if bytes < GIB => size(bytes),
        _ if bytes.is_multiple_of(GIB << 10) => format!("{} TiB", bytes / (GIB << 10)),
        _ if bytes.is_multiple_of(GIB) => size(bytes),
        _ => {
            let (value, unit) = if bytes >= 999_500_000_000 { (1e12, "TB") } else { (1e9, "GB") };
            let value = real(bytes) / value;
            let decimals = if value >= 99.5 {
                0
            } else if value >= 9.95 {
                1
            } else {
                2
            };
            let digits = format!("{value:.decimals$}");
            format!("{} {unit}", digits.strip_suffix('0').filter(|shorter| shorter.contains('.')).unwrap_or(&digits))
        }
    }
}

/// Returns a text for the state of the drive in which requests were counted (burst or steady). `None` if the drive has
/// only one.
pub fn measured(state: MeasuredState) -> Option<String> {
    match state {
        MeasuredState::Only => None,
        MeasuredState::Burst(reason) => Some(format!("burst ({reason})")),
        MeasuredState::Steady { warm_up_ios, warm_up } => {
            let (requests, time) = (counted(warm_up_ios, "request"), units::span(warm_up));
            Some(format!(
                "steady: the first {requests} ({time}) replaced what the write buffer held, and are not counted"
            ))
        }
        MeasuredState::Volume(state) => {
            let name = if is_lasting(state) { "steady" } else { "burst" };
            Some(format!("{name} ({})", credits(state)))
        }
    }
}

/// True if a cloud volume can sustain the rate of a run for ever, without running out of burst credits.
pub fn is_lasting(state: CreditState) -> bool {
    matches!(state, CreditState::Used | CreditState::Kept)
}

/// Returns the state of a cloud volume's burst credits as part of a sentence.
pub fn credits(state: CreditState) -> String {
    let seconds = |span: Span| match span.as_s() {
        short if short < 10.0 => format!("{short:.1} s"),
        long => format!("{} s", grouped(whole(long.round()))),
    };
    match state {
        CreditState::Used => String::from("the volume's credits are used up"),
        CreditState::Kept => String::from("below the rate that the volume has without credits"),
        CreditState::Last(span) => format!("credits last {} at this rate", seconds(span)),
        CreditState::UsedUpAfter(span) => format!("credits were used up after {}", seconds(span)),
    }
}

/// Returns the requests of a fio pattern (`rw`) as text, such as `random reads`.
pub fn requests(rw: &str) -> &str {
    match rw {
        "read" => "sequential reads",
        "write" => "sequential writes",
        "rw" | "readwrite" => "sequential reads and writes",
        "randread" => "random reads",
        "randwrite" => "random writes",
        "randrw" => "random reads and writes",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_printed_in_binary_or_marketed_units() {
        let mib = [640, 2048, 1 << 20, 3 << 19, 953_674, 457_764, 357_628, 1_831_055, 3_662_110, 30_000];
        assert_eq!(
            mib.map(|mib| capacity(mib << 20)),
            ["640 MiB", "2 GiB", "1 TiB", "1536 GiB", "1.0 TB", "480 GB", "375 GB", "1.92 TB", "3.84 TB", "31.5 GB"]
        );
    }
}
