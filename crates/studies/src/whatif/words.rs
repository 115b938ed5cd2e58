//! Answer of `whatif` in words: text and HTML page.

use super::answer::WORTH;
use super::{DrivePays, RankedDrive, WhatIfAnswer};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::colour;
use crate::report::html::columns::{Column, LegendKey, columns};
use crate::report::html::page::{Page, list, paragraph, side_by_side};
use crate::report::{Answer, Prose, Table};
use crate::results::units::{self, grouped, quantity};
use crate::results::words::figure;
use phaselink_core::ledger::stage::CauseOfLatency;

/// Explanation of the page.
const HOW: &str = "A request waits for the completion that came last before it when the application was recorded, and for the pause \
                   between the two, in which the application computed or slept. Pauses stay; waits become those of the other drive. \
                   The lower part of a gain is sure: nine of ten draws of all constants in doubt lie within the two lighter parts.";

impl Answer for WhatIfAnswer {
    const VERB: &'static str = "whatif";

    fn text(&self) -> Prose {
        let mut prose = Prose::default().paragraphs(self.conclusion(), "").gap().table(self.table()).gap();
        if !self.cannot.is_empty() {
            prose = prose.paragraphs(self.cannot.iter().map(|reason| format!("Left out: {reason}.")), "  ").gap();
        }
        prose.paragraph(self.assumptions(), "  ")
    }

    fn page(&self) -> Option<String> {
        let names: Vec<String> =
            self.ranked.iter().enumerate().map(|(place, one)| format!("{}: {}", place + 1, one.title())).collect();
        let body = side_by_side(&[self.gain_plot(), self.time_plot()]) + &list(names.iter().map(String::as_str));
        let page = Page::new(&format!("Would it pay? {}", self.file), &[self.assumptions()])
            .conclusion(&self.conclusion())
            .section("What other drives change", &body)
            .table("All figures", &self.table())
            .section("Drives that cannot", &list(self.cannot.iter().map(String::as_str)))
            .section("How to read it", &paragraph(HOW));
        Some(page.finish())
    }
}

impl WhatIfAnswer {
    /// Returns the first drive with one of these verdicts, in the order of the verdicts.
    fn first(&self, verdicts: &[DrivePays]) -> Option<&RankedDrive> {
        verdicts.iter().find_map(|verdict| self.ranked.iter().find(|one| one.pays == *verdict))
    }

    /// Returns the conclusion in a few sentences: the share of time in requests, and the drive that would pay most
    /// surely.
    fn conclusion(&self) -> Vec<String> {
        let Some(now) = self.first(&[DrivePays::Now]) else { return Vec::new() };
        let most = now.elapsed_s / (now.elapsed_s - now.waited_s).max(1e-12);
        let limit = match most < 1000.0 {
            true => format!("no drive can make it more than {} times as fast", figure(most)),
            false => String::from("it does nothing else"),
        };
        let mut sentences = vec![format!(
            "On {}, requests are in flight for {} of the application's time: {limit}.",
            now.title(),
            units::percent(now.in_flight_time_share())
        )];
        // Name a drive that surely pays before a faster one that may not.
        let best = self.first(&[DrivePays::Yes, DrivePays::Unsure, DrivePays::No]);
        sentences.extend(best.map(|best| {
            let (title, [gain, low, high]) = (best.title(), [best.gain, best.gain_low, best.gain_high].map(figure));
            match best.pays {
                DrivePays::Yes => format!("It would pay: {title} makes it {gain} times as fast ({low} to {high})."),
                DrivePays::Unsure => format!(
                    "Whether it would pay is unsure: the best, {title}, makes it {gain} times as fast, and between {low} and {high}."
                ),
                DrivePays::No | DrivePays::Now => format!(
                    "It would not pay: no drive makes it {WORTH} times as fast; the best, {title}, {high} times at most."
                ),
            }
        }));
        let others = self.ranked.iter().filter(|one| one.pays == DrivePays::Yes).count();
        if others > 1 {
            sentences.push(format!("{others} of {} choices would pay.", self.ranked.len() - 1));
        }
        sentences
    }

    /// Returns the table with a row for each drive and stack, the fastest first.
    fn table(&self) -> Table {
        let mut table = Table::new().left("drive").left("stack").labels().left("pays");
        for header in ["times as fast", "from", "to", "time", "in flight", "read mean", "write mean", "flush mean"] {
            table = table.right(header);
        }
        let mut table = table.left("most of it from");
        for one in &self.ranked {
            let mean = |mean_s: Option<f64>| mean_s.map_or(String::from("-"), |s| quantity(s, "s"));
            table.row([
                one.drive.clone(),
                one.stack.clone(),
                format!("{:?}", one.pays).to_lowercase(),
                figure(one.gain),
                figure(one.gain_low),
                figure(one.gain_high),
                quantity(one.elapsed_s, "s"),
                units::percent(one.in_flight_time_share()),
                mean(one.read_mean_s),
                mean(one.write_mean_s),
                mean(one.flush_mean_s),
                one.most_of_it_from.iter().take(2).cloned().collect::<Vec<_>>().join(", "),
            ]);
        }
        table
    }

    /// Returns the assumptions as a paragraph: replayed requests, recorded drive, and draws.
    fn assumptions(&self) -> String {
        let replayed = u64::from(self.replayed_requests);
        let part = match replayed == self.recorded_requests {
            true => format!("all {} of them", grouped(replayed)),
            false => {
                format!("{} of {} in {} windows", grouped(replayed), grouped(self.recorded_requests), self.windows)
            }
        };
        let sampled = if self.windows > 1 { " and of the windows" } else { "" };
        format!(
            "Replayed: requests and flushes of {}, {part}, recorded on {}. Each waits for the completion that came last before it then, and for \
             the pause after that; write buffers are empty at first. Intervals: 90 % of {} draws of all constants in doubt{sampled}. A drive \
             pays if the lower end is {WORTH} or more; prices are yours to weigh.",
            self.file, self.recorded_on, self.draws
        )
    }

    /// Returns a plot of the speed-ups as stacked columns: lower end of the prediction interval, value, and upper end.
    fn gain_plot(&self) -> String {
        let y = PlotAxis { name: "times as fast as now", scale: AxisScale::Linear, shown: &figure };
        let keys = [
            key("lower end", CauseOfLatency::Software),
            key("up to the value", CauseOfLatency::Copy),
            key("up to the upper end", CauseOfLatency::Completion),
        ];
        let parts = |one: &RankedDrive| vec![one.gain_low, one.gain - one.gain_low, one.gain_high - one.gain];
        columns("rank", &y, &keys, &self.columns_by_rank(parts), 1.0, "Gain with its interval")
    }

    /// Returns a plot of the time of the replayed windows: pauses, and requests in flight.
    fn time_plot(&self) -> String {
        let seconds = |s: f64| quantity(s, "s");
        let y = PlotAxis { name: "time of the replayed part", scale: AxisScale::Linear, shown: &seconds };
        let keys = [key("pauses", CauseOfLatency::Queueing), key("requests in flight", CauseOfLatency::DataTransfer)];
        let parts = |one: &RankedDrive| vec![(one.elapsed_s - one.waited_s).max(0.0), one.waited_s];
        columns("rank", &y, &keys, &self.columns_by_rank(parts), 0.0, "Where the time goes")
    }

    fn columns_by_rank(&self, parts: impl Fn(&RankedDrive) -> Vec<f64>) -> Vec<Column> {
        let column = |(place, one): (usize, &RankedDrive)| Column { name: (place + 1).to_string(), parts: parts(one) };
        self.ranked.iter().enumerate().map(column).collect()
    }
}

fn key(name: &str, cause: CauseOfLatency) -> LegendKey {
    LegendKey { name: name.into(), colour: colour::latency_cause_colour(cause) }
}
