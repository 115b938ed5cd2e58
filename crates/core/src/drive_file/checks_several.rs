//! Conditions on descriptions with several drives in one host.

use crate::drive::Drive;
use crate::problem::BrokenCondition;

/// Returns all conditions that a description with several drives breaks; none for one drive.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    match drive.drives {
        0 | 1 => Vec::new(),
        _ => [interface, faults, check_interrupt_vector_count].iter().filter_map(|check| check(drive)).collect(),
    }
}

/// Checks that the driver of the interface serves several drives.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        !drive.protocol().stands_beside_others(drive),
        &["drives", "interface"],
        format!("drives is {} with {}, whose driver serves one", drive.drives, drive.protocol().title()),
        String::from("drives = 1, or an interface whose driver serves several drives without shared state"),
    )
}

/// Checks that several drives have no fault rules, because these do not name a drive.
fn faults(drive: &Drive) -> Option<BrokenCondition> {
    let found = format!("drives is {} with faults, which do not say which drive they affect", drive.drives);
    BrokenCondition::when(
        !drive.faults.is_empty(),
        &["drives", "faults"],
        found,
        String::from("drives = 1, or no faults"),
    )
}

/// Checks that all queue pairs of several drives have an interrupt vector: vectors are numbered through all drives.
fn check_interrupt_vector_count(drive: &Drive) -> Option<BrokenCondition> {
    let pairs = drive.limits().queue_pairs;
    BrokenCondition::when(
        u64::from(pairs) * u64::from(drive.drives) > u64::from(u16::MAX),
        &["drives"],
        format!("drives is {} with {pairs} queue pairs each", drive.drives),
        format!("at most {} queue pairs in all", u16::MAX),
    )
}
