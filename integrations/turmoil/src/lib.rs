//! A modelled drive for each host of a [turmoil](https://docs.rs/turmoil) simulation.
//!
//! turmoil draws the latency of its file system from one range for all hosts, and a crash discards what was not synced. Here
//! each host has a described drive: reads, writes and flushes take the drive's time, queue behind each other, and a crash
//! leaves any state that the drive's rules allow.
//!
//! ```
//! use phaselink_embed::Description;
//! use phaselink_turmoil::HostDrive;
//!
//! let drive = HostDrive::open(&Description::shipped("tlc-gen4")?)?;
//! let mut simulation = turmoil::Builder::new().build();
//! let host_drive = drive.clone();
//! simulation.client("host", async move {
//!     host_drive.write(0, &[1; 4096]).await?;
//!     host_drive.flush().await?;
//!     Ok(())
//! });
//! simulation.run()?;
//! println!("{} us", drive.with_drive(|drive| drive.now().since(phaselink_embed::Time::ZERO).as_us()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! turmoil's timers tick in milliseconds: a task goes on in the first millisecond after its operation has completed.
//! [`Done::latency`](phaselink_hosts::Done::latency) is the drive's own time, in picoseconds.

use std::time::Duration;

use phaselink_embed::{Misuse, Span, Time};
use phaselink_hosts::Clock;
use turmoil::Sim;

/// Time of turmoil.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurmoilClock;

/// Drive of a host of turmoil.
pub type HostDrive = phaselink_hosts::HostDrive<TurmoilClock>;

impl Clock for TurmoilClock {
    fn now(&self) -> Time {
        instant(turmoil::sim_elapsed().unwrap_or_default())
    }

    async fn sleep_until(&self, instant: Time) {
        // Wait for at least one step of the timer, so that time advances.
        let wait = instant.as_ps().saturating_sub(self.now().as_ps()).div_ceil(1000).max(1);
        tokio::time::sleep(Duration::from_nanos(wait)).await;
    }
}

fn instant(elapsed: Duration) -> Time {
    Time::ZERO + Span::from_ps(elapsed.as_nanos() as u64 * 1000)
}

/// Crashes a host and cuts the power of its drive, which starts again with a state that the cut may leave, drawn from `seed`.
/// [`Sim::bounce`] starts the host again.
///
/// # Errors
/// If the simulation has run for 106 days.
pub fn crash(simulation: &mut Sim, host: &str, drive: &HostDrive, seed: u64) -> Result<(), Misuse> {
    simulation.crash(host);
    drive.cut_power(instant(simulation.elapsed()), seed)
}
