//! Selection and order of the rows that a sweep shows.

use clap::Args;
use phaselink_core::problem::Problem;
use phaselink_studies::results::{FIGURES, Figure, find};
use phaselink_studies::sweep::search::Target;
use phaselink_studies::sweep::text::FinishedPoint;

/// Options of `phaselink sweep` that select and order the rows of the table.
#[derive(Args, Debug)]
pub(super) struct RowChoiceFlags {
    /// Print only points of the sweep whose figures are within these bounds, as in 'p99<5us,iops>500k'; all points run
    #[arg(long = "where", value_name = "BOUNDS")]
    where_: Option<String>,
    /// Figure by which the points of the sweep are sorted, smallest value first; -FIGURE sorts by the largest value
    /// first [default: order of the plan]
    #[arg(long, value_name = "[-]FIGURE", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Number of points of the sweep that are printed: the first in the order of --sort [default: all]
    #[arg(long, value_name = "N")]
    best: Option<usize>,
}

/// Selection and order of a sweep's rows: bounds on figures, the figure to sort by, and the maximum number of rows.
pub(super) struct RowChoice {
    bounds: Target,
    order: Option<(&'static Figure, bool)>,
    most: usize,
}

impl RowChoiceFlags {
    /// Reads the selection of rows from the options.
    ///
    /// # Errors
    ///
    /// If an option names no figure, or has no valid bound.
    pub(super) fn read(&self) -> Result<RowChoice, Problem> {
        let bounds = self.where_.as_deref().map(Target::parse).transpose()?.unwrap_or_default();
        let order = self.sort.as_deref().map(order).transpose()?;
        Ok(RowChoice { bounds, order, most: self.best.unwrap_or(usize::MAX) })
    }
}

fn order(text: &str) -> Result<(&'static Figure, bool), Problem> {
    let name = text.strip_prefix('-').unwrap_or(text);
    let figure = find(name).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        Problem::new("command line", None, format!("--sort by the unknown figure `{name}`"), known.join(", "))
    })?;
    Ok((figure, name.len() < text.len()))
}

impl RowChoice {
    /// Returns the rows of a sweep to print, in the chosen order. Rows without the figure to sort by come last.
    pub(super) fn of<'a>(&self, mut rows: Vec<FinishedPoint<'a>>) -> Vec<FinishedPoint<'a>> {
        rows.retain(|row| self.bounds.is_met(row.figures));
        if let Some((figure, is_falling)) = self.order {
            let sign = if is_falling { -1.0 } else { 1.0 };
            let key = |row: &FinishedPoint<'_>| row.figures.get(figure).map_or(f64::INFINITY, |value| sign * value);
            rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
        }
        rows.truncate(self.most);
        rows
    }
}
