//! Three processes of moonpool, each with a drive of its own, that keep a log; they crash meanwhile, and their drives lose power.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::io::{AsyncReadExt, AsyncWriteExt};
use moonpool_core::{OpenOptions, StorageFile, StorageProvider};
use moonpool_sim::{
    FaultContext, FaultInjector, Process, RebootKind, SimContext, SimTimeProvider, SimulationBuilder, SimulationResult,
    TimeProvider, Workload,
};
use phaselink_embed::Description;
use phaselink_moonpool::DriveStorage;

/// Drives of the processes, in the order of their first boots: flash with a volatile buffer, flash whose buffer outlives power, and
/// phase-change memory.
const DRIVES: [&str; 3] = ["tlc-gen4", "tlc-gen5", "optane-p5800x"];
const RECORD_BYTES: usize = 600;

/// State of a process that outlives its boots.
struct Node {
    drive: &'static str,
    storage: DriveStorage<SimTimeProvider>,
    /// Records that the process has said to be durable.
    acknowledged: u64,
    boots: u64,
    lost: u64,
}

/// All processes, by address.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<BTreeMap<String, Node>>>);

struct LogProcess {
    cluster: Cluster,
    syncs: bool,
}

fn record(number: u64) -> Vec<u8> {
    (number + 1).to_le_bytes().repeat(RECORD_BYTES / 8)
}

impl Cluster {
    /// Storage of a process that boots: that of a new drive, or of its own after a power cut.
    fn boot(&self, context: &SimContext) -> DriveStorage<SimTimeProvider> {
        let mut nodes = self.0.lock().unwrap();
        let (count, time) = (nodes.len(), context.time().clone());
        if let Some(node) = nodes.get_mut(context.my_ip()) {
            node.boots += 1;
            node.storage = node.storage.boot(time, node.boots).unwrap();
            return node.storage.clone();
        }
        let drive = DRIVES[count % DRIVES.len()];
        let storage = DriveStorage::open(&Description::shipped(drive).unwrap(), time).unwrap();
        let node = Node { drive, storage: storage.clone(), acknowledged: 0, boots: 0, lost: 0 };
        nodes.insert(context.my_ip().into(), node);
        storage
    }

    fn with<R>(&self, context: &SimContext, act: impl FnOnce(&mut Node) -> R) -> R {
        act(self.0.lock().unwrap().get_mut(context.my_ip()).expect("it has booted"))
    }
}

#[async_trait]
impl Process for LogProcess {
    fn name(&self) -> &str {
        "log"
    }

    async fn run(&mut self, context: &SimContext) -> SimulationResult<()> {
        let storage = self.cluster.boot(context);
        let options = OpenOptions::new().read(true).write(true).create(true);
        let mut file = storage.open("log", options).await?;
        let mut found = Vec::new();
        file.read_to_end(&mut found).await?;
        let whole =
            found.chunks(RECORD_BYTES).zip(0..).take_while(|(bytes, number)| **bytes == record(*number)).count() as u64;
        self.cluster.with(context, |node| {
            node.lost += node.acknowledged.saturating_sub(whole);
            node.acknowledged = whole;
        });
        file.set_len(whole * RECORD_BYTES as u64).await?;
        let mut file = storage.open("log", OpenOptions::new().append(true)).await?;
        for number in whole.. {
            if context.shutdown().is_cancelled() {
                break;
            }
            file.write_all(&record(number)).await?;
            if self.syncs {
                file.sync_data().await?;
            }
            self.cluster.with(context, |node| node.acknowledged = number + 1);
            context.time().sleep(Duration::from_millis(5)).await.ok();
        }
        Ok(())
    }
}

/// Crashes one process after the other.
struct Crashes;

#[async_trait]
impl FaultInjector for Crashes {
    fn name(&self) -> &str {
        "crashes"
    }

    async fn inject(&mut self, context: &FaultContext) -> SimulationResult<()> {
        let mut number = 0;
        while !context.chaos_shutdown().is_cancelled() {
            context.time().sleep(Duration::from_micros(150_137 + number as u64 * 1009)).await.ok();
            let ips = context.process_ips();
            let ip = ips[number % ips.len()].clone();
            context.reboot(&ip, RebootKind::Crash)?;
            number += 1;
        }
        Ok(())
    }
}

struct Wait;

#[async_trait]
impl Workload for Wait {
    fn name(&self) -> &str {
        "wait"
    }

    async fn run(&mut self, context: &SimContext) -> SimulationResult<()> {
        context.time().sleep(Duration::from_secs(60)).await.ok();
        Ok(())
    }
}

/// Result of a simulation, by process: drive, boots after the first, records, lost records, and digest of the drive.
type Outcome = Vec<(&'static str, u64, u64, u64, u64)>;

fn simulate(seed: u64, syncs: bool) -> Outcome {
    let cluster = Cluster::default();
    let process = cluster.clone();
    let report = SimulationBuilder::new()
        .processes(3, move || Box::new(LogProcess { cluster: process.clone(), syncs }))
        .workload(Wait)
        .fault(Crashes)
        .chaos_duration(Duration::from_secs(50))
        .set_iterations(1)
        .set_debug_seeds(vec![seed])
        .run();
    assert_eq!(report.failed_runs, 0, "{report:?}");
    let nodes = cluster.0.lock().unwrap();
    let row = |node: &Node| (node.drive, node.boots, node.acknowledged, node.lost, node.storage.drive().digest());
    nodes.values().map(row).collect()
}

#[test]
fn moonpool_processes_that_sync_lose_nothing_and_repeat_equally() {
    let outcome = simulate(1, true);
    println!("{outcome:?}");
    assert!(
        outcome.iter().all(|(_, boots, records, lost, _)| *boots >= 3 && *records > 100 && *lost == 0),
        "{outcome:?}"
    );
    assert_eq!(outcome, simulate(1, true));
    let digests = |outcome: &Outcome| outcome.iter().map(|row| row.4).collect::<Vec<_>>();
    assert_ne!(digests(&outcome), digests(&simulate(2, true)));
}

#[test]
fn moonpool_process_without_sync_loses_acknowledged_data() {
    let outcome = simulate(1, false);
    println!("{outcome:?}");
    let lost = |drive: &str| outcome.iter().filter(|row| row.0 == drive).map(|row| row.3).sum::<u64>();
    assert!(lost("tlc-gen4") > 0, "{outcome:?}");
}
