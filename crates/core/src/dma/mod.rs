//! The raw question: a device reads or writes so many bytes of host memory, with so many transfers under way. No host
//! software, no protocol and no memory of the device's take part: what is measured is its DMA engine, the link, and the
//! root complex with what is behind it.
//!
//! ```
//! use phaselink_core::dma::{Op, Question};
//! use phaselink_core::drive::Drive;
//!
//! let device = Drive::device("nfp6000-gen3-x8").unwrap();
//! let outcome = Question { op: Op::Read, bytes: 64, ..Question::default() }.ask(&device, 1).unwrap();
//! assert_eq!(outcome.jobs[0].read.total.mean().as_ns().round(), 599.0);
//! ```

mod machine;
mod measured;
mod options;

use crate::config::Placement;
use crate::drive::Drive;
use crate::ledger::Outcome;
use crate::problem::{Problem, Problems};
use machine::Machine;
pub use measured::{Measured, document};
pub use options::sizes;

/// Sections of a description that have a part in it.
pub const SECTIONS: [&str; 4] = ["link", "dma", "host", "root_complex"];
/// Lines at whose multiples transfers begin.
const LINE_BYTES: u32 = 64;
/// Largest transfer.
pub const BYTES_MAX: u32 = 1 << 20;
/// Largest window.
pub const WINDOW_BYTES_MAX: u64 = 1 << 40;
/// Most transfers under way.
pub const OUTSTANDING_MAX: u32 = 4096;
/// Most transfers that are counted.
pub const TRANSFERS_MAX: u64 = 1_000_000_000;

/// Names in plans and on command lines for the variants of an enum.
macro_rules! words {
    ($(#[doc = $about:literal])+ $choice:ident { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $choice {
            /// All words, in order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Its word.
            pub fn word(self) -> &'static str {
                $choice::WORDS[self as usize]
            }

            /// What a word stands for.
            pub fn of(word: &str) -> Option<$choice> {
                match word {
                    $($word => Some($choice::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// What each transfer does, as the device sees it.
    Op {
        /// From host memory to the device.
        Read = "read",
        /// From the device to host memory.
        Write = "write",
        /// One after the other in turns.
        Both = "both",
        /// A write, and a read of the same place behind it, as one transfer: the read's time shows the write's.
        WriteRead = "write-read",
    }
}

words! {
    /// Where the host has what the device reads.
    Cache {
        /// The host has just written it: its cores hold it.
        Warm = "warm",
        /// In memory.
        Cold = "cold",
        /// The device has just written it: the last-level cache holds it.
        DeviceWritten = "device-written",
    }
}

words! {
    /// The host's memory that is near the device, or that of another socket.
    Node {
        /// At the device's socket.
        Local = "local",
        /// At another.
        Remote = "remote",
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    pub op: Op,
    /// Length of a transfer.
    pub bytes: u32,
    /// Part of host memory in which transfers begin at random lines.
    pub window_bytes: u64,
    /// Transfers under way at a time.
    pub outstanding: u32,
    /// Transfers that are counted, after a quarter as many that are not.
    pub transfers: u64,
    /// By commands of the device itself, without its DMA engine.
    pub direct: bool,
    /// Where the host has the data, on which node, and whether addresses are translated: otherwise as the description says.
    pub cache: Option<Cache>,
    pub node: Option<Node>,
    pub iommu: Option<bool>,
}

impl Default for Question {
    fn default() -> Question {
        Question {
            op: Op::Read,
            bytes: LINE_BYTES,
            window_bytes: 8 << 10,
            outstanding: 1,
            transfers: 20_000,
            direct: false,
            cache: None,
            node: None,
            iommu: None,
        }
    }
}

impl Question {
    /// The answer of a device: reads in the directions `read` and `write` of one job, pairs of both as reads.
    ///
    /// # Errors
    /// Everything that makes no sense.
    pub fn ask(&self, device: &Drive, seed: u64) -> Result<Outcome, Problems> {
        self.check(device)?;
        Ok(Machine::new(&self.applied(device), self, seed).run())
    }

    /// Whether it makes sense, and for this device.
    ///
    /// # Errors
    /// Everything that does not.
    pub fn check(&self, device: &Drive) -> Result<(), Problems> {
        let within = |what: &str, value: u64, most: u64| {
            let found = format!("{what} is {value}");
            (value == 0 || value > most).then(|| problem(found, format!("1 up to {most}")))
        };
        let window = u64::from(self.bytes) > self.window_bytes;
        let written = self.op == Op::WriteRead && !matches!(self.cache, None | Some(Cache::DeviceWritten));
        let written_by = self.op == Op::Write && self.cache.is_some();
        let direct = self.direct && !device.dma.is_there();
        let shares = device.drives > 1 || device.switch.is_there();
        let problems = [
            within("a transfer's size in bytes", self.bytes.into(), BYTES_MAX.into()),
            within("the window in bytes", self.window_bytes, WINDOW_BYTES_MAX),
            within("the number of transfers under way", self.outstanding.into(), OUTSTANDING_MAX.into()),
            within("the number of transfers", self.transfers, TRANSFERS_MAX),
            window.then(|| {
                let found = format!("a transfer of {} bytes in a window of {}", self.bytes, self.window_bytes);
                problem(found, String::from("a window that holds it"))
            }),
            written.then(|| {
                let found = format!("write-read with the cache {}", self.cache.map_or("", Cache::word));
                problem(found, String::from("device-written: it reads what the device has just written"))
            }),
            written_by.then(|| {
                let found = String::from("a state of the cache for writes, which take as long whatever it is");
                problem(found, String::from("read, both, or no state"))
            }),
            direct.then(|| {
                let found = format!("{} has no DMA engine to do without", device.name);
                problem(found, String::from("a device with a section [dma], or transfers that are not direct"))
            }),
            shares.then(|| {
                let found = format!("{} stands beside others, or behind a switch", device.name);
                problem(found, String::from("one device on a root port: drives = 1 and switch.drives = 0"))
            }),
        ];
        Problems(problems.into_iter().flatten().collect()).or(())
    }

    /// The device in the host that is asked for.
    pub fn applied(&self, device: &Drive) -> Drive {
        let mut device = device.clone();
        let root_complex = &mut device.root_complex;
        let is_remote = self.node.map_or(root_complex.data_placement.is_remote(), |node| node == Node::Remote);
        let cache = if self.op == Op::WriteRead { Some(Cache::DeviceWritten) } else { self.cache };
        let placement = match cache {
            None => root_complex.data_placement,
            Some(Cache::Warm) => Placement::Core,
            Some(Cache::Cold) => Placement::Dram,
            Some(Cache::DeviceWritten) => Placement::Cache,
        };
        root_complex.data_placement = placement.on_socket(is_remote);
        root_complex.iommu = self.iommu.unwrap_or(root_complex.iommu);
        device
    }

    /// Bytes from the start of one place of a transfer to the next.
    fn unit_bytes(&self) -> u64 {
        u64::from(self.bytes.next_multiple_of(LINE_BYTES))
    }

    /// Places at which a transfer may begin.
    fn units(&self) -> u64 {
        (self.window_bytes / self.unit_bytes()).max(1)
    }
}

fn problem(found: String, allowed: String) -> Problem {
    Problem::new("dma", None, found, allowed)
}
