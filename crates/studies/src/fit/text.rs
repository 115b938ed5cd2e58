//! Result of a fit as text for people: tables and sentences.

use std::fmt::Write;

use super::{FigureKind, Fit, FitRemark, Fitted, MeasuredFigure};
use crate::report::{Table, units};
use phaselink_core::time::Span;

/// Number of significant digits with which a fitted value is printed.
const DIGITS: i32 = 5;

/// Returns the result of a fit as text: values with their intervals, fitted beside measured figures, and remarks.
pub fn text(fit: &Fit) -> String {
    let mut text = format!("{}\n{}", values(fit), figures(fit));
    for sentence in sentences(fit) {
        let _ = write!(text, "\n{sentence}");
    }
    text.push('\n');
    text
}

fn values(fit: &Fit) -> Table {
    let mut table =
        Table::new().left("key").right("start").right("fitted").left("unit").right("from").right("to (90 %)");
    for Fitted { key, value, low, high, is_determined, is_open_below, is_open_above } in &fit.keys {
        let end = |end, is_open: &bool| if *is_open { String::from("open") } else { number(end) };
        let ends = match is_determined {
            true => [end(*low, is_open_below), end(*high, is_open_above)],
            false => [String::from("not"), String::from("determined")],
        };
        let [from, to] = ends;
        table.row([key.name.clone(), number(key.start), number(*value), String::from(key.unit), from, to]);
    }
    table
}

fn figures(fit: &Fit) -> Table {
    let mut table = Table::new().left("job").left("figure").right("measured").right("fitted").right("difference");
    for (figure, fitted) in &fit.figures {
        let difference = format!("{:+.1} %", 100.0 * (fitted / figure.value - 1.0));
        let [measured, fitted] = [figure.value, *fitted].map(|value| figure_text(figure, value));
        table.row([figure.name.clone(), figure.heading(), measured, fitted, difference]);
    }
    table
}

fn figure_text(figure: &MeasuredFigure, value: f64) -> String {
    match figure.kind {
        FigureKind::Iops => units::count(value),
        FigureKind::Mean | FigureKind::P99 => units::span(Span::from_ns_f64(value)),
    }
}

/// Returns the remarks on a fit as sentences, such as keys that cannot be determined.
pub(super) fn sentences(fit: &Fit) -> Vec<String> {
    let misfit = fit.misfit.map(|share| {
        format!(
            "The figures differ by some {} more than chance explains: these keys alone do not make the drive the measured one. \
             The intervals allow for it.",
            units::percent(share)
        )
    });
    fit.findings.iter().map(sentence).chain(misfit).collect()
}

fn sentence(finding: &FitRemark) -> String {
    match finding {
        FitRemark::Unseen(key) => format!("No figure depends on {key}: it stays where it was."),
        FitRemark::OneSided { key, is_least } => {
            let (most, beyond) = if *is_least { ("at least", "larger") } else { ("at most", "smaller") };
            format!("{key} is {most} what was found: where it is {beyond}, no figure depends on it.")
        }
        FitRemark::Together { keys, ratio: None } => {
            format!("{} cannot be told apart by these results: only combinations of them matter.", listed(keys))
        }
        FitRemark::Together { keys, ratio: Some(ratio) } => {
            format!(
                "{} cannot be told apart by these results: only {} matters.",
                listed(keys),
                combination(keys, *ratio)
            )
        }
        FitRemark::Weakly { keys, ratio: None } => {
            format!("{} are hardly told apart: their combinations are known better than each of them.", listed(keys))
        }
        FitRemark::Weakly { keys, ratio: Some(ratio) } => {
            let combination = combination(keys, *ratio);
            format!("{} are hardly told apart: {combination} is known better than each of them.", listed(keys))
        }
        FitRemark::AtBound(key) => {
            format!(
                "{key} has gone as far as it may: a hundredth or a hundred times its start, or what the key allows."
            )
        }
        FitRemark::Unchecked => String::from(
            "There are no more figures than keys, so that nothing shows whether the model fits: measure more jobs.",
        ),
    }
}

/// Returns a text for a combination of two keys, where `ratio` is the weight of the second: `their sum`, `a + 2 x b`.
fn combination(keys: &[String], ratio: f64) -> String {
    match (ratio, keys) {
        (1.0, _) => String::from("their sum"),
        (-1.0, _) => String::from("their difference"),
        (_, [first, second, ..]) => {
            let sign = if ratio < 0.0 { '-' } else { '+' };
            format!("{first} {sign} {} x {second}", number_of(ratio.abs(), 3))
        }
        _ => String::from("a combination"),
    }
}

fn listed(keys: &[String]) -> String {
    match keys {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Returns a fitted value as text with its significant digits.
pub(super) fn number(value: f64) -> String {
    number_of(value, DIGITS)
}

fn number_of(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = (digits - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => String::from(text.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_prints_its_significant_digits() {
        let shown = [110.0, 31.999_96, 0.012_345_67, 123_456.7, 0.0].map(number);
        assert_eq!(shown, ["110", "32", "0.012346", "123457", "0"]);
    }

    #[test]
    fn combination_of_keys_is_printed_as_a_sentence() {
        let keys = || vec![String::from("media.read_ns"), String::from("nvme.parse_ns")];
        let said = |ratio| sentence(&FitRemark::Together { keys: keys(), ratio });
        let apart = "media.read_ns and nvme.parse_ns cannot be told apart by these results: only";
        assert_eq!(said(Some(1.0)), format!("{apart} their sum matters."));
        assert_eq!(said(Some(-1.0)), format!("{apart} their difference matters."));
        assert_eq!(said(Some(2.5)), format!("{apart} media.read_ns + 2.5 x nvme.parse_ns matters."));
        assert_eq!(said(None), format!("{apart} combinations of them matter."));
    }
}
