//! Requests larger than one command: the driver gets them in parts, and the request completes with its last part.

use super::halves::Driver;
use crate::protocol::ports::HostPorts;
use crate::request::{Io, Request, RequestId};
use crate::shared::Shared;
use crate::time::Time;

/// Submits a request to the device, in as many commands as its size needs.
#[inline(always)]
pub fn submit(now: Time, request: RequestId, driver: &mut impl Driver, ports: &mut HostPorts) {
    let bytes_max = driver.whole_bytes_max();
    if ports.shared.requests[request].io.bytes <= bytes_max {
        return driver.submit(now, request, ports);
    }
    submit_parts(now, request, driver, ports);
}

#[inline(never)]
fn submit_parts(now: Time, request: RequestId, driver: &mut impl Driver, ports: &mut HostPorts) {
    let mut parts = std::mem::take(&mut ports.shared.requests.split);
    split(request, driver, ports.shared, &mut parts);
    for part in parts.drain(..) {
        driver.submit(now, part, ports);
    }
    ports.shared.requests.split = parts;
}

/// Submits several requests of one thread to the device together.
pub fn submit_together(
    now: Time,
    requests: impl Iterator<Item = RequestId>,
    driver: &mut impl Driver,
    ports: &mut HostPorts,
) {
    let bytes_max = driver.whole_bytes_max();
    let mut commands = Vec::new();
    for request in requests {
        match ports.shared.requests[request].io.bytes <= bytes_max {
            true => commands.push(request),
            false => split(request, driver, ports.shared, &mut commands),
        }
    }
    driver.submit_together(now, &commands, ports);
}

/// Appends the parts of a request that moves more data than a command, or the request itself if its operation has
/// larger commands.
fn split(request: RequestId, driver: &impl Driver, shared: &mut Shared, parts: &mut Vec<RequestId>) {
    let whole = shared.requests[request].clone();
    let bytes_max = driver.max_command_bytes(whole.io.op);
    if whole.io.bytes <= bytes_max {
        return parts.push(request);
    }
    shared.requests[request].parts_left = whole.io.bytes.div_ceil(bytes_max);
    let mut done = 0;
    while done < whole.io.bytes {
        let bytes = bytes_max.min(whole.io.bytes - done);
        let io = Io { offset: whole.io.offset + u64::from(done), bytes, ..whole.io };
        parts.push(shared.requests.insert(Request { io, parent: Some(request), ..whole.clone() }));
        done += bytes;
    }
}

/// Returns the request that completes with this one: itself, or the whole whose last outstanding part it was; none
/// while other parts are outstanding.
#[inline(always)]
pub fn completed(part: RequestId, shared: &mut Shared) -> Option<RequestId> {
    match shared.requests[part].parent {
        None => Some(part),
        Some(whole) => completed_part(part, whole, shared),
    }
}

#[inline(never)]
fn completed_part(part: RequestId, whole: RequestId, shared: &mut Shared) -> Option<RequestId> {
    let ledger = std::mem::take(&mut shared.requests[part].ledger);
    shared.requests.vacate(part);
    let request = &mut shared.requests[whole];
    request.parts_left -= 1;
    // The whole takes as long as its last part.
    request.ledger = ledger;
    (request.parts_left == 0).then_some(whole)
}
