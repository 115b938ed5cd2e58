//! The clients of a device thread, and how that thread passes the time in which they want nothing.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};
use phaselink_ring::status::Status;

use super::client::{self, CheckedCommand, Client};
use super::listener::{Change, Inbox};
use crate::device::flusher::Flusher;
use crate::front::pace::{Patience, ROUNDS_IN_VAIN_MAX, SLEEP_MAX};
use crate::model::wall::Wait;

/// All clients.
#[derive(Debug)]
pub struct Clients<'a> {
    pub clients: Vec<Client>,
    inbox: &'a Inbox,
    /// Flushes by the number of their client.
    flusher: Flusher<(u64, CheckedCommand)>,
    wait: Wait,
    /// Whether the thread has others to serve than these clients.
    pub has_others: bool,
    rounds_in_vain: u32,
    patience: Patience,
}

impl Clients<'_> {
    /// Nobody yet.
    pub fn new(inbox: &Inbox, flusher: Flusher<(u64, CheckedCommand)>, wait: Wait) -> Clients<'_> {
        Clients {
            clients: Vec::new(),
            inbox,
            flusher,
            wait,
            has_others: false,
            rounds_in_vain: 0,
            patience: Patience::default(),
        }
    }

    /// Let those in who have come, after `greet` has seen them, and forget those who have gone.
    #[inline]
    pub fn update(&mut self, mut greet: impl FnMut(&mut Client)) {
        for change in self.inbox.take() {
            match change {
                Change::Came(mut client) => {
                    greet(&mut client);
                    self.clients.push(*client);
                }
                Change::Gone(number) => self.clients.retain(|client| client.number != number),
            }
        }
    }

    /// The client of this number, if it is still there.
    pub fn find(&mut self, number: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.number == number)
    }

    /// Look at every queue of every client; whether anything was there.
    #[inline(always)]
    pub fn round(&mut self, mut look: impl FnMut(&mut Self, usize, u32) -> bool) -> bool {
        let mut found = false;
        for place in 0..self.clients.len() {
            for queue in 0..self.clients[place].queues() {
                found |= look(self, place, queue);
            }
        }
        found
    }

    /// Flush what the client at `place` has written, for its command; others are served meanwhile.
    pub fn flush(&mut self, place: usize, command: CheckedCommand) {
        self.flusher.ask((self.clients[place].number, command));
    }

    /// Answer the next flush that is done; what has become of it.
    #[inline]
    pub fn answer_flush(&mut self) -> Option<Status> {
        let ((number, command), flushed) = self.flusher.take_done()?;
        let status = client::status(flushed);
        if let Some(client) = self.find(number) {
            client.finish(&command, status, 0);
        }
        Some(status)
    }

    /// Something was found.
    #[inline]
    pub fn busy(&mut self) {
        self.rounds_in_vain = 0;
        self.patience.renew();
    }

    /// Nothing was found, and nothing is due for the `span`. True after [`ROUNDS_IN_VAIN_MAX`] such rounds: time for housekeeping.
    /// Between them, the processor is not told to pause: every command would wait half a pause longer.
    #[inline]
    pub fn idle(&mut self, span: impl FnOnce() -> Duration) -> bool {
        self.rounds_in_vain += 1;
        if self.rounds_in_vain < ROUNDS_IN_VAIN_MAX {
            return false;
        }
        self.rounds_in_vain = 0;
        match self.wait {
            _ if self.clients.is_empty() && !self.has_others => thread::park_timeout(SLEEP_MAX),
            wait => match span() {
                span if !span.is_zero() && self.patience.is_over(wait) => self.sleep(span),
                _ => thread::yield_now(),
            },
        }
        true
    }

    /// Sleep until somebody rings. Hosts are told first, and their rings looked at once more after that: either this
    /// sees a command, or its host sees that it has to ring.
    fn sleep(&self, span: Duration) {
        self.clients.iter().for_each(|client| client.tell_mode(MODE_DOORBELL));
        fence(Ordering::SeqCst);
        let any = |client: &Client| (0..client.queues()).any(|queue| client.has_command(queue));
        if !self.clients.iter().any(any) {
            thread::park_timeout(span.min(SLEEP_MAX));
        }
        self.clients.iter().for_each(|client| client.tell_mode(MODE_POLL));
    }
}
