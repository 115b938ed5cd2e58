//! Lifetime of a memory: the number of line writes until the first line has reached its endurance.
//!
//! The real endurance and capacity are used, and no write is simulated. Start-Gap is periodic, so the number of writes
//! to a slot after any number of moves has a closed form ([`WearLevelledRegion::writes_to_slot`]). The first slot to wear out is
//! found among all slots. A workload that draws its lines at random counts as its mean: the writes to a line that
//! endures a million deviate from their mean by a thousandth.

use super::Media;
use super::randomiser::LineRandomiser;
use super::wear::{WearLineLayout, randomiser};
use crate::config;
use crate::config::WearLevelling;
use crate::number::{length, narrow, real, whole};
use crate::problem::Problem;
use crate::time::Time;

/// Largest number of lines in a bank for which a lifetime is computed. The computation holds a weight for each line in
/// memory.
const LINES_MAX: u64 = 1 << 24;
/// Number of seconds in a Julian year.
const YEAR_S: f64 = 365.25 * 86_400.0;
/// Share of the writes that goes to the hot lines (80/20 rule).
const HOT_WRITES: f64 = 0.8;
/// Share of the lines that are hot (80/20 rule).
const HOT_LINES: f64 = 0.2;
/// Tolerance of the search for the first slot to wear out, as a share of the endurance. Slots whose writes differ by
/// less count as wearing out together, because the difference is rounding.
const TOGETHER: f64 = 1e-9;

/// Distribution of writes over the lines of a memory, for the computation of its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearWorkload {
    /// Every line gets equally many writes.
    Uniform,
    /// Four fifths of the writes go to the first fifth of the lines. Lines get equally many writes within the hot and
    /// within the cold range.
    HotRange,
    /// Line number k (from 1) gets writes in proportion to 1/k, so that hot lines have adjacent addresses.
    Zipf,
    /// All writes go to one line, in the middle of one bank.
    Hammer,
}

impl WearWorkload {
    /// All distributions of writes over lines.
    pub const ALL: [WearWorkload; 4] =
        [WearWorkload::Uniform, WearWorkload::HotRange, WearWorkload::Zipf, WearWorkload::Hammer];

    /// Returns the name of this distribution of writes on the command line.
    pub fn name(self) -> &'static str {
        match self {
            WearWorkload::Uniform => "uniform",
            WearWorkload::HotRange => "hot-range",
            WearWorkload::Zipf => "zipf",
            WearWorkload::Hammer => "hammer",
        }
    }

    /// Returns the distribution of writes that has this name on the command line; `None` if there is none.
    pub fn named(name: &str) -> Option<WearWorkload> {
        WearWorkload::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// Returns a weight in proportion to the number of writes to line `line` of a bank of `lines` lines. The weights
    /// need not sum to one.
    fn weight(self, line: u64, lines: u64) -> f64 {
        let hot_lines = ((lines as f64 * HOT_LINES).round() as u64).max(1);
        match self {
            WearWorkload::Uniform => 1.0,
            WearWorkload::HotRange if line < hot_lines => HOT_WRITES / real(hot_lines),
            WearWorkload::HotRange => (1.0 - HOT_WRITES) / real(lines - hot_lines),
            WearWorkload::Zipf => 1.0 / real(line + 1),
            WearWorkload::Hammer => f64::from(u8::from(line == lines / 2)),
        }
    }
}

/// Lifetime of a memory under one workload with one kind of wear levelling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLifetime {
    /// Distribution of writes over the lines of the memory.
    pub workload: WearWorkload,
    /// Wear levelling for which the lifetime is computed.
    pub wear_levelling: WearLevelling,
    /// Number of line writes to the whole memory until the first line is worn out.
    pub line_writes: f64,
    /// `line_writes` as a share of what perfect levelling would allow: endurance times the number of lines.
    pub ideal_share: f64,
    /// Number of line writes per second that the saturated memory sustains, gap moves included in its load.
    pub line_writes_per_s: f64,
    /// Lifetime in years if the memory is written without a pause at `line_writes_per_s`.
    pub years: f64,
}

/// Computes the lifetime of a drive's memory with no wear levelling, with Start-Gap and with randomised Start-Gap, in
/// this order. `seed` determines the shuffle of lines; `name` is the drive's name in error messages.
///
/// # Errors
/// If the endurance is not set, or a bank has too many lines.
pub fn lifetimes(
    name: &str,
    media: &config::Media,
    workload: WearWorkload,
    seed: u64,
) -> Result<[MemoryLifetime; 3], Problem> {
    check(name, media)?;
    let schemes = [WearLevelling::None, WearLevelling::StartGap, WearLevelling::RandomisedStartGap];
    Ok(schemes.map(|wear_levelling| {
        let media = config::Media { wear_levelling, ..media.clone() };
        lifetime(&media, workload, seed)
    }))
}

fn check(name: &str, media: &config::Media) -> Result<(), Problem> {
    let problem = |found: String, allowed: String| Problem::new(name, None, found, allowed);
    if media.endurance_cycles == 0 {
        let found = String::from("media.endurance_cycles is 0: its lines last for ever");
        return Err(problem(found, String::from("a number of writes above 0")));
    }
    let lines = WearLineLayout::of(media).lines_per_bank;
    if lines > LINES_MAX {
        let found = format!("{lines} lines in each bank");
        let allowed = format!("at most {LINES_MAX}: more banks, or larger media.wear_line_bytes");
        return Err(problem(found, allowed));
    }
    Ok(())
}

fn lifetime(media: &config::Media, workload: WearWorkload, seed: u64) -> MemoryLifetime {
    let layout = WearLineLayout::of(media);
    let banks = f64::from(media.banks());
    let busy_banks = if workload == WearWorkload::Hammer { 1.0 } else { banks };
    let line_writes = bank_writes_until_worn(media, &layout, workload, seed) * busy_banks;
    let ideal = banks * real(layout.lines_per_bank) * real(media.endurance_cycles);
    let line_writes_per_s = saturated_line_write_rate(media, workload, seed);
    MemoryLifetime {
        workload,
        wear_levelling: media.wear_levelling,
        line_writes,
        ideal_share: line_writes / ideal,
        line_writes_per_s,
        years: line_writes / line_writes_per_s / YEAR_S,
    }
}

/// Returns the number of line writes to one bank until its first slot is worn out.
fn bank_writes_until_worn(media: &config::Media, layout: &WearLineLayout, workload: WearWorkload, seed: u64) -> f64 {
    let shuffle = (media.wear_levelling == WearLevelling::RandomisedStartGap).then(|| randomiser(layout, seed).1);
    let lines = layout.lines_per_bank;
    let source = |line: u64| shuffle.map_or(line, |shuffle| shuffle.invert(line));
    let weight = |line: u64| workload.weight(source(line), lines);
    let total: f64 = (0..lines).map(|line| workload.weight(line, lines)).sum();
    let endurance = real(media.endurance_cycles);
    if media.wear_levelling == WearLevelling::None {
        let heaviest = (0..lines).map(weight).fold(0.0, f64::max);
        return endurance * total / heaviest;
    }
    let of_region = |region: u64| {
        let first = region * layout.lines_per_region;
        let region =
            WearLevelledRegion::new((first..first + layout.lines_of(region)).map(weight), media.gap_write_interval);
        region.region_writes_until_worn(endurance) * total / region.total()
    };
    (0..layout.regions()).map(of_region).fold(f64::INFINITY, f64::min)
}

/// Returns the number of line writes per second that the saturated memory sustains. The writes go to one line of each
/// successive stripe, or for a hammer workload always to the same line.
fn saturated_line_write_rate(media: &config::Media, workload: WearWorkload, seed: u64) -> f64 {
    let banks = u64::from(media.banks());
    let writes = (banks * 200).clamp(2_000, 1 << 21);
    let stride = if workload == WearWorkload::Hammer { 0 } else { u64::from(media.stripe_bytes) };
    let line_bytes = WearLineLayout::of(media).line_bytes;
    let mut memory = Media::of(media, seed);
    let end = (0..writes).map(|write| memory.write(Time::ZERO, write * stride, line_bytes).programmed_at).max();
    // If no operation takes time, the end is 0 and the rate is infinite.
    real(writes) / end.map_or(0.0, |end| end.as_ns() * 1e-9)
}

/// Start-Gap region under a workload whose distribution of writes over lines does not change.
struct WearLevelledRegion {
    /// Prefix sums of the lines' write weights: element k is the sum over lines 0 to k - 1, the last element the sum
    /// over all lines.
    before: Vec<f64>,
    /// Number of writes to the Start-Gap region between two moves of its gap.
    interval: f64,
}

impl WearLevelledRegion {
    fn new(weights: impl Iterator<Item = f64>, interval: u32) -> WearLevelledRegion {
        let mut sum = 0.0;
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        WearLevelledRegion { before: std::iter::once(0.0).chain(sums).collect(), interval: interval.into() }
    }

    fn lines(&self) -> u64 {
        length(self.before.len()) - 1
    }

    fn total(&self) -> f64 {
        self.before[self.before.len() - 1]
    }

    /// Returns the number of writes to the region until its first slot has taken `endurance` writes. Copies of lines by
    /// gap moves wear the slots, but are not part of the result.
    fn region_writes_until_worn(&self, endurance: f64) -> f64 {
        let slots = self.lines() + 1;
        // After this number of moves, the average slot has taken `endurance` writes. This is the upper bound of the
        // search.
        let mut moves = real(slots) * endurance / (self.interval + 1.0);
        // Visit the slots in random order. Then only a few of them wear out earlier than all slots before them, and
        // only those need the search below.
        let order = LineRandomiser::new(slots, 0);
        for slot in (0..slots).map(|number| order.forward(number)) {
            if self.writes_to_slot(slot, moves) > endurance * (1.0 + TOGETHER) {
                moves = self.gap_moves_until_worn(slot, endurance, moves);
            }
        }
        moves * self.interval
    }

    /// Returns the number of gap moves, as a fraction, after which a slot has taken `endurance` writes. `most` is a
    /// number of moves after which it has taken more.
    fn gap_moves_until_worn(&self, slot: u64, endurance: f64, most: f64) -> f64 {
        let (mut low, mut high) = (0.0, most);
        // Each iteration determines one of the 53 bits of the result.
        for _ in 0..54 {
            let middle = (low + high) / 2.0;
            match self.writes_to_slot(slot, middle) > endurance {
                true => high = middle,
                false => low = middle,
            }
        }
        high
    }

    /// Returns the number of writes that a slot has taken after a number of gap moves, which need not be whole.
    ///
    /// With N lines, slot s holds line s - j modulo N for N moves from move j (N + 1) - s on, and is then the gap for
    /// one move. Each copy of a line into the slot is a write too.
    fn writes_to_slot(&self, slot: u64, moves: f64) -> f64 {
        let lines = self.lines();
        // Number of moves since the start of period 0, which lies `slot` moves before the first write.
        let since = moves + real(slot);
        let period = real(lines + 1);
        let arrivals = (since / period).floor();
        let in_period = (since - arrivals * period).min(real(lines));
        let arrivals_whole = whole(arrivals);
        let last = (slot + lines - arrivals_whole % lines) % lines;
        let held = real(lines) * self.sum_of_weights_downwards(slot % lines, arrivals_whole)
            + in_period * self.weight(last)
            - real(slot) * self.weight(slot % lines);
        self.interval * held / self.total() + arrivals
    }

    fn weight(&self, line: u64) -> f64 {
        self.before[narrow::<usize, u64>(line) + 1] - self.before[narrow::<usize, u64>(line)]
    }

    /// Returns the sum of the write weights of `count` lines from `line` downwards. The last line follows line 0, as
    /// often as `count` requires.
    fn sum_of_weights_downwards(&self, line: u64, count: u64) -> f64 {
        let lines = self.lines();
        let (rounds, rest) = (count / lines, count % lines);
        let above = self.before[narrow::<usize, u64>(line) + 1];
        let partial = match rest <= line + 1 {
            true => above - self.before[narrow::<usize, u64>(line + 1 - rest)],
            false => above + self.total() - self.before[narrow::<usize, u64>(lines + line + 1 - rest)],
        };
        real(rounds) * self.total() + partial
    }
}

#[cfg(test)]
mod tests {
    use super::super::start_gap::StartGap;
    use super::*;
    use proptest::prelude::*;

    /// Simulates writes to a Start-Gap region one by one until a slot has taken `endurance` writes, copies of lines
    /// included. Returns the number of writes. Write n goes to line `pick(n)`.
    fn simulate_region_wear(lines: u64, interval: u32, endurance: u64, pick: impl Fn(u64) -> u64) -> u64 {
        let mut region = StartGap::new(lines);
        let mut writes = vec![0; lines as usize + 1];
        for write in 0.. {
            let slot = region.slot(pick(write)) as usize;
            let moved = region.on_write(interval);
            writes[slot] += 1;
            if let Some(moved) = moved {
                writes[moved.to as usize] += 1;
            }
            if writes.iter().any(|&count| count >= endurance) {
                return write + 1;
            }
        }
        unreachable!("a bounded endurance")
    }

    fn media(set: impl FnOnce(&mut config::Media)) -> config::Media {
        let mut media = config::Media {
            capacity_mib: 8,
            banks_per_channel: 1,
            stripe_bytes: 512,
            endurance_cycles: 100_000,
            ..config::Media::default()
        };
        set(&mut media);
        media
    }

    fn share(workload: WearWorkload, wear_levelling: WearLevelling, set: impl FnOnce(&mut config::Media)) -> f64 {
        let media = config::Media { wear_levelling, ..media(set) };
        lifetime(&media, workload, 1).ideal_share
    }

    #[test]
    fn unlevelled_hot_line_fails_after_its_own_endurance() {
        let lifetime = lifetime(&media(|_| {}), WearWorkload::Hammer, 1);
        assert_eq!(lifetime.line_writes, 100_000.0);
    }

    #[test]
    fn hot_line_that_moves_too_late_fails_despite_start_gap() {
        // A line stays in one slot for 16,384 x 100 writes, but a slot endures only 100,000.
        let lost = share(WearWorkload::Hammer, WearLevelling::StartGap, |_| {});
        assert!(lost < 1e-4, "{lost}");
    }

    #[test]
    fn hot_line_that_moves_in_time_wears_its_region_evenly() {
        let kept = share(WearWorkload::Hammer, WearLevelling::StartGap, |media| {
            media.wear_line_bytes = 512;
            media.capacity_mib = 1;
            media.stripe_bytes = 4096;
            media.wear_line_bytes = 4096;
            media.gap_write_interval = 10;
        });
        assert!((0.88..0.93).contains(&kept), "gap moves are one write in eleven: {kept}");
    }

    #[test]
    fn uniform_writes_lose_only_the_gap_move_share() {
        assert_eq!(share(WearWorkload::Uniform, WearLevelling::None, |_| {}), 1.0);
        for scheme in [WearLevelling::StartGap, WearLevelling::RandomisedStartGap] {
            let kept = share(WearWorkload::Uniform, scheme, |_| {});
            assert!((kept - 100.0 / 101.0).abs() < 2e-3, "{kept}");
        }
    }

    #[test]
    fn hot_neighbours_defeat_plain_but_not_randomised_start_gap() {
        // As in the paper, the line wears out before it has moved far: by only 1,000 (100,000 / 100) of 16,384 lines.
        let none = share(WearWorkload::HotRange, WearLevelling::None, |_| {});
        let plain = share(WearWorkload::HotRange, WearLevelling::StartGap, |_| {});
        let randomised = share(WearWorkload::HotRange, WearLevelling::RandomisedStartGap, |_| {});
        assert!((none - 0.25).abs() < 1e-3, "a hot line takes four times the mean: {none}");
        assert!(plain < 0.35, "{plain}");
        assert!(randomised > 0.80, "{randomised}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn lifetime_formula_equals_simulation_for_a_hot_line(
            lines in 1u64..12, interval in 1u32..8, endurance in 1u64..400, line in 0u64..12,
        ) {
            let line = line % lines;
            let region = WearLevelledRegion::new((0..lines).map(|other| f64::from(u8::from(other == line))), interval);
            let expected = simulate_region_wear(lines, interval, endurance, |_| line);
            // Simulated counts are whole numbers, and a slot may narrowly miss its last write until the line returns,
            // so allow that slack.
            let slack = f64::from(interval);
            let (least, most) = (endurance as f64 - 2.0, endurance as f64 + 2.0);
            prop_assert!(expected as f64 >= region.region_writes_until_worn(least.max(0.0)) - slack, "{}", expected);
            prop_assert!(expected as f64 <= region.region_writes_until_worn(most) + slack, "{}", expected);
        }

        #[test]
        fn lifetime_formula_equals_simulation_for_cyclic_writes(
            lines in 1u64..12, rounds in 1u32..8, endurance in 50u64..400,
        ) {
            // An interval of whole rounds gives each line the same number of writes between two moves.
            let interval = lines as u32 * rounds;
            let region = WearLevelledRegion::new((0..lines).map(|_| 1.0), interval);
            let expected = simulate_region_wear(lines, interval, endurance, |write| write % lines);
            let found = region.region_writes_until_worn(endurance as f64);
            let slack = 2.0 * f64::from(interval);
            prop_assert!((found - expected as f64).abs() <= slack, "{} against {}", found, expected);
        }
    }
}
