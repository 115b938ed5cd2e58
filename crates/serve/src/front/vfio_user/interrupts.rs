//! Interrupts of a vfio-user device: eventfds that the client has sent, by kind and vector.

use phaselink_core::number::{index, short_length};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;

/// Number of kinds of interrupts in VFIO (vfio.h, `VFIO_PCI_*_IRQ_INDEX`): INTx, MSI, MSI-X, errors and requests.
pub const KINDS: u32 = 5;
const PIN: u32 = 0;
const VECTOR: u32 = 2;
const ERROR: u32 = 3;

/// Flags of VFIO_IRQ_SET: format of the data, and action.
const DATA_NONE: u32 = 1;
const DATA_BOOL: u32 = 1 << 1;
const DATA_EVENTFD: u32 = 1 << 2;
const ACTION_MASK: u32 = 1 << 3;
const ACTION_UNMASK: u32 = 1 << 4;
const ACTION_TRIGGER: u32 = 1 << 5;

/// Flags of VFIO_IRQ_INFO: properties of a kind of interrupts.
const EVENTFD: u32 = 1;
const MASKABLE: u32 = 1 << 1;
const AUTOMASKED: u32 = 1 << 2;
const NORESIZE: u32 = 1 << 3;

/// Interrupt setting that a client requests, with the fields of VFIO_IRQ_SET.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Flags of VFIO_IRQ_SET that the client has sent: format of the data, and action.
    pub flags: u32,
    /// Kind of the interrupts, as an index of VFIO.
    pub kind: u32,
    /// Number of the first interrupt that the client's setting applies to.
    pub start: u32,
    /// Number of consecutive interrupts that the client's setting applies to.
    pub count: u32,
    /// One byte for each interrupt with `DATA_BOOL`: the action applies to it unless the byte is 0.
    pub data: &'a [u8],
}

/// Effect of an interrupt setting that has been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The interrupt setting is in force, and the controller need not do anything.
    Applied,
    /// The client has unmasked the interrupt pin, so that a pending interrupt can be raised again.
    Unmasked,
}

/// Error for an interrupt setting that is invalid or not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidInterruptSetting;

/// Eventfds for a client's interrupts. Device threads that send interrupts have clones, which hold until the client
/// changes a setting. All clones share the mask of the pin.
#[derive(Clone, Debug)]
pub struct ClientInterrupts {
    vectors: Vec<Option<Arc<EventFd>>>,
    pin: Option<Arc<EventFd>>,
    /// True if the pin has been raised or the client has masked it. The client must unmask the pin before it is raised
    /// again.
    is_pin_masked: Arc<AtomicBool>,
}

/// Eventfd of a client, which is written to for each interrupt.
#[derive(Debug)]
struct EventFd {
    fd: OwnedFd,
    /// True if the descriptor is in blocking mode, so that it is polled before each write.
    may_block: bool,
}

impl ClientInterrupts {
    /// Makes the interrupts of a device with a pin and `vectors` vectors, all without eventfds.
    pub fn new(vectors: u16) -> ClientInterrupts {
        let vectors = (0..vectors).map(|_| None).collect();
        ClientInterrupts { vectors, pin: None, is_pin_masked: Arc::default() }
    }

    /// Returns the flags of VFIO_IRQ_INFO and the number of interrupts for a kind of interrupts.
    pub fn info(&self, kind: u32) -> (u32, u32) {
        match kind {
            PIN => (EVENTFD | MASKABLE | AUTOMASKED, 1),
            VECTOR => (EVENTFD | NORESIZE, short_length(self.vectors.len())),
            // The device raises no error interrupts, but QEMU warns if it has no such vector.
            ERROR => (EVENTFD | NORESIZE, 1),
            _ => (0, 0),
        }
    }

    /// Applies an interrupt setting of the client, with the descriptors that came with the message.
    ///
    /// # Errors
    /// If the setting is invalid or not supported. Nothing has changed then.
    pub fn set(&mut self, setting: &Setting, fds: Vec<OwnedFd>) -> Result<Outcome, InvalidInterruptSetting> {
        let Setting { flags, kind, start, count, .. } = *setting;
        let (_, available) = self.info(kind);
        let end = start.checked_add(count).filter(|end| *end <= available).ok_or(InvalidInterruptSetting)?;
        match flags {
            // No data and a count of 0: release all interrupts of this kind.
            _ if flags == DATA_NONE | ACTION_TRIGGER && count == 0 => self.release_interrupts(kind, 0, available),
            _ if flags == DATA_EVENTFD | ACTION_TRIGGER && fds.is_empty() => self.release_interrupts(kind, start, end),
            _ if flags == DATA_EVENTFD | ACTION_TRIGGER && fds.len() == index(count) => {
                self.assign_interrupt_eventfds(kind, start, fds)
            }
            _ if flags & !(DATA_NONE | DATA_BOOL) == ACTION_TRIGGER => self.trigger_interrupts(setting),
            _ if kind == PIN && flags & !(DATA_NONE | DATA_BOOL) == ACTION_MASK => self.mask_pin_interrupt(true),
            // Unmasking through an eventfd is not supported. QEMU then sends a message instead.
            _ if kind == PIN && flags & !(DATA_NONE | DATA_BOOL) == ACTION_UNMASK => {
                self.mask_pin_interrupt(false);
                return Ok(Outcome::Unmasked);
            }
            _ => return Err(InvalidInterruptSetting),
        }
        Ok(Outcome::Applied)
    }

    /// Removes the eventfds of interrupts `start` to `end` of a kind, so that they are no longer signalled.
    fn release_interrupts(&mut self, kind: u32, start: u32, end: u32) {
        match kind {
            PIN => self.pin = None,
            VECTOR => self.vectors[index(start)..index(end)].fill_with(|| None),
            _ => {}
        }
    }

    /// Sets the eventfds that signal the interrupts of a kind, from number `start` on.
    fn assign_interrupt_eventfds(&mut self, kind: u32, start: u32, fds: Vec<OwnedFd>) {
        for (place, fd) in (index(start)..).zip(fds) {
            let event = Some(Arc::new(EventFd::new(fd)));
            match kind {
                PIN => {
                    self.pin = event;
                    self.mask_pin_interrupt(false);
                }
                VECTOR => self.vectors[place] = event,
                _ => {}
            }
        }
    }

    /// Raises the interrupts that a setting names, for a client that tests them.
    fn trigger_interrupts(&self, setting: &Setting) {
        for place in 0..setting.count {
            let is_meant = setting.flags & DATA_BOOL == 0 || setting.data.get(index(place)).is_some_and(|it| *it != 0);
            match setting.kind {
                _ if !is_meant => {}
                PIN => self.raise_pin_interrupt(),
                ERROR => {}
                _ => self.vectors[index(setting.start + place)].iter().for_each(|event| event.signal_eventfd()),
            }
        }
    }

    /// Raises an interrupt by this vector. Without any vectors, raises it by the pin, unless bit 0 of `masked`
    /// (register INTMS) is set.
    pub fn raise(&self, vector: u16, masked: u32) {
        match self.vectors.get(usize::from(vector)).and_then(Option::as_ref) {
            Some(event) => event.signal_eventfd(),
            None if self.vectors.iter().all(Option::is_none) && masked & 1 == 0 => self.raise_pin_interrupt(),
            None => {}
        }
    }

    fn raise_pin_interrupt(&self) {
        let Some(pin) = &self.pin else { return };
        if !self.is_pin_masked.swap(true, Ordering::AcqRel) {
            pin.signal_eventfd();
        }
    }

    fn mask_pin_interrupt(&self, is_masked: bool) {
        self.is_pin_masked.store(is_masked, Ordering::Release);
    }
}

impl EventFd {
    fn new(fd: OwnedFd) -> EventFd {
        let flags = rustix::fs::fcntl_getfl(&fd).unwrap_or(OFlags::empty());
        EventFd { fd, may_block: !flags.contains(OFlags::NONBLOCK) }
    }

    /// Signals the eventfd. A descriptor that is no eventfd, or a full counter, harms only the client and is ignored.
    fn signal_eventfd(&self) {
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !self.may_block || matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1)) {
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::EventfdFlags;

    use super::*;

    fn eventfd() -> (OwnedFd, OwnedFd) {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        (fd.try_clone().unwrap(), fd)
    }

    fn heard(fd: &OwnedFd) -> u64 {
        let mut bytes = [0; 8];
        rustix::io::read(fd, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
    }

    fn setting(flags: u32, kind: u32, start: u32, count: u32) -> Setting<'static> {
        Setting { flags, kind, start, count, data: &[] }
    }

    #[test]
    fn pin_interrupt_fires_once_until_unmasked() {
        let mut interrupts = ClientInterrupts::new(33);
        let (mine, theirs) = eventfd();
        interrupts.set(&setting(DATA_EVENTFD | ACTION_TRIGGER, PIN, 0, 1), vec![theirs]).unwrap();
        interrupts.raise(3, 1);
        assert_eq!(heard(&mine), 0);
        interrupts.raise(3, 0);
        interrupts.raise(0, 0);
        assert_eq!(heard(&mine), 1);
        let unmask = setting(DATA_NONE | ACTION_UNMASK, PIN, 0, 1);
        assert_eq!(interrupts.set(&unmask, Vec::new()), Ok(Outcome::Unmasked));
        interrupts.raise(0, 0);
        assert_eq!(heard(&mine), 1);
    }

    #[test]
    fn vector_signals_its_eventfd_and_silences_the_pin() {
        let mut interrupts = ClientInterrupts::new(33);
        let (pin, pins) = eventfd();
        let (mine, theirs) = eventfd();
        interrupts.set(&setting(DATA_EVENTFD | ACTION_TRIGGER, PIN, 0, 1), vec![pins]).unwrap();
        interrupts.set(&setting(DATA_EVENTFD | ACTION_TRIGGER, VECTOR, 2, 1), vec![theirs]).unwrap();
        interrupts.raise(2, 0);
        interrupts.raise(1, 0);
        assert_eq!((heard(&mine), heard(&pin)), (1, 0));
        interrupts.set(&setting(DATA_NONE | ACTION_TRIGGER, VECTOR, 2, 1), Vec::new()).unwrap();
        assert_eq!(heard(&mine), 1);
        // Release the vector: an empty list of eventfds removes it.
        interrupts.set(&setting(DATA_EVENTFD | ACTION_TRIGGER, VECTOR, 2, 1), Vec::new()).unwrap();
        interrupts.raise(2, 0);
        assert_eq!((heard(&mine), heard(&pin)), (0, 1));
    }

    #[test]
    fn nonexistent_interrupts_cannot_be_set() {
        let mut interrupts = ClientInterrupts::new(33);
        for (flags, kind, start, count) in [
            (DATA_NONE | ACTION_TRIGGER, VECTOR, 33, 1),
            (DATA_NONE | ACTION_TRIGGER, VECTOR, u32::MAX, 2),
            (DATA_EVENTFD | ACTION_UNMASK, PIN, 0, 1),
            (ACTION_MASK, VECTOR, 0, 1),
            (DATA_NONE | ACTION_TRIGGER, 7, 0, 1),
            (0, PIN, 0, 1),
        ] {
            assert_eq!(
                interrupts.set(&setting(flags, kind, start, count), Vec::new()),
                Err(InvalidInterruptSetting),
                "{flags:x}"
            );
        }
        let (_, one) = eventfd();
        let two = setting(DATA_EVENTFD | ACTION_TRIGGER, VECTOR, 0, 2);
        assert_eq!(interrupts.set(&two, vec![one]), Err(InvalidInterruptSetting));
    }
}
