//! Option `--precision 1%`: a simulation ends once the 95 % confidence intervals of mean and p99 latency are within 1 %
//! of the values. `--precision p99.99=10%` is about a percentile instead.

use phaselink_core::time::Span;
use phaselink_studies::precision::{BATCHES, KnownFigure, Measurement, PrecisionEstimate, PrecisionGoal};
pub(crate) use phaselink_studies::precision::{IOS_MAX, check, document, measure};
use phaselink_studies::results::units;

/// Parses a percentage from 0.01% to 100%, such as `0.5%`, to a share.
///
/// # Errors
///
/// A description of the allowed values.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let percent = percent.filter(|percent| (0.01..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| String::from("per cent from 0.01% to 100%, as in 1%"))
}

/// Returns a sentence on the precision that a measurement has reached, compared with the goal of `--precision`.
pub(crate) fn text(measurement: &Measurement, goal: PrecisionGoal) -> String {
    let percent = 100.0 * goal.share;
    if let Some(figure) = goal.tail {
        let known = measurement.tail().and_then(|tail| Some((tail.share()?, tail)));
        return match known {
            None => {
                let need = measurement.tail().and_then(|tail| tail.need()).unwrap_or_default();
                format!("How well {} is known cannot be said: it {need}.", figure.heading)
            }
            Some((reached, _)) => {
                let verdict = if measurement.is_known() { "Known" } else { "Not known" };
                format!(
                    "{verdict} to {percent} %: {} to {:.1} % with 95 % confidence.",
                    figure.heading,
                    100.0 * reached
                )
            }
        };
    }
    match measurement.estimate() {
        Err(why) => format!("How well mean and p99 are known cannot be said: {why}."),
        Ok(estimate) => {
            let verdict = match measurement.is_known() {
                true => format!("Known to {percent} %"),
                false => format!("Not known to {percent} %, for which the run is too short"),
            };
            format!("{verdict}: {}.", known(&estimate))
        }
    }
}

fn known(estimate: &PrecisionEstimate) -> String {
    let warm_up = match estimate.warm_up_ios {
        0 => String::from("no warm-up"),
        ios => format!("the first {} requests left out as warm-up", units::grouped(ios)),
    };
    format!(
        "mean {}, p99 {} with 95 % confidence, from {BATCHES} batches of {} requests, {warm_up}",
        figure_with_interval(&estimate.mean),
        figure_with_interval(&estimate.p99),
        units::grouped(estimate.batch_ios),
    )
}

/// Formats a figure with its confidence interval, as in `13.7 us ± 21.0 ns`.
fn figure_with_interval(known: &KnownFigure) -> String {
    let span = |ns| units::span(Span::from_ns_f64(ns));
    format!("{} \u{b1} {}", span(known.value_ns), span(known.half_width_ns))
}
