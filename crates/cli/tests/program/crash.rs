//! Power cuts: what is recorded, which images are made of it, and applications that do or do not survive them.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ROOT, Ran, directory, program, programs};
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command, flag};
use serde_json::Value;

const BLOCK: u32 = 512;

/// `phaselink crash` with a command that prints what the test says, while the test is the application.
struct Application {
    child: Child,
    client: Client,
    /// What the command prints; it ends with this.
    prints: File,
    cookie: u64,
}

impl Application {
    fn start(here: &Path, size: &str, flags: &[&str]) -> Application {
        assert!(Command::new("mkfifo").arg(here.join("lines")).status().unwrap().success());
        let mut crash = program();
        crash.current_dir(here).args(["crash", "--run", "echo \"$uri\" > uri.new; mv uri.new uri; cat lines"]);
        crash.args(["--size", size, "--json"]).args(flags);
        let child = crash.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !here.join("uri").exists() {
            assert!(Instant::now() < until, "the command is not run");
            thread::sleep(Duration::from_millis(5));
        }
        let uri = fs::read_to_string(here.join("uri")).unwrap();
        let client = Client::connect(&Uri::parse(uri.trim()).unwrap()).unwrap();
        let prints = File::options().write(true).open(here.join("lines")).unwrap();
        Application { child, client, prints, cookie: 0 }
    }

    /// Ask for all of these in one message, and wait for all answers.
    fn ask(&mut self, requests: &[(u16, u16, u64, u32)]) {
        for &(command, flags, block, blocks) in requests {
            self.cookie += 1;
            let (offset, length) = (block * u64::from(BLOCK), blocks * BLOCK);
            let data = if command == command::WRITE { vec![self.cookie as u8; length as usize] } else { Vec::new() };
            self.client.ask(&Request { flags, command, cookie: self.cookie, offset, length }, &data);
        }
        self.client.send().unwrap();
        let mut left = requests.len();
        while left > 0 {
            self.client.sleep(None).unwrap();
            self.client.receive().unwrap();
            while let Some(answer) = self.client.answer(|_| 0).unwrap() {
                assert_eq!(answer.error, 0);
                left -= 1;
            }
        }
    }

    fn write(&mut self, block: u64) {
        self.ask(&[(command::WRITE, 0, block, 1)]);
    }

    fn flush(&mut self) {
        self.ask(&[(command::FLUSH, 0, 0, 0)]);
    }

    /// Print a line, and see that it has been read before anything else happens.
    fn print_and_await_reader(&mut self, line: &str) {
        writeln!(self.prints, "{line}").unwrap();
        thread::sleep(Duration::from_millis(300));
    }

    fn finish(self) -> Ran {
        self.client.disconnect().unwrap();
        drop(self.prints);
        self.child.wait_with_output().unwrap().into()
    }
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

/// How many images can be made of what an application does, all of which have been tested.
fn images(test: &str, flags: &[&str], application: impl FnOnce(&mut Application)) -> u64 {
    let here = directory(test);
    let mut running = Application::start(&here, "64k", &[&["--check", "test -s \"$image\""], flags].concat());
    application(&mut running);
    let ran = running.finish();
    let document = document(&ran);
    assert_eq!((ran.code, &document["images"]["failed"]), (Some(0), &0.into()), "{}", ran.stderr);
    assert_eq!(document["images"]["possible"], document["images"]["tested"]);
    document["images"]["possible"].as_u64().unwrap()
}

#[test]
fn flush_covers_only_writes_acknowledged_before_it() {
    let alone = |application: &mut Application| {
        application.write(0);
        application.flush();
        application.write(1);
    };
    // Three images: neither write, the first write, or both.
    assert_eq!(images("crash-flush", &[], alone), 3);
    let together = |application: &mut Application| {
        application.ask(&[(command::WRITE, 0, 0, 1), (command::FLUSH, 0, 0, 0)]);
        application.write(1);
    };
    assert_eq!(images("crash-together", &[], together), 4);
}

#[test]
fn fua_covers_its_own_write_and_long_writes_tear_at_blocks() {
    let durable = |application: &mut Application| {
        application.write(0);
        application.ask(&[(command::WRITE, flag::FUA, 1, 1)]);
        application.write(2);
    };
    assert_eq!(images("crash-fua", &[], durable), 6);
    let long = |application: &mut Application| application.ask(&[(command::WRITE, 0, 4, 3), (command::TRIM, 0, 0, 2)]);
    assert_eq!(images("crash-long", &[], long), 32);
    assert_eq!(images("crash-atomic", &["--atomic-write", "1k"], long), 16, "three blocks are no atomic write");
    assert_eq!(images("crash-atomic", &["--atomic-write", "1536"], long), 4);
    // If the buffer is protected from power loss, no acknowledged write is lost.
    assert_eq!(images("crash-protected", &["tlc-gen5", "--atomic-write", "64k"], durable), 4);
    assert_eq!(images("crash-unprotected", &["tlc-gen4", "--atomic-write", "64k"], durable), 6);
}

#[test]
fn failing_image_names_the_rule_and_keys_that_allow_it() {
    let here = directory("crash-rule");
    let check = "for block in $(cat \"$printed\"); do \
        test $(dd if=\"$image\" bs=512 skip=$block count=1 2> /dev/null | tr -d '\\0' | wc -c) = 512 || exit 1; done";
    let mut application = Application::start(&here, "64k", &["tlc-gen4", "--check", check]);
    application.write(6);
    application.print_and_await_reader("6");
    application.flush();
    let ran = application.finish();
    let smallest = &document(&ran)["smallest_failure"];
    let rule = smallest["rules"][0].as_str().unwrap_or_default();
    let keys = "media.acknowledge = \"early\" and buffer.power_loss_protection = false";
    assert!(ran.code == Some(1) && rule.contains("Flush command") && rule.contains(keys), "{smallest}");
}

#[test]
fn failing_image_names_a_command_that_repeats_the_check() {
    let here = directory("crash-failure");
    // Every block that was printed must be there. The application prints block 6 before its write is durable.
    let check = "for block in $(cat \"$printed\"); do \
        test $(dd if=\"$image\" bs=512 skip=$block count=1 2> /dev/null | tr -d '\\0' | wc -c) = 512 || \
        { echo block $block is lost; exit 1; }; done";
    let flags = ["--check", check, "--record", "kept.recording"];
    let mut application = Application::start(&here, "64k", &flags);
    application.write(5);
    application.flush();
    application.print_and_await_reader("5");
    application.write(6);
    application.print_and_await_reader("6");
    application.flush();
    let ran = application.finish();
    let report = document(&ran);
    assert_eq!((ran.code, &report["recording"]["lines_printed"]), (Some(1), &2.into()), "{}", ran.stderr);
    assert_eq!(report["images"]["failed"], 1);
    let smallest = &report["smallest_failure"];
    assert_eq!(smallest["said"], "block 6 is lost\n");
    let words: Vec<&str> = smallest["words"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(words.contains(&"Missing: request 3 (write of 512 B at 3072), answered, not flushed."), "{words:?}");
    let rule = smallest["rules"][0].as_str().unwrap();
    assert!(rule.contains("Flush command") && rule.contains("the recorded drive keeps a write once it is flushed"));

    let shell = |command: &str| -> Ran {
        let folder = Path::new(env!("CARGO_BIN_EXE_phaselink")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        Command::new("sh").args(["-c", command]).current_dir(&here).env("PATH", path).output().unwrap().into()
    };
    let again = shell(smallest["command"].as_str().unwrap());
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    assert!(again.stdout.contains("block 6 is lost"), "{}", again.stdout);
    let whole = shell("phaselink crash --replay kept.recording --check 'test -s \"$image\"'");
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let whole = shell("phaselink crash --replay kept.recording --atomic-write 4k --check 'test -s \"$image\"'");
    assert!(whole.stdout.contains("writes of up to 4 KiB are whole"), "{}", whole.stdout);
    let wrong = shell("phaselink crash --replay kept.recording --image cut=2,missing=9 --check true");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("--image: request 9 had not arrived at cut=2"), "{}", wrong.stderr);
}

#[test]
fn check_beyond_its_time_limit_fails_and_its_children_are_killed() {
    let here = directory("crash-timeout");
    let pids = here.join("pids");
    // The check ends only if no write is missing.
    let check = format!(
        "test $(tr -d '\\0' < \"$image\" | wc -c) = 512 || {{ sleep 1000 & echo $! > {}; yes; }}",
        pids.display()
    );
    let mut application =
        Application::start(&here, "64k", &["--check", &check, "--timeout", "1", "--record", "kept.recording"]);
    application.write(0);
    let ran = application.finish();
    let report = document(&ran);
    assert_eq!((ran.code, &report["images"]["timed_out"]), (Some(1), &1.into()), "{}", ran.stderr);
    assert_eq!(report["smallest_failure"]["check"], "took longer than --timeout allows");
    wait_for_process_end(&pids);
}

#[test]
fn commands_failing_without_a_cut_and_wrong_values_are_refused() {
    let here = directory("crash-wrong");
    fs::write(here.join("none"), "text").unwrap();
    let errors = |arguments: &[&str]| -> String {
        let ran: Ran = program().current_dir(&here).arg("crash").args(arguments).output().unwrap().into();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        ran.stderr
    };
    let told = errors(&["--run", "exit 3", "--check", "true"]);
    assert_eq!(told, "error: --run: the command ended with exit code 3; allowed: a command that ends with 0\n");
    let told = errors(&["--run", "true", "--check", "echo no; false"]);
    assert!(
        told.contains("--check: the command ended with exit code 1 on the image where nothing is missing"),
        "{told}"
    );
    assert!(told.contains("and says: no"), "{told}");
    assert!(errors(&["--prepare", "false", "--run", "true", "--check", "true"]).contains("--prepare: the command"));
    assert!(errors(&["--check", "true"]).contains("--run"));
    assert!(errors(&["--run", "true", "--check", "true", "--size", "1000"]).contains("--size: 1000 bytes"));
    assert!(errors(&["--run", "true", "--check", "true", "--size", "1t"]).contains("up to 4 GiB"));
    assert!(errors(&["--run", "true", "--check", "true", "--atomic-write", "700"]).contains("multiples of 512"));
    assert!(errors(&["--replay", "none", "--check", "true"]).contains("none: no recording of phaselink crash"));
    assert!(errors(&["--replay", "/dev/zero", "--check", "true"]).contains("/dev/zero: no recording"));
    assert!(errors(&["--replay", "missing", "--check", "true"]).contains("missing: cannot be read"));
    assert!(errors(&["--run", "true", "--check", "true", "--set", "link.lanes=8"]).contains("without a drive"));
    let mut without = program();
    without.current_dir(&here).env("PATH", &here).args(["crash", "--file", "--run", "true", "--check", "true"]);
    let ran: Ran = without.output().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("nbdfuse is missing") && ran.stderr.contains("libnbd-bin"), "{}", ran.stderr);
}

#[test]
fn ctrl_c_ends_the_recorded_command_and_its_children() {
    let here = directory("crash-interrupt");
    let mut crash = program();
    crash.current_dir(&here).args(["crash", "--run", "sleep 1000 & echo $! > pid.new; mv pid.new pid; wait"]);
    let child = crash.args(["--check", "true"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !here.join("pid").exists() {
        assert!(Instant::now() < until, "the command is not run");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(130), "", ""));
    wait_for_process_end(&here.join("pid"));
}

/// Wait until the process whose number is in this file is gone.
fn wait_for_process_end(pid: &Path) {
    let process = PathBuf::from("/proc").join(fs::read_to_string(pid).unwrap().trim());
    let is_gone = || fs::read_to_string(process.join("stat")).map_or(true, |stat| stat.contains(") Z "));
    let until = Instant::now() + Duration::from_secs(10);
    while !is_gone() {
        assert!(Instant::now() < until, "{} is still there", process.display());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether what an example needs is here. No package brings the kernel's side of FUSE.
fn are_here(programs: &[&str]) -> bool {
    let has_fuse = File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !has_fuse {
        eprintln!("skipped: /dev/fuse is missing");
    }
    has_fuse && programs::are_here(programs)
}

/// An example, with as many images as `make crash` wants or `images`.
fn run_crash_example(test: &str, images: &str, flags: &[&str]) -> (Ran, Value) {
    let images = std::env::var("CRASH_IMAGES").unwrap_or_else(|_| String::from(images));
    let mut crash = program();
    crash.current_dir(Path::new(ROOT).join("examples/crash")).args(["crash", "--file", "--images", &images, "--json"]);
    crash.arg("--record").arg(directory(test).join("recording")).args(flags);
    let ran = Ran::from(crash.output().unwrap());
    let report = document(&ran);
    let images = &report["images"];
    println!("{test}: {} images in {} s, {} failed", images["tested"], images["elapsed_s"], images["failed"]);
    (ran, report)
}

/// Scripts need nothing that a system has added to its Python (`-S`), which may take longer to start than all else.
fn python_page_size_script(test: &str, flag: &str) -> (Ran, Value) {
    let (prepare, run) =
        (format!("python3 -S pages.py make \"$file\" {flag}"), format!("python3 -S pages.py write \"$file\" {flag}"));
    let check = "python3 -S pages.py check \"$image\" \"$printed\"";
    run_crash_example(test, "30", &["--size", "1m", "--prepare", &prepare, "--run", &run, "--check", check])
}

#[test]
fn torn_8_kib_page_is_found_and_a_double_write_survives() {
    if !are_here(&["nbdfuse", "python3"]) {
        return;
    }
    let (ran, report) = python_page_size_script("crash-pages", "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let smallest = &report["smallest_failure"];
    assert!(smallest["said"].as_str().unwrap().contains("is torn"), "{smallest}");
    assert!(smallest["image"].as_str().unwrap().contains("torn="), "{smallest}");
    assert_eq!(python_page_size_script("crash-pages-twice", "--double-write").0.code, Some(0));
}

/// An example on a file system in user space.
fn example_on_ext2(test: &str, images: &str, script: &str, [make, run, check]: [&str; 3]) -> (Ran, Value) {
    let command = |action: &str, words: &str| format!("./on-ext2.sh {action} sh -c 'python3 -S {script} {words}'");
    let (prepare, run) = (command("make", make), command("run", run));
    let check = command("check", check);
    run_crash_example(test, images, &["--size", "4m", "--prepare", &prepare, "--run", &run, "--check", &check])
}

const FILE_SYSTEM: [&str; 7] = ["nbdfuse", "python3", "fuse2fs", "fusermount3", "mke2fs", "e2fsck", "debugfs"];

fn run_sqlite_example(test: &str, images: &str, synchronous: &str) -> (Ran, Value) {
    let command = |action: &str| format!("{action} \"$folder\" {synchronous}");
    let check = "check \"$folder\" \"$printed\"";
    example_on_ext2(test, images, "sqlite.py", [&command("make"), &command("run"), check])
}

#[test]
fn sqlite_loses_transactions_only_without_flushes() {
    if !are_here(&FILE_SYSTEM) {
        return;
    }
    let (ran, report) = run_sqlite_example("crash-sqlite-off", "15", "OFF");
    assert_eq!(ran.code, Some(1), "{}{report}", ran.stderr);
    let (ran, report) = run_sqlite_example("crash-sqlite-full", "25", "FULL");
    assert_eq!(ran.code, Some(0), "{}{report}", ran.stderr);
    assert!(report["recording"]["flushes"].as_u64().unwrap() > 100);
}

#[test]
fn rename_before_flush_is_found() {
    if !are_here(&FILE_SYSTEM) {
        return;
    }
    let commands = ["make \"$folder\"", "replace \"$folder\"", "check \"$folder\" \"$printed\""];
    let (ran, report) = example_on_ext2("crash-rename", "100", "rename.py", commands);
    assert_eq!(ran.code, Some(1), "{}{report}", ran.stderr);
}

/// What testing a store of 64 MiB costs, all of which has been written, 64 KiB at a time, with a flush behind so many writes
/// each: images a second, and milliseconds of a processor an image, those of the check included.
fn crash_image_cost(test: &str, writes: usize, check: &str) -> (f64, f64) {
    let (here, before) = (directory(test), child_processor_time());
    let mut running = Application::start(&here, "64m", &["--check", check]);
    let places: Vec<u64> = (0..1024).map(|place| place * 128).collect();
    for places in places.chunks(writes) {
        for some in places.chunks(16) {
            running.ask(&some.iter().map(|&block| (command::WRITE, 0, block, 128)).collect::<Vec<_>>());
        }
        running.flush();
    }
    let ran = running.finish();
    let report = document(&ran);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (tested, elapsed) = (report["images"]["tested"].as_f64(), report["images"]["elapsed_s"].as_f64());
    let (tested, elapsed) = (tested.unwrap(), elapsed.unwrap());
    (tested / elapsed, (child_processor_time() - before).as_secs_f64() * 1e3 / tested)
}

/// Time that processors have spent on children which have ended, and on theirs.
fn child_processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // Fields 16 and 17 hold the times in ticks of 10 ms. Field 2 is a name that may contain spaces, so start after it.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    Duration::from_millis(fields[13..15].iter().map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

#[test]
#[ignore = "measures: make crash"]
#[cfg(target_os = "linux")]
fn hundred_images_of_64_mib_are_tested_in_a_second() {
    let checks = [
        (":", "does nothing"),
        (": >> \"$image\"", "opens the image to write"),
        ("printf x 1<> \"$image\"", "writes to it"),
    ];
    for (writes, flushed) in [(16, "flushed at each MiB"), (1024, "flushed at the end alone")] {
        for (check, does) in checks {
            let (rate, milliseconds) = crash_image_cost("crash-speed", writes, check);
            println!(
                "64 MiB written and {flushed}, a check that {does}: {rate:.0} images a second, {milliseconds:.1} ms of a processor each"
            );
            // Limit for one processor, or for two if the whole image is compared.
            assert!(milliseconds < if check.starts_with("printf") { 20.0 } else { 10.0 });
        }
    }
}
