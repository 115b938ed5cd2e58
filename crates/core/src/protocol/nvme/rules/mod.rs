//! Decisions of an NVMe controller, without a clock and without memory: bytes in, decision out.
//!
//! Two controllers use these rules. The simulated one ([`super::controller`]) gets its bytes in packets and sends
//! packets; the served one gets them from a real host's memory and moves data. The rules decide for both
//!
//! - which entry is next, and when a queue is full ([`queues`]),
//! - whether a command is valid, what it does, and otherwise with which status it is refused ([`command`]),
//! - which pages of host memory it uses ([`pages`]),
//! - the contents of a completion entry ([`completion`]),
//! - the meaning of shadow doorbells ([`shadow`]),
//! - how many queues and entries there are, and how much data a command may have ([`limits`]),
//! - what commands for zones mean, and what is reported of zones ([`zones`]),
//! - which commands zones accept ([`zone_commands`]),
//! - what commands for keys mean, and what is reported of keys ([`key_value`]),
//! - what is inserted, stripped and checked of protection information ([`protection`]),
//! - where writes are placed, and what is reported of reclaim units ([`placement`]),
//! - the log pages and features of data placement ([`placement_logs`]).
//!
//! Section numbers are those of the NVM Express Base Specification 2.0 and, where the text says so, of the NVM Command
//! Set Specification 1.0, the Zoned Namespace Command Set Specification 1.1 or the Key Value Command Set Specification 1.0.

pub mod command;
pub mod completion;
pub mod key_value;
pub mod limits;
pub mod pages;
pub mod placement;
pub mod placement_logs;
pub mod protection;
pub mod queues;
pub mod shadow;
pub mod zone_commands;
pub mod zones;

pub use command::{Action, Command};
pub use key_value::{KeyCommand, KeyOperation, KeyValueLimits};
pub use limits::Limits;
pub use pages::Data;
pub use placement::{PlacementLimits, WritePlacement};
pub use protection::{BlockMetadata, BlockProtection, MetadataFormat, ProtectionType};
pub use shadow::Shadow;
