//! Keys of a drive file that describe the device's DMA engine.

use crate::config::section::{any, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The device's DMA engine, between its controller and the link. By default there is none, and moving data costs time on the link alone.
    pub struct Dma ("dma") {
        /// Time in which the device's DMA engine reads the descriptor of a transfer; descriptors of several transfers
        /// are read at a time
        descriptor_ns => descriptor: Span = ZERO, ZERO..=LONGEST;
        /// Service time of the DMA engine for the data of one read request to host memory, in addition to
        /// `dma.piece_ns` for each piece
        from_host_ns => from_host: Span = ZERO, ZERO..=LONGEST;
        /// Service time of the DMA engine for one transfer to host memory, in addition to the time for each piece of
        /// the transfer
        to_host_ns => to_host: Span = ZERO, ZERO..=LONGEST;
        /// Service time of the DMA engine for each piece (`dma.piece_bytes`) of a transfer
        piece_ns => piece: Span = ZERO, ZERO..=LONGEST;
        /// Service time of the DMA engine for each piece (`dma.to_host_piece_bytes`) of a transfer to host memory; 0:
        /// as `dma.piece_ns`
        to_host_piece_ns => to_host_piece: Span = ZERO, ZERO..=LONGEST;
        /// Number of bytes that the DMA engine moves to host memory at once (a piece); 0: as `dma.piece_bytes`
        to_host_piece_bytes => to_host_piece_bytes: u32 = 0, [0, 8, 16, 32, 64, 128, 256, 512];
        /// Number of bytes that the DMA engine moves at once between the link and the device's own memory (a piece)
        piece_bytes => piece_bytes: u32 = 64, [8, 16, 32, 64, 128, 256, 512], with piece_ns;
        /// True if the DMA engine moves data in both directions at once, false if the directions take turns
        full_duplex => full_duplex: bool = false, any(), needs DmaTurns;
        /// Word size of the device's own memory, in bytes: a DMA transfer from host memory that ends within a word
        /// costs a further piece, because the engine has to read the word first
        word_bytes => word_bytes: u32 = 1, [1, 2, 4, 8, 16, 32, 64], with piece_ns;
        /// Time in which the DMA engine fetches data from the device's own memory before a transfer to host memory;
        /// data of several transfers is fetched at a time
        fetch_ns => fetch: Span = ZERO, ZERO..=LONGEST;
        /// Rate at which the DMA engine fetches data from the device's own memory before a transfer to host memory, in
        /// addition to `dma.fetch_ns`; 0: unlimited
        fetch_bytes_per_ns => fetch_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Bandwidth of the device's own memory, which both directions of a full-duplex DMA engine share; 0: unlimited
        memory_bytes_per_ns => memory_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// True if the DMA engine stores a transfer from host memory after all of its read requests have returned;
        /// false if the engine stores the data of each read request separately
        store_whole => store_whole: bool = false, any();
        /// Rate at which the DMA engine stores data from host memory in the device, after all data of a read request
        /// has arrived; the data counts as received after this. 0: unlimited
        store_bytes_per_ns => store_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Address multiple at which the DMA engine splits a read of host memory into read requests, in bytes; 0: at
        /// `link.max_read_request_bytes`
        request_bytes => request_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Number of read requests that the DMA engine keeps in flight, each from its descriptor until its data is
        /// stored; 0: no limit
        requests => requests: u16 = 0, 0..=4096;
    }
}

impl Dma {
    /// True if transfers occupy the DMA engine, so that they are served one after another.
    pub fn serves_in_turn(&self) -> bool {
        [self.from_host, self.to_host, self.piece, self.to_host_piece].iter().any(|time| !time.is_zero())
    }

    /// True if the device has a DMA engine, that is, if any of its keys costs time or limits requests.
    pub fn is_there(&self) -> bool {
        let times = [self.descriptor, self.from_host, self.to_host, self.piece, self.fetch];
        times.iter().any(|time| !time.is_zero())
            || self.store_bytes_per_ns > 0.0
            || self.request_bytes > 0
            || self.requests > 0
    }
}
