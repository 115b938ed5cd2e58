//! Prediction of the time at which the host's next command arrives in a queue (section 4: "we can adjust the endpoint
//! polling to anticipate the times of arrival of new commands").
//!
//! The endpoint only knows which of its queue reads came back empty and which did not. So each command's arrival lies
//! between the last empty queue read and the first with the command, counted from the end of the previous read's data.
//! This interval is a bracket. In a tight loop the brackets agree, and each queue read halves their intersection until
//! it is a few nanoseconds wide. With random arrivals they contradict each other, and the endpoint polls as often as it
//! can.
//!
//! Once the bracket is narrow, the endpoint aims its queue reads at one time. Hosts are not perfectly regular. A
//! command that comes later than the aim costs another round trip, and an aim that is late enough for all commands
//! costs each command the difference. So the endpoint makes trials: it aims a step earlier or later for some commands,
//! and keeps the new aim if that has cost less in all.

use crate::time::Time;

/// Width in picoseconds of an interval of arrival (bracket) that is narrow enough to aim a queue read; also the
/// smallest step of an aim.
const WIDTH: i64 = 4_000;
/// First step in picoseconds by which a trial aims queue reads earlier (next constant: largest step).
const STEP_FIRST: i64 = 4 * WIDTH;
const STEP_LAST: i64 = 128 * WIDTH;
/// First binary logarithm of the divisor for steps by which a trial aims queue reads later (next constant: last one).
/// Such a step is a half to a 32nd of the longest step that can pay.
const NEARER_FIRST: u8 = 1;
const NEARER_LAST: u8 = 5;
/// Delay of a queue read after its aim, in picoseconds, that still counts as on target: another packet may be on the
/// wire.
const SLACK: i64 = 32_000;
/// Number of consecutive intervals of arrival (brackets) that must agree before they are believed, at first (next
/// constant: at most, after aims that were mostly missed).
const BELIEF: u8 = 3;
const BELIEF_LAST: u8 = 192;
/// Number of commands in a trial of another aim for queue reads (next constants: number of commands between trials, at
/// first, and at most if all trials fail).
const TRIAL: u16 = 32;
const PAUSE_FIRST: u16 = 16;
const PAUSE_LAST: u16 = 1024;
/// Number of recent commands over which the share of late commands is measured.
const MEMORY: u16 = 128;
/// Number of consecutive commands, all late or all found long before the aim, after which the host is assumed to run
/// another loop.
const IN_A_ROW: u8 = 8;
/// Number of size classes of reads, as the host's time until the next command depends on the size. The class is the
/// binary logarithm of the number of a read's packets.
const CLASSES: usize = 16;

/// Count of commands that followed a read, and of those among them that came later than the endpoint's aim.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    late: u16,
    all: u16,
}

/// Trial of another aim of queue reads for some commands: the aim in picoseconds after the end of data, and its count
/// of late commands.
#[derive(Clone, Copy, Debug)]
struct Trial {
    at: i64,
    tally: Tally,
}

/// Time at which the endpoint aims its queue reads, in picoseconds after the end of the last data, with the record of
/// its success and of trials.
#[derive(Clone, Copy, Debug)]
struct Aim {
    at: i64,
    tally: Tally,
    late_in_a_row: u8,
    early_in_a_row: u8,
    /// Cost in picoseconds of a command that comes later than the aim: the time to the next queue read.
    penalty: i64,
    trial: Option<Trial>,
    /// Length in picoseconds of the next step towards an earlier aim of queue reads.
    step: i64,
    /// Binary logarithm of the divisor for the next step towards a later aim.
    nearer: u8,
    is_upward: bool,
    /// Number of commands to wait between trials of other aims.
    pause: u16,
    /// Number of commands since the last trial of another aim.
    rested: u16,
}

/// Knowledge of the arrivals of commands after reads of one size class: a bracket, or once that is narrow, an aim.
#[derive(Clone, Copy, Debug)]
enum ArrivalKnowledge {
    /// Bracket: the next command arrives more than `after` and at most `before` picoseconds after the end of the last
    /// data. The last `belief` commands agree on it.
    Bracket {
        after: i64,
        before: i64,
        belief: u8,
    },
    Aim(Aim),
}

/// Expectation for one size class: knowledge of the arrivals, number of brackets that must agree, and expected arrival
/// of the next command. The expected arrival is computed when something is learnt, as it is read more often.
#[derive(Clone, Copy, Debug)]
struct ArrivalExpectation {
    class: ArrivalKnowledge,
    brackets_needed: u8,
    queue_read_offset_ps: Option<i64>,
}

/// Size class of a read: the binary logarithm of its number of packets, limited to the largest class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSizeClass(u8);

impl ReadSizeClass {
    /// Returns the size class of a read with this number of packets.
    pub fn of(packets: u32) -> ReadSizeClass {
        ReadSizeClass((packets.max(1).ilog2() as usize).min(CLASSES - 1) as u8)
    }

    #[inline(always)]
    fn place(self) -> usize {
        usize::from(self.0) % CLASSES
    }
}

/// Predictor of the next command's arrival in one queue, with an expectation for each size class of reads.
#[derive(Clone, Debug, Default)]
pub struct ArrivalPredictor {
    classes: [ArrivalExpectation; CLASSES],
}

/// Returns the signed time from `from` to `at` in picoseconds.
fn offset(at: Time, from: Time) -> i64 {
    at.as_ps() as i64 - from.as_ps() as i64
}

impl ArrivalPredictor {
    /// Returns the time to read the queue for the command that follows a read of this size class, whose data ends at
    /// `ready_at`; none if there is no prediction.
    #[inline(always)]
    pub fn predicted_queue_read_time(&self, size: ReadSizeClass, ready_at: Time) -> Option<Time> {
        let at = self.classes[size.place()].queue_read_offset_ps?;
        // Run times stay below the topmost bit (`Time::NEVER`), so the signed sum does not overflow.
        Some(Time::from_ps(ready_at.as_ps().cast_signed().wrapping_add(at).max(0).cast_unsigned()))
    }

    /// Notes that the command expected after a read of this size class has not come.
    pub fn doubt(&mut self, size: ReadSizeClass) {
        let expectation = &mut self.classes[size.place()];
        expectation.doubt();
        expectation.queue_read_offset_ps = expectation.class.queue_read_offset_ps(expectation.brackets_needed);
    }

    /// Notes the arrival of the command after a read whose data ended at `ready_at`. A queue read sent at `hit` found
    /// the command, and one sent at `miss`, if there was one, did not.
    pub fn observe(&mut self, size: ReadSizeClass, ready_at: Time, miss: Option<Time>, hit: Time) {
        let (after, before) = (miss.map(|miss| offset(miss, ready_at)), offset(hit, ready_at));
        let expectation = &mut self.classes[size.place()];
        expectation.observe(after, before);
        expectation.queue_read_offset_ps = expectation.class.queue_read_offset_ps(expectation.brackets_needed);
    }
}

impl Default for ArrivalExpectation {
    fn default() -> ArrivalExpectation {
        ArrivalExpectation {
            class: ArrivalKnowledge::Bracket { after: 0, before: 0, belief: 0 },
            brackets_needed: BELIEF,
            queue_read_offset_ps: None,
        }
    }
}

impl ArrivalKnowledge {
    fn queue_read_offset_ps(&self, brackets_needed: u8) -> Option<i64> {
        match self {
            ArrivalKnowledge::Bracket { belief, .. } if *belief < brackets_needed => None,
            ArrivalKnowledge::Bracket { after, before, .. } => Some(before - (before - after) / 2),
            ArrivalKnowledge::Aim(aim) => Some(aim.queue_read_offset_ps()),
        }
    }
}

impl ArrivalExpectation {
    fn observe(&mut self, after: Option<i64>, before: i64) {
        match &mut self.class {
            ArrivalKnowledge::Bracket { .. } => self.narrow_bracket(after, before),
            ArrivalKnowledge::Aim(aim) => {
                aim.observe(after, before);
                if aim.tally.is_mostly_late() {
                    self.lose_confidence();
                } else if aim.late_in_a_row >= IN_A_ROW {
                    self.forget();
                }
            }
        }
    }

    fn doubt(&mut self) {
        match &mut self.class {
            ArrivalKnowledge::Bracket { belief, .. } => *belief = belief.saturating_sub(1),
            ArrivalKnowledge::Aim(aim) => {
                aim.late_in_a_row += 1;
                if aim.late_in_a_row >= IN_A_ROW {
                    self.forget();
                }
            }
        }
    }

    /// Forgets when the host's commands arrive, and doubles the number of observations (brackets) that must agree
    /// before the endpoint aims queue reads again.
    #[cold]
    #[inline(never)]
    fn lose_confidence(&mut self) {
        self.brackets_needed = self.brackets_needed.saturating_mul(2).min(BELIEF_LAST);
        self.forget();
    }

    /// Forgets when the host's commands arrive, and starts to observe them again. The number of observations (brackets)
    /// that must agree is kept.
    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        self.class = ArrivalExpectation::default().class;
    }

    /// Intersects the interval of arrival (bracket) with that of another command. A contradicting interval replaces it,
    /// unless it is believed and not far off. A believed interval becomes an aim once it is narrow or contradicted.
    // Not inlined: a class is in this state only until it has an aim.
    #[inline(never)]
    fn narrow_bracket(&mut self, miss: Option<i64>, hit: i64) {
        let ArrivalKnowledge::Bracket { after, before, belief } = &mut self.class else { return };
        let is_believed = *belief >= self.brackets_needed;
        let contradicts = miss.is_some_and(|miss| miss >= *before) || hit <= *after;
        let is_far = miss.is_some_and(|miss| miss >= *before + SLACK) || hit + SLACK <= *after;
        if *belief == 0 || is_far || contradicts && !is_believed {
            let Some(miss) = miss else { return };
            (*after, *before, *belief) = (miss, hit, 1);
            return;
        }
        if !contradicts {
            (*after, *before) = (miss.map_or(*after, |miss| miss.max(*after)), hit.min(*before));
            *belief += u8::from(!is_believed);
        }
        if is_believed && (contradicts || *before - *after <= WIDTH) {
            self.class = ArrivalKnowledge::Aim(Aim::at(*before));
        }
    }
}

impl Aim {
    fn at(at: i64) -> Aim {
        Aim {
            at,
            tally: Tally::default(),
            late_in_a_row: 0,
            early_in_a_row: 0,
            penalty: 0,
            trial: None,
            step: STEP_FIRST,
            nearer: NEARER_FIRST,
            is_upward: false,
            pause: PAUSE_FIRST,
            rested: 0,
        }
    }

    fn queue_read_offset_ps(&self) -> i64 {
        self.trial.map_or(self.at, |trial| trial.at)
    }

    /// Records for the aim that a queue read at `hit` found a command and one at `miss` did not. A queue read long
    /// after the aim does not count. Starts and ends trials of other aims.
    fn observe(&mut self, miss: Option<i64>, hit: i64) {
        let aimed_ps = self.queue_read_offset_ps();
        let missed = miss.filter(|&miss| miss >= aimed_ps);
        if let Some(miss) = missed {
            self.penalty = hit - miss;
        } else if hit > aimed_ps + SLACK {
            return;
        }
        self.late_in_a_row = if missed.is_some() { self.late_in_a_row + 1 } else { 0 };
        self.early_in_a_row = if hit + SLACK < aimed_ps { self.early_in_a_row + 1 } else { 0 };
        if self.early_in_a_row >= IN_A_ROW {
            return self.restart_aim(hit);
        }
        match &mut self.trial {
            Some(trial) => {
                trial.tally.count(missed.is_some());
                self.judge_trial();
            }
            None => {
                self.tally.count(missed.is_some());
                self.rested += 1;
                if self.rested >= self.pause {
                    self.begin_trial();
                }
            }
        }
    }

    /// Replaces the aim of queue reads by the one at `at` with a new record, since the host seems to run another loop.
    #[cold]
    #[inline(never)]
    fn restart_aim(&mut self, at: i64) {
        *self = Aim { penalty: self.penalty, ..Aim::at(at) };
    }

    /// Starts a trial of another aim of queue reads. The new aim is earlier by a step, or later by a fraction of the
    /// longest step that can pay; that fraction shrinks from trial to trial.
    // Not inlined: trials are rare.
    #[inline(never)]
    fn begin_trial(&mut self) {
        self.tally.fade_counts();
        let pays = self.tally.expected(1) * self.penalty as f64;
        let upward = (pays as i64) >> self.nearer;
        let is_upward = self.is_upward && upward >= WIDTH;
        let at = if is_upward { self.at + upward } else { self.at - self.step };
        self.trial = Some(Trial { at, tally: Tally::default() });
    }

    /// Ends the trial of another aim of queue reads if its outcome is clear. A difference in the number of late
    /// commands that chance explains does not count.
    #[inline(never)]
    fn judge_trial(&mut self) {
        let Some(Trial { at, tally }) = self.trial else { return };
        let expected = self.tally.expected(tally.all);
        let (later, chance) = (f64::from(tally.late) - expected, expected.sqrt());
        let (cost, moved) = (self.penalty as f64, (at - self.at) as f64);
        let is_over = tally.all >= TRIAL;
        if moved < 0.0 && cost * (later - chance) > -moved * f64::from(TRIAL) {
            self.end(None);
        } else if is_over {
            let chance = if moved > 0.0 { chance / 2.0 } else { 0.0 };
            let pays = moved * f64::from(tally.all) + cost * (later + chance) < 0.0;
            self.end(pays.then_some((at, tally)));
        }
    }

    /// Ends the trial of another aim of queue reads. After a gain, that aim is adopted and the next trial goes further
    /// in the same direction. After a failure, the old aim stays and the next trial goes in the opposite direction, by
    /// a smaller step.
    fn end(&mut self, gained: Option<(i64, Tally)>) {
        let was_upward = self.queue_read_offset_ps() > self.at;
        (self.trial, self.rested, self.late_in_a_row) = (None, 0, 0);
        match gained {
            Some((at, tally)) => {
                // Pause between trials: some steps succeed by chance, and many trials would cost more than they gain.
                self.pause = (self.pause / 2).max(PAUSE_FIRST);
                (self.at, self.tally, self.is_upward) = (at, tally, was_upward);
                (self.step, self.nearer) = ((self.step * 2).min(STEP_LAST), NEARER_FIRST);
            }
            None if was_upward => {
                (self.is_upward, self.nearer) = (false, self.nearer % NEARER_LAST + 1);
                self.pause = (self.pause * 2).min(PAUSE_LAST);
            }
            None => {
                (self.is_upward, self.pause) = (true, (self.pause * 2).min(PAUSE_LAST));
                self.step = if self.step > WIDTH { self.step / 2 } else { STEP_FIRST };
            }
        }
    }
}

impl Tally {
    fn count(&mut self, is_late: bool) {
        self.all += 1;
        self.late += u16::from(is_late);
    }

    /// Halves the counts of all and of late commands while they cover too many commands, so that old commands count
    /// less and less.
    fn fade_counts(&mut self) {
        while self.all > MEMORY {
            (self.all, self.late) = (self.all / 2, self.late / 2);
        }
    }

    fn is_mostly_late(&self) -> bool {
        self.all >= TRIAL && self.late > self.all / 2
    }

    /// Returns the expected number of late commands among `count`, by the share of late commands so far.
    fn expected(&self, count: u16) -> f64 {
        f64::from(self.late) / f64::from(self.all.max(1)) * f64::from(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// Simulates an endpoint that polls every `period` ns without a target, and a host that enqueues a command `gap` ns
    /// after each read's data. Returns the wait of each command in ns.
    fn simulate_tight_loop(
        predictor: &mut ArrivalPredictor,
        gap: impl Fn(u64) -> u64,
        period: u64,
        rounds: u64,
    ) -> Vec<u64> {
        (0..rounds)
            .map(|round| {
                let ready = at(round * 100_000);
                let arrival = ready + Span::from_ns(gap(round));
                let predicted = predictor.predicted_queue_read_time(ReadSizeClass::of(4), ready);
                let mut miss = ready - Span::from_ns(100);
                // Poll like the endpoint: at the predicted time if that is within one period, otherwise after one
                // period.
                let after = |miss: Time| {
                    let soon = miss + Span::from_ns(period);
                    predicted.filter(|&at| at > miss && at <= soon).unwrap_or(soon)
                };
                while after(miss) < arrival {
                    miss = after(miss);
                }
                let poll = after(miss);
                predictor.observe(ReadSizeClass::of(4), ready, Some(miss), poll);
                poll.since(arrival).as_ps() / 1000
            })
            .collect()
    }

    /// Returns the fraction of waits (in ns) that are at most `ns`.
    fn share_of_waits_within(waits: &[u64], ns: u64) -> f64 {
        waits.iter().filter(|&&wait| wait <= ns).count() as f64 / waits.len() as f64
    }

    #[test]
    fn tight_loop_is_predicted_within_a_bracket_width() {
        let mut predictor = ArrivalPredictor::default();
        let waits = simulate_tight_loop(&mut predictor, |_| 333, 700, 4_000);
        assert!(share_of_waits_within(&waits[2_000..], 4) > 0.99, "{}", share_of_waits_within(&waits[2_000..], 4));
    }

    #[test]
    fn drifting_loop_is_predicted_within_its_drift() {
        let mut predictor = ArrivalPredictor::default();
        let gap = |round| 333 + crate::random::mix(round) % 13;
        let waits = simulate_tight_loop(&mut predictor, gap, 700, 8_000);
        assert!(share_of_waits_within(&waits[4_000..], 30) > 0.97, "{}", share_of_waits_within(&waits[4_000..], 30));
    }

    /// Returns a random number between 0 and 1 (both excluded) that the round's number determines.
    fn uniform_of_round(round: u64) -> f64 {
        ((crate::random::mix(round) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns the mean wait in ns of a command if the best of all fixed aims is used for every round.
    fn best_fixed_aim_wait(gap: impl Fn(u64) -> u64, period: u64, rounds: u64) -> f64 {
        let wait =
            |at: u64, gap: u64| if gap <= at { at - gap } else { (gap - at).next_multiple_of(period) + at - gap };
        let mean = |at| (0..rounds).map(|round| wait(at, gap(round))).sum::<u64>() as f64 / rounds as f64;
        (200..900).step_by(5).map(mean).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn irregular_hosts_are_predicted_nearly_as_well_as_by_a_fixed_aim() {
        let spread = |round| 425.0 - 20.0 * (uniform_of_round(round) + uniform_of_round(!round) - 1.0);
        let tail = |round: u64| -800.0 * uniform_of_round(round ^ 0x5555).ln();
        for one_late_in in [1_000, 20, 5] {
            let is_late = |round: u64| crate::random::mix(round ^ 0x77).is_multiple_of(one_late_in);
            let gap = |round| (spread(round) + if is_late(round) { tail(round) } else { 0.0 }) as u64;
            let mut predictor = ArrivalPredictor::default();
            let waits = simulate_tight_loop(&mut predictor, gap, 650, 20_000);
            let mean = waits[2_000..].iter().sum::<u64>() as f64 / 18_000.0;
            let best = best_fixed_aim_wait(gap, 650, 5_000);
            assert!(mean < best * 1.2 + 15.0, "one late in {one_late_in}: {mean}, at best {best}");
        }
    }

    #[test]
    fn prediction_of_one_size_class_ignores_others() {
        let mut predictor = ArrivalPredictor::default();
        simulate_tight_loop(&mut predictor, |_| 333, 700, 100);
        let is_expected = [1, 4, 7, 8, 64, u32::MAX]
            .map(|packets| predictor.predicted_queue_read_time(ReadSizeClass::of(packets), at(0)).is_some());
        assert_eq!(is_expected, [false, true, true, false, false, false]);
    }

    #[test]
    fn failed_trials_become_rarer_in_both_directions() {
        // Half of the commands are late, so both a later and an earlier aim may pay off.
        let tally = Tally { late: TRIAL, all: 2 * TRIAL };
        let mut aim = Aim { penalty: 700_000, tally, ..Aim::at(333_000) };
        let mut looked_later = 0;
        let pauses: Vec<u16> = (0..8)
            .map(|_| {
                aim.begin_trial();
                looked_later += u32::from(aim.queue_read_offset_ps() > aim.at);
                aim.end(None);
                aim.pause
            })
            .collect();
        assert_eq!(pauses, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
        assert_eq!(looked_later, 4);
    }

    #[test]
    fn prediction_stops_when_commands_stop() {
        let mut predictor = ArrivalPredictor::default();
        simulate_tight_loop(&mut predictor, |_| 333, 700, 100);
        assert!(predictor.predicted_queue_read_time(ReadSizeClass::of(4), at(0)).is_some());
        (0..1_000).for_each(|_| predictor.doubt(ReadSizeClass::of(4)));
        assert_eq!(predictor.predicted_queue_read_time(ReadSizeClass::of(4), at(0)), None);
    }

    #[test]
    fn hosts_that_change_repeatedly_lose_confidence() {
        let mut predictor = ArrivalPredictor::default();
        // The gaps are steady until an aim is found. Then most commands are late by more than a step and less than a
        // round trip.
        let gap = |round: u64| if round % 1_000 < 400 { 333 } else { 340 + crate::random::mix(round) % 600 };
        let waits = simulate_tight_loop(&mut predictor, gap, 700, 40_000);
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        assert!(mean < 350.0, "polling as often as it can would wait as long: {mean}");
        assert!(predictor.classes.iter().all(|class| class.brackets_needed <= BELIEF_LAST));
    }

    #[test]
    fn changed_loop_is_learnt_anew() {
        let mut predictor = ArrivalPredictor::default();
        for gap in [333, 450, 425, 150] {
            let waits = simulate_tight_loop(&mut predictor, |_| gap, 700, 16 * 1024);
            assert!(
                share_of_waits_within(&waits[12_000..], 4) > 0.99,
                "{gap}: {}",
                share_of_waits_within(&waits[12_000..], 4)
            );
        }
    }

    #[test]
    fn random_arrivals_wait_half_a_polling_period_on_average() {
        let mut predictor = ArrivalPredictor::default();
        let waits = simulate_tight_loop(&mut predictor, |round| 5_000 + crate::random::mix(round) % 20_000, 700, 2_000);
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        assert!((300.0..400.0).contains(&mean), "{mean}");
    }
}
