//! Layouts of log pages (Base Specification 2.0, section 5.16), of reports, and of data structures of features.

use super::layout::layouts;

layouts! {
    /// Log page with one dword for each identifier of a log page or feature: Supported Log Pages, and Feature
    /// Identifiers Supported and Effects.
    SupportedIds: 1024 {
        /// Support and effects of each identifier.
        IDS: [u32; 256] = 0,
    }
    /// Entry of the log page Error Information.
    ErrorEntry: 64 {
        /// Number of the error since power-on.
        NUMBER: u64 = 0,
        /// Submission queue (SQID).
        QUEUE: u16 = 8,
        /// Command identifier (CID).
        COMMAND_ID: u16 = 10,
        /// Status field, without phase tag.
        STATUS: u16 = 12[1..=15],
        /// Byte and bit of the wrong parameter; all ones if it is not reported.
        PARAMETER: u16 = 14,
        /// First logical block of the command.
        BLOCK: u64 = 16,
        /// Namespace (NSID).
        NAMESPACE: u32 = 24,
    }
    /// Log page SMART / Health Information.
    Health: 512 {
        /// Temperature is beyond a threshold (a bit of Critical Warning).
        TEMPERATURE_WARNING: u8 = 0[1],
        /// Composite temperature in kelvin.
        TEMPERATURE: u16 = 1,
        /// Available spare in percent.
        SPARE: u8 = 3,
        /// Threshold of the available spare in percent.
        SPARE_THRESHOLD: u8 = 4,
        /// Data units read.
        UNITS_READ: u128 = 32,
        /// Data units written.
        UNITS_WRITTEN: u128 = 48,
        /// Read commands.
        READS: u128 = 64,
        /// Write commands.
        WRITES: u128 = 80,
        /// Power cycles.
        POWER_CYCLES: u128 = 112,
        /// Number of entries of the error log since power-on.
        ERRORS: u128 = 176,
    }
    /// Log page Firmware Slot Information.
    FirmwareSlots: 512 {
        /// Active slot (bits of AFI).
        ACTIVE: u8 = 0[0..=2],
        /// Firmware revision of the first slot.
        REVISION: [u8; 8] = 8,
    }
    /// Log page Commands Supported and Effects.
    CommandEffects: 4096 {
        /// Effects of admin commands, by opcode.
        ADMIN: [CommandEffect; 256] = 0,
        /// Effects of I/O commands, by opcode.
        IO: [CommandEffect; 256] = 1024,
    }
    /// Effects of a command.
    CommandEffect: 4 {
        /// The command is supported (CSUPP), with its effects in the next bits.
        EFFECTS: u8 = 0,
    }
    /// Header of the log pages Telemetry Host-Initiated and Telemetry Controller-Initiated.
    TelemetryHeader: 512 {
        /// Identifier of the log page.
        ID: u8 = 0,
        /// Last block of data area 1.
        FIRST_AREA_END: u16 = 8,
        /// Last block of data area 2.
        SECOND_AREA_END: u16 = 10,
        /// Last block of data area 3.
        THIRD_AREA_END: u16 = 12,
        /// Number of captures of host-initiated telemetry.
        GENERATION: u8 = 381,
    }
    /// Header of the log page Discovery.
    DiscoveryHeader: 1024 {
        /// Number of changes of the log page (GENCTR).
        GENERATION: u64 = 0,
        /// Number of records (NUMREC).
        RECORDS: u64 = 8,
        /// Format of the log page (RECFMT).
        RECORD_FORMAT: u16 = 16,
    }
    /// Record of the log page Discovery.
    DiscoveryEntry: 1024 {
        /// Transport (TRTYPE).
        TRANSPORT: u8 = 0,
        /// Family of the address (ADRFAM).
        ADDRESS_FAMILY: u8 = 1,
        /// Type of the subsystem (SUBTYPE).
        SUBSYSTEM_TYPE: u8 = 2,
        /// Requirement of a secure channel (bits of TREQ).
        SECURE_CHANNEL: u8 = 3[0..=1],
        /// Hosts may disable the flow control of submission queues (a bit of TREQ).
        MAY_DISABLE_FLOW_CONTROL: u8 = 3[2],
        /// Port of the NVM subsystem (PORTID).
        PORT: u16 = 4,
        /// Controller identifier (CNTLID).
        CONTROLLER: u16 = 6,
        /// Maximum number of entries of an admin submission queue (ASQSZ).
        ADMIN_ENTRIES: u16 = 8,
        /// The discovery subsystem keeps connections with a keep-alive timeout (a bit of EFLAGS).
        IS_PERSISTENT: u16 = 10[1],
        /// Identifier of the transport's service (TRSVCID): the port of TCP in decimal digits.
        SERVICE: [u8; 32] = 32,
        /// NVMe qualified name of the subsystem (SUBNQN), which ends with a zero.
        SUBSYSTEM_NAME: [u8; 256] = 256,
        /// Address (TRADDR).
        ADDRESS: [u8; 256] = 512,
        /// Type of security of TCP (SECTYPE in TSAS; TCP Transport Specification 1.0, section 3.1.1).
        SECURITY: u8 = 768,
    }
    /// Log page Sanitize Status.
    SanitizeStatus: 512 {
        /// Progress (SPROG): 65536ths, or all ones if no operation is in progress.
        PROGRESS: u16 = 0,
        /// Status of the latest operation (bits of SSTAT).
        STATE: u8 = 2,
        /// Dword 10 of the latest Sanitize command (SCDW10).
        COMMAND: u32 = 4,
        /// Estimated times of six kinds of operations; all ones if they are not reported.
        ESTIMATES: [u8; 24] = 8,
    }
    /// Header of the log page Asymmetric Namespace Access.
    AccessHeader: 16 {
        /// Number of changes (CHGCNT).
        CHANGES: u64 = 0,
        /// Number of groups.
        GROUPS: u16 = 8,
    }
    /// Group in the log page Asymmetric Namespace Access, before the list of its namespaces.
    AccessGroup: 32 {
        /// Group (ANAGRPID).
        GROUP: u32 = 0,
        /// Number of namespaces in the list (NNV).
        NAMESPACES: u32 = 4,
        /// Number of changes of the log page at the latest change of the group (CHGCNT).
        CHANGES: u64 = 8,
        /// State of the path to the namespaces of the group.
        STATE: u8 = 16[0..=3],
    }
    /// Log page Reservation Notification.
    ReservationNotice: 64 {
        /// Number of notices so far (log page count); 0 if there is none to be read.
        NUMBER: u64 = 0,
        /// Kind of the notice.
        KIND: u8 = 8,
        /// Number of further notices to be read.
        LEFT: u8 = 9,
        /// Namespace (NSID).
        NAMESPACE: u32 = 12,
    }
    /// Header of the report of reservations, with host identifiers of 64 bits (section 7.5).
    ReservationStatus: 24 {
        /// Number of changes (GEN).
        GENERATION: u32 = 0,
        /// Type of the reservation (RTYPE); 0 if nobody holds one.
        TYPE: u8 = 4,
        /// Number of registrants (REGSTRNT).
        REGISTRANTS: u16 = 5,
        /// State of Persist Through Power Loss (PTPLS).
        PERSISTS: u8 = 9,
    }
    /// Header of the report of reservations, with host identifiers of 128 bits; it begins as the shorter one.
    LongReservationStatus: 64 {
        /// Number of changes (GEN).
        GENERATION: u32 = 0,
    }
    /// Registrant in the report of reservations.
    RegisteredController: 24 {
        /// Controller (CNTLID).
        CONTROLLER: u16 = 0,
        /// The host holds the reservation (a bit of RCSTS).
        IS_HOLDER: u8 = 2[0],
        /// Host identifier (HOSTID).
        HOST: [u8; 8] = 8,
        /// Key of the host (RKEY).
        KEY: u64 = 16,
    }
    /// Registrant in the report of reservations, with a host identifier of 128 bits.
    LongRegisteredController: 64 {
        /// Controller (CNTLID).
        CONTROLLER: u16 = 0,
        /// The host holds the reservation (a bit of RCSTS).
        IS_HOLDER: u8 = 2[0],
        /// Key of the host (RKEY).
        KEY: u64 = 8,
        /// Host identifier (HOSTID).
        HOST: [u8; 16] = 16,
    }
    /// Header of the log page Persistent Event Log (section 5.16.1.14).
    PersistentEventHeader: 512 {
        /// Identifier of the log page.
        ID: u8 = 0,
        /// Number of events (TNEV).
        EVENTS: u32 = 4,
        /// Length of the log in bytes (TLL).
        LENGTH: u64 = 8,
        /// Revision of the log page.
        REVISION: u8 = 16,
        /// Length of the header after this field.
        HEADER_LENGTH: u16 = 18,
        /// Timestamp.
        TIMESTAMP: [u8; 8] = 20,
        /// Power cycles.
        POWER_CYCLES: u64 = 44,
        /// PCI vendor identifier.
        VENDOR: u16 = 52,
        /// PCI subsystem vendor identifier.
        SUBSYSTEM_VENDOR: u16 = 54,
        /// Serial number.
        SERIAL: [u8; 20] = 56,
        /// Model number.
        MODEL: [u8; 40] = 76,
        /// NVMe qualified name of the subsystem.
        SUBSYSTEM_NAME: [u8; 256] = 116,
        /// Number of reporting contexts.
        GENERATION: u16 = 372,
        /// Supported types of events, one bit for each.
        EVENT_TYPES: [u8; 32] = 480,
    }
    /// Header of an event in the Persistent Event Log.
    PersistentEvent: 24 {
        /// Type of the event.
        TYPE: u8 = 0,
        /// Revision of the type.
        REVISION: u8 = 1,
        /// Length of the header after this field.
        HEADER_LENGTH: u8 = 2,
        /// Timestamp.
        TIMESTAMP: [u8; 8] = 6,
        /// Length of the data of the vendor and of the event.
        DATA_BYTES: u16 = 22,
    }
    /// Data of the event Change Namespace.
    ChangeNamespaceEvent: 48 {
        /// Operation (SEL) of Namespace Management.
        SELECT: u32 = 0,
        /// Size in logical blocks (NSZE).
        BLOCKS: u64 = 8,
        /// Capacity in logical blocks (NCAP).
        CAPACITY: u64 = 24,
        /// Namespace (NSID).
        NAMESPACE: u32 = 44,
    }
    /// Data of the event Format NVM Completion (section 5.16.1.14).
    FormatCompletionEvent: 12 {
        /// Namespace (NSID).
        NAMESPACE: u32 = 0,
    }
    /// Data of the event Sanitize Start (section 5.16.1.14).
    SanitizeStartEvent: 12 {
        /// Sanitize capabilities (SANICAP).
        CAPABILITIES: u32 = 0,
        /// Dword 10 of the Sanitize command.
        DWORD_10: u32 = 4,
        /// Dword 11 of the Sanitize command.
        DWORD_11: u32 = 8,
    }
    /// Data of the event Sanitize Completion (section 5.16.1.14).
    SanitizeCompletionEvent: 8 {
        /// Progress (SPROG).
        PROGRESS: u16 = 0,
        /// Status (SSTAT).
        STATE: u16 = 2,
    }
    /// Header of the log page LBA Status Information (NVM Command Set Specification 1.0, section 4.1.4).
    BlockStatusLog: 16 {
        /// Length of the log page in bytes.
        LENGTH: u32 = 0,
        /// Number of elements.
        ELEMENTS: u32 = 4,
        /// Estimated number of unreadable blocks.
        BLOCKS: u32 = 8,
        /// Number of changes of the log page (LSGC).
        GENERATION: u16 = 14,
    }
    /// Element of the log page LBA Status Information: a namespace (NVM Command Set Specification 1.0, section 4.1.4).
    BlockStatusElement: 16 {
        /// Namespace (NSID).
        NAMESPACE: u32 = 0,
        /// Number of descriptors of ranges.
        RANGES: u32 = 4,
        /// Recommended action type of Get LBA Status (RATYPE).
        ACTION: u8 = 8,
    }
    /// Header of the list of Get LBA Status (NVM Command Set Specification 1.0, section 4.2.1).
    BlockStatusList: 8 {
        /// Number of descriptors of ranges.
        RANGES: u32 = 0,
        /// Completion condition (CMPC).
        CONDITION: u8 = 4,
    }
    /// Descriptor of a range of unreadable blocks (NVM Command Set Specification 1.0, section 4.2.1).
    BlockStatusRange: 16 {
        /// First logical block (DSLBA).
        FIRST: u64 = 0,
        /// Number of logical blocks.
        COUNT: u32 = 8,
    }
    /// Header of the log page FDP Configurations (Base Specification 2.1, section 5.1.12.1.28).
    PlacementConfigurations: 16 {
        /// Length of the log page in bytes.
        LENGTH: u32 = 4,
    }
    /// Configuration of data placement, before its reclaim unit handles (Base Specification 2.1, section 5.1.12.1.28).
    PlacementConfiguration: 64 {
        /// Length of the configuration in bytes.
        LENGTH: u16 = 0,
        /// Number of upper bits of a placement identifier that hold the reclaim group (RGIF).
        GROUP_BITS: u8 = 2[0..=3],
        /// The configuration has a volatile write cache.
        WRITE_CACHE: u8 = 2[4],
        /// The configuration is valid.
        IS_VALID: u8 = 2[7],
        /// Number of reclaim groups (NRG).
        GROUPS: u32 = 4,
        /// Number of reclaim unit handles (NRUH).
        HANDLES: u16 = 8,
        /// Maximum number of placement identifiers of one command, less 1 (MAXPIDS).
        IDENTIFIERS_MAX: u16 = 10,
        /// Maximum number of namespaces (NNSS).
        NAMESPACES: u32 = 12,
        /// Size of a reclaim unit in bytes (RUNS).
        UNIT_BYTES: u64 = 16,
    }
    /// Reclaim unit handle in a configuration of data placement.
    UnitHandle: 4 {
        /// Type of the reclaim unit handle (RUHT).
        TYPE: u8 = 0,
    }
    /// Header of the log page Reclaim Unit Handle Usage (Base Specification 2.1, section 5.1.12.1.29).
    HandleUsage: 8 {
        /// Number of reclaim unit handles.
        HANDLES: u16 = 0,
    }
    /// Use of a reclaim unit handle (Base Specification 2.1, section 5.1.12.1.29).
    HandleUsageEntry: 8 {
        /// Attributes (RUHA).
        USE: u8 = 0,
    }
    /// Log page FDP Statistics (Base Specification 2.1, section 5.1.12.1.30).
    PlacementStatistics: 64 {
        /// Bytes written by hosts (HBMW).
        HOST_BYTES: u128 = 0,
        /// Bytes written to the media (MBMW).
        MEDIA_BYTES: u128 = 16,
        /// Bytes erased (MBE).
        ERASED_BYTES: u128 = 32,
    }
    /// Header of the log page FDP Events (Base Specification 2.1, section 5.1.12.1.31).
    PlacementEvents: 64 {
        /// Number of events.
        EVENTS: u32 = 0,
    }
    /// Event of data placement (Base Specification 2.1, section 5.1.12.1.31).
    PlacementEventEntry: 64 {
        /// Type of the event.
        TYPE: u8 = 0,
        /// The placement identifier is valid.
        HAS_IDENTIFIER: u8 = 1[0],
        /// The namespace is valid.
        HAS_NAMESPACE: u8 = 1[1],
        /// Reclaim group and reclaim unit handle are valid.
        HAS_LOCATION: u8 = 1[2],
        /// Placement identifier (PID).
        IDENTIFIER: u16 = 2,
        /// Timestamp.
        TIMESTAMP: [u8; 8] = 4,
        /// Namespace (NSID).
        NAMESPACE: u32 = 12,
        /// Number of logical blocks moved (NLBAM), of the event Media Reallocated.
        BLOCKS_MOVED: u16 = 18,
        /// Reclaim group (RGID).
        GROUP: u16 = 32,
        /// Reclaim unit handle (RUHID).
        HANDLE: u16 = 34,
    }
    /// Event type in the list of the feature FDP Events (Base Specification 2.1, section 5.1.25.1.21).
    PlacementEventType: 2 {
        /// Type of the event.
        TYPE: u8 = 0,
        /// Events of the type are reported.
        IS_ENABLED: u8 = 1[0],
    }
    /// Parameters of the Identify directive (Base Specification 2.1, section 8.1.8.2).
    Directives: 4096 {
        /// Directive types that are supported, one bit for each.
        SUPPORTED: u8 = 0,
        /// Directive types that are enabled.
        ENABLED: u8 = 32,
        /// Directive types that stay enabled across resets.
        PERSISTENT: u8 = 64,
    }
    /// Header of a zone report (Zoned Namespace Command Set Specification 1.1, section 3.4.2).
    ZoneReport: 64 {
        /// Number of zones.
        ZONES: u64 = 0,
    }
    /// Zone descriptor in a zone report (Zoned Namespace Command Set Specification 1.1, section 3.4.2).
    ZoneDescriptor: 64 {
        /// Zone type (ZT).
        TYPE: u8 = 0[0..=3],
        /// Zone state (ZS).
        STATE: u8 = 1[4..=7],
        /// Capacity in logical blocks (ZCAP).
        CAPACITY: u64 = 8,
        /// First logical block (ZSLBA).
        FIRST: u64 = 16,
        /// Write pointer (WP).
        POINTER: u64 = 24,
    }
    /// Header of the report Reclaim Unit Handle Status (Base Specification 2.1, section 7.3).
    UnitReport: 16 {
        /// Number of descriptors (NRUHSD).
        DESCRIPTORS: u16 = 14,
    }
    /// Descriptor in the report Reclaim Unit Handle Status (Base Specification 2.1, section 7.3).
    UnitDescriptor: 32 {
        /// Placement identifier (PID).
        IDENTIFIER: u16 = 0,
        /// Reclaim unit handle (RUHID).
        HANDLE: u16 = 2,
        /// Free logical blocks of the reclaim unit (RUAMW).
        ROOM: u64 = 8,
    }
    /// Data structure of the feature Timestamp (Base Specification 2.0).
    TimestampClock: 8 {
        /// Milliseconds.
        MS: u64 = 0[0..=47],
        /// The host has set the clock (Timestamp Origin).
        IS_SET: u64 = 0[49],
    }
}
