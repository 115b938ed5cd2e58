//! Where a served drive is.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phaselink_client::{Client as ShmClient, Options};
use phaselink_core::problem::Problem;
use phaselink_core::workload::Limits;
use phaselink_ring::layout::ENTRIES_MAX;

use crate::front::nbd::client::Client as NbdClient;
use crate::front::nbd::uri::Uri;
use crate::front::shm::CLIENTS_MAX;

/// The address of a served drive, as `phaselink serve` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An export of an NBD server.
    Nbd(Uri),
    /// The socket of a device in shared memory.
    Shm(PathBuf),
}

impl Target {
    /// Read an address: `shm:PATH`, or one of NBD.
    ///
    /// # Errors
    /// If it is none, or one that other machines reach.
    pub fn parse(text: &str) -> Result<Target, Problem> {
        const ALLOWED: &str = "shm:PATH, nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT";
        match text.strip_prefix("shm:") {
            Some("") => Err(Problem::new(text, None, "the socket has no path", ALLOWED)),
            Some(path) => Ok(Target::Shm(path.into())),
            None if text.starts_with("nbd") => Uri::parse(text).map(Target::Nbd),
            None => Err(Problem::new(text, None, "not an address of a served drive", ALLOWED)),
        }
    }

    /// What jobs may ask for there. NBD has no queues, so that only the size of a request limits how many there are;
    /// in shared memory each thread is a client.
    ///
    /// # Errors
    /// If there is no such server.
    pub fn limits(&self) -> io::Result<Limits> {
        match self {
            Target::Nbd(uri) => {
                let client = NbdClient::connect(uri)?;
                let capacity_bytes = client.capacity_bytes;
                client.disconnect()?;
                Ok(limits(capacity_bytes, 1 << 16, 4096, 512))
            }
            Target::Shm(path) => {
                let options = Options { depth: 1, transfer_bytes: 4096, writes: false, ..Options::default() };
                let client = ShmClient::connect(path, &options)?;
                Ok(limits(client.capacity_bytes(), CLIENTS_MAX as u32, ENTRIES_MAX, client.block_bytes()))
            }
        }
    }
}

fn limits(capacity_bytes: u64, queue_pairs: u32, queue_entries: u32, block_bytes: u32) -> Limits {
    Limits { capacity_bytes, queue_pairs, queue_entries, block_bytes, write_block_bytes: block_bytes }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Nbd(uri) => uri.fmt(f),
            Target::Shm(path) => write!(f, "shm:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_kinds_are_read_and_printed_and_others_refused() {
        for text in ["shm:/run/a b", "shm:x.sock", "nbd+unix:///?socket=x"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "shm:", "shm", "x.sock", "nbd://0.0.0.0/"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
