use phaselink_core::{config::Drive, report::ladder, simulation::Simulation, workload::Job};
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let drive = Drive::shipped(&name).unwrap();
    let job = Job { ios: Some(100), ..Job::named("x") };
    let mut s = Simulation::new(&drive, &[job], 1).unwrap();
    s.record(100_000);
    while s.step(1000) {}
    println!("{}", ladder(&s.trace().of_request(90), &name));
}
