//! What closed forms are made of: the parts of a drive, idle, with the arithmetic of link, memory and host; a kind of
//! request; its demands on resources; the latency of a lone one.
//!
//! [`Form::of_data`] gives the bounds that hold for any protocol. Each protocol's own form stands in its folder, and
//! [`crate::predict`] asks it.

pub(crate) mod data_reads;
pub(crate) mod demand;
pub(crate) mod flash;
pub(crate) mod form;
pub(crate) mod host;
pub(crate) mod link;
pub(crate) mod media;
pub(crate) mod split;
pub(crate) mod workload;

pub use demand::{Demand, Demands};
pub use form::{Certainty, Form, Latency};
pub use workload::{Arrivals, Class, Workload};

use crate::config::{self, Engine};
use crate::drive::Drive;
use crate::host::software::Software;
use crate::link::Link;
use crate::link::root_complex::RootComplex;
use crate::media::chip::BankChips;
use crate::media::{Geometry, Media};
use crate::time::Span;
use crate::workload::{Job, Together};

/// A drive's parts, idle, as closed forms ask them.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    pub drive: &'a Drive,
    pub link: Link,
    pub root_complex: RootComplex,
    pub geometry: Geometry,
    /// The memory itself, without what may stand in front of it, and its chips if they are told apart.
    pub media: Media,
    pub chips: Option<BankChips>,
    /// The way of the requests into the host's software, where engines differ.
    pub engaged: Option<Engaged>,
}

/// An engine's software, and how many requests go together.
#[derive(Clone, Debug)]
pub struct Engaged {
    pub software: Software,
    pub together: Together,
}

impl Parts<'_> {
    /// The parts of this drive.
    pub fn new(drive: &Drive) -> Parts<'_> {
        Parts {
            drive,
            link: Link::new(&drive.link, drive.write_accept(), Span::ZERO, 0).farther(drive.switch_time()),
            root_complex: RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, 0)
                .with_peer(&drive.peer),
            geometry: Geometry::from(&drive.media),
            media: Media::of(&drive.media, 0),
            chips: BankChips::of(&drive.media),
            engaged: None,
        }
    }

    /// The same with the uplink of a switch as the link, if there is one: what its wires carry of a request.
    pub fn uplink(&self) -> Option<Self> {
        let config = self.drive.switch.is_there().then(|| self.drive.switch.uplink(&self.drive.link))?;
        Some(self.with_link(&config, self.drive.root_complex.write_accept))
    }

    /// The same with the link of a peer, if there is one.
    pub fn peer(&self) -> Option<Self> {
        let config = self.drive.peer.is_there().then(|| self.drive.peer.port(&self.drive.link))?;
        Some(self.with_link(&config, Span::ZERO))
    }

    fn with_link(&self, config: &config::Link, accept: Span) -> Self {
        Self { link: Link::new(config, accept, Span::ZERO, 0), ..self.clone() }
    }

    /// How many uplinks there are, in those of which most drives share one: they have as large a share of the requests as of
    /// the drives.
    pub fn uplinks(&self, workload: &Workload) -> f64 {
        let drives = workload.drives.max(1);
        f64::from(drives) / f64::from(self.drive.switch.sharing(drives as u16).max(1))
    }

    /// The same for the requests of a job.
    pub fn of_job(&self, job: &Job) -> Self {
        let limits = self.drive.limits();
        let engine = limits.ways_in.as_ref().and_then(|ways| ways.engine(job));
        let engaged = engine.map(|engine| Engaged {
            software: Software::new(self.drive, engine, job.way.switches),
            together: job.batch.with_slots(job.iodepth, engine == Engine::Spdk),
        });
        Self { engaged, ..self.clone() }
    }
}
