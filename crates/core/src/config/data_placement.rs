//! Keys of a drive file about data placement, by which hosts say which of their writes belong together.

use crate::config::section::{any, names, section};

section! {
    /// Flexible data placement (FDP, NVMe TP4146). Hosts mark writes with placement handles, and data of one handle is
    /// written to reclaim units of its own. A reclaim unit consists of one flash block of each die. By default the
    /// drive has no data placement.
    pub struct DataPlacement ("placement") {
        /// Number of reclaim unit handles (FDP), each with an open reclaim unit in every reclaim group; 0: the drive
        /// has no data placement
        handles => handles: u8 = 0, 0..=64;
        /// Number of reclaim groups (FDP): data of different groups never shares a reclaim unit, also after garbage
        /// collection; all groups share all dies
        groups => groups: u8 = 1, 1..=127, with handles;
        /// Isolation of placement handles (FDP) in garbage collection: `initial` moves data of all handles of a group
        /// to common reclaim units, `persistent` keeps the data of each handle in reclaim units of its own
        isolation => isolation: PlacementIsolation = PlacementIsolation::Initial, any(), with handles;
    }
}

impl DataPlacement {
    /// True if the drive supports data placement by the host.
    pub fn is_there(&self) -> bool {
        self.handles > 0
    }
}

/// Isolation between the data of different placement handles during garbage collection (types of reclaim unit handles,
/// RUHT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementIsolation {
    /// Initially isolated: garbage collection may mix data of different handles of a group.
    Initial,
    /// Persistently isolated: garbage collection keeps the data of each handle by itself.
    Persistent,
}

names! { PlacementIsolation { "initial" => Initial, "persistent" => Persistent } }
