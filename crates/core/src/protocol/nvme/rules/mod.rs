//! Decision rules of an NVMe controller, without a clock and without access to memory: bytes go in, a decision comes
//! out.
//!
//! Two controllers use these rules. The simulated one ([`super::controller`]) receives the bytes in packets and sends
//! packets; the served one reads them from a real host's memory and moves data. For both, the rules decide
//!
//! - which submission queue entry is next, and when a queue is full ([`queues`]),
//! - which pages of host memory a command's data uses ([`pages`]),
//! - the contents of a completion queue entry ([`completion`]),
//! - the meaning of shadow doorbells ([`shadow`]),
//! - how many queues and entries there are, and how much data a command may transfer ([`limits`]),
//! - which kinds of namespaces there are, and what each needs ([`kind`]),
//! - the meaning of zone management commands, and the reports of zones ([`zones`]),
//! - the meaning of key-value commands, and the lists of keys ([`key_value`]),
//! - which protection information is inserted, stripped and checked ([`protection`]),
//! - the reclaim group and placement handle of writes, and the reports of reclaim units ([`placement`]),
//! - the log pages and features of flexible data placement ([`placement_logs`]),
//! - who may read and write a namespace that hosts have reserved ([`reservation`]).
//!
//! Section numbers are those of the NVM Express Base Specification 2.0 and, where the text says so, of the NVM Command
//! Set Specification 1.0, the Zoned Namespace Command Set Specification 1.1 or the Key Value Command Set Specification
//! 1.0.

pub mod completion;
pub mod key_value;
pub mod kind;
pub mod limits;
pub mod pages;
pub mod placement;
pub mod placement_logs;
pub mod protection;
pub mod queues;
pub mod reservation;
pub mod shadow;
pub mod zones;

pub use key_value::{KeyCommand, KeyValueLimits, KeyValueOperation};
pub use kind::{BlockNamespaceParts, NamespaceKind};
pub use limits::Limits;
pub use pages::Data;
pub use placement::{PlacementLimits, WriteReclaimPlacement};
pub use protection::{BlockMetadataFormat, CommandBlockMetadata, CommandProtection, NamespaceProtectionType};
pub use shadow::ShadowDoorbellPages;
