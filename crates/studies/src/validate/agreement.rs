//! Agreement of predicted with measured values: median errors, weighted means, bias and coverage.

use crate::results::documents::{Agreement, MeasuredKind, ValidatedRow};
use phaselink_core::number::real_length;

/// Computes the errors of all measurements whose measured and predicted values are above zero.
pub(super) fn agreement_of<'a>(rows: impl IntoIterator<Item = &'a ValidatedRow>) -> Agreement {
    let rows: Vec<&ValidatedRow> = rows.into_iter().filter(|row| ratio(row).is_some()).collect();
    let of_kind = |kind: MeasuredKind| rows.iter().copied().filter(move |row| row.figure == kind);
    let errors = |rows: &mut dyn Iterator<Item = &ValidatedRow>| median(rows.filter_map(error_pct).collect());
    let logs: Vec<f64> = rows.iter().filter_map(|row| ratio(row)).map(libm::log).collect();
    let known: Vec<bool> = rows.iter().filter_map(|row| is_within_interval(row)).collect();
    let share = |count: usize, of: usize| (of > 0).then(|| 100.0 * real_length(count) / real_length(of));
    Agreement {
        rows: rows.len(),
        median_error_pct: errors(&mut rows.iter().copied()),
        wmape_rates_pct: count_weighted_mean(&[
            weighted_error_percent(of_kind(MeasuredKind::Rate)),
            weighted_error_percent(of_kind(MeasuredKind::Bandwidth)),
        ]),
        wmape_latencies_pct: weighted_error_percent(of_kind(MeasuredKind::Latency)).map(|(pct, _)| pct),
        median_latency_error_pct: errors(&mut of_kind(MeasuredKind::Latency)),
        bias_pct: (!logs.is_empty())
            .then(|| 100.0 * (libm::exp(logs.iter().sum::<f64>() / real_length(logs.len())) - 1.0)),
        coverage_pct: share(known.iter().filter(|inside| **inside).count(), known.len()),
    }
}

/// Returns the ratio of predicted to measured value; `None` if one of them is unknown or not above zero.
pub(super) fn ratio(row: &ValidatedRow) -> Option<f64> {
    let predicted = row.predicted.filter(|value| *value > 0.0)?;
    (row.measured > 0.0).then(|| predicted / row.measured)
}

fn error_pct(row: &ValidatedRow) -> Option<f64> {
    Some(100.0 * (ratio(row)? - 1.0).abs())
}

fn is_within_interval(row: &ValidatedRow) -> Option<bool> {
    Some((row.low?..=row.high?).contains(&row.measured))
}

/// Returns the weighted mean absolute error of measurements in per cent, and their number. Each measurement weighs as
/// much as its measured value.
fn weighted_error_percent<'a>(rows: impl Iterator<Item = &'a ValidatedRow>) -> Option<(f64, usize)> {
    let (mut differences, mut measured, mut count) = (0.0, 0.0, 0);
    for row in rows {
        let Some(ratio) = ratio(row) else { continue };
        // Rows of a kind may have different units, so convert all values to the smallest unit.
        let value = row.measured * super::unit::size(&row.unit);
        differences += (ratio - 1.0).abs() * value;
        measured += value;
        count += 1;
    }
    (measured > 0.0).then(|| (100.0 * differences / measured, count))
}

/// Returns the mean of percentages, each weighted by its number of measurements.
fn count_weighted_mean(parts: &[Option<(f64, usize)>]) -> Option<f64> {
    let known: Vec<(f64, usize)> = parts.iter().copied().flatten().collect();
    let rows: usize = known.iter().map(|(_, rows)| rows).sum();
    (rows > 0).then(|| known.iter().map(|(pct, rows)| pct * real_length(*rows)).sum::<f64>() / real_length(rows))
}

/// Returns the median of values; for an even number, the mean of the middle two. `None` without a value.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &str, measured: f64, predicted: f64, interval: Option<(f64, f64)>) -> ValidatedRow {
        ValidatedRow {
            id: String::from("A-1"),
            source: String::from("A"),
            quantity: String::from("q"),
            unit: String::from(unit),
            figure: super::super::unit::kind_of(unit),
            measured,
            predicted: Some(predicted),
            error_pct: Some(100.0 * (predicted / measured - 1.0)),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            provenance: None,
            left_out: None,
            because: String::new(),
        }
    }

    #[test]
    fn rates_in_different_units_are_weighted_by_size() {
        let rows = [row("M/s", 1.0, 1.1, None), row("k/s", 1000.0, 1000.0, None), row("ns", 100.0, 50.0, None)];
        let agreement = agreement_of(&rows);
        assert!((agreement.wmape_rates_pct.unwrap() - 5.0).abs() < 1e-9, "{agreement:?}");
        assert_eq!(agreement.wmape_latencies_pct, Some(50.0));
        assert!((agreement.median_error_pct.unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn coverage_counts_only_rows_with_an_interval() {
        let rows =
            [row("ns", 1.0, 2.0, Some((0.5, 3.0))), row("ns", 4.0, 2.0, Some((0.5, 3.0))), row("ns", 1.0, 1.0, None)];
        assert_eq!(agreement_of(&rows).coverage_pct, Some(50.0));
        assert_eq!(agreement_of(&rows[2..]).coverage_pct, None);
        assert_eq!(agreement_of(&[]), Agreement::default());
    }

    #[test]
    fn bias_of_a_double_and_a_half_cancels() {
        let rows = [row("ns", 1.0, 2.0, None), row("ns", 2.0, 1.0, None)];
        assert!(agreement_of(&rows).bias_pct.unwrap().abs() < 1e-9);
    }
}
