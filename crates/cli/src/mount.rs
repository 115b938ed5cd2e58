//! Mounts a served drive as a plain file or as a file system, for applications that speak none of the server's
//! protocols. External programs (nbdfuse, fuse2fs) do the work, in user space and without root.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::problem::Problem;
use rustix::process::{Pid, Signal, kill_process};

/// Longest time for mounting a drive, and for unmounting; `LOOK` is the pause between two checks of the mount.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);
/// Byte offset of the magic number in an ext2 file system, and the number itself (include/linux/magic.h).
const EXT2_MAGIC: (u64, [u8; 2]) = (1080, [0x53, 0xef]);

/// External program that a mount needs, with the packages of Linux distributions that contain the program.
#[derive(Debug)]
pub(crate) struct MountTool {
    name: &'static str,
    packages: &'static str,
}

/// External program that presents an NBD export as a plain file.
const NBDFUSE: MountTool =
    MountTool { name: "nbdfuse", packages: "libnbd-bin of Debian and Ubuntu, nbdfuse of Fedora" };
/// External programs that are needed to mount a drive as a plain file.
pub(crate) const FILE_TOOLS: &[MountTool] = &[NBDFUSE, MountTool { name: "fusermount3", packages: "fuse3" }];
/// Further external programs that are needed to mount a file system.
pub(crate) const FOLDER_TOOLS: &[MountTool] =
    &[MountTool { name: "mke2fs", packages: "e2fsprogs" }, MountTool { name: "fuse2fs", packages: "fuse2fs" }];

/// Checks that this machine has the external programs and the device `/dev/fuse` that a mount needs.
///
/// # Errors
///
/// If programs or `/dev/fuse` are missing; all missing programs are listed.
pub(crate) fn check(flag: &str, tools: &[&[MountTool]]) -> Result<(), Problem> {
    let missing = || tools.iter().copied().flatten().filter(|tool| !is_program_installed(tool.name));
    if missing().next().is_some() {
        let found: Vec<String> = missing().map(|tool| format!("the program {} is missing", tool.name)).collect();
        let packages: Vec<String> =
            missing().map(|tool| format!("{} by package {}", tool.name, tool.packages)).collect();
        let found = format!("{}: mounting the drive needs it", found.join(", "));
        return Err(Problem::new(flag, None, found, format!("a system with {}", packages.join(", "))));
    }
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.map(drop).map_err(|error| {
        let found = format!("/dev/fuse cannot be opened: {error}");
        Problem::new(flag, None, found, "a system with /dev/fuse for this user")
    })
}

/// Returns true if a program is on PATH, or in /usr/sbin or /sbin.
fn is_program_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)).any(|folder| folder.join(name).is_file())
}

/// Folders with administrators' programs such as mke2fs, which are not on every user's PATH.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Returns a command for an external program, with the folders of administrators' programs added to PATH.
fn tool(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut command = Command::new(name);
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    command
}

/// Mounted plain file or file system on a served drive, which is unmounted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    flag: &'static str,
    program: &'static str,
    child: Child,
    /// Path of the file or folder that has to be unmounted.
    point: PathBuf,
}

impl Mount {
    /// Mounts the NBD export at `uri` with nbdfuse, as a plain file of `capacity_bytes` bytes at `file`. An existing
    /// file becomes the mount point, otherwise the folder of `file`.
    ///
    /// # Errors
    ///
    /// If nbdfuse cannot mount the export.
    pub(crate) fn file(flag: &'static str, file: &Path, uri: &str, capacity_bytes: u64) -> Result<Mount, Problem> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let point = if file.exists() { file } else { folder };
        let mut command = Command::new(NBDFUSE.name);
        command.arg(file).arg(uri);
        let mount = Mount::start(flag, NBDFUSE.name, command, point)?;
        mount.wait_until_mounted(|| fs::metadata(file).is_ok_and(|metadata| metadata.len() == capacity_bytes))
    }

    /// Mounts the ext2 file system in a plain file at `folder`, with fuse2fs. If the plain file has none, makes a file
    /// system of `bytes` bytes first.
    ///
    /// # Errors
    ///
    /// If mke2fs or fuse2fs fails.
    pub(crate) fn folder(flag: &'static str, file: &Path, folder: &Path, bytes: u64) -> Result<Mount, Problem> {
        if !has_ext2_file_system(file) {
            make_file_system(flag, file, bytes)?;
        }
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
        let before = device(folder);
        let mut command = Command::new("fuse2fs");
        command.args(["-f", "-o", "fakeroot"]).arg(file).arg(folder);
        Mount::start(flag, "fuse2fs", command, folder)?.wait_until_mounted(|| device(folder) != before)
    }

    fn start(flag: &'static str, program: &'static str, mut command: Command, point: &Path) -> Result<Mount, Problem> {
        // Put the program in its own process group. Then Ctrl-C reaches only this process, which unmounts first.
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn();
        let child = child.map_err(|error| program_start_problem(flag, program, &error))?;
        Ok(Mount { flag, program, child, point: point.into() })
    }

    fn wait_until_mounted(mut self, is_mounted: impl Fn() -> bool) -> Result<Mount, Problem> {
        let until = Instant::now() + PATIENCE;
        while !is_mounted() {
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Instant::now() > until {
                let found =
                    format!("{} cannot mount the drive, though its programs and /dev/fuse are there", self.program);
                let allowed = "a system that lets this user mount, as no container does by itself";
                return Err(Problem::new(self.flag, None, found, allowed));
            }
            thread::sleep(LOOK);
        }
        Ok(self)
    }

    /// Unmounts the file or file system, which writes the operating system's cached data to the drive.
    ///
    /// # Errors
    ///
    /// If another program still uses the mounted file or folder.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > until {
                let found = format!("{} is still in use when the command of --run has ended", self.point.display());
                return Err(Problem::new(self.flag, None, found, "a command that ends what it starts"));
            }
            unmount(&self.point, &[]);
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        unmount(&self.point, &["-z"]);
        // The program normally ends when it is unmounted. Terminate it in any case.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn program_start_problem(flag: &str, program: &str, error: &io::Error) -> Problem {
    Problem::new(flag, None, format!("{program} cannot be run: {error}"), "")
}

/// Returns true if a plain file contains a file system of the ext2 family.
fn has_ext2_file_system(file: &Path) -> bool {
    let (place, magic) = EXT2_MAGIC;
    let read = || {
        let (mut file, mut found) = (fs::File::open(file)?, [0; 2]);
        file.seek(SeekFrom::Start(place))?;
        file.read_exact(&mut found).map(|()| found)
    };
    read().is_ok_and(|found: [u8; 2]| found == magic)
}

/// Makes an ext2 file system of `bytes` bytes at the beginning of a plain file.
fn make_file_system(flag: &str, file: &Path, bytes: u64) -> Result<(), Problem> {
    const BLOCK_BYTES: u64 = 4096;
    let mut command = tool("mke2fs");
    command.args(["-q", "-F", "-t", "ext2", "-b", "4096", "-E", "nodiscard"]).arg(file);
    command.arg((bytes / BLOCK_BYTES).to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            Err(Problem::new(flag, None, format!("mke2fs makes no file system of {bytes} bytes"), "a larger size"))
        }
        Err(error) => Err(program_start_problem(flag, "mke2fs", &error)),
    }
}

/// Runs fusermount to request the unmounting of `point`. The mount is gone when its FUSE program ends.
fn unmount(point: &Path, flags: &[&str]) {
    for program in ["fusermount3", "fusermount"] {
        let mut command = Command::new(program);
        command.arg("-u").args(flags).arg(point);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if quiet.status().is_ok() {
            return;
        }
    }
}
