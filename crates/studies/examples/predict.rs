//! Latency and throughput of a drive by closed forms, without a simulation:
//! `cargo run --release -p phaselink-studies --example predict`.

use std::error::Error;

use phaselink_core::drive::Drive;
use phaselink_core::workload::fio;
use phaselink_studies::predict::predict;

fn main() -> Result<(), Box<dyn Error>> {
    let job = fio::job_from_flags(&[("rw", "randread"), ("bs", "4k"), ("number_ios", "1")])?;
    for name in ["nvme", "nvme-polled", "dc-express"] {
        let drive = Drive::shipped(name).ok_or("no drive of this name comes with the library")?;
        let jobs = job.resolve(&drive.limits(), &Default::default())?;
        let prediction = predict(&drive, &jobs);
        let job = &prediction.jobs[0];
        let alone_ns = job.alone_ns().ok_or("its requests have no closed form")?;
        println!("{name}: {alone_ns:.0} ns alone, at most {:.0} a second", job.bottleneck().saturation_iops());
        assert!(alone_ns > 1000.0);
    }
    Ok(())
}
