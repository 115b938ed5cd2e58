//! Defaults of a job that is given option by option on a command line, and not as a fio job file.

/// Number of requests of a job for which no end is given, as a value of `number_ios`.
const NUMBER_IOS_DEFAULT: &str = "100000";
/// Queue depth of a replay for which none is given, as a value of `iodepth`.
const REPLAY_IODEPTH_DEFAULT: &str = "32";
/// Value of `io_size` larger than any drive, with which only the other limits end a job.
const ENDLESS: &str = "1024p";
/// Number of bytes of the `io_size` [`ENDLESS`].
pub(super) const ENDLESS_BYTES: u64 = 1 << 60;
/// Names of the options that end a job.
const ENDS: [&str; 7] = ["number_ios", "size", "io_size", "io_limit", "runtime", "timeout", "read_iolog"];

/// True if one of the given options ends the job: a size, a number of requests, a time or a trace. A size of 0 does not
/// count: it means the whole drive, which takes too long to wait for.
pub fn has_end(given: &[(&str, &str)]) -> bool {
    given.iter().any(|(name, value)| ENDS.contains(name) && !(*name == "size" && *value == "0"))
}

/// Adds defaults to the given options: random reads of 4 KiB at queue depth 1, and 100000 requests if no end is given.
/// A given number of requests or run time becomes the only end of the job.
pub fn add_default_options<'a>(given: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let has = |names: &[&str]| given.iter().any(|(name, _)| names.contains(name));
    let replays = has(&["read_iolog"]);
    let mut options = Vec::new();
    if !replays && !has(&["rw", "readwrite"]) {
        options.push(("rw", "randread"));
    }
    if !replays && !has(&["bs", "blocksize", "bssplit"]) {
        options.push(("bs", "4k"));
    }
    if !has(&["iodepth"]) {
        options.push(("iodepth", if replays { REPLAY_IODEPTH_DEFAULT } else { "1" }));
    }
    options.extend(given);
    if !has_end(given) {
        options.push(("number_ios", NUMBER_IOS_DEFAULT));
    } else if has(&["number_ios"]) && !has(&["size", "io_size", "io_limit"]) {
        options.push(("io_size", ENDLESS));
    } else if has(&["runtime", "timeout"]) && !has(&["size", "io_size", "io_limit", "time_based", "read_iolog"]) {
        options.push(("time_based", "1"));
    }
    options
}

/// Returns options as text, `name=value` separated by blanks. The `io_size` that `add_default_options` adds to leave a job
/// one end is left out.
pub fn option_words<'a>(options: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let told = options.filter(|option| *option != ("io_size", ENDLESS));
    told.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelt(given: &[(&str, &str)]) -> String {
        let options = add_default_options(given);
        options.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn default_job_is_100000_random_4_kib_reads_at_depth_1() {
        assert_eq!(spelt(&[]), "rw=randread bs=4k iodepth=1 number_ios=100000");
    }

    #[test]
    fn given_end_replaces_the_default_end() {
        assert_eq!(spelt(&[("number_ios", "5")]), "rw=randread bs=4k iodepth=1 number_ios=5 io_size=1024p");
        let options = add_default_options(&[("number_ios", "5")]);
        assert_eq!(option_words(options.into_iter()), "rw=randread bs=4k iodepth=1 number_ios=5");
        assert_eq!(spelt(&[("runtime", "1s")]), "rw=randread bs=4k iodepth=1 runtime=1s time_based=1");
        assert_eq!(spelt(&[("size", "1m")]), "rw=randread bs=4k iodepth=1 size=1m");
    }

    #[test]
    fn replay_takes_requests_and_end_from_its_trace() {
        assert_eq!(spelt(&[("read_iolog", "x")]), "iodepth=32 read_iolog=x");
    }
}
