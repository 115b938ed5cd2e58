//! The NVMe controller as a real host's driver meets it: registers, admin commands, queues in the host's memory.
//!
//! Nothing here has a socket, a thread or a clock. What connects it to a host is a [`Host`](host::Host), the bytes are a
//! [`Store`](crate::device::store::Store), and whoever drives it asks queue by queue:
//!
//! ```text
//!   update(host, store)     what registers and doorbells ask for: enable, reset, shut down, interrupts that are due
//!   take(queue, host)       the next command: an admin command is done at once, any other is checked
//!   perform(command, ...)   move the bytes: straight between the store and the host's memory, where both are mapped
//!   finish(command, ...)    post the answer: at once, together with others, or when a model says so
//!   commit(command, ...)    post the answer of one that was to be durable first, once the store has been flushed
//!   signal(host)            one interrupt for all that has been posted meanwhile
//! ```
//!
//! What it decides is in the core's [rules](phaselink_core::protocol::nvme::rules), which the timing controller of simulations asks too: layouts, statuses, page
//! lists, rings, limits. What is left here is whose memory that is, the bytes, and administration.
//!
//! A host can write anything anywhere at any time. So each command is copied once, and only the copy is checked and
//! executed; a page list is read once; whatever is wrong has the status that the specification asks for, and a host that
//! takes its memory away has commands fail, or, where that was a queue's, a controller that is fatal until it is reset.
//! A command that outlives its queue answers nobody.

pub mod admin;
pub mod command;
pub mod controller;
pub mod events;
pub mod features;
pub mod host;
pub mod identify;
pub mod logs;
pub mod machine;
pub mod offer;
pub mod queues;
pub mod registers;
pub mod set;
pub mod strict;

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::admin as opcode;

pub use command::Command;
pub use controller::{Controller, Executed, Taken};
pub use host::{AdminHost, Host, Unreachable};
pub use identify::Identity;
pub use set::QueueSet;

/// VS: 2.0.
const VERSION: u32 = 0x0002_0000;
/// Most queue pairs for commands that a drive may offer, beside the admin queue. Linux and SPDK have been seen to take as
/// many; the page of doorbells would have room for 511, the table of interrupt vectors for 127.
pub const QUEUE_PAIRS_MAX: usize = 32;
/// Interrupt vectors of a controller with these limits: one for each queue pair.
pub fn vectors(limits: &Limits) -> u16 {
    limits.queue_pairs as u16 + 1
}

/// ACL and AERL count these from 0.
const ABORTS_MAX: u8 = 4;
const EVENTS_MAX: u8 = 4;
/// Entries of the error log.
const LOGGED_ERRORS: usize = 16;
/// The temperature that is told: 27 degrees (assumed; nothing here is warm).
const TEMPERATURE_KELVIN: u16 = 300;

/// Opcodes of all admin commands that the controller knows.
pub const ADMIN_COMMANDS: [u8; 13] = [
    opcode::DELETE_SUBMISSION_QUEUE,
    opcode::CREATE_SUBMISSION_QUEUE,
    opcode::GET_LOG_PAGE,
    opcode::DELETE_COMPLETION_QUEUE,
    opcode::CREATE_COMPLETION_QUEUE,
    opcode::IDENTIFY,
    opcode::ABORT,
    opcode::SET_FEATURES,
    opcode::GET_FEATURES,
    opcode::ASYNC_EVENT_REQUEST,
    opcode::KEEP_ALIVE,
    opcode::DOORBELL_BUFFER_CONFIG,
    opcode::FORMAT_NVM,
];

/// KAS: the unit in which Keep Alive counts, in tenths of a second.
const KEEP_ALIVE_TENTHS: u16 = 1;
