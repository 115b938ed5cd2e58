//! A served drive on threads of its own, as clients of vfio-user, vhost-user and NBD meet it.

mod background;
mod device_threads;
mod faults;
mod flushes;
mod strict;
mod together;
mod vfio_client;
mod vfio_threads;
mod vfio_user;
mod vhost_guest;
mod vhost_user;
