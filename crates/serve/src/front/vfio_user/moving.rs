//! Stream by which a drive moves to another server: its bytes, then its state.
//!
//! ```text
//!    head:    magic number, version, digest of the drive's description, checksum
//!    ranges:  region, offset, length, bytes unless all are zeros      while the source serves its host, then the rest
//!    state:   registers, drive, controller                            once the source has stopped
//!    end
//! ```
//!
//! Each record has a checksum, and is checked before it has an effect. A target must have written nothing yet. If a stream
//! is refused or ends early, the target's store is cleared again.

use std::io;
use std::sync::Arc;

use phaselink_core::number::{index, length, short_length};

use crate::device::store::{ChangedRange, Store, StoreRegion};
use crate::nvme::image::{ImageReader, ImageRefusal};

/// First bytes of a stream.
const MAGIC: [u8; 8] = *b"plkmoves";
/// Version of the stream's format.
const VERSION: u32 = 1;
/// Length in bytes of the digest of a drive's description.
pub(super) const DIGEST_BYTES: usize = 32;
/// Length in bytes of the stream's head, and of the head of each record: kind, length, checksum.
const HEAD_BYTES: usize = 8 + 4 + DIGEST_BYTES + 4;
const RECORD_HEAD_BYTES: usize = 12;
/// Length in bytes of the head of a range: region, offset and length.
const RANGE_HEAD_BYTES: usize = 13;
/// Maximum length in bytes of a record. The longest one is a state with full lists.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// Maximum length in bytes of a range of zeros, which is sent without its bytes.
const ZEROS_BYTES_MAX: u32 = 1 << 20;

/// Kinds of records in the stream.
mod kind {
    pub(super) const RANGE: u32 = 1;
    pub(super) const STATE: u32 = 2;
    pub(super) const END: u32 = 3;
}

/// Digest of a drive's description and of a controller's identity.
pub(super) type DriveDigest = [u8; DIGEST_BYTES];

/// Source of the stream of a drive that moves away.
#[derive(Debug)]
pub(super) struct DriveSender {
    store: Arc<Store>,
    /// Bytes of the stream that are ready, of which the first `sent` have been read.
    ready: Vec<u8>,
    sent: usize,
    /// State of the stopped drive, until it is in the stream.
    state: Option<Vec<u8>>,
}

impl DriveSender {
    /// Starts the stream of a drive with this digest, whose store logs changes from now on.
    ///
    /// # Errors
    /// If the drive is moving already, or the file system does not report which bytes have been written.
    pub(super) fn start(store: &Arc<Store>, digest: &DriveDigest) -> io::Result<DriveSender> {
        if store.is_logging_changes() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        store.log_changes()?;
        let head = [&MAGIC[..], &VERSION.to_le_bytes(), digest].concat();
        let ready = [&head[..], &crc32fast::hash(&head).to_le_bytes()].concat();
        Ok(DriveSender { store: Arc::clone(store), ready, sent: 0, state: None })
    }

    /// Adds the state of the drive, which has stopped: the stream ends behind it.
    ///
    /// # Errors
    /// If the file system does not report which metadata has been written.
    pub(super) fn stop_with(&mut self, state: Vec<u8>) -> io::Result<()> {
        // A host may have formatted a namespace with metadata since the log started.
        self.store.log_metadata_changes()?;
        self.state = Some(state);
        Ok(())
    }

    /// Returns up to `count` next bytes of the stream: none if there are no changes now, or the stream has ended.
    ///
    /// # Errors
    /// If the disk does not return the bytes of the drive.
    pub(super) fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.ready.len() - self.sent < count && self.add_record()? {}
        let end = self.ready.len().min(self.sent + count);
        let bytes = self.ready[self.sent..end].to_vec();
        self.sent = end;
        if self.sent == self.ready.len() {
            (self.ready, self.sent) = (Vec::new(), 0);
        }
        Ok(bytes)
    }

    /// Adds the next record to the bytes that are ready; returns false if there is none now.
    fn add_record(&mut self) -> io::Result<bool> {
        if let Some(range) = self.store.take_changed() {
            let bytes = self.store.copy_range(range)?;
            let is_zero = bytes.iter().all(|byte| *byte == 0);
            let head = encode_range_head(range);
            self.push(kind::RANGE, &[&head[..], if is_zero { &[] } else { &bytes }].concat());
        } else if let Some(state) = self.state.take() {
            self.push(kind::STATE, &state);
            self.push(kind::END, &[]);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn push(&mut self, kind: u32, payload: &[u8]) {
        let head = [kind, short_length(payload.len())].map(u32::to_le_bytes).concat();
        self.ready.extend(&head);
        self.ready.extend(checksum(&head, payload).to_le_bytes());
        self.ready.extend(payload);
    }
}

impl Drop for DriveSender {
    fn drop(&mut self) {
        self.store.forget_changes();
    }
}

fn encode_range_head(ChangedRange { region, offset, bytes }: ChangedRange) -> [u8; RANGE_HEAD_BYTES] {
    let mut head = [0; RANGE_HEAD_BYTES];
    head[0] = (region == StoreRegion::Metadata).into();
    head[1..9].copy_from_slice(&offset.to_le_bytes());
    head[9..].copy_from_slice(&u32::try_from(bytes).unwrap_or(0).to_le_bytes());
    head
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// Target of the stream of a drive that moves here.
#[derive(Debug)]
pub(super) struct DriveReceiver {
    store: Arc<Store>,
    digest: DriveDigest,
    /// Bytes of an incomplete record.
    incoming: Vec<u8>,
    has_head: bool,
    /// True once bytes of the stream may be in the store.
    has_written: bool,
    state: Option<Vec<u8>>,
    has_ended: bool,
}

impl DriveReceiver {
    /// Makes the target of a stream, for a drive with this digest.
    pub(super) fn new(store: &Arc<Store>, digest: &DriveDigest) -> DriveReceiver {
        DriveReceiver {
            store: Arc::clone(store),
            digest: *digest,
            incoming: Vec::new(),
            has_head: false,
            has_written: false,
            state: None,
            has_ended: false,
        }
    }

    /// Takes the next bytes of the stream, and writes complete ranges to the store.
    ///
    /// # Errors
    /// If the stream is of another version or drive, or damaged; or if the store has been written or refuses the bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ImageRefusal> {
        self.incoming.extend(bytes);
        let incoming = std::mem::take(&mut self.incoming);
        let mut rest = ImageReader(&incoming);
        while self.take_record(&mut rest)? {}
        self.incoming = rest.0.to_vec();
        Ok(())
    }

    /// Returns the state of the drive once the whole stream has come. The bytes in the store stay.
    ///
    /// # Errors
    /// If the stream has not ended.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, ImageRefusal> {
        let short = || ImageRefusal(String::from("the stream has no end: write all bytes that the source returned"));
        self.state.take().filter(|_| self.has_ended).ok_or_else(short)
    }

    /// Keeps the bytes in the store, since the state of the drive is in force.
    pub(super) fn keep(mut self) {
        self.has_written = false;
    }

    /// Takes the next record off the received bytes; returns false if it is incomplete.
    fn take_record(&mut self, rest: &mut ImageReader<'_>) -> Result<bool, ImageRefusal> {
        if !self.has_head {
            return self.take_head(rest);
        }
        if rest.0.is_empty() {
            return Ok(false);
        }
        if self.has_ended {
            return Err(ImageRefusal(String::from("the stream continues after its end: write each byte once")));
        }
        let Some((head, payload)) = rest.0.split_first_chunk::<RECORD_HEAD_BYTES>() else { return Ok(false) };
        let [kind, bytes, sum] = [0, 1, 2].map(|word| u32::from_le_bytes(head.as_chunks().0[word]));
        if index(bytes) > RECORD_BYTES_MAX {
            return Err(damaged("a record is too long"));
        }
        let Some((payload, others)) = payload.split_at_checked(index(bytes)) else { return Ok(false) };
        if checksum(&head[..8], payload) != sum {
            return Err(damaged("a record has another checksum"));
        }
        rest.0 = others;
        match (kind, &self.state) {
            (kind::RANGE, None) => self.take_range(payload)?,
            (kind::STATE, None) => self.state = Some(payload.to_vec()),
            (kind::END, Some(_)) => self.has_ended = true,
            _ => return Err(damaged("a record is out of order")),
        }
        Ok(true)
    }

    fn take_head(&mut self, rest: &mut ImageReader<'_>) -> Result<bool, ImageRefusal> {
        let Some((head, others)) = rest.0.split_at_checked(HEAD_BYTES) else { return Ok(false) };
        let (fields, sum) = head.split_at(HEAD_BYTES - 4);
        if fields[..8] != MAGIC || sum != crc32fast::hash(fields).to_le_bytes() {
            return Err(damaged("it does not begin like one"));
        }
        let version = u32::from_le_bytes(fields[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            let found = format!("the stream has version {version}, and this server reads version {VERSION}");
            return Err(ImageRefusal(format!("{found}: use the same release of phaselink on both sides")));
        }
        if fields[12..] != self.digest {
            let found = "the stream is of another drive, controller or release of phaselink";
            return Err(ImageRefusal(format!("{found}: serve the same drive file with the same flags on both sides")));
        }
        let is_unwritten = self.store.is_unwritten().map_err(|error| ImageRefusal(error.to_string()))?;
        if !is_unwritten {
            let found = "the target's store has data";
            return Err(ImageRefusal(format!(
                "{found}: serve the target with a store that nothing has been written to"
            )));
        }
        (self.has_head, rest.0) = (true, others);
        Ok(true)
    }

    fn take_range(&mut self, payload: &[u8]) -> Result<(), ImageRefusal> {
        let mut fields = ImageReader(payload);
        let (is_metadata, (offset, bytes)): (bool, (u64, u32)) = fields.field()?;
        let region = if is_metadata { StoreRegion::Metadata } else { StoreRegion::Data };
        let is_valid = match fields.0.is_empty() {
            true => bytes <= ZEROS_BYTES_MAX,
            false => fields.0.len() == index(bytes),
        };
        if !is_valid {
            return Err(damaged("a range has another length"));
        }
        self.has_written = true;
        let zeros = vec![0; if fields.0.is_empty() { index(bytes) } else { 0 }];
        let from = if fields.0.is_empty() { &zeros } else { fields.0 };
        let placed = self.store.place_range(region, offset, from);
        placed.map_err(|error| {
            ImageRefusal(format!("{} bytes at {offset} cannot be written: {error}", length(from.len())))
        })
    }
}

impl Drop for DriveReceiver {
    fn drop(&mut self) {
        if self.has_written {
            // If the disk fails now, later reads report it.
            let _ = self.store.zero(0, self.store.geometry().capacity_bytes, false);
        }
    }
}

fn damaged(what: &str) -> ImageRefusal {
    ImageRefusal(format!("the stream is damaged, {what}: read it from the source again"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::store::Geometry;

    const DIGEST: DriveDigest = [5; DIGEST_BYTES];

    fn store() -> Arc<Store> {
        Arc::new(Store::in_memory(Geometry { capacity_bytes: 1 << 20, block_bytes: 512 }).unwrap())
    }

    /// Returns the stream of a store with some bytes, and a state of three bytes.
    fn stream() -> Vec<u8> {
        let source = store();
        source.write(8192, &[7; 5000]).unwrap();
        let mut sender = DriveSender::start(&source, &DIGEST).unwrap();
        let mut stream = sender.read(100).unwrap();
        source.write(900 << 10, &[8; 512]).unwrap();
        sender.stop_with(vec![1, 2, 3]).unwrap();
        while let Some(more) = Some(sender.read(1000).unwrap()).filter(|more| !more.is_empty()) {
            stream.extend(more);
        }
        stream
    }

    fn receive(target: &Arc<Store>, stream: &[u8], piece: usize) -> Result<Vec<u8>, ImageRefusal> {
        let mut receiver = DriveReceiver::new(target, &DIGEST);
        stream.chunks(piece).try_for_each(|part| receiver.write(part))?;
        let state = receiver.finish()?;
        receiver.keep();
        Ok(state)
    }

    #[test]
    fn stream_in_pieces_of_any_size_makes_an_equal_store() {
        let stream = stream();
        for piece in [1, 13, 4096, stream.len()] {
            let target = store();
            assert_eq!(receive(&target, &stream, piece), Ok(vec![1, 2, 3]));
            let mut found = [0; 5001];
            target.read(8192, &mut found).unwrap();
            assert!(found[..5000] == [7; 5000] && found[5000] == 0);
            target.read(900 << 10, &mut found[..512]).unwrap();
            assert_eq!(found[..512], [8; 512]);
        }
    }

    #[test]
    fn damaged_stream_is_refused_at_every_byte_and_leaves_the_store_unwritten() {
        let (stream, target) = (stream(), store());
        for at in (0..stream.len()).step_by(7).chain(0..HEAD_BYTES + 30) {
            let mut damaged = stream.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(receive(&target, &damaged, 4096).is_err(), "byte {at}");
            assert!(receive(&target, &stream[..at], 4096).is_err(), "cut off at {at}");
            assert!(target.is_unwritten().unwrap());
        }
        let longer = [&stream[..], &[0]].concat();
        assert!(receive(&target, &longer, 4096).is_err());
    }

    #[test]
    fn stream_of_another_drive_or_to_a_store_with_data_is_refused_with_the_reason() {
        let (stream, target) = (stream(), store());
        let refused = DriveReceiver::new(&target, &[6; DIGEST_BYTES]).write(&stream).unwrap_err().0;
        assert!(refused.contains("another drive"), "{refused}");
        target.write(0, &[1]).unwrap();
        let refused = receive(&target, &stream, 4096).unwrap_err().0;
        assert!(refused.contains("store has data"), "{refused}");
        let mut kept = [0];
        target.read(0, &mut kept).unwrap();
        assert_eq!(kept, [1]);
    }

    proptest! {
        #[test]
        fn random_bytes_behind_a_valid_head_are_refused_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u32..5
        ) {
            let target = store();
            let head = [kind, short_length(bytes.len())].map(u32::to_le_bytes).concat();
            let sum = checksum(&head, &bytes).to_le_bytes();
            let stream = [&stream()[..HEAD_BYTES], &head, &sum, &bytes].concat();
            prop_assert!(receive(&target, &stream, 64).is_err());
        }
    }
}
