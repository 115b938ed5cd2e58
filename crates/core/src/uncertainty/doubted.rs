//! Figures by name, each with what draws leave of it.

use super::{Draws, Interval};
use crate::results::documents::{ByName, FigureInterval};
use crate::results::{self, FIGURES, Figures, Unit};

/// Figures by name, in the same order for every draw.
pub type Named = Vec<(String, Option<f64>)>;

/// Figures with their values and, where draws give one, their intervals.
#[derive(Clone, Debug)]
pub struct Doubted(Vec<DoubtedFigure>);

/// A figure in doubt.
#[derive(Clone, Debug)]
pub struct DoubtedFigure {
    /// Name of the figure.
    pub name: String,
    /// Value with the constants as they are described; none if the run does not have it.
    pub value: Option<f64>,
    /// Prediction interval from the uncertain constants; none if fewer than two draws have a value.
    pub interval: Option<Interval>,
}

/// The figures of a run.
pub fn of_run(figures: &Figures) -> Named {
    FIGURES.iter().map(|figure| (String::from(figure.name), figures.get(figure))).collect()
}

fn is_time_or_rate(name: &str) -> bool {
    results::find(name).is_some_and(|figure| matches!(figure.unit, Unit::Ns | Unit::PerS | Unit::BytesPerS))
}

impl Doubted {
    /// Figures with the constants as they are, and in each draw in order; none of a draw in which the job cannot run.
    pub fn of(draws: &Draws, central: Named, drawn: &[Option<Named>]) -> Doubted {
        let figure = |(name, value): (String, Option<f64>)| {
            let in_draw = |draw: &Option<Named>| draw.as_ref()?.iter().find(|(other, _)| *other == name)?.1;
            let values: Vec<Option<f64>> = drawn.iter().map(in_draw).collect();
            let model_error = draws.model_error.filter(|_| is_time_or_rate(&name));
            let interval = value.and_then(|value| {
                let interval = draws.interval(value, &values)?;
                Some(interval.with_model_error(value, model_error))
            });
            DoubtedFigure { name, value, interval }
        };
        Doubted(central.into_iter().map(figure).collect())
    }

    /// Returns the figures.
    pub fn figures(&self) -> impl Iterator<Item = &DoubtedFigure> {
        self.0.iter()
    }

    /// The one of this name.
    pub fn find(&self, name: &str) -> Option<&DoubtedFigure> {
        self.figures().find(|figure| figure.name == name)
    }

    /// Returns the figures that have an interval, for documents.
    pub fn document(&self) -> ByName<FigureInterval> {
        let known = |figure: &DoubtedFigure| {
            let interval = figure.interval.clone()?;
            Some((figure.name.clone(), FigureInterval { value: figure.value, interval }))
        };
        ByName(self.figures().filter_map(known).collect())
    }
}
