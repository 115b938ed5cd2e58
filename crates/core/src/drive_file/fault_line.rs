//! Reader of one fault rule in one line, for a drive that is being served. A rule is a table of `[[faults]]` in a drive
//! file, or a line of a fault timeline.

use crate::config::document::{Place, Value, parse_value};
use crate::config::{Fault, FaultTimeline, fault_timeline, list};
use crate::drive::Drive;
use crate::drive_file::checks_faults;
use crate::problem::Problems;

/// Form of a fault rule, as an example for error messages.
const FORM: &str = "one table of [[faults]] in one line, as in { action = \"error\", operation = \"read\", every = 4 }";

impl Drive {
    /// Reads a fault rule for this drive: a line of a fault timeline, as in `at=2s for=500ms stall`, or a rule's table.
    /// The table stands as in `faults=[…]` on the command line; its braces may be left out. `place` stands for the file
    /// name in error messages.
    ///
    /// # Errors
    /// All problems of the rule by itself, and of the rule on this drive.
    ///
    /// ```
    /// # use phaselink_core::drive::Drive;
    /// let drive = Drive::shipped("nvme").unwrap();
    /// let fault = drive.fault_from_line("control", "action = \"delay\", delay_us = 50, every = 3")?;
    /// assert_eq!((fault.every, fault.delay.as_us()), (3, 50.0));
    /// let wrong = drive.fault_from_line("control", "{ action = \"delay\" }").unwrap_err();
    /// assert!(wrong.to_string().contains("delay_us is 0"));
    /// # Ok::<(), phaselink_core::problem::Problems>(())
    /// ```
    pub fn fault_from_line(&self, place: &str, line: &str) -> Result<Fault, Problems> {
        let (at, line) = (Place::whole(place), line.trim());
        if fault_timeline::is_line(line) {
            return self.fault_from_lines(at, line);
        }
        let braced = if line.starts_with('{') { String::from(line) } else { format!("{{ {line} }}") };
        let wrong = |found: String| Problems::from(at.problem(found, FORM));
        let node = parse_value(&at, &braced).map_err(|error| wrong(format!("`{line}` is no fault rule: {error}")))?;
        match &node.value {
            Value::Table(table) if !table.is_empty() => {}
            _ => return Err(wrong(format!("`{line}` is no fault rule"))),
        }
        let mut problems = Vec::new();
        let fault: Fault = list::read_list_table(&node, &mut problems);
        if problems.is_empty() {
            let broken = checks_faults::broken_by(self, 1, &fault);
            problems.extend(broken.map(|broken| at.problem(broken.found, broken.allowed)));
        }
        Problems(problems).or(fault)
    }

    /// Reads one event of a fault timeline as a fault rule, and checks it on this drive; `at` is the place for
    /// messages.
    fn fault_from_lines(&self, at: Place, line: &str) -> Result<Fault, Problems> {
        let timeline = FaultTimeline::read_lines([(at.clone(), line)].into_iter()).map_err(Problems)?;
        let Some(fault) = timeline.0.into_iter().next() else {
            let found = format!("`{line}` is no fault");
            return Err(at.problem(found, "at=TIME for=TIME and a kind of fault, as in at=2s for=500ms stall").into());
        };
        let broken = checks_faults::broken_by(self, 1, &fault);
        Problems(broken.map(|broken| at.problem(broken.found, broken.allowed)).into_iter().collect()).or(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FaultAction, FaultOperation};

    fn read(line: &str) -> Result<Fault, String> {
        Drive::shipped("nvme").unwrap().fault_from_line("control", line).map_err(|problems| problems.to_string())
    }

    #[test]
    fn fault_rule_is_read_with_or_without_braces() {
        let rule = r#"action = "error", operation = "read", first = 2"#;
        let expected = Fault { operation: FaultOperation::Read, first: 2, ..Fault::default() };
        assert_eq!(read(rule), Ok(expected.clone()));
        assert_eq!(read(&format!("  {{ {rule} }} ")), Ok(expected));
        assert_eq!(read(r#"action = "slow-bank", bank = 3, factor = 2"#).unwrap().action, FaultAction::SlowBank);
    }

    #[test]
    fn invalid_fault_line_of_a_drive_is_refused_with_allowed_values() {
        for (line, found) in [
            ("", "is no fault rule; allowed: one table"),
            ("{}", "is no fault rule"),
            ("3", "is no fault rule"),
            ("{ action = \"error\" }, { action = \"error\" }", "is no fault rule"),
            ("action = \"eror\"", "did you mean error?"),
            ("evry = 2", "unknown key evry in [faults], did you mean every?"),
            ("action = \"slow-bank\", factor = 2, bank = 4", "bank is 4; allowed: 0 to 3"),
            ("action = \"error\", delay_us = 3", "delay_us has no meaning for this action"),
        ] {
            let problem = read(line).unwrap_err();
            assert!(problem.starts_with("control: ") && problem.contains(found), "{line}: {problem}");
        }
    }
}
