//! NVMe controllers behind vfio-user sockets, each with one client at a time.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{PollFd, PollFlags};
use sha2::{Digest, Sha256};

use super::connection::{Connection, MESSAGES_MAX};
use super::lending::{ControllerGroups, ControllerHandover, LentQueues};
use super::moving::DriveDigest;
use super::reach::ClientAccess;
use crate::clock::Wait;
use crate::device::Device;
use crate::device::pace::BATCH;
use crate::device::store::Geometry;
use crate::device::tally::ConsumedCompletionCounts;
use crate::front::lifecycle::RequestInFlight;
use crate::front::nvme_command::{CommandRequest, join_nvm_subsystem};
use crate::front::poll_group::PollGroupMailbox;
use crate::front::service::FrontEndService;
use crate::front::socket::bind_unix_socket;
use crate::nvme::{AdminHost, Command, Controller, Identity, NextCommand, QueueSet, limits};

/// Name of the socket within a directory, where user-space drivers such as SPDK look for it.
const SOCKET_IN_DIRECTORY: &str = "cntrl";

/// Listening socket of an NVMe controller, and the controller's identity.
#[derive(Debug)]
pub struct ControllerSocket {
    listener: UnixListener,
    path: PathBuf,
    /// True if the socket was created in a given directory, where user-space drivers look for it. These drivers write
    /// doorbells in mapped memory only.
    is_for_drivers: bool,
    identity: Identity,
    /// Digest of the drive's description and the controller's identity, by which a drive that moves knows its target.
    digest: DriveDigest,
    /// Identity of the controller in the served drive's NVM subsystem, once it has joined that.
    joined: OnceLock<Identity>,
    /// True if hosts are watched for behaviour that the specification leaves undefined.
    is_strict: bool,
}

impl ControllerSocket {
    /// Creates the socket `path`, or `cntrl` within it if it is a directory, for clients of `drive`. `number` tells the
    /// controllers of a drive from each other.
    ///
    /// # Errors
    /// If no socket can be created at the path, or the drive is one that [real hosts cannot
    /// have](limits::served_limits).
    pub fn bind(path: &Path, drive: &Drive, geometry: Geometry, number: usize) -> Result<ControllerSocket, Problem> {
        let identity = Identity::new(&drive.name, limits::served_limits(drive, geometry)?, number)
            .with_atomic_bytes(drive.nvme.atomic_write_bytes);
        let digest = Sha256::digest(format!("{drive:?} {}", identity.description())).into();
        let (is_for_drivers, path) = (path.is_dir(), socket_path(path));
        let bound = bind_unix_socket(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => {
                let joined = OnceLock::new();
                Ok(ControllerSocket { listener, path, is_for_drivers, identity, digest, joined, is_strict: false })
            }
            Err(error) => {
                let found = format!("{} cannot be served: {error}", path.display());
                Err(Problem::new("--vfio-user", None, found, ""))
            }
        }
    }

    /// Lets the controller watch hosts for behaviour that the specification leaves undefined.
    pub fn strictly(mut self) -> ControllerSocket {
        self.is_strict = true;
        self
    }

    /// Makes the controller one of several of the drive's NVM subsystem, as hosts see it.
    pub fn in_one_subsystem(mut self) -> ControllerSocket {
        self.identity = self.identity.clone().in_one_subsystem();
        self
    }

    /// Makes the controller one of the drive's NVM subsystem, and its socket a path to it.
    ///
    /// # Errors
    /// If the store has namespaces that the drive cannot have.
    pub(super) fn join(&self, service: &FrontEndService<'_>) -> io::Result<()> {
        let identity = join_nvm_subsystem(service, &self.identity)?;
        let path = identity.subsystem.add_host_path(&service.device.faults, self.address());
        // A socket is served only once, so `set` cannot fail.
        let _ = self.joined.set(identity.on_path(path));
        Ok(())
    }

    /// Makes the controller in its state after power-on, with its queues divided into `queue_sets` sets.
    fn new_controller(&self, queue_sets: usize) -> Controller {
        let identity = self.joined.get().unwrap_or(&self.identity);
        let controller = Controller::new(identity.clone()).with_queue_sets(queue_sets);
        if self.is_strict { controller.with_strict_checks() } else { controller }
    }

    /// Returns true if the socket was created in a directory where user-space drivers look for it. These drivers write
    /// doorbells in mapped memory only.
    pub fn is_for_drivers(&self) -> bool {
        self.is_for_drivers
    }

    /// Returns a note for users if SPDK cannot attach to the socket, although it has the name that SPDK looks for: its
    /// doorbells cannot be mapped.
    pub fn note(&self, wait: Wait) -> Option<String> {
        let directory = self.path.parent().filter(|_| self.path.ends_with(SOCKET_IN_DIRECTORY))?;
        let is_mappable = self.is_for_drivers || wait == Wait::Spin;
        (!is_mappable).then(|| {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            format!(
                "note: SPDK cannot attach to {}, as its doorbells cannot be mapped; it can with --vfio-user {} or --wait spin",
                self.address(),
                directory.display()
            )
        })
    }

    /// Returns the limits of the controller that clients are offered, such as the number of queue pairs.
    pub fn limits(&self) -> &Limits {
        &self.identity.limits
    }

    /// Returns the address of the socket, in the form in which it is announced.
    pub fn address(&self) -> String {
        format!("vfio-user:{}", self.path.display())
    }
}

/// Returns the path of the socket for the address `path`: `path` itself, or `cntrl` in it if it is a directory.
pub fn socket_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(SOCKET_IN_DIRECTORY) } else { path.to_path_buf() }
}

impl Drop for ControllerSocket {
    fn drop(&mut self) {
        // If the file has been removed already, there is nothing to do.
        let _ = fs::remove_file(&self.path);
    }
}

/// Time within which a client must have negotiated a version, as other clients wait for the controller.
const GREETING_MAX: Duration = Duration::from_secs(1);

/// NVMe controller on one of its threads, with its client if there is one.
#[derive(Debug)]
pub(super) struct ServedController<'a> {
    served: &'a ControllerSocket,
    /// Number of the NVMe controller among all that the front-end serves.
    pub number: usize,
    pub controller: Controller,
    pub client: Option<Connection>,
    /// Number of clients that the controller has had, which is also the number of the present client.
    pub clients_ever: u64,
    is_mappable: bool,
    /// Instant at which the client connected, or at which the keep-alive timer last noticed its host.
    heard_at: Instant,
    /// Poll groups that serve the controller's queues.
    groups: &'a ControllerGroups<'a>,
    /// Empty sets of queues, which take the places of sets that are lent.
    empty: Vec<Box<QueueSet>>,
    is_lent: bool,
    /// True on the spare thread, to which the controller moves with a client that lets other clients wait.
    is_spare_thread: bool,
    /// True if the controller is on this thread now, and not on its other thread.
    is_here: bool,
    /// True once this thread has waited for a client of the socket: later clients move to the spare thread at once.
    is_slow: bool,
    /// Counts of completions that clients had taken when they disconnected, until they are reported.
    taken: ConsumedCompletionCounts,
}

/// Controller that moves from one thread to another, with its client.
#[derive(Debug)]
pub(super) struct ControllerState {
    controller: Controller,
    client: Option<Connection>,
    clients_ever: u64,
    heard_at: Instant,
}

impl<'a> ServedController<'a> {
    /// Makes a controller without a client. Clients may map the doorbells if the device threads never sleep while there
    /// is a client.
    pub(super) fn new(
        served: &'a ControllerSocket,
        number: usize,
        wait: Wait,
        groups: &'a ControllerGroups<'a>,
    ) -> ServedController<'a> {
        let is_mappable = wait == Wait::Spin || wait == Wait::Adaptive && served.is_for_drivers;
        let controller = served.new_controller(groups.sets());
        ServedController {
            empty: (1..groups.sets()).map(|_| controller.vacant_queue_set()).collect(),
            groups,
            is_lent: false,
            number,
            served,
            controller,
            client: None,
            clients_ever: 0,
            is_mappable,
            heard_at: Instant::now(),
            is_spare_thread: false,
            is_here: true,
            is_slow: false,
            taken: ConsumedCompletionCounts::default(),
        }
    }

    /// Returns counts of completions that clients have taken since the last call, in queues that are not lent.
    pub(super) fn take_completions_taken(&mut self) -> ConsumedCompletionCounts {
        let mut taken = std::mem::take(&mut self.taken);
        if let Some(client) = &mut self.client {
            taken.merge(&self.controller.take_completions_taken(client));
        }
        taken
    }

    /// Makes the controller's place on its spare thread, which is empty until the controller moves there.
    pub(super) fn on_spare_thread(self) -> ServedController<'a> {
        ServedController { is_spare_thread: true, is_here: false, ..self }
    }

    /// Accepts a client, executes its messages and register writes, and disconnects it. Returns true if there was
    /// anything to do.
    pub(super) fn attend(&mut self, device: &Device) -> bool {
        if !self.is_here {
            return false;
        }
        if self.client.is_none() && !self.is_spare_thread {
            return self.accept(device);
        }
        let any = self.execute_client_messages(device);
        self.stop_if_asked(device);
        self.check_host_and_client(device);
        if !self.move_if_needed() && !self.is_spare_thread {
            self.lend();
        }
        any
    }

    /// Executes the client's messages. Returns true if there was any, or if the connection has ended.
    fn execute_client_messages(&mut self, device: &Device) -> bool {
        let (mut any, mut has_rung) = (false, false);
        for _ in 0..MESSAGES_MAX {
            let client = self.client.as_mut().filter(|client| !client.is_stopping());
            let Some(message) = client.and_then(Connection::next_message) else { break };
            any = true;
            match message.only_rings() {
                true => has_rung = true,
                false => self.take_back(),
            }
            if let Some(client) = &mut self.client {
                self.controller.report_queue_errors(client);
                match message.is_of_migration() {
                    true => client.migrate(&message, &mut self.controller, (&device.store, &self.served.digest)),
                    false => client.answer(message),
                }
            }
        }
        if has_rung {
            self.groups.wake();
        }
        any || self.client.as_ref().is_some_and(Connection::is_over)
    }

    /// Stops the controller if its client waits for that and no command is in flight.
    fn stop_if_asked(&mut self, device: &Device) {
        if self.client.as_ref().is_some_and(Connection::is_stopping) {
            self.take_back();
            let client = self.client.iter_mut();
            client.for_each(|it| it.poll_migration(&mut self.controller, (&device.store, &self.served.digest)));
        }
    }

    /// Executes what the host has asked for by register writes, and checks that host and client are still there. Powers
    /// the controller off if the client has gone.
    fn check_host_and_client(&mut self, device: &Device) {
        let Some(client) = &mut self.client else { return };
        client.interrupt_again();
        // A fault may have hit a queue before it was lent to another thread, so take the queues back now.
        if self.is_lent && (client.signals().has_queue_faults() || self.controller.needs_update(client)) {
            self.take_back();
        }
        let Some(client) = &mut self.client else { return };
        if client.is_stopped() {
            self.heard_at = Instant::now();
        } else {
            self.controller.update(client, &device.store);
        }
        let is_silent = !client.has_negotiated_version() && self.heard_at.elapsed() > GREETING_MAX;
        let is_over = client.is_over() || is_silent;
        if let Some((time, heard)) = self.controller.poll_keep_alive() {
            if heard {
                self.heard_at = Instant::now();
            } else if self.heard_at.elapsed() > time {
                self.take_back();
                self.client.iter_mut().for_each(|client| self.controller.fail_for_keep_alive(client));
            }
        }
        if is_over {
            self.take_back();
            self.taken = self.take_completions_taken();
            self.is_slow |= self.client.take().is_some_and(|client| client.has_waited());
            self.controller.disable_after_disconnect();
        }
    }

    /// Lends sets of queues to their borrowers, if there are I/O queues in them and all memory of the queues is mapped.
    /// Memory without a descriptor can only be asked for over the socket.
    pub(super) fn lend(&mut self) {
        let Some(client) = self.client.as_mut().filter(|client| !self.is_lent && !client.is_stopped()) else { return };
        let sets = self.controller.queue_sets();
        let is_wanted = sets[1..].iter().any(|set| set.has_io_queues());
        let mut is_mapped = |(address, bytes)| client.memory().mapped(address, bytes).is_some();
        if !is_wanted || !sets.iter().flat_map(|set| set.queue_memory_ranges()).all(&mut is_mapped) {
            return;
        }
        for number in 1..self.groups.sets() {
            if !self.controller.queue_sets()[number].has_io_queues() {
                continue;
            }
            let mut set = self.empty.pop().expect("there is one for each");
            self.controller.swap_queue_set(number, &mut set);
            self.groups.lend(number, LentQueues::new(self.clients_ever, set, client.share(), self.is_mappable));
        }
        self.is_lent = true;
    }

    /// Takes all lent queues back from their borrowers.
    pub(super) fn take_back(&mut self) {
        if !std::mem::take(&mut self.is_lent) {
            return;
        }
        for number in 1..self.groups.sets() {
            let Some(lent) = self.groups.slot(number).take_back() else { continue };
            let LentQueues { mut set, host, .. } = *lent;
            self.controller.swap_queue_set(number, &mut set);
            self.empty.push(set);
            if let Some(client) = &mut self.client {
                client.take_back(host);
            }
        }
        self.client.iter_mut().for_each(Connection::note_access_returned);
    }

    /// Returns the set of queues of a client's command, taken back if it was lent, and the client's connection; none if
    /// the client has gone.
    pub(super) fn find(&mut self, client: u64, command: &Command) -> Option<(&mut QueueSet, &mut Connection)> {
        if self.clients_ever != client || self.client.is_none() {
            return None;
        }
        if self.is_lent && !self.controller.has_submission_queue(command.queue()) {
            self.take_back();
        }
        Some((self.controller.set_of_submission_queue(command.queue()), self.client.as_mut()?))
    }

    /// Returns the poll groups that serve the controller's queues.
    #[inline]
    pub(super) fn groups(&self) -> &'a ControllerGroups<'a> {
        self.groups
    }

    /// Returns the sets of queues that are not lent, and the client's connection; none without a client.
    #[inline]
    pub(super) fn own(&mut self) -> Option<(&mut [Box<QueueSet>], &mut Connection)> {
        let sets = if self.is_lent { 1 } else { self.groups.sets() };
        let client = self.client.as_mut().filter(|client| !client.is_stopped())?;
        Some((&mut self.controller.queue_sets()[..sets], client))
    }

    /// Executes the commands of the admin queue, and calls `answered` with the status of each. Returns true if there
    /// was any.
    #[inline]
    pub(super) fn administer(&mut self, answered: impl FnMut(Status)) -> bool {
        let Some(client) = self.client.as_mut().filter(|client| !client.is_stopped()) else { return false };
        self.controller.has_admin_commands(client) && self.execute_admin_commands(answered)
    }

    #[cold]
    fn execute_admin_commands(&mut self, mut answered: impl FnMut(Status)) -> bool {
        self.take_back();
        let mut any = false;
        for _ in 0..BATCH {
            let Some(client) = self.client.as_mut().filter(|client| !client.is_leaving()) else { break };
            let NextCommand::Admin(status) = self.controller.next_admin_command(client) else { break };
            answered(status);
            any = true;
        }
        self.client.iter_mut().for_each(|client| self.controller.send_interrupts(client));
        if !self.is_spare_thread {
            self.lend();
        }
        any
    }

    /// Accepts the next client, and returns true if one was waiting. While there is a client, others wait in the
    /// socket.
    fn accept(&mut self, device: &Device) -> bool {
        // If the connection fails before it is accepted, only that client is affected.
        let Ok((socket, _)) = self.served.listener.accept() else { return false };
        self.client = Connection::new(socket, self.is_mappable, self.served.limits(), &device.faults).ok();
        if self.served.is_strict {
            self.client.iter_mut().for_each(|client| client.registers().check_strictly());
        }
        self.client.iter_mut().for_each(|client| client.set_has_neighbours(self.groups.spare_thread.is_some()));
        self.clients_ever += 1;
        self.heard_at = Instant::now();
        self.move_if_needed();
        true
    }

    /// Returns the handover from which this thread takes what others have for its controller.
    #[inline]
    pub(super) fn inbox(&self) -> &'a PollGroupMailbox<'a, ControllerHandover> {
        match &self.groups.spare_thread {
            Some(spare_thread) if self.is_spare_thread => spare_thread,
            _ => &self.groups.handover,
        }
    }

    /// Returns the handover to the controller's other thread; none if it has only one.
    fn handover_to_other_thread(&self) -> Option<&'a PollGroupMailbox<'a, ControllerHandover>> {
        let spare_thread = self.groups.spare_thread.as_ref()?;
        Some(if self.is_spare_thread { &self.groups.handover } else { spare_thread })
    }

    /// Moves the controller to its spare thread if this thread has waited for the client, or back if the client has
    /// gone. Returns true if the controller has moved.
    #[inline]
    pub(super) fn move_if_needed(&mut self) -> bool {
        let has_to = match &self.client {
            Some(client) => !self.is_spare_thread && (self.is_slow || client.has_waited()),
            None => self.is_spare_thread && self.is_here,
        };
        has_to && self.move_to_other_thread()
    }

    /// Moves the controller with its client to its other thread. Returns false if there is no other thread.
    #[cold]
    fn move_to_other_thread(&mut self) -> bool {
        let Some(other) = self.handover_to_other_thread() else { return false };
        self.take_back();
        self.is_slow = !self.is_spare_thread;
        self.is_here = false;
        let fresh = self.served.new_controller(self.groups.sets());
        let controller = std::mem::replace(&mut self.controller, fresh);
        let client = self.client.take();
        let (clients_ever, heard_at) = (self.clients_ever, self.heard_at);
        other.put(ControllerHandover::Controller(Box::new(ControllerState {
            controller,
            client,
            clients_ever,
            heard_at,
        })));
        true
    }

    /// Takes over the controller that comes from its other thread.
    pub(super) fn arrive(&mut self, state: ControllerState) {
        let ControllerState { controller, client, clients_ever, heard_at } = state;
        (self.controller, self.client, self.is_here) = (controller, client, true);
        (self.clients_ever, self.heard_at) = (clients_ever, heard_at);
        let has_neighbours = !self.is_spare_thread;
        self.client.iter_mut().for_each(|client| client.set_has_neighbours(has_neighbours));
    }

    /// Returns the request if the controller is on this thread, and hands it over to the spare thread otherwise. On the
    /// spare thread, drops it if the controller is not there, as its client has gone.
    pub(super) fn forward(&self, request: RequestInFlight<CommandRequest>) -> Option<RequestInFlight<CommandRequest>> {
        if self.is_here {
            return Some(request);
        }
        if let Some(other) = self.handover_to_other_thread().filter(|_| !self.is_spare_thread) {
            other.put(ControllerHandover::Request(Box::new(request)));
        }
        None
    }

    /// Returns true if the controller is on its other thread.
    pub(super) fn is_elsewhere(&self) -> bool {
        !self.is_here
    }

    /// Returns true if there is a client that can write doorbells in mapped memory, which wakes no thread.
    pub(super) fn rings_silently(&self) -> bool {
        self.client.is_some() && self.is_mappable
    }

    /// Returns the poll entry of the client's socket, or of the listening socket without a client; none while the
    /// controller is on its other thread.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        let fd = self.client.as_ref().map_or(self.served.listener.as_fd(), AsFd::as_fd);
        self.is_here.then(|| PollFd::from_borrowed_fd(fd, PollFlags::IN))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };

    /// Binds the sockets of `controllers` controllers with `queue_pairs` queue pairs each, for a test.
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
    fn driver_socket_name_is_noted_unless_doorbells_can_be_mapped() {
        let directory = std::env::temp_dir().join(format!("phaselink-note-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let drive = Drive::shipped("nvme").unwrap();
        let bind = |path: &Path| ControllerSocket::bind(path, &drive, GEOMETRY, 0).unwrap();
        let named = bind(&directory.join("cntrl"));
        let note = named.note(Wait::Adaptive).unwrap();
        assert!(note.ends_with(&format!("--vfio-user {} or --wait spin", directory.display())), "{note}");
        assert_eq!((named.note(Wait::Spin), bind(&directory.join("other")).note(Wait::Adaptive)), (None, None));
        drop(named);
        assert_eq!(bind(&directory).note(Wait::Adaptive), None);
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn socket_file_is_removed_with_its_controller() {
        let served = sockets("gone", 1, 1).remove(0);
        let path = served.path.clone();
        assert!(path.exists());
        drop(served);
        assert!(!path.exists());
    }
}
