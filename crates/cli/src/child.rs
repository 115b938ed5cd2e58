//! Shell commands whose output is read, and which are killed when they take too long.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Longest time between two checks whether a running shell command must be killed.
const LOOK: Duration = Duration::from_millis(100);

/// Outcome of a shell command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Exited(i32),
    /// The shell command was killed by a signal with this number, which another program has sent.
    Killed(i32),
    /// phaselink killed the shell command, because the command took longer than allowed.
    TimedOut,
    /// phaselink killed the shell command, because the user has stopped phaselink.
    Stopped,
}

impl CommandEnd {
    /// Returns a phrase for the outcome of a shell command, to follow "the command" in a sentence.
    pub(crate) fn words(self) -> String {
        match self {
            CommandEnd::Exited(code) => format!("ended with exit code {code}"),
            CommandEnd::Killed(signal) => format!("was killed by signal {signal}"),
            CommandEnd::TimedOut => String::from("took longer than --timeout allows"),
            CommandEnd::Stopped => String::from("was stopped"),
        }
    }
}

/// Returns a shell command that runs in a process group of its own, without standard input.
pub(crate) fn shell(text: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text]).stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a shell command until the command ends, `limit` is over, or `stopped` returns true. Passes the command's output
/// to `hear`, and kills the remaining processes of the command's group.
///
/// # Errors
///
/// If the shell command cannot be started, or its output cannot be read.
pub(crate) fn run(
    command: &mut Command,
    output: PipeReader,
    limit: Option<Duration>,
    stopped: impl Fn() -> bool,
    mut hear: impl FnMut(&[u8]),
) -> io::Result<CommandEnd> {
    let mut child = command.spawn()?;
    // Close the parent's copies of the pipe's write ends. Otherwise reads would never see the end of the child's
    // output.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    rustix::io::ioctl_fionbio(&output, true)?;
    let ended = read_until_end_or_kill(&mut child, output, limit, stopped, &mut hear);
    end_group(&child);
    let status = child.wait()?;
    Ok(match ended? {
        Some(end) => end,
        None => command_end_of_status(status),
    })
}

/// Reads a shell command's output until the command ends or must be killed. Returns the reason for killing, or none if
/// the command has ended by itself.
fn read_until_end_or_kill(
    child: &mut Child,
    mut output: PipeReader,
    limit: Option<Duration>,
    stopped: impl Fn() -> bool,
    hear: &mut impl FnMut(&[u8]),
) -> io::Result<Option<CommandEnd>> {
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
        is_open = is_open && drain_available_output(&mut output, hear)?;
        if has_ended {
            return Ok(None);
        }
        if stopped() {
            return Ok(Some(CommandEnd::Stopped));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Some(CommandEnd::TimedOut));
        }
    }
}

/// Reads the output of a shell command that is available now, at most 1 MiB, so that endless output cannot delay the
/// caller. Returns false at the end of the output.
fn drain_available_output(output: &mut PipeReader, hear: &mut impl FnMut(&[u8])) -> io::Result<bool> {
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

/// Kills the remaining processes of a shell command's process group. The group's number is still in use, since the
/// child has not been waited for.
fn end_group(child: &Child) {
    // If the group has no processes left, the call fails and nothing remains to do.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn command_end_of_status(status: ExitStatus) -> CommandEnd {
    match status.code() {
        Some(code) => CommandEnd::Exited(code),
        None => CommandEnd::Killed(status.signal().unwrap_or(0)),
    }
}
