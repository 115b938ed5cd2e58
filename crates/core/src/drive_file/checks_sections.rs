//! Condition of all optional sections of a drive, such as zones: the protocol has to support them.

use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Checks that the protocol of a drive supports an optional section; `knows` is true for such a drive. The message
/// lists the interfaces that support it.
pub(super) fn interface(
    drive: &Drive,
    section: &str,
    keys: &[&'static str],
    knows: impl Fn(&Drive) -> bool,
    lacks: &str,
) -> Option<BrokenCondition> {
    let knows = |interface: &Interface| knows(&Drive { interface: *interface, ..drive.clone() });
    let others = Interface::ALL.iter().copied().filter(&knows).map(Interface::name);
    BrokenCondition::when(
        !knows(&drive.interface),
        keys,
        format!("{section} is given with interface \"{}\", {lacks}", drive.interface.name()),
        format!("interface {}, or no key of {section}", others.collect::<Vec<_>>().join(", ")),
    )
}
