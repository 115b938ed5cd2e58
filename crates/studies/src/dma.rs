//! Measurements of bare DMA transfers: of one size, and of several sizes as a JSON document.

use serde_json::Value;

use crate::results::documents::{Description, DmaDocument, DmaQuestion, DmaRow, OpName, TablePercentiles, value};
use crate::tails;
use phaselink_core::dma::{Question, SECTIONS};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{DirectionOutcome, JobOutcome};
use phaselink_core::problem::Problems;

/// Results of bare DMA transfers of one size: with one in flight, and with many.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transfers that were measured: direction, size, window, number in flight.
    pub question: Question,
    /// Results with one transfer at a time.
    pub alone: JobOutcome,
    /// Results with as many transfers in flight as the question says.
    pub loaded: JobOutcome,
}

impl Measured {
    /// Measures bare transfers of a device twice: with one in flight, and with as many as the question says.
    ///
    /// # Errors
    /// Everything in the question that makes no sense for this device.
    pub fn of(question: &Question, device: &Drive, seed: u64) -> Result<Measured, Problems> {
        let ask = |outstanding| {
            let outcome = Question { outstanding, ..*question }.ask(device, seed);
            outcome.map(|outcome| outcome.jobs.into_iter().next().unwrap_or_default())
        };
        Ok(Measured { question: *question, alone: ask(1)?, loaded: ask(question.outstanding)? })
    }

    /// Returns the directions in which there were transfers, each with the results of one in flight and of many.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome, &DirectionOutcome)> {
        let pairs = self.alone.directions().zip(self.loaded.directions());
        pairs.map(|((name, alone), (_, loaded))| (name, alone, loaded))
    }
}

/// Returns the JSON document of measurements: the question, and a row for each size and direction.
pub fn document(seed: u64, device: &Drive, measured: &[Measured]) -> Value {
    let rows = measured.iter().flat_map(|size| {
        let directions = size.directions();
        directions.map(|(direction, alone, loaded)| row(size.question.bytes, direction, alone, loaded))
    });
    let applied = measured.first().map_or_else(|| device.clone(), |it| it.question.applied(device));
    let mut description = applied.resolved();
    if let Some(sections) = description.as_object_mut() {
        sections.retain(|section, _| SECTIONS.contains(&section.as_str()));
    }
    value(&DmaDocument {
        seed,
        device: device.name.clone(),
        question: measured.first().map(|it| question(&it.question)),
        rows: rows.collect(),
        description: Description(description),
    })
}

fn question(question: &Question) -> DmaQuestion {
    DmaQuestion {
        op: question.op.word().into(),
        window_bytes: question.window_bytes,
        outstanding: question.outstanding,
        transfers: question.transfers,
        direct: question.direct,
        cache: question.cache.map(|cache| cache.word().into()),
        node: question.node.map(|node| node.word().into()),
        iommu: question.iommu,
    }
}

fn row(bytes: u32, direction: &str, alone: &DirectionOutcome, loaded: &DirectionOutcome) -> DmaRow {
    DmaRow {
        bytes,
        direction: if direction == "read" { OpName::Read } else { OpName::Write },
        mean_ns: alone.total.mean_ns(),
        percentiles: TablePercentiles::of(&alone.total),
        tails: tails::tail_document(&alone.total, alone.runtime),
        max_ns: alone.total.max().as_ns(),
        bytes_per_s: loaded.bytes_per_s(),
        transfers_per_s: loaded.iops(),
    }
}
