//! Operations a second of an embedded drive beside those of a run, for random reads of 4 KiB at depth 32 without bytes:
//! `cargo bench -p phaselink-embed-c --bench rate`. Rust has to reach 0.9 of the run's rate, and C 0.85.

use std::process::ExitCode;
use std::ptr;

use phaselink_core::drive::Drive as CoreDrive;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;
use phaselink_drive::{
    CompletionRecord, OperationRecord, phaselink_drive_advance_to_completion, phaselink_drive_close,
    phaselink_drive_next_completion, phaselink_drive_now, phaselink_drive_open, phaselink_drive_submit,
};
use phaselink_embed::{Description, Operation, Time};
use rustix::time::{ClockId, clock_gettime};

const DRIVE: &str = "nvme";
const DEPTH: u64 = 32;
const LAST: u64 = 1 << 62;
const ROUNDS: usize = 15;

/// Least share of the run's rate that each interface has to reach.
const SHARES: [(&str, f64); 2] = [("Rust", 0.9), ("C", 0.85)];

/// First byte of read number `place`.
fn offset(place: u64) -> u64 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) * 4096
}

fn simulated(count: u64) {
    let drive = CoreDrive::shipped(DRIVE).expect("a shipped drive");
    let (count, depth) = (count.to_string(), DEPTH.to_string());
    // Without a limit of its own, a job would end after reading as many bytes as the drive has.
    let options = [
        ("rw", "randread"),
        ("bs", "4k"),
        ("iodepth", depth.as_str()),
        ("number_ios", count.as_str()),
        ("io_size", "1024p"),
    ];
    let jobs = fio::job_from_flags(&options).expect("a job").resolve(&drive.limits(), &Default::default());
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
    // SAFETY: every pointer is valid for its call, and the drive is used only between opening and closing.
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

/// Returns the processor time of so many operations in seconds.
fn seconds(work: fn(u64), count: u64) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let start = now();
    work(count);
    now() - start
}

/// Returns the operations a second of each way, net of what a short run takes. The ways take turns, and each has its shortest times:
/// other programs on the machine make some rounds slow, and none fast.
fn rates(ways: [fn(u64); 3], count: u64) -> [f64; 3] {
    let short = count / 10;
    let mut least = [[f64::INFINITY; 2]; 3];
    for _ in 0..ROUNDS {
        for (work, least) in ways.iter().zip(&mut least) {
            *least = [least[0].min(seconds(*work, count)), least[1].min(seconds(*work, short))];
        }
    }
    least.map(|[long, brief]| (count - short) as f64 / (long - brief))
}

fn main() -> ExitCode {
    let count = if cfg!(debug_assertions) { 50_000 } else { 200_000 };
    let [run, embedded @ ..] = rates([simulated, in_rust, in_c], count);
    println!("run: {:.0} k requests a second of processor time", run / 1e3);
    let mut is_met = true;
    for ((name, least), rate) in SHARES.into_iter().zip(embedded) {
        let share = rate / run;
        println!("{name}: {:.0} k operations a second, {share:.2} of the run's (at least {least})", rate / 1e3);
        is_met &= share >= least;
    }
    ExitCode::from(u8::from(!is_met))
}
