//! Words for what jobs do, and for amounts of something.

use super::units::grouped;

/// Blank at which texts break no line, as between a number and its unit.
pub const UNBROKEN: &str = "\u{a0}";

/// Returns a size in words, as in `512 B` or `4 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or(format!("{bytes} B"), |(name, factor)| format!("{} {name}", bytes / factor))
}

/// Returns a number of things in words, as in `1 channel` or `4 banks`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Returns a list in words, as in `a, b and c`.
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::from("nothing"),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns the requests of a fio `rw` in words, as in `random reads`.
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
