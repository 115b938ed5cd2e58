//! Timelines of faults for programs that have them on a command line or in a file: one event on each line.

use crate::config::{FaultTimeline, fault_timeline};
use crate::problem::Problems;

/// True if a text is a line of a timeline of faults, as in `at=2s for=500ms stall`, rather than the table of a fault
/// rule or a path.
pub fn is_line(text: &str) -> bool {
    fault_timeline::is_line(text.trim())
}

/// Reads a timeline of faults from the text of a file. Returns its lines without comments and empty lines.
///
/// # Errors
/// All problems of the lines, with their places.
///
/// ```
/// use phaselink_core::drive_file::fault_timeline::lines_without_comments;
/// assert_eq!(lines_without_comments("t.faults", "# once\nat=2s for=500ms stall # half a second\n").unwrap(), ["at=2s for=500ms stall"]);
/// let wrong = lines_without_comments("t.faults", "\nat=2s for=500ms stal\n").unwrap_err().to_string();
/// assert!(wrong.starts_with("t.faults:2: ") && wrong.contains("did you mean stall?"));
/// ```
pub fn lines_without_comments(file: &str, text: &str) -> Result<Vec<String>, Problems> {
    FaultTimeline::read_text(file, text).map_err(Problems)?;
    let line = |line: &str| String::from(line.split('#').next().unwrap_or("").trim());
    Ok(text.lines().map(line).filter(|line| !line.is_empty()).collect())
}
