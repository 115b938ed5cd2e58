//! An address where one client at a time finds a controller.

use std::fs;
use std::hint;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::connection::{Connection, MESSAGES_MAX};
use super::crew::{Crew, Handed, Lane, Slot};
use super::reach::Reach;
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::device::store::Geometry;
use crate::device::tally::{Tally, Undefined};
use crate::device::wakeup::Wakeup;
use crate::front::pace::{BATCH, Patience, ROUNDS_IN_VAIN_MAX};
use crate::front::socket::bind_unix;
use crate::model::wall::Wait;
use crate::nvme::{AdminHost, Command, Controller, Identity, NextCommand, QueueSet, limits};

/// Name of the socket within a directory, where SPDK's clients look for it.
const SOCKET_IN_DIRECTORY: &str = "cntrl";

/// A socket, and who its controller says it is.
#[derive(Debug)]
pub struct ControllerSocket {
    listener: UnixListener,
    path: PathBuf,
    /// It is in a directory, where user-space drivers look for it. These ring by memory alone.
    is_for_drivers: bool,
    identity: Identity,
    /// Whether what hosts do is looked at for what the specification leaves undefined.
    is_strict: bool,
}

impl ControllerSocket {
    /// Wait for clients of `drive` at `path`, or at `cntrl` within it if it is a directory. `number` tells several fronts
    /// of a drive from each other.
    ///
    /// # Errors
    /// If the path is taken, or the drive is one that [real hosts cannot have](limits::served_limits).
    pub fn bind(path: &Path, drive: &Drive, geometry: Geometry, number: usize) -> Result<ControllerSocket, Problem> {
        let identity = Identity::new(&drive.name, limits::served_limits(drive, geometry)?, number);
        let (is_for_drivers, path) = (path.is_dir(), socket_path(path));
        let bound = bind_unix(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => Ok(ControllerSocket { listener, path, is_for_drivers, identity, is_strict: false }),
            Err(error) => {
                let found = format!("{} cannot be served: {error}", path.display());
                Err(Problem::new("--vfio-user", None, found, ""))
            }
        }
    }

    /// The same, whose controller looks for what hosts do that the specification leaves undefined.
    pub fn strictly(mut self) -> ControllerSocket {
        self.is_strict = true;
        self
    }

    /// Whether it is where user-space drivers look for it, which ring by memory alone.
    pub fn is_for_drivers(&self) -> bool {
        self.is_for_drivers
    }

    /// What clients are offered.
    pub fn limits(&self) -> &Limits {
        &self.identity.limits
    }

    /// The address, as it is announced.
    pub fn address(&self) -> String {
        format!("vfio-user:{}", self.path.display())
    }
}

/// Where the socket is that is served at `path`: there, or in it if it is a directory.
pub fn socket_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(SOCKET_IN_DIRECTORY) } else { path.to_path_buf() }
}

impl Drop for ControllerSocket {
    fn drop(&mut self) {
        // A name that somebody has removed already is as good as removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// A client that has not said what it speaks by then is let go: others wait.
const GREETING_MAX: Duration = Duration::from_secs(1);

/// Rounds after which the sockets are looked at: that costs a system call, and a round a few loads. A client that has just
/// said something says more soon.
const ATTENDED_EVERY: u32 = 512;
const ATTENDED_AGAIN: u32 = 16;

/// A controller, with its client if there is one.
#[derive(Debug)]
pub struct Front<'a> {
    served: &'a ControllerSocket,
    /// The number of the controller, of all that are served.
    pub number: usize,
    pub controller: Controller,
    pub client: Option<Connection>,
    /// Clients so far.
    pub clients_ever: u64,
    is_mappable: bool,
    /// When the client came, or its host was last known to be there.
    heard_at: Instant,
    /// Those who serve some of its queues.
    crew: &'a Crew<'a>,
    /// Sets that stand in the place of those that are lent.
    #[expect(clippy::vec_box, reason = "sets change places, and keep their lines")]
    empty: Vec<Box<QueueSet>>,
    is_lent: bool,
}

impl<'a> Front<'a> {
    /// Nobody has come yet. Clients may ring without telling if the device threads never sleep while they are there.
    pub fn new(served: &'a ControllerSocket, number: usize, wait: Wait, crew: &'a Crew<'a>) -> Front<'a> {
        let is_mappable = wait == Wait::Spin || wait == Wait::Adaptive && served.is_for_drivers;
        let controller = Controller::new(served.identity.clone()).with_queue_sets(crew.sets());
        Front {
            empty: (1..crew.sets()).map(|_| controller.empty_queue_set()).collect(),
            crew,
            is_lent: false,
            number,
            served,
            controller: if served.is_strict { controller.with_strict_checks() } else { controller },
            client: None,
            clients_ever: 0,
            is_mappable,
            heard_at: Instant::now(),
        }
    }

    /// Look after the socket: let a client in, answer what it says, let it go. Whether there was anything.
    pub fn attend(&mut self, device: &Device) -> bool {
        if self.client.is_none() {
            return self.accept(device);
        }
        let any = self.listen();
        self.look_after(device);
        self.lend();
        any
    }

    /// Answer what the client has said; whether it has said anything.
    fn listen(&mut self) -> bool {
        let (mut any, mut has_rung) = (false, false);
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.client.as_mut().and_then(Connection::next_message) else { break };
            any = true;
            match message.only_rings() {
                true => has_rung = true,
                false => self.come_home(),
            }
            if let Some(client) = &mut self.client {
                self.controller.report_queue_errors(client);
                client.answer(message);
            }
        }
        if has_rung {
            self.crew.wake();
        }
        any || self.client.as_ref().is_some_and(Connection::is_over)
    }

    /// Do what the registers ask for, and see whether host and client are still there.
    fn look_after(&mut self, device: &Device) {
        let Some(client) = &mut self.client else { return };
        client.interrupt_again();
        if self.is_lent && self.controller.needs_update(client) {
            self.come_home();
        }
        let Some(client) = &mut self.client else { return };
        self.controller.update(client, &device.store);
        let is_silent = !client.has_agreed() && self.heard_at.elapsed() > GREETING_MAX;
        let is_over = client.is_over() || is_silent;
        if let Some((time, heard)) = self.controller.poll_keep_alive() {
            if heard {
                self.heard_at = Instant::now();
            } else if self.heard_at.elapsed() > time {
                self.come_home();
                self.client.iter_mut().for_each(|client| self.controller.expire_keep_alive(client));
            }
        }
        if is_over {
            self.come_home();
            self.client = None;
            self.controller.power_off();
        }
    }

    /// Lend queues to the threads that they are divided among, if there are any, and nothing of them takes the socket: memory
    /// without a descriptor has to be asked for.
    pub fn lend(&mut self) {
        let Some(client) = self.client.as_mut().filter(|_| !self.is_lent) else { return };
        let sets = self.controller.queue_sets();
        let is_wanted = sets[1..].iter().any(|set| set.has_io_queues());
        let mut is_mapped = |(address, bytes)| client.memory().mapped(address, bytes).is_some();
        if !is_wanted || !sets.iter().flat_map(|set| set.memory_ranges()).all(&mut is_mapped) {
            return;
        }
        for number in 1..self.crew.sets() {
            if !self.controller.queue_sets()[number].has_io_queues() {
                continue;
            }
            let mut set = self.empty.pop().expect("there is one for each");
            self.controller.swap_queue_set(number, &mut set);
            let (client, host, rings_unheard) = (self.clients_ever, client.share(), self.is_mappable);
            let lane = Lane { client, set, host, rings_unheard, is_told: false };
            self.crew.lend(number, lane);
        }
        self.is_lent = true;
    }

    /// From now on, all queues are at home.
    pub fn come_home(&mut self) {
        if !std::mem::take(&mut self.is_lent) {
            return;
        }
        for number in 1..self.crew.sets() {
            let Some(lane) = self.crew.take(number) else { continue };
            let Lane { mut set, host, .. } = *lane;
            self.controller.swap_queue_set(number, &mut set);
            self.empty.push(set);
            if let Some(client) = &mut self.client {
                client.take_back(host);
            }
        }
        self.client.iter_mut().for_each(Connection::have_alone);
    }

    /// The set of a command of this client, at home, and the client.
    pub fn at_home(&mut self, client: u64, command: &Command) -> Option<(&mut QueueSet, &mut Connection)> {
        if self.clients_ever != client || self.client.is_none() {
            return None;
        }
        if self.is_lent && !self.controller.has_submission_queue(command.queue()) {
            self.come_home();
        }
        Some((self.controller.set_of_submission_queue(command.queue()), self.client.as_mut()?))
    }

    /// Answer a command that has waited for the disk, if its client is still there.
    pub fn commit(&mut self, client: u64, command: &Command, flushed: io::Result<()>) -> Status {
        let Some((set, client)) = self.at_home(client, command) else { return Status::ABORT_REQUESTED };
        let status = set.complete_flushed(command, flushed, client);
        set.send_interrupts(client);
        status
    }

    /// Those who serve some of its queues.
    #[inline]
    pub fn crew(&self) -> &'a Crew<'a> {
        self.crew
    }

    /// The sets that this thread serves, and the client.
    #[inline]
    pub fn own(&mut self) -> Option<(&mut [Box<QueueSet>], &mut Connection)> {
        let sets = if self.is_lent { 1 } else { self.crew.sets() };
        Some((&mut self.controller.queue_sets()[..sets], self.client.as_mut()?))
    }

    /// Do what is in the admin queue; whether there was anything.
    #[inline]
    pub fn administer(&mut self, answered: impl FnMut(Status)) -> bool {
        let Some(client) = &mut self.client else { return false };
        self.controller.has_admin_commands(client) && self.administer_some(answered)
    }

    #[cold]
    fn administer_some(&mut self, mut answered: impl FnMut(Status)) -> bool {
        self.come_home();
        let mut any = false;
        for _ in 0..BATCH {
            let Some(client) = &mut self.client else { break };
            let NextCommand::Admin(status) = self.controller.next_admin_command(client) else { break };
            answered(status);
            any = true;
        }
        self.client.iter_mut().for_each(|client| self.controller.send_interrupts(client));
        self.lend();
        any
    }

    /// While one client is there, others wait in the socket.
    fn accept(&mut self, device: &Device) -> bool {
        // A connection that fails before it is made is the client's loss.
        let Ok((socket, _)) = self.served.listener.accept() else { return false };
        self.client = Connection::new(socket, self.is_mappable, self.served.limits(), &device.faults).ok();
        if self.served.is_strict {
            self.client.iter_mut().for_each(|client| client.registers().check_strictly());
        }
        self.clients_ever += 1;
        self.heard_at = Instant::now();
        true
    }

    fn polled(&self) -> PollFd<'_> {
        let fd = self.client.as_ref().map_or(self.served.listener.as_fd(), AsFd::as_fd);
        PollFd::from_borrowed_fd(fd, PollFlags::IN)
    }
}

/// Where a command has been taken from: the controller of one of a thread's sockets, or queues that it has of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Front(usize),
    Seat(usize),
}

/// A place, and which client of its controller: commands of one that has gone are nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub place: Place,
    pub client: u64,
}

/// A command that is done, and answered once it is durable.
#[derive(Debug)]
pub struct Unsaved {
    pub origin: Origin,
    pub command: Command,
    /// When it was taken, if its latency is measured.
    pub started: Option<Instant>,
}

/// Flushes for a thread's commands; it serves others meanwhile.
pub type Disk = Flusher<Unsaved>;

/// Queues of a controller whose socket is another thread's.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    pub crew: &'a Crew<'a>,
    pub slot: &'a Slot,
    /// The number of the controller, of all that are served.
    pub controller: usize,
}

/// What a thread looks after: sockets with their controllers, queues of others, and its own sleep.
#[derive(Debug)]
pub struct Posts<'a> {
    pub fronts: Vec<Front<'a>>,
    pub seats: Vec<Seat<'a>>,
    pub wakeup: &'a Wakeup,
}

/// Room for the largest transfer of any of these.
pub fn space(served: &[ControllerSocket]) -> Vec<u8> {
    let bytes = served.iter().map(|served| served.limits().transfer_bytes_max).max();
    vec![0; bytes.unwrap_or(0) as usize]
}

impl Posts<'_> {
    /// Look after all sockets, and after what takes no looking every round; whether there was anything.
    pub fn attend(&mut self, device: &Device) -> bool {
        let any = self.fronts.iter_mut().fold(false, |any, front| front.attend(device) | any);
        for seat in &self.seats {
            if let Some(mut entered) = seat.slot.enter()
                && let Some(lane) = &mut *entered
            {
                lane.host.interrupt_again();
                lane.set.post_held(&mut lane.host);
                lane.set.send_interrupts(&mut lane.host);
            }
        }
        any
    }

    /// Answer a command that has waited for the disk: its status and when it was begun. Where its queue is not here just now, that
    /// is left to the thread with the socket.
    pub fn commit(&mut self, unsaved: Unsaved, flushed: io::Result<()>) -> Option<(Command, Status, Option<Instant>)> {
        let Unsaved { origin: Origin { place, client }, command, started } = unsaved;
        let status = match place {
            Place::Front(place) => self.fronts[place].commit(client, &command, flushed),
            Place::Seat(place) => {
                let Seat { crew, slot, .. } = self.seats[place];
                let mut entered = slot.enter();
                match entered.as_deref_mut().and_then(Option::as_mut).filter(|lane| lane.client == client) {
                    Some(lane) => lane.commit(&command, flushed),
                    None => {
                        crew.hand(client, Handed::Commit(command, flushed, started));
                        return None;
                    }
                }
            }
        };
        Some((command, status, started))
    }

    /// There is nothing to do for now: give way for a moment, or sleep for up to `time` once no client can ring unheard;
    /// whether the thread has slept.
    ///
    /// # Errors
    /// If the system cannot wait for sockets.
    pub fn rest(&mut self, device: &Device, time: Duration, rounds: &mut Rounds) -> io::Result<bool> {
        let may_sleep = !self.can_be_rung_unheard() && !time.is_zero() && rounds.patience.is_over(rounds.wait);
        if !may_sleep && !self.is_alone() {
            thread::yield_now();
            return Ok(false);
        }
        self.wakeup.begin_sleep();
        let again = match self.ask_to_ring() {
            Asked::Again(again) => again,
            Asked::Busy => {
                self.wakeup.end_sleep();
                return Ok(false);
            }
        };
        let slept = self.sleep(device, again.map_or(time, |again| again.min(time)));
        self.wakeup.end_sleep();
        slept?;
        // Whatever has woken the thread has most likely come through a socket.
        rounds.since_attended = ATTENDED_EVERY;
        Ok(true)
    }

    fn can_be_rung_unheard(&self) -> bool {
        let is_unheard = |seat: &Seat| seat.slot.enter().is_some_and(|lane| lane.iter().any(|lane| lane.rings_unheard));
        self.fronts.iter().any(|front| front.client.is_some() && front.is_mappable) || self.seats.iter().any(is_unheard)
    }

    /// Ask hosts to ring for the next command, and look once more.
    fn ask_to_ring(&mut self) -> Asked {
        let (mut is_busy, mut again) = (false, None);
        let mut note = |next: Option<Duration>| again = [again, next].into_iter().flatten().min();
        for front in &mut self.fronts {
            let Some(client) = &mut front.client else { continue };
            is_busy |= front.controller.request_doorbells(client) || front.crew.has_handed();
            note(client.interrupt_again());
        }
        for seat in &self.seats {
            let Some(mut entered) = seat.slot.enter() else { continue };
            let Some(lane) = &mut *entered else { continue };
            let Lane { set, host, rings_unheard, .. } = &mut **lane;
            // It may have come since it was seen whether any can be rung unheard.
            is_busy |= *rings_unheard || set.request_doorbells(host) || set.has_work(host);
            note(host.interrupt_again());
        }
        if is_busy { Asked::Busy } else { Asked::Again(again) }
    }

    /// Whether nobody is there.
    pub fn is_alone(&self) -> bool {
        let is_empty = |seat: &Seat| seat.slot.enter().is_none();
        self.fronts.iter().all(|front| front.client.is_none()) && self.seats.iter().all(is_empty)
    }

    /// Sleep until something comes through a socket, the wakeup rings, the device is to stop, or the time is over.
    ///
    /// # Errors
    /// If the system cannot wait for sockets.
    fn sleep(&self, device: &Device, time: Duration) -> io::Result<()> {
        let mut polled: Vec<PollFd> = self.fronts.iter().map(Front::polled).collect();
        for fd in [device.stop.as_fd(), self.wakeup.as_fd()] {
            polled.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => Ok(()),
            other => other.map(drop).map_err(io::Error::from),
        }
    }

    /// Let `tally` have what hosts have done that is undefined.
    pub fn count_undefined(&mut self, tally: &mut Tally) {
        for front in &mut self.fronts {
            note_undefined(front.controller.take_undefined(), tally);
        }
        for seat in &self.seats {
            if let Some(mut entered) = seat.slot.enter() {
                entered.iter_mut().for_each(|lane| note_undefined(lane.set.take_undefined(), tally));
            }
        }
    }
}

/// Before a sleep.
enum Asked {
    /// Something has come meanwhile.
    Busy,
    /// Nothing has; an interrupt is to come again after so long, if one is.
    Again(Option<Duration>),
}

fn note_undefined(seen: Vec<(&'static Undefined, u64)>, tally: &mut Tally) {
    seen.into_iter().for_each(|(behaviour, count)| tally.note_undefined(behaviour, count));
}

/// What the device thread does between its rounds over the queues: when it looks at the sockets, and when it rests.
#[derive(Debug)]
pub struct Rounds {
    wait: Wait,
    since_attended: u32,
    in_vain: u32,
    patience: Patience,
}

impl Rounds {
    /// None yet, of a thread that waits like this.
    pub fn new(wait: Wait) -> Rounds {
        Rounds { wait, since_attended: 0, in_vain: 0, patience: Patience::default() }
    }

    /// A round is over: whether it is time to look at the sockets.
    #[inline]
    pub fn is_to_attend(&mut self) -> bool {
        self.since_attended += 1;
        self.since_attended >= ATTENDED_EVERY || self.wait == Wait::Block
    }

    /// They have been looked at; `any` says whether there was anything.
    pub fn attended(&mut self, any: bool) {
        self.since_attended = if any { ATTENDED_EVERY - ATTENDED_AGAIN } else { 0 };
    }

    /// Whether it is time to rest, after a round that has found something or not.
    #[inline]
    pub fn is_to_rest(&mut self, found: bool) -> bool {
        if found {
            self.in_vain = 0;
            self.patience.renew();
            return false;
        }
        self.in_vain += 1;
        if self.in_vain >= ROUNDS_IN_VAIN_MAX || self.wait == Wait::Block {
            self.in_vain = 0;
            return true;
        }
        hint::spin_loop();
        false
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::crew::Handed;
    use super::super::division::Division;
    use super::*;

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };

    /// Sockets of controllers with so many pairs of queues each.
    pub(crate) fn sockets(test: &str, controllers: usize, queue_pairs: u32) -> Vec<ControllerSocket> {
        let mut drive = Drive::shipped("nvme").unwrap();
        drive.nvme.queue_pairs = queue_pairs;
        let bind = |number| {
            let name = format!("phaselink-{test}-{}-{number}.vfio", std::process::id());
            ControllerSocket::bind(&std::env::temp_dir().join(name), &drive, GEOMETRY, number).unwrap()
        };
        (0..controllers).map(bind).collect()
    }

    #[test]
    fn nobody_sleeps_while_another_thread_has_left_something() {
        let served = sockets("left", 1, 1);
        let division = Division::new(&served, 1).unwrap();
        let crews = division.crews();
        let mut posts = division.posts(&crews, Wait::Block).remove(0);
        let host = UnixStream::pair().unwrap().0;
        posts.fronts[0].client = Some(Connection::new(host, false, served[0].limits(), &Default::default()).unwrap());
        assert!(matches!(posts.ask_to_ring(), Asked::Again(None)));
        crews[0].hand(1, Handed::News);
        assert!(matches!(posts.ask_to_ring(), Asked::Busy));
    }

    #[test]
    fn a_socket_goes_with_its_controller() {
        let served = sockets("gone", 1, 1).remove(0);
        let path = served.path.clone();
        assert!(path.exists());
        drop(served);
        assert!(!path.exists());
    }
}
