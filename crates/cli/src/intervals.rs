//! Prediction intervals (`--intervals`): all uncertain constants are drawn at random from their ranges. The interval of
//! a figure contains its values in 90 % of the draws.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_studies::report::{Table, units};
use phaselink_studies::results::{FIGURES, Figure};
use phaselink_studies::uncertainty::{ConstantDraws, DRAWS_MIN, Interval};
use rayon::prelude::*;

use crate::describe;

pub(crate) use phaselink_studies::uncertainty::{FigureWithInterval, NamedFigures, RunFigureIntervals, SEED, of_run};

const DRAWS_DEFAULT: &str = "40";
/// Maximum number of random draws of `--intervals`, each of which repeats the simulation or prediction.
const DRAWS_MAX: usize = 1_000_000;
/// Maximum number of uncertain constants that `largest_contributors` returns for a sentence on prediction intervals.
const NAMED_MAX: usize = 3;

/// Option `--intervals[=DRAWS]`, which has equal values and meaning in all commands with prediction intervals.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct IntervalFlags {
    /// Print 90 % prediction intervals of results, from DRAWS repetitions with all uncertain constants drawn at random
    /// from their ranges [40 draws]
    #[arg(long, value_name = "DRAWS", num_args = 0..=1, require_equals = true, default_missing_value = DRAWS_DEFAULT,
        value_parser = number_of_draws)]
    intervals: Option<usize>,
}

impl IntervalFlags {
    /// Returns the number of random draws of `--intervals`, or none if the option is not given.
    pub(crate) fn draws(&self) -> Option<usize> {
        self.intervals
    }

    /// Returns random draws of all uncertain constants of a drive, or none without `--intervals`. Constants that
    /// several drives have get equal values.
    pub(crate) fn draws_for_drive(&self, drive: &Drive) -> Option<ConstantDraws> {
        self.draws().map(|draws| ConstantDraws::of([drive], draws, SEED))
    }
}

/// Parses the number of random draws of `--intervals`, from the smallest number that gives a 90 % interval to one
/// million.
fn number_of_draws(text: &str) -> Result<usize, String> {
    let draws = text.parse().ok().filter(|draws| (DRAWS_MIN..=DRAWS_MAX).contains(draws));
    draws.ok_or_else(|| format!("{DRAWS_MIN} to {DRAWS_MAX}: fewer draws have no interval in which nine of ten lie"))
}

/// Drive, cell or other subject whose figures get prediction intervals, with the random draws of its uncertain
/// constants.
pub(crate) struct IntervalSubject<T> {
    /// Values of all uncertain constants of the subject in each random draw.
    pub draws: ConstantDraws,
    /// Figures of the subject without random draws: with each constant as its drive file gives it.
    pub central: NamedFigures,
    pub subject: T,
}

/// Returns the prediction intervals of each subject's figures. `drawn` computes the figures in a draw, or none if the
/// job cannot run then; it is called in parallel.
pub(crate) fn intervals<T: Sync>(
    subjects: Vec<IntervalSubject<T>>,
    drawn: impl Fn(&T, &ConstantDraws, usize) -> Option<NamedFigures> + Sync,
) -> Vec<RunFigureIntervals> {
    let pairs = subjects.iter().flat_map(|subject| (0..subject.draws.count()).map(move |draw| (subject, draw)));
    let pairs: Vec<(&IntervalSubject<T>, usize)> = pairs.collect();
    let run = |(subject, draw): &(&IntervalSubject<T>, usize)| drawn(&subject.subject, &subject.draws, *draw);
    let all: Vec<Option<NamedFigures>> = pairs.par_iter().map(run).collect();
    let mut all = all.into_iter();
    let of_subject = |IntervalSubject { draws, central, .. }: IntervalSubject<T>| {
        let drawn: Vec<Option<NamedFigures>> = all.by_ref().take(draws.count()).collect();
        RunFigureIntervals::of(&draws, central, &drawn)
    };
    subjects.into_iter().map(of_subject).collect()
}

/// Returns a text with the prediction intervals of a run's figures, with the constants that contribute most.
pub(crate) fn run_interval_text(doubted: &RunFigureIntervals) -> String {
    let (explanation, table) = run_interval_rows(doubted);
    format!("{}\n{table}", describe::wrapped(&explanation, ""))
}

/// Returns the explanation of a run's prediction intervals, and their table.
pub(crate) fn run_interval_rows(doubted: &RunFigureIntervals) -> (String, Table) {
    let shown = |figure: &'static Figure| {
        let text = move |value: f64| units::figure(figure.unit, Some(value));
        Some((String::from(figure.heading), doubted.find(figure.name)?, text))
    };
    interval_rows(FIGURES.iter().filter(|figure| figure.is_in_intervals).filter_map(shown))
}

/// Returns a text with prediction intervals. Each row has the name of a figure, the figure, and a function that formats
/// its values.
pub(crate) fn table<'a, P: Fn(f64) -> String>(
    rows: impl Iterator<Item = (String, &'a FigureWithInterval, P)>,
) -> String {
    let (explanation, table) = interval_rows(rows);
    format!("{}\n{table}", describe::wrapped(&explanation, ""))
}

/// Returns the explanation of prediction intervals, and a table with a row for each figure that has one.
fn interval_rows<'a, P: Fn(f64) -> String>(
    rows: impl Iterator<Item = (String, &'a FigureWithInterval, P)>,
) -> (String, Table) {
    let mut table = Table::new().left("figure").right("value").right("from").right("to").left("most of it from");
    let (mut draws, mut model_error) = (0, None);
    for (heading, figure, shown) in rows {
        let (Some(value), Some(interval)) = (figure.value, &figure.interval) else { continue };
        draws = interval.draws;
        model_error = model_error.or(interval.model_error);
        let names: Vec<String> = interval.contributions.iter().map(contribution_text).collect();
        table.row([heading, shown(value), shown(interval.low), shown(interval.high), names.join(", ")]);
    }
    (explanation(draws, model_error), table)
}

/// Explains prediction intervals in a sentence, and in another one the model's own error if it is included.
pub(crate) fn explanation(draws: usize, model_error: Option<(f64, f64)>) -> String {
    let own = model_error.map_or(String::new(), |(low, high)| {
        format!(
            " Ends of times and rates are moved outwards by the model's own error: nine of ten measurements of machines that it had \
             not seen were {low:.2} to {high:.2} of its prediction."
        )
    });
    format!(
        "90 % of {draws} draws of all constants that are assumed or fitted lie between these ends. A constant stands with \
         its rank correlation: +1 where the figure rises with it alone, -1 where it falls.{own}"
    )
}

fn contribution_text(part: &phaselink_studies::uncertainty::Contribution) -> String {
    format!("{} {:+.2}", part.key, part.correlation)
}

/// Returns the keys of the constants that contribute most to several intervals of one figure, such as
/// `link.one_way_ns`.
pub(crate) fn largest_contributors<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Vec<String> {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for part in intervals.flat_map(|interval| &interval.contributions) {
        match sums.iter_mut().find(|(key, _)| *key == part.key) {
            Some((_, sum)) => *sum += part.correlation.abs(),
            None => sums.push((&part.key, part.correlation.abs())),
        }
    }
    sums.sort_by(|left, right| right.1.total_cmp(&left.1));
    sums.iter().take(NAMED_MAX).map(|(key, _)| String::from(*key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_number_of_draws_equals_that_of_the_library() {
        assert_eq!(DRAWS_DEFAULT.parse(), Ok(phaselink_studies::uncertainty::DRAWS_DEFAULT));
    }

    #[test]
    fn draw_that_cannot_run_is_left_out_of_the_interval() {
        let drive = Drive::shipped("nvme").unwrap();
        let draws = ConstantDraws::of([&drive], 20, SEED);
        let central = vec![(String::from("figure"), Some(10.0))];
        let drawn = |_: &(), _: &ConstantDraws, draw: usize| {
            (draw > 9).then(|| vec![(String::from("figure"), Some(draw as f64))])
        };
        let doubted = intervals(vec![IntervalSubject { draws, central, subject: () }], drawn).remove(0);
        let interval = doubted.find("figure").unwrap().interval.clone().unwrap();
        assert_eq!((interval.draws, interval.low, interval.high), (10, 10.0, 19.0));
    }
}
