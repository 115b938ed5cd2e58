//! Binding of Unix sockets to file names.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Binds a listening Unix socket to `path`. The file of a socket at which no server answers any more is replaced.
pub(crate) fn bind_unix_socket(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
            if !is_socket || UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
}
