//! A Unix socket at which faults are added, listed and cleared while a drive is served.
//!
//! ```text
//!   > add action = "error", operation = "read", every = 4     the rule of a drive file's [[faults]], in one line
//!   < {"added":1}
//!   > list
//!   < {"faults":[{"fault":{"action":"error","every":4,"operation":"read"},"happened":3,"met":12,"number":1}]}
//!   > clear 1                                                  or clear, for all of them
//!   < {"cleared":1}
//!   > path nvme-tcp://127.0.0.1:4420 inaccessible     one path to all namespaces, or to the one whose number follows
//!   < {"path":"nvme-tcp://127.0.0.1:4420","state":"inaccessible"}
//!   > path nvme-tcp://127.0.0.1:4420 optimized after=500ms     the state Change until then
//!   < {"after_ms":500,"path":"nvme-tcp://127.0.0.1:4420","state":"optimized"}
//!   > paths
//!   < {"paths":[{"address":"nvme-tcp://127.0.0.1:4420","namespaces":{},"state":"inaccessible"}]}
//!   > add action = "eror"
//!   < {"problems":["control: faults.action is \"eror\", did you mean error?; allowed: …"]}
//! ```
//!
//! Each line gets one response, in order. [`Conversation`] is the protocol without the socket. It accepts any bytes,
//! and keeps no more than two lines and a response in memory.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{Map, Value, json};

use crate::device::Device;
use crate::device::faults::Faults;
use crate::device::paths::{ListedPathState, PathState, TRANSITION_MAX};
use crate::front::bind_unix_socket;

/// Maximum length of a line from a control client, in bytes.
pub const LINE_BYTES_MAX: usize = 4096;
/// Maximum number of control clients at a time. A further client replaces the one that connected first.
pub const CLIENTS_MAX: usize = 8;
/// Name that messages about a client's line carry in place of a file name.
const PLACE: &str = "control";
const VERBS: &str = "add RULE, list, clear, clear NUMBER, paths or path ADDRESS STATE [NAMESPACE] [after=TIME]";

/// Listening Unix socket for control clients. Its file is removed when the value is dropped. Only the server's own user
/// account may connect.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Creates the control socket at `path`, and listens for clients.
    ///
    /// # Errors
    /// If the path is taken, or no socket can be created there.
    pub fn bind(path: &Path) -> Result<ControlSocket, Problem> {
        let bound = bind_unix_socket(path).and_then(|listener| {
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(ControlSocket { listener, path: path.into() })
        });
        bound.map_err(|error| {
            Problem::new("--control", None, format!("{} cannot be served: {error}", path.display()), "")
        })
    }

    /// Returns the file path of the control socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // If the file has been removed already, there is nothing to do.
        let _ = fs::remove_file(&self.path);
    }
}

/// Executes every line of every control client, and sends the response, and changes paths when it is time, until the device is told to stop. A client that
/// does not read its responses is disconnected.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(socket: &ControlSocket, device: &Device) -> io::Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    while !device.stop.is_requested() {
        let mut polled = vec![PollFd::new(&socket.listener, PollFlags::IN), PollFd::new(&*device.stop, PollFlags::IN)];
        polled.extend(clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        let timeout = device.faults.paths.complete_due(Instant::now()).map(until);
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        clients.retain_mut(|client| client.execute_received_lines(device).is_ok());
        if let Ok((stream, _)) = socket.listener.accept()
            && stream.set_nonblocking(true).is_ok()
        {
            if clients.len() == CLIENTS_MAX {
                clients.remove(0);
            }
            clients.push(Client { stream, conversation: Conversation::default() });
        }
    }
    Ok(())
}

/// Returns the time from now until then.
fn until(due: Instant) -> Timespec {
    let left = due.saturating_duration_since(Instant::now());
    Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() }
}

/// Connected client of the control socket.
struct Client {
    stream: UnixStream,
    conversation: Conversation,
}

impl Client {
    /// Reads what the client has sent, executes every complete line, and sends the responses.
    ///
    /// # Errors
    /// If the client has disconnected, or does not read its responses.
    fn execute_received_lines(&mut self, device: &Device) -> io::Result<()> {
        let mut bytes = [0; LINE_BYTES_MAX];
        let count = match self.stream.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            other => other?,
        };
        self.conversation.add_input(&bytes[..count]);
        while let Some(answer) = self.conversation.answer(&device.drive, &device.faults) {
            self.stream.write_all(format!("{answer}\n").as_bytes())?;
        }
        if self.conversation.is_over { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

/// Control protocol of one client, without its socket: keeps the bytes that have been received and not executed yet.
#[derive(Debug, Default)]
pub struct Conversation {
    heard: Vec<u8>,
    /// True once a line was too long. Nothing more is executed then, as the start of the next line is unknown.
    is_over: bool,
}

impl Conversation {
    /// Adds bytes that a control client has sent, once `answer` has returned none for the bytes before.
    pub fn add_input(&mut self, bytes: &[u8]) {
        self.heard.extend(bytes);
    }

    /// Executes the next complete line and returns the response. Returns none if no line is complete, or after a line
    /// that was too long.
    pub fn answer(&mut self, drive: &Drive, faults: &Faults) -> Option<Value> {
        if self.is_over {
            return None;
        }
        let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') else {
            return (self.heard.len() > LINE_BYTES_MAX).then(|| self.end_conversation_for_long_line());
        };
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        if line.len() > LINE_BYTES_MAX {
            return Some(self.end_conversation_for_long_line());
        }
        let answer = std::str::from_utf8(&line).map_err(|_| invalid_line_problem("the line is no UTF-8"));
        let answer = answer.and_then(|line| execute_line(line.trim(), drive, faults));
        Some(answer.unwrap_or_else(|problems| {
            let told: Vec<String> = problems.0.iter().map(Problem::to_string).collect();
            json!({ "problems": told })
        }))
    }

    fn end_conversation_for_long_line(&mut self) -> Value {
        self.is_over = true;
        self.heard = Vec::new();
        json!({ "problems": [format!("{PLACE}: a line has more than {LINE_BYTES_MAX} bytes")] })
    }

    /// Returns the number of bytes that have been received and not executed yet.
    pub fn kept_bytes(&self) -> usize {
        self.heard.len()
    }
}

fn invalid_line_problem(found: impl Into<String>) -> Problems {
    Problem::new(PLACE, None, found, VERBS).into()
}

/// Executes one line (`add`, `list` or `clear`) on the fault rules, and returns the response.
fn execute_line(line: &str, drive: &Drive, faults: &Faults) -> Result<Value, Problems> {
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (verb, rest.trim()) {
        ("add", rule) => add(rule, drive, faults),
        _ if line.starts_with('{') => add(line, drive, faults),
        ("list", "") => Ok(json!({ "faults": faults.list() })),
        ("clear", "") => Ok(json!({ "cleared": faults.clear(None) })),
        ("clear", number) => {
            let number =
                number.parse().map_err(|_| invalid_line_problem(format!("`{number}` is no number of a rule")))?;
            match faults.clear(Some(number)) {
                0 => Err(invalid_line_problem(format!("no rule has the number {number}"))),
                cleared => Ok(json!({ "cleared": cleared })),
            }
        }
        ("paths", "") => Ok(json!({ "paths": faults.paths.list().iter().map(path_states_json).collect::<Vec<_>>() })),
        ("path", change) => execute_path_change(change, faults),
        _ => Err(invalid_line_problem(format!("`{line}` is nothing to do"))),
    }
}

/// Returns a path with its states as a JSON value.
fn path_states_json(path: &ListedPathState) -> Value {
    let namespaces: Map<String, Value> =
        path.of_namespaces.iter().map(|(namespace, state)| (namespace.to_string(), state.name().into())).collect();
    json!({ "address": path.address, "state": path.state.name(), "namespaces": namespaces })
}

/// Changes the state of a path: `ADDRESS STATE`, the number of a namespace if it is about one alone, and `after=TIME` if the
/// path is in the state Change until then.
fn execute_path_change(change: &str, faults: &Faults) -> Result<Value, Problems> {
    let (change, after) = match change.rsplit_once("after=") {
        Some((change, time)) => (change, Some(parse_transition_time(time)?)),
        None => (change, None),
    };
    let mut words = change.split_whitespace();
    let (Some(address), Some(name), namespace, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(invalid_line_problem("`path` has an address, a state and perhaps the number of a namespace"));
    };
    let state = PathState::named(name).ok_or_else(|| {
        let states: Vec<&str> = PathState::ALL.iter().map(|(name, _)| *name).collect();
        Problem::new(PLACE, None, format!("`{name}` is no state of a path"), states.join(", "))
    })?;
    let namespace = namespace.map(|number| match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(invalid_line_problem(format!("`{number}` is no number of a namespace"))),
    });
    let namespace = namespace.transpose()?;
    let is_path = match after {
        Some(time) => faults.paths.set_path_state_after_transition(address, namespace, state, Instant::now() + time),
        None => faults.paths.set(address, namespace, state),
    };
    if !is_path {
        let known: Vec<String> = faults.paths.list().into_iter().map(|path| path.address).collect();
        let known = if known.is_empty() { String::from("none: no controller is served") } else { known.join(", ") };
        return Err(Problem::new(PLACE, None, format!("`{address}` is no path"), known).into());
    }
    let mut answer = json!({ "path": address, "state": name });
    if let Some(time) = after {
        answer["after_ms"] = json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }
    Ok(answer)
}

/// Returns the time that a change of a path takes, such as `500ms` or `2s`.
fn parse_transition_time(text: &str) -> Result<Duration, Problems> {
    let (number, unit_ms) = text
        .strip_suffix("ms")
        .map(|number| (number, 1))
        .or(text.strip_suffix('s').map(|number| (number, 1000)))
        .unwrap_or((text, 0));
    let time = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)).map(Duration::from_millis);
    time.filter(|time| unit_ms > 0 && *time <= TRANSITION_MAX).ok_or_else(|| {
        let allowed = format!("whole milliseconds or seconds up to {} s, as in after=500ms", TRANSITION_MAX.as_secs());
        Problem::new(PLACE, None, format!("`after={text}` is no time that a path may take to change"), allowed).into()
    })
}

fn add(rule: &str, drive: &Drive, faults: &Faults) -> Result<Value, Problems> {
    let fault = drive.fault_from_line(PLACE, rule)?;
    Ok(json!({ "added": faults.add(PLACE, fault)? }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phaselink_core::request::{Io, Op};

    use super::*;

    const READ: Io = Io { op: Op::Read, offset: 0, bytes: 512 };

    fn answers(faults: &Faults, text: &str) -> Vec<Value> {
        let drive = Drive::shipped("nvme").unwrap();
        let mut conversation = Conversation::default();
        conversation.add_input(text.as_bytes());
        std::iter::from_fn(|| conversation.answer(&drive, faults)).collect()
    }

    #[test]
    fn fault_rules_are_added_listed_and_cleared_one_per_line() {
        let faults = Faults::default();
        let text = "add action = \"error\", every = 2\n{ action = \"hang\", operation = \"write\" }\r\nlist\nclear 1\nclear\nlist\n";
        let [first, second, list, one, all, none] = <[Value; 6]>::try_from(answers(&faults, text)).unwrap();
        assert_eq!((first, second), (json!({ "added": 1 }), json!({ "added": 2 })));
        let fault = json!({ "action": "hang", "operation": "write" });
        assert_eq!(list["faults"][1], json!({ "number": 2, "fault": fault, "met": 0, "happened": 0 }));
        assert_eq!((one, all, none), (json!({ "cleared": 1 }), json!({ "cleared": 1 }), json!({ "faults": [] })));
        assert_eq!(faults.match_request_fault(0, || Some(READ), |_| true), None);
    }

    #[test]
    fn paths_are_listed_with_the_states_set_before() {
        let faults = Faults::default();
        faults.paths.add(String::from("a"), &Arc::default());
        let [of_all, of_one, list] =
            <[Value; 3]>::try_from(answers(&faults, "path a non-optimized\npath a lost 3\npaths\n")).unwrap();
        assert_eq!((of_all["state"].as_str(), of_one["state"].as_str()), (Some("non-optimized"), Some("lost")));
        let expected = json!({ "address": "a", "state": "non-optimized", "namespaces": { "3": "lost" } });
        assert_eq!(list, json!({ "paths": [expected] }));
        let [later, list] = <[Value; 2]>::try_from(answers(&faults, "path a optimized after=2s\npaths\n")).unwrap();
        assert_eq!(later, json!({ "path": "a", "state": "optimized", "after_ms": 2000 }));
        assert_eq!(list["paths"][0]["state"].as_str(), Some("changing"));
    }

    #[test]
    fn invalid_line_is_reported_and_the_next_line_is_executed() {
        let faults = Faults::default();
        for (line, found) in [
            ("", "`` is nothing to do; allowed: add RULE, list, clear"),
            ("add", "is no fault rule"),
            ("add evry = 2", "did you mean every?"),
            ("add action = \"slow-bank\", factor = 2", "with timing off there are no banks"),
            ("clear x", "`x` is no number of a rule"),
            ("clear 7", "no rule has the number 7"),
            ("drop", "`drop` is nothing to do"),
            ("path", "has an address, a state"),
            (
                "path a gone",
                "`gone` is no state of a path; allowed: optimized, non-optimized, inaccessible, lost, changing",
            ),
            ("path a lost", "`a` is no path; allowed: none"),
            ("path a lost 0", "`0` is no number of a namespace"),
            (
                "path a lost after=11s",
                "`after=11s` is no time that a path may take to change; allowed: whole milliseconds or seconds up to 10 s",
            ),
            ("path a lost after=5", "`after=5` is no time"),
        ] {
            let answers = answers(&faults, &format!("{line}\nlist\n"));
            let problem = answers[0]["problems"][0].as_str().unwrap();
            assert!(problem.starts_with("control: ") && problem.contains(found), "{line}: {problem}");
            assert_eq!(answers[1], json!({ "faults": [] }));
        }
    }

    #[test]
    fn complete_line_is_answered_and_an_overlong_line_ends_the_conversation() {
        let (drive, faults) = (Drive::shipped("nvme").unwrap(), Faults::default());
        let mut conversation = Conversation::default();
        conversation.add_input(b"li");
        assert_eq!(conversation.answer(&drive, &faults), None);
        conversation.add_input(b"st\n");
        assert!(conversation.answer(&drive, &faults).is_some());
        conversation.add_input(&[b'x'; LINE_BYTES_MAX]);
        assert_eq!(conversation.answer(&drive, &faults), None);
        conversation.add_input(b"x\nlist\n");
        let told = conversation.answer(&drive, &faults).unwrap();
        assert!(told["problems"][0].as_str().unwrap().contains("more than 4096 bytes"), "{told}");
        assert_eq!((conversation.answer(&drive, &faults), conversation.kept_bytes()), (None, 0));
    }
}
