//! Front-ends: the ways by which hosts reach a device. Each is one folder.

pub mod nbd;
pub mod shm;
pub mod vfio_user;
