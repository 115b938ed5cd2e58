//! Writes to streams that hosts choose (flexible data placement), and the bytes written and programmed for each
//! placement handle.

use super::Flash;
use super::late::Progress;
use crate::config;
use crate::media::translation::{FlashWriteStream, HostStreams, TranslationLayer};
use crate::number::narrow;
use crate::time::Time;

macro_rules! handle_counters {
    ($($handle:literal)+) => {
        /// Names of the counters of each placement handle, by handle: bytes written, and write amplification in percent,
        /// of the run and of the second half of its writes.
        const HANDLE_COUNTERS: &[[&str; 3]] = &[
            $([
                concat!("handle_", $handle, "_written_bytes"),
                concat!("handle_", $handle, "_write_amplification_percent"),
                concat!("handle_", $handle, "_late_write_amplification_percent"),
            ],)+
        ];
    };
}
handle_counters! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
    16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
}

/// Streams that hosts choose, the stream of the current write, and the bytes that hosts have written to each.
#[derive(Clone, Debug)]
pub(super) struct HostPlacedWrites {
    streams: HostStreams,
    /// Number of the host-selected stream that the current write goes to.
    stream: u8,
    /// Number of bytes that hosts have written to each host-selected stream, by stream number.
    written_bytes: Vec<u64>,
}

impl HostPlacedWrites {
    pub(super) fn new(streams: HostStreams) -> HostPlacedWrites {
        HostPlacedWrites { streams, stream: 0, written_bytes: vec![0; streams.user().into()] }
    }

    /// Returns the number of the host-selected stream that the current write goes to.
    #[inline]
    pub(super) fn stream(&self) -> u8 {
        self.stream
    }

    /// Adds the `bytes` of a write to the total of the current stream.
    pub(super) fn count(&mut self, bytes: u32) {
        self.written_bytes[usize::from(self.stream)] += u64::from(bytes);
    }

    /// Returns the bytes written to each placement handle, and those that were programmed for it, by handle. A handle has
    /// one stream in each reclaim group, which are added up.
    pub(super) fn progress(&self, layer: &TranslationLayer, unit_bytes: u64) -> Vec<Progress> {
        let Some((_, counts)) = layer.placed() else { return Vec::new() };
        let handles = usize::from(self.streams.handles);
        let of_handle = |handle: usize| {
            let streams = (handle..counts.len()).step_by(handles);
            let written = streams.clone().map(|stream| self.written_bytes[stream]).sum();
            Progress {
                written,
                programmed: streams.map(|stream| counts[stream].programmed()).sum::<u64>() * unit_bytes,
            }
        };
        (0..handles).map(of_handle).collect()
    }

    /// Returns the counters of each placement handle that has been written: bytes written, and write amplification in
    /// percent, also of the second half of the run if `late` has it. Each is a pair of name and value.
    pub(super) fn counters(&self, progress: &[Progress], late: &[Option<u64>]) -> Vec<(&'static str, u64)> {
        let mut counters = Vec::new();
        for (handle, (names, Progress { written, programmed })) in HANDLE_COUNTERS.iter().zip(progress).enumerate() {
            if *written > 0 {
                let percent = narrow::<u64, u128>(u128::from(*programmed) * 100 / u128::from(*written));
                counters.extend([(names[0], *written), (names[1], percent)]);
                counters.extend(late.get(handle).copied().flatten().map(|percent| (names[2], percent)));
            }
        }
        counters
    }
}

impl Flash {
    /// Creates a flash drive with data placement, whose hosts may choose streams, from a configuration that has been
    /// checked.
    pub fn placed(
        media: &config::Media,
        buffer: &config::Buffer,
        translation: &config::Translation,
        placement: &config::DataPlacement,
        seed: u64,
    ) -> Flash {
        Flash::with_translation_shape(
            super::shape_with_placement(media, translation, placement),
            media,
            buffer,
            translation,
            seed,
        )
    }

    /// Selects the stream that the next writes go to. Does nothing if hosts cannot choose streams.
    #[inline]
    pub(in crate::media) fn select_stream(&mut self, stream: u8) {
        if let Some(placed) = &mut self.placed {
            placed.stream = stream;
        }
    }

    /// Makes a host-selected stream continue in a new reclaim unit, if its current one has been written to. Programs
    /// the stream's open line first, although incomplete.
    pub fn begin_unit(&mut self, now: Time, stream: u8) {
        let stream = self.translation.stream_of_open_unit(stream);
        let units = self.lines[usize::from(stream)].units;
        if units > 0 {
            let left = self.layout.units_per_line(self.lines[usize::from(stream)].block) - units;
            self.translation.skip(FlashWriteStream::User(stream), left);
            self.program_stream_line(now, now, stream);
        }
        self.translation.close(stream);
    }
}
