//! Answer of `kvcache` in words: text and HTML page.

use super::study::{CacheLifetime, CellLifetime, SampledTime};
use super::tiers::{BlockCount, TIER_NAMES};
use super::{KvCacheAnswer, KvCacheDrive};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::colour;
use crate::report::html::columns::{Column, LegendKey, columns};
use crate::report::html::page::{Page, paragraph, side_by_side};
use crate::report::{Answer, Prose, Table};
use crate::results::units::{self, grouped, quantity};
use crate::results::words::{capacity, counted, figure, listed, size};
use phaselink_core::ledger::stage::CauseOfLatency;
use phaselink_core::number::{real, whole};

/// Lifetime of a drive's cells in years above which the text says `over 1000 years`.
const YEARS_MAX: f64 = 1000.0;

/// Years that the cells of a drive are expected to last: the term of data sheets' endurance.
const YEARS_RATED: f64 = 5.0;

/// Explanation of the plots.
const NOTE: &str = "Means; the table has 95 % intervals of what is sampled. Waiting is the time until the last read of a \
                    request from the drive and its copy from host memory.";

impl Answer for KvCacheAnswer {
    const VERB: &'static str = "kvcache";

    fn text(&self) -> Prose {
        let mut prose = Prose::default().paragraphs(self.conclusion(), "").gap().table(self.table());
        prose = prose.paragraphs(self.unknown_value_reasons(), "  ").gap().table(self.figures());
        for (place, one) in self.drives.iter().enumerate() {
            let is_told = self.drives[..place].iter().any(|other| other.blocks == one.blocks);
            if !is_told {
                let heading = format!("Blocks with {}:", self.names_with_equal_block_counts(one));
                prose = prose.gap().paragraph(heading, "").table(one.blocks());
            }
        }
        prose.gap().paragraph(self.assumptions(), "  ")
    }

    fn page(&self) -> Option<String> {
        let plots = [self.first_token_plot(), self.tier_plot()];
        let mut page = Page::new("Key-value cache on drives", &[self.assumptions()])
            .conclusion(&self.conclusion())
            .section("What the drives change", &(side_by_side(&plots) + &paragraph(NOTE)))
            .table("The drives", &self.table())
            .table("All figures", &self.figures());
        for one in &self.drives {
            page = page.table(&format!("Blocks with {}", self.title(one)), &one.blocks());
        }
        Some(page.finish())
    }
}

impl KvCacheAnswer {
    /// Returns the names of all drives whose block counts equal those of this one.
    fn names_with_equal_block_counts(&self, one: &KvCacheDrive) -> String {
        let same = self.drives.iter().filter(|other| other.blocks == one.blocks);
        listed(&same.map(|one| one.drive.clone()).collect::<Vec<_>>())
    }

    /// Returns the name of a drive with the number of drives, as in `4 x tlc-gen5`.
    fn title(&self, one: &KvCacheDrive) -> String {
        match self.drives_per_host {
            1 => one.drive.clone(),
            drives => format!("{drives} x {}", one.drive),
        }
    }

    /// Returns the conclusion: for each drive whether it pays, by how much, and when its cells wear out; then the share of
    /// the prompts that the cache holds.
    fn conclusion(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.drives.iter().map(|one| self.drive_verdict_sentence(one)).collect();
        let all_alike = self.drives.windows(2).all(|pair| pair[0].blocks == pair[1].blocks);
        for one in self.drives.iter().take(if all_alike { 1 } else { usize::MAX }) {
            let hits = one.blocks.hits().map(|hits| hits.bytes);
            let share = |bytes: u64| units::percent(one.blocks.share(bytes));
            let whose = if all_alike { String::new() } else { format!(" with {}", self.title(one)) };
            sentences.push(format!(
                "Of all bytes that prompts need, {} come from the cache{whose}: {} from memory, {} from the drive.",
                share(hits.iter().sum()),
                share(hits[0] + hits[1]),
                share(hits[2])
            ));
        }
        sentences
    }

    /// Returns a sentence on one drive: whether it pays, by how much, and when its cells wear out.
    fn drive_verdict_sentence(&self, one: &KvCacheDrive) -> String {
        let (title, without) = (self.title(one), quantity(one.first_token_without_drive.mean_s, "s"));
        let Some(first_token) = &one.first_token else {
            let [load, low, high] = [one.load, one.load_low, one.load_high].map(Option::unwrap_or_default);
            return format!(
                "{title} cannot keep up: {load:.1} times what it does is asked for ({low:.1} to {high:.1}), so that waits grow as long as the load lasts; {} would do.",
                counted(whole(one.drives_needed.unwrap_or_default()), "drive"),
            );
        };
        let change = units::percent(one.first_token_reduction_share().unwrap_or_default().abs());
        let means = format!("{}, {without} without the drive", interval(first_token));
        let end = one.lifetime_phrase() + &one.overload_phrase();
        match one.shortens_first_token() {
            Some(true) => format!("{title} pays: the first token comes {change} sooner ({means}){end}."),
            Some(false) if one.blocks.drive_hits.blocks == 0 => {
                format!(
                    "{title} does not pay: no block is found on the drive, and the first token comes after {without}{end}."
                )
            }
            Some(false) => format!("{title} does not pay: the first token comes {change} later ({means}){end}."),
            None => format!("Whether {title} pays is unsure: the first token comes after {means}{end}."),
        }
    }

    /// Returns a sentence with the reason for each drive whose lifetime or read wait is unknown.
    fn unknown_value_reasons(&self) -> Vec<String> {
        let lives = self.drives.iter().filter_map(|one| match &one.lifetime {
            CacheLifetime::Missing { missing } => Some(format!("How long {} lasts is unknown: {missing}.", one.drive)),
            _ => None,
        });
        let is_unread = |one: &&KvCacheDrive| one.read_wait.is_none() && one.blocks.drive_hits.blocks > 0;
        let unread = self.drives.iter().filter(is_unread).filter(|one| !one.falls_behind());
        let waits = unread.map(|one| {
            let name = &one.drive;
            format!("How long requests wait for {name} is unknown: no window has a read of it; --windows takes more.")
        });
        lives.chain(waits).collect()
    }

    /// Returns the table of drives: whether each pays, by how much, and when its cells wear out.
    fn table(&self) -> Table {
        let mut table = Table::new().left("drive").left("pays");
        for header in ["first token", "sooner by", "read wait", "load", "DWPD", "lasts"] {
            table = table.right(header);
        }
        for one in &self.drives {
            table.row([
                one.drive.clone(),
                String::from(one.shortens_first_token().map_or("unsure", |pays| if pays { "yes" } else { "no" })),
                one.shown(&one.first_token, |it| it.mean_s),
                one.first_token_reduction_share().map_or(String::from("-"), units::percent),
                one.shown(&one.read_wait, |it| it.mean_s),
                one.load.map_or(String::from("-"), units::percent),
                figure(one.drive_writes_per_day),
                one.lifetime_figure_text(|cells| Some(years(cells.years))),
            ]);
        }
        table
    }

    /// Returns a table of further figures, with a column for each drive.
    fn figures(&self) -> Table {
        let mut table = self.drives.iter().fold(Table::new().left(""), |table, one| table.right(one.drive.as_str()));
        let mut row = |name: &str, value: &dyn Fn(&KvCacheDrive) -> String| {
            table.row(std::iter::once(String::from(name)).chain(self.drives.iter().map(value)));
        };
        let share = |share: Option<f64>| share.map_or(String::from("-"), units::percent);
        let seconds = |time: &SampledTime| quantity(time.mean_s, "s");
        row("interface", &|one| String::from(one.interface));
        row("reads", &|one| quantity(one.read_bytes_per_s, "B/s"));
        row("writes", &|one| quantity(one.written_bytes_per_s, "B/s"));
        row("reads and writes at full rate", &|one| {
            one.most_bytes_per_s.map_or(String::from("-"), |rate| quantity(rate, "B/s"))
        });
        row("load, from", &|one| share(one.load_low));
        row("load, to", &|one| share(one.load_high));
        row("read wait, p99", &|one| one.shown(&one.read_wait, |it| it.p99_s));
        row("first token, from", &|one| one.shown(&one.first_token, |it| it.low_s));
        row("first token, to", &|one| one.shown(&one.first_token, |it| it.high_s));
        row("first token, p99", &|one| one.shown(&one.first_token, |it| it.p99_s));
        row("first token without the drive", &|one| seconds(&one.first_token_without_drive));
        row("first token without a cache", &|one| seconds(&one.first_token_without_cache));
        row("DWPD that last five years", &|one| {
            one.lifetime_figure_text(|cells| Some(figure(cells.rated_writes_per_day)))
        });
        row("write amplification", &|one| one.lifetime_figure_text(|cells| Some(figure(cells.write_amplification))));
        row("lasts if placed (FDP)", &|one| one.lifetime_figure_text(|cells| cells.placed_years.map(years)));
        table
    }

    /// Returns the assumptions as a paragraph: trace, model, tiers and sampled windows.
    fn assumptions(&self) -> String {
        let assumed = &self.assumed;
        let (objects, object_bytes) = assumed.objects;
        let first = self.drives.first();
        let computing = |place: usize| first.map_or(String::new(), |one| units::percent(one.prefill_shares[place]));
        let mut text = format!(
            "{}: {} of {} tokens, in {}. A token takes {}; a block of {} is {} of {}. Tiers: {} of accelerator memory, {} of host memory, \
             and the drives; replacement {}, the drive gets blocks that are {}. Totals of blocks, tokens and bytes are exact, and so is computing. Drives are simulated in windows that are drawn with seed {}, \
             with 95 % intervals: loads in {} at full rate, {}{}; of several drives, one is simulated with its share. Waiting for other prompts on the accelerators is left out: \
             they compute prompts for {} of the time (without the drive {}, without a cache {}).",
            assumed.source,
            self.request_count_text(),
            grouped(self.input_tokens),
            quantity(self.duration_s, "s"),
            size(self.token_bytes),
            counted(self.block_tokens, "token"),
            counted(objects, "object"),
            size(object_bytes),
            capacity(assumed.memory_bytes[0]),
            capacity(assumed.memory_bytes[1]),
            self.replacement.name(),
            self.drive_writes.name(),
            self.seed,
            assumed.full_rate_windows,
            self.waits(),
            if self.drives.iter().any(|one| one.is_flash) { ", flash in its steady state" } else { "" },
            computing(0),
            computing(1),
            computing(2),
        );
        let unnamed = first.map_or(0, |one| one.blocks.unnamed_tokens);
        if unnamed > 0 {
            text += &format!(" {} tokens have no identity, and are computed each time.", grouped(unnamed));
        }
        text
    }

    /// Returns a phrase on the number of requests whose waits were simulated.
    fn waits(&self) -> String {
        match self.drives.iter().find(|one| !one.falls_behind()) {
            Some(one) => format!("waits of {} in {}", counted(one.sampled_requests, "request"), self.windows),
            None => String::from("and no waits, which would grow"),
        }
    }

    fn request_count_text(&self) -> String {
        match (self.assumed.request, self.requests) {
            ("object access", 2..) => format!("{} object accesses", grouped(self.requests)),
            (request, number) => counted(number, request),
        }
    }

    /// Returns a plot of the mean time to the first token on each drive, without a drive, and without a cache.
    fn first_token_plot(&self) -> String {
        let seconds = |s: f64| quantity(s, "s");
        let y = PlotAxis { name: "mean time to the first token", scale: AxisScale::Linear, shown: &seconds };
        let keys = [
            key("computing", CauseOfLatency::Software),
            key("waiting for cached blocks", CauseOfLatency::DataTransfer),
        ];
        let requests_per_s = real(self.requests) / self.duration_s.max(1e-9);
        let column = |name: String, computing: f64, time: &SampledTime| {
            let prefill_s = (computing / requests_per_s).min(time.mean_s);
            Column { name, parts: vec![prefill_s, time.mean_s - prefill_s] }
        };
        // A drive that falls behind has no mean, and therefore no column.
        let with_mean = self.drives.iter().filter_map(|one| Some((one, one.first_token.as_ref()?)));
        let with_drive = with_mean.map(|(one, time)| column(self.title(one), one.prefill_shares[0], time));
        let without = self.drives.first().map(|one| {
            let [_, no_drive, no_cache] = one.prefill_shares;
            [
                column(String::from("no drive"), no_drive, &one.first_token_without_drive),
                column(String::from("no cache"), no_cache, &one.first_token_without_cache),
            ]
        });
        let drawn: Vec<Column> = with_drive.chain(without.into_iter().flatten()).collect();
        columns("cache on", &y, &keys, &drawn, 0.0, "Time to the first token")
    }

    /// Returns a plot of the tiers in which blocks were found, one column for each drive.
    fn tier_plot(&self) -> String {
        let share = |share: f64| units::percent(share);
        let y = PlotAxis { name: "share of the bytes of prompts", scale: AxisScale::Linear, shown: &share };
        let causes = [CauseOfLatency::Copy, CauseOfLatency::Memory, CauseOfLatency::DataTransfer];
        let mut keys: Vec<LegendKey> = TIER_NAMES.iter().zip(causes).map(|(name, cause)| key(name, cause)).collect();
        keys.push(key("computed", CauseOfLatency::Software));
        let column = |one: &KvCacheDrive| {
            let counts = one.blocks.hits().into_iter().chain([one.blocks.computed]);
            Column { name: self.title(one), parts: counts.map(|count| one.blocks.share(count.bytes)).collect() }
        };
        let drawn: Vec<Column> = self.drives.iter().map(column).collect();
        columns("cache on", &y, &keys, &drawn, 1.0, "Where blocks are found")
    }
}

impl KvCacheDrive {
    /// Returns a phrase on the load of a drive that may not keep up with the cache's reads and writes; empty for other
    /// drives.
    fn overload_phrase(&self) -> String {
        match (self.load_low, self.load_high) {
            (Some(low), Some(high)) if high > 1.0 => {
                let [low, high] = [low, high].map(units::percent);
                format!("; it may not keep up, its load is {low} to {high}")
            }
            _ => String::new(),
        }
    }

    /// True if the drive makes the first token come sooner, beyond the 95 % interval; false if it makes it come later, has
    /// no block that is used, or falls behind. `None` if that is unsure.
    fn shortens_first_token(&self) -> Option<bool> {
        let without_s = self.first_token_without_drive.mean_s;
        match &self.first_token {
            _ if self.falls_behind() || self.blocks.drive_hits.blocks == 0 => Some(false),
            Some(time) if time.high_s < without_s => Some(true),
            Some(time) if time.low_s > without_s => Some(false),
            _ => None,
        }
    }

    /// Returns the share by which the drive shortens the mean time to the first token; below 0 if it lengthens it.
    fn first_token_reduction_share(&self) -> Option<f64> {
        Some(1.0 - self.first_token.as_ref()?.mean_s / self.first_token_without_drive.mean_s)
    }

    /// Formats a sampled time; `grows` if the drives fall behind.
    fn shown(&self, time: &Option<SampledTime>, value: fn(&SampledTime) -> f64) -> String {
        match time {
            Some(time) => quantity(value(time), "s"),
            None if self.falls_behind() => String::from("grows"),
            None => String::from("-"),
        }
    }

    /// Formats a figure of the cells' lifetime; `unknown` if the drive lacks a value for it.
    fn lifetime_figure_text(&self, value: impl Fn(&CellLifetime) -> Option<String>) -> String {
        match &self.lifetime {
            CacheLifetime::Known(cells) => value(cells).unwrap_or(String::from("-")),
            CacheLifetime::Missing { .. } => String::from("unknown"),
            CacheLifetime::NoWrites => String::from("-"),
        }
    }

    /// Returns a phrase on the time until the drive's cells wear out; empty if that is unknown.
    fn lifetime_phrase(&self) -> String {
        match &self.lifetime {
            CacheLifetime::Known(cells) if cells.years < YEARS_RATED => format!(
                "; its cells wear out in {}: it takes {} drive writes a day, and {} last five years",
                years(cells.years),
                figure(self.drive_writes_per_day),
                figure(cells.rated_writes_per_day)
            ),
            CacheLifetime::Known(cells) => format!("; its cells last {}", years(cells.years)),
            CacheLifetime::NoWrites | CacheLifetime::Missing { .. } => String::new(),
        }
    }

    /// Returns a table of the exact numbers of blocks, tokens and bytes by the tier in which they were found.
    fn blocks(&self) -> Table {
        let blocks = &self.blocks;
        let mut table = Table::new().left("");
        for header in ["blocks", "tokens", "bytes", "share", "left the tier"] {
            table = table.right(header);
        }
        let mut row = |name: &str, count: &BlockCount, evicted: Option<u64>| {
            table.row([
                String::from(name),
                grouped(count.blocks),
                grouped(count.tokens),
                grouped(count.bytes),
                units::percent(blocks.share(count.bytes)),
                evicted.map_or(String::new(), grouped),
            ]);
        };
        for ((name, hits), evicted) in TIER_NAMES.iter().zip(blocks.hits()).zip(blocks.evicted_blocks) {
            row(name, &hits, Some(evicted));
        }
        row("computed", &blocks.computed, None);
        row("all", &blocks.used, None);
        row("distinct", &blocks.distinct, None);
        row("tiers without an end", &blocks.ideal, None);
        row("written to the drive", &blocks.written, None);
        table
    }
}

fn key(name: &str, cause: CauseOfLatency) -> LegendKey {
    LegendKey { name: name.into(), colour: colour::latency_cause_colour(cause) }
}

/// Formats a mean time with its confidence interval.
fn interval(time: &SampledTime) -> String {
    let [mean, low, high] = [time.mean_s, time.low_s, time.high_s].map(|s| quantity(s, "s"));
    format!("{mean} ({low} to {high})")
}

/// Formats a lifetime in years or days.
fn years(years: f64) -> String {
    match years {
        years if years > YEARS_MAX => format!("over {YEARS_MAX:.0} years"),
        years if years < 1.0 => format!("{} days", figure(years * 365.25)),
        years => format!("{} years", figure(years)),
    }
}
