//! Formats of traces: names and units of time.

use crate::time::Span;
use std::fmt;

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceFileFormat {
    /// Text that blkparse prints from a trace of blktrace.
    Blkparse,
    /// Binary records of blktrace, one file for each processor.
    Blktrace,
    /// fio iolog of version 2: requests without times, with waits between them.
    FioIolog2,
    /// fio iolog of version 3: requests with the time of each.
    FioIolog3,
    /// CSV of the MSR Cambridge block traces (SNIA IOTTA 388).
    MsrCambridge,
    /// CSV of the Alibaba block traces of 2020 (`io_traces.csv`).
    Alibaba,
    /// CSV of the Tencent cloud block storage traces (SNIA IOTTA 27917).
    Tencent,
    /// CSV of the Systor '17 traces (SNIA IOTTA 4928).
    Systor,
    /// Binary records of virtual SCSI disks, as in the CloudPhysics traces.
    Vscsi,
}

/// Allowed formats, for the message on a file of an unknown format.
pub(super) const ALLOWED: &str = "blktrace or its text from blkparse, a fio iolog of version 2 or 3, CSV of MSR Cambridge, Alibaba, Tencent or Systor '17, or vscsi records";

impl TraceFileFormat {
    /// All formats of traces.
    pub const ALL: [TraceFileFormat; 9] = [
        TraceFileFormat::Blkparse,
        TraceFileFormat::Blktrace,
        TraceFileFormat::FioIolog2,
        TraceFileFormat::FioIolog3,
        TraceFileFormat::MsrCambridge,
        TraceFileFormat::Alibaba,
        TraceFileFormat::Tencent,
        TraceFileFormat::Systor,
        TraceFileFormat::Vscsi,
    ];

    /// Returns the word by which a user names the format, such as `iolog2`.
    pub fn word(self) -> &'static str {
        match self {
            TraceFileFormat::Blkparse => "blkparse",
            TraceFileFormat::Blktrace => "blktrace",
            TraceFileFormat::FioIolog2 => "iolog2",
            TraceFileFormat::FioIolog3 => "iolog3",
            TraceFileFormat::MsrCambridge => "msr",
            TraceFileFormat::Alibaba => "alibaba",
            TraceFileFormat::Tencent => "tencent",
            TraceFileFormat::Systor => "systor",
            TraceFileFormat::Vscsi => "vscsi",
        }
    }

    /// Returns the format that this word names; none if no format has this name.
    pub fn named(word: &str) -> Option<TraceFileFormat> {
        TraceFileFormat::ALL.into_iter().find(|format| format.word() == word)
    }

    /// Returns the unit of time in which the format records times.
    pub(super) fn unit(self) -> Span {
        match self {
            TraceFileFormat::Blkparse | TraceFileFormat::Blktrace | TraceFileFormat::Systor => Span::from_ns(1),
            TraceFileFormat::FioIolog2
            | TraceFileFormat::FioIolog3
            | TraceFileFormat::Alibaba
            | TraceFileFormat::Vscsi => Span::from_us(1),
            TraceFileFormat::MsrCambridge => Span::from_ns(100),
            TraceFileFormat::Tencent => Span::from_s(1),
        }
    }
}

impl fmt::Display for TraceFileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TraceFileFormat::Blkparse => "blkparse text",
            TraceFileFormat::Blktrace => "blktrace",
            TraceFileFormat::FioIolog2 => "fio iolog version 2",
            TraceFileFormat::FioIolog3 => "fio iolog version 3",
            TraceFileFormat::MsrCambridge => "MSR Cambridge CSV",
            TraceFileFormat::Alibaba => "Alibaba CSV",
            TraceFileFormat::Tencent => "Tencent CSV",
            TraceFileFormat::Systor => "Systor '17 CSV",
            TraceFileFormat::Vscsi => "vscsi",
        })
    }
}
