//! Keys of a device's DMA engine.

use crate::config::section::{any, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The device's DMA engine, between its controller and the link. By default there is none, and moving data costs the link alone.
    pub struct Dma ("dma") {
        /// Time to take in the descriptor of a transfer; those of others are taken in meanwhile
        descriptor_ns => descriptor: Span = ZERO, ZERO..=LONGEST;
        /// Time for which what a request brings from host memory keeps the engine, beside its pieces
        from_host_ns => from_host: Span = ZERO, ZERO..=LONGEST;
        /// Time for which a transfer to host memory keeps the engine, beside its pieces
        to_host_ns => to_host: Span = ZERO, ZERO..=LONGEST;
        /// Time for which each piece of a transfer keeps the engine
        piece_ns => piece: Span = ZERO, ZERO..=LONGEST;
        /// Bytes of a piece: what the engine moves at once between the link and the device's own memory
        piece_bytes => piece_bytes: u32 = 64, [8, 16, 32, 64, 128, 256, 512];
        /// Whether the pieces of both directions are moved at once, rather than in turns
        full_duplex => full_duplex: bool = false, any();
        /// Words of the device's own memory: a transfer from host memory that ends within one costs a further piece, as the word has to be read first
        word_bytes => word_bytes: u32 = 1, [1, 2, 4, 8, 16, 32, 64];
        /// Time to fetch data from the device's own memory before they go to host memory; those of other transfers are fetched meanwhile
        fetch_ns => fetch: Span = ZERO, ZERO..=LONGEST;
        /// Rate at which what has come from host memory is stored, once all of a request is there and before it counts as arrived, or 0 for at once
        store_bytes_per_ns => store_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// What is asked of host memory is cut into requests at multiples of this address, or 0 for where the link cuts it (Max_Read_Request_Size)
        request_bytes => request_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Requests at a time, each from its descriptor until what it asked for is stored; 0 for any number
        requests => requests: u16 = 0, 0..=4096;
    }
}

impl Dma {
    /// Whether anything is moved in turns.
    pub fn takes_turns(&self) -> bool {
        [self.from_host, self.to_host, self.piece].iter().any(|time| !time.is_zero())
    }

    /// Whether there is an engine at all: anything that costs or limits.
    pub fn is_there(&self) -> bool {
        let times = [self.descriptor, self.from_host, self.to_host, self.piece, self.fetch];
        times.iter().any(|time| !time.is_zero())
            || self.store_bytes_per_ns > 0.0
            || self.request_bytes > 0
            || self.requests > 0
    }
}
