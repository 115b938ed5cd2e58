//! The clients of a device thread, and how that thread passes the time in which they want nothing.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};
use phaselink_ring::status::Status;

use super::keeper::{Change, Inbox};
use super::peer::{self, Order, Peer};
use crate::device::flusher::Flusher;
use crate::model::wall::Wait;

/// Looks in vain before the thread gives way for a moment, so that whoever shares its processor gets on too.
pub const LOOKS: u32 = 1024;
/// Longest sleep: a stop is noticed then, if not before.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// All clients.
#[derive(Debug)]
pub struct Crowd<'a> {
    pub peers: Vec<Peer>,
    inbox: &'a Inbox,
    /// Flushes by the number of their client.
    flusher: Flusher<(u64, Order)>,
    wait: Wait,
    /// Whether the thread has others to serve than these clients.
    pub has_others: bool,
    looks: u32,
}

impl Crowd<'_> {
    /// Nobody yet.
    pub fn new(inbox: &Inbox, flusher: Flusher<(u64, Order)>, wait: Wait) -> Crowd<'_> {
        Crowd { peers: Vec::new(), inbox, flusher, wait, has_others: false, looks: 0 }
    }

    /// Let those in who have come, after `greet` has seen them, and forget those who have gone.
    #[inline]
    pub fn update(&mut self, mut greet: impl FnMut(&mut Peer)) {
        for change in self.inbox.take() {
            match change {
                Change::Came(mut peer) => {
                    greet(&mut peer);
                    self.peers.push(*peer);
                }
                Change::Gone(number) => self.peers.retain(|peer| peer.number != number),
            }
        }
    }

    /// The client of this number, if it is still there.
    pub fn find(&mut self, number: u64) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|peer| peer.number == number)
    }

    /// Flush what the client at `place` has written, for its order; others are served meanwhile.
    pub fn flush(&mut self, place: usize, order: Order) {
        self.flusher.ask((self.peers[place].number, order));
    }

    /// Answer the next flush that is done; what has become of it.
    #[inline]
    pub fn answer_flush(&mut self) -> Option<Status> {
        let ((number, order), flushed) = self.flusher.take_done()?;
        let status = peer::status(flushed);
        if let Some(peer) = self.find(number) {
            peer.finish(&order, status, 0);
        }
        Some(status)
    }

    /// Something was found.
    #[inline]
    pub fn busy(&mut self) {
        self.looks = 0;
    }

    /// Nothing was found, and nothing is due for the `span`. True after [`LOOKS`] such rounds: time for housekeeping.
    /// Between them, the processor is not told to pause: every command would wait half a pause longer.
    #[inline]
    pub fn idle(&mut self, span: impl FnOnce() -> Duration) -> bool {
        self.looks += 1;
        if self.looks < LOOKS {
            return false;
        }
        self.looks = 0;
        match self.wait {
            _ if self.peers.is_empty() && !self.has_others => thread::park_timeout(SLEEP_MAX),
            Wait::Spin => thread::yield_now(),
            Wait::Block => self.sleep(span()),
        }
        true
    }

    /// Sleep until somebody rings. Hosts are told first, and their rings looked at once more after that: either this
    /// sees a command, or its host sees that it has to ring.
    fn sleep(&self, span: Duration) {
        self.peers.iter().for_each(|peer| peer.tell_mode(MODE_DOORBELL));
        fence(Ordering::SeqCst);
        let any = |peer: &Peer| (0..peer.queues()).any(|queue| peer.has_command(queue));
        if !self.peers.iter().any(any) {
            thread::park_timeout(span.min(SLEEP_MAX));
        }
        self.peers.iter().for_each(|peer| peer.tell_mode(MODE_POLL));
    }
}
