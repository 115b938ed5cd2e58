//! Building blocks of closed forms: the idle parts of a drive with the arithmetic of link, memory and host, kinds of
//! requests, their demands on resources, and the latency of a lone request.
//!
//! [`Form::of_data`] gives the bounds that hold for any protocol. Each protocol's own form is in its folder, and
//! [`crate::predict`] calls it.

mod collection;
pub(crate) mod data_reads;
pub(crate) mod demand;
pub(crate) mod flash;
pub(crate) mod form;
pub(crate) mod host;
pub(crate) mod link;
pub(crate) mod media;
pub(crate) mod split;
pub(crate) mod volume;
pub(crate) mod workload;

pub use demand::{Demand, Demands};
pub use form::{Certainty, Form, Latency};
pub use workload::{Arrivals, Class, Workload};

use crate::config::{self, IoEngine};
use crate::drive::Drive;
use crate::host::software::Software;
use crate::link::Link;
use crate::link::root_complex::RootComplex;
use crate::media::chip::BankChips;
use crate::media::{Geometry, Media};
use crate::time::Span;
use crate::workload::{BatchSizes, Job};

/// Idle parts of a drive, as closed forms use them.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// Description of the drive.
    pub drive: &'a Drive,
    /// The link.
    pub link: Link,
    /// The root complex.
    pub root_complex: RootComplex,
    /// Distribution of addresses over channels and banks.
    pub geometry: Geometry,
    /// The memory itself, without a write buffer or translation layer in front of it, with the mean of its times.
    pub media: Media,
    /// Chips of the memory, if they are modelled one by one.
    pub chips: Option<BankChips>,
    /// Software of the job's I/O engine, on stacks that differ by engine.
    pub engaged: Option<EngineSoftware>,
}

/// Software of an I/O engine, and the sizes of its batches.
#[derive(Clone, Debug)]
pub struct EngineSoftware {
    /// Stages of the engine's software.
    pub software: Software,
    /// Numbers of requests that are submitted and completed together.
    pub together: BatchSizes,
}

impl Parts<'_> {
    /// Makes the idle parts of this drive.
    pub fn new(drive: &Drive) -> Parts<'_> {
        Parts {
            drive,
            link: Link::new(&drive.link, drive.write_accept(), Span::ZERO, 0).farther(drive.switch_time()),
            root_complex: RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, 0)
                .with_peer(&drive.peer),
            geometry: Geometry::from(&drive.media.in_the_mean()),
            media: Media::of(&drive.media.in_the_mean(), 0),
            chips: BankChips::of(&drive.media),
            engaged: None,
        }
    }

    /// Returns these parts with the uplink of a switch in place of the link, if there is one.
    pub fn uplink(&self) -> Option<Self> {
        let config = self.drive.switch.is_there().then(|| self.drive.switch.uplink(&self.drive.link))?;
        Some(self.with_link(&config, self.drive.root_complex.write_accept))
    }

    /// Returns these parts with the link of a peer in place of the link, if there is one.
    pub fn peer(&self) -> Option<Self> {
        let config = self.drive.peer.is_there().then(|| self.drive.peer.port(&self.drive.link))?;
        Some(self.with_link(&config, Span::ZERO))
    }

    fn with_link(&self, config: &config::Link, accept: Span) -> Self {
        Self { link: Link::new(config, accept, Span::ZERO, 0), ..self.clone() }
    }

    /// Number of uplinks, in units of those that most drives share: they carry as large a share of the requests as they
    /// have of the drives.
    pub fn uplinks(&self, workload: &Workload) -> f64 {
        let drives = workload.drives.max(1);
        f64::from(drives) / f64::from(self.drive.switch.drives_per_uplink(drives as u16).max(1))
    }

    /// Returns these parts for the requests of a job.
    pub fn of_job(&self, job: &Job) -> Self {
        let limits = self.drive.limits();
        let engine = limits.ways_in.as_ref().and_then(|ways| ways.engine(job));
        let engaged = engine.map(|engine| EngineSoftware {
            software: Software::new(self.drive, engine, job.way.switches),
            together: job.batch.with_slots(job.iodepth, engine == IoEngine::Spdk),
        });
        Self { engaged, ..self.clone() }
    }
}
