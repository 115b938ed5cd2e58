//! No output destroys anything: what a command reads, keeps or listens at is claimed here, and no output goes there.
//!
//! A file is known by its device and inode and by its place in its folder, so that no other path, symbolic link or hard
//! link to it deceives. Files that no command has named are known by what they hold: a store, or the finished runs of a
//! sweep, is never overwritten, nor is a file that a running program has locked.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use phaselink_core::problem::Problem;
use phaselink_core::sweep::state;
use phaselink_serve::device::store;

/// What is allowed where an output is refused.
const ALLOWED: &str = "a path of its own: a new file, an earlier result or a pipe";
/// What a file is that a sweep keeps.
const RUNS: &str = "the finished runs of a sweep";
/// Symbolic links that are followed to a file that does not exist yet: as many as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What a file is to this command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read.
    Input,
    /// The bytes of a served drive.
    Store,
    /// The finished runs of a sweep.
    Runs,
    Socket,
    /// Written under this flag.
    Output(&'static str),
}

/// A file that this command has to do with.
#[derive(Debug)]
struct Claim {
    role: Role,
    path: PathBuf,
    identity: Identity,
}

/// Which file a path leads to: the file itself, if there is one, and its place in its folder, which a file that is
/// still to be made has too. Terminals and `/dev/null` have none: they are everybody's.
#[derive(Debug, Default, PartialEq, Eq)]
struct Identity {
    file: Option<Inode>,
    place: Option<(Inode, OsString)>,
}

/// Device and inode.
type Inode = (u64, u64);

/// A property of the process, so that no command can forget to pass on what it has read.
static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

/// A file is this to the command, from now on.
pub(crate) fn note(role: Role, path: &Path) {
    claims().push(Claim { role, path: path.into(), identity: Identity::of(path) });
}

/// The same, of a file that `flag` is going to change.
///
/// # Errors
/// If it is something else to the command already.
pub(crate) fn claim(role: Role, flag: &str, path: &Path) -> Result<(), Problem> {
    check_claims(flag, path)?;
    note(role, path);
    Ok(())
}

/// See that nobody has a claim to what `flag` is going to write.
///
/// # Errors
/// If this command has.
pub(crate) fn check_claims(flag: &str, path: &Path) -> Result<(), Problem> {
    let identity = Identity::of(path);
    match claims().iter().find(|claim| claim.identity.is(&identity)) {
        Some(claim) => Err(refused(flag, path, &claim.words(path))),
        None => Ok(()),
    }
}

/// See that what is at `path` may become what `role` says: be replaced by an output, or written if it is a pipe or a
/// terminal, or take more finished runs.
///
/// # Errors
/// If it is anything but an ordinary file of no importance to us.
pub(crate) fn check_contents(role: Role, flag: &str, path: &Path) -> Result<(), Problem> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unwritable(path, &error)),
    };
    let precious = match kind {
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_block_device() => Some("a disk"),
        kind if kind.is_file() => in_file(path).map_err(|error| unwritable(path, &error))?,
        _ => None,
    };
    match precious {
        Some(RUNS) if role == Role::Runs => Ok(()),
        Some(words) => Err(refused(flag, path, words)),
        None => Ok(()),
    }
}

/// Where a file is, or will be once it is made, with no symbolic link on the way.
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

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why an output cannot be written, as the system says.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(path.display().to_string(), None, format!("cannot be written: {error}"), "")
}

fn refused(flag: &str, path: &Path, what: &str) -> Problem {
    Problem::new(path.display().to_string(), None, format!("{flag} would overwrite {what}"), ALLOWED)
}

fn claims() -> MutexGuard<'static, Vec<Claim>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an ordinary file holds that nobody may overwrite.
fn in_file(path: &Path) -> io::Result<Option<&'static str>> {
    let file = File::open(path)?;
    let mut first = Vec::new();
    (&file).take(state::HEADER.len() as u64).read_to_end(&mut first)?;
    if first.starts_with(&store::MAGIC) {
        return Ok(Some("a store"));
    }
    if first.starts_with(state::HEADER.as_bytes()) {
        return Ok(Some(RUNS));
    }
    // File systems without locks have no file that is locked.
    let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    Ok(is_locked.then_some("a file that a running program has locked"))
}

impl Claim {
    /// What this is that an output at `path` would overwrite.
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
        if metadata.as_ref().is_some_and(|metadata| metadata.file_type().is_char_device()) {
            return Identity::default();
        }
        let destination = destination(path);
        let place = inode(folder(&destination)).zip(destination.file_name());
        Identity { file: inode(path), place: place.map(|(folder, name)| (folder, name.into())) }
    }

    fn is(&self, other: &Identity) -> bool {
        (self.file.is_some() && self.file == other.file) || (self.place.is_some() && self.place == other.place)
    }
}

fn inode(path: &Path) -> Option<Inode> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
