//! NVMe controller for real hosts: registers, admin commands, and queues in the host's memory.
//!
//! The module has no socket, no thread and no clock. A [`Host`] connects it to a host, a
//! [`Store`](crate::device::store::Store) holds the bytes of the drive, and a front-end calls it queue by queue:
//!
//! ```text
//!   Controller::update          acts on the registers: enable, reset, shut down, asynchronous events
//!   next_command(queue)         fetches the next command: an admin command is executed at once, any other is checked
//!   QueueSet::perform           moves the data: directly between the store and the host's memory where both are mapped
//!   QueueSet::complete          makes the completion queue entry: after the transfer, or when a timing model says so
//!   write_completions           writes the entries of a command or of a batch to the host's memory
//!   complete_flushed            posts the completion of a command that had to be durable first, after a flush of the store
//!   send_interrupts             sends one interrupt for all completions that were posted since the last one
//! ```
//!
//! The core's [table of commands](phaselink_core::protocol::nvme::commands) says what each I/O command is, and its
//! [rules](phaselink_core::protocol::nvme::rules) decide what is allowed: layouts, statuses, page lists, ring
//! arithmetic, limits. The timing controller of simulations uses them too. This module adds the host's memory, the
//! bytes of the drive, and administration.
//!
//! A host can write anything anywhere at any time. Each command is therefore copied once, and only the copy is checked
//! and executed; a page list is read once. Every malformed command gets the status that the specification asks for. A
//! host that unmaps the data of a command has this command fail; one that unmaps a queue has the controller report a
//! fatal status until it is reset. A command that outlives its submission queue gets no completion.
//!
//! # Layers
//!
//! A file imports files of its own layer that stand before it, and of the layers above this line in the list; none
//! imports a later one.
//!
//! | layer | files |
//! |---|---|
//! | memory | [`limits`], [`kinds`] (of namespaces), [`strict`], [`discovery`] (log page), [`registers`], [`host`], [`array_host`] |
//! | queues | [`arbitration`], [`queues`] |
//! | commands | [`event_log`], [`placement`], [`kind_state`], `access` (on a path), [`reservations`], `notices` (of reservations), [`subsystem`] (namespaces), [`journal`], [`command`], `namespace` (blocks, zones, keys), `recorded_commands`, [`queue_set`], [`execution`] |
//! | controller | [`features`], [`log_pages`], [`events`], [`identify`], [`controller`] (state), [`admin`] (commands), `block_status`, `placement_admin`, `key_value_admin`, `reservation_admin`, `access_admin`, [`management`] (of namespaces), [`lifecycle`] |
//!
//! # Adding something
//!
//! - An I/O command: a row of the table in the core's [`commands`](phaselink_core::protocol::nvme::commands), and its
//!   execution on the bytes of a store in [`command`], or in the file of its kind of namespaces in `namespace`. Checks, the simulated controller, strict mode, ONCS, the log page of command effects and the
//!   fuzz targets follow from the row.
//! - An admin command: its opcode in the core's [`spec`](phaselink_core::protocol::nvme::spec::admin), a row of the table in
//!   [`admin`], and its handler there.
//! - A feature: a row of the table in [`features`], with its functions. Get Features, Set Features and the log page that
//!   lists features follow from the row.
//! - A feature or log page that only some drives have: its answer in [`admin`], and its entry in the
//!   [row](kinds) of the kind of their namespaces.
//! - A log page: its layout in the core's [`logs`](phaselink_core::protocol::nvme::spec::logs), a row of the table in
//!   [`log_pages`], and the function that fills the page.
//! - A field of Identify: its place in the core's [layouts](phaselink_core::protocol::nvme::spec::identify), and its value in
//!   [`identify`], once the feature that it announces is there. Bits of ONCS follow from the rows of commands.
//! - A field of a command: its place in the core's [`fields`](phaselink_core::protocol::nvme::spec::fields). Strict mode
//!   takes bits that no field of the command's row has for reserved.

mod access;
mod access_admin;
pub mod admin;
pub mod arbitration;
pub mod array_host;
mod block_status;
pub mod command;
pub mod controller;
pub mod discovery;
pub mod event_log;
pub mod events;
pub mod execution;
pub mod features;
pub mod host;
pub mod identify;
pub mod journal;
mod key_value_admin;
pub mod kind_state;
pub mod kinds;
pub mod lifecycle;
pub mod limits;
pub mod log_pages;
pub mod management;
mod namespace;
mod notices;
pub mod placement;
mod placement_admin;
pub mod queue_set;
pub mod queues;
mod recorded_commands;
pub mod registers;
mod reservation_admin;
pub mod reservations;
pub mod strict;
pub mod subsystem;

pub use command::Command;
pub use controller::Controller;
pub use execution::CommandProgress;
pub use host::{AdminHost, Host, UnreachableMemory};
pub use identify::{FabricIdentity, Identity};
pub use limits::{QUEUE_PAIRS_MAX, interrupt_vectors};
pub use queue_set::{NextCommand, QueueSet};
