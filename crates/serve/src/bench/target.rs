//! Where a served drive is.

use std::fmt;
use std::io;

use phaselink_core::problem::Problem;
use phaselink_core::workload::Limits;

use super::{Load, Measured};
use crate::front::{KINDS, TargetKind};

/// The address of a served drive, as `phaselink serve` prints it.
pub trait Target: fmt::Debug + fmt::Display {
    /// What jobs may ask for there.
    ///
    /// # Errors
    /// If there is no such server.
    fn limits(&self) -> io::Result<Limits>;

    /// Let each thread of the load have a connection, and see what they measure.
    ///
    /// # Errors
    /// If a connection cannot be made or breaks, or a job asks for transfers that are not taken there.
    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measured)>>;
}

/// Read an address: one of those that front-ends know.
///
/// # Errors
/// If it is none, or one that other machines reach.
pub fn parse(text: &str) -> Result<Box<dyn Target>, Problem> {
    let kinds = || KINDS.iter().filter_map(|kind| kind.target.as_ref());
    let forms = || kinds().map(|TargetKind { form, .. }| *form).collect::<Vec<_>>().join(", ");
    let none = || Err(Problem::new(text, None, "not an address of a served drive", forms()));
    kinds().find_map(|kind| (kind.parse)(text)).unwrap_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_kinds_are_read_and_printed_and_others_refused() {
        for text in ["shm:/run/a b", "shm:x.sock", "nbd+unix:///?socket=x"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in ["", "shm:", "shm", "x.sock", "nbd://0.0.0.0/"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
