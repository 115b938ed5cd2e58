//! Socket of a shared-memory server, and the access of its clients to the drive.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use phaselink_core::problem::Problem;

use crate::device::store::Geometry;
use crate::front::socket::bind_unix_socket;

/// Maximum number of clients of one server, over all its sockets. Each has at most
/// [`phaselink_ring::layout::MEMORY_BYTES_MAX`] of memory.
pub(super) const CLIENTS_MAX: usize = 32;

/// Value of --shm: a socket and the part of the drive behind it, `PATH[,offset=SIZE][,size=SIZE][,readonly]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Path of the Unix socket.
    pub path: PathBuf,
    /// Offset on the drive, in bytes, of the byte that clients see as byte 0.
    pub start: u64,
    /// Number of bytes that clients see; none for everything up to the end of the drive.
    pub bytes: Option<u64>,
    /// True if clients may write to the drive.
    pub writes: bool,
}

/// Part of a drive that the clients of a socket may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveRange {
    /// Offset on the drive, in bytes, of the first byte that clients may access.
    pub start: u64,
    /// Length of the accessible part of the drive, in bytes.
    pub bytes: u64,
    /// Logical block size of the drive, in bytes.
    pub block_bytes: u32,
    /// True if clients may write to the drive.
    pub writes: bool,
}

/// Bound socket of a shared-memory server, with its part of the drive. The socket's file is removed when this is
/// dropped.
#[derive(Debug)]
pub struct ShareSocket {
    /// Listening socket at which clients connect.
    pub listener: UnixListener,
    /// Value of --shm that this socket was made from: path, range of the drive and access.
    pub share: Share,
    /// Part of the drive that clients of this socket reach.
    pub part: DriveRange,
}

impl Share {
    /// Parses a value of --shm.
    ///
    /// # Errors
    /// If the path is missing, or a word is unknown or malformed.
    pub fn parse(text: &str) -> Result<Share, Problem> {
        let allowed = "PATH[,offset=SIZE][,size=SIZE][,readonly], with SIZE as in 4096, 64k, 16m, 1g";
        let problem = |found: String| Problem::new("--shm", None, found, allowed);
        let mut words = text.split(',');
        let path = words.next().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| problem(format!("{text} has no path")))?;
        let mut share = Share { path: path.into(), start: 0, bytes: None, writes: true };
        for word in words {
            let number = |text| size(text).ok_or_else(|| problem(format!("{text} is no size")));
            match word.split_once('=') {
                Some(("offset", text)) => share.start = number(text)?,
                Some(("size", text)) => share.bytes = Some(number(text)?),
                None if word == "readonly" => share.writes = false,
                _ => return Err(problem(format!("{word} is not known"))),
            }
        }
        Ok(share)
    }

    /// Returns the part of a drive with this geometry that the share describes.
    ///
    /// # Errors
    /// If the part reaches beyond the drive, is empty, or begins or ends within a block.
    pub fn part(&self, geometry: Geometry) -> Result<DriveRange, Problem> {
        let Geometry { capacity_bytes, block_bytes } = geometry;
        let bytes = self.bytes.unwrap_or(capacity_bytes.saturating_sub(self.start));
        let end = self.start.checked_add(bytes).filter(|end| *end <= capacity_bytes);
        let block = u64::from(block_bytes);
        match end {
            Some(_) if bytes > 0 && self.start.is_multiple_of(block) && bytes.is_multiple_of(block) => {
                Ok(DriveRange { start: self.start, bytes, block_bytes, writes: self.writes })
            }
            _ => Err(Problem::new(
                "--shm",
                None,
                format!("{self}: {bytes} bytes from {} on", self.start),
                format!("blocks of {block_bytes} bytes within {capacity_bytes}"),
            )),
        }
    }
}

impl ShareSocket {
    /// Creates the listening socket of a share, for a drive with this geometry.
    ///
    /// # Errors
    /// If the share does not fit the drive, or no socket can be created at its path.
    pub fn bind(share: &Share, geometry: Geometry) -> Result<ShareSocket, Problem> {
        let part = share.part(geometry)?;
        let bound = bind_unix_socket(&share.path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(ShareSocket { listener, share: share.clone(), part })
        });
        bound.map_err(|error| Problem::new("--shm", None, format!("{share} cannot be served: {error}"), ""))
    }
}

impl Drop for ShareSocket {
    fn drop(&mut self) {
        // If the file has been removed already, there is nothing to do.
        let _ = fs::remove_file(&self.share.path);
    }
}

impl AsFd for ShareSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shm:{}", self.path.display())
    }
}

fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'm', 'g', 'K', 'M', 'G']);
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };

    #[test]
    fn share_option_has_a_path_range_and_access() {
        let share = Share::parse("x.sock,offset=64k,size=4096,readonly").unwrap();
        assert_eq!(share, Share { path: "x.sock".into(), start: 65536, bytes: Some(4096), writes: false });
        let part = share.part(DRIVE).unwrap();
        assert_eq!(part, DriveRange { start: 65536, bytes: 4096, block_bytes: 512, writes: false });
        let rest = Share::parse("x,offset=1024").unwrap().part(DRIVE).unwrap();
        assert_eq!((rest.bytes, rest.writes), ((1 << 20) - 1024, true));
    }

    #[test]
    fn invalid_share_options_are_refused() {
        for text in ["", ",readonly", "x,write", "x,size=", "x,size=4kk", "x,offset=-1", "x,size=99999999999g"] {
            assert!(Share::parse(text).is_err(), "{text}");
        }
        for text in ["x,offset=1m", "x,offset=1", "x,size=2m", "x,size=100", "x,size=0", "x,offset=9999999999g,size=1g"]
        {
            assert!(Share::parse(text).unwrap().part(DRIVE).is_err(), "{text}");
        }
    }
}
