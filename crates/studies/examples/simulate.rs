//! A drive of one's own, simulated: `cargo run --release -p phaselink-studies --example simulate`.

use std::error::Error;

use phaselink_core::drive::Drive;
use phaselink_core::simulation::simulate;
use phaselink_core::workload::fio;
use phaselink_studies::report;

/// A shipped drive with another link; `phaselink check nvme` lists the keys.
const DRIVE: &str = "\
preset = \"nvme\"
name = \"mine\"

[link]
lanes = 8
";

fn main() -> Result<(), Box<dyn Error>> {
    let drive = Drive::from_toml("mine.toml", DRIVE, &[])?;
    let job = fio::job_from_flags(&[("rw", "randread"), ("bs", "4k"), ("iodepth", "8"), ("number_ios", "2000")])?;
    let jobs = job.resolve(&drive.limits(), &Default::default())?;
    let outcome = simulate(&drive, &jobs, 1)?;
    println!("{}", report::summary(&outcome));
    let read = &outcome.jobs[0].read;
    println!("{:.0} reads a second, half of them within {} ns", outcome.iops(), read.total.percentile(50.0).as_ns());
    assert_eq!(read.ios, 2000);
    Ok(())
}
