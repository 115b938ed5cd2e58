//! Drive that `phaselink crash` serves over vfio-user: to the recorded commands, and to check commands with the blocks
//! and zones of a crash image.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use phaselink_core::crash::view::{BlockContents, ImageBlocks};
use phaselink_core::drive::Drive;
use phaselink_core::media::zones::Zones;
use phaselink_core::number::{length, wide_index};
use phaselink_core::problem::Problem;
use phaselink_serve::device::history::History;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::front::kind::Front;
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser, socket_path};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

/// Maximum number of bytes of a crash image that are copied to a store at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Folder with the socket at which a command finds the drive.
#[derive(Clone, Debug)]
pub(super) struct SocketFolder {
    folder: PathBuf,
}

impl SocketFolder {
    /// Makes a folder for a vfio-user socket below `within`. User-space drivers such as SPDK are given the folder's
    /// path, not the socket's.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made.
    pub(super) fn create(within: &Path) -> io::Result<SocketFolder> {
        let folder = within.join("drive");
        fs::create_dir(&folder)?;
        Ok(SocketFolder { folder })
    }

    /// Returns the path of the socket in the folder.
    pub(super) fn path(&self) -> PathBuf {
        socket_path(&self.folder)
    }

    /// Binds the socket and returns the front-end for clients of the drive.
    ///
    /// # Errors
    ///
    /// If the protocol cannot express the drive, the drive has metadata beside its blocks, or the socket cannot be
    /// bound.
    pub(super) fn bind(&self, drive: &Drive, geometry: Geometry) -> Result<Box<dyn Front>, Problem> {
        let socket = ControllerSocket::bind(&self.folder, drive, geometry, 0)?;
        if socket.limits().kind.metadata().is_some() {
            let found = format!("--vfio-user: {} has metadata beside its blocks, which is not recorded", drive.name);
            return Err(Problem::new("crash", None, found, "a drive whose blocks have no metadata"));
        }
        Ok(Box::new(VfioUser(vec![socket])))
    }
}

/// Returns a server for a store, with timing off and one front-end.
pub(super) fn server(
    drive: &Drive,
    store: Store,
    history: Option<Arc<History>>,
    stop: Arc<StopRequest>,
    front: Box<dyn Front>,
) -> Server {
    let device = Device {
        drive: Arc::new(drive.clone()),
        store: Arc::new(store),
        tallies: Arc::default(),
        record: None,
        history,
        faults: Arc::default(),
        stop,
    };
    Server {
        device,
        timing: false,
        wait: Wait::Adaptive,
        seed: 1,
        fronts: vec![front],
        metrics: None,
        device_threads: 1,
        control: None,
    }
}

/// Runs the server until `work` has returned. `work` gets a function that returns true once `work` should stop: the
/// user has stopped phaselink, or the server has ended by itself, so that clients would wait for ever.
///
/// # Errors
///
/// If the server fails.
pub(super) fn serve_during<T>(
    server: &Server,
    stopped: &AtomicBool,
    work: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> io::Result<T> {
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run());
        let _stop = server.device.stop.stop_when_dropped();
        let worked = work(&|| stopped.load(Ordering::Relaxed) || server.device.stop.is_requested());
        server.device.stop.request();
        let served = serving.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")));
        served.map(|_| worked)
    })
}

/// Returns a store in memory with the blocks of a crash image, which are zeros outside `footprint`, and with zones if
/// given.
///
/// # Errors
///
/// If the system has no memory for it.
pub(super) fn store_of(
    image: ImageBlocks<'_>,
    footprint: &[Range<usize>],
    zones: Option<&Zones>,
) -> Result<Store, Problem> {
    let recording = image.recording;
    let block_bytes = recording.rules.block_bytes;
    let mut store = Store::in_memory(Geometry { capacity_bytes: recording.capacity_bytes, block_bytes })?;
    if let Some(survived) = zones {
        store = store.with_zones(*survived.layout())?;
        store.zones().into_iter().for_each(|zones| zones.with(|zones| zones.clone_from(survived)));
    }
    let unwritable = |error: io::Error| Problem::new("crash", None, format!("no memory for an image: {error}"), "");
    let mut bytes = Vec::new();
    // Compare with a drive of zeros, so that the differences are exactly the ranges that are not zero.
    let zeros = vec![BlockContents::ZEROS; image.sources.len()];
    let longest = wide_index(PIECE_BYTES / u64::from(block_bytes));
    for range in image.differences(&zeros, footprint, 0, longest) {
        let [start, end] = [range.start, range.end].map(|block| length(block) * u64::from(block_bytes));
        bytes.clear();
        image.append(start..end, &mut bytes);
        store.write(start, &bytes).map_err(unwritable)?;
    }
    Ok(store)
}
