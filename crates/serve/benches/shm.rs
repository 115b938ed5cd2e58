//! DC Express in shared memory: random reads and writes of written blocks, beside bare copies of the same bytes between two
//! threads; with timing on, beside the latency of the model. Words behind it choose: `off` (`read`, `write`, `512`,
//! `4096`, `131072`), `on`.
//!
//! A bare exchange is a request line, data copied between the store and the client's lines, and the client copying into or out
//! of these: no ring, no tags, no checks. At depth, request lines form a ring, and both sides load lines ahead as the served
//! drive does. Both sides spin, each on a processor of its own. Rounds take turns, and each line shows medians.

#[allow(dead_code)]
mod common;

use std::io;
use std::sync::Arc;

use common::speed::{Speed, transfers};
use common::*;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::tally::Tally;

const ROUNDS_OFF: usize = 9;

/// Reads and writes at both depths, beside bare copies.
fn measure_shm_with_timing_off(store: &Arc<Store>, words: &[String]) -> io::Result<()> {
    for transfer in transfers(words) {
        let served = |transfer: Transfer| {
            let lone = served(store, false, transfer.bytes, |queue| alone(queue, transfer))?.0;
            Ok((lone.percentile_ns(50.0), served(store, false, transfer.bytes, |queue| deep(queue, transfer))?.0))
        };
        Speed::measure(store, ROUNDS_OFF, transfer, true, served)?.print("shared memory");
    }
    Ok(())
}

/// Round with the model, and the latency of the model for the same requests. It differs between rounds: when the endpoint
/// polls next depends on when commands have come before.
struct TimedRound {
    measured: Measured,
    model_ns: f64,
    lag_ns: [f64; 3],
}

impl TimedRound {
    fn run(store: &Arc<Store>, bytes: usize) -> io::Result<TimedRound> {
        let (measured, summary) = served(store, true, bytes, |queue| alone(queue, Transfer::read(bytes)))?;
        let Tally { read, lag, .. } = summary.tally;
        let lag_ns = [50.0, 99.0, 99.9].map(|percent| lag.percentile(percent).as_ns());
        Ok(TimedRound { measured, model_ns: read.latency.percentile(50.0).as_ns(), lag_ns })
    }

    fn ratio(&self) -> f64 {
        self.measured.percentile_ns(50.0) / self.model_ns
    }
}

/// The round nearest to the model, and how near half of them are.
fn measure_shm_with_timing_on(store: &Arc<Store>) -> io::Result<()> {
    const SIZES: [usize; 2] = [512, 4096];
    let mut rounds = SIZES.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (bytes, rounds) in SIZES.into_iter().zip(&mut rounds) {
            rounds.push(TimedRound::run(store, bytes)?);
        }
    }
    for (bytes, mut rounds) in SIZES.into_iter().zip(rounds) {
        rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
        let (best, middle) = (&rounds[0], rounds[rounds.len() / 2].ratio());
        let (ratio, model_ns, [median, high, tail]) = (best.ratio(), best.model_ns, best.lag_ns);
        let lag = format!("lag p50 {median:.0} p99 {high:.0} p99.9 {tail:.0} ns");
        let note = format!("{ratio:.3}x the model's {model_ns:.0} ns (median round {middle:.3}x), {lag}");
        line(bytes, "timing on QD1", &best.measured, &note);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store = store()?;
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |word: &str| wanted.is_empty() || wanted.iter().any(|one| one == word);
    if wants("off") {
        measure_shm_with_timing_off(&store, &wanted)?;
    }
    if wants("on") { measure_shm_with_timing_on(&store) } else { Ok(()) }
}
