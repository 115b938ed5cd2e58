//! A DC Express device in shared memory, from user space: no system call and no interrupt between a thread and its data.
//!
//! `phaselink serve DRIVE --shm PATH` is the device. A [`Client`] connects to the socket at that path, is handed memory
//! of its own, and has a [`Queue`] for each of its threads:
//!
//! ```no_run
//! use phaselink_client::{Client, Options};
//!
//! let mut client = Client::connect("disk.sock".as_ref(), &Options::default())?;
//! let mut queue = client.take_queue().expect("one was asked for");
//! let mut sector = [0; 512];
//! queue.read(4096, &mut sector)?;
//! queue.write(4096, &sector)?;
//! queue.flush()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Threads that wait spin, and yield the processor after some microseconds. `include/phaselink.h` is the interface for
//! C, and `python/phaselink_client.py` the one for Python.
//!
//! The crate [`phaselink_ring`] defines the protocol of the two sides: commands, tags, layout. [`shared`] has the memory:
//! mapping, atomic words, wide copies, the clock that both processes read, and the socket that carries the memory's
//! descriptor. [`chunk`] has the order of memory accesses on which everything depends. Both are public for the device's
//! end: the order holds only if both ends use the same functions.
//!
//! The crate is empty on systems other than Linux, which have no memory files that can be sealed.
#![cfg(target_os = "linux")]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod chunk;
mod connection;
mod ffi;
mod queue;
pub mod shared;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use connection::Connection;
use phaselink_ring::greeting::{Hello, VERSION};
use phaselink_ring::layout::{Layout, TRANSFER_BYTES_MAX};

pub use queue::{Queue, Slot};

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of queues: one for each thread, up to 16.
    pub queues: u32,
    /// Number of commands that can be in flight in each queue, up to 1023.
    pub depth: u32,
    /// Longest transfer in bytes, 512 to 131072; longer requests are split.
    pub transfer_bytes: u32,
    /// True if the client intends to write, which a server may refuse.
    pub writes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { queues: 1, depth: 63, transfer_bytes: TRANSFER_BYTES_MAX, writes: true }
    }
}

/// Connection to a device, with the queues that no thread has taken yet. Queues stay usable after the client is
/// dropped, and the connection ends with the last of them.
#[derive(Debug)]
pub struct Client {
    connection: Arc<Connection>,
    queues: VecDeque<Queue>,
}

impl Client {
    /// Connects to the device whose socket is at `path`.
    ///
    /// # Errors
    /// If there is no device, or it refuses the client.
    pub fn connect(path: &Path, options: &Options) -> io::Result<Client> {
        let Options { queues, depth, transfer_bytes, writes } = *options;
        let layout = Layout { queues, entries: depth.saturating_add(1), transfer_bytes };
        let connection = Arc::new(Connection::open(path, &Hello { version: VERSION, layout, writes })?);
        // Draw the tags at random, so that nobody can write data that ends in a tag on purpose.
        let seed = RandomState::new().hash_one(path);
        let queue = |number: u32| Queue::new(Arc::clone(&connection), number, seed.wrapping_add(number.into()));
        Ok(Client { queues: (0..connection.welcome.layout.queues).map(queue).collect(), connection })
    }

    /// Returns the size in bytes of the drive, as far as this client sees it.
    pub fn capacity_bytes(&self) -> u64 {
        self.connection.welcome.capacity_bytes
    }

    /// Returns the block size in bytes, of which offsets and lengths are multiples.
    pub fn block_bytes(&self) -> u32 {
        self.connection.welcome.block_bytes
    }

    /// Removes and returns the next queue, for use by one thread. None if all are taken.
    pub fn take_queue(&mut self) -> Option<Queue> {
        self.queues.pop_front()
    }
}

/// The front page of the crate, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
