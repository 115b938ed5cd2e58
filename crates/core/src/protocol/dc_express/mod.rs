//! DC Express: the endpoint polls the command queues, and the host polls its receive buffers
//! (Vučinić et al., "DC Express: Shortest Latency Protocol for Reading Phase Change Memory over
//! PCI Express", FAST 2014).

pub mod tags;
