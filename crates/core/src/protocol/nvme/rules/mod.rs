//! Decisions of an NVMe controller, without a clock and without memory: bytes in, decision out.
//!
//! Two controllers use these rules. The simulated one ([`super::controller`]) gets its bytes in packets and sends
//! packets; the served one gets them from a real host's memory and moves data. The rules decide for both

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
