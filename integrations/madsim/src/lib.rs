//! A modelled drive for each node of a [madsim](https://docs.rs/madsim) simulation.
//!
//! ```
//! use madsim::runtime::Runtime;
//! use phaselink_embed::Description;
//! use phaselink_madsim::DriveSim;
//!
//! let runtime = Runtime::with_seed_and_config(1, madsim::Config::default());
//! runtime.add_simulator::<DriveSim>();
//! let node = runtime.create_node().build();
//! runtime.block_on(async move {
//!     let drives = DriveSim::current();
//!     drives.give(node.id(), &Description::shipped("tlc-gen4").unwrap()).unwrap();
//!     let task = node.spawn(async {
//!         let drive = phaselink_madsim::drive().unwrap();
//!         drive.write(0, &[1; 4096]).await.unwrap();
//!         drive.flush().await.unwrap();
//!     });
//!     task.await.unwrap();
//!     println!("{:?}", drives.drive(node.id()).unwrap().with_drive(|drive| drive.summary()));
//! });
//! ```
//!
//! `Handle::kill` cuts the power of a node's drive, which starts again with a state that the cut may leave, drawn from madsim's
//! seed. A task goes on as soon as its operation has completed, to 100 ns: madsim's own timers tick in milliseconds.

#[cfg(not(madsim))]
compile_error!("madsim simulates only with RUSTFLAGS='--cfg madsim'");

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use madsim::Config;
use madsim::plugin::{Simulator, node, simulator};
use madsim::rand::{GlobalRng, RngCore};
use madsim::task::{NodeId, yield_now};
use madsim::time::TimeHandle;
use phaselink_embed::{Description, Problems, Span, Time};
use phaselink_hosts::Clock;

/// Least time for which a timer of madsim waits.
const TIMER_PS: u64 = 1_000_000_000;

/// Time of madsim.
#[derive(Clone, Copy, Debug, Default)]
pub struct MadsimClock;

/// Drive of a node of madsim.
pub type HostDrive = phaselink_hosts::HostDrive<MadsimClock>;

impl Clock for MadsimClock {
    fn now(&self) -> Time {
        instant(TimeHandle::current().elapsed())
    }

    /// Waits by a timer as long as it does not overshoot, and then by yielding, each of which takes 50 to 100 ns of madsim's time.
    async fn sleep_until(&self, instant: Time) {
        let left = || instant.as_ps().saturating_sub(self.now().as_ps());
        if left() > 2 * TIMER_PS {
            madsim::time::sleep(Duration::from_nanos((left() - TIMER_PS) / 1000)).await;
        }
        yield_now().await;
        while left() > 0 {
            yield_now().await;
        }
    }
}

fn instant(elapsed: Duration) -> Time {
    Time::ZERO + Span::from_ps(elapsed.as_nanos() as u64 * 1000)
}

/// Simulator of the drives of all nodes: `runtime.add_simulator::<DriveSim>()`.
pub struct DriveSim {
    drives: Mutex<BTreeMap<NodeId, HostDrive>>,
    random: GlobalRng,
    time: TimeHandle,
}

impl std::fmt::Debug for DriveSim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriveSim").finish_non_exhaustive()
    }
}

impl Simulator for DriveSim {
    fn new(random: &GlobalRng, time: &TimeHandle, _: &Config) -> DriveSim {
        DriveSim { drives: Mutex::default(), random: random.clone(), time: time.clone() }
    }

    /// Cuts the power of a node's drive when the node is killed.
    fn reset_node(&self, node: NodeId) {
        if let Some(drive) = self.drive(node) {
            let seed = self.random.clone().next_u64();
            // The call fails only later than 106 days after the start, when all operations fail as well.
            let _ = drive.cut_power(instant(self.time.elapsed()), seed);
        }
    }
}

impl DriveSim {
    /// Returns the simulator of the current runtime.
    ///
    /// # Panics
    /// If the runtime has no such simulator.
    pub fn current() -> Arc<DriveSim> {
        simulator::<DriveSim>()
    }

    /// Gives a node a new drive, which stays its own until it is given another one.
    ///
    /// # Errors
    /// If the drive cannot follow power cuts.
    pub fn give(&self, node: NodeId, description: &Description) -> Result<HostDrive, Problems> {
        let drive = HostDrive::open(description)?;
        self.drives.lock().unwrap_or_else(PoisonError::into_inner).insert(node, drive.clone());
        Ok(drive)
    }

    /// Returns the drive of a node, if it has one.
    pub fn drive(&self, node: NodeId) -> Option<HostDrive> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }
}

/// Returns the drive of the current task's node, if it has one.
pub fn drive() -> Option<HostDrive> {
    DriveSim::current().drive(node())
}
