//! State file of a sweep: finished runs, one per line, so that an interrupted sweep can continue.
//!
//! Each line is a JSON object; the first one is a header. Only lines with a newline count: a line without one was being
//! written when the program stopped.

use serde_json::{Map, Value as Json, json};

use super::hash::Hash;
use crate::results::Figures;

/// First line of every state file, with its newline. The format number increases whenever hashes or lines change their
/// meaning.
pub const HEADER: &str = "{\"phaselink\":\"finished runs of a sweep\",\"format\":2}\n";
/// Beginning of the first line of a state file, whatever its format number.
const KIND: &str = "{\"phaselink\":\"finished runs of a sweep\",\"format\":";

/// Reason why a sweep does not use the finished runs in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFileRefusal {
    /// File has another format number: another version of the program has written it.
    OtherFormat,
    /// File is not a state file of a sweep.
    NoStateFile,
}

impl StateFileRefusal {
    /// Returns the reason why a file with this first line cannot be used as a state file; `None` if it can. A truncated
    /// header is valid.
    pub fn of(first_line: &str) -> Option<StateFileRefusal> {
        match first_line {
            line if HEADER.starts_with(line) => None,
            line if line.starts_with(KIND) => Some(StateFileRefusal::OtherFormat),
            _ => Some(StateFileRefusal::NoStateFile),
        }
    }

    /// Returns the reason why a state file is not used, as part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            StateFileRefusal::OtherFormat => {
                "holds runs that another version of phaselink has finished, which are not comparable"
            }
            StateFileRefusal::NoStateFile => "is no file of a sweep's finished runs, and is left as it is",
        }
    }
}

/// Returns the state-file line of a finished run, with its newline.
pub fn line(hash: Hash, figures: &Figures) -> String {
    format!("{}\n", json!({ "hash": hash.to_string(), "figures": figures.figures_to_json() }))
}

/// Parses a line of a state file into the hash and the figures of a run. `None` if the line is invalid or lacks a
/// figure that runs have today.
pub fn parse_state_line(line: &str) -> Option<(Hash, Figures)> {
    let object: Map<String, Json> = serde_json::from_str(line).ok()?;
    let hash = Hash::parse(object.get("hash")?.as_str()?)?;
    Some((hash, Figures::figures_from_json(object.get("figures")?.as_object()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive::Drive;
    use phaselink_core::engine::simulation::simulate;
    use phaselink_core::workload::Job;

    #[test]
    fn state_line_reads_back_and_truncated_lines_are_refused() {
        let (drive, jobs) = (Drive::shipped("nvme").unwrap(), [Job { ios: Some(20), ..Job::named("a") }]);
        let (hash, figures) = (Hash::of(&drive, &jobs, 1), Figures::of(&simulate(&drive, &jobs, 1).unwrap()));
        let line = line(hash, &figures);
        assert_eq!(parse_state_line(line.trim_end()), Some((hash, figures)));
        for end in 0..line.len() - 1 {
            assert_eq!(parse_state_line(&line[..end]), None, "{}", &line[..end]);
        }
        assert_eq!(parse_state_line(HEADER), None);
        let earlier = HEADER.replace('2', "1");
        let refusals = ["", HEADER, &HEADER[..9], &earlier, "drive = 'nvme'"].map(StateFileRefusal::of);
        let [.., other, none] = refusals;
        assert_eq!((other, none), (Some(StateFileRefusal::OtherFormat), Some(StateFileRefusal::NoStateFile)));
        assert_eq!(refusals[..3], [None; 3]);
    }
}
