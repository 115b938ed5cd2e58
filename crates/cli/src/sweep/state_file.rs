//! State file with the finished runs of a sweep, which one program at a time may open.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::sweep::state::{HEADER, StateFileRefusal, line, parse_state_line};
use phaselink_studies::sweep::{Figures, Hash};

use crate::output::claims::{self, Role};

/// Maximum length in bytes of a line in a sweep's state file. Each line has some dozens of figures, so that a longer
/// line shows a file of another kind.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Finished runs of a sweep, in memory and in the open state file.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: File,
    runs: BTreeMap<Hash, Figures>,
}

impl StateFile {
    /// Opens or makes the state file of a sweep, locks the file, and reads the finished runs. Cuts off an incomplete
    /// last line; if `fresh` is true, cuts off all runs.
    ///
    /// # Errors
    ///
    /// If the state file cannot be read or written, has another kind of content, or is locked by another sweep.
    pub(super) fn open(path: &Path, fresh: bool) -> Result<StateFile, Problem> {
        let failed = |error: io::Error| state_file_access_problem(path, "opened", &error);
        claims::check_contents(Role::Runs, "--state", path)?;
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(state_file_refusal_problem(path, StateFileRefusal::NoStateFile));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        lock_state_file(path, &file)?;
        let mut state = StateFile { path: path.into(), file, runs: BTreeMap::new() };
        let whole_bytes = state.read(fresh)?;
        state.truncate_to_whole_lines(whole_bytes).map_err(failed)?;
        Ok(state)
    }

    /// Returns the figures of the finished run with this hash, or none if the state file has no such run.
    pub(super) fn figures(&self, hash: Hash) -> Option<&Figures> {
        self.runs.get(&hash)
    }

    /// Adds a finished run to the state file of a sweep.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, for example because the disk is full.
    pub(super) fn add(&mut self, hash: Hash, figures: Figures) -> Result<(), Problems> {
        let written = self.file.write_all(line(hash, &figures).as_bytes());
        written.map_err(|error| state_file_access_problem(&self.path, "written", &error))?;
        self.runs.insert(hash, figures);
        Ok(())
    }

    /// Returns the path of the state file, for messages.
    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Reads the finished runs of a sweep's state file. Returns the length in bytes of the complete lines.
    fn read(&mut self, fresh: bool) -> Result<u64, Problem> {
        let mut reader = BufReader::new(&self.file);
        let mut whole_bytes = 0;
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            let length = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            let length = length.map_err(|error| state_file_access_problem(&self.path, "read", &error))?;
            let text = String::from_utf8_lossy(&bytes);
            let is_header = number == 1;
            match StateFileRefusal::of(&text).filter(|_| is_header) {
                Some(StateFileRefusal::OtherFormat) if fresh => break,
                Some(refusal) => return Err(state_file_refusal_problem(&self.path, refusal)),
                None => {}
            }
            // A last line without a line end was cut off when the program stopped. A line longer than any record is not
            // from this program.
            let is_cut_short = !text.ends_with('\n') && (length as u64) < LINE_BYTES_MAX;
            if is_cut_short || (fresh && !is_header) {
                break;
            }
            match parse_state_line(&text) {
                _ if is_header => {}
                Some((hash, figures)) => drop(self.runs.insert(hash, figures)),
                None => {
                    return Err(Problem::new(self.path(), number, "no finished run", "--fresh, to start again"));
                }
            }
            whole_bytes += length as u64;
        }
        Ok(whole_bytes)
    }

    /// Cuts the state file to its complete lines, and seeks to the end. An empty file gets the header.
    fn truncate_to_whole_lines(&mut self, whole_bytes: u64) -> io::Result<()> {
        self.file.set_len(whole_bytes)?;
        self.file.seek(SeekFrom::End(0))?;
        if whole_bytes == 0 {
            self.file.write_all(HEADER.as_bytes())?;
        }
        Ok(())
    }
}

/// Locks the state file against other sweeps for as long as it is open.
fn lock_state_file(path: &Path, file: &File) -> Result<(), Problem> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Problem::new(path.display().to_string(), None, "another sweep is writing this file", "another --state FILE")
        }
        TryLockError::Error(error) => state_file_access_problem(path, "locked", &error),
    })
}

fn state_file_refusal_problem(path: &Path, refusal: StateFileRefusal) -> Problem {
    let allowed = match refusal {
        StateFileRefusal::OtherFormat => "--fresh, to run all points again, or another --state FILE",
        StateFileRefusal::NoStateFile => "another --state FILE",
    };
    Problem::new(path.display().to_string(), None, refusal.text(), allowed)
}

fn state_file_access_problem(path: &Path, done: &str, error: &io::Error) -> Problem {
    Problem::new(path.display().to_string(), None, format!("cannot be {done}: {error}"), "")
}
