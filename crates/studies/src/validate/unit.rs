//! Units of measured values: their sizes, and the kinds of figures that have them.

pub(super) use crate::results::documents::MeasuredKind;

/// Known units: name, kind of figure, and size in the smallest unit of that kind.
const UNITS: [(&str, MeasuredKind, f64); 19] = [
    ("ns", MeasuredKind::Latency, 1.0),
    ("us", MeasuredKind::Latency, 1e3),
    ("ms", MeasuredKind::Latency, 1e6),
    ("s", MeasuredKind::Latency, 1e9),
    ("1/s", MeasuredKind::Rate, 1.0),
    ("k/s", MeasuredKind::Rate, 1e3),
    ("M/s", MeasuredKind::Rate, 1e6),
    ("B/s", MeasuredKind::Bandwidth, 1.0),
    ("MB/s", MeasuredKind::Bandwidth, 1e6),
    ("GB/s", MeasuredKind::Bandwidth, 1e9),
    ("MiB/s", MeasuredKind::Bandwidth, 1_048_576.0),
    ("GiB/s", MeasuredKind::Bandwidth, 1_073_741_824.0),
    ("Gb/s", MeasuredKind::Bandwidth, 1.25e8),
    ("cycles", MeasuredKind::Other, 1.0),
    ("switches", MeasuredKind::Other, 1.0),
    ("commands", MeasuredKind::Other, 1.0),
    ("threads", MeasuredKind::Other, 1.0),
    ("%", MeasuredKind::Other, 1.0),
    ("-", MeasuredKind::Other, 1.0),
];

/// Returns the kind of figures that have this unit, such as latency for `us`.
pub(super) fn kind_of(unit: &str) -> MeasuredKind {
    find(unit).map_or(MeasuredKind::Other, |(kind, _)| kind)
}

/// Returns the size of a unit in the smallest unit of its kind (1000 for `us`); 1 for an unknown unit.
pub(super) fn size(unit: &str) -> f64 {
    find(unit).map_or(1.0, |(_, size)| size)
}

/// Returns the number of units `to` in one unit `from`; `None` if the two measure different kinds.
pub(super) fn factor(from: &str, to: &str) -> Option<f64> {
    let ((kind, size), (wanted, unit)) = (find(from)?, find(to)?);
    let is_same = kind == wanted && (kind != MeasuredKind::Other || from == to);
    is_same.then_some(size / unit)
}

fn find(unit: &str) -> Option<(MeasuredKind, f64)> {
    UNITS.iter().find(|(name, _, _)| *name == unit).map(|(_, kind, size)| (*kind, *size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_convert_only_within_their_kind() {
        assert_eq!(factor("ns", "us"), Some(1e-3));
        assert_eq!(factor("B/s", "Gb/s"), Some(8e-9));
        assert_eq!(factor("1/s", "k/s"), Some(1e-3));
        assert_eq!(factor("1/s", "ns"), None);
        assert_eq!(factor("%", "-"), None);
        assert_eq!(factor("ns", "furlong"), None);
        assert_eq!(kind_of("furlong"), MeasuredKind::Other);
    }
}
