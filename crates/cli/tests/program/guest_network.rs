//! A Debian guest in an emulated machine, whose own initiator attaches a served drive over NVMe/TCP.
//!
//! `guest/rig.sh` fetches QEMU, a kernel and nvme-cli once, into the user's cache; `guest/network-init` is what the guest
//! does. Where they cannot be fetched the test says that it has been left out, but fails in continuous integration.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{directory, program};
use crate::guest::{GuestConsole, RIG, has_guest_rig};

/// A boot and one part of the test take 30 s of processor time; this is for machines that are busy with much else.
const PATIENCE: Duration = Duration::from_secs(900);

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const SECRET: &str = "DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
const CONTROLLER_SECRET: &str = "DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
const WRONG_SECRET: &str = "DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";

/// Number of losses of a path in the test of multipath, unless a variable of the environment asks for more.
const LOSSES: &str = "6";
const LOSSES_VARIABLE: &str = "PHASELINK_PATH_LOSSES";

/// Connections of a relay: none while it is cut.
#[derive(Default)]
struct RelayConnections {
    is_cut: bool,
    open: Vec<TcpStream>,
}

/// Path of a guest: a port whose connections lead to a port of the server, until they are cut.
struct TcpRelay {
    port: u16,
    server_port: u16,
    state: Arc<Mutex<RelayConnections>>,
}

impl TcpRelay {
    /// A relay to a port of the server. Its threads end with the test program.
    fn new(server_port: u16) -> TcpRelay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::<Mutex<RelayConnections>>::default());
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for guest in listener.incoming().flatten() {
                let mut state = of_thread.lock().unwrap();
                let server = TcpStream::connect(("127.0.0.1", server_port)).ok().filter(|_| !state.is_cut);
                let Some(server) = server else { continue };
                for (from, to) in [(&guest, &server), (&server, &guest)] {
                    let [from, to] = [from, to].map(|stream| stream.try_clone().unwrap());
                    state.open.push(from.try_clone().unwrap());
                    thread::spawn(move || copy(&from, &to));
                }
            }
        });
        TcpRelay { port, server_port, state }
    }

    /// Ends all connections, and every new one until the relay is joined.
    fn set_relay_cut(&self, is_cut: bool) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = is_cut;
        // A connection that the other side has ended cannot be shut down.
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

/// Copies bytes until one side ends, and ends the other.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    [from, to].iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}

/// A server at one port, which may be ended and started again, and the guest in front of it.
struct NetworkRig {
    here: PathBuf,
    port: u16,
    arguments: Vec<String>,
    server: Child,
    /// Paths of the guest whose connections can be cut.
    relays: Vec<TcpRelay>,
}

impl NetworkRig {
    fn new(name: &str, arguments: &[&str]) -> NetworkRig {
        let here = directory(name);
        // The port is free now, and stays the same when the server is restarted.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments: Vec<String> = arguments.iter().map(|argument| String::from(*argument)).collect();
        let server = serve(&here, port, &arguments);
        NetworkRig { here, port, arguments, server, relays: Vec::new() }
    }

    /// A server at two ports, to which two relays lead.
    fn with_two_paths(name: &str) -> NetworkRig {
        let second = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut rig =
            NetworkRig::new(name, &["--nvme-tcp", &format!("127.0.0.1:{second}"), "--control", "control.sock"]);
        rig.relays = [rig.port, second].map(TcpRelay::new).into();
        rig
    }

    /// Changes the state of a path, whose number begins with 1.
    fn set_path_state(&self, number: usize, state: &str) {
        let change = format!("nvme-tcp://127.0.0.1:{} {state}", self.relays[number - 1].server_port);
        let mut fault = program();
        fault.current_dir(&self.here).args(["fault", "control.sock", "--path-state", &change]);
        assert!(fault.stdout(Stdio::null()).status().unwrap().success(), "{change}");
    }

    /// Does to a path what the guest asks for: `path 1 inaccessible`, `cut path 1` or `join path 1`.
    fn apply_path_command(&self, asked: &str) {
        match *asked.split(' ').collect::<Vec<_>>() {
            ["path", number, state] => self.set_path_state(number.parse().unwrap(), state),
            [verb @ ("cut" | "join"), "path", number] => {
                self.relays[number.parse::<usize>().unwrap() - 1].set_relay_cut(verb == "cut");
            }
            _ => {}
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).unwrap();
    }

    /// Runs the guest with these words until it is switched off, and does to the server what it asks for.
    fn run(&mut self, words: &[String]) -> GuestConsole {
        let mut guest = Command::new(RIG);
        guest.arg("network").arg(&self.here).arg(format!("port={}", self.port)).args(words);
        let mut guest = guest.stdin(Stdio::null()).spawn().unwrap();
        let (start, mut done) = (Instant::now(), 0);
        while guest.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                guest.kill().unwrap();
            }
            let console = GuestConsole::of(&self.here);
            let asked = console.said("");
            for word in asked.iter().skip(done) {
                match *word {
                    "stop the server" => self.signal(Signal::STOP),
                    "lost after stop" => self.signal(Signal::CONT),
                    "kill the server" => self.signal(Signal::KILL),
                    "lost after kill" => {
                        self.server.wait().unwrap();
                        self.server = serve(&self.here, self.port, &self.arguments);
                    }
                    asked => self.apply_path_command(asked),
                }
            }
            done = done.max(asked.len());
            thread::sleep(Duration::from_millis(50));
        }
        let console = GuestConsole::of(&self.here);
        assert!(console.said("failed").is_empty() && console.said("all parts done").len() == 1, "{}", console.text);
        console
    }
}

impl Drop for NetworkRig {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn serve(here: &Path, port: u16, arguments: &[String]) -> Child {
    let mut command = program();
    command.current_dir(here).args(["serve", "nvme", "--set", "media.capacity_mib=64", "--timing", "off"]);
    command.args(["--wait", "block", "--lag-tolerance-us", "1e9", "--nvme-tcp", &format!("127.0.0.1:{port}")]);
    command.args(arguments).stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn linux_discovers_and_uses_a_drive_over_nvme_tcp() {
    if !has_guest_rig() {
        return;
    }
    let mut rig = NetworkRig::new("guest-network", &["--store", "bytes"]);
    let console = rig.run(&[String::from("parts=discover,digests")]);
    assert_eq!(console.said("records: "), [format!("1 | {} | 127.0.0.1", rig.port)], "{}", console.text);
    let verified = console.said("verified ");
    assert_eq!(verified, ["connect-all", "--hdr-digest", "--data-digest", "--hdr-digest --data-digest"]);
    assert!(console.said("drive: ").iter().all(|drive| drive.contains("phaselink nvme | 67108864 bytes")));
}

#[test]
fn linux_recovers_its_data_after_a_silent_or_killed_nvme_tcp_server() {
    if !has_guest_rig() {
        return;
    }
    let console = NetworkRig::new("guest-network-faults", &["--store", "bytes"]).run(&[String::from("parts=faults")]);
    assert_eq!(console.said("verified after "), ["stop", "kill"], "{}", console.text);
}

#[test]
fn linux_authenticates_over_nvme_tcp_and_is_refused_with_wrong_keys() {
    if !has_guest_rig() {
        return;
    }
    let keys = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest-network.keys");
    fs::write(&keys, format!("{HOST} dhchap_key={SECRET} dhchap_ctrl_key={CONTROLLER_SECRET}\n")).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let mut rig = NetworkRig::new("guest-network-keys", &["--nvme-tcp-keys", &keys.display().to_string()]);
    let words = [("secret", SECRET), ("controller_secret", CONTROLLER_SECRET), ("wrong_secret", WRONG_SECRET)];
    let words = words.map(|(name, secret)| format!("{name}={secret}"));
    let console = rig.run(&[&[String::from("parts=keys")], &words[..]].concat());
    assert_eq!(console.said("refused").len(), 3, "{}", console.text);
    assert_eq!(console.said("verified "), ["--dhchap-secret", "--dhchap-secret --dhchap-ctrl-secret"]);
}

#[test]
fn linux_writes_zones_over_nvme_tcp() {
    if !has_guest_rig() {
        return;
    }
    let keys = ["zones.size_mib=8", "zones.capacity_mib=6", "zones.open_max=2", "zones.active_max=3"];
    let arguments: Vec<&str> = keys.iter().flat_map(|key| ["--set", key]).collect();
    let console = NetworkRig::new("guest-network-zones", &arguments).run(&[String::from("parts=zones")]);
    assert_eq!(console.said("zones: "), ["host-managed, 8 of 16384 sectors, 2 open, 3 active"], "{}", console.text);
}

#[test]
fn linux_multipath_sees_no_error_over_path_losses() {
    if !has_guest_rig() {
        return;
    }
    let losses = env::var(LOSSES_VARIABLE).unwrap_or(String::from(LOSSES));
    let mut rig = NetworkRig::with_two_paths("guest-network-paths");
    // If a word is given twice, the guest uses the last one, so a test can override the default.
    let ports = ["port", "second"].into_iter().zip(&rig.relays).map(|(name, relay)| format!("{name}={}", relay.port));
    let words: Vec<String> = ports.chain([format!("losses={losses}"), String::from("parts=paths")]).collect();
    let console = rig.run(&words);
    assert_eq!(console.said("multipath: "), ["1 drive, 2 paths, round-robin"], "{}", console.text);
    let done = console.said("losses: ");
    assert!(done.len() == 1 && done[0].starts_with(&format!("{losses}, ")), "{done:?}");
}

#[test]
fn linux_reservation_commands_of_two_hosts_follow_the_matrix() {
    if !has_guest_rig() {
        return;
    }
    // With multipath on, the kernel would treat the two hosts as two paths of one host.
    let words = ["parts=reservations", "nvme_core.multipath=N"].map(String::from);
    let console = NetworkRig::new("guest-network-reservations", &[]).run(&words);
    let types: Vec<&str> = (1..=6).flat_map(|kind| console.said(&format!("type {kind}: "))).collect();
    let expected = [
        "holder rw, other r, registrant r",
        "holder rw, other nothing, registrant nothing",
        "holder rw, other r, registrant rw",
        "holder rw, other nothing, registrant rw",
        "holder rw, other r, registrant rw",
        "holder rw, other nothing, registrant rw",
    ];
    assert_eq!(types, expected, "{}", console.text);
    assert_eq!(console.said("acquire by "), ["the other: Reservation Conflict", "a registrant: Reservation Conflict"]);
    assert_eq!(console.said("preempted: "), ["nothing, new holder rw"]);
    assert_eq!(console.said("release by "), ["the preempted: Reservation Conflict"]);
    assert_eq!(console.said("cleared: "), ["rw and rw"]);
}
