//! What comes in: drives by name or file, and job files, each with all that is wrong with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, Override, shipped};
pub(crate) use phaselink_core::problem::all;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::uncertainty::Draws;
use phaselink_core::workload::{JobFile, fio};

use crate::notes;
use crate::output::claims::{self, Role};

/// Longest drive or job file: whatever is longer is something else.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Longest result of a measurement: some KiB a job, and with json+ some hundred.
const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Longest text from a pipe or a device, of which nobody knows the length beforehand.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// What is read between two looks.
const PIECE_BYTES: u64 = 1 << 20;

/// The drive of this name, or in this file, with the overrides applied. A shipped drive goes before a file of the
/// same name, which is meant with `./`. What the overrides replace is told on the standard error output.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn drive(word: &str, overrides: &[Override]) -> Result<Described, Problems> {
    let described = match shipped::find(word) {
        None if is_path(word) => Described::read(word, &description(word)?, overrides, description)?,
        _ => Described::shipped(word, overrides, description)?,
    };
    described.drive().notes().iter().for_each(|note| notes::tell(&format!("note: {note}")));
    Ok(described)
}

/// The device or drive of this name, or in this file, of which only the way to host memory is asked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn device(word: &str, overrides: &[Override]) -> Result<Drive, Problems> {
    let (file, text) = match shipped::find_device(word) {
        None if is_path(word) => (String::from(word), description(word)?),
        Some(shipped) => (String::from(shipped.file), String::from(shipped.text)),
        None => return Err(shipped::unknown_device(word).into()),
    };
    let device = Drive::device_from_files(&file, &text, overrides, description)?;
    device.notes().iter().for_each(|note| notes::tell(&format!("note: {note}")));
    Ok(device)
}

/// The drive with the constants of one draw; none if they do not go together.
pub(crate) fn drawn(described: &Described, draws: &Draws, draw: usize) -> Option<Drive> {
    described.with(&draws.overrides(described.drive(), draw)).ok().map(Described::into_drive)
}

/// The text of a drive file, of a file that one starts from, or of a plan.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn description(path: &str) -> Result<String, Problem> {
    text(path, DESCRIPTION_BYTES_MAX)
}

/// The drives of several words.
///
/// # Errors
/// Everything that is wrong with any of them.
pub(crate) fn drives(words: &[String], overrides: &[Override]) -> Result<Vec<Described>, Problems> {
    all(words.iter().map(|word| drive(word, overrides)))
}

/// A job file.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn job_file(path: &str) -> Result<JobFile, Problems> {
    fio::parse(path, &text(path, DESCRIPTION_BYTES_MAX)?)
}

/// The text of a result of fio.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn result(path: &str) -> Result<String, Problem> {
    text(path, RESULT_BYTES_MAX)
}

/// Whether a word is meant as a file rather than as a name.
fn is_path(word: &str) -> bool {
    word.ends_with(".toml") || word.contains(std::path::is_separator) || Path::new(word).exists()
}

/// The text of a file.
fn text(path: &str, bytes_max: u64) -> Result<String, Problem> {
    let unreadable = |error: io::Error| Problem::new(path, None, format!("cannot be read: {error}"), "");
    claims::note(Role::Input, Path::new(path));
    let file = File::open(path).map_err(unreadable)?;
    let is_file = file.metadata().map_err(unreadable)?.is_file();
    let bytes_max = if is_file { bytes_max } else { bytes_max.min(STREAM_BYTES_MAX) };
    let bytes = read_text(file, bytes_max).map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Problem::new(path, None, "the file is too long", format!("at most {bytes_max} bytes")));
    }
    // Text has no zeros, though UTF-8 allows them.
    let zero = bytes.iter().position(|byte| *byte == 0);
    let (wrong_at, text) = match String::from_utf8(bytes) {
        Ok(text) => (zero, text),
        Err(error) => (Some(error.utf8_error().valid_up_to()), String::from_utf8_lossy(error.as_bytes()).into()),
    };
    let Some(wrong_at) = wrong_at else { return Ok(text) };
    let line = 1 + text.bytes().take(wrong_at).filter(|byte| *byte == b'\n').count();
    Err(Problem::new(path, line, "bytes that are not text", "UTF-8"))
}

/// The bytes of a file up to its end, or to a piece that shows that it is too long or no text: a device may have no end.
fn read_text(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut rest = file.take(bytes_max + 1);
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        rest.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes)?;
        if bytes.len() == before || bytes[before..].contains(&0) {
            return Ok(bytes);
        }
    }
}
