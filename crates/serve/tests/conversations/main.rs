//! Conversations with controllers and the store on the test's own thread: no sockets, no server.

mod nbd;
mod nvme;
mod nvme_bench;
mod nvme_key_value;
mod nvme_management;
mod nvme_namespaces;
mod nvme_placement;
mod nvme_protection;
mod nvme_queues;
mod nvme_reservations;
mod nvme_zones;
mod store;
mod two_controllers;
mod wall;
