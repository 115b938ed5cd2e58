//! Log pages, and what they tell of (Base Specification 2.0, section 5.16).

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::spec::{Status, admin, opcode};

use super::{ADMIN_COMMANDS, LOGGED_ERRORS, TEMPERATURE_KELVIN, features};

/// Log identifiers (figure 202).
pub const SUPPORTED: u8 = 0x00;
pub const ERRORS: u8 = 0x01;
pub const HEALTH: u8 = 0x02;
pub const FIRMWARE: u8 = 0x03;
pub const COMMANDS: u8 = 0x05;
pub const FEATURES: u8 = 0x12;

/// Bytes of an entry of the error log (figure 206).
const ERROR_BYTES: usize = 64;
/// Units in which the health log counts data: thousands of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// A command that was refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    number: u64,
    queue: u16,
    command_id: u16,
    status: Status,
    namespace: u32,
    slba: u64,
}

/// What has happened since power-on.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    read_bytes: u64,
    written_bytes: u64,
    reads: u64,
    writes: u64,
    failures_ever: u64,
    failures: VecDeque<Failure>,
    /// Threshold that the temperature has passed.
    pub is_warm: bool,
}

impl Journal {
    /// A read has been done; Compare and Verify count as one.
    pub fn note_read(&mut self, bytes: u64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    /// A write has been done; Copy counts as one.
    pub fn note_write(&mut self, bytes: u64) {
        self.writes += 1;
        self.written_bytes += bytes;
    }

    /// A command has been refused, or has failed.
    #[cold]
    pub fn note_failure(&mut self, queue: u16, command_id: u16, status: Status, namespace: u32, slba: u64) {
        self.failures_ever += 1;
        self.failures.truncate(LOGGED_ERRORS - 1);
        let number = self.failures_ever;
        self.failures.push_front(Failure { number, queue, command_id, status, namespace, slba });
    }

    /// Whether the error log has an entry.
    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// What another has noted since it was last asked is this one's.
    pub fn absorb(&mut self, other: &mut Journal) {
        let Journal { read_bytes, written_bytes, reads, writes, failures_ever, failures, .. } = std::mem::take(other);
        self.read_bytes += read_bytes;
        self.written_bytes += written_bytes;
        self.reads += reads;
        self.writes += writes;
        // Those that are no longer listed.
        self.failures_ever += failures_ever - failures.len() as u64;
        for Failure { queue, command_id, status, namespace, slba, .. } in failures.into_iter().rev() {
            self.note_failure(queue, command_id, status, namespace, slba);
        }
    }

    /// The whole of a log page.
    ///
    /// # Errors
    /// Invalid Log Page for one that is not there.
    pub fn page(&self, log: u8) -> Result<Vec<u8>, Status> {
        match log {
            SUPPORTED => Ok(supported()),
            ERRORS => Ok(self.errors()),
            HEALTH => Ok(self.health()),
            FIRMWARE => Ok(firmware()),
            COMMANDS => Ok(commands()),
            FEATURES => Ok(features()),
            _ => Err(Status::INVALID_LOG_PAGE),
        }
    }

    /// The latest first (figure 206); entries that have never been used are zeros.
    fn errors(&self) -> Vec<u8> {
        let mut page = vec![0; LOGGED_ERRORS * ERROR_BYTES];
        for (entry, failure) in page.chunks_mut(ERROR_BYTES).zip(&self.failures) {
            put(entry, 0, failure.number.to_le_bytes());
            put(entry, 8, failure.queue.to_le_bytes());
            put(entry, 10, failure.command_id.to_le_bytes());
            put(entry, 12, (failure.status.0 << 1).to_le_bytes());
            // The field that was wrong is not said (parameter error location).
            put(entry, 14, [0xff; 2]);
            put(entry, 16, failure.slba.to_le_bytes());
            put(entry, 24, failure.namespace.to_le_bytes());
        }
        page
    }

    /// Figure 207. There is no wear and no spare to run out of.
    fn health(&self) -> Vec<u8> {
        let mut page = vec![0; 512];
        page[0] = u8::from(self.is_warm) << 1;
        put(&mut page, 1, TEMPERATURE_KELVIN.to_le_bytes());
        page[3] = 100;
        page[4] = 10;
        let counts = [self.read_bytes.div_ceil(DATA_UNIT_BYTES), self.written_bytes.div_ceil(DATA_UNIT_BYTES)];
        for (at, count) in [(32, counts[0]), (48, counts[1]), (64, self.reads), (80, self.writes)] {
            put(&mut page, at, count.to_le_bytes());
        }
        put(&mut page, 112, 1_u64.to_le_bytes());
        put(&mut page, 176, self.failures_ever.to_le_bytes());
        page
    }
}

/// LSUPP for each page (figure 204).
fn supported() -> Vec<u8> {
    marked(1024, 4, &[SUPPORTED, ERRORS, HEALTH, FIRMWARE, COMMANDS, FEATURES], 1)
}

/// Slot 1 is active, with this revision (figure 209).
fn firmware() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[0] = 1;
    page[8..16].fill(b' ');
    let revision = env!("CARGO_PKG_VERSION").as_bytes();
    page[8..16].iter_mut().zip(revision).for_each(|(place, byte)| *place = *byte);
    page
}

/// CSUPP for each command, and LBCC for those that change data (figure 211): admin commands, then the others.
fn commands() -> Vec<u8> {
    const CHANGING: [u8; 4] = [opcode::WRITE, opcode::WRITE_ZEROES, opcode::DATASET_MANAGEMENT, opcode::COPY];
    let mut page = marked(4096, 4, &ADMIN_COMMANDS, 1);
    page[usize::from(admin::FORMAT_NVM) * 4] = 0b11;
    let others = marked(1024, 4, &[opcode::FLUSH, opcode::READ, opcode::COMPARE, opcode::VERIFY], 1);
    let changes = marked(1024, 4, &CHANGING, 0b11);
    for (place, (one, other)) in others.iter().zip(&changes).enumerate() {
        page[1024 + place] = one | other;
    }
    page
}

/// FSUPP for each feature, all of them the controller's (figure 256).
fn features() -> Vec<u8> {
    let mut page = marked(1024, 4, &features::ALL, 1);
    for feature in features::ALL {
        page[usize::from(feature) * 4 + 2] = 1 << (21 - 16);
    }
    page
}

/// A page of `bytes` in which these entries have this first byte.
fn marked(bytes: usize, stride: usize, entries: &[u8], mark: u8) -> Vec<u8> {
    let mut page = vec![0; bytes];
    entries.iter().for_each(|entry| page[usize::from(*entry) * stride] = mark);
    page
}

fn put<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_has_noted_is_added_to_what_was_noted_before() {
        let failed = |journal: &mut Journal, id: u16| {
            journal.note_failure(1, id, Status::INVALID_FIELD, 1, 0);
        };
        let (mut all, mut other) = (Journal::default(), Journal::default());
        for journal in [&mut all, &mut other] {
            (0..3).for_each(|_| journal.note_read(1_000_000));
            (0..5).for_each(|_| journal.note_write(2_000_000));
            (0..2).for_each(|id| failed(journal, id));
        }
        all.absorb(&mut other);
        assert_eq!((all.reads, all.writes, all.read_bytes, all.written_bytes), (6, 10, 6_000_000, 20_000_000));
        assert_eq!((all.failures_ever, all.failures.len()), (4, 4));
        assert_eq!((other.reads, other.has_failures()), (0, false), "it begins anew");
        all.absorb(&mut other);
        assert_eq!((all.reads, all.failures_ever), (6, 4));
    }
}
