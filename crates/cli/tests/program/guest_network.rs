//! A Debian guest in an emulated machine, whose own initiator attaches a served drive over NVMe/TCP.
//!
//! `guest/rig.sh` fetches QEMU, a kernel and nvme-cli once, into the user's cache; `guest/network-init` is what the guest
//! does. Where they cannot be fetched the test says that it has been left out, but fails in continuous integration.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{directory, program};
use crate::guest::{Console, RIG, rig_is_here};

/// A boot and one part of the test take 30 s of processor time; this is for machines that are busy with much else.
const PATIENCE: Duration = Duration::from_secs(900);

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const SECRET: &str = "DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
const CONTROLLER_SECRET: &str = "DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
const WRONG_SECRET: &str = "DHHC-1:01:KD+sfH3/o2bRQoV0ESjBUywQlMnSaYpZISUbVa0k0nsWpNST:";

/// A server at one port, which may be ended and started again, and the guest in front of it.
struct Rig {
    here: PathBuf,
    port: u16,
    arguments: Vec<String>,
    server: Child,
}

impl Rig {
    fn new(name: &str, arguments: &[&str]) -> Rig {
        let here = directory(name);
        // Free now, and again after a server has ended.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments: Vec<String> = arguments.iter().map(|argument| String::from(*argument)).collect();
        let server = serve(&here, port, &arguments);
        Rig { here, port, arguments, server }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).unwrap();
    }

    /// Runs the guest with these words until it is switched off, and does to the server what it asks for.
    fn run(&mut self, words: &[String]) -> Console {
        let mut guest = Command::new(RIG);
        guest.arg("network").arg(&self.here).arg(format!("port={}", self.port)).args(words);
        let mut guest = guest.stdin(Stdio::null()).spawn().unwrap();
        let (start, mut done) = (Instant::now(), 0);
        while guest.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                guest.kill().unwrap();
            }
            let console = Console::of(&self.here);
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
                    _ => {}
                }
            }
            done = done.max(asked.len());
            thread::sleep(Duration::from_millis(50));
        }
        let console = Console::of(&self.here);
        assert!(console.said("failed").is_empty() && console.said("all parts done").len() == 1, "{}", console.text);
        console
    }
}

impl Drop for Rig {
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
fn linux_discovers_a_drive_over_nvme_tcp_and_reads_what_it_writes() {
    if !rig_is_here() {
        return;
    }
    let mut rig = Rig::new("guest-network", &["--store", "bytes"]);
    let console = rig.run(&[String::from("parts=discover,digests")]);
    assert_eq!(console.said("records: "), [format!("1 | {} | 127.0.0.1", rig.port)], "{}", console.text);
    let verified = console.said("verified ");
    assert_eq!(verified, ["connect-all", "--hdr-digest", "--data-digest", "--hdr-digest --data-digest"]);
    assert!(console.said("drive: ").iter().all(|drive| drive.contains("phaselink nvme | 67108864 bytes")));
}

#[test]
fn linux_finds_its_data_again_after_its_nvme_tcp_server_was_silent_or_killed() {
    if !rig_is_here() {
        return;
    }
    let console = Rig::new("guest-network-faults", &["--store", "bytes"]).run(&[String::from("parts=faults")]);
    assert_eq!(console.said("verified after "), ["stop", "kill"], "{}", console.text);
}

#[test]
fn linux_authenticates_over_nvme_tcp_and_is_refused_with_other_keys() {
    if !rig_is_here() {
        return;
    }
    let keys = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest-network.keys");
    fs::write(&keys, format!("{HOST} dhchap_key={SECRET} dhchap_ctrl_key={CONTROLLER_SECRET}\n")).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let mut rig = Rig::new("guest-network-keys", &["--nvme-tcp-keys", &keys.display().to_string()]);
    let words = [("secret", SECRET), ("controller_secret", CONTROLLER_SECRET), ("wrong_secret", WRONG_SECRET)];
    let words = words.map(|(name, secret)| format!("{name}={secret}"));
    let console = rig.run(&[&[String::from("parts=keys")], &words[..]].concat());
    assert_eq!(console.said("refused").len(), 3, "{}", console.text);
    assert_eq!(console.said("verified "), ["--dhchap-secret", "--dhchap-secret --dhchap-ctrl-secret"]);
}

#[test]
fn linux_writes_zones_over_nvme_tcp_at_their_pointers() {
    if !rig_is_here() {
        return;
    }
    let keys = ["zones.size_mib=8", "zones.capacity_mib=6", "zones.open_max=2", "zones.active_max=3"];
    let arguments: Vec<&str> = keys.iter().flat_map(|key| ["--set", key]).collect();
    let console = Rig::new("guest-network-zones", &arguments).run(&[String::from("parts=zones")]);
    assert_eq!(console.said("zones: "), ["host-managed, 8 of 16384 sectors, 2 open, 3 active"], "{}", console.text);
}
