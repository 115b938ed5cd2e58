//! Figures by name, each with the prediction interval that uncertain constants give it.

use super::interval::widen_by_model_error;
use super::{ConstantDraws, Interval};
use crate::results::documents::{ByName, FigureInterval};
use crate::results::{self, FIGURES, Figures, Unit};

/// Names of figures with their values, in equal order for every draw; `None` for a figure that the run lacks.
pub type NamedFigures = Vec<(String, Option<f64>)>;

/// Figures of a run with their values and, where draws allow one, their prediction intervals.
#[derive(Clone, Debug)]
pub struct RunFigureIntervals(Vec<FigureWithInterval>);

/// Figure of a run with the prediction interval that uncertain constants give it.
#[derive(Clone, Debug)]
pub struct FigureWithInterval {
    /// Name of the figure, such as `p99_ns`.
    pub name: String,
    /// Value with the nominal constants. `None` if the run does not have this figure.
    pub value: Option<f64>,
    /// Prediction interval from the uncertain constants. `None` if fewer than two draws have a value.
    pub interval: Option<Interval>,
}

/// Returns all figures of a run by name; `None` for a figure that it does not have.
pub fn of_run(figures: &Figures) -> NamedFigures {
    FIGURES.iter().map(|figure| (String::from(figure.name), figures.get(figure))).collect()
}

fn is_time_or_rate(name: &str) -> bool {
    results::find(name).is_some_and(|figure| matches!(figure.unit, Unit::Ns | Unit::PerS | Unit::BytesPerS))
}

impl RunFigureIntervals {
    /// Computes the interval of each figure. `central` has the figures with the nominal constants, `drawn` those of
    /// each draw in order; `None` for a draw in which the job cannot run.
    pub fn of(draws: &ConstantDraws, central: NamedFigures, drawn: &[Option<NamedFigures>]) -> RunFigureIntervals {
        let figure = |(name, value): (String, Option<f64>)| {
            let in_draw = |draw: &Option<NamedFigures>| draw.as_ref()?.iter().find(|(other, _)| *other == name)?.1;
            let values: Vec<Option<f64>> = drawn.iter().map(in_draw).collect();
            let model_error = draws.model_error.filter(|_| is_time_or_rate(&name));
            let interval = value.and_then(|value| {
                let interval = draws.interval(value, &values)?;
                Some(widen_by_model_error(interval, value, model_error))
            });
            FigureWithInterval { name, value, interval }
        };
        RunFigureIntervals(central.into_iter().map(figure).collect())
    }

    /// Returns all figures of the run with their prediction intervals.
    pub fn figures(&self) -> impl Iterator<Item = &FigureWithInterval> {
        self.0.iter()
    }

    /// Returns the figure of this name, or `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&FigureWithInterval> {
        self.figures().find(|figure| figure.name == name)
    }

    /// Returns the figures that have a prediction interval, in the form of JSON documents.
    pub fn document(&self) -> ByName<FigureInterval> {
        let known = |figure: &FigureWithInterval| {
            let interval = figure.interval.clone()?;
            Some((figure.name.clone(), FigureInterval { value: figure.value, interval }))
        };
        ByName(self.figures().filter_map(known).collect())
    }
}
