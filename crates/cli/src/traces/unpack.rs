//! Reads files in pieces, and decompresses files in gzip or zstd format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use phaselink_core::number::length;
use phaselink_core::problem::Problem;
use phaselink_core::workload::trace::Pieces;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Number of bytes of a trace file that are read and decompressed at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum size in bytes of a trace from a pipe or a device, which is kept in memory since it cannot be read again.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// First bytes of gzip files (RFC 1952, section 2.3.1); `ZSTD` has the first bytes of zstd files (RFC 8878, section
/// 3.1.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the content of a file in pieces, decompressed if the file begins with the magic number of gzip or zstd.
///
/// # Errors
///
/// If the file cannot be opened.
pub(super) fn pieces(path: &str, is_lasting: bool) -> Result<Pieces, Problem> {
    let unreadable = |error: io::Error| Problem::new(path, None, format!("cannot be read: {error}"), "");
    let mut file = BufReader::with_capacity(PIECE_BYTES, File::open(Path::new(path)).map_err(unreadable)?);
    let start = file.fill_buf().map_err(unreadable)?;
    let (is_gzip, is_zstd) = (start.starts_with(&GZIP), start.starts_with(&ZSTD));
    let reader: Box<dyn Read + Send + Sync> = match () {
        () if is_gzip => Box::new(MultiGzDecoder::new(file)),
        () if is_zstd => Box::new(ZstdFrames::new(file)),
        () => Box::new(file),
    };
    let left = if is_lasting { u64::MAX } else { STREAM_BYTES_MAX };
    Ok(Box::new(UncompressedLines { path: path.into(), reader, left, is_over: false }))
}

/// Lines of a trace file, uncompressed while they are read.
struct UncompressedLines {
    path: String,
    reader: Box<dyn Read + Send + Sync>,
    /// Number of bytes that may still be read before the trace is refused as too long; unlimited for a file that can be
    /// read again.
    left: u64,
    is_over: bool,
}

impl Iterator for UncompressedLines {
    type Item = Result<Vec<u8>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let problem = match self.reader.by_ref().take(length(PIECE_BYTES)).read_to_end(&mut piece) {
            Ok(0) => {
                self.is_over = true;
                return None;
            }
            Ok(bytes) if length(bytes) <= self.left => {
                self.left -= length(bytes);
                return Some(Ok(piece));
            }
            Ok(_) => {
                let allowed = format!("at most {STREAM_BYTES_MAX} bytes from what cannot be read twice, or a file");
                Problem::new(&self.path, None, "the stream is too long", allowed)
            }
            Err(error) => Problem::new(&self.path, None, format!("cannot be read: {error}"), ""),
        };
        self.is_over = true;
        Some(Err(problem))
    }
}

/// Reader that decompresses all frames of a zstd file, one after the other.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> ZstdFrames<R> {
        ZstdFrames { source, decoder: FrameDecoder::new(), is_in_frame: false }
    }

    /// Starts the next zstd frame. Returns false at the end of the file.
    fn begin_next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Ends a zstd frame, and checks its checksum if it has one.
    fn end(&mut self) -> io::Result<()> {
        self.is_in_frame = false;
        let written = self.decoder.get_checksum_from_data();
        match written.is_some() && written != self.decoder.get_calculated_checksum() {
            true => Err(io::Error::other("the checksum of a zstd frame is wrong")),
            false => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame && !self.begin_next_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            }
            let bytes = self.decoder.read(into)?;
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            self.end()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn unpacked(name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let path = std::env::temp_dir().join(format!("phaselink-unpack-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let pieces = pieces(path.to_str().unwrap(), true).map_err(|problem| problem.to_string());
        let read = pieces.and_then(|mut pieces| {
            pieces.try_fold(Vec::new(), |mut all, piece| {
                all.extend(piece.map_err(|problem| problem.to_string())?);
                Ok(all)
            })
        });
        std::fs::remove_file(&path).unwrap();
        read
    }

    fn gzip_compressed_bytes(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd_compressed_bytes(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn text() -> Vec<u8> {
        (0..100_000).flat_map(|number| format!("{number},R,{}\n", number * 4096 % 77777).into_bytes()).collect()
    }

    #[test]
    fn compressed_and_plain_traces_in_parts_read_alike() {
        let text = text();
        let twice = text.repeat(2);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd_compressed_bytes(&text)].concat();
        assert_eq!(unpacked("plain", &text), Ok(text.clone()));
        assert_eq!(unpacked("gz", &gzip_compressed_bytes(&text)), Ok(text.clone()));
        assert_eq!(unpacked("gz2", &gzip_compressed_bytes(&text).repeat(2)), Ok(twice.clone()));
        assert_eq!(unpacked("zst", &zstd_compressed_bytes(&text)), Ok(text.clone()));
        assert_eq!(unpacked("zst2", &[zstd_compressed_bytes(&text), skippable].concat()), Ok(twice));
        assert_eq!(unpacked("empty", &[]), Ok(vec![]));
    }

    #[test]
    fn damaged_compressed_traces_cause_no_panic() {
        let text = &text()[..5000];
        for (is_zstd, packed) in [(false, gzip_compressed_bytes(text)), (true, zstd_compressed_bytes(text))] {
            for (place, bit) in (0..packed.len()).flat_map(|place| [0, 3, 7].map(|bit| (place, bit))) {
                let mut damaged = packed.clone();
                damaged[place] ^= 1 << bit;
                let mut reader: Box<dyn Read> = match is_zstd {
                    true => Box::new(ZstdFrames::new(&damaged[..])),
                    false => Box::new(MultiGzDecoder::new(&damaged[..])),
                };
                let mut unpacked = Vec::new();
                // Reading damaged data must return, with an error or with bytes, and not panic.
                let _ = reader.by_ref().take(1 << 20).read_to_end(&mut unpacked);
            }
        }
    }

    #[test]
    fn truncated_or_damaged_compressed_trace_is_an_error() {
        let text = text();
        for (name, packed) in [("gz", gzip_compressed_bytes(&text)), ("zst", zstd_compressed_bytes(&text))] {
            let cut = unpacked(&format!("cut-{name}"), &packed[..packed.len() - 9]);
            assert!(cut.as_ref().is_err_and(|problem| problem.contains("cannot be read")), "{name}: {cut:?}");
            let mut damaged = packed.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x55;
            let damaged = unpacked(&format!("damaged-{name}"), &damaged);
            assert!(damaged.is_err(), "{name}");
        }
    }
}
