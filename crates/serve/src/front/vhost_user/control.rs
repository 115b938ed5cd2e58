//! Messages of a client over its socket: memory, virtqueues and negotiated features.
//!
//! Each socket has one client at a time, and a thread for the client's messages. That thread shares the rings with the
//! device thread by a lock, which is contended only while a message is executed.

use phaselink_core::number::{index, length, low_u16};
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVirtioFeatures, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandler};
use virtio_queue::QueueT;
use vm_memory::GuestAddress;

use super::blk::{self, FEATURES, feature};
use super::memory::{REGIONS_MAX, SharedMemory};
use super::ring::{Ring, into_non_blocking};
use crate::device::store::Geometry;
use crate::device::tally::locked;
use crate::device::wakeup::Wakeup;
use crate::device::{Device, StopRequest};

/// Time within which a client must complete a message that it has begun.
const MESSAGE_MAX: Duration = Duration::from_secs(5);
/// Longest time for which a client that stops a ring waits until the ring's requests have completed.
const ANSWERS_MAX: Duration = Duration::from_secs(60);
/// Number of virtqueues of a device. A guest uses one for each of its processors, if there are enough. Virtqueues
/// belong to the guest's software; the queues of the drive are shared by the modelled host's threads.
const RINGS: usize = 16;

/// Listening Unix socket, at which one client at a time is served.
#[derive(Debug)]
pub(super) struct VhostSocket {
    pub path: PathBuf,
    pub listener: UnixListener,
}

impl Drop for VhostSocket {
    fn drop(&mut self) {
        // If the file has been removed already, there is nothing to do.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// State of a socket's client, shared by the thread for its messages and the device thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub client: Mutex<Client>,
    /// Notified when a stopped ring has no more requests in flight, and when the client's state is reset.
    pub quiet: Condvar,
    /// Socket of the connected client, by which another thread can end a wait for a message; none without a client.
    heard: Mutex<Option<MonitoredClient>>,
    geometry: Geometry,
    name: String,
}

/// Socket of a connected client, for whose messages a thread waits.
#[derive(Debug)]
struct MonitoredClient {
    stream: UnixStream,
    /// Instant at which the message that is being received has begun; none between messages.
    since: Option<Instant>,
}

/// Memory, rings and features that the client of a socket has set up; all empty without a client.
#[derive(Debug)]
pub(super) struct Client {
    /// Number of the client among all of the socket. A request with another number belongs to a client that has gone.
    pub number: u64,
    pub memory: SharedMemory,
    pub rings: Vec<Ring>,
    features: u64,
}

impl Client {
    fn new(number: u64) -> Client {
        let rings = (0..RINGS).map(|_| Ring::default()).collect();
        Client { number, memory: SharedMemory::default(), rings, features: 0 }
    }

    /// Returns true if the driver has negotiated flushes, so that writes may be volatile until a flush. A driver
    /// without flushes expects writes to be durable when they complete (section 5.2.6.2).
    pub(super) fn flushes(&self) -> bool {
        self.features & feature::FLUSH != 0
    }
}

impl Shared {
    pub(super) fn new(device: &Device) -> Shared {
        Shared {
            client: Mutex::new(Client::new(0)),
            quiet: Condvar::new(),
            heard: Mutex::new(None),
            geometry: device.store.geometry(),
            name: device.drive.name.clone(),
        }
    }

    /// Returns the name of the drive, which drivers can read.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the client's state by an empty state with a new number, so that its requests in flight are dropped.
    pub(super) fn forget(&self) {
        let mut client = locked(&self.client);
        *client = Client::new(client.number + 1);
        self.quiet.notify_all();
    }

    /// Disconnects a client that has begun a message and not completed it in time, or any client if `goes` is true
    /// because the device stops.
    pub(super) fn watch(&self, goes: bool) {
        let heard = locked(&self.heard);
        let is_over = |heard: &&MonitoredClient| goes || heard.since.is_some_and(|since| since.elapsed() > MESSAGE_MAX);
        if let Some(MonitoredClient { stream, .. }) = heard.as_ref().filter(is_over) {
            // If the client has disconnected already, the call fails and nothing remains to do.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sets the instant at which the client's present message has begun; none when the message has ended.
    fn set_message_start(&self, since: Option<Instant>) {
        if let Some(heard) = locked(&self.heard).as_mut() {
            heard.since = since;
        }
    }

    fn with_ring_lock<T>(&self, index: u32, change: impl FnOnce(&mut Ring) -> T) -> Result<T> {
        let mut client = locked(&self.client);
        client.rings.get_mut(index as usize).map(change).ok_or(Error::InvalidParam)
    }
}

/// Accepts the clients of a socket, one after another, and executes their messages, until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub(super) fn run(socket: &VhostSocket, shared: &Arc<Shared>, wakeup: &Wakeup, stop: &StopRequest) -> io::Result<()> {
    while wait(&socket.listener, stop)? {
        // If the connection fails before it is accepted, only that client is affected.
        let Ok((stream, _)) = socket.listener.accept() else { continue };
        // If a socket cannot be set up, drop the connection.
        let (Ok(waited), Ok(watched), Ok(())) = (stream.try_clone(), stream.try_clone(), stream.set_nonblocking(false))
        else {
            continue;
        };
        *locked(&shared.heard) = Some(MonitoredClient { stream: watched, since: None });
        let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(shared));
        while wait(&waited, stop)? {
            shared.set_message_start(Some(Instant::now()));
            let heard = messages.handle_request();
            shared.set_message_start(None);
            wakeup.signal();
            if heard.is_err() {
                break;
            }
        }
        *locked(&shared.heard) = None;
        shared.forget();
        wakeup.signal();
    }
    Ok(())
}

/// Waits until `fd` is readable; returns false if the device is told to stop.
fn wait(fd: impl AsFd, stop: &StopRequest) -> io::Result<bool> {
    loop {
        let mut polled = [PollFd::new(&fd, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        return Ok(!stop.is_requested());
    }
}

impl VhostUserBackendReqHandler for Shared {
    fn set_owner(&self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&self) -> Result<()> {
        let mut client = locked(&self.client);
        let memory = std::mem::take(&mut client.memory);
        *client = Client { memory, ..Client::new(client.number + 1) };
        Ok(())
    }

    fn get_features(&self) -> Result<u64> {
        Ok(FEATURES | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&self, features: u64) -> Result<()> {
        if features & !self.get_features()? != 0 {
            return Err(Error::InvalidParam);
        }
        let mut client = locked(&self.client);
        client.features = features;
        // Without the protocol extension that enables rings one by one, all rings are enabled at the start.
        let is_enabled = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0;
        for ring in &mut client.rings {
            ring.is_enabled |= is_enabled;
            ring.queue.set_event_idx(features & feature::EVENT_IDX != 0);
        }
        Ok(())
    }

    fn set_mem_table(
        &self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        let memory = SharedMemory::of(table.iter().copied().zip(files)).ok_or(Error::InvalidParam)?;
        locked(&self.client).memory = memory;
        Ok(None)
    }

    fn set_vring_num(&self, index: u32, entries: u32) -> Result<()> {
        let entries = u16::try_from(entries).map_err(|_| Error::InvalidParam)?;
        self.with_ring_lock(index, |ring| ring.queue.try_set_size(entries))?.map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let mut client = locked(&self.client);
        let Client { memory, rings, .. } = &mut *client;
        let ring = rings.get_mut(index as usize).ok_or(Error::InvalidParam)?;
        let find = |address| memory.guest_address(address).ok_or(Error::InvalidParam);
        let (descriptors, used, available) = (find(descriptors)?, find(used)?, find(available)?);
        place(ring, descriptors, used, available).map_err(|_| Error::InvalidParam)?;
        // The client continues at a position of its own: the used index is in the ring, and the available index follows
        // in a message.
        let next = ring.queue.used_idx(memory.guest(), std::sync::atomic::Ordering::Acquire);
        ring.queue.set_next_used(next.map_err(|_| Error::InvalidParam)?.0);
        ring.queue.set_ready(true);
        Ok(())
    }

    fn set_vring_base(&self, index: u32, base: u32) -> Result<()> {
        self.with_ring_lock(index, |ring| ring.queue.set_next_avail(low_u16(base)))
    }

    /// Stops a ring, and returns its position when all of its requests have completed, or after a timeout.
    fn get_vring_base(&self, index: u32) -> Result<VhostUserVringState> {
        self.with_ring_lock(index, |ring| ring.is_started = false)?;
        // The client's message is complete, so stop its timeout: from here on the server takes the time.
        self.set_message_start(None);
        let is_busy = |client: &mut Client| client.rings[index as usize].in_flight > 0;
        let waited = self.quiet.wait_timeout_while(locked(&self.client), ANSWERS_MAX, is_busy);
        let (mut client, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        let ring = &mut client.rings[index as usize];
        let next = ring.queue.next_avail();
        ring.queue.set_ready(false);
        (ring.kick, ring.call) = (None, None);
        Ok(VhostUserVringState::new(index, next.into()))
    }

    fn set_vring_kick(&self, index: u8, fd: Option<File>) -> Result<()> {
        let kick = fd.and_then(|fd| into_non_blocking(fd.into())).map(Arc::new);
        self.with_ring_lock(index.into(), |ring| (ring.kick, ring.is_started) = (kick, true))
    }

    fn set_vring_call(&self, index: u8, fd: Option<File>) -> Result<()> {
        let call = fd.and_then(|fd| into_non_blocking(fd.into()));
        self.with_ring_lock(index.into(), |ring| ring.call = call)
    }

    fn set_vring_err(&self, index: u8, _: Option<File>) -> Result<()> {
        self.with_ring_lock(index.into(), |_| ())
    }

    fn get_protocol_features(&self) -> Result<VhostUserProtocolFeatures> {
        use VhostUserProtocolFeatures as FeatureValues;
        Ok(FeatureValues::MQ | FeatureValues::CONFIG | FeatureValues::CONFIGURE_MEM_SLOTS | FeatureValues::RESET_DEVICE)
    }

    fn set_protocol_features(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&self) -> Result<u64> {
        Ok(length(RINGS))
    }

    fn set_vring_enable(&self, index: u32, is_enabled: bool) -> Result<()> {
        self.with_ring_lock(index, |ring| ring.is_enabled = is_enabled)
    }

    fn get_config(&self, offset: u32, bytes: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let config = blk::config(self.geometry, RINGS as u16);
        let (offset, bytes) = (index(offset), index(bytes));
        let end = offset.checked_add(bytes).ok_or(Error::InvalidParam)?;
        config.get(offset..end).map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        // The driver cannot write any field. In particular it cannot choose whether writes are cached.
        Err(Error::InvalidOperation("nothing can be configured"))
    }

    fn get_max_mem_slots(&self) -> Result<u64> {
        Ok(REGIONS_MAX)
    }

    fn add_mem_region(
        &self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        let added = locked(&self.client).memory.add(region, file);
        added.map(|()| None).ok_or(Error::InvalidParam)
    }

    fn remove_mem_region(&self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let removed = locked(&self.client).memory.remove(region.guest_phys_addr, region.memory_size);
        removed.ok_or(Error::InvalidParam)
    }

    fn set_gpu_socket(&self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}

/// Error in response to vhost-user messages of features that the device does not offer.
const NOT_OFFERED: Error = Error::InvalidOperation("not offered");

fn place(
    ring: &mut Ring,
    descriptors: GuestAddress,
    used: GuestAddress,
    available: GuestAddress,
) -> std::result::Result<(), virtio_queue::Error> {
    ring.queue.try_set_desc_table_address(descriptors)?;
    ring.queue.try_set_used_ring_address(used)?;
    ring.queue.try_set_avail_ring_address(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_acknowledged_writes_need_a_driver_that_can_flush() {
        let mut client = Client::new(0);
        assert!(!client.flushes(), "nothing has been agreed on");
        for (features, flushes) in [(FEATURES, true), (FEATURES & !feature::FLUSH, false), (feature::FLUSH, true)] {
            client.features = features;
            assert_eq!(client.flushes(), flushes, "{features:x}");
        }
    }
}
