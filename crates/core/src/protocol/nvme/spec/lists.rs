//! Layouts of lists that commands read from host memory or write there.

use super::layout::layouts;

layouts! {
    /// Range in the list of Dataset Management (NVM Command Set Specification 1.0).
    RangeEntry: 16 {
        /// Context attributes.
        ATTRIBUTES: u32 = 0,
        /// Number of logical blocks.
        COUNT: u32 = 4,
        /// First logical block.
        FIRST: u64 = 8,
    }
    /// Source range in the list of Copy, in format 0 (NVM Command Set Specification 1.0).
    SourceEntry: 32 {
        /// First logical block (SLBA).
        FIRST: u64 = 8,
        /// Number of logical blocks, less 1 (NLB).
        COUNT: u16 = 16,
        /// Expected reference tag (EILBRT).
        REFERENCE_TAG: u32 = 24,
        /// Expected application tag (ELBAT).
        APPLICATION_TAG: u16 = 28,
        /// Mask of the application tag (ELBATM).
        APPLICATION_MASK: u16 = 30,
    }
    /// Placement identifier in the list of I/O Management Send.
    IdentifierEntry: 2 {
        /// Placement identifier (PID).
        IDENTIFIER: u16 = 0,
    }
    /// Keys in the data of a reservation command (Base Specification 2.0, sections 7.2 to 7.4).
    ReservationKeyList: 16 {
        /// Present key of the host (CRKEY).
        CURRENT: u64 = 0,
        /// New key of the host (NRKEY), or key of the hosts to be unregistered (PRKEY).
        OTHER: u64 = 8,
    }
    /// Descriptor of a scatter-gather list (Base Specification 2.0, section 4.1.2.1).
    SegmentDescriptor: 16 {
        /// Host address.
        ADDRESS: u64 = 0,
        /// Length in bytes.
        LENGTH: u32 = 8,
        /// Type and subtype.
        TYPE: u8 = 15,
    }
    /// Start of the list of keys (Key Value Command Set Specification 1.0).
    KeyList: 4 {
        /// Number of keys.
        KEYS: u32 = 0,
    }
    /// Start of a key in the list of keys (Key Value Command Set Specification 1.0).
    KeyEntry: 2 {
        /// Length of the key in bytes.
        BYTES_OF_KEY: u16 = 0,
    }
}
