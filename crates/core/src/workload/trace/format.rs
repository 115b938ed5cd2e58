//! Formats of traces: names and units of time.

use crate::time::Span;
use std::fmt;

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
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

impl Format {
    /// All formats of traces.
    pub const ALL: [Format; 9] = [
        Format::Blkparse,
        Format::Blktrace,
        Format::FioIolog2,
        Format::FioIolog3,
        Format::MsrCambridge,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::Vscsi,
    ];

    /// Returns the word by which a user names the format, such as `iolog2`.
    pub fn word(self) -> &'static str {
        match self {
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::FioIolog2 => "iolog2",
            Format::FioIolog3 => "iolog3",
            Format::MsrCambridge => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Vscsi => "vscsi",
        }
    }

    /// Returns the format that this word names; none if no format has this name.
    pub fn named(word: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.word() == word)
    }

    /// Returns the unit of time in which the format records times.
    pub(super) fn unit(self) -> Span {
        match self {
            Format::Blkparse | Format::Blktrace | Format::Systor => Span::from_ns(1),
            Format::FioIolog2 | Format::FioIolog3 | Format::Alibaba | Format::Vscsi => Span::from_us(1),
            Format::MsrCambridge => Span::from_ns(100),
            Format::Tencent => Span::from_s(1),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Blkparse => "blkparse text",
            Format::Blktrace => "blktrace",
            Format::FioIolog2 => "fio iolog version 2",
            Format::FioIolog3 => "fio iolog version 3",
            Format::MsrCambridge => "MSR Cambridge CSV",
            Format::Alibaba => "Alibaba CSV",
            Format::Tencent => "Tencent CSV",
            Format::Systor => "Systor '17 CSV",
            Format::Vscsi => "vscsi",
        })
    }
}
