//! The clients of a device thread, and how that thread passes the time in which they want nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};
use phaselink_ring::status::Status;

use super::client::{self, CheckedCommand, Client};
use super::listener::{Change, Inbox};
use super::serve::Execution;
use crate::device::flusher::Flusher;
use crate::front::pace::{Patience, ROUNDS_IN_VAIN_MAX, SLEEP_MAX};
use crate::model::wall::Wait;

/// All clients.
#[derive(Debug)]
pub struct Clients<'a> {
    pub clients: Vec<Client>,
    /// What the rings of each come to.
    rings: Vec<OwnedFd>,
    inbox: &'a Inbox<'a>,
    /// Flushes by the number of their client.
    flusher: Flusher<(u64, CheckedCommand)>,
    wait: Wait,
    /// Whether the thread has others to serve than these clients.
    pub has_others: bool,
    rounds_in_vain: u32,
    patience: Patience,
}

impl<'a> Clients<'a> {
    /// Nobody yet.
    pub fn new(inbox: &'a Inbox<'a>, flusher: Flusher<(u64, CheckedCommand)>, wait: Wait) -> Clients<'a> {
        Clients {
            clients: Vec::new(),
            rings: Vec::new(),
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
                Change::Came(mut client, rings) => {
                    greet(&mut client);
                    self.clients.push(*client);
                    self.rings.push(rings);
                }
                Change::Gone(number) => self.forget(number),
            }
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(place) = self.clients.iter().position(|client| client.number == number) {
            self.clients.remove(place);
            self.rings.remove(place);
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

    /// Nothing was found. True after [`ROUNDS_IN_VAIN_MAX`] such rounds: time for housekeeping. Between them, the processor is not
    /// told to pause: every command would wait half a pause longer.
    #[inline]
    pub(super) fn idle(&mut self, execution: &mut impl Execution) -> bool {
        self.rounds_in_vain += 1;
        if self.rounds_in_vain < ROUNDS_IN_VAIN_MAX {
            return false;
        }
        self.rounds_in_vain = 0;
        match self.wait {
            _ if self.clients.is_empty() && !self.has_others => self.sleep(SLEEP_MAX, execution),
            wait => match execution.idle_for(wait) {
                span if !span.is_zero() && self.patience.is_over(wait) => self.sleep(span, execution),
                _ => thread::yield_now(),
            },
        }
        true
    }

    /// Sleep until somebody rings. Hosts are told first, and their rings looked at once more after that: either this
    /// sees a command, or its host sees that it has to ring.
    fn sleep(&self, span: Duration, execution: &mut impl Execution) {
        let Clients { clients, rings, inbox, .. } = self;
        clients.iter().for_each(|client| client.tell_mode(MODE_DOORBELL));
        fence(Ordering::SeqCst);
        let any = |client: &Client| (0..client.queues()).any(|queue| client.has_command(queue));
        inbox.wakeup().sleep(rings.iter().map(AsFd::as_fd), span.min(SLEEP_MAX), || {
            clients.iter().any(any) || execution.is_asked()
        });
        clients.iter().for_each(|client| client.tell_mode(MODE_POLL));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use phaselink_ring::layout::Layout;
    use phaselink_ring::shared::memory::Memory;

    use super::*;
    use crate::device::store::{Geometry, Store};
    use crate::device::wakeup::Wakeup;
    use crate::front::shm::share::Part;

    /// Nothing is ever there.
    struct Nothing;

    impl Execution for Nothing {
        const IS_MODELLED: bool = false;

        fn greet(&mut self, _: &mut Client) {}

        fn round(&mut self, _: &mut Clients<'_>) -> bool {
            false
        }

        fn flushed(&mut self, _: Status) {}

        fn idle_for(&self, _: Wait) -> Duration {
            Duration::MAX
        }

        fn rested(&mut self) {}
    }

    fn store() -> std::sync::Arc<Store> {
        std::sync::Arc::new(Store::in_memory(Geometry { capacity_bytes: 1 << 20, block_bytes: 512 }).unwrap())
    }

    #[test]
    fn a_ring_wakes_the_device_thread_though_nobody_else_hears_it() {
        let store = store();
        let (wakeup, layout) = (Wakeup::new().unwrap(), Layout { queues: 1, entries: 8, transfer_bytes: 512 });
        let (memory, _) = Memory::create(layout.memory_bytes()).unwrap();
        let part = Part { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let (mut host, device) = UnixStream::pair().unwrap();
        let inbox = Inbox::new(&wakeup);
        thread::scope(|scope| {
            let flusher = Flusher::of_store(scope, &store, || {}).unwrap();
            let mut clients = Clients::new(&inbox, flusher, Wait::Block);
            clients.clients.push(Client::new(0, memory, layout, part, 0..1));
            clients.rings.push(device.into());
            let (rung, since) = (host.write_all(b"!"), Instant::now());
            clients.sleep(Duration::MAX, &mut Nothing);
            assert!(rung.is_ok() && since.elapsed() < SLEEP_MAX, "it has slept to the end");
        });
    }

    #[test]
    fn a_thread_looks_again_many_times_before_it_thinks_of_anything_else() {
        let (store, wakeup) = (store(), Wakeup::new().unwrap());
        let inbox = Inbox::new(&wakeup);
        thread::scope(|scope| {
            let flusher = Flusher::of_store(scope, &store, || {}).unwrap();
            let mut clients = Clients::new(&inbox, flusher, Wait::Spin);
            let thought = (0..2 * ROUNDS_IN_VAIN_MAX).filter(|_| clients.idle(&mut Nothing)).count();
            assert_eq!(thought, 2);
        });
    }
}
