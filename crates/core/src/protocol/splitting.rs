//! Splitting of requests that are larger than one command. The driver gets the parts as requests of their own; the
//! whole request completes with its last part.

use super::halves::Driver;
use crate::protocol::ports::HostPorts;
use crate::request::{Io, Request, RequestId};
use crate::shared::Shared;
use crate::time::Time;

/// Submits a request to the device, split into as many commands as its size needs.
#[inline(always)]
pub fn submit(now: Time, request: RequestId, driver: &mut impl Driver, ports: &mut HostPorts) {
    let bytes_max = driver.whole_bytes_max();
    if ports.shared.requests[request].io.bytes <= bytes_max {
        return driver.submit(now, request, ports);
    }
    submit_split_parts(now, request, driver, ports);
}

#[inline(never)]
fn submit_split_parts(now: Time, request: RequestId, driver: &mut impl Driver, ports: &mut HostPorts) {
    let mut parts = std::mem::take(&mut ports.shared.requests.split);
    split(request, driver, ports.shared, &mut parts);
    for part in parts.drain(..) {
        driver.submit(now, part, ports);
    }
    ports.shared.requests.split = parts;
}

/// Submits several requests of one thread to the device in one call, each split into as many commands as its size
/// needs.
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

/// Splits a request into parts of at most one command each, and appends them to `parts`. Appends the request itself if
/// it fits one command of its operation.
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

/// Returns the request that completes with `part`: `part` itself if it belongs to no split request, or the whole
/// request if this was its last outstanding part. Returns none while other parts are outstanding.
#[inline(always)]
pub fn completed(part: RequestId, shared: &mut Shared) -> Option<RequestId> {
    match shared.requests[part].parent {
        None => Some(part),
        Some(whole) => complete_split_part(part, whole, shared),
    }
}

#[inline(never)]
fn complete_split_part(part: RequestId, whole: RequestId, shared: &mut Shared) -> Option<RequestId> {
    let ledger = std::mem::take(&mut shared.requests[part].ledger);
    shared.requests.vacate(part);
    let request = &mut shared.requests[whole];
    request.parts_left -= 1;
    // The last part determines the latency of the whole request, so the request takes over that part's ledger.
    request.ledger = ledger;
    (request.parts_left == 0).then_some(whole)
}
