//! Three nodes of madsim, each with a drive of its own, that keep what a client sends; they are killed meanwhile.

use std::time::Duration;

use madsim::net::Endpoint;
use madsim::runtime::{Handle, NodeHandle, Runtime};
use madsim::time::{sleep, timeout};
use phaselink_embed::Description;
use phaselink_madsim::{DriveSim, HostDrive};

const BLOCK_BYTES: usize = 4096;
const VALUES: u64 = 60;
const TAG: u64 = 1;
/// Drives of the nodes.
const DRIVES: [&str; 3] = ["tlc-gen4", "tlc-gen5", "optane-p5800x"];

fn block(value: u64) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes.as_chunks_mut().0.fill((value + 1).to_le_bytes());
    bytes
}

fn address(node: usize) -> String {
    format!("10.0.0.{}:1000", node + 1)
}

/// Writes each value into a block of its own, makes it durable, and says so.
async fn serve(flushes: bool) {
    let drive = phaselink_madsim::drive().expect("the node has a drive");
    let endpoint = Endpoint::bind("0.0.0.0:1000").await.unwrap();
    let mut message = [0; 8];
    while let Ok((_, sender)) = endpoint.recv_from(TAG, &mut message).await {
        let value = u64::from_le_bytes(message);
        drive.write(value * BLOCK_BYTES as u64, &block(value)).await.unwrap();
        if flushes {
            drive.flush().await.unwrap();
        }
        endpoint.send_to(sender, TAG + 1 + value, &message).await.unwrap();
    }
}

/// Sends a value to a node until that has said that it is durable.
async fn send(endpoint: &Endpoint, node: usize, value: u64) {
    let mut answer = [0; 8];
    loop {
        let _ = endpoint.send_to(address(node), TAG, &value.to_le_bytes()).await;
        let received = timeout(Duration::from_millis(50), endpoint.recv_from(TAG + 1 + value, &mut answer)).await;
        if received.is_ok_and(|received| received.is_ok()) {
            return;
        }
    }
}

/// Kills a node, checks its drive, and starts it again; the number of values that are lost.
fn kill_and_check(node: &NodeHandle, drive: &HostDrive, acknowledged: u64) -> usize {
    Handle::current().kill(node.id());
    let is_lost = |value: &u64| {
        let mut found = [0; BLOCK_BYTES];
        drive.with_drive(|drive| drive.peek(0, value * BLOCK_BYTES as u64, &mut found).unwrap());
        found != block(*value)
    };
    let lost = (0..acknowledged).filter(is_lost).count();
    Handle::current().restart(node.id());
    lost
}

/// Result of a simulation: lost values, digests and commit times of each node.
#[derive(Debug, PartialEq)]
struct Outcome {
    lost: [usize; 3],
    digests: [u64; 3],
    /// Mean time of a write with its flush in microseconds.
    commit_us: [f64; 3],
}

async fn cluster(flushes: bool) -> Outcome {
    let handle = Handle::current();
    let nodes = [0, 1, 2].map(|place| {
        let ip = format!("10.0.0.{}", place + 1).parse().unwrap();
        // The node starts to serve once it has its drive.
        let node = handle.create_node().ip(ip).init(move || async move { serve(flushes).await }).build();
        DriveSim::current().give(node.id(), &Description::shipped(DRIVES[place]).unwrap()).unwrap();
        node
    });
    let client = handle.create_node().ip("10.0.0.9".parse().unwrap()).build();
    let drives = nodes.each_ref().map(|node| DriveSim::current().drive(node.id()).unwrap());
    sleep(Duration::from_millis(1)).await;
    let mut lost = [0; 3];
    for value in 0..VALUES {
        for place in 0..3 {
            client
                .spawn(async move { send(&Endpoint::bind("0.0.0.0:0").await.unwrap(), place, value).await })
                .await
                .unwrap();
        }
        let place = (value % 4) as usize;
        if place < 3 {
            lost[place] += kill_and_check(&nodes[place], &drives[place], value + 1);
        }
    }
    let commit_us = drives.each_ref().map(|drive| {
        let rows = drive.with_drive(|drive| drive.summary());
        rows.iter().map(|row| row.mean.as_us()).sum::<f64>()
    });
    Outcome { lost, digests: drives.each_ref().map(HostDrive::digest), commit_us }
}

fn simulate(seed: u64, flushes: bool) -> Outcome {
    let runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
    runtime.add_simulator::<DriveSim>();
    runtime.block_on(cluster(flushes))
}

#[test]
fn madsim_nodes_that_flush_lose_nothing_and_repeat_equally() {
    let outcome = simulate(1, true);
    println!("{outcome:?}");
    assert_eq!(outcome.lost, [0; 3]);
    assert_eq!(outcome, simulate(1, true));
    assert_ne!(outcome.digests, simulate(2, true).digests);
    assert!(outcome.commit_us[0] > 10.0 * outcome.commit_us[1], "the flush of flash is seen: {outcome:?}");
}

#[test]
fn madsim_nodes_without_flush_lose_values_on_volatile_buffers() {
    let outcome = simulate(1, false);
    assert!(outcome.lost[0] > 0, "{outcome:?}");
    assert_eq!(outcome.lost[1..], [0, 0], "{outcome:?}");
}

#[test]
fn madsim_task_continues_when_its_operation_has_completed() {
    let runtime = Runtime::with_seed_and_config(1, madsim::Config::default());
    runtime.add_simulator::<DriveSim>();
    runtime.block_on(async {
        let node = Handle::current().create_node().build();
        let drive = DriveSim::current().give(node.id(), &Description::shipped("optane-p5800x").unwrap()).unwrap();
        let start = madsim::time::Instant::now();
        let done = drive.carry_out(phaselink_embed::Operation::read(0, 4096)).await.unwrap();
        let (waited, latency) = (start.elapsed().as_nanos() as f64, done.latency.as_ns());
        assert!((latency..latency + 400.0).contains(&waited), "{waited} ns for {latency} ns");
    });
}
