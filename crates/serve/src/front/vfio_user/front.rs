//! An address where one client at a time finds a controller.

use std::fs;
use std::hint;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use super::connection::Connection;
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::device::store::{Geometry, Store};
use crate::device::tally::Tally;
use crate::front::pace::{Patience, ROUNDS_IN_VAIN_MAX};
use crate::front::socket::bind_unix;
use crate::model::wall::Wait;
use crate::nvme::{Command, Controller, Host, Identity, offer};

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
    /// If the path is taken, or the drive is one that [real hosts cannot have](offer::limits).
    pub fn bind(path: &Path, drive: &Drive, geometry: Geometry, number: usize) -> Result<ControllerSocket, Problem> {
        let identity = Identity::new(&drive.name, offer::limits(drive, geometry)?, number);
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
    pub controller: Controller,
    pub client: Option<Connection>,
    /// Clients so far.
    pub clients_ever: u64,
    is_mappable: bool,
    /// When the client came, or its host was last known to be there.
    heard_at: Instant,
}

impl Front<'_> {
    /// Nobody has come yet. Clients may ring without telling if the device thread never sleeps while they are there.
    pub fn new(served: &ControllerSocket, wait: Wait) -> Front<'_> {
        let is_mappable = wait == Wait::Spin || wait == Wait::Adaptive && served.is_for_drivers;
        let controller = Controller::new(served.identity.clone());
        Front {
            served,
            controller: if served.is_strict { controller.watched() } else { controller },
            client: None,
            clients_ever: 0,
            is_mappable,
            heard_at: Instant::now(),
        }
    }

    /// Look after the socket: let a client in, answer what it says, let it go. Whether there was anything.
    pub fn attend(&mut self, device: &Device) -> bool {
        let Some(client) = &mut self.client else { return self.accept(device) };
        let any = client.attend();
        client.interrupt_again();
        self.controller.update(client, &device.store);
        let is_silent = !client.has_agreed() && self.heard_at.elapsed() > GREETING_MAX;
        if let Some((time, heard)) = self.controller.keep_alive() {
            if heard {
                self.heard_at = Instant::now();
            } else if self.heard_at.elapsed() > time {
                self.controller.give_up(client);
            }
        }
        if client.is_over() || is_silent {
            self.client = None;
            self.controller.power_off();
        }
        any
    }

    /// While one client is there, others wait in the socket.
    fn accept(&mut self, device: &Device) -> bool {
        // A connection that fails before it is made is the client's loss.
        let Ok((socket, _)) = self.served.listener.accept() else { return false };
        self.client = Connection::new(socket, self.is_mappable, self.served.limits(), &device.faults).ok();
        if self.served.is_strict {
            self.client.iter_mut().for_each(|client| client.registers().watch());
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

/// A command that is done, and answered once it is durable.
#[derive(Debug)]
pub struct Unsaved {
    place: usize,
    /// Which client of that front: commands of one that has gone are nobody's.
    client: u64,
    pub command: Command,
    /// When it was taken, if its latency is measured.
    pub started: Option<Instant>,
}

/// Flushes for the commands of all fronts; the device thread serves other commands meanwhile.
#[derive(Debug)]
pub struct Disk {
    flusher: Flusher<Unsaved>,
    /// Wakes the device thread when it sleeps.
    bell: Arc<OwnedFd>,
}

impl Disk {
    /// The disk behind a store.
    ///
    /// # Errors
    /// If the system gives no thread or no descriptor.
    pub fn new<'scope>(scope: &'scope Scope<'scope, '_>, store: &Arc<Store>) -> io::Result<Disk> {
        let bell = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let rung = Arc::clone(&bell);
        let wake = move || {
            // A counter that is full is readable already.
            let _ = rustix::io::write(&rung, &1u64.to_ne_bytes());
        };
        Ok(Disk { flusher: Flusher::of_store(scope, store, wake)?, bell })
    }

    /// Let a command of a front be answered when everything up to now is on the disk.
    pub fn save(&mut self, fronts: &[Front], place: usize, command: Command, started: Option<Instant>) {
        self.flusher.ask(Unsaved { place, client: fronts[place].clients_ever, command, started });
    }

    /// Answer the next command that is durable now, or never will be. Nothing if none is.
    #[inline]
    pub fn commit(&mut self, fronts: &mut [Front]) -> Option<(Unsaved, Status)> {
        let (unsaved, flushed) = self.flusher.take_done()?;
        let front = &mut fronts[unsaved.place];
        let is_there = front.clients_ever == unsaved.client;
        let status = match front.client.as_mut().filter(|_| is_there) {
            None => Status::ABORT_REQUESTED,
            Some(client) => {
                let status = front.controller.commit(&unsaved.command, flushed, client);
                front.controller.signal(client);
                status
            }
        };
        Some((unsaved, status))
    }

    /// The thread is awake, and the bell can be rung again.
    fn silence(&self) {
        let mut count = [0; 8];
        // Most often it has not been rung.
        let _ = rustix::io::read(&self.bell, &mut count);
    }
}

/// Room for the largest transfer of any of these.
pub fn space<'a>(served: impl Iterator<Item = &'a ControllerSocket>) -> Vec<u8> {
    let bytes = served.map(|served| served.limits().transfer_bytes_max).max();
    vec![0; bytes.unwrap_or(0) as usize]
}

/// Look after all sockets; whether there was anything.
pub fn attend(fronts: &mut [Front], device: &Device) -> bool {
    fronts.iter_mut().fold(false, |any, front| front.attend(device) | any)
}

/// There is nothing to do for now: give way for a moment, or sleep for up to `time` once no client can ring unheard;
/// whether it has slept.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn rest(
    fronts: &mut [Front],
    disk: &Disk,
    device: &Device,
    time: Duration,
    rounds: &mut Rounds,
) -> io::Result<bool> {
    let ring_unheard = fronts.iter().any(|front| front.client.is_some() && front.is_mappable);
    let may_sleep = !ring_unheard && !time.is_zero() && rounds.patience.is_over(rounds.wait);
    if !may_sleep && !is_alone(fronts) {
        thread::yield_now();
        return Ok(false);
    }
    let ask = |front: &mut Front| front.client.as_mut().is_some_and(|client| front.controller.ask_to_ring(client));
    if fronts.iter_mut().fold(false, |any, front| ask(front) | any) {
        return Ok(false);
    }
    let again = fronts.iter_mut().filter_map(|front| front.client.as_mut()?.interrupt_again()).min();
    sleep(fronts, disk, device, again.map_or(time, |again| again.min(time)))?;
    // Whatever has woken the thread has most likely come through a socket.
    rounds.since_attended = ATTENDED_EVERY;
    Ok(true)
}

/// Let `tally` have what hosts have done that is undefined.
pub fn count_undefined(fronts: &mut [Front], tally: &mut Tally) {
    for (behaviour, count) in fronts.iter_mut().flat_map(|front| front.controller.take_undefined()) {
        tally.note_undefined(behaviour, count);
    }
}

/// Whether nobody is there.
pub fn is_alone(fronts: &[Front]) -> bool {
    fronts.iter().all(|front| front.client.is_none())
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

/// Sleep until something comes through a socket, the disk has done something, the device is to stop, or the time is over.
///
/// # Errors
/// If the system cannot wait for sockets.
fn sleep(fronts: &[Front], disk: &Disk, device: &Device, time: Duration) -> io::Result<()> {
    let mut polled: Vec<PollFd> = fronts.iter().map(Front::polled).collect();
    for fd in [device.stop.as_fd(), disk.bell.as_fd()] {
        polled.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let woken = rustix::event::poll(&mut polled, Some(&timeout));
    disk.silence();
    match woken {
        Err(rustix::io::Errno::INTR) => Ok(()),
        other => other.map(drop).map_err(io::Error::from),
    }
}
