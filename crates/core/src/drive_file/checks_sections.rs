//! Conditions of optional sections of a drive, such as zones, which have an effect once the key that switches them on
//! is above 0.

use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Refuses the first key in `given` that is given, because the key `switch` of its section is 0. `without` describes
/// such a drive in the message, as in "without zones".
pub(super) fn check_unused_keys(
    given: &[(&str, bool)],
    switch: &'static [&'static str; 1],
    without: &str,
) -> Option<BrokenCondition> {
    let (key, _) = given.iter().find(|(_, is_given)| *is_given)?;
    let found = format!("{key} is given {without}, where it has no effect");
    BrokenCondition::when(true, switch, found, format!("{} above 0, or no {key}", switch[0]))
}

/// Checks that the protocol of a drive supports an optional section; `knows` is true for such a drive. The message
/// lists the interfaces that support it.
pub(super) fn interface(
    drive: &Drive,
    section: &str,
    keys: &'static [&'static str],
    knows: impl Fn(&Drive) -> bool,
    lacks: &str,
) -> Option<BrokenCondition> {
    let knows = |interface: &Interface| knows(&Drive { interface: *interface, ..drive.clone() });
    let others = Interface::ALL.iter().copied().filter(&knows).map(Interface::name);
    BrokenCondition::when(
        !knows(&drive.interface),
        keys,
        format!("{section} is given with interface \"{}\", which {lacks}", drive.interface.name()),
        format!("interface {}, or no key of {section}", others.collect::<Vec<_>>().join(", ")),
    )
}
