//! What the documents of `--json` hold, as a JSON Schema: for whoever reads them with something that checks or completes.
//!
//! It is closed: a key that is not in it is an error, so that the schema cannot fall behind the documents unnoticed. What fio
//! itself knows of a job is left to fio.

use serde_json::{Map, Value, json};

use crate::ledger::Stage;
use crate::results::FIGURES;

/// The schema of results, of draft 7 of JSON Schema as that of drive files is.
pub fn schema() -> Value {
    let documents = ["run", "compare", "predict", "sweep", "search", "fit", "dma", "reproduce", "trace-info"];
    let any: Vec<Value> = documents.iter().map(|name| json!({ "$ref": format!("#/definitions/{name}") })).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Results of phaselink",
        "description": "What `phaselink VERB --json` prints. Units stand last in a key; null is what is not known.",
        "oneOf": any,
        "definitions": {
            "run": run(),
            "compare": compare(),
            "predict": predict(),
            "sweep": sweep(),
            "search": search(),
            "fit": fit(),
            "dma": dma(),
            "reproduce": reproduce(),
            "trace-info": trace_info(),
            "interval": interval(),
            "precision": precision(),
            "description": description(),
        },
    })
}

/// Keys of an object: each with its schema, and whether it has to be there.
type Keys<'a> = &'a [(&'a str, Value)];

/// An object that has all of the keys, may have the others, and has nothing else.
fn object(about: &str, keys: Keys, others: Keys) -> Value {
    let properties: Map<String, Value> =
        keys.iter().chain(others).map(|(key, schema)| (String::from(*key), schema.clone())).collect();
    let required: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
    json!({
        "type": "object", "description": about, "properties": properties, "required": required, "additionalProperties": false,
    })
}

/// A document of a verb: its head, and its keys.
fn document(verb: &str, about: &str, keys: Keys, others: Keys) -> Value {
    let head = [("version", text("Of the program")), ("verb", json!({ "const": verb }))];
    let keys: Vec<(&str, Value)> = head.into_iter().chain(keys.iter().cloned()).collect();
    object(about, &keys, others)
}

fn list(about: &str, items: Value) -> Value {
    json!({ "type": "array", "description": about, "items": items })
}

fn leaf(kind: Value, about: &str) -> Value {
    json!({ "type": kind, "description": about })
}

fn text(about: &str) -> Value {
    leaf(json!("string"), about)
}

fn number(about: &str) -> Value {
    leaf(json!("number"), about)
}

fn whole(about: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": about })
}

fn truth(about: &str) -> Value {
    leaf(json!("boolean"), about)
}

/// 0 to 1.
fn share(about: &str) -> Value {
    json!({ "type": "number", "minimum": 0, "description": about })
}

fn number_or_null(about: &str) -> Value {
    leaf(json!(["number", "null"]), about)
}

fn whole_or_null(about: &str) -> Value {
    leaf(json!(["integer", "null"]), about)
}

fn text_or_null(about: &str) -> Value {
    leaf(json!(["string", "null"]), about)
}

fn texts(about: &str) -> Value {
    list(about, json!({ "type": "string" }))
}

fn one_of(about: &str, words: &[&str]) -> Value {
    json!({ "enum": words, "description": about })
}

fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

/// An object with any keys, whose values are alike.
fn by_name(about: &str, values: Value) -> Value {
    json!({ "type": "object", "description": about, "additionalProperties": values })
}

fn seed() -> Value {
    whole("Of everything random")
}

/// A drive as it was run: sections and their keys, which the schema of drive files describes.
fn description() -> Value {
    json!({ "type": "object", "description": "A drive as it was run, key by key; `phaselink check --schema` has the keys" })
}

fn interval() -> Value {
    let contribution = object(
        "A constant in doubt",
        &[("key", text("Its key")), ("correlation", number("Rank correlation with the figure, -1 to 1"))],
        &[],
    );
    let keys = [
        ("low", number("End below which one draw of twenty lies")),
        ("high", number("End above which one draw of twenty lies")),
        ("draws", whole("Draws that could run")),
        ("contributions", list("Constants that contribute most, the strongest first", contribution)),
    ];
    object("Where a figure lies as constants in doubt range", &keys, &[("value", number("The figure itself"))])
}

fn intervals() -> Value {
    by_name("By figure", reference("interval"))
}

fn precision() -> Value {
    let known = || {
        or_null(object(
            "A figure with 95 % confidence",
            &[("value_ns", number("Value")), ("half_width_ns", number("Half width of the interval"))],
            &[],
        ))
    };
    let keys = [
        ("wanted_share", share("Half width over value that was asked for")),
        ("reached", truth("Whether both are known so well")),
        ("confidence", share("Of the intervals")),
        ("mean", known()),
        ("p99", known()),
        ("warm_up_ios", whole_or_null("Requests left out")),
        ("batch_ios", whole_or_null("Requests of a batch")),
        ("why_unknown", text_or_null("Why nothing can be said")),
    ];
    object("How well mean and p99 are known", &keys, &[])
}

/// Mean times by stage, in order.
fn stages(time: &str) -> Value {
    let names: Vec<&str> = Stage::fixed().map(|(name, _)| name).collect();
    let stage = json!({
        "anyOf": [{ "enum": names }, { "type": "string" }],
        "description": "A stage of the ledger, or of the drive's software stack",
    });
    list("They sum to the latency", object("", &[("stage", stage), (time, number("Mean time in it"))], &[]))
}

fn run() -> Value {
    let fio_job = json!({
        "type": "object",
        "description": "As fio prints it; job options are texts",
        "required": ["jobname", "job options", "read", "write", "trim", "sync"],
    });
    json!({
        "type": "object",
        "description": "fio's shape, with what fio cannot know beside it",
        "properties": {
            "fio version": text("`phaselink-` and the version"),
            "jobs": list("The jobs, in fio's terms", fio_job),
            "phaselink": own_of_run(),
        },
        "required": ["fio version", "jobs", "phaselink"],
        "additionalProperties": false,
    })
}

fn own_of_run() -> Value {
    let energy = [
        ("server_w", number("Power of the server")),
        ("idle_w", number("Of the idle one")),
        ("joules_per_io", number("Of the server, for a request")),
        ("memory_joules_per_io", number("Of the memory")),
    ];
    let link = [("upstream", wire()), ("downstream", wire())];
    let keys = [
        ("drive", text("Name")),
        ("seed", seed()),
        ("finished", truth("Whether the jobs came to their end, or the precision was reached")),
        ("elapsed_ns", number("Simulated time")),
        ("events", whole("Events of the simulation")),
        ("jobs", list("The jobs, as the ledger has them", job_of_run())),
        ("link", object("Both directions; upstream is to the host", &link, &[])),
        ("cpu", processor()),
        ("energy", object("What it took", &energy, &[])),
        ("counters", by_name("What the drive counts", whole(""))),
        ("description", reference("description")),
    ];
    document(
        "run",
        "What only a model knows",
        &keys,
        &[("precision", reference("precision")), ("intervals", intervals())],
    )
}

fn job_of_run() -> Value {
    let keys = [
        ("name", text("Of the job")),
        ("iodepth", whole("Of each thread")),
        ("threads", whole("Of the job")),
        ("read", direction()),
        ("write", direction()),
    ];
    object("A job", &keys, &[("flush", direction())])
}

fn direction() -> Value {
    let percentiles = ["p1", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "p99_999"];
    let percentiles: Vec<(&str, Value)> =
        percentiles.into_iter().map(|name| (name, number_or_null("Null where no request lies beyond"))).collect();
    let latency = [
        ("min", number("Shortest")),
        ("max", number("Longest")),
        ("mean", number("Mean")),
        ("stddev", number("Standard deviation of the sample")),
        ("percentile", object("What a share does not exceed", &percentiles, &[])),
    ];
    let keys = [
        ("ios", whole("Requests")),
        ("runtime_ns", number("From the first to the last")),
        ("latency_ns", object("From the call to the return", &latency, &[])),
        ("stages", stages("mean_ns")),
        ("total_ns", number("Sum of the stages")),
    ];
    object("Reads or writes", &keys, &[])
}

fn wire() -> Value {
    let bytes = ["data_bytes", "command_bytes", "header_bytes", "dllp_bytes"].map(|key| (key, whole("On the wire")));
    let keys: Vec<(&str, Value)> = [("bytes_per_ns", number("Rate of the wire"))]
        .into_iter()
        .chain(bytes)
        .chain([
            ("packets", whole("Sent")),
            ("replays", whole("Sent again")),
            ("busy_ns", number("Time with anything on it")),
            ("busy_share", share("Of the simulated time")),
            ("payload_efficiency", share("User data of all bytes")),
        ])
        .collect();
    object("A direction of the link", &keys, &[])
}

fn processor() -> Value {
    let keys = [
        ("cores", whole("Of the host")),
        ("working_ns", number("Of all cores")),
        ("spinning_ns", number("Likewise")),
        ("switching_ns", number("Likewise")),
        ("interrupts", whole("Handled")),
        ("context_switches", whole("Made")),
        ("busy_cores", number("Cores that were busy, on average")),
        ("cores_per_gb_per_s", number("For 10^9 bytes a second")),
    ];
    object("Processor time", &keys, &[])
}

fn compare() -> Value {
    let keys = [
        ("seed", seed()),
        ("rw", text_or_null("fio's name for what is done; null where jobs differ")),
        ("options", texts("Options of the jobs besides their sizes")),
        ("set", texts("Overrides as typed")),
        ("cells", list("Each drive at each size", cell())),
        ("descriptions", list("The drives in their order", reference("description"))),
    ];
    document("compare", "Drives side by side", &keys, &[])
}

/// The figures of a drive at a size, or how long its queues are if they are too short for it.
fn cell() -> Value {
    let labels = [
        ("drive", text("Name")),
        ("bs", whole_or_null("Bytes of a request; null where they differ")),
        ("numjobs", whole("Threads")),
        ("iodepth", whole_or_null("Of each thread")),
        ("rw", text_or_null("fio's name for what is done")),
        ("acknowledged_write", text("What a write is that has been acknowledged")),
    ];
    let usage = [("resource", text("Name")), ("share", share("How busy it was; 1 is full"))];
    let figures = [
        ("ios", whole("Requests")),
        ("iops", number("Requests a second")),
        ("bytes_per_s", number("User data")),
        ("min_ns", number("Shortest latency")),
        ("mean_ns", number("Mean latency")),
        ("p50_ns", number_or_null("Percentile")),
        ("p90_ns", number_or_null("Percentile")),
        ("p99_ns", number_or_null("Percentile")),
        ("p99_9_ns", number_or_null("Percentile")),
        ("max_ns", number("Longest latency")),
        ("link_busy_share", share("Of the busier direction")),
        ("busy_cores", number("Cores that were busy, on average")),
        ("joules_per_io", number("Of the server, for a request")),
        ("joules_per_io_above_idle", number("Above that of the idle server")),
        ("memory_joules_per_io", number("Of the memory")),
        ("limit", text_or_null("Resource that keeps the drive from more; null where only latency does")),
        ("usage", list("Resources, the busiest first", object("", &usage, &[]))),
        ("stages", stages("mean_ns")),
    ];
    let whole_cell: Vec<(&str, Value)> = labels.iter().chain(&figures).cloned().collect();
    let short: Vec<(&str, Value)> =
        labels.iter().cloned().chain([("iodepth_max", whole("Requests that its queues hold"))]).collect();
    let others = [("precision", reference("precision")), ("intervals", intervals())];
    json!({ "oneOf": [object("What it did", &whole_cell, &others), object("Its queues are too short", &short, &[])] })
}

fn predict() -> Value {
    let keys = [
        ("drive", text("Name")),
        ("jobs", list("Each job alone", predicted_job())),
        ("description", reference("description")),
    ];
    let drive = object("The limits of a drive in closed form", &keys, &[("intervals", intervals())]);
    document("predict", "Closed forms of drives", &[("drives", list("In the order that was asked for", drive))], &[])
}

fn predicted_job() -> Value {
    let alone = [
        ("certainty", one_of("How sure it is", &["exact", "mean", "at_least"])),
        ("why", text_or_null("Why it is not exact")),
        ("stages", stages("ns")),
        ("total_ns", number("Sum of the stages")),
    ];
    let class = [
        ("op", one_of("Direction", &["read", "write"])),
        ("bytes", whole("Of a request")),
        ("share", share("Of the job's requests")),
        ("alone", or_null(object("Latency of a request alone", &alone, &[]))),
    ];
    let limit = [
        ("resource", text("Name")),
        ("servers", number("How many of it there are")),
        ("busy_ns", number("Of one, for a request")),
        ("iops_max", number("Requests a second that it lets through")),
        ("bytes_per_s_max", number("Likewise in bytes")),
    ];
    let loaded = [
        ("outstanding", number_or_null("Requests at a time")),
        ("iops_max", number("Most requests a second")),
        ("bytes_per_s_max", number("Likewise in bytes")),
        ("iops_balanced", number_or_null("As balanced queues would have it")),
        ("mean_ns_min", number_or_null("Least mean latency")),
    ];
    let keys = [
        ("name", text("Of the job")),
        ("iodepth", whole("Of each thread")),
        ("threads", whole("Of the job")),
        ("mean_bytes", number("Of a request")),
        ("classes", list("Its kinds of requests", object("", &class, &[]))),
        ("limits", list("The bottleneck first", object("", &limit, &[]))),
        ("bottleneck", text("The first of the limits")),
        ("saturation_depth", number_or_null("Requests at a time from which on it is full")),
        ("alone_ns", number_or_null("Mean latency of requests alone")),
        ("loaded", object("At the depth of the job", &loaded, &[])),
    ];
    object("A job", &keys, &[("flush", direction())])
}

/// A point: values of axes by their keys, the seed, figures by their names, and its hash.
fn row(more: Keys) -> Value {
    let figures = FIGURES.iter().map(|figure| (figure.name, number_or_null(figure.heading)));
    let hash =
        json!({ "type": "string", "pattern": "^[0-9a-f]{32}$", "description": "Of all that the run depends on" });
    let of_figures = by_name("By column", or_null(reference("interval")));
    let known = [("seed", seed()), ("hash", hash), ("intervals", of_figures)];
    let properties: Map<String, Value> = known
        .into_iter()
        .chain(figures)
        .chain(more.iter().cloned())
        .map(|(key, schema)| (String::from(key), schema))
        .collect();
    let required: Vec<&str> = ["seed", "hash"].into_iter().chain(more.iter().map(|(key, _)| *key)).collect();
    json!({
        "type": "object", "description": "A point; further keys are those of axes, as `link.lanes`",
        "properties": properties, "required": required,
        "additionalProperties": { "type": ["number", "string", "boolean"] },
    })
}

fn sweep() -> Value {
    let keys = [
        ("plan", text("File of the plan")),
        ("axes", texts("Keys that vary")),
        ("columns", texts("Figures of the plan")),
        ("points", whole("Of the whole plan")),
        ("rows", list("In the order of the plan, unless sorted", row(&[]))),
    ];
    document("sweep", "The points of a plan", &keys, &[])
}

fn search() -> Value {
    let more = [("cost", number("In `unit`")), ("meets", truth("Whether it meets the target"))];
    let keys = [
        ("target", texts("Bounds")),
        ("unit", text("What costs count")),
        ("points", whole("That can run")),
        ("ruled_out", whole("By closed forms")),
        ("slower", whole("Spared, being nowhere faster than one that misses")),
        ("dearer", whole("Spared, being no cheaper than one that meets")),
        ("best", or_null(row(&more))),
        ("rows", list("Those that have run", row(&more))),
    ];
    document("sweep", "The cheapest point of a plan that meets a target", &keys, &[])
}

fn fit() -> Value {
    let key = [
        ("key", text("Of the drive")),
        ("start", number("Value of the drive")),
        ("value", number("Value that fits")),
        ("low", number_or_null("End of the 90 % interval; null if it has none")),
        ("high", number_or_null("Likewise")),
        ("determined", truth("Whether the results tell it")),
    ];
    let figure = [
        ("job", text("Name")),
        ("figure", text("What was measured")),
        ("unit", one_of("Of both", &["1/s", "ns"])),
        ("measured", number("By fio")),
        ("fitted", number("Simulated with the values that fit")),
    ];
    let alike = [
        ("keys", texts("Of the drive")),
        ("ratio", number_or_null("How much the second of two counts beside the first")),
        ("known", truth("Whether each is known all the same")),
    ];
    let keys = [
        ("drive", text("Where the keys start")),
        ("model_error_share", share("By how much of each figure the model is taken to be off")),
        ("seed", seed()),
        ("keys", list("Those that were asked for", object("", &key, &[]))),
        ("figures", list("Measured and fitted", object("", &figure, &[]))),
        ("unseen", texts("Keys that move no figure")),
        ("not_told_apart", list("Keys that act alike", object("", &alike, &[]))),
        ("misfit_share", number_or_null("How far figures are off that should fit")),
        ("findings", texts("In sentences")),
        ("simulations", whole("That were run")),
    ];
    document("fit", "Values of keys from measured results", &keys, &[])
}

fn dma() -> Value {
    let question = [
        ("op", text("What transfers do")),
        ("window_bytes", whole("Part of host memory")),
        ("outstanding", whole("Transfers at a time, for bandwidth")),
        ("transfers", whole("For each figure")),
        ("direct", truth("Without the DMA engine")),
        ("cache", text_or_null("Where the host has what is read; null as the device says")),
        ("node", text_or_null("On which node memory is")),
        ("iommu", leaf(json!(["boolean", "null"]), "Whether addresses are translated")),
    ];
    let row = [
        ("bytes", whole("Of a transfer")),
        ("direction", one_of("Of data", &["read", "write"])),
        ("mean_ns", number("Of transfers one at a time")),
        ("p50_ns", number_or_null("Percentile")),
        ("p99_ns", number_or_null("Percentile")),
        ("p99_9_ns", number_or_null("Percentile")),
        ("max_ns", number("Longest")),
        ("bytes_per_s", number("Of many at a time")),
        ("transfers_per_s", number("Likewise")),
    ];
    let keys = [
        ("seed", seed()),
        ("device", text("Name")),
        ("question", object("What was asked", &question, &[])),
        ("rows", list("Each size and direction", object("", &row, &[]))),
        ("description", reference("description")),
    ];
    document("dma", "What it takes a device to read and write host memory", &keys, &[])
}

fn reproduce() -> Value {
    let rows = list("An object for each published result", reproduced());
    document("reproduce", "Published results beside simulated ones", &[("rows", rows)], &[])
}

fn reproduced() -> Value {
    let accepted = json!({
        "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2, "description": "Lowest and highest value that count",
    });
    let keys = [
        ("paper", text("Name of its folder")),
        ("id", text("Of the row")),
        ("quantity", text("In words")),
        ("unit", text("Of both values")),
        ("published", number("What is printed; 1 for a statement")),
        ("simulated", number_or_null("What comes out")),
        ("error_pct", number_or_null("100 (simulated - published) / |published|")),
        ("tolerance_pct", number("Largest error that counts as reproduced")),
        ("accepted", accepted),
        ("kind", one_of("What the row is", &["input", "number", "shape"])),
        ("verdict", one_of("How it came out", &["given", "reproduced", "off", "unexplained"])),
        ("fitted", whole("Fitted constants that move it")),
        ("fitted_keys", texts("Which they are")),
        ("depends_on", texts("Every constant in doubt that moves it")),
        ("interval", or_null(reference("interval"))),
        ("published_inside", leaf(json!(["boolean", "null"]), "Whether the published value lies in the interval")),
        ("reason", text("Why it is neither given nor reproduced")),
        ("source", text("Where it is printed")),
    ];
    object("A published result", &keys, &[])
}

fn trace_info() -> Value {
    let device = [("name", text("As the trace has it")), ("requests", whole("Of it"))];
    let size = [
        ("op", one_of("Direction", &["read", "write"])),
        ("bytes", whole("Of a request")),
        ("requests", whole("Of this size")),
    ];
    let percentile = [("percent", number("Of the requests")), ("bytes", whole_or_null("That they do not exceed"))];
    let left_out = [("kind", text("Of record")), ("records", whole("Of it"))];
    let footprint = [
        ("is_exact", truth("Whether every block was counted")),
        ("bytes", whole("Touched")),
        ("read_bytes", whole("Read")),
        ("written_bytes", whole("Written")),
        ("accesses_per_block", number("Mean")),
        ("once_share", share("Of blocks touched once")),
        ("busiest_tenth_share", share("Of accesses, to the busiest tenth of blocks")),
    ];
    let depth = [
        ("mean", number("Requests at a time")),
        ("most", whole_or_null("Likewise")),
        ("response_ns", number("Mean response time")),
    ];
    let keys = [
        ("file", text("Of the trace")),
        ("format", text("As --trace-format takes it")),
        ("devices", list("All that it has", object("", &device, &[]))),
        ("device", text_or_null("The one that is told of; null for all")),
        ("requests", whole("Reads and writes")),
        ("read_share", share("Of the requests")),
        ("read_bytes", whole("By requests")),
        ("written_bytes", whole("By requests")),
        ("seconds", number("From the first to the last")),
        ("requests_per_s", number_or_null("Mean")),
        ("busiest_second_requests", whole("In the busiest second")),
        ("sizes", list("By direction and size", object("", &size, &[]))),
        ("size_percentiles", list("Of sizes", object("", &percentile, &[]))),
        ("granule_bytes", whole("That divides all places and sizes")),
        ("aligned_4k_share", share("Of requests that begin and end at 4 KiB")),
        ("sequential_share", share("Of requests that begin where the one before ends")),
        ("end_bytes", whole("The last place that is touched")),
        ("footprint", object("What is touched", &footprint, &[])),
        ("queue_depth", or_null(object("If the trace has times of completion", &depth, &[]))),
        ("left_out", list("Records that are no reads or writes", object("", &left_out, &[]))),
        ("command", text("That replays it")),
        ("notes", texts("On the command")),
    ];
    document("trace-info", "What a block trace holds", &keys, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(String::from));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_to_a_definition() {
        let schema = schema();
        let mut found = Vec::new();
        references(&schema, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let place = reference.trim_start_matches('#');
            assert!(schema.pointer(place).is_some(), "{reference}");
        }
    }

    #[test]
    fn a_row_has_every_figure() {
        let row = &schema()["definitions"]["sweep"]["properties"]["rows"]["items"]["properties"];
        assert!(FIGURES.iter().all(|figure| row[figure.name]["type"] == json!(["number", "null"])));
    }
}
