//! Trace in Chrome's trace-event JSON, which <https://ui.perfetto.dev> opens.
//!
//! Perfetto drops complete events that overlap on one track without nesting, and keeps whole nanoseconds. So
//! overlapping steps are laid on tracks of their own ("link up", "link up 2", …). Both ends of a step are cut to whole
//! nanoseconds first; exact picoseconds are in the arguments.

use serde_json::{Value, json};

use phaselink_core::ledger::{Record, Step, Trace};
use phaselink_core::number::{length, real, wide_index};
use phaselink_core::time::Time;

const PROCESS: u64 = 1;
/// Names of the components in which a step of a request can be, in their order on the screen: host, both directions of
/// the link, device and media.
const PLACES: [&str; 5] = ["host", "link down", "link up", "device", "media"];
/// Largest number of tracks of one component; the identifiers of its tracks begin at a multiple of this number.
const LANES_MAX: u64 = 1_000_000;

/// Returns the trace as one JSON document: track names first, then events in order of time.
///
/// Flow arrows connect the steps of one request.
pub fn perfetto(trace: &Trace) -> String {
    let records = trace.in_order();
    let tracks = assign_free_tracks(&records);
    let mut events = metadata(&tracks);
    events.extend(timed_events(&records, &tracks));
    let document = json!({
        "displayTimeUnit": "ns",
        "otherData": { "producer": concat!("phaselink ", env!("CARGO_PKG_VERSION")), "dropped": trace.dropped() },
        "traceEvents": events,
    });
    document.to_string()
}

/// One track of the display: index of the component, and number of the track among those of the component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TraceTrack {
    place: u64,
    lane: u64,
}

impl TraceTrack {
    fn id(self) -> u64 {
        (self.place + 1) * LANES_MAX + self.lane
    }

    fn name(self) -> String {
        let place = PLACES[wide_index(self.place)];
        if self.lane == 0 { place.to_string() } else { format!("{place} {}", self.lane + 1) }
    }
}

fn place(step: &Step) -> usize {
    match step {
        Step::Host(_) => 0,
        Step::Down { .. } => 1,
        Step::Up { .. } => 2,
        Step::Device(_) => 3,
        Step::Media(_) => 4,
    }
}

/// Returns the track of each record, of records in order of time: the first track of its component that is free when
/// the record begins.
fn assign_free_tracks(records: &[&Record]) -> Vec<TraceTrack> {
    let mut lanes: [Vec<u64>; PLACES.len()] = Default::default();
    let mut assign = |record: &&Record| {
        let place = place(&record.step);
        let free_at_ns = &mut lanes[place];
        let lane = free_at_ns.iter().position(|free| *free <= whole_ns(record.from)).unwrap_or(free_at_ns.len());
        free_at_ns.resize(free_at_ns.len().max(lane + 1), 0);
        free_at_ns[lane] = record_end_ns(record);
        TraceTrack { place: length(place), lane: length(lane) }
    };
    records.iter().map(&mut assign).collect()
}

/// Returns the events that give the process and its tracks their names, and the tracks their order.
fn metadata(tracks: &[TraceTrack]) -> Vec<Value> {
    let mut used = tracks.to_vec();
    used.sort_unstable();
    used.dedup();
    let mut events = vec![named("process_name", 0, json!({ "name": "phaselink" }))];
    for track in used {
        events.push(named("thread_name", track.id(), json!({ "name": track.name() })));
        events.push(named("thread_sort_index", track.id(), json!({ "sort_index": track.id() })));
    }
    events
}

fn named(kind: &str, track: u64, arguments: Value) -> Value {
    json!({ "name": kind, "ph": "M", "pid": PROCESS, "tid": track, "args": arguments })
}

fn timed_events(records: &[&Record], tracks: &[TraceTrack]) -> Vec<Value> {
    let flows = request_flow_phases(records);
    let mut events = Vec::with_capacity(2 * records.len());
    for ((record, track), phase) in records.iter().zip(tracks).zip(flows) {
        events.push(complete(record, *track));
        if let (Some(request), Some(phase)) = (record.request, phase) {
            events.push(flow_event(record, *track, request, phase));
        }
    }
    events
}

fn complete(record: &Record, track: TraceTrack) -> Value {
    let mut arguments = json!({ "from_ps": record.from.as_ps(), "to_ps": record.to.as_ps() });
    if let Some(request) = record.request {
        arguments["request"] = request.into();
    }
    if let Step::Up { packets, wire_bytes, .. } | Step::Down { packets, wire_bytes, .. } = record.step {
        arguments["packets"] = packets.into();
        arguments["wire_bytes"] = wire_bytes.into();
    }
    json!({
        "name": record.step.name(),
        "cat": PLACES[wide_index(track.place)],
        "ph": "X",
        "ts": ns_to_us(whole_ns(record.from)),
        "dur": ns_to_us(record_end_ns(record) - whole_ns(record.from)),
        "pid": PROCESS,
        "tid": track.id(),
        "args": arguments,
    })
}

/// Returns one point of the flow arrow through a request's steps; the arrow binds to the step that encloses the point.
fn flow_event(record: &Record, track: TraceTrack, request: u64, phase: &str) -> Value {
    let mut event = json!({
        "name": "request",
        "cat": "request",
        "ph": phase,
        "id": request,
        "ts": ns_to_us(whole_ns(record.from)),
        "pid": PROCESS,
        "tid": track.id(),
    });
    if phase == "f" {
        event["bp"] = "e".into();
    }
    event
}

/// Returns for each record its phase in the flow arrow of its request: `s`tart, s`t`ep, `f`inish, or none if it is the
/// only step.
fn request_flow_phases(records: &[&Record]) -> Vec<Option<&'static str>> {
    let mut owned: Vec<(u64, usize)> =
        records.iter().enumerate().filter_map(|(place, record)| Some((record.request?, place))).collect();
    owned.sort_unstable();
    let mut phases = vec![None; records.len()];
    for steps in owned.chunk_by(|left, right| left.0 == right.0) {
        if let [first, middle @ .., last] = steps {
            middle.iter().for_each(|(_, place)| phases[*place] = Some("t"));
            phases[first.1] = Some("s");
            phases[last.1] = Some("f");
        }
    }
    phases
}

fn whole_ns(at: Time) -> u64 {
    at.as_ps() / 1000
}

/// Returns the end of a record in whole nanoseconds, which is never before its beginning.
fn record_end_ns(record: &Record) -> u64 {
    whole_ns(record.to.max(record.from))
}

/// Converts nanoseconds into microseconds, the unit of the format.
fn ns_to_us(ns: u64) -> f64 {
    real(ns) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::{dc_express_read, nvme_read, record, trace_of, up};

    fn perfetto_events_of_trace(trace: &Trace) -> Vec<Value> {
        let document: Value = serde_json::from_str(&perfetto(trace)).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    fn phase<'a>(events: &'a [Value], phase: &'a str) -> impl Iterator<Item = &'a Value> {
        events.iter().filter(move |event| event["ph"] == phase)
    }

    #[test]
    fn perfetto_events_have_the_fields_of_their_phase() {
        for event in perfetto_events_of_trace(&dc_express_read()) {
            assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            match event["ph"].as_str().unwrap() {
                "M" => assert!(event["args"].is_object()),
                "X" => assert!(event["ts"].is_f64() && event["dur"].is_f64() && event["args"]["from_ps"].is_u64()),
                "s" | "t" => assert!(event["id"].is_u64() && event["ts"].is_f64()),
                "f" => assert_eq!(event["bp"], "e"),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn perfetto_metadata_precedes_and_names_all_used_tracks() {
        let events = perfetto_events_of_trace(&nvme_read());
        let first_timed = events.iter().position(|event| event["ph"] != "M").unwrap();
        assert!(events[first_timed..].iter().all(|event| event["ph"] != "M"));
        let names: Vec<&str> = phase(&events, "M")
            .filter(|event| event["name"] == "thread_name")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["host", "link down", "link up", "link up 2", "link up 3", "device", "media"]);
    }

    #[test]
    fn perfetto_events_on_a_track_do_not_overlap() {
        let events = perfetto_events_of_trace(&nvme_read());
        let times: Vec<f64> = events.iter().filter_map(|event| event["ts"].as_f64()).collect();
        assert!(times.is_sorted());
        let mut ends = std::collections::BTreeMap::new();
        for event in phase(&events, "X") {
            let (from, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            let end = ends.insert(event["tid"].as_u64().unwrap(), from + length);
            assert!(end.is_none_or(|end| end <= from + 1e-6), "{event}");
        }
    }

    #[test]
    fn steps_of_a_request_share_one_flow_arrow() {
        let events = perfetto_events_of_trace(&dc_express_read());
        let arrow: Vec<&str> =
            events.iter().filter(|event| event["id"] == 7).map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(arrow, ["s", "t", "t", "t", "t", "t", "f"]);
        let alone = trace_of(vec![record(Some(1), 0, 1, Step::Host("alone".into()))]);
        assert_eq!(perfetto_events_of_trace(&alone).iter().filter(|event| event["id"] == 1).count(), 0);
    }

    #[test]
    fn perfetto_times_are_us_with_three_decimals_plus_picoseconds() {
        let events =
            perfetto_events_of_trace(&trace_of(vec![record(Some(1), 1_234_567, 2_345_999, up("data", 4, 608))]));
        let event = phase(&events, "X").next().unwrap();
        assert_eq!((event["ts"].as_f64(), event["dur"].as_f64()), (Some(1.234), Some(1.111)));
        assert_eq!(
            (event["args"]["from_ps"].as_u64(), event["args"]["to_ps"].as_u64()),
            (Some(1_234_567), Some(2_345_999))
        );
        assert_eq!(event["args"]["wire_bytes"], 608);
    }
}
