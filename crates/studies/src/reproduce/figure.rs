//! Figures of a paper, drawn from the runs of its plan: curves of expressions, or the stages of an experiment.

use super::evaluate::{ExpressionValue, evaluate};
use super::mistake::ExpressionMistake;
use super::plan::PlanFigure;
use super::plan_experiment::PlanExperiment;
use super::quantity::RunQuantity;
use super::{Facts, Reproduction};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::colour::stage_colour;
use crate::report::html::columns::{Column, LegendKey, columns};
use crate::report::html::lines::{PlotLine, lines};
use crate::results::units;
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::number::real;
use phaselink_core::problem::Problem;

/// Ratio of the largest to the smallest swept value from which on an axis is logarithmic.
const LOGARITHMIC_RATIO: f64 = 8.0;

/// Figure of a paper with its simulated values and the published ones.
#[derive(Clone, Debug)]
pub struct PaperFigure {
    /// Title of the figure.
    pub title: String,
    x: String,
    unit: String,
    points: Vec<f64>,
    /// Name of each curve, with its value at each point.
    series: Vec<(String, Vec<f64>)>,
    /// Swept value and printed value of each published result in the figure.
    published: Vec<(f64, f64)>,
    is_stacked: bool,
}

impl Reproduction {
    /// Returns the figures of the plan with their values; `outcomes` and `facts` are those of [`Reproduction::runs`],
    /// in order.
    ///
    /// # Panics
    /// If the numbers of outcomes, facts and runs differ.
    pub fn figures(&self, outcomes: &[&Outcome], facts: &[Facts]) -> Vec<PaperFigure> {
        assert_eq!(outcomes.len(), self.plan.runs.len(), "one outcome for each run");
        let read = |run: usize, quantity: &RunQuantity| quantity.read(outcomes[run], &facts[run]);
        self.plan.figures.iter().map(|figure| self.figure(figure, outcomes, &read)).collect()
    }

    fn figure(
        &self,
        figure: &PlanFigure,
        outcomes: &[&Outcome],
        read: &impl Fn(usize, &RunQuantity) -> f64,
    ) -> PaperFigure {
        let (points, series) = match figure.stages {
            Some(experiment) => stages(&self.plan.experiments[experiment], outcomes),
            None => self.curves(figure, read),
        };
        let PlanFigure { title, x, y, .. } = figure;
        PaperFigure {
            title: title.clone(),
            x: x.clone(),
            unit: y.clone(),
            points,
            series,
            published: figure.published.iter().filter_map(|(id, at)| Some((*at, self.published(id)?))).collect(),
            is_stacked: figure.stages.is_some(),
        }
    }

    /// Returns the number that the paper prints for a row; none for a statement.
    fn published(&self, id: &str) -> Option<f64> {
        let row = self.expected.iter().find(|row| row.id == id)?;
        row.printed.map(|printed| printed.value)
    }

    /// Returns the swept values of a figure, and name and values of each of its curves; all curves have the same
    /// points.
    fn curves(
        &self,
        figure: &PlanFigure,
        read: &impl Fn(usize, &RunQuantity) -> f64,
    ) -> (Vec<f64>, Vec<(String, Vec<f64>)>) {
        let mut over = Vec::new();
        let series = figure.lines.iter().filter_map(|(name, expression)| {
            match evaluate(expression, &self.plan.experiments, read) {
                Ok(ExpressionValue::Series { points, values }) => {
                    over = points;
                    Some((name.clone(), values))
                }
                _ => None,
            }
        });
        let series = series.collect();
        (over, series)
    }

    /// Returns the problems of figures that do not depend on results: expressions that are no series, curves over
    /// different points, published rows without a number, and stages of an experiment without a sweep.
    pub(super) fn figure_problems(&self) -> Vec<Problem> {
        let problem = |figure: &PlanFigure| {
            let experiments = &self.plan.experiments;
            let mut over: Option<Vec<f64>> = None;
            for (name, expression) in &figure.lines {
                match evaluate(expression, experiments, &|_, _| 1.0) {
                    Ok(ExpressionValue::Series { points, .. }) if over.as_ref().is_none_or(|over| *over == points) => {
                        over = Some(points)
                    }
                    Ok(ExpressionValue::Series { .. }) => {
                        return Some((
                            format!("`{name}` has other points than the curve before it"),
                            "the same swept values",
                        ));
                    }
                    Ok(value) => return Some((format!("`{name}` gives {}", value.kind()), "a series")),
                    Err(found) => return Some((found, "")),
                }
            }
            if let Some((id, _)) = figure.published.iter().find(|(id, _)| self.published(id).is_none()) {
                return Some((format!("`{id}` is no row with a number"), "the id of such a row of expected.csv"));
            }
            let has_stages = |place: usize| experiments[place].swept.is_some() && !experiments[place].is_closed_form();
            let found = || String::from("stages of an experiment that sweeps nothing");
            (!figure.stages.is_none_or(has_stages)).then(|| (found(), "one with runs and a sweep"))
        };
        let problems = self.plan.figures.iter().filter_map(|figure| Some((figure, problem(figure)?)));
        problems.map(|(figure, (found, allowed))| figure.place.problem(found, allowed)).collect()
    }

    /// Returns the problems of curves that read quantities which the drives of their runs do not have.
    pub(super) fn missing_quantity_problems(&self, facts: &[Facts]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for figure in &self.plan.figures {
            for (_, expression) in &figure.lines {
                let mut faults: Vec<ExpressionMistake> = Vec::new();
                expression.visit(&mut |experiment, quantity| {
                    let runs = &self.plan.experiments[experiment].runs;
                    faults.extend(
                        quantity.iter().flat_map(|it| runs.iter().filter_map(|run| it.check(&facts[*run]).err())),
                    );
                });
                faults.dedup();
                problems.extend(faults.into_iter().map(|mistake| mistake.at(&figure.place)));
            }
        }
        problems
    }
}

/// Returns the swept values of an experiment, and for each stage that any of its runs has, name and mean time in ns for
/// each run.
fn stages(experiment: &PlanExperiment, outcomes: &[&Outcome]) -> (Vec<f64>, Vec<(String, Vec<f64>)>) {
    let of_runs: Vec<Vec<(String, f64)>> = experiment.runs.iter().map(|run| means_ns(outcomes[*run])).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in of_runs.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value =
        |run: &Vec<(String, f64)>, name: &str| run.iter().find(|(own, _)| own == name).map_or(0.0, |(_, ns)| *ns);
    let series = names.iter().map(|name| ((*name).clone(), of_runs.iter().map(|run| value(run, name)).collect()));
    (experiment.swept.clone().unwrap_or_default(), series.collect())
}

fn means_ns(outcome: &Outcome) -> Vec<(String, f64)> {
    let mut all = DirectionOutcome::default();
    for (_, direction) in outcome.jobs.iter().flat_map(|job| job.directions()) {
        all.ios += direction.ios;
        all.stages.add(&direction.stages);
    }
    let ios = real(all.ios.max(1));
    all.stages.named(&outcome.stack_stages).map(|(name, span)| (String::from(name), span.as_ns() / ios)).collect()
}

impl PaperFigure {
    /// Draws the figure as HTML: stages as stacked columns, curves as lines.
    pub fn html(&self) -> String {
        if self.is_stacked { self.stacked_plot() } else { self.line_plot() }
    }

    fn axis_value_text(&self, value: f64) -> String {
        match self.unit.as_str() {
            "ns" => units::quantity(value / 1e9, "s"),
            "%" => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_string() + " %",
            "" | "1" | "1/s" => units::count(value),
            unit => units::quantity(value, unit),
        }
    }

    /// Returns the title of the vertical axis of a figure, such as "time" for values in ns.
    fn value_axis_title(&self) -> &str {
        match self.unit.as_str() {
            "1/s" => "a second",
            "1" => "",
            "ns" => "time",
            "J" => "energy",
            "B/s" => "bandwidth",
            "%" => "share",
            unit => unit,
        }
    }

    fn stacked_plot(&self) -> String {
        let shown = |value: f64| self.axis_value_text(value);
        let names: Vec<String> = self.series.iter().map(|(name, _)| name.clone()).collect();
        let keys = names.iter().map(|name| LegendKey { name: name.clone(), colour: stage_colour(name, &names) });
        let column = |(place, point): (usize, &f64)| {
            let parts = self.series.iter().map(|(_, values)| values[place]).collect();
            Column { name: point.to_string(), parts }
        };
        let stacked: Vec<Column> = self.points.iter().enumerate().map(column).collect();
        let y = PlotAxis { name: self.value_axis_title(), scale: AxisScale::Linear, shown: &shown };
        columns(&self.x, &y, &keys.collect::<Vec<_>>(), &stacked, 0.0, &self.title)
    }

    fn line_plot(&self) -> String {
        let shown = |value: f64| self.axis_value_text(value);
        let plain = |value: f64| value.to_string();
        let line = |(name, values): &(String, Vec<f64>)| {
            let known = |value: &f64| Some(*value).filter(|value| value.is_finite());
            PlotLine::through(name.as_str(), self.points.iter().copied().zip(values.iter().map(known)))
        };
        let (low, high) = (self.points.first().copied().unwrap_or(1.0), self.points.last().copied().unwrap_or(1.0));
        let scale =
            if low > 0.0 && high >= LOGARITHMIC_RATIO * low { AxisScale::Logarithmic } else { AxisScale::Linear };
        let x = PlotAxis { name: &self.x, scale, shown: &plain };
        let published = PlotLine::marks("published", self.published.iter().copied());
        let is_published = !published.points.is_empty();
        let curves: Vec<PlotLine> = self.series.iter().map(line).chain(is_published.then_some(published)).collect();
        lines(
            &x,
            &PlotAxis { name: self.value_axis_title(), scale: AxisScale::Linear, shown: &shown },
            &curves,
            &self.title,
        )
    }
}
