//! NVMe over vfio-user: random reads and writes of written blocks by a client that polls, beside bare copies of the same bytes
//! between the same threads; with timing on, beside the latency of the model. Words behind it choose: `off` (`read`, `write`, `512`, `4096`,
//! `131072`), `empty`, `on`.
//!
//! Server and client spin, each on a processor of its own. Rounds take turns, and each line shows medians.

#[allow(dead_code)]
mod common;
#[path = "common/vfio.rs"]
mod vfio;
// The benchmark uses only a part of this module.
#[allow(dead_code)]
#[path = "../tests/served/vfio_client.rs"]
mod vfio_client;

use std::io;
use std::sync::Arc;

use common::speed::{Speed, transfers};
use common::{PROCESSORS, Transfer, create_empty_store, median, pin, store};
use phaselink_serve::device::store::Store;
use vfio::{SIZES, deep, drive, lone, over_vfio_user};

const ROUNDS: usize = 9;

/// Part of the benchmark: what it measures of a store, as words choose.
type Part = fn(&Arc<Store>, &[String]) -> io::Result<()>;

/// Reads and writes at both depths, beside bare copies.
fn measure_vfio_with_timing_off(store: &Arc<Store>, words: &[String]) -> io::Result<()> {
    for transfer in transfers(words) {
        let served = |transfer: Transfer| {
            Ok(over_vfio_user(drive(), store, false, |queue| (lone(queue, transfer), deep(queue, transfer)))?.0)
        };
        Speed::measure(store, ROUNDS, transfer, false, served)?.print("vfio-user");
    }
    Ok(())
}

/// Lone reads of written blocks, and of blocks that were never written.
fn empty(store: &Arc<Store>, _: &[String]) -> io::Result<()> {
    let empty = create_empty_store()?;
    for bytes in SIZES {
        let mut rounds: [Vec<f64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (store, rounds) in [store, &empty].into_iter().zip(&mut rounds) {
                rounds.push(over_vfio_user(drive(), store, false, |queue| lone(queue, Transfer::read(bytes)))?.0);
            }
        }
        let more = median(rounds[0].iter().zip(&rounds[1]).map(|(written, empty)| written - empty));
        let [written, empty] = rounds.map(median);
        println!("{bytes:>5} B  QD1 p50 {written:.0} ns written, {empty:.0} ns never written: {more:+.0} ns");
    }
    Ok(())
}

/// Lone reads with the model: the latency that the client measures beside that of the model.
fn measure_vfio_with_timing_on(store: &Arc<Store>, _: &[String]) -> io::Result<()> {
    for bytes in SIZES {
        let (mut seen, mut said, mut lag) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (ns, summary) = over_vfio_user(drive(), store, true, |queue| lone(queue, Transfer::read(bytes)))?;
            seen.push(ns);
            said.push(summary.tally.read.latency.percentile(50.0).as_ns());
            lag.push(summary.tally.lag.percentile(99.0).as_ns());
        }
        let [seen, said, lag] = [seen, said, lag].map(median);
        println!("{bytes:>5} B  timing on      QD1 p50 {seen:>6.0} ns, the model {said:.0} ns, lag p99 {lag:.0} ns");
    }
    Ok(())
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store = store()?;
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, Part); 3] =
        [("off", measure_vfio_with_timing_off), ("empty", empty), ("on", measure_vfio_with_timing_on)];
    let mut parts = parts.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| word == name));
    parts.try_for_each(|(_, part)| part(&store, &wanted))
}
