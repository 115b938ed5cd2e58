//! Closed form (prediction without simulation) of the `ramdisk` protocol. It gives the throughput that each resource
//! allows; only the simulation gives the latency of a lone request.

use super::command::{COMMAND_BYTES, STATUS_BYTES};
use crate::closed_form::{Class, ClosedForm, Parts, Workload};
use crate::tlp::Direction;

/// Returns the closed form of a class of requests to a `ramdisk` drive: demands on the command parser, the link and the
/// media.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    let ramdisk = &parts.drive.ramdisk;
    let commands = f64::from(class.bytes.div_ceil(ramdisk.max_transfer_kib * 1024));
    let mut form = ClosedForm::of_data_path(parts, workload, class);
    form.demands.add("command parser", 1.0, ramdisk.parse, commands);
    parts.add_burst_demands(&mut form.demands, &parts.write(Direction::Down, COMMAND_BYTES as u32), commands);
    parts.add_burst_demands(&mut form.demands, &parts.write(Direction::Up, STATUS_BYTES as u32), commands);
    form
}
