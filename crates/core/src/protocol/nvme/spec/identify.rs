//! Layouts of the data structures of Identify (Base Specification 2.0, section 5.17) and of the host's structure for a
//! new namespace.

use super::layout::layouts;

layouts! {
    /// Identify Controller.
    IdentifyController: 4096 {
        /// PCI vendor identifier (VID).
        VENDOR: u16 = 0,
        /// PCI subsystem vendor identifier (SSVID).
        SUBSYSTEM_VENDOR: u16 = 2,
        /// Serial number (SN).
        SERIAL: [u8; 20] = 4,
        /// Model number (MN).
        MODEL: [u8; 40] = 24,
        /// Firmware revision (FR).
        FIRMWARE: [u8; 8] = 64,
        /// NVM subsystem may have several controllers (a bit of CMIC).
        HAS_SEVERAL_CONTROLLERS: u8 = 76[1],
        /// Asymmetric namespace access is reported (a bit of CMIC).
        REPORTS_ACCESS: u8 = 76[3],
        /// Binary logarithm of the pages of the longest transfer (MDTS); 0 for no limit.
        TRANSFER_MAX: u8 = 77,
        /// Controller identifier (CNTLID).
        CONTROLLER: u16 = 78,
        /// Version (VER).
        VERSION: u32 = 80,
        /// Notices of changed namespaces (a bit of OAES).
        NAMESPACE_NOTICES: u32 = 92[8],
        /// Notices of changes of asymmetric namespace access (a bit of OAES).
        ACCESS_NOTICES: u32 = 92[11],
        /// Notices of changes of the discovery log page (a bit of OAES).
        DISCOVERY_NOTICES: u32 = 92[31],
        /// Controller attributes (CTRATT).
        ATTRIBUTES: u32 = 96,
        /// Controller type (CNTRLTYPE).
        TYPE: u8 = 111,
        /// Optional admin command support (OACS).
        OPTIONAL_ADMIN: u16 = 256,
        /// Abort command limit, less 1 (ACL).
        ABORTS: u8 = 258,
        /// Asynchronous event request limit, less 1 (AERL).
        EVENT_REQUESTS: u8 = 259,
        /// First firmware slot is read-only (a bit of FRMW).
        FIRST_SLOT_READ_ONLY: u8 = 260[0],
        /// Number of firmware slots (bits of FRMW).
        SLOTS: u8 = 260[1..=3],
        /// Log page Commands Supported and Effects (a bit of LPA).
        EFFECTS_LOG: u8 = 261[1],
        /// Extended data of Get Log Page (a bit of LPA).
        LOG_OFFSETS: u8 = 261[2],
        /// Telemetry log pages (a bit of LPA).
        TELEMETRY_LOG: u8 = 261[3],
        /// Persistent Event Log (a bit of LPA).
        PERSISTENT_LOG: u8 = 261[4],
        /// Entries of the error log, less 1 (ELPE).
        ERROR_ENTRIES: u8 = 262,
        /// Warning composite temperature in kelvin (WCTEMP).
        WARNING_TEMPERATURE: u16 = 266,
        /// Critical composite temperature in kelvin (CCTEMP).
        CRITICAL_TEMPERATURE: u16 = 268,
        /// Capacity in bytes (TNVMCAP).
        CAPACITY: u128 = 280,
        /// Unallocated capacity in bytes (UNVMCAP).
        UNALLOCATED: u128 = 296,
        /// Keep alive support: granularity in units of 100 ms (KAS).
        KEEP_ALIVE: u16 = 320,
        /// Sanitize capabilities (SANICAP).
        SANITIZE: u32 = 328,
        /// Endurance group identifier maximum (ENDGIDMAX).
        ENDURANCE_GROUPS: u16 = 340,
        /// Longest time of a change of asymmetric namespace access in seconds (ANATT).
        TRANSITION_SECONDS: u8 = 342,
        /// Capabilities of asymmetric namespace access (ANACAP).
        ACCESS_CAPABILITIES: u8 = 343,
        /// Largest identifier of a group of asymmetric namespace access (ANAGRPMAX).
        ACCESS_GROUP_MAX: u32 = 344,
        /// Number of groups of asymmetric namespace access (NANAGRPID).
        ACCESS_GROUPS: u32 = 348,
        /// Size of the persistent event log in units of 64 KiB (PELS).
        PERSISTENT_LOG_UNITS: u32 = 352,
        /// Binary logarithms of the smallest and, in the upper half, the largest submission queue entry (SQES).
        SUBMISSION_ENTRY: u8 = 512,
        /// Binary logarithms of the smallest and, in the upper half, the largest completion queue entry (CQES).
        COMPLETION_ENTRY: u8 = 513,
        /// Maximum number of commands in flight of an I/O queue (MAXCMD).
        COMMANDS_MAX: u16 = 514,
        /// Number of namespaces (NN).
        NAMESPACES: u32 = 516,
        /// Optional NVM command support (ONCS).
        OPTIONAL_IO: u16 = 520,
        /// Volatile write cache present (a bit of VWC).
        WRITE_CACHE: u8 = 525[0],
        /// Flush with the broadcast namespace identifier (bits of VWC).
        FLUSH_ALL: u8 = 525[1..=2],
        /// Atomic write unit in normal operation, in blocks, less 1 (AWUN).
        ATOMIC_NORMAL: u16 = 526,
        /// Atomic write unit at a power failure, in blocks, less 1 (AWUPF).
        ATOMIC_POWER_FAIL: u16 = 528,
        /// Optional formats of the source ranges of Copy (OCFS).
        COPY_FORMATS: u16 = 534,
        /// Scatter-gather list support (SGLS).
        SEGMENTS: u32 = 536,
        /// Maximum number of namespaces that a controller may have (MNAN), where asymmetric access is reported.
        NAMESPACES_MAX: u32 = 540,
        /// NVMe qualified name of the subsystem (SUBNQN).
        SUBSYSTEM_NAME: [u8; 256] = 768,
        /// Size of a command capsule of an I/O queue in units of 16 bytes (IOCCSZ).
        COMMAND_CAPSULE: u32 = 1792,
        /// Size of a response capsule of an I/O queue in units of 16 bytes (IORCSZ).
        RESPONSE_CAPSULE: u32 = 1796,
        /// Offset of data in a command capsule in units of 16 bytes, from the end of the submission queue entry (ICDOFF).
        CAPSULE_DATA_OFFSET: u16 = 1800,
        /// Static controller model (a bit of FCATT); the model is dynamic without it.
        IS_STATIC: u8 = 1802[0],
        /// Maximum number of SGL data block descriptors in a capsule (MSDBD).
        DESCRIPTORS_MAX: u8 = 1803,
        /// Disconnect command (a bit of OFCS).
        HAS_DISCONNECT: u16 = 1804[0],
    }
    /// Identify Namespace (NVM Command Set Specification 1.0).
    IdentifyNamespace: 4096 {
        /// Size in logical blocks (NSZE).
        BLOCKS: u64 = 0,
        /// Capacity in logical blocks (NCAP).
        CAPACITY: u64 = 8,
        /// Logical blocks in use (NUSE).
        USED: u64 = 16,
        /// Atomic write units and boundaries of the namespace are valid (a bit of NSFEAT).
        HAS_ATOMIC_UNITS: u8 = 24[1],
        /// Number of LBA formats, less 1 (NLBAF).
        FORMATS: u8 = 25,
        /// Format of the namespace (FLBAS).
        FORMAT: u8 = 26,
        /// Metadata capabilities (MC).
        METADATA: u8 = 27,
        /// Protection capabilities (DPC).
        PROTECTION_CAPABILITIES: u8 = 28,
        /// Protection settings (DPS).
        PROTECTION: u8 = 29,
        /// Several controllers may access the namespace (a bit of NMIC).
        IS_SHARED: u8 = 30[0],
        /// Reservation capabilities (RESCAP).
        RESERVATIONS: u8 = 31,
        /// Value that deallocated blocks read as (bits of DLFEAT).
        DEALLOCATED_VALUE: u8 = 33[0..=2],
        /// Write Zeroes may deallocate (a bit of DLFEAT).
        ZEROES_DEALLOCATE: u8 = 33[3],
        /// Atomic write unit in normal operation, in blocks, less 1 (NAWUN).
        ATOMIC_NORMAL: u16 = 34,
        /// Atomic write unit at a power failure, in blocks, less 1 (NAWUPF).
        ATOMIC_POWER_FAIL: u16 = 36,
        /// Atomic boundary in normal operation, in blocks, less 1 (NABSN).
        BOUNDARY_NORMAL: u16 = 40,
        /// Atomic boundary at a power failure, in blocks, less 1 (NABSPF).
        BOUNDARY_POWER_FAIL: u16 = 44,
        /// Capacity in bytes (NVMCAP).
        LENGTH: u128 = 48,
        /// Longest source range of Copy in blocks (MSSRL).
        COPY_RANGE_MAX: u16 = 74,
        /// Longest copy in blocks (MCL).
        COPY_MAX: u32 = 76,
        /// Number of source ranges of Copy, less 1 (MSRC).
        COPY_RANGES: u8 = 80,
        /// Group of asymmetric namespace access (ANAGRPID).
        ACCESS_GROUP: u32 = 92,
        /// Endurance group (ENDGID).
        ENDURANCE_GROUP: u16 = 102,
        /// LBA formats (LBAF).
        LBA_FORMATS: [LbaFormatEntry; 64] = 128,
    }
    /// LBA format in Identify Namespace (LBAF).
    LbaFormatEntry: 4 {
        /// Metadata size in bytes (MS).
        METADATA_BYTES: u16 = 0,
        /// Binary logarithm of the block size in bytes (LBADS).
        BLOCK_SHIFT: u8 = 2,
    }
    /// Data structure of a host that creates a namespace (Base Specification 2.0, Namespace Management).
    NewNamespace: 4096 {
        /// Size in logical blocks (NSZE).
        BLOCKS: u64 = 0,
        /// Capacity in logical blocks (NCAP).
        CAPACITY: u64 = 8,
        /// Low bits of the number of the LBA format (FLBAS).
        FORMAT_LOW: u8 = 26[0..=3],
        /// Metadata at the end of each logical block (a bit of FLBAS).
        EXTENDED: u8 = 26[4],
        /// High bits of the number of the LBA format (FLBAS).
        FORMAT_HIGH: u8 = 26[5..=6],
        /// Protection settings (DPS).
        PROTECTION: u8 = 29,
        /// Endurance group (ENDGID).
        ENDURANCE_GROUP: u16 = 102,
        /// Number of placement handles (NPHNDLS).
        HANDLES: u16 = 392,
        /// Reclaim unit handles of the placement handles (Placement Handle List).
        UNIT_HANDLES: [u16; 128] = 512,
    }
    /// I/O Command Set Independent Identify Namespace.
    IdentifyCommon: 4096 {
        /// Reservation capabilities (RESCAP).
        RESERVATIONS: u8 = 2,
        /// Group of asymmetric namespace access (ANAGRPID).
        ACCESS_GROUP: u32 = 4,
        /// Endurance group (ENDGID).
        ENDURANCE_GROUP: u16 = 12,
        /// Namespace is ready (a bit of NSTAT).
        IS_READY: u8 = 14[0],
    }
    /// Descriptors of Namespace Identification with a UUID and the command set.
    NamespaceIds: 4096 {
        /// Type of the first descriptor (NIDT).
        UUID_TYPE: u8 = 0,
        /// Length of the first identifier in bytes (NIDL).
        UUID_BYTES: u8 = 1,
        /// Identifier of the first descriptor: a UUID.
        UUID: [u8; 16] = 4,
        /// Type of the second descriptor (NIDT).
        SET_TYPE: u8 = 20,
        /// Length of the second identifier in bytes (NIDL).
        SET_BYTES: u8 = 21,
        /// Identifier of the second descriptor: a command set (CSI).
        SET: u8 = 24,
    }
    /// List of identifiers of controllers (section 4.4.1) or endurance groups.
    IdList: 4096 {
        /// Number of identifiers.
        COUNT: u16 = 0,
        /// Identifiers.
        IDS: [u16; 2047] = 2,
    }
    /// List of identifiers of namespaces (section 4.4.2).
    NamespaceList: 4096 {
        /// Identifiers in ascending order.
        IDS: [u32; 1024] = 0,
    }
    /// Identify I/O Command Set (CNS 1Ch).
    CommandSets: 4096 {
        /// Combinations of command sets, each as bits with their identifiers.
        COMBINATIONS: [u64; 512] = 0,
    }
    /// Identify Controller of the zoned command set (Zoned Namespace Command Set Specification 1.1, section 4.1.5).
    IdentifyZonedController: 4096 {
        /// Binary logarithm of the pages of the longest Zone Append (ZASL); 0 for the limit of all transfers.
        APPEND_MAX: u8 = 0,
    }
    /// Identify Namespace of the zoned command set (Zoned Namespace Command Set Specification 1.1, section 4.1.5).
    IdentifyZonedNamespace: 4096 {
        /// Maximum number of active zones, less 1 (MAR).
        ACTIVE_MAX: u32 = 4,
        /// Maximum number of open zones, less 1 (MOR).
        OPEN_MAX: u32 = 8,
        /// Zone formats, one for each LBA format (LBAFE).
        FORMATS: [ZoneFormat; 64] = 2816,
    }
    /// Zone format in Identify Namespace of the zoned command set.
    ZoneFormat: 16 {
        /// Zone size in logical blocks (ZSZE).
        BLOCKS: u64 = 0,
    }
    /// Identify Namespace of the Key Value command set (Key Value Command Set Specification 1.0).
    IdentifyKeyedNamespace: 4096 {
        /// Size in bytes (NSZE).
        LENGTH: u64 = 0,
        /// Bytes in use (NUSE).
        USED: u64 = 16,
        /// Granule of a value in bytes (NOVG).
        GRANULE: u32 = 32,
        /// Formats (KVF).
        FORMATS: [KeyedFormat; 16] = 72,
    }
    /// Key Value format (Key Value Command Set Specification 1.0).
    KeyedFormat: 16 {
        /// Maximum length of a key in bytes.
        KEY_BYTES: u16 = 0,
        /// Maximum length of a value in bytes.
        VALUE_BYTES: u32 = 4,
        /// Maximum number of keys.
        KEYS: u32 = 8,
    }
}
