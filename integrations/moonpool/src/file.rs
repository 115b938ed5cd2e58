//! Open file: bytes at a position, whose operations are futures until the drive has carried them out.

use std::fmt;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncSeek, AsyncWrite};
use moonpool_core::{OpenOptions, StorageFile, TimeProvider};

use crate::DriveStorage;

/// Most bytes of one operation.
const TRANSFER_BYTES_MAX: usize = 131_072;

type Operation<R> = Pin<Box<dyn Future<Output = io::Result<R>> + Send>>;

/// Operation of a file that the drive has not carried out.
enum Pending {
    Read(Operation<Vec<u8>>),
    Write(Operation<u64>, usize),
}

/// File of a process.
pub struct DriveFile<T> {
    storage: DriveStorage<T>,
    place: usize,
    position: u64,
    reads: bool,
    writes: bool,
    appends: bool,
    pending: Mutex<Option<Pending>>,
}

// No field depends on being pinned, whatever the type of the clock is.
impl<T> Unpin for DriveFile<T> {}

impl<T> fmt::Debug for DriveFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveFile")
            .field("place", &self.place)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<T: TimeProvider> DriveFile<T> {
    pub(crate) fn new(storage: DriveStorage<T>, place: usize, options: &OpenOptions) -> DriveFile<T> {
        DriveFile {
            storage,
            place,
            position: 0,
            reads: options.is_read(),
            writes: options.is_write() || options.is_append(),
            appends: options.is_append(),
            pending: Mutex::new(None),
        }
    }
}

fn denied(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("the file was not opened for {what}"))
}

impl<T: TimeProvider> AsyncRead for DriveFile<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.reads {
            return Poll::Ready(Err(denied("reading")));
        }
        let DriveFile { storage, place, position, pending, .. } = &mut *self;
        let pending = pending.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !matches!(pending, Some(Pending::Read(_))) {
            let bytes = into.len().min(TRANSFER_BYTES_MAX);
            *pending = Some(Pending::Read(Box::pin(storage.clone().read_at(*place, *position, bytes))));
        }
        let Some(Pending::Read(operation)) = pending else { return Poll::Pending };
        let Poll::Ready(done) = operation.as_mut().poll(context) else { return Poll::Pending };
        *pending = None;
        let data = done?;
        let bytes = data.len().min(into.len());
        into[..bytes].copy_from_slice(&data[..bytes]);
        *position += bytes as u64;
        Poll::Ready(Ok(bytes))
    }
}

impl<T: TimeProvider> AsyncWrite for DriveFile<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if !self.writes {
            return Poll::Ready(Err(denied("writing")));
        }
        let DriveFile { storage, place, position, appends, pending, .. } = &mut *self;
        let pending = pending.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !matches!(pending, Some(Pending::Write(..))) {
            let data = &data[..data.len().min(TRANSFER_BYTES_MAX)];
            let at = (!*appends).then_some(*position);
            let operation = storage.clone().write_at(*place, at, data.to_vec());
            *pending = Some(Pending::Write(Box::pin(operation), data.len()));
        }
        let Some(Pending::Write(operation, bytes)) = pending else { return Poll::Pending };
        let Poll::Ready(done) = operation.as_mut().poll(context) else { return Poll::Pending };
        let bytes = *bytes;
        *pending = None;
        *position = done?;
        Poll::Ready(Ok(bytes))
    }

    /// Returns at once: a write completes when the drive has it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<T: TimeProvider> AsyncSeek for DriveFile<T> {
    fn poll_seek(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        let (base, step) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(step) => (self.position, step),
            SeekFrom::End(step) => (self.storage.directory().length(self.place), step),
        };
        let found = base.checked_add_signed(step);
        Poll::Ready(match found {
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "a seek to a place before the file")),
            Some(position) => {
                self.position = position;
                Ok(position)
            }
        })
    }
}

impl<T: TimeProvider> StorageFile for DriveFile<T> {
    async fn sync_all(&self) -> io::Result<()> {
        self.storage.sync(self.place).await
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.storage.sync(self.place).await
    }

    async fn size(&self) -> io::Result<u64> {
        Ok(self.storage.directory().length(self.place))
    }

    async fn set_len(&self, size: u64) -> io::Result<()> {
        self.storage.set_length(self.place, size).await
    }
}
