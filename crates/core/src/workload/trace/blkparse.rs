//! Text of blkparse in its default format (blkparse(1), "DEFAULT OUTPUT" and "ACTION IDENTIFIERS"):
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//! device  cpu    sequence      seconds   pid  action, RWBS, sector + sectors [process]
//! ```
//!
//! A request shows up once for each step on its way. What counts here is its queueing, `Q`: when the
//! system asked, before merging and scheduling. Traces recorded without it count the issue to the
//! driver, `D`.

use super::{Record, Request, Wrong, number, wrong};
use crate::request::Op;

/// Unit of sectors and their counts, whatever the device's own.
const SECTOR_BYTES: u64 = 512;

/// Every action that blkparse prints.
const ACTIONS: [&str; 16] = ["Q", "G", "I", "D", "C", "R", "M", "F", "S", "P", "U", "UT", "T", "X", "A", "B"];

pub(super) struct Reader {
    /// The action that stands for a request.
    action: &'static str,
}

/// Whether a line is an event: it starts with `major,minor`.
pub(super) fn is_event(line: &str) -> bool {
    let device = line.split_ascii_whitespace().next().and_then(|field| field.split_once(','));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fields = line.split_ascii_whitespace().count();
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) && fields > 1
}

/// Whether blkparse says which file it reads, as it does ahead of the events.
pub(super) fn is_notice(line: &str) -> bool {
    line.starts_with("Input file ")
}

/// Whether the statistics after the events start here: `CPU0 (sda):`, `Total (sda):`.
fn is_summary(line: &str) -> bool {
    (line.starts_with("CPU") || line.starts_with("Total")) && line.contains('(')
}

impl Reader {
    pub fn new(text: &str) -> Reader {
        let queued = text.lines().any(|line| line.split_ascii_whitespace().nth(5) == Some("Q"));
        Reader { action: if queued { "Q" } else { "D" } }
    }

    pub fn read<'a>(&self, line: &'a str) -> Result<Record<'a>, Wrong> {
        if is_summary(line) {
            return Ok(Record::End);
        }
        if is_notice(line) {
            return Ok(Record::Other);
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        if !is_event(line) || fields.len() < 6 {
            return wrong(format!("`{}`", line.trim()), "a line of blkparse: device cpu sequence seconds pid action …");
        }
        match fields[5] {
            action if action == self.action => request(&fields),
            // `m` is a message of a driver or scheduler.
            action if ACTIONS.contains(&action) || action == "m" => Ok(Record::Other),
            action => wrong(format!("the unknown action `{action}`"), "an action of blkparse, such as Q, D or C"),
        }
    }
}

fn request<'a>(fields: &[&'a str]) -> Result<Record<'a>, Wrong> {
    let at = nanoseconds(fields[3])?;
    let &[rwbs, ref rest @ ..] = &fields[6..] else {
        return wrong("an event without its RWBS field", "R, W and the like");
    };
    if rwbs.contains('D') {
        return Ok(Record::LeftOut("discards"));
    }
    let (sector, sectors) = match *rest {
        [sector, "+", sectors, ..] => (number(sector, "a sector")?, number(sectors, "a number of sectors")?),
        // A flush carries no sectors: the process follows at once.
        _ if rwbs.contains('F') => return Ok(Record::LeftOut("flushes")),
        _ if !rwbs.contains(['R', 'W']) => return Ok(Record::LeftOut("requests without data")),
        _ => return wrong("an event without its sectors", "SECTOR + SECTORS"),
    };
    let op = match rwbs {
        _ if rwbs.contains('F') && sectors == 0 => return Ok(Record::LeftOut("flushes")),
        _ if rwbs.contains('W') => Op::Write,
        _ if rwbs.contains('R') => Op::Read,
        _ => return Ok(Record::LeftOut("requests without data")),
    };
    match (sector.checked_mul(SECTOR_BYTES), sectors.checked_mul(SECTOR_BYTES)) {
        (Some(offset), Some(bytes)) => Ok(Record::Request(Request { at, device: fields[0], op, offset, bytes })),
        _ => wrong(format!("{sectors} sectors from sector {sector}"), "bytes that 64 bits can count"),
    }
}

/// Seconds with up to nine decimals.
fn nanoseconds(text: &str) -> Result<u64, Wrong> {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let fraction = format!("{decimals:0<9}");
    let whole = number(seconds, "a time")?.checked_mul(1_000_000_000);
    match (whole, number(&fraction, "a time")) {
        (Some(whole), Ok(fraction)) if fraction < 1_000_000_000 && decimals.len() <= 9 => {
            whole.checked_add(fraction).map_or_else(|| wrong(format!("`{text}` as a time"), "seconds"), Ok)
        }
        _ => wrong(format!("`{text}` as a time"), "seconds, with up to nine decimals"),
    }
}
