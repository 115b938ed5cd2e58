//! Conditions of sections that give a drive something of its own, such as zones, once one of their keys is above 0.

use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Keys of a section, each with whether it is given, have an effect only if the key that switches the section on is above 0.
pub(super) fn inert(
    given: &[(&str, bool)],
    switch: &'static [&'static str; 1],
    without: &str,
) -> Option<BrokenCondition> {
    let (key, _) = given.iter().find(|(_, is_given)| *is_given)?;
    let found = format!("{key} is given {without}, where it has no effect");
    BrokenCondition::when(true, switch, found, format!("{} above 0, or no {key}", switch[0]))
}

/// The protocol of a drive has what a section describes.
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
