//! Fields of commands in dwords 10 to 15, by command. A field of Set Features stands in the dword that holds the
//! feature's value.

use super::layout::command_fields;

command_fields! {
    /// Fields of commands on logical blocks (NVM Command Set Specification 1.0, section 3.2).
    blocks {
        /// Low half of the number of the first logical block (SLBA), or of the first block of a Copy's destination
        /// (SDLBA).
        FIRST_LOW = 10[0..=31],
        /// High half of the number of the first logical block (SLBA, SDLBA).
        FIRST_HIGH = 11[0..=31],
        /// Number of logical blocks, less 1 (NLB).
        COUNT = 12[0..=15],
        /// Directive type (DTYPE).
        DIRECTIVE = 12[20..=23],
        /// Storage tag check (STC).
        STORAGE_TAG_CHECK = 12[24..=24],
        /// Deallocate (DEAC): a Write Zeroes may deallocate the blocks.
        DEALLOCATE = 12[25..=25],
        /// Protection information field (PRINFO): action and checks.
        PROTECTION = 12[26..=29],
        /// Protection information action (PRACT), a bit of PRINFO.
        PROTECTION_ACTION = 12[29..=29],
        /// Force unit access (FUA): the data must be durable when the command completes.
        FORCE_UNIT_ACCESS = 12[30..=30],
        /// Limited retry (LR).
        LIMITED_RETRY = 12[31..=31],
        /// Hints on the use of the data (DSM).
        HINTS = 13[0..=7],
        /// Directive specific value (DSPEC): the placement identifier of a write.
        PLACEMENT = 13[16..=31],
        /// Expected or initial reference tag (EILBRT, ILBRT).
        REFERENCE_TAG = 14[0..=31],
        /// Application tag (ELBAT, LBAT).
        APPLICATION_TAG = 15[0..=15],
        /// Mask of the application tag's bits that are checked (ELBATM, LBATM).
        APPLICATION_MASK = 15[16..=31],
    }
    /// Further fields of Copy (NVM Command Set Specification 1.0).
    copy {
        /// Number of source ranges, less 1 (NR).
        SOURCES = 12[0..=7],
        /// Format of the source ranges (DESFMT).
        FORMAT = 12[8..=11],
        /// Protection information field of the source blocks (PRINFOR).
        SOURCE_PROTECTION = 12[12..=15],
    }
    /// Fields of Dataset Management (NVM Command Set Specification 1.0, section 3.2.3).
    ranges {
        /// Number of ranges, less 1 (NR).
        COUNT = 10[0..=7],
        /// Attributes of the ranges: integral for reads (IDR), integral for writes (IDW), deallocate (AD).
        ATTRIBUTES = 11[0..=2],
        /// Attribute Deallocate (AD).
        DEALLOCATE = 11[2..=2],
    }
    /// Fields of Cancel and of the admin command Abort (Base Specification 2.1, sections 5.1.1 and 7.1).
    cancel {
        /// Identifier of the submission queue (SQID).
        QUEUE = 10[0..=15],
        /// Identifier of the command to be aborted (CID).
        COMMAND_ID = 10[16..=31],
        /// Action code of Cancel (ACODE).
        ACTION = 11[0..=1],
    }
    /// Fields of the reservation commands (Base Specification 2.0, sections 7.2 to 7.5).
    reservation {
        /// Action (RREGA, RACQA, RRELA).
        ACTION = 10[0..=2],
        /// Ignore existing key (IEKEY).
        IGNORES_KEY = 10[3..=3],
        /// Type of the reservation (RTYPE).
        TYPE = 10[8..=15],
        /// Change of Persist Through Power Loss (CPTPL).
        PERSISTENCE = 10[30..=31],
        /// Number of dwords of a report that are transferred, less 1 (NUMD).
        DWORDS = 10[0..=31],
        /// Extended data structure of a report (EDS): host identifiers of 128 bits.
        IS_LONG = 11[0..=0],
    }
    /// Fields of Zone Management Send and Receive (Zoned Namespace Command Set Specification 1.1, section 3.4).
    zones {
        /// Number of dwords that a Receive transfers, less 1.
        DWORDS = 12[0..=31],
        /// Action (ZSA, ZRA).
        ACTION = 13[0..=7],
        /// Select all (a Send): the action is on all zones.
        SELECT_ALL = 13[8..=8],
        /// State of the zones to be reported (a Receive).
        STATE = 13[8..=15],
        /// Partial report (a Receive): the header counts only the zones in the report.
        PARTIAL = 13[16..=16],
    }
    /// Fields of I/O Management Send and Receive (Base Specification 2.1, sections 7.3 and 7.4).
    units {
        /// Management operation (MO).
        OPERATION = 10[0..=7],
        /// Number of placement identifiers in the list of a Send, less 1 (MOS).
        IDENTIFIERS = 10[16..=31],
        /// Number of dwords that a Receive transfers, less 1 (NUMD).
        DWORDS = 11[0..=31],
    }
    /// Fields of Key Value commands (Key Value Command Set Specification 1.0, section 3.2).
    key {
        /// Length in bytes of the value or of the host's buffer.
        BYTES = 10[0..=31],
        /// Length of the key in bytes.
        KEY_BYTES = 11[0..=7],
        /// Option of a Store: do not store the value if the key does not exist.
        MUST_EXIST = 11[8..=8],
        /// Option of a Store: do not store the value if the key exists.
        MUST_BE_NEW = 11[9..=9],
        /// All options of a Store; the last one is not to compress the value.
        STORE_OPTIONS = 11[8..=10],
        /// Option of a Retrieve: return the value without decompression.
        RAW = 11[8..=8],
        /// Bytes 8 to 11 of the key.
        KEY_THIRD = 14[0..=31],
        /// Bytes 12 to 15 of the key.
        KEY_LAST = 15[0..=31],
    }
    /// Fields of the commands that create and delete I/O queues (Base Specification 2.0, sections 5.4 to 5.7).
    queue {
        /// Identifier of the queue (QID).
        ID = 10[0..=15],
        /// Number of entries, less 1 (QSIZE).
        ENTRIES = 10[16..=31],
        /// Physically contiguous (PC).
        CONTIGUOUS = 11[0..=0],
        /// Interrupts enabled (IEN) for a completion queue.
        INTERRUPTS = 11[1..=1],
        /// Priority of a submission queue (QPRIO).
        PRIORITY = 11[1..=2],
        /// Interrupt vector of a completion queue (IV).
        VECTOR = 11[16..=31],
        /// Completion queue of a submission queue (CQID).
        COMPLETION_QUEUE = 11[16..=31],
    }
    /// Fields of Get Log Page (Base Specification 2.0, section 5.16).
    log {
        /// Identifier of the log page (LID).
        ID = 10[0..=7],
        /// Log specific field (LSP).
        SPECIFIC = 10[8..=14],
        /// Retain asynchronous event (RAE).
        RETAIN_EVENT = 10[15..=15],
        /// Low half of the number of dwords, less 1 (NUMDL).
        DWORDS_LOW = 10[16..=31],
        /// High half of the number of dwords, less 1 (NUMDU).
        DWORDS_HIGH = 11[0..=15],
        /// Log specific identifier (LSI).
        SPECIFIC_ID = 11[16..=31],
        /// Low half of the offset in bytes (LPOL).
        OFFSET_LOW = 12[0..=31],
        /// High half of the offset in bytes (LPOU).
        OFFSET_HIGH = 13[0..=31],
        /// Command set of the log page (CSI).
        COMMAND_SET = 14[24..=31],
    }
    /// Fields of Identify (Base Specification 2.0, section 5.17).
    identify {
        /// Structure to be returned (CNS).
        STRUCTURE = 10[0..=7],
        /// Identifier of a controller (CNTID).
        CONTROLLER = 10[16..=31],
        /// Identifier that the structure needs (CNSSID).
        SPECIFIC_ID = 11[0..=15],
        /// Command set of the structure (CSI).
        COMMAND_SET = 11[24..=31],
    }
    /// Fields of Get Features and Set Features (Base Specification 2.0, sections 5.15 and 5.27).
    feature {
        /// Identifier of the feature (FID).
        ID = 10[0..=7],
        /// Value that Get Features returns (SEL): current, default, saved.
        SELECT = 10[8..=10],
        /// Save (SV): the value is to survive resets.
        SAVE = 10[31..=31],
        /// Value of the feature.
        VALUE = 11[0..=31],
        /// Power state (PS).
        POWER_STATE = 11[0..=4],
        /// Temperature threshold in kelvin (TMPTH).
        TEMPERATURE = 11[0..=15],
        /// Sensor of the temperature (TMPSEL).
        SENSOR = 11[16..=19],
        /// Threshold above or below which the temperature is to be reported (THSEL).
        THRESHOLD = 11[20..=21],
        /// Time limit for error recovery (TLER).
        RECOVERY_LIMIT = 11[0..=15],
        /// Volatile write cache enable (WCE).
        WRITE_CACHE = 11[0..=0],
        /// Number of I/O submission queues, less 1 (NSQR, NSQA).
        SUBMISSION_QUEUES = 11[0..=15],
        /// Number of I/O completion queues, less 1 (NCQR, NCQA).
        COMPLETION_QUEUES = 11[16..=31],
        /// Aggregation threshold and time of interrupts (THR, TIME).
        COALESCING = 11[0..=15],
        /// Interrupt vector (IV).
        VECTOR = 11[0..=15],
        /// Coalescing disable for the vector (CD).
        NO_COALESCING = 11[16..=16],
        /// Disable normal: atomic writes hold only across a power failure (DN).
        ATOMICITY = 11[0..=0],
        /// Event when the temperature passes a threshold.
        TEMPERATURE_EVENT = 11[1..=1],
        /// Event when namespaces change.
        NAMESPACE_EVENT = 11[8..=8],
        /// Event when asymmetric namespace access changes.
        ACCESS_EVENT = 11[11..=11],
        /// Event when the discovery log page changes.
        DISCOVERY_EVENT = 11[31..=31],
        /// Error for the deletion of a key that does not exist (EDNEK).
        REPORTS_MISSING = 11[0..=0],
        /// Host identifier of 128 bits (EXHID).
        IS_LONG = 11[0..=0],
        /// Persist through power loss (PTPL), of the feature Reservation Persistence.
        PERSISTS = 11[0..=0],
        /// Endurance group of the features of data placement (ENDGID).
        GROUP = 11[0..=15],
        /// Placement handle of the feature FDP Events (PHNDL).
        HANDLE = 11[0..=15],
        /// Number of event types in the list of the feature FDP Events (NOET).
        EVENT_TYPES = 11[16..=23],
        /// Enable: data placement (FDPE), or the listed types of events (FDPEE).
        ENABLE = 12[0..=0],
        /// Number of the configuration of data placement (FDPCIDX).
        CONFIGURATION = 12[8..=15],
    }
    /// Fields of Format NVM (Base Specification 2.0, section 5.14; NVM Command Set Specification 1.0).
    format {
        /// Low bits of the number of the LBA format (LBAFL).
        FORMAT_LOW = 10[0..=3],
        /// Metadata settings (MSET): metadata at the end of each logical block.
        EXTENDED = 10[4..=4],
        /// Protection information type (PI).
        PROTECTION = 10[5..=7],
        /// Protection information in the first bytes of the metadata (PIL).
        PROTECTION_FIRST = 10[8..=8],
        /// Secure erase setting (SES).
        ERASE = 10[9..=11],
        /// High bits of the number of the LBA format (LBAFU).
        FORMAT_HIGH = 10[12..=13],
    }
    /// Fields of Namespace Management and Namespace Attachment (Base Specification 2.0, sections 5.22 and 5.23).
    namespace {
        /// Operation (SEL).
        SELECT = 10[0..=3],
        /// Command set of a new namespace (CSI).
        COMMAND_SET = 11[24..=31],
    }
    /// Fields of Sanitize (Base Specification 2.0).
    sanitize {
        /// Action (SANACT).
        ACTION = 10[0..=2],
        /// Allow unrestricted sanitize exit (AUSE): the host may leave the failure mode without another operation.
        UNRESTRICTED_EXIT = 10[3..=3],
        /// No deallocate after sanitize (NDAS).
        NO_DEALLOCATE = 10[9..=9],
    }
    /// Fields of Directive Send and Receive (Base Specification 2.1, sections 5.1.6 and 5.1.7).
    directive {
        /// Number of dwords that a Receive transfers, less 1 (NUMD).
        DWORDS = 10[0..=31],
        /// Operation (DOPER).
        OPERATION = 11[0..=7],
        /// Directive type (DTYPE).
        TYPE = 11[8..=15],
        /// Enable the directive (ENDIR), with operation Enable Directive.
        ENABLE = 12[0..=0],
        /// Directive type to be enabled or disabled (TDTYPE).
        TARGET = 12[8..=15],
    }
    /// Fields of Connect and Disconnect (Base Specification 2.0, sections 6.3 and 6.4).
    connect {
        /// Format of the command and its data (RECFMT).
        RECORD_FORMAT = 10[0..=15],
        /// Identifier of the queue (QID).
        QUEUE = 10[16..=31],
        /// Number of entries of the submission queue, less 1 (SQSIZE).
        ENTRIES = 11[0..=15],
        /// Attributes of the queue (CATTR).
        ATTRIBUTES = 11[16..=23],
        /// Keep-alive timeout in milliseconds (KATO).
        KEEP_ALIVE = 12[0..=31],
    }
    /// Fields of Property Get and Property Set (Base Specification 2.0, sections 6.5 and 6.6).
    property {
        /// Size of the property (a field of ATTRIB): 0 for 4 bytes, 1 for 8 bytes.
        SIZE = 10[0..=2],
        /// Byte offset of the property (OFST).
        OFFSET = 11[0..=31],
        /// Low half of the value (VALUE).
        VALUE_LOW = 12[0..=31],
        /// High half of the value (VALUE).
        VALUE_HIGH = 13[0..=31],
    }
    /// Fields of Authentication Send and Authentication Receive (Base Specification 2.0, sections 6.2 and 6.1).
    security {
        /// Fields SPSP0 (low byte) and SPSP1 that the security protocol defines.
        SPECIFIC = 10[8..=23],
        /// Security protocol (SECP).
        PROTOCOL = 10[24..=31],
        /// Number of bytes that are transferred (TL), or room for the response (AL).
        BYTES = 11[0..=31],
    }
    /// Fields of Get LBA Status (NVM Command Set Specification 1.0, section 4.2.1).
    block_status {
        /// Number of dwords of the host's buffer, less 1 (MNDW).
        DWORDS = 12[0..=31],
        /// Number of logical blocks of the range (RL); 0 for all after the first.
        COUNT = 13[0..=15],
        /// Action type (ATYPE).
        ACTION = 13[24..=31],
    }
}
