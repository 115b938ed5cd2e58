//! Colours of what time is spent on, the same in every plot: a hue for where it passes, a shade for the stage.
//!
//! The explorer's page draws in the same colours (`stageColours` in `crates/wasm/page/plot.js`).

use crate::ledger::Stage;
use crate::ledger::stage::{LatencyCause, SystemPart};

/// Degrees by which stages of the software stack stand apart from those of the host.
const STACK_TURN: i32 = -20;

/// The colour of a stage by its name; one that is no fixed stage is of the software stack. Light enough for dark text.
pub fn of_stage(name: &str) -> String {
    let mut fixed = Stage::fixed();
    let Some(place) = fixed.position(|(known, _)| known == name) else {
        return shade(hue(SystemPart::Host) + STACK_TURN, sum(name));
    };
    let part = Stage::fixed().nth(place).map_or(SystemPart::Host, |(_, part)| part);
    of_part(part, Stage::fixed().take(place).filter(|(_, other)| *other == part).count())
}

/// A colour of a part; neighbours differ.
pub fn of_part(part: SystemPart, place: usize) -> String {
    shade(hue(part), place)
}

/// The colour of a cause of latency: that of its stages; waiting is grey.
pub fn of_cause(cause: LatencyCause) -> String {
    let (part, place) = match cause {
        LatencyCause::Queueing => return String::from("#c3c6ca"),
        LatencyCause::CommandFetch => (SystemPart::Link, 1),
        LatencyCause::Firmware => (SystemPart::Device, 0),
        LatencyCause::IncompleteTags => (SystemPart::Host, 4),
        LatencyCause::Memory => (SystemPart::Media, 1),
        LatencyCause::DataTransfer => (SystemPart::Link, 2),
        LatencyCause::Completion => (SystemPart::Link, 4),
        LatencyCause::WakeUp => (SystemPart::Host, 2),
        LatencyCause::Copy => (SystemPart::Host, 1),
        LatencyCause::Software => (SystemPart::Host, 0),
    };
    of_part(part, place)
}

/// Degrees of the colour wheel.
fn hue(part: SystemPart) -> i32 {
    match part {
        SystemPart::Host => 212,
        SystemPart::Link => 28,
        SystemPart::Device => 282,
        SystemPart::Media => 145,
    }
}

fn shade(hue: i32, place: usize) -> String {
    let turned = hue + 9 * ((place % 5) as i32 - 2);
    format!("hsl({turned} {}% {}%)", 52 + 12 * (place % 3), [70, 80, 63, 75][place % 4])
}

/// A number that tells names apart.
fn sum(name: &str) -> usize {
    name.chars().fold(0, |sum, letter| (31 * sum + letter as usize) % 997)
}

/// The colour of a line or point; there are [`SERIES`], and then they begin again.
pub(super) fn of_series(place: usize) -> String {
    format!("var(--series-{})", place % SERIES + 1)
}

/// Colours of lines that the style sheet defines.
pub(super) const SERIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_the_hue_of_its_part_and_neighbours_differ() {
        assert_eq!(of_stage("media wait"), "hsl(127 52% 70%)");
        assert_eq!(of_stage("media"), "hsl(136 64% 80%)");
        assert_ne!(of_stage("system call"), of_stage("block layer"));
        assert_eq!(of_stage("system call"), of_stage("system call"));
    }
}
