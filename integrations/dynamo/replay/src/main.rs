//! `replay TRACE DRIVE [KEY=VALUE]...`: the time to the first token of a trace with a storage tier that divides bytes by a
//! bandwidth, and with modelled drives.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use phaselink_dynamo::DriveArray;
use phaselink_dynamo_replay::{EngineTiers, TierRates, rates_alone, replay_with_drives, replay_with_rates};

const USAGE: &str = "replay TRACE DRIVE [KEY=VALUE]...

TRACE is a trace of inference requests in Mooncake's format, as `phaselink kvcache --save-trace` writes. DRIVE is a shipped
drive or a drive file. Keys:
  workers=1         workers that share the storage
  speedup=4         accelerators against those that the simulator assumes
  host_gb=16        host memory for the cache, of each worker
  storage_gb=300    part of the drives for the cache
  command_kib=512   size of a command
  depth=32          reads, and writes, outstanding at each drive
  detail=rates      rates: measured once by simulation for each depth; commands: every command simulated
and the keys of a drive file, such as drives=4 or fabric.preset=nvme-tcp-kernel.";

/// Factors by which the requests of the trace arrive faster.
const SPEEDS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Depth at which data sheets state a bandwidth.
const DATA_SHEET_DEPTH: u32 = 32;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [trace, drive, settings @ ..] = arguments.as_slice() else { bail!("{USAGE}") };
    let comparison = Comparison::parse(trace, drive, settings)?;
    let rates = rates_alone(&comparison.array.clone().depth(DATA_SHEET_DEPTH).by_commands())?;
    println!("{drive} alone: reads {:.2} GB/s, writes {:.2} GB/s", rates.read_gb_per_s, rates.write_gb_per_s);
    println!("                 bytes / bandwidth         drives");
    println!(
        "                  TTFT in ms            TTFT in ms         p99                           drive    simulated s"
    );
    println!(
        "speed  req/s     p50      p99         p50      p99       ratio  read GB/s write GB/s  writes/day   per second"
    );
    SPEEDS.into_iter().try_for_each(|speed| comparison.print_row(rates, speed))
}

/// Trace, engine and drives that are compared.
struct Comparison {
    trace: PathBuf,
    tiers: EngineTiers,
    array: DriveArray,
}

impl Comparison {
    fn parse(trace: &str, drive: &str, settings: &[String]) -> Result<Comparison> {
        let trace = PathBuf::from(trace);
        ensure!(Path::new(&trace).exists(), "there is no trace {}\n\n{USAGE}", trace.display());
        let mut array = DriveArray::new(drive)?.command_bytes(512 << 10).by_measured_rates();
        let mut tiers = EngineTiers::small_model();
        for setting in settings {
            let (key, value) =
                setting.split_once('=').with_context(|| format!("{setting} is not KEY=VALUE\n\n{USAGE}"))?;
            match key {
                "workers" => tiers.workers = number(setting, value)?,
                "speedup" => tiers.speedup = number(setting, value)?,
                "host_gb" => tiers.host_bytes = number::<u64>(setting, value)? * 1_000_000_000,
                "storage_gb" => tiers.storage_bytes = number::<u64>(setting, value)? * 1_000_000_000,
                "command_kib" => array = array.command_bytes(number::<u32>(setting, value)?.clamp(1, 1 << 20) << 10),
                "depth" => array = array.depth(number(setting, value)?),
                "detail" if value == "rates" => array = array.by_measured_rates(),
                "detail" if value == "commands" => array = array.by_commands(),
                "detail" => bail!("detail is {value}; allowed: rates, commands"),
                _ => array = array.with(setting)?,
            }
        }
        Ok(Comparison { trace, tiers, array })
    }

    fn print_row(&self, rates: TierRates, speed: f64) -> Result<()> {
        let plain = replay_with_rates(&self.trace, &self.tiers, rates, speed)?;
        let start = Instant::now();
        let drives = replay_with_drives(&self.trace, &self.tiers, &self.array, speed)?;
        let wall_s = start.elapsed().as_secs_f64();
        let seconds = drives.figure("duration_ms")? / 1e3;
        let storage = drives.report.g3_offload.as_ref().context("the report has no storage tier")?;
        let gb_per_s = |bytes: u64| bytes as f64 / 1e9 / seconds;
        let ratio = drives.figure("p99_ttft_ms")? / plain.figure("p99_ttft_ms")?;
        println!(
            "{speed:5.2} {:6.2} {:8.1} {:8.1}    {:8.1} {:8.1}    {ratio:8.2} {:10.3} {:10.3} {:11.2} {:12.0}",
            drives.figure("request_throughput_rps")?,
            plain.figure("median_ttft_ms")?,
            plain.figure("p99_ttft_ms")?,
            drives.figure("median_ttft_ms")?,
            drives.figure("p99_ttft_ms")?,
            gb_per_s(storage.read.completed_bytes as u64),
            gb_per_s(storage.write.completed_bytes as u64),
            drives.drives.context("the storage tier had no drives")?.drive_writes_per_day(),
            seconds / wall_s,
        );
        Ok(())
    }
}

fn number<N: FromStr>(setting: &str, value: &str) -> Result<N> {
    value.parse().ok().with_context(|| format!("{setting} has no number\n\n{USAGE}"))
}
