//! phaselink on the wall clock: the same controllers as in a simulation, with real bytes, for real hosts.
//!
//! With `phaselink-client`, the only crate with I/O, threads and `unsafe`. It contains no latency constant: what takes how long is the core's to
//! say. A front-end is a function that runs on a thread of its own with a [`Device`](device::Device) at hand: the bytes,
//! the description, the counters and the sign to stop.
//!
//! - [`store`] holds the bytes, in a file or in memory.
//! - [`wall`] drives the core's engine by a clock and records its lag.
//! - [`remote`] lets front-ends on other threads ask that engine.
//! - [`shm`] serves DC Express to user space through shared memory.
//! - [`vfio_user`] serves [`nvme`] to virtual machines and user-space drivers.
//! - [`nbd`] serves them over NBD, and [`bench`] loads what is served.

pub mod bench;
pub mod device;
pub mod flusher;
pub mod mailbox;
pub mod metrics;
pub mod nbd;
pub mod nvme;
pub mod record;
pub mod remote;
pub mod report;
pub mod server;
pub mod shm;
pub mod store;
pub mod tally;
pub mod vfio_user;
pub mod wall;
