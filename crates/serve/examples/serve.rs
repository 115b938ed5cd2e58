//! A drive served by a program of one's own, at the modelled speed, and loaded by the same program:
//! `cargo run --release -p phaselink-serve --example serve`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use phaselink_core::drive::Drive;
use phaselink_core::workload::fio;
use phaselink_serve::bench;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::{Device, StopRequest, geometry};
use phaselink_serve::front;
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::{ExportSocket, Nbd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

fn main() -> Result<(), Box<dyn Error>> {
    let drive = Drive::shipped("nvme-polled").ok_or("no drive of this name comes with the library")?;
    let geometry = geometry(&drive);
    let job = fio::job_from_flags(&[("rw", "randrw"), ("bs", "4k"), ("iodepth", "4"), ("number_ios", "200")])?;
    let jobs = job.resolve(&drive.limits(), &Default::default())?;

    // With port 0 the system chooses a port, which the listener reports.
    let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/")?)?;
    let address = listener.uri().to_string();
    let export = Export { name: String::new(), geometry, structured_replies: true };
    let server = Server {
        device: Device {
            drive: Arc::new(drive),
            store: Arc::new(Store::in_memory(geometry)?),
            tallies: Arc::default(),
            record: None,
            history: None,
            faults: Arc::default(),
            stop: Arc::new(StopRequest::new()?),
        },
        timing: true,
        wait: Wait::Block,
        seed: 1,
        fronts: vec![Box::new(Nbd(vec![ExportSocket { listener, export }]))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    let (summary, measured) = thread::scope(|scope| {
        let running = scope.spawn(|| server.run());
        let _stop = server.device.stop.stop_when_dropped();
        let measured = bench::run(&*front::parse_bench_target(&address)?, &jobs, 1, &AtomicBool::new(false))?;
        server.device.stop.request();
        Ok::<_, Box<dyn Error>>((running.join().map_err(|_| "the server has failed")??, measured))
    })?;
    for (source, outcome) in [("client has measured", &measured), ("model says", &summary.outcome)] {
        let [reads, writes] =
            [&outcome.jobs[0].read, &outcome.jobs[0].write].map(|requests| requests.total.mean().as_us());
        println!("the {source}: {reads:.1} us a read, {writes:.1} us a write");
    }
    assert_eq!(summary.outcome.ios(), 200);
    Ok(())
}
