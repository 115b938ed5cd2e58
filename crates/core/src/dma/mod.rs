//! Measurements of bare transfers: a device reads or writes so many bytes of host memory, with so many transfers in flight. Host
//! software, protocol and the device's memory take no part: the DMA engine, the link, and the root complex with the memory
//! behind it are measured.
//!
//! ```
//! use phaselink_core::dma::{Op, Question};
//! use phaselink_core::drive::Drive;
//!
//! let device = Drive::device("nfp6000-gen3-x8").unwrap();
//! let outcome = Question { op: Op::Read, bytes: 64, ..Question::default() }.ask(&device, 1).unwrap();
//! assert_eq!(outcome.jobs[0].read.total.mean().as_ns().round(), 593.0);
//! ```

mod machine;
mod measured;
mod options;

use crate::config::{Placement, RootComplex};
use crate::drive::Drive;
use crate::ledger::Outcome;
use crate::problem::{Problem, Problems};
use machine::TransferMachine;
pub use measured::{Measured, document};
pub use options::sizes;

/// Sections of a description on which bare transfers depend.
pub const SECTIONS: [&str; 4] = ["link", "dma", "host", "root_complex"];
/// Alignment of transfers in bytes: a cache line.
const LINE_BYTES: u32 = 64;
/// Largest transfer in bytes.
pub const BYTES_MAX: u32 = 1 << 20;
/// Largest window in bytes.
pub const WINDOW_BYTES_MAX: u64 = 1 << 40;
/// Largest number of transfers in flight.
pub const OUTSTANDING_MAX: u32 = 4096;
/// Largest number of transfers that are counted.
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

            /// Word for this variant.
            pub fn word(self) -> &'static str {
                $choice::WORDS[self as usize]
            }

            /// Variant that a word stands for, if it is one of them.
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
    /// Direction of transfers, as the device sees it.
    Op {
        /// From host memory to the device.
        Read = "read",
        /// From the device to host memory.
        Write = "write",
        /// Reads and writes in turns.
        Both = "both",
        /// A write, and a read of the same place behind it, as one transfer: the read's time shows the write's.
        WriteRead = "write-read",
    }
}

words! {
    /// State of the host's caches for the data that the device reads.
    Cache {
        /// In a core's cache: the host has just written the data.
        Warm = "warm",
        /// In no CPU cache: the device's read goes to DRAM.
        Cold = "cold",
        /// In the last-level cache: the device has just written the data.
        DeviceWritten = "device-written",
    }
}

words! {
    /// Socket whose memory the device reads and writes.
    Node {
        /// Memory at the device's socket.
        Local = "local",
        /// Memory at another socket.
        Remote = "remote",
    }
}

/// Transfers to be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Direction of the transfers.
    pub op: Op,
    /// Length of a transfer in bytes.
    pub bytes: u32,
    /// Size of the part of host memory in which transfers begin at random lines.
    pub window_bytes: u64,
    /// Number of transfers in flight.
    pub outstanding: u32,
    /// Number of transfers that are counted, after a quarter as many that are not.
    pub transfers: u64,
    /// True if the device's own commands make the transfers, without its DMA engine.
    pub direct: bool,
    /// State of the host's caches, if it is not the description's.
    pub cache: Option<Cache>,
    /// Socket of the memory, if it is not the description's.
    pub node: Option<Node>,
    /// True if addresses are translated, if that is not the description's.
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
    /// Measures a device. The outcome has reads in the directions `read` and `write` of one job; pairs of both count as reads.
    ///
    /// # Errors
    /// Everything that makes no sense.
    pub fn ask(&self, device: &Drive, seed: u64) -> Result<Outcome, Problems> {
        self.check(device)?;
        Ok(TransferMachine::new(&self.applied(device), self, seed).run())
    }

    /// Checks that the question makes sense, and for this device.
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

    /// Device in the host that is asked for.
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
        root_complex.data_cold_ratio = root_complex.data_cold_ratio.max(self.cold_ratio(root_complex));
        root_complex.iommu = self.iommu.unwrap_or(root_complex.iommu);
        device
    }

    /// Share of the window that the caches cannot hold: the device's own writes fill a part of the last-level cache, the cores'
    /// all of it. A read behind a write of the DMA engine finds what that write has just put there.
    fn cold_ratio(&self, host: &RootComplex) -> f64 {
        let io_kib = if host.llc_io_kib == 0 { host.llc_kib } else { host.llc_io_kib };
        let held_kib = match host.data_placement.on_socket(false) {
            Placement::Dram => 0,
            _ if self.op == Op::WriteRead && !self.direct => 0,
            Placement::Cache => io_kib,
            _ => host.llc_kib,
        };
        let window_kib = self.window_bytes as f64 / 1024.0;
        if held_kib == 0 { 0.0 } else { (1.0 - f64::from(held_kib) / window_kib).max(0.0) }
    }

    /// Distance in bytes between two places at which a transfer may begin.
    fn unit_bytes(&self) -> u64 {
        u64::from(self.bytes.next_multiple_of(LINE_BYTES))
    }

    /// Number of places at which a transfer may begin.
    fn units(&self) -> u64 {
        (self.window_bytes / self.unit_bytes()).max(1)
    }
}

fn problem(found: String, allowed: String) -> Problem {
    Problem::new("dma", None, found, allowed)
}
