//! Text and table of `phaselink dma`: latency and bandwidth of DMA transfers.

use phaselink_core::config::Placement;
use phaselink_core::dma::{Op, Question};
use phaselink_core::drive::Drive;
use phaselink_studies::dma::Measured;
use phaselink_studies::report::Table;
use phaselink_studies::results::in_tables;

use crate::{describe, output};

/// Returns a text with the device, the conditions of the measurement, and a table with a row for each size and
/// direction.
pub(super) fn text(device: &Drive, measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let title =
        if device.summary.is_empty() { device.name.clone() } else { format!("{}: {}", device.name, device.summary) };
    let lines = [title, describe::link(device), conditions_sentence(&first.question, device)];
    let lines: String = lines.iter().map(|line| describe::wrapped(line, "")).collect();
    let table = table(measured);
    format!("{lines}\n{}", output::shown(&table))
}

/// Returns a table of latencies and throughput with a row for each transfer size and direction.
pub(super) fn table(measured: &[Measured]) -> Table {
    let (op, many) = measured.first().map_or((Op::Read, 1), |it| (it.question.op, it.question.outstanding));
    let mut table = Table::new().right("bytes");
    if op == Op::Both {
        table = table.left("");
    }
    table = table.right("mean ns");
    for percentile in in_tables() {
        table = table.right(format!("{} ns", percentile.heading));
    }
    table = table.right(format!("{many} at a time: Gb/s")).right("M transfers/s");
    for size in measured {
        for (name, alone, loaded) in size.directions() {
            let mut cells = vec![size.question.bytes.to_string()];
            if op == Op::Both {
                cells.push(String::from(name));
            }
            cells.push(format!("{:.1}", alone.total.mean_ns()));
            cells.extend(in_tables().map(|it| time_text(it.of_ns(&alone.total))));
            cells.push(format!("{:.2}", loaded.bytes_per_s() * 8e-9));
            cells.push(format!("{:.2}", loaded.iops() * 1e-6));
            table.row(cells);
        }
    }
    table
}

fn time_text(ns: Option<f64>) -> String {
    ns.map_or(String::from("-"), |ns| format!("{ns:.1}"))
}

/// Returns a sentence on the conditions of a measurement: operation, DMA engine, cache state, NUMA node and IOMMU.
pub(super) fn conditions_sentence(question: &Question, device: &Drive) -> String {
    let root_complex = question.applied(device).root_complex;
    let transfers = match question.op {
        Op::Read => "reads of host memory",
        Op::Write => "writes to host memory",
        Op::Both => "reads of and writes to host memory in turns",
        Op::WriteRead => "writes to host memory, each with a read of the same place behind it",
    };
    let engine = match (question.direct, device.dma.is_there()) {
        (true, _) => "without the DMA engine",
        (false, true) => "through the DMA engine",
        (false, false) => "by a DMA engine that costs nothing",
    };
    let lies = match root_complex.data_placement.on_device_or_remote_socket(false) {
        _ if question.op == Op::Write => "memory",
        Placement::Cache => "data in the last-level cache",
        Placement::Core => "data that cores hold modified",
        _ => "data in DRAM",
    };
    let node = if root_complex.data_placement.is_remote() { " of another socket" } else { "" };
    let iommu = match root_complex.iommu {
        true => format!(
            "addresses translated with {} entries of {} KiB",
            root_complex.iommu_entries, root_complex.iommu_page_kib
        ),
        false => String::from("addresses not translated"),
    };
    let window = describe::size(question.window_bytes);
    format!("{transfers} {engine}, at random lines in {window}, {lies}{node}, {iommu}")
}
