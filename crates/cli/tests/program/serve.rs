//! A server from its start to its end, as the shell sees it.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::nbd::ask;
use crate::common::programs::are_here;
use crate::common::{Ran, directory, program};
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use serde_json::Value;

/// A running server, and the rest of what it says.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(here: &Path, arguments: &[&str]) -> Running {
        let mut command = program();
        command.current_dir(here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=16"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Running { child, errors }
    }

    /// The rest of the next line that begins with `word`.
    fn told(&mut self, word: &str) -> String {
        let lines = self.errors.by_ref().lines().map(Result::unwrap);
        lines.filter_map(|line| line.strip_prefix(word).map(String::from)).next().expect("the server says so")
    }

    fn send_sigterm(self) -> Ran {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.child.wait_with_output().unwrap().into()
    }
}

fn read_block_once(client: &mut Client, offset: u64) -> u32 {
    client.ask(&Request { flags: 0, command: command::READ, cookie: 1, offset, length: 4096 }, b"");
    client.send().unwrap();
    loop {
        client.sleep(None).unwrap();
        client.receive().unwrap();
        if let Some(answer) = client.answer(|_| 4096).unwrap() {
            return answer.error;
        }
    }
}

#[test]
fn sigterm_ends_a_busy_server_with_a_summary() {
    for timing in ["on", "off"] {
        let here = directory("sigterm");
        let arguments = ["--nbd", "nbd://127.0.0.1:0/", "--timing", timing, "--json", "--lag-tolerance-us", "1e9"];
        let mut server = Running::start(&here, &arguments);
        let mut client = Client::connect(&Uri::parse(&server.told("serving ")).unwrap()).unwrap();
        assert_eq!((client.capacity_bytes, read_block_once(&mut client, 0)), (16 << 20, 0));
        assert_eq!(read_block_once(&mut client, 16 << 20), 22, "beyond the end is invalid");
        let ran = server.send_sigterm();
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &document["jobs"][0]["read"]["total_ios"]), (Some(0), &1.into()));
        let own = &document["phaselink"];
        assert_eq!((&own["finished"], &own["verb"]), (&true.into(), &"serve".into()));
        assert_eq!((&own["errors"], own["lag"]["count"].as_u64()), (&1.into(), (timing == "on").then_some(1)));
    }
}

#[test]
fn prometheus_endpoint_serves_counts_and_latencies() {
    let here = directory("metrics");
    let arguments = ["--nbd", "nbd+unix:///?socket=a.sock", "--timing", "off", "--metrics", "127.0.0.1:0"];
    let mut server = Running::start(&here, &arguments);
    let address = server.told("metrics http://");
    let socket = here.join("a.sock");
    let mut client =
        Client::connect(&Uri::parse(&format!("nbd+unix:///?socket={}", socket.display())).unwrap()).unwrap();
    (0..3).for_each(|block| assert_eq!(read_block_once(&mut client, block * 4096), 0));
    client.disconnect().unwrap();
    // The server counts the disconnection too, so once that is visible, the last batch has been counted.
    let mut answer = String::new();
    while !answer.contains("phaselink_requests_total{op=\"read\"} 3\n") {
        let mut stream = TcpStream::connect(address.trim_end_matches("/metrics")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        answer.clear();
        stream.read_to_string(&mut answer).unwrap();
    }
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("phaselink_bytes_total{op=\"read\"} 12288\n"), "{answer}");
    assert_eq!(server.send_sigterm().code, Some(0));
    assert!(!socket.exists(), "the name of the socket goes with the server");
}

/// Processor time that a process has taken, from fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
#[cfg(target_os = "linux")]
fn process_cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A server, and a client of it that has been served.
#[cfg(target_os = "linux")]
struct Idle {
    name: String,
    server: Running,
    shm: Option<(phaselink_client::Queue, phaselink_client::Client)>,
    nbd: Option<Client>,
    _vfio: Option<std::os::unix::net::UnixStream>,
}

#[cfg(target_os = "linux")]
impl Idle {
    fn start(address: &str, timing: &str) -> Idle {
        let name = format!("idle-{address}-{timing}");
        let here = directory(&name);
        let place = if address == "nbd" { "nbd+unix:///?socket=a.sock" } else { "a.sock" };
        let mut server = Running::start(&here, &[&format!("--{address}"), place, "--timing", timing]);
        server.told("serving ");
        let socket = here.join("a.sock");
        let shm = (address == "shm").then(|| {
            let mut client = phaselink_client::Client::connect(&socket, &Default::default()).unwrap();
            (client.take_queue().unwrap(), client)
        });
        let nbd = (address == "nbd").then(|| {
            Client::connect(&Uri::parse(&format!("nbd+unix:///?socket={}", socket.display())).unwrap()).unwrap()
        });
        // A vfio-user client that sends only its version message.
        let mut version = vec![1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let vfio = (address == "vfio-user").then(|| std::os::unix::net::UnixStream::connect(&socket).unwrap());
        vfio.iter().for_each(|mut socket| {
            socket.write_all(&version).unwrap();
            socket.read_exact(&mut version).unwrap();
        });
        let mut idle = Idle { name, server, shm, nbd, _vfio: vfio };
        idle.ask();
        idle
    }

    fn ask(&mut self) {
        self.nbd.iter_mut().for_each(|client| assert_eq!(read_block_once(client, 0), 0));
        self.shm.iter_mut().for_each(|(queue, _)| queue.read(0, &mut [0; 512]).unwrap());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn idle_server_uses_little_cpu_and_wakes_for_a_request() {
    let kinds = [("nbd", "off"), ("nbd", "on"), ("shm", "off"), ("shm", "on"), ("vfio-user", "off")];
    let mut idle = kinds.map(|(address, timing)| Idle::start(address, timing));
    thread::sleep(Duration::from_millis(50));
    let ticks = |idle: &[Idle; 5]| idle.each_ref().map(|idle| process_cpu_ticks(idle.server.child.id()));
    let before = ticks(&idle);
    thread::sleep(Duration::from_secs(3));
    let after = ticks(&idle);
    for (place, idle) in idle.iter_mut().enumerate() {
        let ticks = after[place] - before[place];
        assert!(ticks <= 4, "{}: {ticks} hundredths of a second in 3 s", idle.name);
        idle.ask();
    }
    for idle in idle {
        assert!(idle.server.send_sigterm().code.is_some());
    }
}

#[test]
fn silent_clients_delay_neither_metrics_nor_other_clients() {
    // Each of the two runs waits for a time-out of several seconds.
    thread::scope(|scope| {
        for timing in ["on", "off"] {
            scope.spawn(move || check_silent_clients_delay_nobody(timing));
        }
    });
}

fn check_silent_clients_delay_nobody(timing: &str) {
    let here = directory(&format!("silent-{timing}"));
    let arguments = ["--nbd", "nbd://127.0.0.1:0/", "--timing", timing, "--metrics", "127.0.0.1:0"];
    let mut server = Running::start(&here, &arguments);
    let uri = server.told("serving ");
    let address = server.told("metrics http://");
    let address = address.trim_end_matches("/metrics");
    let _silent: Vec<TcpStream> = (0..70).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (started, mut answer) = (Instant::now(), String::new());
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && started.elapsed() < Duration::from_millis(900));

    let place = uri.trim_start_matches("nbd://").trim_end_matches('/');
    let _silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(place).unwrap()).collect();
    let uri = Uri::parse(&uri).unwrap();
    let refused = Client::connect(&uri).unwrap_err().to_string();
    assert!(refused.contains("as many connections as it takes"), "{refused}");
    let until = Instant::now() + Duration::from_secs(20);
    while Client::connect(&uri).is_err() {
        assert!(Instant::now() < until, "those who say nothing stay");
        thread::sleep(Duration::from_millis(100));
    }
    let ran = server.send_sigterm();
    assert!(timing == "off" || ran.stdout.contains("whether the clock keeps up is not known"), "{}", ran.stdout);
}

#[test]
fn bench_runs_over_shared_memory_and_refuses_unsupported_jobs() {
    for timing in ["on", "off"] {
        let here = directory("bench-shm");
        let mut server = Running::start(&here, &["--shm", "a.sock", "--timing", timing, "--lag-tolerance-us", "1e9"]);
        let target = server.told("serving ");
        let bench = |arguments: &str| -> Ran {
            let mut command = program();
            command.current_dir(&here).args(["bench", &target]).args(arguments.split_whitespace());
            command.output().unwrap().into()
        };
        let ran = bench("--rw randrw --bs 4k --iodepth 8 --numjobs 2 --number-ios 300 --json");
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let ios = |op: &str| document["jobs"][0][op]["total_ios"].as_u64().unwrap();
        assert_eq!((ran.code, ran.stderr.as_str(), ios("read") + ios("write")), (Some(0), "", 600));
        assert!(ios("read") > 200 && ios("write") > 200);
        let ran = bench("--bs 256k --number-ios 1");
        let told = "error: shm:a.sock: job: a request of 262144 bytes; at most 131072 fit the ring\n";
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), told));
        let ran = bench("-O group_commit=4 -O fsync=1 --rw write --bs 4k --number-ios 9");
        assert!(ran.stderr.contains("group_commit=4, whose commits are not timed against a server"), "{}", ran.stderr);
        assert_eq!(ran.code, Some(2));
        let ran = bench("--burst --number-ios 9");
        assert!(ran.code == Some(2) && ran.stderr.contains("counts requests from the first one on"), "{}", ran.stderr);
        let ran = bench("jobs.fio --rw write --bs 4k");
        assert!(ran.code == Some(2) && ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
        let ran = bench("--numjobs 33 --number-ios 1");
        assert_eq!(ran.code, Some(2), "there are 32 clients: {}", ran.stdout);
        assert_eq!(server.send_sigterm().code, Some(0));
    }
}

#[test]
fn benchmark_flushes_reach_the_modelled_drive_and_are_counted() {
    let here = directory("bench-flush");
    for front in [["--nbd", "nbd+unix:///?socket=a.sock"], ["--shm", "a.sock"]] {
        let load = format!(
            "{} bench \"$uri\" --rw write --bs 4k -O fsync=2 --number-ios 20 --json=load.json > out",
            env!("CARGO_BIN_EXE_phaselink")
        );
        let mut command = program();
        command.current_dir(&here).args(["serve", "tlc-gen4", "--lag-tolerance-us", "1e9", "--json", "--run", &load]);
        let ran: Ran = command.args(front).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let load: Value = serde_json::from_str(&fs::read_to_string(here.join("load.json")).unwrap()).unwrap();
        let serve: Value = serde_json::from_str(&ran.stdout).unwrap();
        for document in [&load, &serve] {
            let jobs = document["jobs"].as_array().unwrap();
            let counts = |op: &str| jobs.iter().map(|job| job[op]["total_ios"].as_u64().unwrap()).sum::<u64>();
            // The job ends with its twentieth write, as in a simulated run.
            assert_eq!((counts("write"), counts("sync")), (20, 9), "{front:?} {document}");
        }
        let mean = load["jobs"][0]["sync"]["lat_ns"]["mean"].as_f64().unwrap();
        assert!(mean > 300_000.0, "{front:?}: a flush of {mean} ns programs no cells");
        let served = &serve["phaselink"]["served"];
        assert_eq!((&served["flush"]["ios"], &served["write"]["ios"]), (&9.into(), &20.into()));
        assert!(served["flush"]["latency_ns"]["mean"].as_f64().unwrap() > 300_000.0, "{served}");
        let iops = load["jobs"][0]["write"]["iops"].as_f64().unwrap();
        assert!(iops < 2.0 / 300e-6, "{front:?}: {iops}");
        // With one request in flight, each completion but the last is followed by a request: 19 turnarounds. Flushes of
        // the store may add up to nine.
        let turnarounds = serve["phaselink"]["lag"]["turnaround"]["count"].as_u64().unwrap();
        assert!((19..=28).contains(&turnarounds), "{front:?}: {turnarounds}");
    }
}

#[test]
fn modelled_drive_accounts_for_nbd_and_shared_memory_load() {
    for wait in ["spin", "block"] {
        let here = directory("together");
        let fronts = ["--nbd", "nbd://127.0.0.1:0/", "--shm", "a.sock", "--json", "--lag-tolerance-us", "1e9"];
        let mut server = Running::start(&here, &[&fronts[..], &["--wait", wait]].concat());
        let benches = [server.told("serving "), server.told("serving ")].map(|target| {
            let mut command = program();
            command.current_dir(&here).args(["bench", &target]);
            command.args("--rw randrw --bs 4k --iodepth 4 --numjobs 2 --number-ios 100 --json".split_whitespace());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        for bench in benches {
            let ran: Ran = bench.wait_with_output().unwrap().into();
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        }
        let ran = server.send_sigterm();
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let jobs = document["jobs"].as_array().unwrap().iter();
        let ios: u64 = jobs.flat_map(|job| ["read", "write"].map(|op| job[op]["total_ios"].as_u64().unwrap())).sum();
        assert_eq!((ran.code, ios), (Some(0), 400));
        assert_eq!(document["phaselink"]["lag"]["count"], 400);
        let own_ways = document["phaselink"]["lag"]["clients_own_way"].as_array().unwrap();
        let fronts: Vec<&str> = own_ways.iter().map(|way| way["front"].as_str().unwrap()).collect();
        assert!(fronts.contains(&"nbd") && fronts.contains(&"shm") && own_ways.len() == 2, "{own_ways:?}");
        let turnaround = &document["phaselink"]["lag"]["turnaround"];
        assert!(turnaround["count"].is_u64() && turnaround["mean_ns"].is_f64(), "{turnaround:?}");
    }
}

#[test]
fn taken_store_and_public_address_are_refused() {
    let here = directory("refused");
    let first = ["--nbd", "nbd+unix:///?socket=a.sock", "--store", "bytes"];
    let mut server = Running::start(&here, &first);
    server.told("serving ");
    let refused = |arguments: &[&str]| -> Ran { Running::start(&here, arguments).finish() };
    let ran = refused(&["--nbd", "nbd+unix:///?socket=b.sock", "--store", "bytes"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr, "error: bytes: another server has this store; allowed: one server a store\n");
    let ran = refused(&["--nbd", "nbd://0.0.0.0/"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("can be reached from other machines"), "{}", ran.stderr);
    let ran = refused(&["--nbd", "nbd+unix:///?socket=a.sock"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("cannot be served: Address already in use"), "{}", ran.stderr);
    assert_eq!(server.send_sigterm().code, Some(0));
}

#[test]
fn truncated_store_fails_requests_but_not_the_server() {
    for timing in ["on", "off"] {
        let here = directory(&format!("cut-{timing}"));
        let arguments = ["--nbd", "nbd+unix:///?socket=a.sock", "--store", "bytes", "--timing", timing];
        let mut server = Running::start(&here, &arguments);
        server.told("serving ");
        let uri = Uri::parse(&format!("nbd+unix:///?socket={}", here.join("a.sock").display())).unwrap();
        let mut client = Client::connect(&uri).unwrap();
        let write = Request { flags: 0, command: command::WRITE, cookie: 2, offset: 0, length: 4096 };
        assert_eq!(ask(&mut client, &write, &[7; 4096], Duration::from_secs(10)).1, 0);
        std::fs::File::options().write(true).open(here.join("bytes")).unwrap().set_len(4096).unwrap();
        assert_eq!(read_block_once(&mut client, 0), 5, "NBD_EIO");
        let told = server.told("error: bytes: another program has changed its length from 18874368 to 4096 bytes: ");
        assert!(told.starts_with("all requests fail from now on"), "{told}");
        let mut other = Client::connect(&uri).unwrap();
        assert_eq!([&mut client, &mut other].map(|client| read_block_once(client, 1 << 20)), [5, 5]);
        let ran = server.finish_by_sigterm();
        assert_eq!((ran.code, ran.stderr.contains("Input/output error")), (Some(2), true), "{}", ran.stderr);
        let again = Running::start(&here, &arguments).finish();
        let told = "error: bytes: the store has 4096 bytes: something is missing, or too much; allowed: 18874368 bytes; \
                    restore a copy of the file, or remove it to begin with zeros\n";
        assert_eq!((again.code, again.stderr.as_str()), (Some(2), told));
    }
}

impl Running {
    fn finish_by_sigterm(self) -> Ran {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.finish()
    }

    fn finish(mut self) -> Ran {
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        let ran: Ran = self.child.wait_with_output().unwrap().into();
        Ran { stderr: errors, ..ran }
    }
}

#[test]
fn store_beyond_the_file_size_limit_fails_and_reopens_later() {
    let here = directory("limit");
    let serve = "phaselink serve nvme --store bytes --nbd 'nbd+unix:///?socket=a.sock' --timing off --run true";
    let path = Path::new(env!("CARGO_BIN_EXE_phaselink")).parent().unwrap();
    let shell = |script: &str| -> Ran {
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        Command::new("sh").args(["-c", script]).current_dir(&here).env("PATH", path).output().unwrap().into()
    };
    let ran = shell(&format!("ulimit -f 1000; {serve}"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the store cannot be opened: File too large"), "{}", ran.stderr);
    assert_eq!(shell(serve).code, Some(0));
}

/// What `phaselink fault` says.
fn fault(here: &Path, arguments: &[&str]) -> Ran {
    program().current_dir(here).args(["fault", "control.sock"]).args(arguments).output().unwrap().into()
}

#[test]
fn faults_are_added_and_removed_through_the_control_socket() {
    let here = directory("control");
    let arguments = ["--nbd", "nbd://127.0.0.1:0/", "--timing", "off", "--control", "control.sock", "--json"];
    let first = r#"faults=[{ action = "error", operation = "write", first = 100 }]"#;
    let mut server = Running::start(&here, &[&arguments[..], &["--set", first]].concat());
    let mut client = Client::connect(&Uri::parse(&server.told("serving ")).unwrap()).unwrap();
    assert_eq!(server.told("control "), "control.sock");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(here.join("control.sock")).unwrap().permissions());
    assert_eq!((read_block_once(&mut client, 0), mode & 0o777), (0, 0o600));

    let added = fault(&here, &["--add", r#"action = "error", operation = "read", first = 2, times = 1"#, "--list"]);
    assert!(added.stdout.starts_with("rule 2 holds\nnumber"), "{}", added.stdout);
    assert!(added.stdout.contains(r#"action = "error", operation = "write", first = 100"#), "{}", added.stdout);
    assert_eq!([0, 1, 2].map(|_| read_block_once(&mut client, 0)), [0, 5, 0]);
    let listed: serde_json::Value = serde_json::from_str(&fault(&here, &["--json"]).stdout).unwrap();
    assert_eq!((&listed["faults"][1]["met"], &listed["faults"][1]["happened"]), (&3.into(), &1.into()));
    assert_eq!(fault(&here, &["--clear", "2"]).stdout, "1 cleared\n");
    assert_eq!([0, 1, 2].map(|_| read_block_once(&mut client, 0)), [0, 0, 0]);

    let wrong =
        fault(&here, &["--add", "action = \"eror\"", "--add", "action = \"retrain\", lanes = 1", "--clear", "7"]);
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (Some(2), 3), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("did you mean error?"), "{}", wrong.stderr);
    let document: serde_json::Value = serde_json::from_str(&server.send_sigterm().stdout).unwrap();
    let own = &document["phaselink"];
    assert_eq!((&own["errors"], own["faults"].as_array().unwrap().len()), (&1.into(), 1));
    let nobody = fault(&here, &[]);
    assert_eq!(nobody.code, Some(2));
    assert!(nobody.stderr.contains("no server answers there"), "{}", nobody.stderr);
}

const MOUNT: [&str; 2] = ["nbdfuse", "fusermount3"];

/// Requests of a recording, without their times.
fn recorded_requests_without_times(path: &Path) -> Vec<String> {
    let log = fs::read_to_string(path).unwrap();
    let requests = log.lines().filter_map(|line| line.split_once(" phaselink ")).map(|(_, rest)| rest);
    requests.filter(|rest| rest.contains(' ')).map(String::from).collect()
}

#[test]
fn application_on_a_plain_file_is_recorded_with_its_flushes() {
    if !are_here(&MOUNT) {
        return;
    }
    let here = directory("serve-file");
    let mut command = program();
    command.current_dir(&here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=16", "--file", "disk"]);
    command.args(["--record", "app.log", "--lag-tolerance-us", "1e9", "--json"]);
    command.args(["--prepare", "head -c 8192 /dev/zero | dd of=\"$file\" bs=4k seek=9 conv=notrunc 2> /dev/null"]);
    command.args([
        "--run",
        "printf hello | dd of=\"$file\" bs=1 seek=5000 conv=notrunc,fsync 2> /dev/null; wc -c < disk > size",
    ]);
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(here.join("size")).unwrap().trim(), (16 << 20).to_string());
    assert!(!here.join("disk").exists(), "the mount is left behind");
    let requests = recorded_requests_without_times(&here.join("app.log"));
    let written: Vec<&String> = requests.iter().filter(|line| !line.starts_with("read")).collect();
    // A partial block is written as a whole block. Writes before the recording are not part of it.
    assert!(written.first().is_some_and(|first| *first == "write 4608 512"), "{requests:?}");
    assert!(written.last().is_some_and(|last| *last == "sync 0 0"), "{requests:?}");
    let told = |arguments: &[&str]| -> Ran {
        let mut command = program();
        command.current_dir(&here).args(["serve", "nvme-polled"]).args(arguments).output().unwrap().into()
    };
    let ran = told(&["--file", "size", "--run", "true"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("size exists, and would be hidden"), "{}", ran.stderr);
}

#[test]
fn missing_mount_tools_are_reported_before_serving() {
    let here = directory("serve-without");
    for (flag, missing) in [("--file", "nbdfuse"), ("--folder", "fuse2fs")] {
        let mut command = program();
        command.current_dir(&here).env("PATH", &here).args(["serve", "nvme-polled", flag, "there", "--run", "true"]);
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains(&format!("{missing} is missing")), "{}", ran.stderr);
        assert!(!ran.stderr.contains("serving"), "{}", ran.stderr);
    }
}

#[test]
fn application_in_a_folder_is_recorded_and_its_files_are_stored() {
    if !are_here(&[&MOUNT[..], &["fuse2fs", "mke2fs"]].concat()) {
        return;
    }
    let here = directory("serve-folder");
    let serve = |run: &str| -> Ran {
        let mut command = program();
        command.current_dir(&here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=16", "--timing", "off"]);
        command.args([
            "--folder",
            "files",
            "--folder-size",
            "8m",
            "--store",
            "bytes",
            "--record",
            "app.log",
            "--run",
            run,
        ]);
        command.output().unwrap().into()
    };
    let ran = serve("printf hello > \"$folder/one\"; sync \"$folder/one\"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let requests = recorded_requests_without_times(&here.join("app.log"));
    assert!(requests.iter().any(|line| line.starts_with("sync")), "{requests:?}");
    assert!(requests.iter().filter(|line| line.starts_with("write")).count() < 100, "the file system is recorded");
    fs::remove_file(here.join("app.log")).unwrap();
    let ran = serve("cat files/one");
    assert!(ran.code == Some(0) && ran.stdout.starts_with("hello"), "{}{}", ran.stdout, ran.stderr);
    assert!(!here.join("files").exists(), "the mount is left behind");
}
