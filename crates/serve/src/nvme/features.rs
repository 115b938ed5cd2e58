//! Features: what a host may set and ask for (Base Specification 2.0, section 5.27; NVM Command Set Specification 1.0,
//! section 4.1.3). None is saved across resets.

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::Status;

use super::{KEEP_ALIVE_TENTHS, TEMPERATURE_KELVIN, vectors};

/// Feature identifiers (figure 317).
mod id {
    pub(super) const ARBITRATION: u8 = 0x01;
    pub(super) const POWER: u8 = 0x02;
    pub(super) const TEMPERATURE: u8 = 0x04;
    pub(super) const ERROR_RECOVERY: u8 = 0x05;
    pub(super) const WRITE_CACHE: u8 = 0x06;
    pub(super) const QUEUES: u8 = 0x07;
    pub(super) const COALESCING: u8 = 0x08;
    pub(super) const VECTOR: u8 = 0x09;
    pub(super) const ATOMICITY: u8 = 0x0a;
    pub(super) const EVENTS: u8 = 0x0b;
    pub(super) const TIMESTAMP: u8 = 0x0e;
    pub(super) const KEEP_ALIVE: u8 = 0x0f;
    pub(super) const HOST_BEHAVIOR: u8 = 0x16;
}

/// Those that are supported.
pub const ALL: [u8; 13] = [
    id::ARBITRATION,
    id::POWER,
    id::TEMPERATURE,
    id::ERROR_RECOVERY,
    id::WRITE_CACHE,
    id::QUEUES,
    id::COALESCING,
    id::VECTOR,
    id::ATOMICITY,
    id::EVENTS,
    id::TIMESTAMP,
    id::KEEP_ALIVE,
    id::HOST_BEHAVIOR,
];
/// Bytes of the structure of Host Behavior Support (figure 355) and of that of Timestamp (figure 336).
const HOST_BEHAVIOR_BYTES: usize = 512;
const TIMESTAMP_BYTES: usize = 8;
/// Milliseconds of a timestamp, which is in its lowest six bytes.
const TIMESTAMP_MS: u64 = (1 << 48) - 1;
/// Origin, in the seventh byte: the host has set it, rather than a reset to 0.
const TIMESTAMP_IS_SET: u64 = 0b001 << 1;

/// A number of queues that asks for too many (section 5.27.1.5).
const QUEUES_INVALID: u32 = 0xffff;

/// What the host has set.
#[derive(Clone, Debug)]
pub struct Features {
    arbitration: u32,
    over_kelvin: u16,
    under_kelvin: u16,
    error_recovery: u32,
    /// With it, writes are durable from the next flush on; without it, at once.
    pub write_cache: bool,
    coalescing: u32,
    coalescing_disabled: u64,
    atomicity: u32,
    events: u32,
    /// Milliseconds within which the host says again that it is there, in whole units (section 5.27.1.12); 0 for ever.
    pub keep_alive_ms: u32,
    host_behavior: [u8; HOST_BEHAVIOR_BYTES],
    timestamp: Timestamp,
    queues: u32,
    limits: Limits,
}

/// A clock that the host may set (section 5.27.1.11).
#[derive(Clone, Copy, Debug, Default)]
struct Timestamp {
    /// What it showed, and what the host's own clock then did.
    ms: u64,
    at_ms: u64,
    is_set: bool,
}

impl Timestamp {
    /// Its structure now.
    fn structure(&self, now_ms: u64) -> [u8; TIMESTAMP_BYTES] {
        let ms = self.ms.wrapping_add(now_ms.saturating_sub(self.at_ms)) & TIMESTAMP_MS;
        let origin = if self.is_set { TIMESTAMP_IS_SET } else { 0 };
        (ms | origin << 48).to_le_bytes()
    }
}

impl Features {
    /// What a controller with these limits begins with.
    pub fn new(limits: &Limits) -> Features {
        Features {
            arbitration: 0,
            over_kelvin: u16::MAX,
            under_kelvin: 0,
            error_recovery: 0,
            write_cache: true,
            coalescing: 0,
            coalescing_disabled: 0,
            atomicity: 0,
            events: 0,
            keep_alive_ms: 0,
            host_behavior: [0; HOST_BEHAVIOR_BYTES],
            timestamp: Timestamp::default(),
            queues: limits.queues_field(),
            limits: *limits,
        }
    }

    /// The value of a feature; `select` is dword 11.
    ///
    /// # Errors
    /// Invalid Field for a feature that is not there, or a part of it that is not.
    pub fn get(&self, feature: u8, select: u32) -> Result<u32, Status> {
        match feature {
            id::ARBITRATION => Ok(self.arbitration),
            // One power state.
            id::POWER => Ok(0),
            id::TEMPERATURE => self.threshold(select),
            id::ERROR_RECOVERY => Ok(self.error_recovery),
            id::WRITE_CACHE => Ok(self.write_cache.into()),
            id::QUEUES => Ok(self.queues),
            id::COALESCING => Ok(self.coalescing),
            id::VECTOR => {
                let vector = self.vector(select)?;
                Ok(vector | ((self.coalescing_disabled >> vector & 1) as u32) << 16)
            }
            id::ATOMICITY => Ok(self.atomicity),
            id::EVENTS => Ok(self.events),
            id::KEEP_ALIVE => Ok(self.keep_alive_ms),
            id::HOST_BEHAVIOR | id::TIMESTAMP => Ok(0),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Set a feature to dword 11; dword 0 of the answer. Coalescing and arbitration are remembered and not acted upon, as
    /// the specification allows: interrupts come at once, and queues take turns.
    ///
    /// # Errors
    /// As [`Features::get`]; Command Sequence Error for a number of queues while there are some.
    pub fn set(&mut self, feature: u8, value: u32, has_queues: bool) -> Result<u32, Status> {
        match feature {
            id::ARBITRATION => self.arbitration = value,
            id::POWER if value & 0x1f != 0 => return Err(Status::INVALID_FIELD),
            id::POWER => {}
            id::TEMPERATURE => self.set_threshold(value)?,
            id::ERROR_RECOVERY => self.error_recovery = value & 0xffff,
            id::WRITE_CACHE => self.write_cache = value & 1 == 1,
            id::QUEUES => return self.set_queues(value, has_queues),
            id::COALESCING => self.coalescing = value & 0xffff,
            id::VECTOR => {
                let bit = 1 << self.vector(value)?;
                self.coalescing_disabled = self.coalescing_disabled & !bit | if value >> 16 & 1 == 1 { bit } else { 0 };
            }
            id::ATOMICITY => self.atomicity = value & 1,
            id::EVENTS => self.events = value,
            // The value is rounded up to the unit, and what the host may ask for later is the rounded one.
            id::KEEP_ALIVE => {
                let unit_ms = u32::from(KEEP_ALIVE_TENTHS) * 100;
                self.keep_alive_ms = value.div_ceil(unit_ms).saturating_mul(unit_ms);
            }
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(0)
    }

    /// The controller has been enabled: its clock begins.
    pub fn begin(&mut self, now_ms: u64) {
        self.timestamp.at_ms = now_ms;
    }

    /// The structure in memory that a feature has, if it has one.
    pub fn structure(&self, feature: u8, now_ms: u64) -> Option<Vec<u8>> {
        match feature {
            id::HOST_BEHAVIOR => Some(self.host_behavior.to_vec()),
            id::TIMESTAMP => Some(self.timestamp.structure(now_ms).to_vec()),
            _ => None,
        }
    }

    /// Set a feature by its structure, which is as long as [`Features::structure`] gives it.
    pub fn set_structure(&mut self, feature: u8, structure: &[u8], now_ms: u64) {
        match (feature, structure.first_chunk()) {
            (id::TIMESTAMP, Some(bytes)) => {
                self.timestamp =
                    Timestamp { ms: u64::from_le_bytes(*bytes) & TIMESTAMP_MS, at_ms: now_ms, is_set: true };
            }
            (id::HOST_BEHAVIOR, _) => self.host_behavior.copy_from_slice(structure),
            _ => {}
        }
    }

    fn set_queues(&mut self, value: u32, has_queues: bool) -> Result<u32, Status> {
        let (submission, completion) = (value & 0xffff, value >> 16);
        if has_queues {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if submission == QUEUES_INVALID || completion == QUEUES_INVALID {
            return Err(Status::INVALID_FIELD);
        }
        let most = self.limits.queue_pairs - 1;
        self.queues = submission.min(most) | completion.min(most) << 16;
        Ok(self.queues)
    }

    /// Queues of either kind that the host may create, counted from 1.
    pub fn queue_pairs(&self) -> (u32, u32) {
        ((self.queues & 0xffff) + 1, (self.queues >> 16) + 1)
    }

    /// Whether the temperature is beyond a threshold.
    pub fn is_warm(&self) -> bool {
        TEMPERATURE_KELVIN >= self.over_kelvin || TEMPERATURE_KELVIN <= self.under_kelvin
    }

    /// Whether the host wants to be told of that (figure 326).
    pub fn tells_temperature(&self) -> bool {
        self.events >> 1 & 1 == 1
    }

    fn threshold(&self, select: u32) -> Result<u32, Status> {
        match (select >> 16 & 15, select >> 20 & 3) {
            (0, 0) => Ok(self.over_kelvin.into()),
            (0, 1) => Ok(self.under_kelvin.into()),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// The composite temperature is the only one; 15 stands for all there are.
    fn set_threshold(&mut self, value: u32) -> Result<(), Status> {
        match (value >> 16 & 15, value >> 20 & 3) {
            (0 | 15, 0) => self.over_kelvin = value as u16,
            (0 | 15, 1) => self.under_kelvin = value as u16,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(())
    }

    fn vector(&self, value: u32) -> Result<u32, Status> {
        let vector = value & 0xffff;
        if vector < u32::from(vectors(&self.limits)) { Ok(vector) } else { Err(Status::INVALID_FIELD) }
    }
}
