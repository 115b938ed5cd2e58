//! Features that a host sets and reads (Base Specification 2.0, section 5.27; NVM Command Set Specification 1.0,
//! section 4.1.3). A reset restores their default values. Settings of data placement and of keys outlive a reset; they
//! are part of the state of the namespaces.

use phaselink_core::number::{low_u16, low_u32};
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::protocol::nvme::spec::fields::feature;
use phaselink_core::protocol::nvme::spec::layout::{FieldAccess, Layout};
use phaselink_core::protocol::nvme::spec::logs::TimestampClock as TimestampData;

use super::limits::{KEEP_ALIVE_TENTHS, TEMPERATURE_KELVIN, interrupt_vectors};

/// Length in bytes of the data structure of Host Behavior Support.
const HOST_BEHAVIOR_BYTES: usize = 512;
/// Identifier of the feature Asynchronous Event Configuration.
const ASYNC_EVENT_CONFIGURATION: u8 = 0x0b;
/// Value of NSQR or NCQR in Number of Queues that is not allowed: 65536 queues (section 5.27.1.5).
const QUEUE_COUNT_INVALID: u32 = 0xffff;

/// Row of the table of features: identifier, and the functions that read and set the feature.
#[derive(Clone, Copy, Debug)]
pub struct FeatureRow {
    /// Feature identifier (FID).
    pub id: u8,
    /// Returns the value of the feature. The second argument is dword 11 of Get Features, which selects a sensor or a
    /// vector in some features.
    get: fn(&FeatureValues, u32) -> Result<u32, Status>,
    /// Sets the feature to dword 11 of Set Features, and returns dword 0 of the completion. The last argument is true
    /// if the host has created I/O queues.
    set: fn(&mut FeatureValues, u32, bool) -> Result<u32, Status>,
    /// Functions for the data structure in host memory that some features have in place of a 32-bit value.
    structure: Option<FeatureStructureAccess>,
}

/// Functions that return and set the data structure of a feature. Their last argument is the time of the host's clock
/// in milliseconds.
#[derive(Clone, Copy, Debug)]
struct FeatureStructureAccess {
    get: fn(&FeatureValues, u64) -> Vec<u8>,
    set: fn(&mut FeatureValues, &[u8], u64),
}

impl FeatureRow {
    /// Returns the row of a feature that has a value of 32 bits.
    const fn value(
        id: u8,
        get: fn(&FeatureValues, u32) -> Result<u32, Status>,
        set: fn(&mut FeatureValues, u32, bool) -> Result<u32, Status>,
    ) -> FeatureRow {
        FeatureRow { id, get, set, structure: None }
    }

    /// Returns the row of a feature that has a data structure in place of a value.
    const fn structure(
        id: u8,
        get: fn(&FeatureValues, u64) -> Vec<u8>,
        set: fn(&mut FeatureValues, &[u8], u64),
    ) -> FeatureRow {
        FeatureRow { id, get: |_, _| Ok(0), set: |_, _, _| Ok(0), structure: Some(FeatureStructureAccess { get, set }) }
    }
}

/// Features that the controller supports, apart from those of data placement and of keys. Interrupt coalescing is
/// stored and not acted upon, as the specification allows: interrupts are sent at once.
pub const FEATURES: &[FeatureRow] = &[
    // Arbitration.
    FeatureRow::value(
        0x01,
        |features, _| Ok(features.arbitration),
        |features, value, _| {
            features.arbitration = value;
            Ok(0)
        },
    ),
    // Power Management: there is one power state.
    FeatureRow::value(
        0x02,
        |_, _| Ok(0),
        |_, value, _| {
            if feature::POWER_STATE.of_dword(value) == 0 { Ok(0) } else { Err(Status::INVALID_FIELD) }
        },
    ),
    // Temperature Threshold.
    FeatureRow::value(
        0x04,
        |features, select| features.temperature_threshold(select),
        |features, value, _| features.set_temperature_threshold(value).map(|()| 0),
    ),
    // Error Recovery.
    FeatureRow::value(
        0x05,
        |features, _| Ok(features.error_recovery),
        |features, value, _| {
            features.error_recovery = feature::RECOVERY_LIMIT.of_dword(value);
            Ok(0)
        },
    ),
    // Volatile Write Cache.
    FeatureRow::value(
        0x06,
        |features, _| Ok(features.write_cache.into()),
        |features, value, _| {
            features.write_cache = feature::WRITE_CACHE.of_dword(value) == 1;
            Ok(0)
        },
    ),
    // Number of Queues.
    FeatureRow::value(0x07, |features, _| Ok(features.queue_counts), FeatureValues::set_queue_counts),
    // Interrupt Coalescing.
    FeatureRow::value(
        0x08,
        |features, _| Ok(features.coalescing),
        |features, value, _| {
            features.coalescing = feature::COALESCING.of_dword(value);
            Ok(0)
        },
    ),
    // Interrupt Vector Configuration.
    FeatureRow::value(0x09, FeatureValues::interrupt_vector_configuration, |features, value, _| {
        features.set_vector_configuration(value).map(|()| 0)
    }),
    // Write Atomicity Normal.
    FeatureRow::value(
        0x0a,
        |features, _| Ok(features.atomicity),
        |features, value, _| {
            features.atomicity = feature::ATOMICITY.of_dword(value);
            Ok(0)
        },
    ),
    // Asynchronous Event Configuration.
    FeatureRow::value(
        ASYNC_EVENT_CONFIGURATION,
        |features, _| Ok(features.event_configuration),
        |features, value, _| {
            features.event_configuration = value;
            Ok(0)
        },
    ),
    // Timestamp.
    FeatureRow::structure(
        0x0e,
        |features, now_ms| features.timestamp.structure(now_ms).to_vec(),
        |features, bytes, now_ms| {
            features.timestamp = TimestampClock::clock_from_host(bytes, now_ms);
        },
    ),
    // Keep Alive Timer: rounded up to the unit that Identify Controller reports (KAS), and read back rounded.
    FeatureRow::value(
        0x0f,
        |features, _| Ok(features.keep_alive_ms),
        |features, value, _| {
            features.set_keep_alive(value);
            Ok(0)
        },
    ),
    // Host Behavior Support.
    FeatureRow::structure(
        0x16,
        |features, _| features.host_behavior.to_vec(),
        |features, bytes, _| {
            features.host_behavior.copy_from_slice(bytes);
        },
    ),
];

/// Current values of a controller's features.
#[derive(Clone, Debug)]
pub struct FeatureValues {
    /// Value of Arbitration, which matters only with weighted round robin arbitration.
    pub arbitration: u32,
    over_temperature_kelvin: u16,
    under_temperature_kelvin: u16,
    error_recovery: u32,
    /// True if the volatile write cache is enabled: a write is durable after the next flush. False if each write is
    /// durable when it completes.
    pub write_cache: bool,
    coalescing: u32,
    /// Bit for each interrupt vector that is set if coalescing is disabled for the vector.
    coalescing_disabled: u64,
    atomicity: u32,
    event_configuration: u32,
    /// Keep-alive timeout in milliseconds (section 5.27.1.12); 0 turns the timer off.
    pub keep_alive_ms: u32,
    host_behavior: [u8; HOST_BEHAVIOR_BYTES],
    timestamp: TimestampClock,
    /// Value of Number of Queues: I/O submission queues, and in the high half I/O completion queues, each less 1.
    queue_counts: u32,
    limits: Limits,
}

/// Clock of the feature Timestamp, which the host may set (section 5.27.1.11).
#[derive(Clone, Copy, Debug, Default)]
struct TimestampClock {
    /// Milliseconds that the clock showed when it was set.
    ms: u64,
    /// Time of the host's clock, in milliseconds, when the Timestamp was set or the controller was enabled.
    set_at_ms: u64,
    is_set: bool,
}

impl TimestampClock {
    /// Returns the clock that Set Features sets with this Timestamp data structure.
    fn clock_from_host(bytes: &[u8], now_ms: u64) -> TimestampClock {
        TimestampClock { ms: TimestampData::MS.read(bytes), set_at_ms: now_ms, is_set: true }
    }

    /// Returns the Timestamp data structure for the time `now_ms` of the host's clock.
    fn structure(&self, now_ms: u64) -> [u8; TimestampData::BYTES] {
        let ms = self.ms.wrapping_add(now_ms.saturating_sub(self.set_at_ms)) & TimestampData::MS.max();
        TimestampData::zeros().with(TimestampData::MS, ms).with(TimestampData::IS_SET, self.is_set).into_bytes()
    }
}

impl FeatureValues {
    /// Returns the default values of all features of a controller with these limits.
    pub fn new(limits: &Limits) -> FeatureValues {
        FeatureValues {
            arbitration: 0,
            over_temperature_kelvin: u16::MAX,
            under_temperature_kelvin: 0,
            error_recovery: 0,
            write_cache: true,
            coalescing: 0,
            coalescing_disabled: 0,
            atomicity: 0,
            event_configuration: 0,
            keep_alive_ms: 0,
            host_behavior: [0; HOST_BEHAVIOR_BYTES],
            timestamp: TimestampClock::default(),
            queue_counts: limits.number_of_queues_field(),
            limits: *limits,
        }
    }

    /// Returns the row of the feature with this identifier.
    ///
    /// # Errors
    /// Invalid Field if the controller does not support the feature.
    pub fn row(id: u8) -> Result<&'static FeatureRow, Status> {
        FEATURES.iter().find(|row| row.id == id).ok_or(Status::INVALID_FIELD)
    }

    /// Returns the value of a feature. `select` is dword 11 of Get Features.
    ///
    /// # Errors
    /// Invalid Field if `select` names a sensor or a vector that the feature does not have.
    pub fn get(&self, row: &FeatureRow, select: u32) -> Result<u32, Status> {
        (row.get)(self, select)
    }

    /// Sets a feature to dword 11 of Set Features, and returns dword 0 of the completion.
    ///
    /// # Errors
    /// Invalid Field if the value is not allowed; Command Sequence Error for Number of Queues while I/O queues exist.
    pub fn set(&mut self, row: &FeatureRow, value: u32, has_io_queues: bool) -> Result<u32, Status> {
        (row.set)(self, value, has_io_queues)
    }

    /// Starts the Timestamp clock when the controller is enabled.
    pub fn start_clock(&mut self, now_ms: u64) {
        self.timestamp.set_at_ms = now_ms;
    }

    /// Returns the data structure of a feature, or none if the feature has a 32-bit value in place of one.
    pub fn structure(&self, row: &FeatureRow, now_ms: u64) -> Option<Vec<u8>> {
        row.structure.map(|structure| (structure.get)(self, now_ms))
    }

    /// Sets a feature from its data structure, which is as long as the one that [`FeatureValues::structure`] returns.
    pub fn set_feature_structure(&mut self, row: &FeatureRow, bytes: &[u8], now_ms: u64) {
        if let Some(structure) = row.structure {
            (structure.set)(self, bytes, now_ms);
        }
    }

    /// Sets Number of Queues, and returns the value for the number of queues that the controller grants.
    fn set_queue_counts(&mut self, value: u32, has_io_queues: bool) -> Result<u32, Status> {
        let (submission, completion) = requested_queue_counts(value);
        if has_io_queues {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if submission == QUEUE_COUNT_INVALID || completion == QUEUE_COUNT_INVALID {
            return Err(Status::INVALID_FIELD);
        }
        let max = self.limits.queue_pairs - 1;
        let granted = feature::SUBMISSION_QUEUES.in_dword(0, submission.min(max));
        self.queue_counts = feature::COMPLETION_QUEUES.in_dword(granted, completion.min(max));
        Ok(self.queue_counts)
    }

    /// Returns the numbers of I/O submission queues and I/O completion queues that the host may create.
    pub fn queue_counts(&self) -> (u32, u32) {
        let (submission, completion) = requested_queue_counts(self.queue_counts);
        (submission + 1, completion + 1)
    }

    /// Returns true if the assumed temperature is at or beyond one of the thresholds that the host has set.
    pub fn is_temperature_critical(&self) -> bool {
        TEMPERATURE_KELVIN >= self.over_temperature_kelvin || TEMPERATURE_KELVIN <= self.under_temperature_kelvin
    }

    /// Returns true if the host asked for an event when namespaces change (Asynchronous Event Configuration).
    pub fn wants_namespace_events(&self) -> bool {
        feature::NAMESPACE_EVENT.of_dword(self.event_configuration) == 1
    }

    /// Returns true if the host asked for an event when the access on its path changes.
    pub fn wants_access_events(&self) -> bool {
        feature::ACCESS_EVENT.of_dword(self.event_configuration) == 1
    }

    /// Returns true if the host asked for an event when the log page of a discovery controller changes (Asynchronous
    /// Event Configuration).
    pub fn wants_discovery_events(&self) -> bool {
        feature::DISCOVERY_EVENT.of_dword(self.event_configuration) == 1
    }

    /// Returns true if a discovery controller has the feature with this identifier: Asynchronous Event Configuration,
    /// and Keep Alive Timer.
    pub fn is_of_discovery(id: u8) -> bool {
        matches!(id, ASYNC_EVENT_CONFIGURATION | 0x0f)
    }

    /// Returns true if a value of Asynchronous Event Configuration asks for other events than Discovery Log Page Change,
    /// which are those of a drive (figure 326).
    pub fn wants_other_events(id: u8, value: u32) -> bool {
        id == ASYNC_EVENT_CONFIGURATION && value & !feature::DISCOVERY_EVENT.in_dword(0, 1) != 0
    }

    /// Sets the keep-alive timeout in milliseconds, rounded up to the unit of the timer.
    pub fn set_keep_alive(&mut self, ms: u32) {
        let unit_ms = u32::from(KEEP_ALIVE_TENTHS) * 100;
        self.keep_alive_ms = ms.div_ceil(unit_ms).saturating_mul(unit_ms);
    }

    /// Returns the data structure of the feature Timestamp at the time `now_ms` of the host's clock.
    pub(super) fn timestamp(&self, now_ms: u64) -> [u8; TimestampData::BYTES] {
        self.timestamp.structure(now_ms)
    }

    /// Returns true if the host asked for an event when the temperature passes a threshold (Asynchronous Event
    /// Configuration).
    pub fn wants_temperature_events(&self) -> bool {
        feature::TEMPERATURE_EVENT.of_dword(self.event_configuration) == 1
    }

    fn temperature_threshold(&self, select: u32) -> Result<u32, Status> {
        match (feature::SENSOR.of_dword(select), feature::THRESHOLD.of_dword(select)) {
            (0, 0) => Ok(self.over_temperature_kelvin.into()),
            (0, 1) => Ok(self.under_temperature_kelvin.into()),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Sets a threshold of the composite temperature, the only sensor; sensor 15 means all of them.
    fn set_temperature_threshold(&mut self, value: u32) -> Result<(), Status> {
        let kelvin = low_u16(feature::TEMPERATURE.of_dword(value));
        match (feature::SENSOR.of_dword(value), feature::THRESHOLD.of_dword(value)) {
            (0 | 15, 0) => self.over_temperature_kelvin = kelvin,
            (0 | 15, 1) => self.under_temperature_kelvin = kelvin,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(())
    }

    fn interrupt_vector_configuration(&self, select: u32) -> Result<u32, Status> {
        let vector = self.vector(select)?;
        Ok(feature::NO_COALESCING.in_dword(vector, low_u32(self.coalescing_disabled >> vector & 1)))
    }

    fn set_vector_configuration(&mut self, value: u32) -> Result<(), Status> {
        let bit = 1 << self.vector(value)?;
        self.coalescing_disabled =
            self.coalescing_disabled & !bit | if feature::NO_COALESCING.of_dword(value) == 1 { bit } else { 0 };
        Ok(())
    }

    /// Returns the interrupt vector in the low half of a dword. Invalid Field if the controller does not have it.
    fn vector(&self, value: u32) -> Result<u32, Status> {
        let vector = feature::VECTOR.of_dword(value);
        if vector < u32::from(interrupt_vectors(&self.limits)) { Ok(vector) } else { Err(Status::INVALID_FIELD) }
    }
}

/// Returns the numbers of submission and completion queues, each less 1, in a value of Number of Queues.
fn requested_queue_counts(value: u32) -> (u32, u32) {
    (feature::SUBMISSION_QUEUES.of_dword(value), feature::COMPLETION_QUEUES.of_dword(value))
}
