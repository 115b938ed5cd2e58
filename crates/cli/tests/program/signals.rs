//! Ctrl-C, and readers that go away.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Ran, directory, program};

/// A run that would take days, once it has made the folder of its results and so listens to Ctrl-C.
fn start_endless_run(test: &str, flags: &[&str]) -> Child {
    let report = directory(test).join("report");
    let mut command = program();
    command.args(["run", "--runtime", "20d", "--report"]).arg(&report).args(flags);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_path(&report);
    // Give the run time to complete some requests.
    thread::sleep(Duration::from_millis(300));
    child
}

fn wait_for_path(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < Duration::from_secs(30), "the run does not start");
        thread::sleep(Duration::from_millis(10));
    }
}

fn interrupt_child(child: Child) -> Ran {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    child.wait_with_output().unwrap().into()
}

#[test]
fn ctrl_c_prints_partial_results_marked_unfinished() {
    let ran = interrupt_child(start_endless_run("interrupt", &[]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(130), ""));
    assert!(ran.stdout.contains("The run was stopped before its jobs were done."), "{}", ran.stdout);
    assert!(ran.stdout.contains("where the time of a request goes"), "{}", ran.stdout);
}

#[test]
fn ctrl_c_leaves_a_complete_json_document() {
    let ran = interrupt_child(start_endless_run("interrupt-json", &["--json"]));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["phaselink"]["finished"]), (Some(130), &false.into()));
    assert!(document["jobs"][0]["read"]["total_ios"].as_u64().unwrap() > 0);
}

/// A command that writes no report until its end, stopped after some of its work.
fn output_of_stopped_command(time: Duration, arguments: &str) -> Ran {
    let mut command = program();
    command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    thread::sleep(time);
    interrupt_child(child)
}

#[test]
fn ctrl_c_of_a_comparison_prints_finished_runs() {
    // The first row takes a fraction of a second, the second row minutes.
    let arguments = "compare nvme --numjobs 1 --bs 512,64m --ios 100000";
    let ran = output_of_stopped_command(Duration::from_secs(8), arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(130), "stopped: 1 of 2 runs are finished\n"));
    let rows: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("nvme  ")).collect();
    assert!(rows.len() == 1 && ran.stdout.contains("random reads of 512 B"), "{}", ran.stdout);
    let ran = output_of_stopped_command(Duration::from_secs(8), &format!("{arguments} --json"));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, document["cells"].as_array().map(Vec::len)), (Some(130), Some(1)));
}

#[test]
fn ctrl_c_of_reproductions_prints_finished_papers() {
    let ran = output_of_stopped_command(Duration::from_secs(3), "reproduce --summary");
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(ran.stderr.contains("stopped: ") && ran.stderr.contains(" of 6 papers are finished"), "{}", ran.stderr);
}

#[test]
fn signal_ends_a_command_writing_to_a_pipe_without_reader() {
    let here = directory("no-reader");
    assert!(Command::new("mkfifo").arg(here.join("pipe")).status().unwrap().success());
    for (flags, signal) in [("--json=pipe", "-TERM"), ("--perfetto=pipe", "-TERM"), ("--json=pipe", "-INT")] {
        let mut command = program();
        command.current_dir(&here).args(["run", "nvme", "--number-ios", "10", flags]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut note = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut note).unwrap();
        assert_eq!(note, "note: pipe is a pipe without a reader: waiting for one\n");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if asked.elapsed() > Duration::from_secs(5) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{flags}: {signal} does not end the wait for a reader");
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(130), "{flags} {signal}");
    }
}

#[test]
fn closed_output_pipe_is_no_failure() {
    for arguments in
        [vec!["check", "nvme"], vec!["compare", "--ios", "100"], vec!["run", "--number-ios", "9", "--json"]]
    {
        let mut child = program().args(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
