//! Conditions on a network between host and drive.

use super::checks_sections;
use crate::drive::Drive;
use crate::problem::BrokenCondition;

/// Checks that a drive behind a network speaks a protocol that fabrics carry.
pub(super) fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let lacks = "which fabrics do not carry";
    let crosses = |drive: &Drive| drive.protocol().crosses_fabrics();
    checks_sections::interface(drive, "[fabric]", &["interface"], crosses, lacks).filter(|_| drive.fabric.is_there())
}
