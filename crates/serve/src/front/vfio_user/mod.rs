//! NVMe over vfio-user: a PCI device in this process, for virtual machines and user-space drivers of others.
//!
//! ```text
//!    client (QEMU, SPDK)                     socket                    device thread
//!    VERSION, regions, interrupts  <──────────────────────────────>   session
//!    DMA_MAP with descriptors      ───────────────────────────────>   memory: mapped here
//!    register or doorbell write    ── REGION_WRITE ───────────────>   registers, doorbell page
//!    doorbell write, page mapped   ═══ memory ════════════════════>   doorbell page
//!    commands, data, answers       <══ memory ════════════════════>   crate::nvme
//!    interrupt                     <── eventfd ────────────────────
//! ```
//!
//! The protocol is that of QEMU's documentation (docs/interop/vfio-user.rst) and of libvfio-user, version 0.1, as clients
//! really speak it: messages are framed by their length, requests may be padded, JSON may be missing, memory may come
//! without a descriptor and is then reached by asking the client.
//!
//! - [`wire`] is the layout of messages, [`pci`] the configuration space.
//! - [`session`] answers messages. It has no socket: one message in, one reply out.
//! - [`memory`] is the client's memory, [`mapping`] the part of it that is mapped here and the only `unsafe` code.
//! - [`connection`] is the socket, and the [`Host`](crate::nvme::Host) of a controller.
//! - [`front`] is an address with its controller; [`lean`] and [`timed`] are the device thread, without and with the
//!   model.
//!
//! A client goes when it likes. Its memory and interrupts are then let go, the controller is as after a power cut, and
//! the next client may come; the data stays.

pub mod connection;
pub mod front;
pub mod interrupts;
pub mod lean;
pub mod mapping;
pub mod memory;
pub mod pci;
pub mod session;
pub mod timed;
pub mod wire;

pub use front::{Served, socket_path};
