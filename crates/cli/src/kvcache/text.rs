//! Text of `phaselink kvcache`: conclusion, table of drives, and the tiers in which blocks were found.

use phaselink_studies::inference::source::PromptSource;
use phaselink_studies::inference::study::{CacheAnswer, CacheLifetime, CacheLoad, SampledTime};
use phaselink_studies::inference::tiers::{BlockCount, TIER_NAMES};
use phaselink_studies::report::Table;
use phaselink_studies::results::units::{self, grouped, quantity};

use super::{AnsweredDrive, CacheQuestion};
use crate::{describe, output};

/// Lifetime of a drive's cells in years above which the text says `over 1000 years`.
const YEARS_MAX: f64 = 1000.0;

/// Returns the whole text of `phaselink kvcache`.
pub(super) fn text(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    let conclusion: String =
        conclusion(question, answered).iter().map(|sentence| describe::wrapped(sentence, "")).collect();
    let missing: String = missing(answered).iter().map(|sentence| describe::wrapped(sentence, "  ")).collect();
    let mut text = format!("{conclusion}\n{}{missing}", output::shown(&table(answered)));
    for (place, one) in answered.iter().enumerate() {
        let is_told = answered[..place].iter().any(|other| other.answer.totals == one.answer.totals);
        if !is_told {
            text += &format!("\n{}:\n{}", names_of_totals(answered, place), output::shown(&blocks(one)));
        }
    }
    text + "\n" + &describe::wrapped(&assumptions(question, answered), "  ")
}

/// Returns the heading of a table of cache blocks: names of all drives whose block counts equal those of the drive at
/// index `place`.
fn names_of_totals(answered: &[AnsweredDrive], place: usize) -> String {
    let same = answered.iter().filter(|other| other.answer.totals == answered[place].answer.totals);
    let names: Vec<String> = same.map(|one| one.drive.name.clone()).collect();
    format!("Blocks with {}", describe::listed(&names))
}

/// Returns the name of a drive with the number of drives, as in `4 x tlc-gen5`.
pub(super) fn title(question: &CacheQuestion, one: &AnsweredDrive) -> String {
    match question.drives {
        1 => one.drive.name.clone(),
        drives => format!("{drives} x {}", one.drive.name),
    }
}

/// Returns the conclusion as a sentence or two for each drive: hits, time to the first token, lifetime.
pub(super) fn conclusion(question: &CacheQuestion, answered: &[AnsweredDrive]) -> Vec<String> {
    let mut sentences = Vec::new();
    let all_alike = answered.windows(2).all(|pair| pair[0].answer.totals == pair[1].answer.totals);
    for (place, one) in answered.iter().enumerate() {
        let (totals, answer) = (&one.answer.totals, &one.answer);
        let share = |bytes: u64| units::percent(bytes as f64 / totals.used.bytes.max(1) as f64);
        if place == 0 || !all_alike {
            let hits: u64 = totals.hits.iter().map(|hits| hits.bytes).sum();
            let whose = if all_alike { String::new() } else { format!(" with {}", title(question, one)) };
            sentences.push(format!(
                "Of all bytes that prompts need, {} come from the cache{whose}: {} from memory, {} from the drive.",
                share(hits),
                share(totals.hits[0].bytes + totals.hits[1].bytes),
                share(totals.hits[2].bytes)
            ));
        }
        sentences.push(match (&answer.load, &answer.first_token) {
            (Some(load), None) => format!(
                "{} cannot keep up: {:.1} times what it does is asked for ({:.1} to {:.1}), so that waits grow as long as the load lasts; {} would do.",
                title(question, one),
                load.share,
                load.interval[0],
                load.interval[1],
                describe::counted((load.share * question.drives as f64).ceil() as u64, "drive"),
            ),
            (load, first_token) => format!(
                "{}: the first token comes after {} in the mean, after {} without the drive, and after {} if everything is computed{}{}.",
                title(question, one),
                first_token.as_ref().map_or(String::from("an unknown time"), interval),
                quantity(answer.without_drive.mean_s, "s"),
                quantity(answer.recomputed.mean_s, "s"),
                life(answer.drive_writes_per_day, &answer.lifetime),
                load.map_or(String::new(), doubtful_load),
            ),
        });
    }
    sentences
}

/// Formats a mean time with its confidence interval.
fn interval(time: &SampledTime) -> String {
    let [low, high] = time.interval_s.map(|s| quantity(s, "s"));
    format!("{} ({low} to {high})", quantity(time.mean_s, "s"))
}

/// Returns a phrase on the load of a drive that may not keep up with the cache's reads and writes; empty for other
/// drives.
fn doubtful_load(load: CacheLoad) -> String {
    let [low, high] = load.interval.map(units::percent);
    if load.interval[1] > 1.0 { format!("; it may not keep up, its load is {low} to {high}") } else { String::new() }
}

fn life(per_day: f64, lifetime: &CacheLifetime) -> String {
    match lifetime {
        CacheLifetime::Known(cells) => format!(
            "; {} drive writes a day wear its cells out in {}, where {} for five years are endured",
            describe::figure(per_day),
            years(cells.years),
            describe::figure(cells.rated_writes_per_day)
        ),
        CacheLifetime::NoWrites | CacheLifetime::Missing(_) => String::new(),
    }
}

/// Formats a lifetime in years or days.
pub(super) fn years(years: f64) -> String {
    match years {
        years if years > YEARS_MAX => format!("over {YEARS_MAX:.0} years"),
        years if years < 1.0 => format!("{} days", describe::figure(years * 365.25)),
        years => format!("{} years", describe::figure(years)),
    }
}

/// Returns a sentence with the reason for each drive whose lifetime or read wait is unknown.
fn missing(answered: &[AnsweredDrive]) -> Vec<String> {
    let lives = answered.iter().filter_map(|one| match &one.answer.lifetime {
        CacheLifetime::Missing(why) => Some(format!("How long {} lasts is unknown: {why}.", one.drive.name)),
        _ => None,
    });
    let is_unread = |answer: &CacheAnswer| answer.read_wait.is_none() && answer.totals.hits[2].blocks > 0;
    let unread = answered.iter().filter(|one| is_unread(&one.answer) && !one.answer.falls_behind());
    let waits = unread.map(|one| {
        let name = &one.drive.name;
        format!("How long requests wait for {name} is unknown: no window has a read of it; --windows takes more.")
    });
    lives.chain(waits).collect()
}

/// Headings of the figures in the table of `phaselink kvcache`, which has a row for each drive.
const FIGURES: [&str; 14] = [
    "reads",
    "writes",
    "load",
    "read wait",
    "p99",
    "first token",
    "from",
    "to",
    "p99",
    "no drive",
    "no cache",
    "drive writes a day",
    "lasts",
    "placed (FDP)",
];

/// Returns the table of `phaselink kvcache` with the figures of each drive in a row.
pub(super) fn table(answered: &[AnsweredDrive]) -> Table {
    let mut table = Table::new().left("drive").left("interface");
    for header in FIGURES {
        table = table.right(header);
    }
    for AnsweredDrive { drive, answer, .. } in answered {
        let none = || String::from("-");
        let seconds = |s: f64| quantity(s, "s");
        let shown = |time: &Option<SampledTime>, value: fn(&SampledTime) -> f64| match time {
            Some(time) => seconds(value(time)),
            None if answer.falls_behind() => String::from("grows"),
            None => none(),
        };
        let [lasts, placed] = match &answer.lifetime {
            CacheLifetime::Known(cells) => [years(cells.years), cells.placed_years.map_or(none(), years)],
            CacheLifetime::Missing(_) => ["unknown", "unknown"].map(String::from),
            CacheLifetime::NoWrites => [none(), none()],
        };
        table.row([
            drive.name.clone(),
            String::from(drive.protocol().title()),
            quantity(answer.read_bytes_per_s, "B/s"),
            quantity(answer.written_bytes_per_s, "B/s"),
            answer.load.map_or(none(), |load| units::percent(load.share)),
            shown(&answer.read_wait, |it| it.mean_s),
            shown(&answer.read_wait, |it| it.p99_s),
            shown(&answer.first_token, |it| it.mean_s),
            shown(&answer.first_token, |it| it.interval_s[0]),
            shown(&answer.first_token, |it| it.interval_s[1]),
            shown(&answer.first_token, |it| it.p99_s),
            seconds(answer.without_drive.mean_s),
            seconds(answer.recomputed.mean_s),
            describe::figure(answer.drive_writes_per_day),
            lasts,
            placed,
        ]);
    }
    table
}

/// Returns a table of the exact numbers of blocks, tokens and bytes by the tier in which they were found.
pub(super) fn blocks(one: &AnsweredDrive) -> Table {
    let totals = &one.answer.totals;
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
            units::percent(count.bytes as f64 / totals.used.bytes.max(1) as f64),
            evicted.map_or(String::new(), grouped),
        ]);
    };
    for ((name, hits), evicted) in TIER_NAMES.iter().zip(&totals.hits).zip(totals.evicted_blocks) {
        row(name, hits, Some(evicted));
    }
    row("computed", &totals.computed, None);
    row("all", &totals.used, None);
    row("distinct", &totals.distinct, None);
    row("tiers without an end", &totals.ideal, None);
    row("written to the drive", &totals.written, None);
    table
}

/// Returns the assumptions of `phaselink kvcache` as a paragraph: trace, model, tiers and sampled windows.
pub(super) fn assumptions(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    let (plan, sums) = (&question.plan, question.source.sums());
    let unnamed = answered.first().map_or(0, |one| one.answer.totals.unnamed_tokens);
    let (objects, object_bytes) = plan.layout.objects(&plan.model, plan.block_tokens);
    let mut text = format!(
        "{}: {} of {} tokens, in {}. A token takes {}; a block of {} is {} of {}. Tiers: {} of accelerator memory, {} of host memory, \
         and the drives; {}. Totals of blocks, tokens and bytes are exact, and so is computing. Drives are simulated in windows that are drawn with seed {}, \
         with 95 % intervals: loads in {} at full rate, {}{}; of several drives, one is simulated with its share. Waiting for other prompts on the accelerators is left out: \
         they compute prompts for {} of the time (without the drive {}, without a cache {}).",
        source(&question.source),
        requests(question),
        grouped(sums.input_tokens),
        quantity(sums.duration_ns as f64 / 1e9, "s"),
        describe::size(plan.model.token_bytes()),
        describe::counted(plan.block_tokens, "token"),
        describe::counted(objects, "object"),
        describe::size(object_bytes),
        describe::capacity(plan.tier_bytes[0]),
        describe::capacity(plan.tier_bytes[1]),
        rules(question),
        question.seed,
        question.closed_windows(),
        waits(question, answered),
        if answered.iter().any(|one| one.drive.is_flash()) { ", flash in its steady state" } else { "" },
        answered.first().map_or(String::new(), |one| units::percent(one.answer.prefill_shares[0])),
        answered.first().map_or(String::new(), |one| units::percent(one.answer.prefill_shares[1])),
        answered.first().map_or(String::new(), |one| units::percent(one.answer.prefill_shares[2])),
    );
    if unnamed > 0 {
        text += &format!(" {} tokens have no identity, and are computed each time.", grouped(unnamed));
    }
    text
}

/// Returns a phrase on the number of requests whose waits were simulated.
fn waits(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    match answered.iter().find(|one| !one.answer.falls_behind()) {
        Some(one) => {
            let sampled = describe::counted(one.answer.sampled_requests, "request");
            format!("waits of {sampled} in {}", question.windows)
        }
        None => String::from("and no waits, which would grow"),
    }
}

fn requests(question: &CacheQuestion) -> String {
    let has_objects = matches!(&question.source, PromptSource::File(trace) if trace.format.has_objects());
    let noun = if has_objects { "object access" } else { "prompt" };
    let number = question.source.sums().requests;
    match (has_objects, number) {
        (true, 2..) => format!("{} object accesses", grouped(number)),
        _ => describe::counted(number, noun),
    }
}

fn rules(question: &CacheQuestion) -> String {
    format!(
        "replacement {}, the drive gets blocks that are {}",
        question.plan.replacement.name(),
        question.plan.writes.name()
    )
}

fn source(source: &PromptSource) -> String {
    match source {
        PromptSource::Generated(trace, _) => {
            format!("Generated ({}, {} a second, seed {})", trace.mix.name(), trace.rate_per_s, trace.seed)
        }
        PromptSource::File(trace) => {
            let left_out = trace.left_out.iter().map(|(kind, number)| format!("{} {kind}", grouped(*number)));
            let left_out: Vec<String> = left_out.collect();
            let left_out =
                if left_out.is_empty() { String::new() } else { format!(", left out: {}", left_out.join(", ")) };
            format!("Trace of format {}{left_out}", trace.format.name())
        }
    }
}
