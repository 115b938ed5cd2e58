//! Keys of a drive file that describe the server's electric power consumption.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, us};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Electric power of the server as a function of core clock and activity.
    pub struct Power ("power") {
        /// Power of the idle server while its processor package sleeps; 0: unknown, so that results have no power and
        /// no energy of the server
        idle_w => idle_w: f64 = 0.0, 0.0..=1e5;
        /// Extra power of the processor package while a device's reads of host memory keep it awake
        package_awake_w => package_awake_w: f64 = 6.0, 0.0..=1e4;
        /// Time after the last device read of host memory until the processor package sleeps
        package_sleep_us => package_sleep: Span = us(100), ZERO..=LONGEST;
        /// Power of one busy core of the host at `host.nominal_ghz`, with its share of cache and interconnect
        core_w => core_w: f64 = 25.0, 0.0..=1e4;
        /// Lowest core voltage, which applies at clocks of `power.volts_min_ghz` and below
        volts_min => volts_min: f64 = 0.8, 0.1..=3.0;
        /// Core voltage at `host.nominal_ghz`
        volts_max => volts_max: f64 = 1.2, 0.1..=3.0;
        /// Highest core clock at which the lowest core voltage (`power.volts_min`) suffices
        volts_min_ghz => volts_min_ghz: f64 = 1.2, 0.1..=10.0;
    }
    conditions [Power::check_volts]
}

impl Power {
    /// Checks that the lowest core voltage is no higher than the highest one.
    fn check_volts(&self) -> Option<BrokenCondition> {
        let (low, high) = (self.volts_min, self.volts_max);
        BrokenCondition::when(
            low > high,
            &["power.volts_min", "power.volts_max"],
            format!("power.volts_min is {low} with power.volts_max {high}"),
            String::from("power.volts_min no higher than power.volts_max"),
        )
    }
}
