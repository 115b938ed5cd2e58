//! What a protocol's closed form gives for one kind of request, and what all of them share.

use super::Parts;
use super::demand::Demands;
use super::media::Access;
use super::workload::{Class, Workload};
use crate::config::{Duplex, Wait};
use crate::link::packet::Direction;
use crate::report::stage::Ledger;
use crate::report::{Stage, StageTimes};
use crate::time::Span;
use crate::workload::Op;

/// How far a latency can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Every lone request takes exactly this long.
    Exact,
    /// Lone requests take this long on average.
    Mean(&'static str),
    /// No lone request takes less; why it may take more.
    AtLeast(&'static str),
}

/// The time of a request that is alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    pub stages: StageTimes,
    pub certainty: Certainty,
    /// Less than that no request takes among others either: they may spare it an interrupt, or a look.
    pub least: Span,
}

/// One kind of request on one drive.
#[derive(Clone, Debug)]
pub struct Form {
    pub latency: Option<Latency>,
    pub demands: Demands,
}

impl Form {
    /// What is known whatever the protocol: the memory, the software above the driver, and the data on the wire. The
    /// form of a protocol for which no more is written down yet.
    pub fn of_data(parts: &Parts, workload: &Workload, class: &Class) -> Form {
        let mut demands = Form::shared(parts, workload, class, Span::ZERO, false);
        match class.op {
            Op::Read => parts.demand_burst(&mut demands, &parts.data(class.bytes), 1.0),
            Op::Write => parts.demand_burst(&mut demands, &parts.data_answer(class.bytes), 1.0),
        }
        Form { latency: None, demands }
    }

    /// The demands on memory and cores, the driver's own processor time included.
    pub fn shared(parts: &Parts, workload: &Workload, class: &Class, driver: Span, interrupts: bool) -> Demands {
        let mut demands = Demands::default();
        let mut ledger = parts.descend(class.op, class.bytes);
        ledger.spend(Stage::Driver, driver);
        parts.ascend(&mut ledger, class.op, class.bytes);
        let software = ledger.cursor().since(ledger.start());
        parts.demand_cores(&mut demands, workload, software, interrupts);
        parts.demand_media(&mut demands, workload, class);
        demands
    }
}

impl Latency {
    /// The latency of a request whose ledger is complete.
    pub fn new(ledger: &Ledger, access: Access, certainty: Certainty) -> Latency {
        let stages = ledger.close(ledger.cursor()).clone();
        let spared =
            [Stage::Poll, Stage::PollWait, Stage::Interrupt, Stage::ContextSwitch, Stage::CoreWait, Stage::LinkWait];
        let spared: Span = spared.iter().map(|stage| stages.get(*stage)).sum();
        let least = stages.total() - spared - (access.idle - access.least);
        Latency { stages, certainty, least }
    }
}

impl Parts<'_> {
    /// Why a request of any protocol may take longer than its closed form, if it may: one whose posted data is followed
    /// by so many short packets.
    pub fn doubt(&self, access: Access, data_bytes: u32, behind: u32) -> Option<&'static str> {
        let (link, root) = (&self.drive.link, &self.drive.root_complex);
        let chance =
            link.bit_error_rate > 0.0 || root.late_write_ratio > 0.0 || root.iommu && root.iommu_miss_ratio > 0.0;
        let doubts = [
            (chance, "errors, late writes and translation misses come by chance"),
            (!access.regular, "requests lie differently in stripes and program units"),
            (!self.flows(&self.write(Direction::Up, data_bytes), behind), "data waits for flow-control credits"),
            (link.duplex == Duplex::Shared, "both directions share the wire"),
            (self.drive.host.wait == Wait::Hybrid, "a hybrid wait oversleeps"),
        ];
        doubts.iter().find(|(holds, _)| *holds).map(|(_, reason)| *reason)
    }
}
