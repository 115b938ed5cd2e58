//! Closed form of one kind of request: latency and demands. A protocol completes the parts that all protocols share.

use super::Parts;
use super::demand::ServiceDemands;
use super::media::MemoryAccessTime;
use super::workload::{Class, Workload};
use crate::config::{Duplex, Placement, Wait};
use crate::ledger::stage::Ledger;
use crate::ledger::{Stage, StageTimes};
use crate::request::DataDirection;
use crate::time::Span;
use crate::tlp::Direction;

const FLASH_VARIES: &str = "pages, the buffer and the cleaning of flash make requests take different times";
const LIE_DIFFERENTLY: &str = "requests lie differently in stripes and program units";

/// Certainty of a request's closed-form latency: exact, a mean, or a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Every lone request (queue depth 1) takes exactly this time.
    Exact,
    /// Lone requests take this time on average. The text says why they differ.
    Mean(&'static str),
    /// No lone request takes less than this time. The text says why it may take more.
    AtLeast(&'static str),
}

/// Latency of a lone request (queue depth 1) by stage, with its certainty and a lower bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Time that the request spends in each stage.
    pub stages: StageTimes,
    /// Certainty of the request's total latency, the sum of its stages.
    pub certainty: Certainty,
    /// Lower bound of the latency at any queue depth. Among others, a request may save the wait for an interrupt or a
    /// poll.
    pub least: Span,
}

/// Closed form of one kind of request on one drive: latency of a lone request, and demands on resources.
#[derive(Clone, Debug)]
pub struct ClosedForm {
    /// Latency of a lone request; `None` if there is no closed form for it.
    pub latency: Option<Latency>,
    /// Service demands of the request on each resource, such as wires, memory banks and cores.
    pub demands: ServiceDemands,
}

impl ClosedForm {
    /// Returns a closed form that holds for any protocol. It has demands on memory, on the software above the driver,
    /// and of user data on the wire, but no latency.
    pub fn of_data_path(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
        let mut demands = ClosedForm::shared(parts, workload, class, Span::ZERO, false);
        match class.direction {
            DataDirection::Read => parts.add_burst_demands(&mut demands, &parts.data(class.bytes), 1.0),
            DataDirection::Write => {
                parts.add_burst_demands(&mut demands, &parts.write_data_completions(class.bytes), 1.0)
            }
        }
        ClosedForm { latency: None, demands }
    }

    /// Returns the service demands of a request on memory and cores. `driver` is the driver's own processor time;
    /// `interrupts` is true if completions can raise interrupts.
    pub fn shared(parts: &Parts, workload: &Workload, class: &Class, driver: Span, interrupts: bool) -> ServiceDemands {
        let mut demands = ServiceDemands::default();
        parts.add_poller_demands(&mut demands, workload, class, driver);
        let own = if parts.has_poller() { Span::ZERO } else { driver };
        let software = parts.software(class.direction, class.bytes) + own;
        parts.add_core_demands(&mut demands, workload, software, interrupts);
        parts.add_media_demands(&mut demands, workload, class);
        demands
    }
}

impl Latency {
    /// Returns the latency from the complete ledger of a lone request. `access` is its time in the memory.
    pub fn new(ledger: &Ledger, access: MemoryAccessTime, certainty: Certainty) -> Latency {
        let stages = ledger.close(ledger.cursor()).clone();
        let least = stages.total() - avoidable_lone_time(&stages) - (access.idle - access.least);
        Latency { stages, certainty, least }
    }
}

/// Returns the part of a lone request's latency that a request among others may save: polls, interrupts and waits.
fn avoidable_lone_time(stages: &StageTimes) -> Span {
    let spared =
        [Stage::Poll, Stage::PollWait, Stage::Interrupt, Stage::ContextSwitch, Stage::CoreWait, Stage::LinkWait];
    let spared = spared.iter().chain(&[Stage::TargetWake]);
    spared.map(|stage| stages.get(*stage)).sum()
}

/// Returns the text of the first pair whose condition is true: the reason why a latency is not exact. `None` if no
/// condition is.
pub(crate) fn first_inexactness_reason(doubts: &[(bool, &'static str)]) -> Option<&'static str> {
    doubts.iter().find(|(holds, _)| *holds).map(|(_, reason)| *reason)
}

impl Parts<'_> {
    /// Adds the least service demand on the device's DMA engine, through which all user data passes. The latency
    /// becomes a lower bound.
    pub fn with_dma_engine_demand(&self, mut form: ClosedForm, class: &Class) -> ClosedForm {
        let dma = &self.drive.dma;
        if !dma.is_there() {
            return form;
        }
        let transfer = match class.direction {
            DataDirection::Read => dma.to_host,
            DataDirection::Write => dma.from_host,
        };
        let pieces = f64::from(class.bytes) / f64::from(dma.piece_bytes);
        let part = match (dma.full_duplex, class.direction) {
            (false, _) => "DMA engine",
            (true, DataDirection::Read) => "DMA engine to host",
            (true, DataDirection::Write) => "DMA engine from host",
        };
        form.demands.add(part, 1.0, transfer, 1.0);
        form.demands.add(part, 1.0, dma.piece, pieces);
        if let Some(latency) = &mut form.latency {
            latency.certainty = Certainty::AtLeast("data pass the device's DMA engine");
        }
        form
    }

    /// Returns a reason why a request of any protocol may take longer than its closed form, or `None`. `behind` is the
    /// number of short packets that follow its posted data.
    pub fn doubt(&self, access: MemoryAccessTime, data_bytes: u32, behind: u32) -> Option<&'static str> {
        let doubts = [
            (!access.regular && self.is_mapped(), FLASH_VARIES),
            (!access.regular, LIE_DIFFERENTLY),
            (!self.flows(&self.write(Direction::Up, data_bytes), behind), "data waits for flow-control credits"),
        ];
        let found = first_inexactness_reason(&doubts);
        found.or_else(|| self.chance())
    }

    /// Returns a reason why the link or the host makes some requests take longer at random, or `None`.
    pub fn chance(&self) -> Option<&'static str> {
        let (link, root) = (&self.drive.link, &self.drive.root_complex);
        let chance = link.bit_error_rate > 0.0 || root.late_write_ratio > 0.0;
        let doubts = [
            (chance, "errors and late writes come by chance"),
            (root.iommu, "addresses may miss in the cache of the IOMMU"),
            (self.root_complex.settle_time().is_none(), "rings and data lie on different sockets"),
            (link.duplex == Duplex::Shared, "both directions share the wire"),
            (self.drive.host.wait == Wait::Hybrid && !self.sleeps(), "a hybrid wait oversleeps"),
            (!self.drive.host.mmio_drain.is_zero(), "a register write may wait for those before it"),
        ];
        first_inexactness_reason(&doubts)
    }

    /// True if the device's reads of host memory go to DRAM and may have to wait for its refresh.
    pub fn may_wait_for_refresh(&self) -> bool {
        let root = &self.drive.root_complex;
        let in_dram = |placement| matches!(placement, Placement::Dram | Placement::RemoteDram);
        (in_dram(root.placement) || in_dram(root.data_placement)) && !root.refresh.is_zero()
    }

    /// Returns the latency of requests that start at these byte offsets. `at(Some(offset))` gives the ledger of a
    /// request there; `at(None)` gives that of the fastest request at any offset, even among others. Without `offsets`,
    /// only this lower bound is known.
    pub fn latency_over_offsets(
        &self,
        offsets: Option<Vec<u64>>,
        certainty: Certainty,
        at: impl Fn(Option<u64>) -> Ledger,
    ) -> Latency {
        let stages = |offset| {
            let ledger = at(offset);
            ledger.close(ledger.cursor()).clone()
        };
        let bound = stages(None);
        let least = bound.total() - avoidable_lone_time(&bound);
        let each: Vec<StageTimes> = offsets.into_iter().flatten().map(|offset| stages(Some(offset))).collect();
        let alike = !each.is_empty() && each.iter().all(|other| *other == each[0]);
        let unlike = match certainty {
            Certainty::Exact => LIE_DIFFERENTLY,
            Certainty::Mean(why) | Certainty::AtLeast(why) => why,
        };
        let (stages, certainty) = match (alike, certainty) {
            (true, _) => (each.into_iter().next().unwrap_or_default(), certainty),
            // If the request may also take less than the mean, only the lower bound is known.
            (false, Certainty::Mean(_)) => (bound, Certainty::AtLeast(unlike)),
            (false, _) => {
                let shortest = each.into_iter().min_by_key(StageTimes::total).unwrap_or(bound);
                (shortest, Certainty::AtLeast(unlike))
            }
        };
        // If packets wait for credits, the bound can exceed the sum of the known stages, so limit it to that sum.
        Latency { least: least.min(stages.total()), stages, certainty }
    }
}
