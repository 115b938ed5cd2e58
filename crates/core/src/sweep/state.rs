//! The file in which a sweep keeps finished runs, one a line, so that it can go on where it was stopped.
//!
//! Lines are JSON objects; the first says what the file is. Only whole lines count: one without an end was
//! being written when the program was stopped.

use serde_json::{Map, Value as Json, json};

use super::hash::Hash;
use crate::results::Figures;

/// First line of every state file, with its end. The format counts up where hashes or lines mean something else.
pub const HEADER: &str = "{\"phaselink\":\"finished runs of a sweep\",\"format\":2}\n";
/// Beginning of the first line, whatever the format.
const KIND: &str = "{\"phaselink\":\"finished runs of a sweep\",\"format\":";

/// Reason why the runs of a file are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRefusal {
    /// File of another format, which another version of the program has written.
    OtherFormat,
    /// No state file at all.
    NoStateFile,
}

impl StateRefusal {
    /// Returns the reason why a file with this first line is not read; none if it is.
    pub fn of(first_line: &str) -> Option<StateRefusal> {
        match first_line {
            line if HEADER.starts_with(line) => None,
            line if line.starts_with(KIND) => Some(StateRefusal::OtherFormat),
            _ => Some(StateRefusal::NoStateFile),
        }
    }

    /// Returns the reason in words.
    pub fn text(self) -> &'static str {
        match self {
            StateRefusal::OtherFormat => {
                "holds runs that another version of phaselink has finished, which are not comparable"
            }
            StateRefusal::NoStateFile => "is no file of a sweep's finished runs, and is left as it is",
        }
    }
}

/// The line of a finished run, with its end.
pub fn line(hash: Hash, figures: &Figures) -> String {
    format!("{}\n", json!({ "hash": hash.to_string(), "figures": figures.to_json() }))
}

/// The run that a whole line tells of. None if it tells of none, or of one without a figure that there is now.
pub fn parse_line(line: &str) -> Option<(Hash, Figures)> {
    let object: Map<String, Json> = serde_json::from_str(line).ok()?;
    let hash = Hash::parse(object.get("hash")?.as_str()?)?;
    Some((hash, Figures::from_json(object.get("figures")?.as_object()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Drive;
    use crate::engine::simulation::simulate;
    use crate::workload::Job;

    #[test]
    fn a_line_reads_back_and_none_of_its_beginnings_does() {
        let (drive, jobs) = (Drive::shipped("nvme").unwrap(), [Job { ios: Some(20), ..Job::named("a") }]);
        let (hash, figures) = (Hash::of(&drive, &jobs, 1), Figures::of(&simulate(&drive, &jobs, 1).unwrap()));
        let line = line(hash, &figures);
        assert_eq!(parse_line(line.trim_end()), Some((hash, figures)));
        for end in 0..line.len() - 1 {
            assert_eq!(parse_line(&line[..end]), None, "{}", &line[..end]);
        }
        assert_eq!(parse_line(HEADER), None);
        let earlier = HEADER.replace('2', "1");
        let refusals = ["", HEADER, &HEADER[..9], &earlier, "drive = 'nvme'"].map(StateRefusal::of);
        let [.., other, none] = refusals;
        assert_eq!((other, none), (Some(StateRefusal::OtherFormat), Some(StateRefusal::NoStateFile)));
        assert_eq!(refusals[..3], [None; 3]);
    }
}
