//! I/O engines: the interfaces through which a job submits requests to the host's software, named as in fio.

use serde::Serialize;
use std::collections::BTreeSet;

/// I/O engine of a job, as in fio's option `ioengine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoEngine {
    /// Synchronous I/O: one system call for each request, which returns when the request is complete (read, preadv2).
    Sync,
    /// Linux native asynchronous I/O: `io_submit` and `io_getevents`.
    Libaio,
    /// io_uring: submission and completion rings that application and kernel share.
    IoUring,
    /// io_uring with pass-through commands (`IORING_OP_URING_CMD`), which bypass the block layer.
    IoUringCmd,
    /// SPDK: a driver in user space that polls for completions.
    Spdk,
}

/// Options of an I/O engine, each named as in fio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineOptions {
    /// True if the kernel polls for completions instead of using interrupts (fio's `hipri`).
    pub hipri: bool,
    /// True if a kernel thread takes requests from the submission ring, so that submission needs no system call.
    pub sqthread_poll: bool,
    /// True if buffers are registered with io_uring in advance.
    pub fixedbufs: bool,
    /// True if files are registered with io_uring in advance.
    pub registerfiles: bool,
    /// True if requests use the read and write operations without an I/O vector.
    pub nonvectored: bool,
}

/// Condition words that are true for a job. The key `when` of a software stage is compared with them.
pub type Words = BTreeSet<&'static str>;

/// All condition words that the key `when` of a software stage may use.
pub const WORDS: &[&str] = &[
    "sync",
    "libaio",
    "io_uring",
    "io_uring_cmd",
    "spdk",
    "hipri",
    "sqthread_poll",
    "fixedbufs",
    "registerfiles",
    "nonvectored",
    "ext4",
    "xfs",
    "mq-deadline",
    "kyber",
    "bfq",
    "fio",
    "mitigations",
    "iommu-lazy",
    "iommu-strict",
    "shared-file",
    "no-statistics",
    "cgroups",
];

impl IoEngine {
    /// All I/O engines that a job may use.
    pub const ALL: &[IoEngine] =
        &[IoEngine::Sync, IoEngine::Libaio, IoEngine::IoUring, IoEngine::IoUringCmd, IoEngine::Spdk];

    /// Returns the name of this I/O engine in drive files (`stack.engines`, `when`).
    pub fn name(self) -> &'static str {
        match self {
            IoEngine::Sync => "sync",
            IoEngine::Libaio => "libaio",
            IoEngine::IoUring => "io_uring",
            IoEngine::IoUringCmd => "io_uring_cmd",
            IoEngine::Spdk => "spdk",
        }
    }

    /// Returns the I/O engine with this name in drive files, or `None`.
    pub fn of_name(name: &str) -> Option<IoEngine> {
        IoEngine::ALL.iter().copied().find(|engine| engine.name() == name)
    }

    /// Returns the I/O engine that a value of fio's `ioengine` means, or `None` if it is not supported.
    pub fn of_fio(name: &str) -> Option<IoEngine> {
        match name {
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Some(IoEngine::Sync),
            "spdk_bdev" => Some(IoEngine::Spdk),
            _ => IoEngine::of_name(name),
        }
    }

    /// True if requests go through the submission and completion rings of io_uring.
    pub fn has_rings(self) -> bool {
        matches!(self, IoEngine::IoUring | IoEngine::IoUringCmd)
    }

    /// True if jobs with this engine poll for completions when their option `hipri` is set.
    pub fn can_poll_on_request(self) -> bool {
        matches!(self, IoEngine::Sync | IoEngine::IoUring | IoEngine::IoUringCmd)
    }

    /// Returns the condition words that are true for jobs with this I/O engine.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            IoEngine::Sync => &["sync"],
            IoEngine::Libaio => &["libaio"],
            IoEngine::IoUring => &["io_uring"],
            IoEngine::IoUringCmd => &["io_uring", "io_uring_cmd"],
            IoEngine::Spdk => &["spdk"],
        }
    }
}

impl EngineOptions {
    /// Returns the name of each option in fio, with true if the option is on.
    pub fn named(self) -> [(&'static str, bool); 5] {
        [
            ("hipri", self.hipri),
            ("sqthread_poll", self.sqthread_poll),
            ("fixedbufs", self.fixedbufs),
            ("registerfiles", self.registerfiles),
            ("nonvectored", self.nonvectored),
        ]
    }

    /// Returns the condition words that are true for jobs with these options: the names of all options that are on.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        self.named().into_iter().filter_map(|(name, is_on)| is_on.then_some(name))
    }
}

/// True if a job with this I/O engine and these options polls for completions; false if it sleeps until an interrupt.
pub fn polls(engine: IoEngine, switches: EngineOptions) -> bool {
    engine == IoEngine::Spdk || switches.hipri
}
