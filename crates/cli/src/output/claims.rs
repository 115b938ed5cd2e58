//! Protects files against being overwritten. A command claims the files that it reads, stores in or listens at, and
//! writes no output there.
//!
//! A file is identified by device and inode (where the system has them) and by its name in its folder, so that another
//! path, symbolic link or hard link is no way around. Files that no command has named are recognised by their content.
//! A store, the finished runs of a sweep, or a file locked by a running program is never overwritten.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use phaselink_core::problem::Problem;
use phaselink_studies::sweep::state;

use super::system::{self, FileId};

/// Description of allowed paths, for error messages about a refused output.
const ALLOWED: &str = "a path of its own: a new file, an earlier result or a pipe";
/// Description of a sweep's state file, for error messages.
const RUNS: &str = "the finished runs of a sweep";
/// First bytes of a store file of `phaselink serve`, by which the file is recognised.
const STORE_MAGIC: [u8; 8] = *b"phaselnk";
/// Number of bytes at the beginning of a file from which the kind of the file is recognised.
const BEGINNING_BYTES: u64 = 4096;
/// Maximum number of symbolic links followed to a file that does not exist yet, which is that of Linux
/// (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Role of a file in the present command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Input file that the command reads.
    Input,
    /// Store file with the bytes of a served drive.
    Store,
    /// State file with the finished runs of a sweep.
    Runs,
    Socket,
    /// Output file of the option with this name.
    Output(&'static str),
}

/// File that the command has claimed, with its role and identity.
#[derive(Debug)]
struct Claim {
    role: Role,
    path: PathBuf,
    identity: Identity,
}

/// Identity of the file at a path: device and inode of an existing file, and folder and name, which a new file has too.
/// Terminals and `/dev/null` have no identity, since all outputs may write there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Identity {
    file: Option<FileId>,
    place: Option<(FileId, OsString)>,
}

/// Claims of this process, kept globally so that no command can forget to pass on which files it reads.
static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

/// Records that the present command uses a file in a role, so that no later output overwrites the file.
pub(crate) fn note(role: Role, path: &Path) {
    claims().push(Claim { role, path: path.into(), identity: Identity::of(path) });
}

/// Claims a file that the option `flag` is going to change, so that no later output overwrites the file.
///
/// # Errors
///
/// If the present command has already claimed the file.
pub(crate) fn claim(role: Role, flag: &str, path: &Path) -> Result<(), Problem> {
    check_claims(flag, path)?;
    note(role, path);
    Ok(())
}

/// Checks that the option `flag` may write to a path.
///
/// # Errors
///
/// If the present command has claimed the file, for example as an input.
pub(crate) fn check_claims(flag: &str, path: &Path) -> Result<(), Problem> {
    let identity = Identity::of(path);
    match claims().iter().find(|claim| claim.identity.is(&identity)) {
        Some(claim) => Err(overwrite_refusal_problem(flag, path, &claim.words(path))),
        None => Ok(()),
    }
}

/// Checks that the existing file at `path`, if any, may be used in a role: an output may replace it, a pipe or terminal
/// may be written, and a sweep may add runs to its state file.
///
/// # Errors
///
/// If the file is something that must not be overwritten, such as a directory, a store, or a file of another kind.
pub(crate) fn check_contents(role: Role, flag: &str, path: &Path) -> Result<(), Problem> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unwritable(path, &error)),
    };
    let precious = match kind {
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_file() => protected_content(role, path).map_err(|error| unwritable(path, &error))?,
        kind => system::protected_file_kind(kind),
    };
    match precious {
        Some(RUNS) if role == Role::Runs => Ok(()),
        Some(words) => Err(overwrite_refusal_problem(flag, path, words)),
        None => Ok(()),
    }
}

/// Returns a path without symbolic links, for a file that exists or is still to be made.
pub(crate) fn destination(path: &Path) -> PathBuf {
    if let Ok(whole) = fs::canonicalize(path) {
        return whole;
    }
    let mut path = PathBuf::from(path);
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { break };
        path = folder(&path).join(target);
    }
    path
}

/// Returns the folder that contains a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the problem of an output file that cannot be written, with the system's reason.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(path.display().to_string(), None, format!("cannot be written: {error}"), "")
}

fn overwrite_refusal_problem(flag: &str, path: &Path, what: &str) -> Problem {
    Problem::new(path.display().to_string(), None, format!("{flag} would overwrite {what}"), ALLOWED)
}

fn claims() -> MutexGuard<'static, Vec<Claim>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a description of a file's content if it must not be overwritten in this role, or none if it may.
fn protected_content(role: Role, path: &Path) -> io::Result<Option<&'static str>> {
    let file = File::open(path)?;
    let mut first = Vec::new();
    (&file).take(BEGINNING_BYTES).read_to_end(&mut first)?;
    if first.starts_with(&STORE_MAGIC) {
        return Ok(Some("a store"));
    }
    if first.starts_with(state::HEADER.as_bytes()) {
        return Ok(Some(RUNS));
    }
    if let Role::Output(flag) = role
        && let Some(words) = other_kind_of_file(flag, &first)
    {
        return Ok(Some(words));
    }
    // A file system without locks reports an error here. Then treat the file as not locked.
    let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    Ok(is_locked.then_some("a file that a running program has locked"))
}

/// First characters of the CSV files with the values of a report's plots.
const VALUES_OF_DRAWINGS: [&str; 7] =
    ["line,x,y", "line,percent,ns", "column,part,", "part,share,", "drive,cause,", "from_ns,to_ns,", "id,error_pct,"];

/// First characters of the files that `phaselink export` writes.
const EXPORTED: [&str; 4] = ["{", "read_percent,", "/* Latencies of ", "\"\"\"Latencies of "];

/// Returns a description of a file that begins with `first`, if the file cannot be an earlier output of `flag`.
fn other_kind_of_file(flag: &str, first: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(first);
    let text = text.trim_start();
    if text.is_empty() {
        return None;
    }
    match flag {
        "--json" | "--perfetto" => (!text.starts_with('{')).then_some("a file that is no JSON result"),
        "--report" => (!text.starts_with(['{', '<']) && !VALUES_OF_DRAWINGS.iter().any(|head| text.starts_with(head)))
            .then_some("a file that is no part of a report"),
        "--out" => (!EXPORTED.iter().any(|head| text.starts_with(head))).then_some("a file that is no exported table"),
        _ => looks_like_description(text).then_some("a description, such as a drive or a job"),
    }
}

/// True if a text begins like a TOML file, a job file or a JSON document: with a section, a key and its value, or an
/// object.
fn looks_like_description(text: &str) -> bool {
    let is_comment = |line: &&str| line.is_empty() || line.starts_with(['#', ';']);
    let Some(line) = text.lines().map(str::trim).find(|line| !is_comment(line)) else { return true };
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-.".contains(character))
    };
    line.starts_with(['[', '{']) || line.split_once('=').is_some_and(|(key, _)| is_key(key.trim_end()))
}

impl Claim {
    /// Describes the claimed file that an output at `path` would overwrite.
    fn words(&self, path: &Path) -> String {
        let what = match self.role {
            Role::Input => "what this command reads",
            Role::Store => "the store of this command",
            Role::Runs => "the finished runs of this sweep",
            Role::Socket => "the socket of this command",
            Role::Output(flag) => return format!("what {flag} writes"),
        };
        if self.path == path { String::from(what) } else { format!("{what}, {}", self.path.display()) }
    }
}

impl Identity {
    fn of(path: &Path) -> Identity {
        let metadata = fs::metadata(path).ok();
        if metadata.as_ref().is_some_and(|metadata| system::is_shared(metadata.file_type())) {
            return Identity::default();
        }
        let destination = destination(path);
        let place = system::file_id(folder(&destination)).zip(destination.file_name());
        Identity { file: system::file_id(path), place: place.map(|(folder, name)| (folder, name.into())) }
    }

    fn is(&self, other: &Identity) -> bool {
        (self.file.is_some() && self.file == other.file) || (self.place.is_some() && self.place == other.place)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn stores_are_recognised_by_the_bytes_of_the_server() {
        assert_eq!(super::STORE_MAGIC, phaselink_serve::device::store::MAGIC);
    }
}
