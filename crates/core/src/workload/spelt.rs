//! Conversion of a job back into fio's options, for results that fio's own tools read.

use super::{Batch, BlockShare, Distribution, Job, RateProcess};
use crate::time::Span;

impl Job {
    /// Returns the options that make this job, with their values, as fio 3.33 prints them in `job options`. Options
    /// with fio's default value are left out, and so is the name of a replayed trace.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("name", self.name.clone())];
        options.extend(self.rw().map(|rw| ("rw", String::from(rw))));
        options.extend(self.trace.is_none().then(|| self.blocks()));
        options.extend([("iodepth", self.iodepth.to_string()), ("numjobs", self.threads.to_string())]);
        options.extend(self.region_options());
        options.extend(self.end_options());
        options.extend(self.rate_options());
        options.extend(self.io_engine_options());
        options.extend(self.flushes.named().map(|(name, value)| (name, value.to_string())));
        options
    }

    /// Returns the option of the block sizes: `bs` with one size, or one for reads and one for writes; `bssplit` with
    /// the shares of several.
    fn blocks(&self) -> (&'static str, String) {
        let (reads, writes) = (&self.read_blocks, &self.write_blocks);
        match (&reads[..], &writes[..]) {
            ([read], [write]) if read == write => ("bs", bytes(read.bytes.into())),
            ([read], [write]) => ("bs", format!("{},{}", bytes(read.bytes.into()), bytes(write.bytes.into()))),
            _ if reads == writes => ("bssplit", split(reads)),
            _ => ("bssplit", format!("{},{}", split(reads), split(writes))),
        }
    }

    /// Returns the options of the share of reads, the distribution of addresses and the region.
    fn region_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        let mixed = self.read_percent > 0.0 && self.read_percent < 100.0;
        let mixed = (mixed && self.trace.is_none()).then(|| ("rwmixread", self.read_percent.to_string()));
        let distribution = match self.distribution {
            Distribution::Uniform => None,
            Distribution::Zipf(theta) => Some(format!("zipf:{theta}")),
            Distribution::Pareto(power) => Some(format!("pareto:{power}")),
            Distribution::Normal(percent) => Some(format!("normal:{percent}")),
        };
        let offset = (self.offset > 0).then(|| ("offset", bytes(self.offset)));
        let size = self.size.map(|size| ("size", bytes(size)));
        [mixed, distribution.map(|it| ("random_distribution", it)), offset, size].into_iter().flatten()
    }

    /// Returns the options of the job's start and end, ramp and steady state.
    fn end_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        let io_size = self.io_bytes.filter(|io_bytes| Some(*io_bytes) != self.size);
        let long = |name, span: Span| (!span.is_zero()).then(|| (name, time(span)));
        [
            self.waits_for_previous.then(|| ("stonewall", String::from("1"))),
            long("startdelay", self.start_delay),
            io_size.map(|size| ("io_size", bytes(size))),
            self.ios.map(|ios| ("number_ios", ios.to_string())),
            self.runtime.map(|runtime| ("runtime", time(runtime))),
            self.time_based.then(|| ("time_based", String::from("1"))),
            long("ramp_time", self.ramp_time),
            (self.steady == Some(false)).then(|| ("burst", String::from("1"))),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns the options of the job's rate: think time, queries, group commit, requests per second and replay speed.
    fn rate_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        let thinks = !self.thinktime.is_zero();
        let rate = match (self.rate_iops_read, self.rate_iops_write) {
            (None, None) => None,
            (read, write) if read == write => read.map(|rate| rate.to_string()),
            (read, write) => Some([read, write].map(|rate| rate.map_or(String::new(), |it| it.to_string())).join(",")),
        };
        let scale = (self.replay_percent != 100).then(|| ("replay_time_scale", self.replay_percent.to_string()));
        let poisson = rate.is_some() && self.rate_process == RateProcess::Poisson;
        [
            thinks.then(|| ("thinktime", time(self.thinktime))),
            (thinks && self.thinktime_blocks > 1).then(|| ("thinktime_blocks", self.thinktime_blocks.to_string())),
            (self.query_rounds > 0).then(|| ("query_rounds", self.query_rounds.to_string())),
            (self.group_commit > 0).then(|| ("group_commit", self.group_commit.to_string())),
            rate.map(|rate| ("rate_iops", rate)),
            poisson.then(|| ("rate_process", String::from("poisson"))),
            scale,
            self.replay_no_stall.then(|| ("replay_no_stall", String::from("1"))),
        ]
        .into_iter()
        .flatten()
    }
}

impl Job {
    /// Returns the options of the job's I/O engine and of its batch sizes.
    fn io_engine_options(&self) -> Vec<(&'static str, String)> {
        let (choice, batch, usual) = (&self.engine_choice, &self.batch, Batch::default());
        let switches = [
            ("hipri", choice.switches.hipri),
            ("fixedbufs", choice.switches.fixedbufs),
            ("registerfiles", choice.switches.registerfiles),
            ("nonvectored", choice.switches.nonvectored),
            ("sqthread_poll", choice.switches.sqthread_poll),
        ];
        let numbers = [
            ("sqthread_poll_cpu", choice.poller_cpu),
            ("iodepth_batch_submit", batch.submit),
            ("iodepth_batch_complete_min", (batch.complete_min != usual.complete_min).then_some(batch.complete_min)),
            ("iodepth_batch_complete_max", batch.complete_max),
            ("iodepth_low", (batch.low != usual.low).then_some(batch.low)),
        ];
        let engine = choice.engine.iter().map(|engine| ("ioengine", engine.clone()));
        let switches = switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| (name, String::from("1")));
        let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())));
        engine.chain(switches).chain(numbers).collect()
    }
}

/// Formats a number of bytes in the largest unit of base 1024 that divides it, such as `4k`.
fn bytes(bytes: u64) -> String {
    let units = [("t", 40), ("g", 30), ("m", 20), ("k", 10)];
    let unit = units.into_iter().find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    unit.map_or_else(|| bytes.to_string(), |(name, bits)| format!("{}{name}", bytes >> bits))
}

/// Formats block sizes with their shares in per cent, such as `4k/60:8k/40`.
fn split(blocks: &[BlockShare]) -> String {
    let share = |block: &BlockShare| format!("{}/{}", bytes(block.bytes.into()), block.percent);
    blocks.iter().map(share).collect::<Vec<_>>().join(":")
}

/// Formats a time in microseconds, rounded up, because fio has no smaller unit.
fn time(span: Span) -> String {
    format!("{}us", span.as_ps().div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use crate::drive::Drive;
    use crate::workload::{Job, fio};

    fn job(options: &[(&str, &str)]) -> Job {
        let limits = Drive::shipped("nvme").unwrap().limits();
        fio::job_from_flags(options).unwrap().resolve(&limits, &Default::default()).unwrap().remove(0)
    }

    #[test]
    fn job_reads_back_from_its_printed_options() {
        for options in [
            &[("rw", "randread"), ("bs", "4k"), ("number_ios", "100")][..],
            &[("rw", "randrw"), ("rwmixread", "70"), ("bs", "4k,512"), ("size", "64m"), ("offset", "1m")],
            &[
                ("rw", "write"),
                ("bssplit", "4k/60:8k/40"),
                ("runtime", "10ms"),
                ("time_based", "1"),
                ("ramp_time", "1ms"),
                ("startdelay", "3ms"),
                ("stonewall", "1"),
            ],
            &[
                ("rw", "randread"),
                ("random_distribution", "zipf:1.2"),
                ("iodepth", "8"),
                ("numjobs", "3"),
                ("io_size", "1g"),
            ],
            &[("rw", "rw"), ("rate_iops", "5k,1k"), ("rate_process", "poisson"), ("number_ios", "7")],
            &[("rw", "randread"), ("iodepth", "4"), ("query_rounds", "15"), ("thinktime", "9us"), ("number_ios", "60")],
            &[("rw", "write"), ("group_commit", "9"), ("fsync", "1"), ("thinktime", "9us"), ("number_ios", "60")],
            &[("rw", "read"), ("thinktime", "20us"), ("thinktime_blocks", "4"), ("iodepth", "4"), ("number_ios", "7")],
        ] {
            let job = job(options);
            let own = job.options();
            let again: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(self::job(&again), job, "{own:?}");
        }
    }

    #[test]
    fn engine_and_batch_are_among_printed_options() {
        let mut job = job(&[("number_ios", "1")]);
        job.engine_choice.engine = Some(String::from("io_uring"));
        job.engine_choice.switches.hipri = true;
        job.batch.submit = Some(8);
        let own = job.options();
        let own: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(own[own.len() - 3..], [("ioengine", "io_uring"), ("hipri", "1"), ("iodepth_batch_submit", "8")]);
    }

    #[test]
    fn sizes_are_printed_with_unit_suffixes() {
        let spelt = [512u64, 4096, 1 << 20, 1536, 3 << 30].map(super::bytes);
        assert_eq!(spelt, ["512", "4k", "1m", "1536", "3g"]);
    }
}
