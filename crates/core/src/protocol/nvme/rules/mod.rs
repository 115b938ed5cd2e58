//! What an NVMe controller decides, without a clock and without memory: bytes in, decision out.
//!
//! Two controllers ask these rules. The timing one ([`super::controller`]) gets its bytes in packets and answers with
//! packets; the served one gets them from a real host's memory and moves data. Neither has an opinion of its own about
//!
//! - which entry is next, and when a queue is full ([`queues`]),
//! - whether a command is allowed, what it is to do, and otherwise with which status it is refused ([`command`]),
//! - which pages of the host's memory it touches ([`pages`]),
//! - what goes into a completion entry ([`completion`]),
//! - what shadow doorbells mean ([`shadow`]),
//! - how many queues and entries, and how much data a command may have ([`limits`]).
//!
//! Sections are those of the NVM Express Base Specification 2.0 and, where that is said, of the NVM Command Set Specification
//! 1.0.

pub mod command;
pub mod completion;
pub mod limits;
pub mod pages;
pub mod queues;
pub mod shadow;

pub use command::{Action, Command};
pub use limits::Limits;
pub use pages::Data;
pub use shadow::Shadow;
