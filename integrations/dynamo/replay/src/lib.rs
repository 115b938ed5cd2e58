//! Replays of a trace of inference requests by NVIDIA Dynamo's simulator, with a storage tier (G3) that divides bytes by a
//! bandwidth or that is made of modelled drives.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use dynamo_mocker::config::MockerConfig;
use dynamo_mocker::replay::{TraceSimulationReport, simulate_trace_file};
use phaselink_dynamo::{DriveArray, DriveUse, TransferJob, TransferKind, remove_installed, take_last_use};

/// Number of tokens of a block of Mooncake's traces.
const TRACE_BLOCK_TOKENS: usize = 512;

/// Number of tokens of a block of the simulated engine.
const ENGINE_BLOCK_TOKENS: usize = 512;

/// Engine with its tiers, in bytes: accelerator memory (G1), host memory (G2) and storage (G3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineTiers {
    /// Bytes of the key-value cache for each token.
    pub bytes_per_token: usize,
    /// Bytes of accelerator memory for the cache, of each worker.
    pub accelerator_bytes: u64,
    /// Bytes of host memory for the cache, of each worker.
    pub host_bytes: u64,
    /// Bytes of storage for the cache, of all workers together.
    pub storage_bytes: u64,
    /// Factor by which the accelerator is faster than the one that the simulator assumes (about 11,000 tokens of a prompt a
    /// second for one request).
    pub speedup: f64,
    /// Number of workers, which share the storage.
    pub workers: usize,
}

impl EngineTiers {
    /// Returns an engine that runs a model with 8 billion parameters (128 KiB of cache for each token) on workers with 40 GB
    /// of accelerator memory, 16 GB of host memory, and storage of 300 GB for the cache.
    pub fn small_model() -> EngineTiers {
        EngineTiers {
            bytes_per_token: 128 << 10,
            accelerator_bytes: 40_000_000_000,
            host_bytes: 16_000_000_000,
            storage_bytes: 300_000_000_000,
            speedup: 4.0,
            workers: 1,
        }
    }

    fn blocks(&self, bytes: u64) -> u64 {
        (bytes / (self.bytes_per_token * ENGINE_BLOCK_TOKENS) as u64).max(1)
    }

    fn configuration(&self, rates: Option<TierRates>) -> Result<MockerConfig> {
        let rates = rates.unwrap_or(TierRates { read_gb_per_s: 0.0, write_gb_per_s: 0.0 });
        MockerConfig::from_value(serde_json::json!({
            "engine": {
                "speedup_ratio": self.speedup,
                "block_size": ENGINE_BLOCK_TOKENS,
                "num_gpu_blocks": self.blocks(self.accelerator_bytes),
                "kv_cache_bytes_per_token": self.bytes_per_token,
                "native_host_offload": { "num_host_blocks": self.blocks(self.host_bytes) },
                "g3_offload": {
                    "scope": "cluster_shared",
                    "num_g3_blocks": self.blocks(self.storage_bytes),
                    "latency_to_first_byte_ms": 0.1,
                    "read_bandwidth_gbps": 0.0,
                    "write_bandwidth_gbps": 0.0,
                    "shared_read_bandwidth_gbps": rates.read_gb_per_s,
                    "shared_write_bandwidth_gbps": rates.write_gb_per_s,
                },
            }
        }))
    }
}

/// Rates of a tier that divides bytes by them, in GB/s. Reads and writes do not share them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierRates {
    /// Bytes read in a nanosecond.
    pub read_gb_per_s: f64,
    /// Bytes written in a nanosecond.
    pub write_gb_per_s: f64,
}

/// Returns the rates of drives that do nothing but read, or write, 4 GiB each: what their data sheets would say.
///
/// # Errors
///
/// If the drives cannot be embedded.
pub fn rates_alone(array: &DriveArray) -> Result<TierRates> {
    let rate = |kind: TransferKind| -> Result<f64> {
        let mut transfers = array.open()?;
        let bytes = u64::from(transfers.drive_use().drives) << 32;
        transfers.submit(TransferJob { id: 1, worker: 0, kind, ready_ms: 0.0, bytes });
        let mut done = Vec::new();
        while let Some(next_ms) = transfers.next_event_ms() {
            done.extend(transfers.advance(next_ms));
        }
        let at_ms = done.first().context("the job has not completed")?.at_ms;
        Ok(bytes as f64 / 1e6 / at_ms)
    };
    Ok(TierRates { read_gb_per_s: rate(TransferKind::Read)?, write_gb_per_s: rate(TransferKind::Write)? })
}

/// Held by the replay that runs: the simulator makes its tiers itself, from the drives that are installed for the process.
static REPLAYING: Mutex<()> = Mutex::new(());

/// Outcome of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Report of the simulator.
    pub report: TraceSimulationReport,
    /// Work of the drives, if the tier was made of drives.
    pub drives: Option<DriveUse>,
}

impl Replayed {
    /// Returns a figure of the simulator's report by its name.
    ///
    /// # Errors
    ///
    /// If the report has no such figure.
    pub fn figure(&self, name: &str) -> Result<f64> {
        let report = serde_json::to_value(&self.report)?;
        report[name].as_f64().with_context(|| format!("the simulator's report has no figure {name}"))
    }
}

/// Replays a trace in Mooncake's format with a storage tier that divides bytes by rates.
///
/// # Errors
///
/// If the simulator refuses the trace or the engine.
pub fn replay_with_rates(trace: &Path, tiers: &EngineTiers, rates: TierRates, speed: f64) -> Result<Replayed> {
    let _replaying = REPLAYING.lock().unwrap_or_else(PoisonError::into_inner);
    let report =
        simulate_trace_file(tiers.configuration(Some(rates))?, trace, TRACE_BLOCK_TOKENS, tiers.workers, speed)?;
    Ok(Replayed { report, drives: None })
}

/// Replays a trace in Mooncake's format with a storage tier of modelled drives.
///
/// # Errors
///
/// If the simulator refuses the trace or the engine, or the drives cannot be embedded or are smaller than the tier.
pub fn replay_with_drives(trace: &Path, tiers: &EngineTiers, array: &DriveArray, speed: f64) -> Result<Replayed> {
    let drives = array.open()?.drive_use();
    let each_bytes = tiers.storage_bytes / u64::from(drives.drives);
    ensure!(
        each_bytes <= drives.region_bytes,
        "the tier needs {each_bytes} bytes of each drive, which has {}; take more drives or a smaller tier",
        drives.region_bytes
    );
    let _replaying = REPLAYING.lock().unwrap_or_else(PoisonError::into_inner);
    array.clone().region_bytes(each_bytes).install()?;
    let report = simulate_trace_file(tiers.configuration(None)?, trace, TRACE_BLOCK_TOKENS, tiers.workers, speed);
    remove_installed();
    Ok(Replayed { report: report?, drives: take_last_use() })
}
