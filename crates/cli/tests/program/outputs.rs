//! No output destroys anything: what a command reads or serves, stores, sockets and files in use stay as they are, under
//! whatever name they are given, and a result takes its place when it is whole.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{Ran, directory, program};

/// A small drive, so that its store is small.
const DRIVE: &str = "preset = \"nvme-polled\"\n[media]\ncapacity_mib = 1\n";
const JOB: &str = "[a]\nnumber_ios=9\nread_iolog=t.log\n";
const BARE_JOB: &str = "[a]\nrw=randread\nnumber_ios=9\n";
const TRACE: &str = "10000,hm,0,Read,4096,4096,0\n20000,hm,0,Write,0,512,0\n";
const PLAN: &str = "drive = \"d.toml\"\njob = \"j.fio\"\n[[axis]]\nkey = \"link.lanes\"\nvalues = [1, 4]\n";

/// The commands that write files: what each is called with, what it has to do with, and its flags. FILE stands for the
/// file that the flag names; a report is written as two files in a folder, which are links to FILE.
const COMMANDS: [(&str, &[&str], &[&str]); 8] = [
    ("run d.toml --fio j.fio", &["d.toml", "j.fio", "t.log"], RUN_FLAGS),
    ("run nvme --trace t.log", &["t.log"], RUN_FLAGS),
    ("trace d.toml", &["d.toml"], &["--perfetto FILE"]),
    ("compare d.toml --ios 10", &["d.toml"], &["--report result", "--report index"]),
    (
        "sweep p.toml",
        &["p.toml", "d.toml", "j.fio", "t.log", "p.state.jsonl"],
        &["--csv=FILE", "--json=FILE", "--state FILE", "--report result", "--report index"],
    ),
    ("dma d.toml --size 8 --transfers 10", &["d.toml"], &["--report result", "--report index"]),
    (
        "serve d.toml --timing off --store own.store --nbd nbd+unix:///?socket=own.sock --run true",
        &["d.toml", "own.store"],
        &["--json=FILE", "--record FILE"],
    ),
    ("bench nbd+unix:///?socket=live.sock bare.fio", &["bare.fio"], &["--json=FILE"]),
];

const RUN_FLAGS: &[&str] = &["--json=FILE", "--perfetto FILE", "--report result", "--report index"];

/// What no command may overwrite, though none of those above has named it.
const PRECIOUS: [&str; 6] = ["live.store", "live.sock", "idle.store", "other.state.jsonl", "locked", "folder"];

/// Folder with every kind of file that a command must not overwrite, and a server that uses the store in it.
struct FolderInUse {
    here: PathBuf,
    server: Child,
    _locked: File,
}

fn phaselink(here: &Path, arguments: &str) -> Ran {
    program().current_dir(here).args(arguments.split_whitespace()).output().unwrap().into()
}

/// Start a server, and wait until it is there.
fn serve(here: &Path, arguments: &str) -> Child {
    let mut command = program();
    command.current_dir(here).args(["serve", "d.toml", "--timing", "off", "--wait", "block"]);
    command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let errors = BufReader::new(child.stderr.as_mut().unwrap());
    let serving = errors.lines().map(Result::unwrap).find(|line| line.starts_with("serving "));
    assert!(serving.is_some(), "the server starts");
    child
}

fn end(mut server: Child) -> Option<i32> {
    let killed = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(killed.success());
    server.wait().unwrap().code()
}

/// A folder with a drive, jobs, a trace and a plan.
fn described_folder(test: &str) -> PathBuf {
    let here = directory(test);
    let files = [("d.toml", DRIVE), ("j.fio", JOB), ("bare.fio", BARE_JOB), ("t.log", TRACE), ("p.toml", PLAN)];
    files.iter().for_each(|(name, text)| fs::write(here.join(name), text).unwrap());
    here
}

impl FolderInUse {
    fn new(test: &str) -> FolderInUse {
        let here = described_folder(test);
        fs::create_dir(here.join("folder")).unwrap();
        for (file, arguments) in [("p.state.jsonl", "sweep p.toml"), ("other.state.jsonl", "sweep other.toml")] {
            fs::write(here.join("other.toml"), PLAN).unwrap();
            assert_eq!(phaselink(&here, arguments).code, Some(0));
            assert!(fs::metadata(here.join(file)).unwrap().len() > 100);
        }
        for store in ["own.store", "idle.store"] {
            let arguments =
                format!("serve d.toml --store {store} --nbd nbd+unix:///?socket=x.sock --timing off --run true");
            assert_eq!(phaselink(&here, &arguments).code, Some(0));
        }
        fs::write(here.join("locked"), "anything").unwrap();
        let locked = File::open(here.join("locked")).unwrap();
        locked.lock().unwrap();
        let server = serve(&here, "--store live.store --nbd nbd+unix:///?socket=live.sock");
        FolderInUse { here, server, _locked: locked }
    }

    /// Other names of the same file.
    fn file_aliases(&self, file: &str) -> Vec<String> {
        let here = &self.here;
        let mut names = vec![
            String::from(file),
            format!("./{file}"),
            format!("folder/../{file}"),
            here.join(file).display().to_string(),
        ];
        let _ = fs::remove_file(here.join("symbolic"));
        symlink(here.join(file), here.join("symbolic")).unwrap();
        names.push(String::from("symbolic"));
        if here.join(file).is_file() {
            let _ = fs::remove_file(here.join("hard"));
            fs::hard_link(here.join(file), here.join("hard")).unwrap();
            names.push(String::from("hard"));
        }
        names
    }

    /// The command with its flag, to write the file of this name.
    fn arguments(&self, command: &str, flag: &str, name: &str) -> String {
        let Some(page) = flag.strip_prefix("--report ") else {
            return format!("{command} {}", flag.replace("FILE", name));
        };
        let report = self.here.join("report");
        let _ = fs::remove_dir_all(&report);
        fs::create_dir(&report).unwrap();
        let page = report.join(if page == "result" { "result.json" } else { "index.html" });
        match name {
            "hard" => fs::hard_link(self.here.join(name), page).unwrap(),
            name => symlink(self.here.join(name), page).unwrap(),
        }
        format!("{command} --report report")
    }

    /// What is in a file, what a name is of, and which names there are.
    fn state(&self, file: &str) -> (Vec<u8>, u64, BTreeSet<PathBuf>) {
        let path = self.here.join(file);
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let names = fs::read_dir(&self.here).unwrap().map(|entry| entry.unwrap().path());
        (bytes, fs::metadata(&path).unwrap().ino(), names.collect())
    }

    fn assert_output_refused(&self, command: &str, flag: &str, file: &str) {
        for name in self.file_aliases(file) {
            let arguments = self.arguments(command, flag, &name);
            let before = self.state(file);
            let ran = phaselink(&self.here, &arguments);
            assert!(self.state(file) == before, "phaselink {arguments} changes {file}");
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "phaselink {arguments}: {}", ran.stderr);
            let is_told = ran.stderr.contains("would overwrite") || ran.stderr.contains("left as it is");
            assert!(is_told && ran.stderr.lines().count() == 1, "phaselink {arguments}: {}", ran.stderr);
        }
    }
}

#[test]
fn no_output_overwrites_an_input_or_a_served_file() {
    let folder = FolderInUse::new("outputs-own");
    for (command, files, flags) in COMMANDS {
        for flag in flags {
            // A sweep may write its own state file.
            let others = files.iter().filter(|file| (*flag, **file) != ("--state FILE", "p.state.jsonl"));
            others.for_each(|file| folder.assert_output_refused(command, flag, file));
        }
    }
    assert_eq!(end(folder.server), Some(0));
}

#[test]
fn no_output_overwrites_stores_sockets_or_files_in_use() {
    let folder = FolderInUse::new("outputs-precious");
    for (command, _, flags) in COMMANDS {
        for flag in flags {
            // A sweep may read and extend the state file of another sweep.
            let others = PRECIOUS.iter().filter(|file| (*flag, **file) != ("--state FILE", "other.state.jsonl"));
            others.for_each(|file| folder.assert_output_refused(command, flag, file));
        }
    }
    let ran = phaselink(&folder.here, "bench nbd+unix:///?socket=live.sock bare.fio");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "the server is as it was");
    assert_eq!(end(folder.server), Some(0));
}

#[test]
fn stores_on_inputs_and_outputs_on_sockets_are_refused() {
    let here = described_folder("outputs-to-be");
    let serve = "serve d.toml --timing off --run true --shm own.sock";
    for (arguments, found) in [
        ("--store d.toml", "d.toml: --store would overwrite what this command reads; "),
        ("--json=own.sock", "own.sock: --json would overwrite the socket of this command; "),
        ("--store new --record ./new", "./new: --record would overwrite the store of this command, new; "),
        ("--vfio-user folder --json=folder/cntrl", "folder/cntrl: --json would overwrite the socket of this command; "),
    ] {
        let _ = fs::create_dir(here.join("folder"));
        let ran = phaselink(&here, &format!("{serve} {arguments}"));
        assert!(ran.stderr.starts_with(&format!("error: {found}")), "{arguments}: {}", ran.stderr);
        assert_eq!((ran.code, here.join("new").exists(), here.join("own.sock").exists()), (Some(2), false, false));
    }
    assert_eq!(fs::read_to_string(here.join("d.toml")).unwrap(), DRIVE);
}

#[test]
fn two_outputs_to_one_file_are_refused() {
    let here = described_folder("outputs-twice");
    fs::create_dir(here.join("out")).unwrap();
    symlink("one", here.join("other")).unwrap();
    for exists in [false, true] {
        for (arguments, allowed) in [
            ("run nvme --json=one --perfetto ./one", false),
            ("run nvme --json=one --perfetto other", false),
            ("run nvme --json=out/result.json --report out", false),
            ("sweep p.toml --csv=one --json=one", false),
            ("sweep p.toml --json=out/result.json --report out", false),
            ("run nvme --json=out/job-read.hgrm --hgrm out", false),
            ("sweep p.toml --csv=new.jsonl --state new.jsonl", false),
            ("serve d.toml --timing off --shm a.sock --run true --record one --json=other", false),
            ("run nvme --number-ios 9 --json=/dev/null --perfetto /dev/null", true),
        ] {
            let before = fs::read(here.join("one")).ok();
            let ran = phaselink(&here, arguments);
            assert_eq!(ran.code, Some(if allowed { 0 } else { 2 }), "phaselink {arguments}: {}", ran.stderr);
            assert_eq!(ran.stderr.contains("would overwrite"), !allowed, "phaselink {arguments}: {}", ran.stderr);
            assert_eq!(fs::read(here.join("one")).ok(), before);
        }
        if !exists {
            ["one", "out/result.json"].iter().for_each(|name| fs::write(here.join(name), "{}").unwrap());
        }
    }
}

#[test]
fn result_replaces_an_earlier_one_through_links_with_permissions() {
    let here = described_folder("outputs-replaced");
    fs::write(here.join("result"), "{ \"earlier\": 1 }").unwrap();
    fs::set_permissions(here.join("result"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("result", here.join("link")).unwrap();
    symlink("to-be", here.join("dangling")).unwrap();
    for (flag, result) in [("link", "result"), ("dangling", "to-be"), ("plain", "plain")] {
        let ran = phaselink(&here, &format!("run nvme --number-ios 9 --json={flag}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(fs::read_to_string(here.join(result)).unwrap().contains("\"total_ios\""));
        assert_eq!(fs::symlink_metadata(here.join(flag)).unwrap().is_symlink(), flag != result);
    }
    assert_eq!(fs::metadata(here.join("result")).unwrap().permissions().mode() & 0o777, 0o640);
    let names = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.contains("partial")));
}

/// The shell runs `script` in `here`, with the program as `phaselink`.
fn shell(here: &Path, script: &str) -> Ran {
    let folder = Path::new(env!("CARGO_BIN_EXE_phaselink")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    Command::new("sh").args(["-c", script]).current_dir(here).env("PATH", path).output().unwrap().into()
}

#[test]
fn foreign_file_is_not_overwritten() {
    let here = described_folder("outputs-kinds");
    fs::create_dir(here.join("out")).unwrap();
    fs::write(here.join("notes"), "what I found").unwrap();
    fs::write(here.join("out/index.html"), "what I found").unwrap();
    for (arguments, found) in [
        ("run nvme --json=d.toml", "d.toml: --json would overwrite a file that is no JSON result; "),
        ("run nvme --perfetto notes", "notes: --perfetto would overwrite a file that is no JSON result; "),
        (
            "compare --ios 10 --report out",
            "out/index.html: --report would overwrite a file that is no part of a report; ",
        ),
        ("sweep p.toml --csv=bare.fio", "bare.fio: --csv would overwrite a description, such as a drive or a job; "),
    ] {
        let before = ["d.toml", "notes", "bare.fio"].map(|name| fs::read(here.join(name)).unwrap());
        let ran = phaselink(&here, arguments);
        assert!(ran.stderr.starts_with(&format!("error: {found}")), "{arguments}: {}", ran.stderr);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments}");
        assert_eq!(["d.toml", "notes", "bare.fio"].map(|name| fs::read(here.join(name)).unwrap()), before);
    }
}

#[test]
fn failed_write_keeps_the_earlier_result() {
    let here = described_folder("outputs-full");
    fs::write(here.join("result"), "{ \"earlier\": 1 }").unwrap();
    // With SIGXFSZ ignored, exceeding the file size limit gives an error like a full disk.
    let ran = shell(&here, "trap '' XFSZ; ulimit -f 1; phaselink run nvme --number-ios 9 --json=result");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: result: cannot be written: "), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(here.join("result")).unwrap(), "{ \"earlier\": 1 }");
    assert!(!here.join("result.partial").exists());
    let ran = phaselink(&here, "run nvme --number-ios 9 --json=/dev/full");
    assert!(ran.stderr.starts_with("error: /dev/full: cannot be written: "), "{}", ran.stderr);
}

#[test]
fn pipes_and_terminals_are_written_directly() {
    let here = described_folder("outputs-direct");
    let ran = shell(&here, "phaselink run nvme --number-ios 9 --json=/dev/stdout > both");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let both = fs::read_to_string(here.join("both")).unwrap();
    assert!(
        both.starts_with("{\n") && both.contains("\n}\nOn nvme, ") && both.contains("\nJob: "),
        "the document, then the tables:\n{both}"
    );
    let ran = shell(&here, "phaselink run nvme --number-ios 9 --json=/dev/stdout | cat");
    assert_eq!(ran.stdout, both);
    let ran = shell(&here, "mkfifo pipe; cat pipe > piped & phaselink run nvme --number-ios 9 --json=pipe; wait");
    assert_eq!(ran.code, Some(0));
    assert!(both.starts_with(&fs::read_to_string(here.join("piped")).unwrap()));
    assert!(fs::symlink_metadata(here.join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn recording_is_renamed_at_the_end_and_kept_partial_after_a_kill() {
    let here = described_folder("outputs-record");
    fs::write(here.join("day.log"), "earlier").unwrap();
    let arguments = "--nbd nbd+unix:///?socket=a.sock --record day.log";
    let load = |ios: &str| {
        let ran = phaselink(&here, &format!("bench nbd+unix:///?socket=a.sock --number-ios {ios}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    };
    let read = |name: &str| fs::read_to_string(here.join(name)).unwrap_or_default();

    let mut killed = serve(&here, arguments);
    load("1000");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(read("day.log"), "earlier");
    let rest = read("day.log.partial");
    assert!(rest.contains(" read "), "{rest}");

    let server = serve(&here, arguments);
    load("7");
    assert_eq!(read("day.log"), "earlier");
    assert_eq!(end(server), Some(0));
    assert_eq!(read("day.log").matches(" read ").count(), 7);
    assert_eq!((read("day.log.partial"), here.join("day.log.2.partial").exists()), (rest, false));
}

#[test]
fn file_that_becomes_a_store_meanwhile_is_not_overwritten() {
    let here = described_folder("outputs-meanwhile");
    let serve = "phaselink serve d.toml --timing off";
    let inner = format!("{serve} --shm b.sock --store late --run true");
    let ran = shell(&here, &format!("{serve} --shm a.sock --json=late --run '{inner}'"));
    assert_eq!(ran.code, Some(2));
    let told = "late: --json would overwrite a store; what was to be written is in ";
    assert!(ran.stderr.contains(told) && ran.stderr.contains("late.partial"), "{}", ran.stderr);
    let mut magic = [0; 8];
    File::open(here.join("late")).unwrap().read_exact(&mut magic).unwrap();
    assert_eq!(magic, phaselink_serve::device::store::MAGIC);
    assert!(fs::read_to_string(here.join("late.partial")).unwrap().starts_with('{'));
}

#[test]
fn recording_on_a_full_disk_keeps_the_result_and_the_earlier_file() {
    let here = described_folder("outputs-record-full");
    let serve =
        "serve d.toml --timing off --shm a.sock --record /dev/full --run 'phaselink bench shm:a.sock --number-ios 9'";
    let ran = shell(&here, &format!("phaselink {serve}"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("requests in"), "{}", ran.stdout);
    assert!(ran.stderr.contains("error: /dev/full: cannot be written: "), "{}", ran.stderr);
}
