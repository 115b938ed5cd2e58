//! DC Express in shared memory: the endpoint polls the rings of user-space hosts, and data completes reads by its tags.
//!
//! ```text
//!       client's thread              its memory                 device thread
//!   mark trailers, publish ─────> ring ────────────────────> poll, private copy, checks
//!                                                              the model, if timing is on
//!   all tags gone? copy out <──── buffer: trailers last ───── store
//!                                   status word, behind all ────
//! ```
//!
//! Layout, commands, tags and the order of memory accesses are [`phaselink_ring`]'s, which both sides use. What is said
//! here is who is served and protected from whom:
//!
//! - [`share`] is a socket and what its clients may do: a range of the drive, with or without writing.
//! - [`listener`] talks to sockets, so that the device thread never waits for one: clients come, ring and go.
//! - [`client`] is a client as the device sees it. Each command is copied once and only the copy is checked and executed;
//!   data goes nowhere but into the client's own memory, whose size is sealed. A client can harm itself, no one else.
//! - [`serve`] is the loop of a device thread, over [`clients`]; [`untimed`] and [`modelled`] are what it does with
//!   commands, without and with the model; [`divided`] is the latter for several threads. [`load`] is the other end, for
//!   `phaselink bench`.

pub mod client;
pub mod clients;
pub mod divided;
pub mod listener;
mod load;
pub mod modelled;
mod serve;
pub mod share;
pub mod untimed;

use std::io;

use phaselink_core::ledger::Outcome;

use super::{Asked, Front, Kind, Service, TargetKind, all, empty_exchange};
use crate::device::report::EmptyExchange;

pub use share::{Share, ShareSocket};

/// Clients of one server, over all its sockets; each has at most [`phaselink_ring::layout::MEMORY_BYTES_MAX`].
pub const CLIENTS_MAX: usize = 32;

/// How shared memory is asked for.
pub const KIND: Kind = Kind {
    flag: "shm",
    value: "PATH",
    help: "Serve in shared memory at the socket PATH[,offset=SIZE][,size=SIZE][,readonly]; may be given more than once",
    switches: &[],
    brings_software: false,
    sends_interrupts: false,
    check_model: |_| Ok(()),
    socket: |text| Share::parse(text).map(|share| Some(share.path)),
    bind: |Asked { addresses, .. }, _, geometry| {
        let bind = |text: &String| ShareSocket::bind(&Share::parse(text)?, geometry);
        Ok(Box::new(Shm(all(addresses.iter().map(bind))?)))
    },
    target: Some(TargetKind { form: "shm:PATH", parse: load::parse }),
};

/// Sockets of shared memory. Their clients share the device threads; a single one lends its engine.
#[derive(Debug)]
pub struct Shm(pub Vec<ShareSocket>);

impl Front for Shm {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|socket| socket.share.to_string()).collect()
    }

    fn empty_exchange(&self) -> io::Result<EmptyExchange> {
        Ok(empty_exchange::in_memory(KIND.flag))
    }

    fn lends_engine(&self) -> bool {
        true
    }

    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>> {
        let Service { device, wait, exchange, .. } = *service;
        if !service.timing {
            return untimed::serve(device, &self.0, wait, service.device_threads).map(|()| None);
        }
        if service.device_threads > 1 {
            return divided::serve(service, &self.0).map(|()| None);
        }
        let mut wall = service.wall(&device.drive, exchange.clock().clone());
        modelled::serve(device, &self.0, &mut wall, exchange, wait)?;
        Ok(Some(service.outcome(&wall, &device.drive)))
    }
}
