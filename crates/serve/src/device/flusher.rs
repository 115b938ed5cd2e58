//! Flushes on a thread of their own: a disk takes milliseconds for one, and whoever asks has others to serve meanwhile.
//!
//! A flush begins after it has been asked for, so that it covers everything that was acknowledged before. Those that are
//! asked for while one is under way are done together, by the next one.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use crate::device::store::Store;

/// The thread, as seen by the one that asks. A ticket is what the asker knows a flush by.
#[derive(Debug)]
pub struct Flusher<T> {
    /// None if flushing is nothing to wait for.
    asked: Option<Sender<T>>,
    done: Receiver<(T, io::Result<()>)>,
    /// Flushed as soon as asked for.
    at_once: Vec<T>,
    under_way: usize,
}

impl<T: Send> Flusher<T> {
    /// Flushes of a store; `wake` is called when some are done. A store in memory takes no thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn of_store<'scope>(
        scope: &'scope Scope<'scope, '_>,
        store: &Arc<Store>,
        wake: impl Fn() + Send + 'scope,
    ) -> io::Result<Flusher<T>>
    where
        T: 'scope,
    {
        if store.is_in_memory() {
            let (_, done) = mpsc::channel();
            return Ok(Flusher { asked: None, done, at_once: Vec::new(), under_way: 0 });
        }
        let store = Arc::clone(store);
        Flusher::start(scope, move || store.flush(), wake)
    }

    /// A thread that calls `flush`. It ends with this.
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        flush: impl Fn() -> io::Result<()> + Send + 'scope,
        wake: impl Fn() + Send + 'scope,
    ) -> io::Result<Flusher<T>>
    where
        T: 'scope,
    {
        let (asked, tickets) = mpsc::channel();
        let (answers, done) = mpsc::channel();
        let run = move || {
            while let Ok(first) = tickets.recv() {
                let together: Vec<T> = std::iter::once(first).chain(tickets.try_iter()).collect();
                let failed = flush().err().map(|error| error.kind());
                for ticket in together {
                    // Who asks no more wants no answer.
                    let _ = answers.send((ticket, failed.map_or(Ok(()), |kind| Err(kind.into()))));
                }
                wake();
            }
        };
        thread::Builder::new().name(String::from("flusher")).spawn_scoped(scope, run)?;
        Ok(Flusher { asked: Some(asked), done, at_once: Vec::new(), under_way: 0 })
    }

    /// Flush everything that has been acknowledged so far.
    pub fn ask(&mut self, ticket: T) {
        match &self.asked {
            None => self.at_once.push(ticket),
            // A thread that has failed takes the server with it, answered or not.
            Some(asked) => drop(asked.send(ticket)),
        }
        self.under_way += 1;
    }

    /// The next flush that is done.
    #[inline]
    pub fn take_done(&mut self) -> Option<(T, io::Result<()>)> {
        if self.under_way == 0 {
            return None;
        }
        let at_once = self.at_once.pop().map(|ticket| (ticket, Ok(())));
        let done = at_once.or_else(|| self.done.try_recv().ok())?;
        self.under_way -= 1;
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_goes_on_and_what_is_asked_meanwhile_is_flushed_together_by_the_next() {
        let ((begun, beginnings), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let (woken, wakes) = mpsc::channel();
        thread::scope(|scope| {
            let slow = move || {
                begun.send(()).unwrap();
                ends.recv().unwrap()
            };
            let mut flusher = Flusher::start(scope, slow, move || woken.send(()).unwrap()).unwrap();
            flusher.ask(1);
            beginnings.recv().unwrap();
            flusher.ask(2);
            flusher.ask(3);
            assert!(flusher.take_done().is_none());
            end.send(Ok(())).unwrap();
            wakes.recv().unwrap();
            assert!(matches!(flusher.take_done(), Some((1, Ok(())))));
            assert!(flusher.take_done().is_none(), "what was asked during a flush is not covered by it");
            beginnings.recv().unwrap();
            end.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
            wakes.recv().unwrap();
            for ticket in [2, 3] {
                let (found, flushed) = flusher.take_done().unwrap();
                assert_eq!((found, flushed.unwrap_err().kind()), (ticket, io::ErrorKind::StorageFull));
            }
            assert!(flusher.take_done().is_none());
        });
    }
}
