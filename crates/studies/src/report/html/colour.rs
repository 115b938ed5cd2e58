//! Colours of stages and causes of latency, the same in every plot: the hue depends on the system part (host, link,
//! device, media), the shade on the stage.
//!
//! Parts and causes differ in lightness as well as in hue, for people who cannot tell red from green; the tests compute
//! the distances as such people see them. The explorer's page gets its colours from here.

use phaselink_core::ledger::Stage;
use phaselink_core::ledger::stage::{CauseOfLatency, SystemPart};

/// Degrees by which a hue turns each time its shades are used up.
const TURN: i32 = 7;

/// Returns the CSS colour of a stage by its name, light enough for dark text. A name that is no fixed stage is looked
/// up in `stack`, the stages of the software stack.
pub fn stage_colour(name: &str, stack: &[String]) -> String {
    let Some(stage) = Stage::of_name(name) else {
        let from_end = stack.iter().rev().position(|known| known == name);
        return of_stack(from_end.unwrap_or(stack.len()));
    };
    let part = stage.part();
    match stage {
        // Stages before the software stack are greyish, so that they differ from any first stage of the stack.
        Stage::Queued => css_colour_text((215, 16, 62)),
        Stage::Batch => css_colour_text((215, 16, 78)),
        // This wait is greyish and takes no shade from the device's later stages.
        Stage::FirmwareWait => css_colour_text((337, 16, 66)),
        // If the stages in between are absent, these two would get the colour of a neighbour, so give them fixed
        // shades.
        Stage::HostRead => of_part(part, 0),
        Stage::ContextSwitch => of_part(part, 2),
        Stage::Interrupt => of_part(part, 3),
        _ => match network_stage_lightness(stage) {
            Some(lightness) => css_colour_text((280, 45, lightness)),
            None => of_part(part, shades_used_before(stage)),
        },
    }
}

/// Returns the number of stages before this one that take a shade of its system part.
fn shades_used_before(stage: Stage) -> usize {
    let is_before = |other: &Stage| *other < stage && other.part() == stage.part();
    let has_shade = |other: &Stage| *other != Stage::FirmwareWait && network_stage_lightness(*other).is_none();
    Stage::all(0).filter(is_before).filter(has_shade).count()
}

/// Returns the lightness of a stage of a network or its target; none for other stages. These stages have a hue of their
/// own, and take no shade of the link and the host.
fn network_stage_lightness(stage: Stage) -> Option<i32> {
    match stage {
        Stage::Capsule | Stage::Target | Stage::NetworkWait => Some(66),
        Stage::WriteData | Stage::TargetWait => Some(78),
        Stage::TargetWake | Stage::Response => Some(88),
        _ => None,
    }
}

/// Returns the CSS colour of a stage of the software stack, by its position counted from the last stage, which is next
/// to the driver.
pub fn of_stack(from_end: usize) -> String {
    of_part(SystemPart::Host, from_end)
}

/// Returns the CSS colour of stage number `place` within a system part (host, link, device or media). The part sets the
/// hue; adjacent stages differ in lightness.
pub fn of_part(part: SystemPart, place: usize) -> String {
    let (hue, saturation, lightnesses) = tint_of_part(part);
    let turned = hue + TURN * ((place / lightnesses.len() % 3) as i32 - 1);
    css_colour_text((turned, saturation, lightnesses[place % lightnesses.len()]))
}

/// Returns the CSS colour of a system part (host, link, device or media) as a whole, for its share of all stages.
pub fn system_part_colour(part: SystemPart) -> String {
    let (hue, saturation, lightnesses) = tint_of_part(part);
    css_colour_text((hue, saturation, lightnesses[0]))
}

/// Returns the CSS colour of a cause of latency, similar to that of its stages; queueing is grey.
pub fn latency_cause_colour(cause: CauseOfLatency) -> String {
    css_colour_text(match cause {
        CauseOfLatency::Queueing => (0, 0, 66),
        CauseOfLatency::CommandFetch => (38, 82, 40),
        CauseOfLatency::Firmware => (334, 75, 56),
        CauseOfLatency::IncompleteTags => (205, 42, 47),
        CauseOfLatency::Memory => (130, 55, 80),
        CauseOfLatency::DataTransfer => (42, 90, 56),
        CauseOfLatency::Completion => (54, 78, 73),
        CauseOfLatency::WakeUp => (228, 85, 66),
        CauseOfLatency::Copy => (203, 88, 82),
        CauseOfLatency::Software => (212, 88, 66),
        CauseOfLatency::Network => (280, 60, 45),
    })
}

/// Returns the tint of a system part: hue in degrees, saturation in per cent, and the lightness of each shade in per
/// cent.
fn tint_of_part(part: SystemPart) -> (i32, i32, &'static [i32]) {
    match part {
        SystemPart::Host => (215, 86, &[61, 85, 73]),
        SystemPart::Link => (43, 84, &[50, 76, 63]),
        SystemPart::Device => (337, 66, &[60, 86, 73]),
        SystemPart::Media => (133, 44, &[66, 80]),
    }
}

fn css_colour_text((hue, saturation, lightness): (i32, i32, i32)) -> String {
    format!("hsl({hue} {saturation}% {lightness}%)")
}

/// Returns the CSS colour of line or series number `place` of a plot; colours repeat after [`SERIES`] of them.
pub(super) fn of_series(place: usize) -> String {
    format!("var(--series-{})", place % SERIES + 1)
}

/// Number of line colours that the style sheet defines.
pub(super) const SERIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary;
    use phaselink_core::drive::Drive;
    use phaselink_core::drive_file::shipped;
    use phaselink_core::engine::simulation::simulate_file;
    use phaselink_core::workload::fio;

    /// Smallest distance of colours of different parts and causes (CIE 1976, as in L*a*b*); about 2 is just noticeable.
    const APART_MIN: f64 = 9.0;
    /// Smallest distance of the colours of adjacent stages, which a gap separates as well.
    const NEIGHBOURS_MIN: f64 = 8.0;

    /// Matrices on linear RGB for eyes with all cones, without those for red, and without those for green: Machado,
    /// Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", TVCG 15,
    /// 2009.
    const EYES: [[[f64; 3]; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ];

    /// Returns red, green and blue of a CSS colour `hsl(…)` in linear light, from 0 to 1.
    fn linear(colour: &str) -> [f64; 3] {
        let numbers = colour.trim_start_matches("hsl(").trim_end_matches(')').replace('%', "");
        let numbers: Vec<f64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let (hue, saturation, lightness) = (numbers[0], numbers[1] / 100.0, numbers[2] / 100.0);
        [0.0, 8.0, 4.0].map(|place| {
            let at = (place + hue / 30.0).rem_euclid(12.0);
            let reach = saturation * lightness.min(1.0 - lightness);
            let value = lightness - reach * (at - 3.0).min(9.0 - at).clamp(-1.0, 1.0);
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(factor, value)| factor * value).sum())
    }

    fn lab(linear: [f64; 3]) -> [f64; 3] {
        const XYZ: [[f64; 3]; 3] = [
            [0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047],
            [0.2126, 0.7152, 0.0722],
            [0.0193 / 1.08883, 0.1192 / 1.08883, 0.9505 / 1.08883],
        ];
        let [x, y, z] = times(&XYZ, linear.map(|value| value.clamp(0.0, 1.0)))
            .map(|value| if value > 0.008856 { value.cbrt() } else { 7.787 * value + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Returns the smallest distance of two CSS colours, over eyes with all cones, without those for red, and without
    /// those for green.
    fn distance(left: &str, right: &str) -> f64 {
        let seen = |eyes: &[[f64; 3]; 3], colour: &str| lab(times(eyes, linear(colour)));
        let distance = |eyes: &[[f64; 3]; 3]| {
            let (left, right) = (seen(eyes, left), seen(eyes, right));
            left.iter().zip(right).map(|(left, right)| (left - right).powi(2)).sum::<f64>().sqrt()
        };
        EYES.iter().map(distance).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn red_and_green_of_equal_lightness_are_close_for_colour_blind_readers() {
        assert!(distance("hsl(0 60% 45%)", "hsl(80 60% 32%)") < 15.0);
        assert!(distance("hsl(0 0% 0%)", "hsl(0 0% 100%)") > 99.0);
    }

    #[test]
    fn cause_colours_differ_without_red_green_vision() {
        let colours: Vec<_> =
            CauseOfLatency::ALL.iter().map(|cause| (cause.name(), latency_cause_colour(*cause))).collect();
        for (place, (name, colour)) in colours.iter().enumerate() {
            for (other, beside) in &colours[..place] {
                let apart = distance(colour, beside);
                assert!(apart >= APART_MIN, "{name} and {other}: {apart:.1}");
            }
        }
    }

    #[test]
    fn part_colours_differ_without_red_green_vision() {
        let parts = SystemPart::ALL;
        for (place, part) in parts.iter().enumerate() {
            for other in &parts[..place] {
                let shades = |part: SystemPart| (3..6).map(move |place| of_part(part, place));
                for (shade, beside) in shades(*part).flat_map(|one| shades(*other).map(move |two| (one.clone(), two))) {
                    let apart = distance(&shade, &beside);
                    assert!(apart >= APART_MIN, "{part:?} {shade}, {other:?} {beside}: {apart:.1}");
                }
            }
        }
    }

    #[test]
    fn adjacent_stage_colours_differ_on_all_shipped_drives() {
        for rw in ["randread", "randwrite"] {
            let file =
                fio::job_from_flags(&[("rw", rw), ("iodepth", "4"), ("number_ios", "100"), ("burst", "1")]).unwrap();
            for drive in shipped::names().filter_map(Drive::shipped) {
                let Ok(outcome) = simulate_file(&drive, &file, 1) else { continue };
                let figures = if rw == "randread" { &outcome.jobs[0].read } else { &outcome.jobs[0].write };
                let stages = summary::stage_means_ns(figures, &outcome.stack_stages);
                let names: Vec<&str> = stages.map(|(stage, _)| stage).collect();
                for pair in names.windows(2) {
                    let [left, right] = [pair[0], pair[1]].map(|name| stage_colour(name, &outcome.stack_stages));
                    let apart = distance(&left, &right);
                    assert!(apart >= NEIGHBOURS_MIN, "{}: {pair:?} {left} {right}: {apart:.1}", drive.name);
                }
            }
        }
    }
}
