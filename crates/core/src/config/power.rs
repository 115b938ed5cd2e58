//! Keys of the server's power.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// Server power against core clock and activity.
    pub struct Power ("power") {
        /// The idle server, its package asleep
        idle_w => idle_w: f64 = 100.0, 0.0..=1e5;
        /// What the package adds when a device's reads keep it awake
        package_awake_w => package_awake_w: f64 = 6.0, 0.0..=1e4;
        /// Pause between a device's reads after which the package falls asleep
        package_sleep_us => package_sleep: Span = us(100), ZERO..=LONGEST;
        /// One busy core with its share of cache and ring, at `nominal_ghz`
        core_w => core_w: f64 = 25.0, 0.0..=1e4;
        /// Lowest core voltage, reached at `volts_min_ghz` and held below it
        volts_min => volts_min: f64 = 0.8, 0.1..=3.0;
        /// Core voltage at `nominal_ghz`
        volts_max => volts_max: f64 = 1.2, 0.1..=3.0;
        /// Clock up to which the lowest voltage suffices
        volts_min_ghz => volts_min_ghz: f64 = 1.2, 0.1..=10.0;
    }
}
