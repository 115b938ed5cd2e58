//! Closed forms of latency and throughput: arithmetic of an idle drive's link, memory and host. From it follow the
//! latency of a lone request and the demands of each kind of request on resources.
//!
//! [`ClosedForm::of_data_path`] gives the bounds that hold for any protocol. Each protocol's own form is in its folder, and
//! [`closed_form_of_protocol`](crate::protocol::form::closed_form_of_protocol) calls it.

mod collection;
pub(crate) mod data_reads;
pub(crate) mod demand;
pub(crate) mod fabric;
pub mod flash;
pub(crate) mod form;
pub(crate) mod host;
pub(crate) mod link;
pub(crate) mod media;
pub(crate) mod split;
pub(crate) mod volume;
pub(crate) mod workload;

pub use demand::{ServiceDemand, ServiceDemands};
pub use form::{Certainty, ClosedForm, Latency};
pub use workload::{ArrivalProcess, Class, Workload};

use crate::config::{self, IoEngine};
use crate::drive::Drive;
use crate::host::software::Software;
use crate::link::Link;
use crate::link::root_complex::RootComplex;
use crate::media::chip::BankChips;
use crate::media::{Geometry, Media};
use crate::number::low_u16;
use crate::time::Span;
use crate::workload::{BatchSizes, Job};

/// Components of an idle drive with its host, from which closed forms compute times and demands.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// Configuration of the drive and its host.
    pub drive: &'a Drive,
    /// Link between the drive and the host (or the switch), in its idle state.
    pub link: Link,
    /// Root complex of the host, in its idle state.
    pub root_complex: RootComplex,
    /// Layout of the memory: distribution of addresses over its channels and banks.
    pub geometry: Geometry,
    /// Memory alone, without a write buffer or translation layer in front, and with mean instead of random times.
    pub media: Media,
    /// Memory chips behind the banks. `None` if the drive does not model individual chips.
    pub chips: Option<BankChips>,
    /// Software of the job's I/O engine. `None` on software stacks that are the same for all engines.
    pub engaged: Option<EngineSoftware>,
}

/// Software stages of an I/O engine, and the batch sizes in which it submits and completes requests.
#[derive(Clone, Debug)]
pub struct EngineSoftware {
    /// Software stages of the I/O engine, with their costs.
    pub software: Software,
    /// Number of requests that the engine submits together, and number that it completes together.
    pub together: BatchSizes,
}

impl Parts<'_> {
    /// Returns the idle components of this drive and its host.
    pub fn new(drive: &Drive) -> Parts<'_> {
        Parts {
            drive,
            link: Link::new(&drive.link, drive.write_accept(), Span::ZERO, 0)
                .with_longer_path(drive.switch_forwarding_time()),
            root_complex: RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, 0)
                .with_peer_memory(&drive.peer),
            geometry: Geometry::from(&drive.media.in_the_mean()),
            media: Media::of(&drive.media.in_the_mean(), 0),
            chips: BankChips::of(&drive.media),
            engaged: None,
        }
    }

    /// Returns these components with the switch's uplink instead of the drive's link. `None` if there is no switch.
    pub fn uplink(&self) -> Option<Self> {
        let config = self.drive.switch.is_there().then(|| self.drive.switch.uplink(&self.drive.link))?;
        Some(self.with_link_configuration(&config, self.drive.root_complex.write_accept))
    }

    /// Returns these components with the peer device's link instead of the drive's link. `None` if there is no peer.
    pub fn peer(&self) -> Option<Self> {
        let config = self.drive.peer.is_there().then(|| self.drive.peer.port(&self.drive.link))?;
        Some(self.with_link_configuration(&config, Span::ZERO))
    }

    fn with_link_configuration(&self, config: &config::Link, accept: Span) -> Self {
        Self { link: Link::new(config, accept, Span::ZERO, 0), ..self.clone() }
    }

    /// Returns the effective number of switch uplinks: all drives divided by the drives on the uplink that has most of
    /// them. An uplink carries the same share of the requests as it has of the drives.
    pub fn uplinks(&self, workload: &Workload) -> f64 {
        let drives = workload.drives.max(1);
        f64::from(drives) / f64::from(self.drive.switch.drives_per_uplink(low_u16(drives)).max(1))
    }

    /// Returns these components with the software of the job's I/O engine, where the software stack depends on the
    /// engine.
    pub fn of_job(&self, job: &Job) -> Self {
        let limits = self.drive.limits();
        let engine = limits.engine_support.as_ref().and_then(|support| support.engine(job));
        let engaged = engine.map(|engine| EngineSoftware {
            software: Software::new(self.drive, engine, job.engine_choice.switches),
            together: job.batch.batch_for_slots(job.iodepth, engine == IoEngine::Spdk),
        });
        Self { engaged, ..self.clone() }
    }
}
