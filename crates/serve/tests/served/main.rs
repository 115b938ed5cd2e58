//! A served drive on threads of its own, as clients of vfio-user, vhost-user, NVMe/TCP and NBD meet it.

mod background;
mod device_threads;
mod faults;
mod flushes;
mod nvme_tcp;
mod nvme_tcp_faults;
mod nvme_tcp_kinds;
mod nvme_tcp_paths;
mod nvme_tcp_reservations;
mod nvme_tcp_security;
mod strict;
mod together;
mod vfio_client;
mod vfio_migration;
mod vfio_threads;
mod vfio_user;
mod vhost_guest;
mod vhost_user;
