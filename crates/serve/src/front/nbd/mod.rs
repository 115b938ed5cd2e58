//! Served over NBD, the network block device protocol: fixed newstyle, structured replies, Unix sockets and TCP on this
//! machine.
//!
//! The request is where a real host meets the device: it takes the place of the modelled application's. With timing on,
//! it goes down the modelled software stack and is answered when the model says ([`modelled`]), be that on the same thread
//! or another ([`super::model`]); with timing off, it goes straight to the store, on the thread that has read it ([`untimed`]).
//!
//! - [`wire`] has the messages, [`handshake`] and [`session`] their order; these are pure, and never fail on any bytes.
//! - [`uri`], [`socket`] and [`buffer`] are the way to the client; [`export`] says what requests are acceptable.
//! - [`client`] is the other end, by which `phaselink bench` loads a server ([`load`]).

pub mod buffer;
pub mod client;
mod deal;
pub mod export;
pub mod handshake;
mod load;
pub mod modelled;
pub mod session;
pub mod socket;
pub mod untimed;
pub mod uri;
pub mod wire;

use std::io;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::time::Span;

use super::model::Model;
use super::{Asked, Front, Kind, Service, Switch, TargetKind, all, empty_exchange};
use crate::device::report::EmptyExchange;
use crate::device::tally::Tally;
use crate::model::wall::Clock;
use export::{Command, Export};
use session::{Session, Wanted};
use socket::{Listener, Stream};
use uri::{Address, Uri};

/// Connections of one server, over all its addresses. Each holds at most two messages of 32 MiB.
pub const CONNECTIONS_MAX: usize = 64;

/// Connections beside them whose clients are told that there are too many.
const REFUSED_MAX: usize = 64;
/// What they are told.
const TOO_MANY: &str = "the server has as many connections as it takes (64)";
/// A client that has not chosen its export by then is let go: it holds the place of another.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

const SIMPLE_REPLIES: &str = "no-sr";

/// How NBD is asked for.
pub const KIND: Kind = Kind {
    flag: "nbd",
    value: "URI",
    help: "Serve over NBD at nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT; may be given more than once",
    switches: &[Switch {
        name: SIMPLE_REPLIES,
        alias: "no-structured-replies",
        help: "Answer NBD clients with simple replies only, which common clients receive with fewer calls",
    }],
    brings_software: false,
    sends_interrupts: false,
    check_model: |_| Ok(()),
    socket: |text| {
        Uri::parse(text).map(|uri| match uri.place {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) => None,
        })
    },
    bind: |Asked { addresses, switches }, _, geometry| {
        let structured_replies = !switches.contains(&SIMPLE_REPLIES);
        let uris = all(addresses.iter().map(|text| Uri::parse(text)))?;
        let bound = uris.iter().map(|uri| {
            let export = Export { name: uri.export.clone(), geometry, structured_replies };
            Ok(ExportSocket { listener: Listener::bind(uri)?, export })
        });
        Ok(Box::new(Nbd(all(bound)?)))
    },
    target: Some(TargetKind {
        form: "nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT",
        parse: load::parse,
    }),
};

/// An address with what is served there.
#[derive(Debug)]
pub struct ExportSocket {
    pub listener: Listener,
    pub export: Export,
}

impl ExportSocket {
    /// The next client, if one is waiting; with `open` connections already, it may only be told that there are too many.
    fn accept(&self, open: usize) -> Option<(Stream, Session)> {
        // A connection that fails before it is made is the client's loss.
        let stream = self.listener.accept().ok().flatten()?;
        match open {
            0..CONNECTIONS_MAX => Some((stream, Session::begin())),
            _ if open < CONNECTIONS_MAX + REFUSED_MAX => Some((stream, Session::refusing(TOO_MANY))),
            _ => None,
        }
    }
}

/// Count a request that has been answered.
fn count(tally: &mut Tally, wanted: &Wanted, latency: Span) {
    match wanted.command {
        Command::Read => tally.read.count(wanted.bytes, latency),
        Command::Write { .. } => tally.write.count(wanted.bytes, latency),
        Command::Flush => tally.flushes += 1,
        Command::Trim { .. } | Command::Zero { .. } => tally.discards += 1,
    }
}

/// Addresses of NBD.
#[derive(Debug)]
pub struct Nbd(pub Vec<ExportSocket>);

impl Front for Nbd {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|one| one.listener.uri().to_string()).collect()
    }

    /// A request without data, and the simple reply to it.
    fn empty_exchange(&self) -> io::Result<EmptyExchange> {
        let is_tcp = self.0.first().is_some_and(|one| matches!(one.listener.uri().place, uri::Address::Tcp(_)));
        let measure = if is_tcp { empty_exchange::over_tcp } else { empty_exchange::over_unix_socket };
        measure(KIND.flag, [wire::REQUEST_BYTES, wire::SIMPLE_REPLY_BYTES])
    }

    /// The engine that another front-end lends is asked where there is one: its host is the same.
    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>> {
        let Service { device, wait, .. } = *service;
        if !service.timing {
            return untimed::serve(device, &self.0, wait).map(|()| None);
        }
        if service.device_threads > 1 {
            return modelled::serve_divided(service, &self.0).map(|()| None);
        }
        if let Some(remote) = service.remote() {
            return modelled::serve(device, &self.0, Model::remote(remote), wait).map(|()| None);
        }
        let mut wall = service.wall(&device.drive, Clock::start());
        modelled::serve(device, &self.0, Model::own(&mut wall, &device.drive), wait)?;
        Ok(Some(service.outcome(&wall, &device.drive)))
    }
}
