//! Keys of a drive file that describe the server's electric power consumption.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// Electric power of the server as a function of core clock and activity.
    pub struct Power ("power") {
        /// Power of the idle server while its processor package sleeps; 0: the server's power is not known, and no energy is shown
        idle_w => idle_w: f64 = 0.0, 0.0..=1e5;
        /// Extra power of the processor package while a device's reads of host memory keep it awake
        package_awake_w => package_awake_w: f64 = 6.0, 0.0..=1e4;
        /// Time without a device's read of host memory after which the processor package sleeps
        package_sleep_us => package_sleep: Span = us(100), ZERO..=LONGEST;
        /// Power of one busy core with its share of cache and interconnect, at `host.nominal_ghz`
        core_w => core_w: f64 = 25.0, 0.0..=1e4;
        /// Lowest core voltage, which holds at `volts_min_ghz` and below
        volts_min => volts_min: f64 = 0.8, 0.1..=3.0;
        /// Core voltage at `host.nominal_ghz`
        volts_max => volts_max: f64 = 1.2, 0.1..=3.0;
        /// Highest clock at which the lowest core voltage suffices
        volts_min_ghz => volts_min_ghz: f64 = 1.2, 0.1..=10.0;
    }
}
