//! Answer of `breakeven` in words: text and HTML page.

use phaselink_core::ledger::stage::CauseOfLatency;
use phaselink_core::number::whole;

use super::{BreakEven, BreakEvenAnswer, HISTORY, PARTS};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::colour;
use crate::report::html::columns::{Column, LegendKey, columns};
use crate::report::html::lines::{PlotLine, lines};
use crate::report::html::page::{Page, paragraph, side_by_side};
use crate::report::{Answer, Prose, Table};
use crate::results::units::{count, quantity};
use crate::results::words::{figure, size};

impl Answer for BreakEvenAnswer {
    const VERB: &'static str = "breakeven";

    fn text(&self) -> Prose {
        let mut prose = Prose::default().paragraph(self.conclusion(), "").gap().table(self.table());
        if self.question.sensitivity {
            prose =
                prose.gap().paragraph(format!("At {}:", self.first_size_text()), "").table(self.sensitivity_table());
        }
        if self.question.history {
            prose = prose.gap().table(history());
        }
        prose.gap().paragraph(self.assumptions(), "  ")
    }

    fn page(&self) -> Option<String> {
        let plots = [self.break_even_parts_plot(), self.rule_history_plot()];
        let page = Page::new("When does data belong on the drive?", &[self.assumptions()])
            .conclusion(&[self.conclusion()])
            .section("Break-even times", &(side_by_side(&plots) + &paragraph(HOW)))
            .table("All figures", &self.table())
            .table(&format!("A tenth more of each input, at {}", self.first_size_text()), &self.sensitivity_table())
            .table("The rule since 1987", &history());
        Some(page.finish())
    }
}

impl BreakEvenAnswer {
    /// Returns the size of the first block as text, such as `4 KiB`.
    fn first_size_text(&self) -> String {
        self.times.first().map_or_else(String::new, |it| size(it.block_bytes.into()))
    }

    /// Returns a sentence with the break-even times of the smallest and the largest block.
    fn conclusion(&self) -> String {
        let place =
            |it: &BreakEven| format!("{} for a block of {}", time(it.break_even_s), size(it.block_bytes.into()));
        let times = &self.times;
        let shown = if times.len() > 2 { vec![&times[0], &times[times.len() - 1]] } else { times.iter().collect() };
        let told: Vec<String> = shown.into_iter().map(place).collect();
        format!("Data that is accessed again within {} belongs in memory, other data on the drive.", told.join(" and "))
    }

    /// Returns a table with a row for each block size.
    fn table(&self) -> Table {
        let mut table = Table::new().left("block").right("break-even");
        for part in PARTS {
            table = table.right(format!("for {part}"));
        }
        let mut table = table.right("drive IOPS").left("limit").right("used IOPS").right("tail");
        for it in &self.times {
            let mut row = vec![size(it.block_bytes.into()), time(it.break_even_s)];
            row.extend(it.parts_s.map(time));
            row.extend([
                count(it.device.iops),
                String::from(it.device.limit.name()),
                count(it.used_iops),
                it.tail_ns.filter(|ns| ns.is_finite()).map_or(String::from("-"), |ns| quantity(ns / 1e9, "s")),
            ]);
            table.row(row);
        }
        table
    }

    /// Returns a table of the relative changes of a break-even time, one for each input that grows by a tenth.
    fn sensitivity_table(&self) -> Table {
        let mut table = Table::new().left("a tenth more of").right("changes the time by");
        for (name, change) in &self.change_by_tenth_more.0 {
            table.row([name.clone(), format!("{:+.1} %", 100.0 * change)]);
        }
        table
    }

    /// Returns a sentence on prices and rates, the used share of the drive's rate, and the limit of the host.
    fn assumptions(&self) -> String {
        let description = &self.description;
        let host = match description.host_iops {
            Some(iops) => {
                format!("the host does {} operations a second on {} drives", count(iops), description.drives)
            }
            None => String::from("the host does not limit"),
        };
        format!(
            "Assumed: {}; {} % of the drive's rate is used; {host}. The tail is of {} % of all reads.",
            match description.summary.as_str() {
                "" => "prices and rates of the file",
                summary => summary,
            },
            figure(100.0 * description.utilisation),
            figure(100.0 * description.percentile),
        )
    }

    /// Returns a plot of break-even times by block size, as stacked columns of their parts.
    fn break_even_parts_plot(&self) -> String {
        let y = PlotAxis { name: "break-even time", scale: AxisScale::Linear, shown: &time };
        let causes = [CauseOfLatency::Software, CauseOfLatency::Copy, CauseOfLatency::Memory];
        let key = |(name, cause): (&&str, CauseOfLatency)| LegendKey {
            name: (*name).into(),
            colour: colour::latency_cause_colour(cause),
        };
        let keys: Vec<LegendKey> = PARTS.iter().zip(causes).map(key).collect();
        let column = |it: &BreakEven| Column { name: size(it.block_bytes.into()), parts: it.parts_s.to_vec() };
        let drawn: Vec<Column> = self.times.iter().map(column).collect();
        columns("block", &y, &keys, &drawn, 0.0, "What the time comes from")
    }

    /// Returns a plot of the published break-even times since 1987 and those of this description, by year.
    fn rule_history_plot(&self) -> String {
        let year = |year: f64| format!("{year:.0}");
        let x = PlotAxis { name: "year", scale: AxisScale::Linear, shown: &year };
        let y = PlotAxis { name: "break-even time", scale: AxisScale::Logarithmic, shown: &time };
        let of = |device: &str| {
            let rules = HISTORY.iter().filter(|rule| rule.device == device);
            let points = rules.map(|rule| (f64::from(rule.year), Some(rule.seconds())));
            PlotLine::through(format!("{device}, published"), points.collect::<Vec<_>>())
        };
        let here = self.times.iter().map(|it| (YEAR_OF_PRICES, Some(it.break_even_s)));
        let here = PlotLine::through("this description, at 2026", here.collect::<Vec<_>>());
        lines(&x, &y, &[of("disk"), of("flash"), here], "The rule's history")
    }
}

/// Explanation of the plots.
const HOW: &str = "A block that is accessed again within the break-even time costs less in memory, another one on the drive. The \
                   rule's history is drawn as far as its inputs are published; the page of each year is in the table.";

/// Year at which the plot shows the break-even times of the description.
const YEAR_OF_PRICES: f64 = 2026.0;

/// Returns a table of the published versions of the five-minute rule.
fn history() -> Table {
    let mut table = Table::new().right("year").left("behind memory").right("page").right("break-even").left("inputs");
    for rule in HISTORY {
        let page = size(whole(rule.page_bytes));
        table.row([&rule.year.to_string(), rule.device, &page, &time(rule.seconds()), rule.source]);
    }
    table
}

/// Formats a time in seconds: long times in minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 600.0 => quantity(s, "s"),
        s if s < 36_000.0 => format!("{} min", figure(s / 60.0)),
        s => format!("{} h", figure(s / 3600.0)),
    }
}
