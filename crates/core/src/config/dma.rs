//! Keys of a drive file that describe the device's DMA engine.

use crate::config::section::{any, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The device's DMA engine, between its controller and the link. By default there is none, and moving data costs time on the link alone.
    pub struct Dma ("dma") {
        /// Time of the DMA engine to read the descriptor of a transfer; descriptors of other transfers are read meanwhile
        descriptor_ns => descriptor: Span = ZERO, ZERO..=LONGEST;
        /// Time for which the data that one request reads from host memory occupies the DMA engine, beyond `piece_ns`
        from_host_ns => from_host: Span = ZERO, ZERO..=LONGEST;
        /// Time for which a transfer to host memory occupies the DMA engine, beyond `piece_ns`
        to_host_ns => to_host: Span = ZERO, ZERO..=LONGEST;
        /// Time for which each piece of a transfer occupies the DMA engine
        piece_ns => piece: Span = ZERO, ZERO..=LONGEST;
        /// Time for which each piece of a transfer to host memory occupies the DMA engine; 0: `piece_ns`
        to_host_piece_ns => to_host_piece: Span = ZERO, ZERO..=LONGEST;
        /// Size of a piece of a transfer to host memory; 0: `piece_bytes`
        to_host_piece_bytes => to_host_piece_bytes: u32 = 0, [0, 8, 16, 32, 64, 128, 256, 512];
        /// Size of a piece: what the DMA engine moves at once between the link and the device's own memory
        piece_bytes => piece_bytes: u32 = 64, [8, 16, 32, 64, 128, 256, 512];
        /// True if the DMA engine moves pieces in both directions at once, false if they take turns
        full_duplex => full_duplex: bool = false, any();
        /// Word size of the device's own memory: a transfer from host memory that ends within a word costs a further piece, because the word has to be read first
        word_bytes => word_bytes: u32 = 1, [1, 2, 4, 8, 16, 32, 64];
        /// Time to fetch data from the device's own memory before it goes to host memory; data of other transfers is fetched meanwhile
        fetch_ns => fetch: Span = ZERO, ZERO..=LONGEST;
        /// Rate at which data is fetched from the device's own memory before it goes to host memory, beside `fetch_ns`; 0: at once
        fetch_bytes_per_ns => fetch_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Rate of the device's own memory, which both directions of a full-duplex engine share; 0: no limit
        memory_bytes_per_ns => memory_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// True if a transfer from host memory is stored as a whole once all of its requests have come, false if each request is stored by itself
        store_whole => store_whole: bool = false, any();
        /// Rate at which data from host memory is stored in the device, once all data of a request has come and before it counts as arrived; 0: at once
        store_bytes_per_ns => store_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Address multiple at which the DMA engine splits reads of host memory into requests; 0: as the link splits them (Max_Read_Request_Size)
        request_bytes => request_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Number of requests that the DMA engine has in flight, each from its descriptor until its data is stored; 0: no limit
        requests => requests: u16 = 0, 0..=4096;
    }
}

impl Dma {
    /// True if transfers occupy the DMA engine, so that they are served one after another.
    pub fn takes_turns(&self) -> bool {
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
