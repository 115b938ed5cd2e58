//! Operations a second of an embedded drive beside those of a run, for random reads of 4 KiB at depth 32 without bytes:
//! `cargo bench -p phaselink-embed-c --bench rate`. Rust has to reach 0.9 of the run's rate, and C 0.85.

use std::process::ExitCode;
use std::ptr;
use std::time::Instant;

use phaselink_core::drive::Drive as CoreDrive;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;
use phaselink_drive::{
    CompletionRecord, OperationRecord, phaselink_drive_advance_to_completion, phaselink_drive_close,
    phaselink_drive_next_completion, phaselink_drive_now, phaselink_drive_open, phaselink_drive_submit,
};
use phaselink_embed::{Description, Operation, Time};

const DRIVE: &str = "nvme";
const DEPTH: u64 = 32;
const LAST: u64 = 1 << 62;
const ROUNDS: usize = 5;

/// Least share of the run's rate that each interface has to reach.
const SHARES: [(&str, f64); 2] = [("Rust", 0.9), ("C", 0.85)];

/// First byte of read number `place`.
fn offset(place: u64) -> u64 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) * 4096
}

fn simulated(count: u64) {
    let drive = CoreDrive::shipped(DRIVE).expect("a shipped drive");
    let (count, depth) = (count.to_string(), DEPTH.to_string());
    let options = [("rw", "randread"), ("bs", "4k"), ("iodepth", depth.as_str()), ("number_ios", count.as_str())];
    let jobs = fio::from_flags(&options).expect("a job").resolve(&drive.limits(), &Default::default());
    let mut simulation = Simulation::new(&drive, &jobs.expect("a job"), 1).expect("a run");
    while simulation.step(1 << 20) {}
}

fn in_rust(count: u64) {
    let mut drive = Description::shipped(DRIVE).expect("a drive").without_data().open().expect("a drive");
    let mut submitted = 0;
    while submitted < count || drive.in_flight() > 0 {
        while submitted < count && (drive.in_flight() as u64) < DEPTH {
            drive.submit(drive.now(), 0, Operation::read(offset(submitted), 4096)).expect("a read");
            submitted += 1;
        }
        drive.advance_to_completion(Time::from_ps(LAST)).expect("time goes on");
        while let Some(done) = drive.next_completion() {
            std::hint::black_box(done.at());
        }
    }
}

fn in_c(count: u64) {
    let mut drive = ptr::null_mut();
    let name = c"nvme";
    let (mut submitted, mut in_flight) = (0, 0);
    // SAFETY: every pointer is valid for its call, and the drive is open until it is closed.
    unsafe {
        assert_eq!(phaselink_drive_open(name.as_ptr(), ptr::null(), 1, 1, &mut drive), 0);
        while submitted < count || in_flight > 0 {
            while submitted < count && in_flight < DEPTH {
                let (operation, mut ticket) = (OperationRecord::read(offset(submitted), 4096), 0);
                let now = phaselink_drive_now(drive);
                assert_eq!(phaselink_drive_submit(drive, now, 0, &operation, &mut ticket), 0);
                (submitted, in_flight) = (submitted + 1, in_flight + 1);
            }
            assert_eq!(phaselink_drive_advance_to_completion(drive, LAST), 1);
            let mut done = CompletionRecord::default();
            while phaselink_drive_next_completion(drive, &mut done) == 1 {
                in_flight -= 1;
            }
        }
        phaselink_drive_close(drive);
    }
}

/// Operations a second: the median of some rounds, net of what a short one takes.
fn rate(work: fn(u64), count: u64) -> f64 {
    let seconds = |count| {
        let start = Instant::now();
        work(count);
        start.elapsed().as_secs_f64()
    };
    let mut rates: Vec<f64> =
        (0..ROUNDS).map(|_| (count - count / 10) as f64 / (seconds(count) - seconds(count / 10))).collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

fn main() -> ExitCode {
    let count = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let run = rate(simulated, count);
    println!("run: {:.0} k requests/s", run / 1e3);
    let mut is_met = true;
    for ((name, least), work) in SHARES.into_iter().zip([in_rust as fn(u64), in_c]) {
        let share = rate(work, count) / run;
        println!("{name}: {:.0} k operations/s, {share:.2} of the run's (at least {least})", share * run / 1e3);
        is_met &= share >= least;
    }
    ExitCode::from(u8::from(!is_met))
}
