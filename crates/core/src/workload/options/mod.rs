//! Table of all options of a job, for job files and for flags.
//!
//! An option either sets something, or is accepted because a simulated drive makes it void, or is accepted with the one
//! value that requests nothing unsupported. All other options are refused by name: a result that ignored an option
//! would answer another question.

use super::draft::{BLOCK_BYTES_DEFAULT, JobDraft};
use super::trace::Format;
use super::values;
use super::{AddressPattern, RateProcess};
use crate::number::real;
use crate::problem::Problem;
use crate::spelling;
use crate::time::Span;

/// Option of fio that jobs may use, with its allowed values and its effect.
#[derive(Debug)]
pub struct JobOption {
    /// Names of the option: first fio's usual name, then other names for it.
    pub names: &'static [&'static str],
    /// Allowed values of the option, as the end of the message "allowed: …".
    pub allowed: &'static str,
    kind: OptionValues,
}

/// Function that sets an option in a job section from the option's text; returns none if the text is not a value of the
/// option.
type OptionSetter = fn(&mut JobDraft, &str) -> Option<()>;

/// Values that a job option accepts, and its effect.
#[derive(Debug)]
enum OptionValues {
    /// Option that must have a value, and sets it with this function.
    Value(OptionSetter),
    /// Option that is on or off, and is on if it is given without a value.
    Switch(OptionSetter),
    /// Option that is accepted with these values only, and changes nothing.
    Only(&'static [&'static str]),
    /// Option that is accepted with any value, since a simulated drive has nothing that it could change.
    NoEffect,
}

const fn value(names: &'static [&'static str], allowed: &'static str, set: OptionSetter) -> JobOption {
    JobOption { names, allowed, kind: OptionValues::Value(set) }
}

const fn switch(names: &'static [&'static str], set: OptionSetter) -> JobOption {
    JobOption { names, allowed: "0 or 1", kind: OptionValues::Switch(set) }
}

const fn only(names: &'static [&'static str], values: &'static [&'static str], allowed: &'static str) -> JobOption {
    JobOption { names, allowed, kind: OptionValues::Only(values) }
}

const fn no_effect(names: &'static [&'static str]) -> JobOption {
    JobOption { names, allowed: "any value; it has no effect", kind: OptionValues::NoEffect }
}

const BYTES: &str = "bytes with a suffix, such as 10g, zones, such as 4z, or a percentage from 1% to 100%";
const SECONDS: &str = "a whole number with us, ms, s (the default), m, h or d, less than 213 days";
const MICROSECONDS: &str = "a whole number with us (the default), ms, s, m, h or d, less than 213 days";
const WHOLE: &str = "a whole number from 0 to 4294967295";
const ON: &[&str] = &["1"];
const OFF: &[&str] = &["0"];

/// All options that jobs may use, in the order of fio's documentation.
pub const OPTIONS: &[JobOption] = &[
    value(&["name"], "a name", set_name),
    value(&["numjobs"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.threads = n)),
    value(&["runtime", "timeout"], SECONDS, |d, v| {
        values::time(v, Span::from_s(1)).map(|t| d.job.runtime = Some(t).filter(|t| !t.is_zero()))
    }),
    switch(&["time_based"], |d, v| values::switch(v).map(|on| d.job.time_based = on)),
    switch(&["burst"], |d, v| values::switch(v).map(|on| d.job.steady = Some(!on))),
    value(&["ramp_time"], SECONDS, |d, v| values::time(v, Span::from_s(1)).map(|t| d.job.ramp_time = t)),
    value(&["rw", "readwrite"], "read, write, rw, readwrite, randread, randwrite or randrw", set_rw),
    value(&["offset", "fileoffset"], BYTES, |d, v| values::amount(v).map(|a| d.offset = a)),
    value(&["number_ios"], "a whole number", |d, v| values::whole(v).map(|n| d.job.ios = Some(n).filter(|&n| n > 0))),
    value(&["rwmixread"], "0 to 100", |d, v| values::percent(v).map(|p| d.mix_read_percent = p)),
    value(&["rwmixwrite"], "0 to 100", |d, v| values::percent(v).map(|p| d.mix_read_percent = 100 - p)),
    value(
        &["random_distribution"],
        "random, zipf:THETA (above 0, to 100), pareto:H (between 0 and 1) or normal:DEVIATION (0 to below 100, in per cent)",
        |d, v| values::distribution(v).map(|distribution| d.job.distribution = distribution),
    ),
    value(&["bs", "blocksize"], "bytes, such as 4k, or 4k,8k for reads and writes", set_block_bytes),
    value(
        &["bssplit"],
        "sizes with whole percentages that add up to 100, such as 4k/60:8k/40, or 4k/60:8k/ to share the rest; reads and writes separated by a comma",
        |d, v| values::parse_per_direction(v, values::parse_block_split).map(|splits| d.block_splits = splits),
    ),
    value(&["size"], BYTES, |d, v| values::amount(v).map(|a| d.size = Some(a))),
    value(&["io_size", "io_limit"], BYTES, |d, v| values::amount(v).map(|a| d.io_size = Some(a))),
    value(&["iodepth"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.iodepth = n)),
    value(&["thinktime"], MICROSECONDS, |d, v| values::time(v, Span::from_us(1)).map(|t| d.job.thinktime = t)),
    value(&["thinktime_blocks"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.thinktime_blocks = n)),
    // This option extends fio, whose requests cannot depend on each other.
    value(&["query_rounds"], "a whole number of rounds of iodepth reads, up to 10000", |d, v| {
        values::parse_u32_quantity(v).filter(|rounds| *rounds <= 10_000).map(|n| d.job.query_rounds = n)
    }),
    // This option extends fio, which does not model clients that share a thread.
    value(&["group_commit"], "a whole number of clients, up to 65536", |d, v| {
        values::parse_u32_quantity(v).filter(|clients| *clients <= 65_536).map(|n| d.job.group_commit = n)
    }),
    // These three options extend fio: writes that replace whole objects, and the choice between append and write in a
    // zone.
    value(&["object_size"], "bytes with a suffix, up to 1g, which writes replace as a whole", |d, v| {
        values::whole(v).filter(|bytes| (1..=1 << 30).contains(bytes)).map(|bytes| d.job.object_bytes = bytes)
    }),
    switch(&["object_trim"], |d, v| values::switch(v).map(|on| d.job.object_trim = on)),
    switch(&["zone_append"], |d, v| values::switch(v).map(|on| d.job.zone_append = on)),
    value(&["rate_iops"], "requests a second, 1 or more, such as 5k, or 5k,1k for reads and writes", set_rate_iops),
    value(&["rate_process"], "linear or poisson", set_rate_process),
    value(&["read_iolog"], "the path of one trace, of a format of docs/traces.md, without `:`", |d, v| {
        (!v.contains(':')).then(|| d.read_iolog = Some(v.into()))
    }),
    // These two options extend fio, whose iologs contain one device each.
    value(&["trace_device"], "a device, as the trace names it", |d, v| {
        d.selection.device = Some(v.into());
        Some(())
    }),
    value(&["trace_format"], "blkparse, blktrace, iolog2, iolog3, msr, alibaba, tencent, systor or vscsi", |d, v| {
        Format::named(v).map(|format| d.selection.format = Some(format))
    }),
    value(&["replay_time_scale"], "a rate in per cent of the recorded one, from 1 to 1000000", |d, v| {
        values::parse_u32_quantity(v)
            .filter(|percent| (1..=1_000_000).contains(percent))
            .map(|n| d.job.replay_percent = n)
    }),
    switch(&["replay_no_stall"], |d, v| values::switch(v).map(|on| d.job.replay_no_stall = on)),
    value(
        &["ioengine"],
        "libaio, io_uring, io_uring_cmd, posixaio, null, spdk or external:PATH; sync, psync, vsync, pvsync or pvsync2 with iodepth=1. \
         What an engine costs the host, and which ones it knows, is in its stack",
        set_engine,
    ),
    value(&["filename"], "one device, without `:`", |d, v| (!v.contains(':')).then(|| d.filename = Some(v.into()))),
    only(&["direct"], ON, "direct=1: there is no page cache"),
    only(&["buffered"], OFF, "buffered=0: there is no page cache"),
    only(&["kb_base"], &["1024"], "kb_base=1024"),
    only(&["norandommap"], ON, "norandommap=1: random offsets are drawn without a map of past ones"),
    only(&["random_generator"], &["tausworthe", "tausworthe64"], "tausworthe or tausworthe64: offsets may come again"),
    switch(&["stonewall", "wait_for_previous"], |d, v| values::switch(v).map(|on| d.job.waits_for_previous = on)),
    only(&["exitall"], OFF, "exitall=0: every job runs to its own end"),
    only(&["loops"], ON, "loops=1; to do more I/O, use io_size"),
    value(&["startdelay"], SECONDS, |d, v| values::time(v, Span::from_s(1)).map(|t| d.job.start_delay = t)),
    only(&["nrfiles"], ON, "nrfiles=1: jobs run against the drive itself"),
    only(&["percentage_random"], &["100"], "percentage_random=100; use a second job for the sequential part"),
    only(&["zonemode"], &["none"], "zonemode=none: the drive has no zones"),
    value(&["iodepth_batch", "iodepth_batch_submit"], WHOLE, |d, v| {
        values::parse_u32_quantity(v).map(|n| d.job.batch.submit = Some(n))
    }),
    value(&["iodepth_batch_complete_min", "iodepth_batch_complete"], WHOLE, |d, v| {
        values::parse_u32_quantity(v).map(|n| d.job.batch.complete_min = n)
    }),
    value(&["iodepth_batch_complete_max"], WHOLE, |d, v| {
        values::parse_u32_quantity(v).map(|n| d.job.batch.complete_max = Some(n))
    }),
    value(&["iodepth_low"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.batch.low = n)),
    switch(&["hipri"], |d, v| values::switch(v).map(|on| d.job.engine_choice.switches.hipri = on)),
    switch(&["sqthread_poll"], |d, v| values::switch(v).map(|on| d.job.engine_choice.switches.sqthread_poll = on)),
    value(&["sqthread_poll_cpu"], WHOLE, |d, v| {
        values::parse_u32_quantity(v).map(|n| d.job.engine_choice.poller_cpu = Some(n))
    }),
    switch(&["fixedbufs"], |d, v| values::switch(v).map(|on| d.job.engine_choice.switches.fixedbufs = on)),
    switch(&["registerfiles"], |d, v| values::switch(v).map(|on| d.job.engine_choice.switches.registerfiles = on)),
    switch(&["nonvectored"], |d, v| values::switch(v).map(|on| d.job.engine_choice.switches.nonvectored = on)),
    switch(&["fdp"], |d, v| values::switch(v).map(|on| d.places_data = on)),
    value(&["dataplacement"], "none or fdp; streams are not modelled", |d, v| {
        d.places_data = match v {
            "none" => false,
            "fdp" => true,
            _ => return None,
        };
        Some(())
    }),
    value(&["plids", "fdp_pli"], "places of placement identifiers in the drive's list, such as 0,2-4", |d, v| {
        values::places(v).map(|places| d.handles.places = places)
    }),
    value(&["plid_select", "fdp_pli_select"], "roundrobin or random", |d, v| {
        d.handles.is_random = match v {
            "roundrobin" => false,
            "random" => true,
            _ => return None,
        };
        Some(())
    }),
    only(&["force_async"], OFF, "force_async=0: requests are issued where they are submitted"),
    only(&["cmdprio_percentage"], OFF, "cmdprio_percentage=0: a drive's queues have no priorities"),
    only(&["io_submit_mode"], &["inline"], "io_submit_mode=inline"),
    only(&["thinktime_blocks_type"], &["complete"], "thinktime_blocks_type=complete"),
    only(&["thinktime_spin"], OFF, "thinktime_spin=0: the thread sleeps while it thinks"),
    only(&["rate_ignore_thinktime"], OFF, "rate_ignore_thinktime=0"),
    value(&["fsync"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.flushes.fsync = n)),
    value(&["fdatasync"], WHOLE, |d, v| values::parse_u32_quantity(v).map(|n| d.job.flushes.fdatasync = n)),
    switch(&["end_fsync"], |d, v| values::switch(v).map(|on| d.job.flushes.at_end = on)),
    only(&["fsync_on_close"], OFF, "fsync_on_close=0; a job on the drive itself closes it at its end: end_fsync=1"),
    only(&["sync"], &["0", "none"], "sync=none: forced writes are not modelled"),
    only(&["pre_read"], OFF, "pre_read=0: there is no page cache"),
    only(&["create_only"], OFF, "create_only=0"),
    only(&["bs_is_seq_rand"], OFF, "bs_is_seq_rand=0"),
    only(&["blocksize_unaligned", "bs_unaligned"], OFF, "bs_unaligned=0"),
    no_effect(&["description"]),
    no_effect(&["group_reporting"]),
    no_effect(&["new_group"]),
    no_effect(&["thread"]),
    no_effect(&["randrepeat"]),
    no_effect(&["allrandrepeat"]),
    no_effect(&["softrandommap"]),
    no_effect(&["clocksource"]),
    no_effect(&["gtod_reduce"]),
    no_effect(&["gtod_cpu"]),
    no_effect(&["disable_lat"]),
    no_effect(&["disable_clat"]),
    no_effect(&["disable_slat"]),
    no_effect(&["disable_bw_measurement", "disable_bw"]),
    no_effect(&["lat_percentiles"]),
    no_effect(&["clat_percentiles"]),
    no_effect(&["slat_percentiles"]),
    no_effect(&["percentile_list"]),
    no_effect(&["significant_figures"]),
    no_effect(&["unit_base"]),
    no_effect(&["disk_util"]),
    no_effect(&["invalidate"]),
    no_effect(&["fadvise_hint", "fadvise"]),
    no_effect(&["fallocate"]),
    no_effect(&["overwrite"]),
    no_effect(&["unlink"]),
    no_effect(&["create_serialize"]),
    no_effect(&["create_fsync"]),
    no_effect(&["create_on_open"]),
    no_effect(&["allow_file_create"]),
    no_effect(&["allow_mounted_write"]),
    no_effect(&["mem", "iomem"]),
    no_effect(&["mem_align", "iomem_align"]),
    no_effect(&["hugepage-size"]),
    no_effect(&["lockmem"]),
    no_effect(&["refill_buffers"]),
    no_effect(&["scramble_buffers"]),
];

/// Options of fio that are not modelled, in groups; the first text of each group says what to do instead.
const REFUSED: &[(&str, &[&str])] = &[
    ("rate_iops, in requests a second", &["rate", "rate_min", "rate_iops_min", "rate_cycle", "ratemin", "ratecycle"]),
    ("bs for one size, or bssplit for several with their shares", &["bsrange", "blocksize_range", "blockalign", "ba"]),
    (
        "one job for each region, with offset and size",
        &["offset_increment", "offset_align", "zonesize", "zonerange", "zoneskip"],
    ),
    ("leave it out: the run's own seed chooses all random numbers", &["randseed"]),
    (
        "leave it out: jobs run against the drive itself",
        &[
            "directory",
            "opendir",
            "filesize",
            "file_append",
            "fill_device",
            "fill_fs",
            "openfiles",
            "file_service_type",
            "lockfile",
            "filename_format",
            "unlink_each_loop",
        ],
    ),
    (
        "leave it out: cores and their clock are given in the drive file",
        &[
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "prio",
            "prioclass",
            "cgroup",
            "cgroup_weight",
            "ioscheduler",
        ],
    ),
    (
        "leave it out: how a thread waits and submits is said by the stack, ioengine, hipri and iodepth_batch",
        &["userspace_reap", "serialize_overlap", "hipri_percentage", "sqthread_idle"],
    ),
    (
        "leave it out: the data are chosen by the run, which verifies every read if it carries data",
        &[
            "verify",
            "do_verify",
            "verify_only",
            "verify_pattern",
            "verify_fatal",
            "verify_backlog",
            "verify_async",
            "verify_interval",
            "buffer_pattern",
            "zero_buffers",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
        ],
    ),
    (
        "leave it out: results are written as the program's own options say",
        &[
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "write_iolog",
            "log_avg_msec",
            "log_hist_msec",
            "per_job_logs",
            "stats",
            "unified_rw_reporting",
        ],
    ),
    (
        "leave it out: a trace is replayed as it is",
        &[
            "replay_redirect",
            "replay_scale",
            "replay_align",
            "replay_skip",
            "merge_blktrace_file",
            "read_iolog_chunked",
        ],
    ),
    (
        "leave it out: a job ends by runtime, number_ios or io_size",
        &[
            "latency_target",
            "latency_window",
            "latency_percentile",
            "max_latency",
            "steadystate",
            "steadystate_duration",
            "exit_what",
            "exitall_on_error",
            "continue_on_error",
        ],
    ),
    ("thinktime with thinktime_blocks", &["thinktime_iotime"]),
    ("stonewall, or startdelay", &["wait_for"]),
    ("leave it out: every job runs at its own pace", &["flow", "flow_id", "flow_sleep"]),
    (
        "rw with read and write; trims and barriers are not modelled",
        &["trim_percentage", "write_barrier", "sync_file_range", "rw_sequencer"],
    ),
    ("leave it out: nothing is executed", &["exec_prerun", "exec_postrun", "profile"]),
];

/// Returns the option that has this name, or this as another name.
pub fn find(name: &str) -> Option<&'static JobOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

/// Sets option `name` of a job section; `text` is none if the option was given without a value. `line` is the number of
/// its line, for messages.
pub(super) fn set(draft: &mut JobDraft, name: &str, text: Option<&str>, line: Option<usize>) -> Result<(), Problem> {
    let file = draft.place.file.clone();
    let Some(option) = find(name) else {
        let (found, allowed) = option_refusal_text(name);
        return Err(Problem::new(file, line, found, allowed));
    };
    draft.place.note(option.names[0], line);
    if matches!(option.kind, OptionValues::Value(_)) {
        draft.given.push(option.names[0]);
    }
    match apply(option, draft, text) {
        Some(()) => Ok(()),
        None => {
            let found = text.map_or(format!("`{name}` without a value"), |text| format!("`{name}={text}`"));
            Err(Problem::new(file, line, found, option.allowed))
        }
    }
}

fn apply(option: &JobOption, draft: &mut JobDraft, text: Option<&str>) -> Option<()> {
    match option.kind {
        OptionValues::Value(set) => set(draft, text.filter(|text| !text.is_empty())?),
        OptionValues::Switch(set) => set(draft, text.unwrap_or("1")),
        OptionValues::Only(values) => values.contains(&text.unwrap_or("1")).then_some(()),
        OptionValues::NoEffect => Some(()),
    }
}

/// Returns the text of the error for an unsupported or unknown option name: what was found, and what to use instead or
/// which options exist.
fn option_refusal_text(name: &str) -> (String, &'static str) {
    if let Some((instead, _)) = REFUSED.iter().find(|(_, names)| names.contains(&name)) {
        return (format!("`{name}` is not modelled"), instead);
    }
    let meant = spelling::nearest(name, OPTIONS.iter().flat_map(|option| option.names).copied());
    let allowed = if meant.is_some() { "" } else { "the options listed in docs/fio.md" };
    (format!("unknown option `{name}`{}", spelling::question(meant)), allowed)
}

fn set_name(draft: &mut JobDraft, text: &str) -> Option<()> {
    draft.job.name = text.into();
    Some(())
}

fn set_rw(draft: &mut JobDraft, text: &str) -> Option<()> {
    use AddressPattern::{Random, Sequential};
    (draft.job.pattern, draft.reads, draft.writes) = match text {
        "read" => (Sequential, true, false),
        "write" => (Sequential, false, true),
        "rw" | "readwrite" => (Sequential, true, true),
        "randread" => (Random, true, false),
        "randwrite" => (Random, false, true),
        "randrw" => (Random, true, true),
        _ => return None,
    };
    Some(())
}

/// Sets the block sizes of reads and of writes; the one that the text leaves out gets fio's default.
fn set_block_bytes(draft: &mut JobDraft, text: &str) -> Option<()> {
    let read = |text: &str| values::parse_u32_quantity(text).filter(|&bytes| bytes > 0);
    draft.block_bytes = values::parse_per_direction(text, read)?.map(|bytes| bytes.unwrap_or(BLOCK_BYTES_DEFAULT));
    Some(())
}

fn set_rate_iops(draft: &mut JobDraft, text: &str) -> Option<()> {
    let read = |text: &str| values::whole(text).filter(|&rate| rate > 0).map(real);
    [draft.job.rate_iops_read, draft.job.rate_iops_write] = values::parse_per_direction(text, read)?;
    Some(())
}

fn set_rate_process(draft: &mut JobDraft, text: &str) -> Option<()> {
    draft.job.rate_process = match text {
        "linear" => RateProcess::Linear,
        "poisson" => RateProcess::Poisson,
        _ => return None,
    };
    Some(())
}

fn set_engine(draft: &mut JobDraft, text: &str) -> Option<()> {
    let waits = ["sync", "psync", "vsync", "pvsync", "pvsync2"].contains(&text);
    let queues = ["libaio", "io_uring", "io_uring_cmd", "posixaio", "null", "spdk", "spdk_bdev"].contains(&text);
    draft.synchronous_engine = waits.then(|| text.into());
    draft.job.engine_choice.engine = Some(text.into());
    (waits || queues || text.starts_with("external:")).then_some(())
}

#[cfg(test)]
mod tests;
