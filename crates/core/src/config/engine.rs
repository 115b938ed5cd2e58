//! Engines: the ways in which a job's requests enter the host's software, as fio names them.

use serde::Serialize;
use std::collections::BTreeSet;

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One system call a request, which ends with it (read, preadv2).
    Sync,
    /// `io_submit` and `io_getevents`.
    Libaio,
    /// Rings that application and kernel share.
    IoUring,
    /// The same, with commands of the device's own (passthrough): no block layer.
    IoUringCmd,
    /// A driver in user space that looks for completions by itself.
    Spdk,
}

/// What may be said of an engine: fio's options of these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// The kernel looks for completions by itself.
    pub hipri: bool,
    /// A thread of the kernel takes requests from the ring.
    pub sqthread_poll: bool,
    pub fixedbufs: bool,
    pub registerfiles: bool,
    pub nonvectored: bool,
}

/// Words that hold for a job.
pub type Words = BTreeSet<&'static str>;

/// Words that conditions of stages may use.
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
];

impl Engine {
    pub const ALL: &[Engine] = &[Engine::Sync, Engine::Libaio, Engine::IoUring, Engine::IoUringCmd, Engine::Spdk];

    /// Its name in stacks.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sync => "sync",
            Engine::Libaio => "libaio",
            Engine::IoUring => "io_uring",
            Engine::IoUringCmd => "io_uring_cmd",
            Engine::Spdk => "spdk",
        }
    }

    /// The engine of this name.
    pub fn of_name(name: &str) -> Option<Engine> {
        Engine::ALL.iter().copied().find(|engine| engine.name() == name)
    }

    /// The engine that fio's `ioengine` names, if it is one of these.
    pub fn of_fio(name: &str) -> Option<Engine> {
        match name {
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Some(Engine::Sync),
            "spdk_bdev" => Some(Engine::Spdk),
            _ => Engine::of_name(name),
        }
    }

    /// Whether it goes through the rings of io_uring.
    pub fn has_rings(self) -> bool {
        matches!(self, Engine::IoUring | Engine::IoUringCmd)
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Engine::Sync => &["sync"],
            Engine::Libaio => &["libaio"],
            Engine::IoUring => &["io_uring"],
            Engine::IoUringCmd => &["io_uring", "io_uring_cmd"],
            Engine::Spdk => &["spdk"],
        }
    }
}

impl Switches {
    /// Each by the name of fio's option, and whether it is on.
    pub fn named(self) -> [(&'static str, bool); 5] {
        [
            ("hipri", self.hipri),
            ("sqthread_poll", self.sqthread_poll),
            ("fixedbufs", self.fixedbufs),
            ("registerfiles", self.registerfiles),
            ("nonvectored", self.nonvectored),
        ]
    }

    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        self.named().into_iter().filter_map(|(name, is_on)| is_on.then_some(name))
    }
}

/// Whether whoever uses an engine in this way looks for completions, rather than sleep until an interrupt.
pub fn polls(engine: Engine, switches: Switches) -> bool {
    engine == Engine::Spdk || switches.hipri
}
