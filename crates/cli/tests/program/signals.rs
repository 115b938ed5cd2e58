//! Ctrl-C, and readers that go away.
#![cfg(unix)]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Ran, directory, program};

/// A run that would take days, once it has made the folder of its results and so listens to Ctrl-C.
fn endless_run(test: &str, flags: &[&str]) -> Child {
    let report = directory(test).join("report");
    let mut command = program();
    command.args(["run", "--runtime", "20d", "--report"]).arg(&report).args(flags);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&report);
    // Let it get some requests done.
    thread::sleep(Duration::from_millis(300));
    child
}

fn wait_for(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < Duration::from_secs(30), "the run does not start");
        thread::sleep(Duration::from_millis(10));
    }
}

fn interrupted(child: Child) -> Ran {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    child.wait_with_output().unwrap().into()
}

#[test]
fn ctrl_c_prints_what_has_been_measured_marked_as_unfinished() {
    let ran = interrupted(endless_run("interrupt", &[]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(130), ""));
    assert!(ran.stdout.contains("The run was stopped before its jobs were done."), "{}", ran.stdout);
    assert!(ran.stdout.contains("where the time of a request goes"), "{}", ran.stdout);
}

#[test]
fn ctrl_c_leaves_a_whole_document() {
    let ran = interrupted(endless_run("interrupt-json", &["--json"]));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["phaselink"]["finished"]), (Some(130), &false.into()));
    assert!(document["jobs"][0]["read"]["total_ios"].as_u64().unwrap() > 0);
}

#[test]
fn a_closed_pipe_is_no_failure() {
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
