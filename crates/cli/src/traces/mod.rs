//! Block traces: finds and opens their files, and checks that they do not change during a run.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use phaselink_core::problem::Problems;
use phaselink_core::workload::Trace;
use phaselink_core::workload::trace::{self, File, NamedJobTrace, TraceRequests};

use crate::ending::{CommandEnding, Failure};
use crate::notes;
use crate::output::claims::{self, Role};

mod unpack;

/// Traces whose requests are read from their files during runs.
static STREAMED: Mutex<Vec<TraceRequests>> = Mutex::new(Vec::new());

/// Reads a block trace once. The requests of a long trace are not kept in memory, but read again for each replay.
///
/// # Errors
///
/// If the trace cannot be read or is invalid; all problems are listed.
pub(crate) fn read(wanted: &NamedJobTrace) -> Result<Trace, Problems> {
    let trace = trace::read(&files(&wanted.path), &wanted.selection)?;
    if trace.requests.are_read_from_files() {
        STREAMED.lock().unwrap_or_else(PoisonError::into_inner).push(trace.requests.clone());
    }
    Ok(trace)
}

/// Returns the problems of block traces that could not be read again during runs.
pub(crate) fn failures() -> Problems {
    let streamed = STREAMED.lock().unwrap_or_else(PoisonError::into_inner);
    Problems(streamed.iter().filter_map(|requests| requests.failure().cloned()).collect())
}

/// Returns the ending of a command, or the problems of block traces that could not be read again during its runs.
pub(crate) fn checked(ending: Result<CommandEnding, Failure>) -> Result<CommandEnding, Failure> {
    ending.and_then(|ending| Ok(failures().or(ending)?))
}

/// Returns the files of a block trace: the file at `path`, or blktrace's files of all processors if `path` is their
/// common beginning (`sda` for `sda.blktrace.0`, `sda.blktrace.1` and so on).
pub(crate) fn files(path: &str) -> Vec<File> {
    if Path::new(path).exists() {
        if let Some(device) = blktrace_device(path) {
            let others = per_processor_files(device).len();
            if others > 1 {
                let note =
                    format!("note: {path} is one of {others} files of blktrace; `{device}` stands for all of them");
                notes::tell(&note);
            }
        }
        return vec![file(path.into())];
    }
    let found = per_processor_files(path.strip_suffix(".blktrace").unwrap_or(path));
    // If neither exists, opening the file reports that.
    if found.is_empty() { vec![file(path.into())] } else { found.into_iter().map(file).collect() }
}

fn file(path: String) -> File {
    claims::note(Role::Input, Path::new(&path));
    let is_lasting = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
    let open = {
        let path = path.clone();
        move || unpack::pieces(&path, is_lasting)
    };
    if is_lasting { File::reopenable(path, open) } else { File::single_use(path, open) }
}

/// Returns the paths of blktrace's files whose names begin with `device`, in the order of their processors.
fn per_processor_files(device: &str) -> Vec<String> {
    let path = Path::new(device);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<(u32, String)> = names
        .filter(|other| blktrace_device(other) == Some(name))
        .filter_map(|other| {
            let end = other.get(name.len()..)?;
            Some((blktrace_processor(&other)?, format!("{device}{end}")))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the part of a blktrace file's path before `.blktrace.` and the processor's number, or none if the path has
/// another form.
fn blktrace_device(path: &str) -> Option<&str> {
    blktrace_processor(path)?;
    path.rsplit_once(".blktrace.").map(|(device, _)| device)
}

fn blktrace_processor(path: &str) -> Option<u32> {
    let (_, end) = path.rsplit_once(".blktrace.")?;
    let end = [".gz", ".zst"].iter().find_map(|packed| end.strip_suffix(packed)).unwrap_or(end);
    end.parse().ok().filter(|_| end.bytes().all(|byte| byte.is_ascii_digit()))
}
