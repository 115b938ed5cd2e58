//! Measurements of bare DMA transfers: a device reads or writes host memory, with a given size and number of transfers
//! in flight. Host software, protocol and the device's memory take no part: the DMA engine, the link, and the root
//! complex with the memory behind it are measured.
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
mod options;

use crate::config::{Placement, RootComplex};
use crate::drive::Drive;
use crate::ledger::Outcome;
use crate::number::real;
use crate::problem::{Problem, Problems};
use machine::DmaMachine;
pub use options::sizes;

/// Sections of a drive's description on which bare DMA transfers depend.
pub const SECTIONS: [&str; 4] = ["link", "dma", "host", "root_complex"];
/// Alignment of DMA transfers in bytes: a cache line.
const LINE_BYTES: u32 = 64;
/// Largest size of a transfer in bytes.
pub const BYTES_MAX: u32 = 1 << 20;
/// Largest size in bytes of the window of host memory in which transfers begin.
pub const WINDOW_BYTES_MAX: u64 = 1 << 40;
/// Largest number of DMA transfers in flight.
pub const OUTSTANDING_MAX: u32 = 4096;
/// Largest number of DMA transfers that are counted in a measurement.
pub const TRANSFERS_MAX: u64 = 1_000_000_000;

/// Defines an enum whose variants have words in plans and on command lines.
macro_rules! words {
    ($(#[doc = $about:literal])+ $choice:ident { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $choice {
            /// Words for all variants, in their order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word for this variant in plans and on command lines.
            pub fn word(self) -> &'static str {
                $choice::WORDS[self as usize]
            }

            /// Returns the variant that a word stands for; `None` if it is not one of the words.
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
    /// Direction of DMA transfers, as the device sees it.
    Op {
        /// DMA reads: each transfer goes from host memory to the device.
        Read = "read",
        /// DMA writes: each transfer goes from the device to host memory.
        Write = "write",
        /// Reads and writes in turns.
        Both = "both",
        /// Writes, and then reads the same address, as one transfer: the time of the read shows that of the write.
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

/// Bare DMA transfers to be measured: direction, size, window of host memory, number in flight, and state of the host
/// (caches, socket, IOMMU).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Direction of the transfers: reads, writes, or both.
    pub op: Op,
    /// Size of a transfer in bytes.
    pub bytes: u32,
    /// Size in bytes of the window of host memory in which transfers begin at random cache lines.
    pub window_bytes: u64,
    /// Number of transfers that are kept in flight.
    pub outstanding: u32,
    /// Number of transfers that are counted, after a warm-up of a quarter as many.
    pub transfers: u64,
    /// True if the device's own commands make the transfers, without its DMA engine.
    pub direct: bool,
    /// State of the host's caches; `None` takes that of the drive's description.
    pub cache: Option<Cache>,
    /// Socket of the memory; `None` takes that of the drive's description.
    pub node: Option<Node>,
    /// True if an IOMMU translates addresses; `None` takes the setting of the drive's description.
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
    /// Runs these transfers on a device, and measures them. The outcome has one job with the directions `read` and
    /// `write`; write-read pairs count as reads.
    ///
    /// # Errors
    /// Everything in the question that makes no sense for this device.
    pub fn ask(&self, device: &Drive, seed: u64) -> Result<Outcome, Problems> {
        self.check(device)?;
        Ok(DmaMachine::new(&self.applied(device), self, seed).run())
    }

    /// Checks that the question makes sense in itself and for this device.
    ///
    /// # Errors
    /// Everything in the question that makes no sense for this device.
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
                problem(found, String::from("one device on a root port: drives = 1 and no switch"))
            }),
        ];
        Problems(problems.into_iter().flatten().collect()).or(())
    }

    /// Returns the device in a host with the cache state, memory socket and address translation that the question sets.
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
        root_complex.data_placement = placement.on_device_or_remote_socket(is_remote);
        root_complex.data_cold_ratio = root_complex.data_cold_ratio.max(self.uncached_share(root_complex));
        root_complex.iommu = self.iommu.unwrap_or(root_complex.iommu);
        device
    }

    /// Returns the share (0 to 1) of the window of host memory that the processor caches cannot hold. The device's own
    /// writes fill a part of the last-level cache, the cores' writes all of it. A read behind a write of the DMA engine
    /// finds what that write has just put there.
    fn uncached_share(&self, host: &RootComplex) -> f64 {
        let io_kib = if host.llc_io_kib == 0 { host.llc_kib } else { host.llc_io_kib };
        let held_kib = match host.data_placement.on_device_or_remote_socket(false) {
            Placement::Dram => 0,
            _ if self.op == Op::WriteRead && !self.direct => 0,
            Placement::Cache => io_kib,
            _ => host.llc_kib,
        };
        let window_kib = real(self.window_bytes) / 1024.0;
        if held_kib == 0 { 0.0 } else { (1.0 - f64::from(held_kib) / window_kib).max(0.0) }
    }

    /// Returns the distance in bytes between two addresses at which a transfer may begin: its size in whole cache
    /// lines.
    fn unit_bytes(&self) -> u64 {
        u64::from(self.bytes.next_multiple_of(LINE_BYTES))
    }

    /// Returns the number of addresses in the window of host memory at which a transfer may begin.
    fn units(&self) -> u64 {
        (self.window_bytes / self.unit_bytes()).max(1)
    }
}

fn problem(found: String, allowed: String) -> Problem {
    Problem::new("dma", None, found, allowed)
}
