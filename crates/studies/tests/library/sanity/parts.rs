//! Parts of a machine, and what makes each faster.

use phaselink_core::drive::Drive;

/// Generations of PCI Express, slowest first.
pub(super) const GENERATIONS: &[&str] =
    &["link.generation=2", "link.generation=3", "link.generation=4", "link.generation=5", "link.generation=6"];

/// Cells, slowest first.
pub(super) const READS: &[&str] = &[
    "media.read_ns=400",
    "media.read_ns=350",
    "media.read_ns=300",
    "media.read_ns=270",
    "media.read_ns=250",
    "media.read_ns=240",
    "media.read_ns=230",
    "media.read_ns=220",
    "media.read_ns=210",
    "media.read_ns=200",
    "media.read_ns=180",
    "media.read_ns=160",
    "media.read_ns=140",
    "media.read_ns=110",
    "media.read_ns=90",
    "media.read_ns=80",
    "media.read_ns=70",
    "media.read_ns=50",
];

/// Every part that a random case may make faster.
pub(super) const ALL: &[Part] = &[
    Part::Ladder(GENERATIONS),
    Part::Ladder(READS),
    Part::Key("link.lanes"),
    Part::Key("media.read_ns"),
    Part::Key("media.program_ns"),
    Part::Key("media.bus_bytes_per_ns"),
    Part::Key("media.channels"),
    Part::Key("media.banks_per_channel"),
    Part::Key("host.core_ghz"),
];

/// A part of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// With these values one after the other.
    Ladder(&'static [&'static str]),
    /// Twice as fast as it is, and twice again.
    Key(&'static str),
}

impl Part {
    /// The key that says how fast it is.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Part::Ladder(steps) => steps[0].split_once('=').expect("key=value").0,
            Part::Key(key) => key,
        }
    }

    /// Settings of this drive from the slowest to the fastest; those that are the drive's own are none.
    pub(super) fn steps(&self, drive: &Drive) -> Vec<Vec<String>> {
        match self {
            Part::Ladder(steps) => steps.iter().map(|step| vec![step.to_string()]).collect(),
            Part::Key(key) => {
                let faster = |times| vec![format!("{key}={}", faster(drive, key, times))];
                vec![Vec::new(), faster(2), faster(4)]
            }
        }
    }
}

/// The value of a key that makes its part so many times as fast.
fn faster(drive: &Drive, key: &str, times: u16) -> String {
    let (media, ratio) = (&drive.media, f64::from(times));
    match key {
        "link.lanes" => (u16::from(drive.link.lanes) * times).to_string(),
        "media.read_ns" => (media.read.as_ns() / ratio).to_string(),
        "media.program_ns" => (media.program.as_ns() / ratio).to_string(),
        "media.bus_bytes_per_ns" => (media.bus_bytes_per_ns * ratio).to_string(),
        "media.channels" => (media.channels * times).to_string(),
        "media.banks_per_channel" => (media.banks_per_channel * times).to_string(),
        "host.core_ghz" => (drive.host.core_ghz * ratio).to_string(),
        _ => unreachable!("{key} is no part"),
    }
}
