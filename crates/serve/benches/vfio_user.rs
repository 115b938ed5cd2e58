//! NVMe over vfio-user: random reads by a client that polls, as SPDK's does, beside a bare copy of the same bytes between the
//! same threads, and beside the same drive in shared memory; with timing on, beside what the model says.
//!
//! Server and client spin, each on a processor of its own. The lines are
//! measured in turn, [`ROUNDS`] times, and each shows its median round.

#[allow(dead_code)]
mod common;
#[path = "common/vfio.rs"]
mod vfio;
// The tests use the rest of it.
#[allow(dead_code)]
#[path = "../tests/common/vfio_client.rs"]
mod vfio_client;

use std::io;

use common::{PROCESSORS, alone, bare, bare_deep, pin, served, store};
use vfio::{SIZES, deep, drive, lone, median, over_vfio_user};

const ROUNDS: usize = 15;

/// Median nanoseconds of a lone request, and requests a second at depth: bare, over vfio-user, in shared memory.
type Round = [(f64, f64); 3];

fn round(store: &phaselink_serve::device::store::Store, bytes: usize) -> io::Result<Round> {
    let bare = (bare(store, bytes)?.percentile_ns(50.0), bare_deep(store, bytes)?);
    let over = over_vfio_user(drive(), false, |queue| (lone(queue, bytes), deep(queue, bytes)))?.0;
    let shared = served(false, |queue| alone(queue, bytes))?.0.percentile_ns(50.0);
    Ok([bare, over, (shared, served(false, |queue| common::deep(queue, bytes))?.0)])
}

/// With the model: what the client sees of lone requests beside what the model says.
fn timing_on() -> io::Result<()> {
    for bytes in SIZES {
        let (mut seen, mut said, mut lag) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (ns, summary) = over_vfio_user(drive(), true, |queue| lone(queue, bytes))?;
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
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (bytes, rounds) in SIZES.into_iter().zip(&mut rounds) {
            rounds.push(round(&store, bytes)?);
        }
    }
    let mut lone_ns = [[0.0; 2]; 3];
    for (size, bytes) in SIZES.into_iter().enumerate() {
        for (place, name) in ["bare exchange", "vfio-user", "shared memory"].into_iter().enumerate() {
            let ns = median(rounds[size].iter().map(|round| round[place].0));
            let iops = median(rounds[size].iter().map(|round| round[place].1));
            let share = median(rounds[size].iter().map(|round| round[place].1 / round[2].1));
            lone_ns[place][size] = ns;
            println!(
                "{bytes:>5} B  {name:<14} QD1 p50 {ns:>6.0} ns   QD32 {iops:>10.0} IOPS, {share:.2}x shared memory"
            );
        }
    }
    let [bare, over, shared] = lone_ns.map(|[sector, page]| page - sector);
    println!(
        "a page costs more than a sector: bare {bare:.0} ns, vfio-user {over:.0} ns, shared memory {shared:.0} ns"
    );
    timing_on()
}
