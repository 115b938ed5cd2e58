//! Power of the whole server against core clock and activity.
//!
//! Figure 6 of the DC Express paper (section 4.1) shows latency of 512 B reads and server power
//! against the clock of the one core that spins, on an E5-2690 with all other cores disabled. Its
//! curves are lost; the text keeps four statements: latency falls as the clock rises; the joules of
//! a read are nearly flat at low clocks, where the idle power of the server dominates; their
//! minimum lies not at the lowest clock but near 2 GHz; and the endpoint's constant polling adds
//! about six percent to the idle power.
//!
//! What stands on which ground:
//!
//! - *given*: the six percent, as `package_awake_w / idle_w`: device reads that never pause keep the
//!   package from its sleep states.
//! - *assumed*: dynamic power grows as the clock times the voltage squared (the charge and discharge
//!   of a fixed capacitance), and voltage falls in a straight line with the clock down to a floor.
//!   The voltages are typical of the processor's generation.
//! - *fitted*: `idle_w` sets the scale only, as the paper prints no watts; `core_w` against it, with
//!   the share of the latency that follows the clock, places the minimum near 2 GHz.

/// Power parameters of a server, resolved from its description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerPowerModel {
    /// Power of the idle server, its processor package asleep, in watts.
    pub idle_w: f64,
    /// Power that the package adds while a device's reads keep it awake, in watts.
    pub package_awake_w: f64,
    /// Power of one busy core with its share of cache and ring, at `nominal_ghz`, in watts.
    pub core_w: f64,
    /// Clock in GHz at which `core_w` and `volts_max` hold.
    pub nominal_ghz: f64,
    /// Lowest core voltage in volts, which suffices up to `volts_min_ghz`.
    pub volts_min: f64,
    /// Core voltage in volts at `nominal_ghz`.
    pub volts_max: f64,
    /// Clock in GHz up to which the lowest core voltage suffices.
    pub volts_min_ghz: f64,
}

impl ServerPowerModel {
    /// Returns the core voltage at a clock: flat up to `volts_min_ghz`, then on the straight line through
    /// (`nominal_ghz`, `volts_max`), above the nominal clock too. Constant at `volts_max` if the nominal clock is not
    /// above `volts_min_ghz`, as there is no line then.
    pub fn core_volts_at(&self, core_ghz: f64) -> f64 {
        let range_ghz = self.nominal_ghz - self.volts_min_ghz;
        if range_ghz <= 0.0 {
            return self.volts_max;
        }
        let share = ((core_ghz - self.volts_min_ghz) / range_ghz).max(0.0);
        self.volts_min + share * (self.volts_max - self.volts_min)
    }

    /// Returns the power in watts of one busy core at a clock: `core_w` times the ratio of clocks and the square of the
    /// ratio of voltages.
    pub fn core_w(&self, core_ghz: f64) -> f64 {
        let volts_ratio = self.core_volts_at(core_ghz) / self.volts_max;
        self.core_w * (core_ghz / self.nominal_ghz) * volts_ratio * volts_ratio
    }

    /// Returns the power in watts of the server with `busy_cores_mean` cores busy on average at `core_ghz`, its package
    /// kept awake for `awake_share` (0 to 1) of the time.
    pub fn server_w(&self, busy_cores_mean: f64, core_ghz: f64, awake_share: f64) -> f64 {
        self.idle_w + self.package_awake_w * awake_share + self.core_w(core_ghz) * busy_cores_mean
    }
}

/// Returns the energy of one I/O in joules at `iops` I/Os a second; `None` if there are none.
pub fn joules_per_io(server_w: f64, iops: f64) -> Option<f64> {
    (iops > 0.0).then(|| server_w / iops)
}

impl From<&crate::drive::Drive> for ServerPowerModel {
    fn from(drive: &crate::drive::Drive) -> ServerPowerModel {
        let power = &drive.power;
        ServerPowerModel {
            idle_w: power.idle_w,
            package_awake_w: power.package_awake_w,
            core_w: power.core_w,
            nominal_ghz: drive.host.nominal_ghz,
            volts_min: power.volts_min,
            volts_max: power.volts_max,
            volts_min_ghz: power.volts_min_ghz,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: ServerPowerModel = ServerPowerModel {
        idle_w: 100.0,
        package_awake_w: 6.0,
        core_w: 25.0,
        nominal_ghz: 3.8,
        volts_min: 0.8,
        volts_max: 1.2,
        volts_min_ghz: 1.2,
    };

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn voltage_is_flat_below_its_knee_and_linear_above() {
        assert_close(SERVER.core_volts_at(0.1), 0.8);
        assert_close(SERVER.core_volts_at(1.2), 0.8);
        assert_close(SERVER.core_volts_at(2.5), 1.0);
        assert_close(SERVER.core_volts_at(3.8), 1.2);
        assert_close(SERVER.core_volts_at(5.1), 1.4);
    }

    #[test]
    fn voltage_is_constant_without_a_clock_range() {
        let fixed = ServerPowerModel { volts_min_ghz: 3.8, ..SERVER };
        assert_close(fixed.core_volts_at(1.0), 1.2);
        assert_close(fixed.core_w(1.9), 12.5);
    }

    #[test]
    fn core_power_is_clock_times_voltage_squared() {
        assert_close(SERVER.core_w(3.8), 25.0);
        assert_close(SERVER.core_w(2.5), 62.5 / 5.472);
        assert_close(SERVER.core_w(1.2), 3.508_771_929_824_561);
    }

    #[test]
    fn polling_idle_server_draws_the_published_six_percent_more() {
        assert_close(SERVER.server_w(0.0, 3.8, 0.0), 100.0);
        assert_close(SERVER.server_w(0.0, 3.8, 1.0), 106.0);
        assert_close(SERVER.server_w(0.5, 3.8, 0.25), 100.0 + 1.5 + 12.5);
    }

    #[test]
    fn joules_per_io_are_watts_over_rate() {
        assert_eq!(joules_per_io(140.0, 700_000.0), Some(0.0002));
        assert_eq!(joules_per_io(140.0, 0.0), None);
    }

    /// The shape of figure 6, if 89 ns of the paper's 1.4 us at 3.8 GHz follow the clock.
    #[test]
    fn read_energy_is_flat_at_low_clocks_and_least_near_2_ghz() {
        let joules = |core_ghz: f64| {
            let latency_us = 1.311 + 0.089 * 3.8 / core_ghz;
            let server_w = SERVER.server_w(1.0, core_ghz, 1.0);
            joules_per_io(server_w, 1e6 / latency_us).unwrap()
        };
        let clocks = (12..=38).map(|step| f64::from(step) / 10.0);
        let best_ghz = clocks.min_by(|a, b| joules(*a).total_cmp(&joules(*b))).unwrap();
        assert!((1.7..=2.3).contains(&best_ghz), "{best_ghz}");
        assert!(joules(1.2) / joules(best_ghz) < 1.05);
        assert!(joules(3.8) / joules(best_ghz) > 1.05);
    }
}
