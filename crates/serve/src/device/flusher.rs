//! Flushes of a store on a thread of their own. A flush takes a disk milliseconds, during which the submitting thread
//! serves other requests.
//!
//! A flush begins after it has been submitted, so that it covers every write that completed before. Flushes that are
//! submitted while one is in progress are done together by the next one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use crate::device::store::Store;

/// Flushes that one thread submits, each with a ticket, which the flusher returns with the result.
#[derive(Debug)]
pub struct Flusher<T> {
    way: FlushMethod<T>,
    pending: usize,
}

/// Method by which a flusher flushes the store.
#[derive(Debug)]
enum FlushMethod<T> {
    /// The submitting thread flushes the store itself.
    InPlace { store: Arc<Store>, flushed: VecDeque<(T, io::Result<()>)> },
    /// Another thread flushes the store; tickets and results go through channels.
    Thread { submitted: Sender<T>, flushed: Receiver<(T, io::Result<()>)> },
}

impl<T: Send> Flusher<T> {
    /// Returns a flusher that flushes the store while the caller submits.
    pub fn in_place(store: &Arc<Store>) -> Flusher<T> {
        let way = FlushMethod::InPlace { store: Arc::clone(store), flushed: VecDeque::new() };
        Flusher { way, pending: 0 }
    }

    /// Returns a flusher with a thread, which calls `wake` when flushes are done. For a store in memory, it has no
    /// thread.
    ///
    /// # Errors
    ///
    /// If the system refuses a thread.
    pub fn flusher_of_store<'scope>(
        scope: &'scope Scope<'scope, '_>,
        store: &Arc<Store>,
        wake: impl Fn() + Send + 'scope,
    ) -> io::Result<Flusher<T>>
    where
        T: 'scope,
    {
        if store.is_in_memory() {
            return Ok(Flusher::in_place(store));
        }
        let store = Arc::clone(store);
        Flusher::start(scope, move || store.flush(), wake)
    }

    /// Starts a thread that calls `flush` for submitted tickets, and `wake` after it. The thread ends when the flusher
    /// is dropped.
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        flush: impl Fn() -> io::Result<()> + Send + 'scope,
        wake: impl Fn() + Send + 'scope,
    ) -> io::Result<Flusher<T>>
    where
        T: 'scope,
    {
        let (submitted, tickets) = mpsc::channel();
        let (results, flushed) = mpsc::channel();
        let run = move || {
            while let Ok(first) = tickets.recv() {
                let together: Vec<T> = std::iter::once(first).chain(tickets.try_iter()).collect();
                let failed = flush().err().map(|error| error.kind());
                for ticket in together {
                    // If the receiver has been dropped, nobody needs the result.
                    let _ = results.send((ticket, failed.map_or(Ok(()), |kind| Err(kind.into()))));
                }
                wake();
            }
        };
        thread::Builder::new().name(String::from("flusher")).spawn_scoped(scope, run)?;
        Ok(Flusher { way: FlushMethod::Thread { submitted, flushed }, pending: 0 })
    }

    /// Submits a flush, which covers every write that has completed so far. If `range` (offset, length in bytes) is
    /// given, only these bytes need to be flushed.
    pub fn submit(&mut self, ticket: T, range: Option<(u64, u64)>) {
        self.pending += 1;
        match &mut self.way {
            FlushMethod::InPlace { store, flushed } => {
                let result = range.map_or_else(|| store.flush(), |(offset, bytes)| store.flush_range(offset, bytes));
                flushed.push_back((ticket, result));
            }
            // If the thread has failed, the server ends anyway, so ignore the error.
            FlushMethod::Thread { submitted, .. } => drop(submitted.send(ticket)),
        }
    }

    /// Returns the ticket and the result of the next flush that is done, or none if none is.
    #[inline]
    pub fn take_completed_flush(&mut self) -> Option<(T, io::Result<()>)> {
        if self.pending == 0 {
            return None;
        }
        let done = match &mut self.way {
            FlushMethod::InPlace { flushed, .. } => flushed.pop_front()?,
            FlushMethod::Thread { flushed, .. } => flushed.try_recv().ok()?,
        };
        self.pending -= 1;
        Some(done)
    }

    /// Returns true if no submitted flush is pending.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_submitted_during_a_flush_are_merged_into_the_next_one() {
        let ((begun, beginnings), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let (woken, wakes) = mpsc::channel();
        thread::scope(|scope| {
            let slow = move || {
                begun.send(()).unwrap();
                ends.recv().unwrap()
            };
            let mut flusher = Flusher::start(scope, slow, move || woken.send(()).unwrap()).unwrap();
            flusher.submit(1, None);
            beginnings.recv().unwrap();
            flusher.submit(2, None);
            flusher.submit(3, None);
            assert!(flusher.take_completed_flush().is_none());
            end.send(Ok(())).unwrap();
            wakes.recv().unwrap();
            assert!(matches!(flusher.take_completed_flush(), Some((1, Ok(())))));
            assert!(flusher.take_completed_flush().is_none(), "what was submitted during a flush is not covered by it");
            beginnings.recv().unwrap();
            end.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
            wakes.recv().unwrap();
            for ticket in [2, 3] {
                let (found, flushed) = flusher.take_completed_flush().unwrap();
                assert_eq!((found, flushed.unwrap_err().kind()), (ticket, io::ErrorKind::StorageFull));
            }
            assert!(flusher.take_completed_flush().is_none());
        });
    }
}
