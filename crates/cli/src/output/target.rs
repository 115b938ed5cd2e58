//! Output files of a command, which are written as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use phaselink_core::problem::{Problem, Problems};

use super::claims::{self, Role, unwritable};
use super::system;

/// Maximum number of names that are tried for a temporary output file, since killed programs may have left their files.
const PARTIAL_FILES_MAX: usize = 100;

/// File that a command is going to write. The command checks first that it is writable, and changes it only at the end,
/// so that a failing command leaves an old file as it is.
#[derive(Debug)]
pub(crate) struct Target {
    flag: &'static str,
    path: PathBuf,
    way: WriteMethod,
}

/// Method of writing an output file.
#[derive(Debug)]
enum WriteMethod {
    /// Writes the output under a temporary name in the destination's folder, and renames the complete file to this
    /// path.
    Beside(PathBuf),
    /// Writes directly to the output, which is a pipe, a terminal, or the process's own standard output.
    Direct(File),
}

/// Output file that is being written.
#[derive(Debug)]
pub(crate) struct UnfinishedOutput {
    target: Target,
    /// Path of the temporary file, or none if the output is written directly.
    partial: Option<PathBuf>,
}

impl Target {
    /// Checks that `path` can be written for the option `flag`, without changing an existing file.
    ///
    /// # Errors
    ///
    /// If the path cannot be written, or writing would destroy a file: one that this command reads, serves or writes
    /// elsewhere, a store, a socket, or a file in use.
    pub(crate) fn create(flag: &'static str, path: &Path) -> Result<Target, Problem> {
        claims::check_claims(flag, path)?;
        let way = write_method(flag, path)?;
        claims::note(Role::Output(flag), path);
        Ok(Target { flag, path: path.into(), way })
    }

    /// Writes a text as the whole content of the output file.
    ///
    /// # Errors
    ///
    /// If a write fails, for example because the disk is full. An existing file is then unchanged.
    pub(crate) fn write(self, text: &str) -> Result<(), Problems> {
        let (mut file, unfinished) = self.begin()?;
        match file.write_all(text.as_bytes()) {
            Ok(()) => Ok(unfinished.finish(&file)?),
            Err(error) => Err(unfinished.give_up(&error).into()),
        }
    }

    /// Begins to write an output file. Returns the open file, and the handle that finishes the output.
    ///
    /// # Errors
    ///
    /// If no temporary file can be made.
    pub(crate) fn begin(self) -> Result<(File, UnfinishedOutput), Problem> {
        let begun = match &self.way {
            WriteMethod::Direct(file) => file.try_clone().map(|file| (file, None)),
            WriteMethod::Beside(destination) => {
                create_partial_file(destination).map(|(file, partial)| (file, Some(partial)))
            }
        };
        let (file, partial) = begun.map_err(|error| unwritable(&self.path, &error))?;
        Ok((file, UnfinishedOutput { target: self, partial }))
    }
}

impl UnfinishedOutput {
    /// Renames the finished temporary file to its destination, after fsync. Does nothing if the output was written
    /// directly.
    ///
    /// # Errors
    ///
    /// If the file cannot be renamed, or the destination must not be overwritten. The problem names the temporary file.
    pub(crate) fn finish(self, file: &File) -> Result<(), Problem> {
        let (WriteMethod::Beside(destination), Some(partial)) = (&self.target.way, &self.partial) else {
            return Ok(());
        };
        // The file at the destination may have been replaced in the meantime, for example by a store, so check it
        // again.
        let flag = self.target.flag;
        let checked = claims::check_contents(Role::Output(flag), flag, destination);
        checked.map_err(|problem| self.problem_with_kept_file(problem))?;
        let settled = copy_permissions(destination, file).and_then(|()| file.sync_all());
        let renamed = settled.and_then(|()| fs::rename(partial, destination));
        renamed.map_err(|error| self.problem_with_kept_file(unwritable(&self.target.path, &error)))
    }

    /// Removes the temporary file, and returns the problem of a failed write.
    pub(crate) fn give_up(self, error: &io::Error) -> Problem {
        if let Some(partial) = &self.partial {
            // If the removal fails, report only the original error, which matters more.
            let _ = fs::remove_file(partial);
        }
        unwritable(&self.target.path, error)
    }

    /// Returns the path of the temporary file, or of the output if it is written directly.
    pub(crate) fn path(&self) -> &Path {
        self.partial.as_deref().unwrap_or(&self.target.path)
    }

    fn problem_with_kept_file(&self, problem: Problem) -> Problem {
        Problem {
            found: format!("{}; what was to be written is in {}", problem.found, self.path().display()),
            ..problem
        }
    }
}

/// Creates a directory, with its parents.
///
/// # Errors
///
/// If the system refuses it.
pub(crate) fn create_directory(path: &Path) -> Result<(), Problem> {
    fs::create_dir_all(path).map_err(|error| unwritable(path, &error))
}

/// Returns the method of writing `path`, and checks that it can be written. Files keep their contents.
fn write_method(flag: &'static str, path: &Path) -> Result<WriteMethod, Problem> {
    let failed = |error: io::Error| unwritable(path, &error);
    if let Some(stream) = system::own_stream(path) {
        return Ok(WriteMethod::Direct(stream));
    }
    claims::check_contents(Role::Output(flag), flag, path)?;
    let exists = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return system::open_special(metadata.file_type(), path).map(WriteMethod::Direct).map_err(failed);
        }
        found => found.is_ok(),
    };
    if exists {
        // A rename would replace a read-only file, so check that the file can be written.
        OpenOptions::new().write(true).open(path).map_err(failed)?;
    } else if system::names_a_directory(path) {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let destination = claims::destination(path);
    let (_, partial) = create_partial_file(&destination).map_err(failed)?;
    fs::remove_file(partial).map_err(failed)?;
    Ok(WriteMethod::Beside(destination))
}

/// Creates a temporary file beside `destination`: `NAME.partial`, or `NAME.2.partial` and so on if a killed program has
/// left one.
fn create_partial_file(destination: &Path) -> io::Result<(File, PathBuf)> {
    let name = destination.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    for number in 1..=PARTIAL_FILES_MAX {
        let mut partial = name.to_os_string();
        partial.push(if number == 1 { String::from(".partial") } else { format!(".{number}.partial") });
        let partial = destination.with_file_name(partial);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&partial) {
            Ok(file) => return Ok((file, partial)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many files beside it that end in .partial"))
}

/// Gives a new file the owner and the permissions of the file that it replaces.
fn copy_permissions(replaced: &Path, file: &File) -> io::Result<()> {
    let Ok(metadata) = fs::metadata(replaced) else { return Ok(()) };
    system::keep_owner(&metadata, file);
    file.set_permissions(metadata.permissions())
}
