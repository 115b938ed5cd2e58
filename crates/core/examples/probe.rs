use phaselink_core::{
    config::{Drive, Override, shipped},
    engine::Engine,
    workload::*,
};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = shipped::find(&a[1]).unwrap();
    let bytes: u32 = a[2].parse().unwrap();
    let qd: u32 = a[3].parse().unwrap();
    let n: u64 = a[4].parse().unwrap();
    let rw = a[5].as_str();
    let sets: Vec<Override> = a[6..].iter().map(|x| Override::parse(x).unwrap()).collect();
    let drive = Drive::from_toml(s.file, s.text, &sets).unwrap_or_else(|e| panic!("{e}"));
    let blocks = vec![BlockShare { bytes, percent: 100.0 }];
    let mut job = Job::named("x");
    job.iodepth = qd;
    job.read_blocks = blocks.clone();
    job.write_blocks = blocks;
    job.ios = Some(n);
    job.read_percent = match rw {
        "w" => 0.0,
        "m" => 50.0,
        _ => 100.0,
    };
    if rw == "p" {
        job.rate_iops_read = Some(50_000.0);
        job.rate_process = RateProcess::Poisson;
    }
    let t0 = std::time::Instant::now();
    let mut e = Engine::new(&drive, 1);
    e.add_job(&job, drive.media.capacity_mib << 20, 1);
    while e.run(1 << 16) {}
    let wall = t0.elapsed().as_secs_f64();
    let o = e.outcome(&drive, 1);
    for d in [&o.jobs[0].read, &o.jobs[0].write] {
        if d.ios == 0 {
            continue;
        }
        println!(
            "ios {} iops {:.0} events/io {:.1}  wall {:.3}s -> {:.0} k req/s",
            d.ios,
            d.ios as f64 / d.runtime.as_s(),
            o.events as f64 / o.ios() as f64,
            wall,
            o.ios() as f64 / wall / 1e3
        );
        let mut sum = 0.0;
        for (name, t) in d.stages.named(&o.stack_stages) {
            let x = t.as_ns() / d.ios as f64;
            sum += x;
            println!("  {name:20} {x:10.1}");
        }
        println!("  total {sum:.1}");
    }
    println!("{:?}", o.counters);
    println!("up {:?}", o.upstream);
    println!("cpu {:?} {:?}", o.cpu, o.energy);
}
