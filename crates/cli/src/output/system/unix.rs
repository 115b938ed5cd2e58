//! Functions for files and terminals of Linux, macOS and other Unix systems.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{interrupt, notes};

/// Time within which the reader of a pipe usually opens it; `READER_PAUSE` is the pause between two attempts to open
/// the pipe.
const READER_EXPECTED: Duration = Duration::from_secs(1);
const READER_PAUSE: Duration = Duration::from_millis(10);

/// Identity of an existing file: its device and inode.
pub(in crate::output) type FileId = (u64, u64);

/// Returns the identity of the file at a path, or none if it does not exist.
pub(in crate::output) fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// True if several outputs may write to a file of this kind: a terminal, `/dev/null` or another character device.
pub(in crate::output) fn is_shared(kind: FileType) -> bool {
    kind.is_char_device()
}

/// Returns the name of a kind of special file that must never be overwritten, or none for other kinds.
pub(in crate::output) fn protected_file_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_block_device() => Some("a disk"),
        _ => None,
    }
}

/// True if a path can only be that of a directory, by its last character.
pub(in crate::output) fn names_a_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Opens a special file for writing, such as a pipe or a device.
///
/// # Errors
///
/// If the system refuses it.
pub(in crate::output) fn open_special(kind: FileType, path: &Path) -> io::Result<File> {
    if kind.is_fifo() { open_pipe(path) } else { OpenOptions::new().write(true).open(path) }
}

/// Opens a named pipe for writing, as soon as a reader has opened it. An open that blocks would be resumed after a
/// signal, so neither Ctrl-C nor SIGTERM could end the command.
fn open_pipe(path: &Path) -> io::Result<File> {
    let started = Instant::now();
    let mut is_told = false;
    loop {
        let opened = OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {}
            Err(error) => return Err(error),
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file)?;
                rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                return Ok(file);
            }
        }
        interrupt::exit_if_interrupted();
        if !is_told && started.elapsed() > READER_EXPECTED {
            notes::tell(&format!("note: {} is a pipe without a reader: waiting for one", path.display()));
            is_told = true;
        }
        thread::sleep(READER_PAUSE);
    }
}

/// Returns standard output or standard error if `path` leads there. Opened by its name, a file behind it would be
/// replaced, and other output lost.
pub(in crate::output) fn own_stream(path: &Path) -> Option<File> {
    let named = file_id(path)?;
    let streams = [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
    let mut files = streams.into_iter().flatten().map(File::from);
    files.find(|file| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == named))
}

/// Gives a new file the owner and group of the file that it replaces, if the user may.
pub(in crate::output) fn keep_owner(replaced: &fs::Metadata, file: &File) {
    // Only the superuser may change the owner, and only for the superuser the file would have another owner otherwise.
    let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
}

/// Returns the width in columns of the terminal at standard output, or none if that is no terminal.
pub(in crate::output) fn terminal_columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
