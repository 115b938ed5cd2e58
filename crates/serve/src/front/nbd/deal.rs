//! Connections that are dealt to several threads, with timing on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags};

use super::ExportSocket;
use super::session::Session;
use super::socket::Stream;
use crate::device::Stop;
use crate::device::mailbox::Mailbox;

/// The threads, as seen by the one that deals.
#[derive(Debug)]
pub(super) struct Deal {
    pub hands: Vec<Hand>,
    /// Connections of all threads.
    open: AtomicUsize,
}

/// What one thread is dealt.
#[derive(Debug)]
pub(super) struct Hand {
    cards: Mailbox<Card>,
    /// Readable when there are some.
    wakeup: OwnedFd,
}

/// A client that has just connected, and the place of what it has connected to.
#[derive(Debug)]
pub(super) struct Card {
    pub stream: Stream,
    pub session: Session,
    pub export: usize,
}

/// A connection counts as long as this is there.
#[derive(Debug)]
pub(super) struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deal {
    /// For so many threads.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(super) fn new(threads: usize) -> io::Result<Deal> {
        let hand = |_| {
            let wakeup = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Hand { cards: Mailbox::default(), wakeup })
        };
        Ok(Deal { hands: (0..threads).map(hand).collect::<io::Result<_>>()?, open: AtomicUsize::new(0) })
    }

    /// Deal whoever connects, in turn, until it is time to stop.
    ///
    /// # Errors
    /// If the system cannot wait for sockets.
    pub(super) fn run(&self, served: &[ExportSocket], stop: &Stop) -> io::Result<()> {
        let mut hands = self.hands.iter().cycle();
        while !stop.is_requested() {
            let mut polled: Vec<PollFd> = served.iter().map(|one| PollFd::new(&one.listener, PollFlags::IN)).collect();
            polled.push(PollFd::new(stop, PollFlags::IN));
            match rustix::event::poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for (export, one) in served.iter().enumerate() {
                let Some((stream, session)) = one.accept(self.open.load(Ordering::Relaxed)) else { continue };
                let Some(hand) = hands.next() else { continue };
                self.open.fetch_add(1, Ordering::Relaxed);
                hand.put(Card { stream, session, export });
            }
        }
        Ok(())
    }

    /// What has been dealt to a thread since it looked last; each connection counts until its second half goes.
    pub(super) fn take(&self, hand: &Hand) -> Vec<(Card, Open<'_>)> {
        // It has not been rung most often, and can be rung again from here on.
        let _ = rustix::io::read(&hand.wakeup, &mut [0; 8]);
        hand.cards.take().into_iter().map(|card| (card, Open(&self.open))).collect()
    }
}

impl Hand {
    fn put(&self, card: Card) {
        self.cards.put(card);
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }
}

impl AsFd for Hand {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}
