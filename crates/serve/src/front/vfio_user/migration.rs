//! Migration of a controller to another server: the states of VFIO's migration protocol version 2 (linux/vfio.h,
//! VFIO_DEVICE_FEATURE_MIGRATION) and the messages that change them (vfio-user Protocol Specification 0.9.2).
//!
//! ```text
//!    source:  RUNNING ── PRE_COPY ── STOP_COPY        target:  RUNNING ── STOP ── RESUMING ── STOP ── RUNNING
//!                 └──── STOP ────────┘
//! ```
//!
//! A client may ask for any state; the controller goes through those between. It leaves RUNNING or PRE_COPY for a state in
//! which it is stopped only when no command is in flight, so the reply to that request comes later. A request for a state
//! that cannot be reached is refused and changes nothing.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::number::{index, length, short_length};

use super::moving::{DriveDigest, DriveReceiver, DriveSender};
use super::page_log::PageLog;
use super::session::Session;
use super::wire::{BITMAP_BYTES_MAX, Fields, Header, TRANSFER_BYTES_MAX, command};
use crate::device::store::Store;
use crate::nvme::Controller;
use crate::nvme::image::{ImageReader, ImageRefusal};

/// Flags of VFIO_USER_DEVICE_FEATURE: number of the feature, and what the client asks for.
const FEATURE: u32 = 0xffff;
const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const PROBE: u32 = 1 << 18;

/// Numbers of features in VFIO (vfio.h).
mod feature {
    pub(super) const MIGRATION: u32 = 1;
    pub(super) const DEVICE_STATE: u32 = 2;
    pub(super) const LOGGING_START: u32 = 6;
    pub(super) const LOGGING_STOP: u32 = 7;
    pub(super) const LOGGING_REPORT: u32 = 8;
}

/// Flags of VFIO_DEVICE_FEATURE_MIGRATION: STOP_COPY and PRE_COPY are supported.
const MIGRATION_FLAGS: u64 = 1 | 1 << 2;
/// Length in bytes of the head of VFIO_USER_DEVICE_FEATURE, and of messages with data of a stream.
const FEATURE_HEAD_BYTES: usize = 8;
/// Length in bytes of a report of written pages without its bitmap.
const REPORT_BYTES: usize = 24;
/// Maximum time until all commands of a controller that is to stop have ended.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// State of a device in VFIO's migration protocol (vfio.h, `enum vfio_device_mig_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MigrationState {
    /// A step has failed. Only a reset leads out of this state.
    Error = 0,
    /// The device executes nothing and keeps its state.
    Stop = 1,
    /// The device serves its host.
    #[default]
    Running = 2,
    /// The device is stopped, and its bytes and state are read.
    StopCopy = 3,
    /// The bytes and the state of the device are written.
    Resuming = 4,
    /// The device serves its host, and its bytes are read.
    PreCopy = 6,
}

impl MigrationState {
    fn of(number: u32) -> Option<MigrationState> {
        use MigrationState::{Error, PreCopy, Resuming, Running, Stop, StopCopy};
        [Error, Stop, Running, StopCopy, Resuming, PreCopy].into_iter().find(|state| *state as u32 == number)
    }

    /// Returns true if the device serves its host in this state.
    #[inline]
    fn serves(self) -> bool {
        matches!(self, MigrationState::Running | MigrationState::PreCopy)
    }

    /// Returns the next state on the shortest way to another; none if there is no way.
    fn next_towards(self, wanted: MigrationState) -> Option<MigrationState> {
        use MigrationState::{Error, PreCopy, Resuming, Running, Stop, StopCopy};
        match (self, wanted) {
            (Error, _) | (_, Error) | (StopCopy, PreCopy) => None,
            (from, to) if from == to => Some(to),
            (Stop, StopCopy | Resuming) => Some(wanted),
            (Stop, _) => Some(Running),
            (Running, PreCopy) => Some(PreCopy),
            (Running, _) => Some(Stop),
            (PreCopy, StopCopy) => Some(StopCopy),
            (PreCopy, _) => Some(Running),
            (StopCopy | Resuming, _) => Some(Stop),
        }
    }
}

/// Request for a state that is being carried out.
#[derive(Clone, Copy, Debug)]
struct StateRequest {
    header: Header,
    wanted: MigrationState,
    begun: Instant,
}

/// Migration of a client's controller.
#[derive(Debug, Default)]
pub(super) struct Migration {
    state: MigrationState,
    sender: Option<DriveSender>,
    receiver: Option<DriveReceiver>,
    pending: Option<StateRequest>,
}

/// Parts of a served controller that its migration reads and changes, all of whose queues are here.
#[derive(Debug)]
pub(super) struct MovingParts<'a, H> {
    pub controller: &'a mut Controller,
    /// Connection of the client, through which its memory is reached.
    pub host: &'a mut H,
    pub store: &'a Arc<Store>,
    pub digest: &'a DriveDigest,
}

/// Host whose session an image has.
pub(super) trait SessionHost: crate::nvme::AdminHost {
    /// Returns the session of the client.
    fn session(&mut self) -> &mut Session;
}

/// Linux error number with which a message of the client is refused.
type Refused = i32;

impl Migration {
    /// Returns true if the message is one that this module answers.
    pub(super) fn is_for(command: u16) -> bool {
        matches!(command, command::DEVICE_FEATURE | command::MIG_DATA_READ | command::MIG_DATA_WRITE)
    }

    /// Returns true if the controller does not serve its host, or is about to stop.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        !self.state.serves() || self.pending.is_some()
    }

    /// Returns true if a request for another state is being carried out.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Answers a message; none if the reply comes [later](Migration::poll).
    pub(super) fn answer<H: SessionHost>(
        &mut self,
        (header, payload): (Header, Fields<'_>),
        parts: &mut MovingParts<'_, H>,
    ) -> Option<Result<Vec<u8>, Refused>> {
        match header.command {
            command::MIG_DATA_READ => Some(self.read_data(payload)),
            command::MIG_DATA_WRITE => Some(self.write_data(payload)),
            _ => self.answer_feature(header, payload, parts),
        }
    }

    fn answer_feature<H: SessionHost>(
        &mut self,
        header: Header,
        payload: Fields<'_>,
        parts: &mut MovingParts<'_, H>,
    ) -> Option<Result<Vec<u8>, Refused>> {
        let mut fields = payload;
        let Some((room, flags)) = fields.u32().zip(fields.u32()) else { return Some(Err(libc::EINVAL)) };
        let (number, access) = (flags & FEATURE, flags & !FEATURE);
        let allowed = match number {
            feature::MIGRATION | feature::LOGGING_REPORT => GET,
            feature::DEVICE_STATE => GET | SET,
            feature::LOGGING_START | feature::LOGGING_STOP => SET,
            _ => return Some(Err(libc::ENOTTY)),
        };
        if index(room) < FEATURE_HEAD_BYTES || access & !(allowed | PROBE) != 0 {
            return Some(Err(libc::EINVAL));
        }
        let head = payload.0[..FEATURE_HEAD_BYTES].to_vec();
        let answer = match (number, access) {
            (_, access) if access & PROBE != 0 => Ok(Vec::new()),
            (feature::MIGRATION, GET) if !parts.store.command_set_state().can_move() => Err(libc::ENOTTY),
            (feature::MIGRATION, GET) => Ok(MIGRATION_FLAGS.to_le_bytes().to_vec()),
            (feature::DEVICE_STATE, GET) => Ok([self.state as u32, u32::MAX].map(u32::to_le_bytes).concat()),
            (feature::DEVICE_STATE, SET) => return self.request_state(header, fields, parts).transpose(),
            (feature::LOGGING_START, SET) => start_logging(fields, parts.host.session()),
            (feature::LOGGING_STOP, SET) => stop_logging(parts.host.session()),
            (feature::LOGGING_REPORT, GET) => report_written(fields, parts.host.session()),
            _ => Err(libc::EINVAL),
        };
        let fits = |data: Vec<u8>| match FEATURE_HEAD_BYTES + data.len() <= index(room) {
            true => Ok([head, data].concat()),
            false => Err(libc::EINVAL),
        };
        Some(answer.and_then(fits))
    }

    /// Starts on the way to the state that a client asks for. Returns the reply, or none if commands are in flight.
    fn request_state<H: SessionHost>(
        &mut self,
        header: Header,
        mut fields: Fields<'_>,
        parts: &mut MovingParts<'_, H>,
    ) -> Result<Option<Vec<u8>>, Refused> {
        let wanted = fields.u32().and_then(MigrationState::of).ok_or(libc::EINVAL)?;
        fields.u32().ok_or(libc::EINVAL)?;
        self.state.next_towards(wanted).ok_or(libc::EINVAL)?;
        if !parts.store.command_set_state().can_move() {
            tell("a drive that stores values by keys cannot move; serve one with logical blocks");
            return Err(libc::ENOTSUP);
        }
        self.pending = Some(StateRequest { header, wanted, begun: Instant::now() });
        let done = self.advance(parts);
        if !matches!(done, Ok(None)) {
            self.pending = None;
        }
        done
    }

    /// Continues a request for another state. Returns its header and the reply once it has been carried out or refused.
    pub(super) fn poll<H: SessionHost>(
        &mut self,
        parts: &mut MovingParts<'_, H>,
    ) -> Option<(Header, Result<Vec<u8>, Refused>)> {
        let StateRequest { header, .. } = self.pending?;
        let done = self.advance(parts).transpose()?;
        self.pending = None;
        Some((header, done))
    }

    /// Advances to the wanted state. Returns the payload of the reply, or none if commands are still in flight.
    fn advance<H: SessionHost>(&mut self, parts: &mut MovingParts<'_, H>) -> Result<Option<Vec<u8>>, Refused> {
        let Some(StateRequest { wanted, begun, .. }) = self.pending else { return Ok(None) };
        while self.state != wanted {
            let next = self.state.next_towards(wanted).ok_or(libc::EINVAL)?;
            if self.state.serves() && !next.serves() && !parts.controller.drain(parts.host, parts.store) {
                if begun.elapsed() < DRAIN_MAX {
                    return Ok(None);
                }
                tell("commands in flight do not end, so the drive keeps running; clear the faults that delay them");
                return Err(libc::EBUSY);
            }
            self.enter(next, parts)?;
        }
        let head = [short_length(FEATURE_HEAD_BYTES) + 8, SET | feature::DEVICE_STATE, wanted as u32, u32::MAX];
        Ok(Some(head.map(u32::to_le_bytes).concat()))
    }

    /// Enters a state that is adjacent to the present one.
    fn enter<H: SessionHost>(&mut self, next: MigrationState, parts: &mut MovingParts<'_, H>) -> Result<(), Refused> {
        match (self.state, next) {
            (MigrationState::Running, MigrationState::PreCopy) => self.sender = Some(start_sender(parts)?),
            (_, MigrationState::StopCopy) => {
                let mut sender = match self.sender.take() {
                    Some(sender) => sender,
                    None => start_sender(parts)?,
                };
                let state = device_image(parts).and_then(|image| sender.stop_with(image));
                state.map_err(|error| refuse_io(&error))?;
                self.sender = Some(sender);
            }
            (_, MigrationState::Resuming) if parts.host.registers().is_enabled() => {
                tell("the target's controller is in use; resume into a server whose controller no host has enabled");
                return Err(libc::EBUSY);
            }
            (_, MigrationState::Resuming) => self.receiver = Some(DriveReceiver::new(parts.store, parts.digest)),
            (MigrationState::Resuming, _) => {
                let mut receiver = self.receiver.take().ok_or(libc::EINVAL)?;
                if let Err(refusal) = receiver.finish().and_then(|image| put_in_force(&image, parts)) {
                    self.state = MigrationState::Error;
                    tell(&refusal.0);
                    return Err(libc::EINVAL);
                }
                receiver.keep();
            }
            _ => self.sender = None,
        }
        self.state = next;
        Ok(())
    }

    /// Returns the next bytes of the stream of a drive that moves away. A reply without bytes says that nothing has
    /// changed in PRE_COPY, and that the stream has ended in STOP_COPY.
    fn read_data(&mut self, mut fields: Fields<'_>) -> Result<Vec<u8>, Refused> {
        let (room, count) = fields.u32().zip(fields.u32()).ok_or(libc::EINVAL)?;
        let room = index(room).checked_sub(FEATURE_HEAD_BYTES).ok_or(libc::EINVAL)?;
        let sender = self.sender.as_mut().ok_or(libc::EINVAL)?;
        if index(count) > room.min(TRANSFER_BYTES_MAX) {
            return Err(libc::EINVAL);
        }
        let bytes = sender.read(index(count)).map_err(|error| refuse_io(&error))?;
        let head = [FEATURE_HEAD_BYTES + bytes.len(), bytes.len()].map(|number| short_length(number).to_le_bytes());
        Ok([&head.concat()[..], &bytes].concat())
    }

    /// Takes the next bytes of the stream of a drive that moves here.
    fn write_data(&mut self, mut fields: Fields<'_>) -> Result<Vec<u8>, Refused> {
        let (_, count) = fields.u32().zip(fields.u32()).ok_or(libc::EINVAL)?;
        let bytes = fields.bytes(index(count)).ok_or(libc::EINVAL)?;
        let receiver = self.receiver.as_mut().ok_or(libc::EINVAL)?;
        if let Err(refusal) = receiver.write(bytes) {
            tell(&refusal.0);
            (self.receiver, self.state) = (None, MigrationState::Error);
            return Err(libc::EINVAL);
        }
        Ok(Vec::new())
    }
}

fn start_sender<H>(parts: &MovingParts<'_, H>) -> Result<DriveSender, Refused> {
    DriveSender::start(parts.store, parts.digest).map_err(|error| refuse_io(&error))
}

/// Tells the user why a stream or a state is refused. The client learns an error number only.
fn tell(reason: &str) {
    // If standard error is closed, the client still has the error number.
    let _ = writeln!(io::stderr(), "vfio-user migration: {reason}");
}

fn refuse_io(error: &io::Error) -> Refused {
    tell(&format!("the drive cannot be read or its state not be saved: {error}"));
    error.raw_os_error().unwrap_or(if error.kind() == io::ErrorKind::ResourceBusy { libc::EBUSY } else { libc::EIO })
}

/// Returns the image of a stopped device: registers and PCI device, drive, controller.
fn device_image<H: SessionHost>(parts: &mut MovingParts<'_, H>) -> io::Result<Vec<u8>> {
    let mut image = Vec::new();
    parts.host.session().put_image(&mut image);
    parts.controller.subsystem().put_image(parts.store, &mut image)?;
    parts.controller.put_image(parts.host, &mut image);
    Ok(image)
}

/// Puts the image of a device in force, once all of it has been checked.
fn put_in_force<H: SessionHost>(image: &[u8], parts: &mut MovingParts<'_, H>) -> Result<(), ImageRefusal> {
    let mut rest = ImageReader(image);
    let device = parts.host.session().of_image(&mut rest)?;
    let drive = parts.controller.read_drive(&mut rest, parts.store)?;
    let now_ms = parts.host.now_ms();
    let controller = parts.controller.of_image(&mut rest, now_ms)?;
    if !rest.0.is_empty() {
        return Err(ImageRefusal::of_field("the end of the state"));
    }
    let disk = |error: io::Error| ImageRefusal(format!("the state of the drive cannot be saved: {error}"));
    drive.put_in_force(parts.controller.subsystem(), parts.store).map_err(disk)?;
    parts.host.session().put_in_force(device);
    *parts.controller = controller;
    parts.controller.settle(parts.host);
    Ok(())
}

/// Starts to log the client's pages that the device writes. All writes are logged, whatever ranges the client lists.
fn start_logging(mut fields: Fields<'_>, session: &mut Session) -> Result<Vec<u8>, Refused> {
    let data = fields.0;
    let (page_bytes, ranges) = fields.u64().zip(fields.u32()).ok_or(libc::EINVAL)?;
    fields.u32().ok_or(libc::EINVAL)?;
    if length(fields.0.len()) < u64::from(ranges) * 16 {
        return Err(libc::EINVAL);
    }
    let log = PageLog::new(page_bytes).ok_or(libc::EINVAL)?;
    let answer = [&log.page_bytes().to_le_bytes()[..], &data[8..]].concat();
    session.memory.log_writes(Some(Arc::new(log)));
    Ok(answer)
}

fn stop_logging(session: &mut Session) -> Result<Vec<u8>, Refused> {
    session.memory.write_log().ok_or(libc::EINVAL)?;
    session.memory.log_writes(None);
    Ok(Vec::new())
}

/// Returns the bitmap of the pages that the device has written in a range since the last report.
fn report_written(mut fields: Fields<'_>, session: &mut Session) -> Result<Vec<u8>, Refused> {
    let request = fields.bytes(REPORT_BYTES).ok_or(libc::EINVAL)?;
    let [start, bytes, page_bytes] = [0, 1, 2].map(|place| u64::from_le_bytes(request.as_chunks().0[place]));
    let log = session.memory.write_log().ok_or(libc::EINVAL)?;
    let pages = bytes / log.page_bytes();
    let is_valid = page_bytes == log.page_bytes()
        && (start | bytes).is_multiple_of(page_bytes)
        && start.checked_add(bytes).is_some()
        && pages.div_ceil(8) <= length(BITMAP_BYTES_MAX);
    if !is_valid {
        return Err(libc::EINVAL);
    }
    Ok([request, &log.take(start, pages)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the table in the kernel's `vfio_mig_get_next_state` for a device without peer-to-peer states.
    #[test]
    fn way_between_states_is_that_of_the_kernel() {
        use MigrationState::{Error, PreCopy, Resuming, Running, Stop, StopCopy};
        let all = [Error, Stop, Running, StopCopy, Resuming, PreCopy];
        let rows = [
            (Stop, [None, Some(Stop), Some(Running), Some(StopCopy), Some(Resuming), Some(Running)]),
            (Running, [None, Some(Stop), Some(Running), Some(Stop), Some(Stop), Some(PreCopy)]),
            (StopCopy, [None, Some(Stop), Some(Stop), Some(StopCopy), Some(Stop), None]),
            (Resuming, [None, Some(Stop), Some(Stop), Some(Stop), Some(Resuming), Some(Stop)]),
            (PreCopy, [None, Some(Running), Some(Running), Some(StopCopy), Some(Running), Some(PreCopy)]),
            (Error, [None; 6]),
        ];
        for (from, row) in rows {
            assert_eq!(all.map(|to| from.next_towards(to)), row, "{from:?}");
        }
        assert_eq!([5, 7, 8].map(MigrationState::of), [None; 3]);
    }
}
