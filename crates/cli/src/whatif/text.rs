//! Text of `phaselink whatif`: conclusion, table of ranked drives, and assumptions.

use phaselink_studies::report::Table;
use phaselink_studies::results::units::{self, grouped, quantity};
use phaselink_studies::whatif;

use super::{RankedCandidate, RecordedDrive, Verdict, WORTH, WhatIf};
use crate::{describe, output};

/// Returns the text that `phaselink whatif` prints: conclusion, table of candidate drives, reasons why drives are left
/// out, and assumptions.
pub(super) fn text(asked: &WhatIf, ranked: &[RankedCandidate], unfit: &[String]) -> String {
    let conclusion: String = conclusion(asked, ranked).iter().map(|sentence| describe::wrapped(sentence, "")).collect();
    let unfit: String = unfit.iter().map(|reason| describe::wrapped(&format!("Left out: {reason}."), "  ")).collect();
    let unfit = if unfit.is_empty() { unfit } else { format!("{unfit}\n") };
    let assumptions = describe::wrapped(&assumptions(asked), "  ");
    format!("{conclusion}\n{}\n{unfit}{assumptions}", output::shown(&table(asked, ranked)))
}

/// Returns the name of a candidate: its drive, and its software stack if that is not the drive's own.
pub(super) fn candidate_name(asked: &WhatIf, one: &RankedCandidate) -> String {
    let candidate = &asked.candidates[one.place];
    match candidate.stack.as_str() {
        "its own" => candidate.described.drive().name.clone(),
        stack => format!("{} with {stack}", candidate.described.drive().name),
    }
}

/// Returns the conclusion of `phaselink whatif` in a few sentences: the share of time in requests, and the drive that
/// would pay most surely.
pub(super) fn conclusion(asked: &WhatIf, ranked: &[RankedCandidate]) -> Vec<String> {
    let Some(now) = ranked.iter().find(|one| one.place == asked.now) else { return Vec::new() };
    let share = now.waited_s / now.elapsed_s.max(1e-12);
    let most = now.elapsed_s / (now.elapsed_s - now.waited_s).max(1e-12);
    let limit = match most < 1000.0 {
        true => format!("no drive can make it more than {} times as fast", describe::figure(most)),
        false => String::from("it does nothing else"),
    };
    let mut sentences = vec![format!(
        "On {}, requests are in flight for {} of the application's time: {limit}.",
        candidate_name(asked, now),
        units::percent(share)
    )];
    // Name a drive that certainly pays off before a faster one that may not.
    let with = |verdict| ranked.iter().find(|one| one.verdict(asked.now) == verdict);
    let best = with(Verdict::Pays).or_else(|| with(Verdict::Unsure)).or_else(|| with(Verdict::No));
    sentences.extend(best.map(|best| match best.verdict(asked.now) {
        Verdict::Pays => format!(
            "It would pay: {} makes it {} times as fast ({} to {}).",
            candidate_name(asked, best),
            describe::figure(best.central),
            describe::figure(best.gain.low),
            describe::figure(best.gain.high)
        ),
        Verdict::Unsure => format!(
            "Whether it would pay is unsure: the best, {}, makes it {} times as fast, and between {} and {}.",
            candidate_name(asked, best),
            describe::figure(best.central),
            describe::figure(best.gain.low),
            describe::figure(best.gain.high)
        ),
        Verdict::No | Verdict::Now => format!(
            "It would not pay: no drive makes it {WORTH} times as fast; the best, {}, {} times at most.",
            candidate_name(asked, best),
            describe::figure(best.gain.high)
        ),
    }));
    let others = ranked.iter().filter(|one| one.verdict(asked.now) == Verdict::Pays).count();
    if others > 1 {
        sentences.push(format!("{others} of {} choices would pay.", ranked.len() - 1));
    }
    sentences
}

/// Returns the table of `phaselink whatif` with a row for each candidate drive and stack, the fastest first.
pub(super) fn table(asked: &WhatIf, ranked: &[RankedCandidate]) -> Table {
    let mut table = Table::new().left("drive").left("stack").labels().left("pays");
    for header in ["times as fast", "from", "to", "time", "in flight", "read mean", "write mean", "flush mean"] {
        table = table.right(header);
    }
    let mut table = table.left("most of it from");
    for one in ranked {
        let candidate = &asked.candidates[one.place];
        let mean = |kind: usize| one.means_s[kind].map_or(String::from("-"), |s| quantity(s, "s"));
        let keys: Vec<String> = one.gain.contributions.iter().take(2).map(|part| part.key.clone()).collect();
        table.row([
            candidate.described.drive().name.clone(),
            candidate.stack.clone(),
            String::from(one.verdict(asked.now).word()),
            describe::figure(one.central),
            describe::figure(one.gain.low),
            describe::figure(one.gain.high),
            quantity(one.elapsed_s, "s"),
            units::percent(one.waited_s / one.elapsed_s.max(1e-12)),
            mean(0),
            mean(1),
            mean(2),
            keys.join(", "),
        ]);
    }
    table
}

/// Returns the assumptions of `phaselink whatif` as a paragraph: replayed requests, recorded drive, and draws.
pub(super) fn assumptions(asked: &WhatIf) -> String {
    let replayed = u64::from(whatif::requests_of(&asked.windows));
    let part = match replayed == asked.recorded_requests {
        true => format!("all {} of them", grouped(replayed)),
        false => {
            format!("{} of {} in {} windows", grouped(replayed), grouped(asked.recorded_requests), asked.windows.len())
        }
    };
    let recorded = match &asked.recorded_on {
        RecordedDrive::Now => format!("recorded on {}", asked.candidates[asked.now].described.drive().name),
        RecordedDrive::Instant => String::from("recorded on a drive that took no time"),
        RecordedDrive::Other(described) => format!("recorded on {}", described.drive().name),
    };
    let sampled = if asked.windows.len() > 1 { " and of the windows" } else { "" };
    format!(
        "Replayed: requests and flushes of {}, {part}, {recorded}. Each waits for the completion that came last before it then, and for \
         the pause after that; write buffers are empty at first. Intervals: 90 % of {} draws of all constants in doubt{sampled}. A drive \
         pays if the lower end is {WORTH} or more; prices are yours to weigh.",
        asked.file, asked.draws
    )
}
