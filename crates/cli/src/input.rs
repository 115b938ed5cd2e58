//! Reads the inputs of commands: drives by name or file, job files and results. Reports all problems of each.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, KeyOverride, shipped};
use phaselink_core::number::length;
pub(crate) use phaselink_core::problem::all;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::{WrittenJobFile, fio};
use phaselink_studies::report::parse_block_bytes;
use phaselink_studies::uncertainty::ConstantDraws;

use crate::describe::listed;
use crate::notes;
use crate::output::claims::{self, Role};

/// Maximum size in bytes of a drive file, job file or sweep plan. A longer file is of another kind.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Maximum size in bytes of a result file of fio. One job takes some KiB with fio's format json, and some hundred KiB
/// with json+.
const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Maximum size in bytes of an input text from a pipe or a device, whose length is unknown beforehand.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// Number of bytes of an input file that are read between two checks that the file is text.
const PIECE_BYTES: u64 = 1 << 20;

/// Drive that has been read, with changes that the reader has made beside the drive file and the overrides.
struct DriveWithNotes {
    described: Described,
    /// Key that the reader has set to turn interrupts on, because the threads of the chosen stack sleep for
    /// completions; or none.
    interrupts: Option<&'static str>,
    /// True if the stack of the overrides does not fit the drive's interface, so that the drive keeps its own.
    keeps_stack: bool,
}

/// Returns the parser of an option whose value is one of `all`, each under its name.
pub(crate) fn choice<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = move |word: String| all.into_iter().find(|value| name(*value) == word);
    PossibleValuesParser::new(all.map(name)).map(move |word| named(word).expect("the parser knows the names"))
}

/// Returns the drive names of a command line, or the default names if the command line has none.
pub(crate) fn drive_names_or_default(named: &[String], usual: &[&str]) -> Vec<String> {
    match named {
        [] => usual.iter().map(|name| String::from(*name)).collect(),
        named => named.to_vec(),
    }
}

/// Returns the drive of a name or file, with overrides. The name of a shipped drive takes precedence over a file of
/// equal name, for which the user writes `./`. Notes on standard error name replaced keys and assumed sections.
///
/// # Errors
///
/// If the drive or an override is invalid; all problems are listed.
pub(crate) fn drive(word: &str, overrides: &[KeyOverride]) -> Result<Described, Problems> {
    Ok(report_changed_parts(vec![read_drive(word, overrides)?]).remove(0))
}

fn read_drive(word: &str, overrides: &[KeyOverride]) -> Result<DriveWithNotes, Problems> {
    let described = match shipped::find(word) {
        None if is_path(word) => Described::read(word, &description(word)?, overrides, description)?,
        _ => Described::shipped(word, overrides, description)?,
    };
    let (described, interrupts) = match described.with_interrupts() {
        Some((with_interrupts, key)) => (with_interrupts, Some(key)),
        None => (described, None),
    };
    Ok(DriveWithNotes { described, interrupts, keeps_stack: false })
}

/// Reports on standard error which parts of the drives were replaced, assumed or set, and returns the drives.
fn report_changed_parts(drives: Vec<DriveWithNotes>) -> Vec<Described> {
    let tell = |note: String| notes::tell(&format!("note: {note}"));
    for DriveWithNotes { described, .. } in &drives {
        described.drive().notes().into_iter().chain(described.unstated()).for_each(tell);
    }
    let names = |is_meant: &dyn Fn(&DriveWithNotes) -> bool| -> Vec<String> {
        drives.iter().filter(|drive| is_meant(drive)).map(|drive| drive.described.drive().name.clone()).collect()
    };
    let with_interrupts = names(&|drive| drive.interrupts.is_some());
    if let Some(key) = drives.iter().find_map(|drive| drive.interrupts) {
        let names = listed(&with_interrupts);
        tell(format!("{names}: {key} = true, because the threads of the stack sleep until an interrupt"));
    }
    let with_own = names(&|drive| drive.keeps_stack);
    if !with_own.is_empty() {
        let keep = if with_own.len() == 1 {
            "keeps its own stack: the interface takes"
        } else {
            "keep their own stacks: their interfaces take"
        };
        tell(format!("{} {keep} no I/O engines", listed(&with_own)));
    }
    drives.into_iter().map(|drive| drive.described).collect()
}

/// Returns the device or drive of a name or file, for DMA simulations, which need only the path to host memory.
///
/// # Errors
///
/// If the device or an override is invalid; all problems are listed.
pub(crate) fn device(word: &str, overrides: &[KeyOverride]) -> Result<Drive, Problems> {
    let (file, text) = match shipped::find_device(word) {
        None if is_path(word) => (String::from(word), description(word)?),
        Some(shipped) => (String::from(shipped.file), String::from(shipped.text)),
        None => return Err(shipped::unknown_device(word).into()),
    };
    let device = Drive::device_from_files(&file, &text, overrides, description)?;
    device.notes().iter().for_each(|note| notes::tell(&format!("note: {note}")));
    Ok(device)
}

/// Returns the drive with the constants of one random draw, or none if the drawn constants contradict each other.
pub(crate) fn drive_of_draw(described: &Described, draws: &ConstantDraws, draw: usize) -> Option<Drive> {
    described.with(&draws.overrides(described.drive(), draw)).ok().map(Described::into_drive)
}

/// Reads the text of a drive file, a file to which a drive file refers, or the plan of a sweep.
///
/// # Errors
///
/// If the file cannot be read, is too long or is no text.
pub(crate) fn description(path: &str) -> Result<String, Problem> {
    text(path, DESCRIPTION_BYTES_MAX)
}

/// Returns the drives of a list of names and files, with overrides.
///
/// # Errors
///
/// If a drive of the list is invalid; all problems are listed.
pub(crate) fn drives(words: &[String], overrides: &[KeyOverride]) -> Result<Vec<Described>, Problems> {
    Ok(report_changed_parts(all(words.iter().map(|word| read_drive(word, overrides)))?))
}

/// Returns the drives of a comparison, with overrides. A drive without I/O engines that the stack of the overrides
/// makes invalid keeps its own stack, if another drive is valid with that stack.
///
/// # Errors
///
/// If any of the drives is invalid; all problems are listed.
pub(crate) fn drives_to_compare(words: &[String], overrides: &[KeyOverride]) -> Result<Vec<Described>, Problems> {
    let read: Vec<_> = words.iter().map(|word| read_drive(word, overrides)).collect();
    let rest: Vec<KeyOverride> = overrides.iter().filter(|given| !given.is_of("stack")).cloned().collect();
    if rest.len() == overrides.len() || !read.iter().any(Result::is_ok) {
        return Ok(report_changed_parts(all(read)?));
    }
    let beside = |(word, read): (&String, Result<DriveWithNotes, Problems>)| {
        let own = || read_drive(word, &rest).ok().filter(|own| !own.described.drive().protocol().takes_engines());
        read.or_else(|problems| own().map(|own| DriveWithNotes { keeps_stack: true, ..own }).ok_or(problems))
    };
    Ok(report_changed_parts(all(words.iter().zip(read).map(beside))?))
}

/// Reads and parses a job file of fio.
///
/// # Errors
///
/// If the file cannot be read or is invalid; all problems are listed.
pub(crate) fn job_file(path: &str) -> Result<WrittenJobFile, Problems> {
    fio::parse(path, &text(path, DESCRIPTION_BYTES_MAX)?)
}

/// Reads a result file of fio.
///
/// # Errors
///
/// If the file cannot be read, is too long or is no text.
pub(crate) fn result(path: &str) -> Result<String, Problem> {
    text(path, RESULT_BYTES_MAX)
}

/// Parses a block size of a flag, such as `4k`, in bytes.
///
/// # Errors
/// A text that is not a size, and a size of 0.
pub(crate) fn block_size(text: &str) -> Result<u32, String> {
    parse_block_bytes(text).ok_or_else(|| String::from("a size as in 4k"))
}

/// Returns true if a word of the command line means a file, not the name of a drive.
pub(crate) fn is_path(word: &str) -> bool {
    word.ends_with(".toml") || word.contains(std::path::is_separator) || Path::new(word).exists()
}

/// Reads the text of a file of at most `bytes_max` bytes.
fn text(path: &str, bytes_max: u64) -> Result<String, Problem> {
    let unreadable = |error: io::Error| Problem::new(path, None, format!("cannot be read: {error}"), "");
    claims::note(Role::Input, Path::new(path));
    let file = File::open(path).map_err(unreadable)?;
    let is_file = file.metadata().map_err(unreadable)?.is_file();
    let bytes_max = if is_file { bytes_max } else { bytes_max.min(STREAM_BYTES_MAX) };
    let bytes = read_input_text(file, bytes_max).map_err(unreadable)?;
    if length(bytes.len()) > bytes_max {
        return Err(Problem::new(path, None, "the file is too long", format!("at most {bytes_max} bytes")));
    }
    // UTF-8 allows zero bytes, but no text file contains them.
    let zero = bytes.iter().position(|byte| *byte == 0);
    let (wrong_at, text) = match String::from_utf8(bytes) {
        Ok(text) => (zero, text),
        Err(error) => (Some(error.utf8_error().valid_up_to()), String::from_utf8_lossy(error.as_bytes()).into()),
    };
    let Some(wrong_at) = wrong_at else { return Ok(text) };
    let line = 1 + text.bytes().take(wrong_at).filter(|byte| *byte == b'\n').count();
    Err(Problem::new(path, line, "bytes that are not text", "UTF-8"))
}

/// Reads an input file up to its end, or up to the first piece that is too long or contains a zero byte. A device may
/// have no end.
fn read_input_text(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
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
