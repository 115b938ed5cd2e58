//! Stages of the ledger gathered into what a person would name as the cause of a difference.

use phaselink_core::ledger::stage::{Part, STACK_STAGES_MAX};
use phaselink_core::ledger::{DirectionOutcome, Stage};
use phaselink_core::report::html::colour;
use phaselink_core::report::html::columns::Key;

/// A cause, and the stages that it takes in.
const CAUSES: [(&str, &[Stage]); 9] = [
    (
        "queueing",
        &[
            Stage::Queued,
            Stage::Batch,
            Stage::FillBuffer,
            Stage::MediaWait,
            Stage::LinkWait,
            Stage::CoreWait,
            Stage::Timeout,
            Stage::RequestQueue,
            Stage::Translation,
        ],
    ),
    (
        "command fetch",
        &[Stage::Driver, Stage::Doorbell, Stage::LineRequest, Stage::PollWait, Stage::Fetch, Stage::Parse, Stage::Psl],
    ),
    ("firmware", &[Stage::Firmware]),
    ("incomplete tags", &[Stage::Mark, Stage::Check]),
    ("memory", &[Stage::Media]),
    (
        "data transfer",
        &[Stage::HostRead, Stage::Dma, Stage::Claim, Stage::Ring, Stage::Transfer, Stage::Propagation, Stage::Settle],
    ),
    ("completion", &[Stage::CompletionEntry, Stage::Poll]),
    ("interrupt and wake-up", &[Stage::Interrupt, Stage::ContextSwitch]),
    ("copy", &[Stage::Copy]),
];
/// Where what each cause takes passes, which gives it its colour: that of its stages. Waiting has none.
const PARTS: [Option<(Part, usize)>; 9] = [
    None,
    Some((Part::Link, 1)),
    Some((Part::Device, 0)),
    Some((Part::Host, 4)),
    Some((Part::Media, 1)),
    Some((Part::Link, 2)),
    Some((Part::Link, 4)),
    Some((Part::Host, 2)),
    Some((Part::Host, 1)),
];
/// The colour of waiting.
const GREY: &str = "#c3c6ca";
/// The cause that all stages of the software stack stand for.
const SOFTWARE: &str = "software";

/// All causes with their colours, in the order of [`means_ns`].
pub(super) fn keys() -> Vec<Key> {
    let colour = |part: &Option<(Part, usize)>| match part {
        Some((part, place)) => colour::of_part(*part, *place),
        None => String::from(GREY),
    };
    let causes = CAUSES.iter().zip(&PARTS).map(|((name, _), part)| (*name, colour(part)));
    let software = (SOFTWARE, colour(&Some((Part::Host, 0))));
    causes.chain([software]).map(|(name, colour)| Key { name: String::from(name), colour }).collect()
}

/// Time for each request by cause, in ns; the causes sum to the mean latency.
pub(super) fn means_ns(figures: &DirectionOutcome) -> Vec<(&'static str, f64)> {
    let ios = figures.ios.max(1) as f64;
    let mean_ns = |stages: &mut dyn Iterator<Item = Stage>| {
        stages.map(|stage| figures.stages.get(stage).as_ns()).sum::<f64>() / ios
    };
    let software = (SOFTWARE, mean_ns(&mut (0..STACK_STAGES_MAX).map(Stage::stack)));
    let causes = CAUSES.iter().map(|(name, stages)| (*name, mean_ns(&mut stages.iter().copied())));
    causes.chain([software]).collect()
}

/// What the second does not spend, by cause, in ns, the largest first.
pub(super) fn savings_ns(slow: &DirectionOutcome, fast: &DirectionOutcome) -> Vec<(&'static str, f64)> {
    let pairs = means_ns(slow).into_iter().zip(means_ns(fast));
    let mut savings: Vec<_> = pairs.map(|((name, slow_ns), (_, fast_ns))| (name, slow_ns - fast_ns)).collect();
    savings.sort_by(|left, right| right.1.total_cmp(&left.1));
    savings
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive::Drive;
    use phaselink_core::simulation::simulate_file;
    use phaselink_core::workload::fio;

    #[test]
    fn the_causes_sum_to_the_mean_latency_on_every_shipped_drive() {
        let options = [("rw", "randread"), ("iodepth", "8"), ("number_ios", "200")];
        let file = fio::from_flags(&options).unwrap();
        let staged = "preset = 'nvme'\nname = 'with an engine'\n[dma]\npreset = 'nfp6000-gen3-x8'";
        let staged = Drive::from_toml("staged.toml", staged, &[]).unwrap();
        let shipped = phaselink_core::drive_file::shipped::names().filter_map(Drive::shipped);
        for drive in shipped.chain([staged]) {
            let outcome = simulate_file(&drive, &file, 1).unwrap();
            let read = &outcome.jobs[0].read;
            let sum: f64 = means_ns(read).iter().map(|(_, mean_ns)| mean_ns).sum();
            assert!((sum - read.total.mean_ns()).abs() < 1e-6, "{}: {sum} {}", drive.name, read.total.mean_ns());
        }
    }
}
