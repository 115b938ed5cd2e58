//! What the laws are tried on.

use std::fmt;
use std::sync::OnceLock;

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::problem::Problems;
use phaselink_core::random::Random;
use phaselink_core::torture::draw::{draw_optional, one_of};
use phaselink_core::workload::{Job, fio};

use super::parts::{self, Part};

/// Bytes and requests of a run, before a finding is looked at more closely.
const RUN_BYTES: u64 = 8 << 20;
const RUN_IOS: u64 = 1500;
/// Bytes that a job has outstanding at most, so that a run has many times as much.
const OUTSTANDING_BYTES: u32 = 1 << 20;

/// A job, in fio's words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub rw: &'static str,
    pub bytes: u32,
    pub depth: u32,
    pub threads: u32,
    pub read_percent: u32,
    pub think: &'static str,
}

/// A drive, changes to it, a job, and a part that is made faster step by step.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub drive: &'static str,
    pub set: Vec<String>,
    pub work: Work,
    pub part: Part,
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let Work { rw, bytes, depth, threads, read_percent, .. } = self.work;
        write!(to, "{} --rw {rw} --bs {bytes} --iodepth {depth} --numjobs {threads}", self.drive)?;
        if rw.ends_with("rw") {
            write!(to, " --rwmixread {read_percent}")?;
        }
        self.set.iter().try_for_each(|set| write!(to, " --set {set}"))
    }
}

impl Work {
    pub(super) const READS: Work =
        Work { rw: "randread", bytes: 4096, depth: 1, threads: 1, read_percent: 50, think: "0" };

    /// The jobs of a run that is `scale` times as long as usual.
    pub(super) fn jobs(&self, drive: &Drive, scale: u64) -> Result<Vec<Job>, Problems> {
        let outstanding = u64::from(self.depth) * u64::from(self.threads);
        let ios = (RUN_BYTES / u64::from(self.bytes)).clamp(100, RUN_IOS).max(6 * outstanding) * scale;
        let number = |number: u64| number.to_string();
        let options = [
            ("rw", self.rw.to_string()),
            ("bs", number(self.bytes.into())),
            ("iodepth", number(self.depth.into())),
            ("numjobs", number(self.threads.into())),
            ("rwmixread", number(self.read_percent.into())),
            ("thinktime", self.think.to_string()),
            ("number_ios", number(ios / u64::from(self.threads))),
            ("io_size", "1024p".to_string()),
        ];
        let mixed = self.rw.ends_with("rw");
        let kept = options.iter().filter(|(name, value)| match *name {
            "rwmixread" => mixed,
            "thinktime" => value != "0",
            _ => true,
        });
        let options: Vec<_> = kept.map(|(name, value)| (*name, value.as_str())).collect();
        fio::job_from_flags(&options)?.resolve(&drive.limits(), &Default::default())
    }
}

impl Case {
    /// The drive, with more changes.
    pub(super) fn drive(&self, more: &[String]) -> Result<Drive, Problems> {
        describe(self.drive, self.set.iter().chain(more))
    }
}

/// A shipped drive with changes.
pub(super) fn describe<'a>(name: &str, set: impl Iterator<Item = &'a String>) -> Result<Drive, Problems> {
    let shipped = shipped::find(name).expect("a shipped drive");
    let overrides: Vec<KeyOverride> = set.map(|text| KeyOverride::parse(text).expect("an override")).collect();
    Drive::from_toml(shipped.file, shipped.text, &overrides)
}

/// Shipped drives with nothing in front of their banks. What others do of writes, and flash behind a buffer and a translation
/// layer above all, depends on what was done before; flash.rs tries them.
fn drives() -> &'static [&'static str] {
    static DRIVES: OnceLock<Vec<&'static str>> = OnceLock::new();
    DRIVES.get_or_init(|| {
        let has_banks = |name: &&str| Drive::shipped(name).is_some_and(|drive| drive.memory(0).is_bare());
        shipped::names().filter(has_banks).collect()
    })
}

/// Sizes in bytes of reads that are tried on every drive over faster links, each with a depth.
const SIZES_AND_DEPTHS: [(u32, u32); 10] =
    [(512, 1), (512, 4), (512, 8), (512, 32), (4096, 4), (4096, 8), (4096, 64), (65_536, 1), (65_536, 4), (65_536, 16)];

/// All that are shipped over all generations and ever faster cells, at all depths; over faster links in other sizes, too.
pub(super) fn ladders() -> Vec<Case> {
    let mut cases = Vec::new();
    for drive in shipped::names() {
        for part in [Part::Ladder(parts::GENERATIONS), Part::Ladder(parts::READS)] {
            for depth in (0..=8).map(|power| 1 << power) {
                cases.push(Case { drive, set: Vec::new(), work: Work { depth, ..Work::READS }, part });
            }
        }
        for part in [Part::Ladder(parts::GENERATIONS), Part::Key("link.lanes")] {
            for (bytes, depth) in SIZES_AND_DEPTHS {
                cases.push(Case { drive, set: Vec::new(), work: Work { bytes, depth, ..Work::READS }, part });
            }
        }
    }
    cases
}

/// A case in which all is drawn.
pub(super) fn random(seed: u64) -> Case {
    let mut random = Random::stream(seed, "sanity");
    let set = [draw_optional(&mut random, LINKS), draw_optional(&mut random, MEDIA), draw_optional(&mut random, HOSTS)];
    Case {
        drive: one_of(&mut random, drives()),
        set: set.into_iter().flatten().map(String::from).collect(),
        work: work(&mut random),
        part: one_of(&mut random, parts::ALL),
    }
}

fn work(random: &mut Random) -> Work {
    let bytes = one_of(random, &[512, 4096, 4096, 4096, 8192, 16_384, 65_536, 131_072]);
    let threads = one_of(random, &[1, 1, 1, 2, 4, 8]);
    let depth_max = (OUTSTANDING_BYTES / bytes / threads).max(1);
    Work {
        rw: one_of(random, &["randread", "randread", "randwrite", "randrw", "read", "write", "rw"]),
        bytes,
        depth: one_of(random, &[1, 1, 2, 4, 8, 16, 32, 64, 128]).min(depth_max),
        threads,
        read_percent: one_of(random, &[10, 30, 50, 70, 90]),
        think: "0",
    }
}

const LINKS: &[&str] = &["link.preset=gen1-x8", "link.preset=gen3-x4", "link.preset=gen4-x4", "link.preset=gen6-x4"];
const MEDIA: &[&str] = &[
    "media.preset=dram",
    "media.preset=pcm-lpddr2-nvm",
    "media.preset=pcm-moneta",
    "media.preset=nand-slc",
    "media.preset=pcm-next-generation",
    "media.acknowledge=early",
    "media.stripe_bytes=512",
];
const HOSTS: &[&str] = &["host.cores=4", "stack.preset=user-space", "host.core_ghz=2", "host.mmio_write_ns=100"];
