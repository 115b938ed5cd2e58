//! Shell commands that are listened to, and ended when they take too long.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Between two looks at whether the user has stopped us.
const LOOK: Duration = Duration::from_millis(100);

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exited(i32),
    /// By a signal that somebody else has sent.
    Killed(i32),
    /// It took longer than allowed.
    TimedOut,
    /// The user has stopped us.
    Stopped,
}

impl End {
    /// In words, after "the check".
    pub(super) fn words(self) -> String {
        match self {
            End::Exited(code) => format!("ended with exit code {code}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
            End::TimedOut => String::from("took longer than --timeout allows"),
            End::Stopped => String::from("was stopped"),
        }
    }
}

/// A command for the shell, in a process group of its own.
pub(super) fn shell(text: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text]).stdin(Stdio::null()).process_group(0);
    command
}

/// Run a command to its end, which comes after `limit` at the latest, or when it is `stopped`, and hand over what comes out of `output` until then.
/// Whatever of it is left running in its process group is ended, too.
///
/// # Errors
/// If it cannot be run.
pub(super) fn run(
    command: &mut Command,
    output: PipeReader,
    limit: Option<Duration>,
    stopped: impl Fn() -> bool,
    mut hear: impl FnMut(&[u8]),
) -> io::Result<End> {
    let mut child = command.spawn()?;
    // The command's own ends of the pipe: as long as they are open here, it has no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    rustix::io::ioctl_fionbio(&output, true)?;
    let ended = listen(&mut child, output, limit, stopped, &mut hear);
    end_group(&child);
    let status = child.wait()?;
    Ok(match ended? {
        Some(end) => end,
        None => end_of(status),
    })
}

/// Wait for the end; none if it has come by itself.
fn listen(
    child: &mut Child,
    mut output: PipeReader,
    limit: Option<Duration>,
    stopped: impl Fn() -> bool,
    hear: &mut impl FnMut(&[u8]),
) -> io::Result<Option<End>> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let until = limit.map(|limit| Instant::now() + limit);
    let mut is_open = true;
    loop {
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        let mut polled = vec![PollFd::new(&process, PollFlags::IN)];
        if is_open {
            polled.push(PollFd::new(&output, PollFlags::IN));
        }
        let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut polled, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            other => drop(other?),
        }
        let has_ended = !polled[0].revents().is_empty();
        is_open = is_open && drain(&mut output, hear)?;
        if has_ended {
            return Ok(None);
        }
        if stopped() {
            return Ok(Some(End::Stopped));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Some(End::TimedOut));
        }
    }
}

/// Read what there is now; false at the end. What prints without end is left for the next look.
fn drain(output: &mut PipeReader, hear: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    let mut piece = [0; 1 << 16];
    for _ in 0..16 {
        match output.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(bytes) => hear(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// End what is left of a command. The group is still its own: the child has not been waited for.
fn end_group(child: &Child) {
    // A group without members is as good as ended.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn end_of(status: ExitStatus) -> End {
    match status.code() {
        Some(code) => End::Exited(code),
        None => End::Killed(status.signal().unwrap_or(0)),
    }
}
