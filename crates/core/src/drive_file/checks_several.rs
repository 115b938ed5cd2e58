//! Conditions on several drives in one host.

use crate::drive::Drive;
use crate::problem::Broken;

/// All conditions that several drives break.
pub(super) fn broken(drive: &Drive) -> Vec<Broken> {
    match drive.drives {
        0 | 1 => Vec::new(),
        _ => [interface, faults, vectors].iter().filter_map(|check| check(drive)).collect(),
    }
}

fn interface(drive: &Drive) -> Option<Broken> {
    Broken::when(
        !drive.protocol().stands_beside_others(drive),
        &["drives", "interface"],
        format!("drives is {} with {}, whose driver serves one", drive.drives, drive.protocol().title()),
        String::from("drives = 1, or an interface whose driver serves several, without what they would share"),
    )
}

fn faults(drive: &Drive) -> Option<Broken> {
    let found = format!("drives is {} with faults, which name no drive", drive.drives);
    Broken::when(!drive.faults.is_empty(), &["drives", "faults"], found, String::from("one of them"))
}

/// Vectors of interrupts are numbered through all drives.
fn vectors(drive: &Drive) -> Option<Broken> {
    let pairs = drive.limits().queue_pairs;
    Broken::when(
        u64::from(pairs) * u64::from(drive.drives) > u64::from(u16::MAX),
        &["drives"],
        format!("drives is {} with {pairs} queue pairs each", drive.drives),
        format!("at most {} queue pairs in all", u16::MAX),
    )
}
