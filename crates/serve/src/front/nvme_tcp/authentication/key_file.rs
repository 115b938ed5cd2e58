//! File of keys: which host has which key, in lines as of `authorized_keys`.
//!
//! ```text
//! # host NQN                                 keys and preferences
//! nqn.2014-08.org.nvmexpress:uuid:1b4e28ba   dhchap_key=DHHC-1:01:...: dhchap_ctrl_key=DHHC-1:01:...:
//! nqn.2014-08.org.nvmexpress:uuid:6fa459ea   tls_key=NVMeTLSkey-1:01:...: dhchap_dhgroup=ffdhe3072,ffdhe4096
//! ```
//!
//! The words are those of the attributes of a host in Linux's NVMe target (`/sys/kernel/config/nvmet/hosts`).

use std::sync::Arc;

use phaselink_core::problem::{Problem, Problems};

use super::group::DhGroup;
use super::hash::Hash;
use super::keys::{DhchapSecret, InvalidKey, TlsKey};

/// Groups in the order of preference, unless a line says otherwise: 3072 bits are strong and take some milliseconds.
const GROUPS: [DhGroup; 6] =
    [DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe6144, DhGroup::Ffdhe8192, DhGroup::Ffdhe2048, DhGroup::Null];

/// Keys of one host, and what it may authenticate with.
#[derive(Clone, Debug, Default)]
pub struct HostAuthenticationKeys {
    /// Secret of the host for DH-HMAC-CHAP. If it is there, the host has to authenticate.
    pub dhchap: Option<DhchapSecret>,
    /// Secret of the subsystem, with which the controller authenticates itself to the host.
    pub dhchap_controller: Option<DhchapSecret>,
    /// Pre-shared key for TLS. If it is there, the host has to use TLS.
    pub tls: Option<TlsKey>,
    hashes: Vec<Hash>,
    groups: Vec<DhGroup>,
}

impl HostAuthenticationKeys {
    /// Returns the hash functions that may be used, the preferred one first.
    pub fn hashes(&self) -> Vec<Hash> {
        if self.hashes.is_empty() { Hash::ALL.to_vec() } else { self.hashes.clone() }
    }

    /// Returns the Diffie-Hellman groups that may be used, the preferred one first.
    pub fn groups(&self) -> Vec<DhGroup> {
        if self.groups.is_empty() { GROUPS.to_vec() } else { self.groups.clone() }
    }

    /// Sets one attribute.
    fn set(&mut self, word: &str, value: &str) -> Result<(), Fault> {
        match word {
            "dhchap_key" => set_key_once(&mut self.dhchap, DhchapSecret::parse(value)),
            "dhchap_ctrl_key" => set_key_once(&mut self.dhchap_controller, DhchapSecret::parse(value)),
            "tls_key" => set_key_once(&mut self.tls, TlsKey::parse(value)),
            "dhchap_hash" => set_list_once(&mut self.hashes, value, Hash::from_name, &Hash::ALL.map(Hash::name)),
            "dhchap_dhgroup" => {
                set_list_once(&mut self.groups, value, DhGroup::from_name, &DhGroup::ALL.map(DhGroup::name))
            }
            _ => Err(Fault::new("not an attribute of a host", WORDS)),
        }
    }

    /// Returns true if one of the secrets for DH-HMAC-CHAP is this one.
    fn has(&self, secret: &DhchapSecret) -> bool {
        [&self.dhchap, &self.dhchap_controller].into_iter().flatten().any(|own| own.is_same(secret))
    }
}

/// Attributes of a line, for messages.
const WORDS: &str = "dhchap_key=, dhchap_ctrl_key=, tls_key=, dhchap_hash=, dhchap_dhgroup=";

/// Fault of an attribute: what was found, and what is allowed.
struct Fault {
    found: String,
    allowed: String,
}

impl Fault {
    fn new(found: impl Into<String>, allowed: impl Into<String>) -> Fault {
        Fault { found: found.into(), allowed: allowed.into() }
    }
}

fn set_key_once<K>(place: &mut Option<K>, key: Result<K, InvalidKey>) -> Result<(), Fault> {
    let key = key
        .map_err(|fault| Fault::new(format!("not a key: {fault}"), "what nvme gen-dhchap-key or gen-tls-key prints"))?;
    if place.replace(key).is_some() {
        return Err(Fault::new("given twice for this host", "one key of each kind"));
    }
    Ok(())
}

fn set_list_once<T>(
    place: &mut Vec<T>,
    value: &str,
    of_name: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<(), Fault> {
    let allowed = || Fault::new(format!("{value} is not a list of them"), names.join(", "));
    *place = value.split(',').map(|name| of_name(name).ok_or_else(allowed)).collect::<Result<_, _>>()?;
    Ok(())
}

/// Keys of all hosts that may connect.
#[derive(Clone, Debug, Default)]
pub struct HostKeyFile {
    hosts: Vec<(String, Arc<HostAuthenticationKeys>)>,
}

impl HostKeyFile {
    /// Reads a file of keys.
    ///
    /// # Errors
    /// All problems of the file, none of which has a part of a key in its words.
    pub fn parse(path: &str, text: &str) -> Result<HostKeyFile, Problems> {
        let (mut hosts, mut problems) = (Vec::<(String, HostAuthenticationKeys)>::new(), Problems::default());
        for (line, text) in (1..).zip(text.lines()) {
            let mut words = text.split('#').next().unwrap_or_default().split_whitespace();
            let Some(host) = words.next() else { continue };
            if !host.starts_with("nqn.") {
                problems.0.push(Problem::new(path, line, "the line does not begin with the NQN of a host", "nqn...."));
                continue;
            }
            let at = hosts.iter().position(|(name, _)| name == host).unwrap_or_else(|| {
                hosts.push((String::from(host), HostAuthenticationKeys::default()));
                hosts.len() - 1
            });
            for word in words {
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                if let Err(Fault { found, allowed }) = hosts[at].1.set(name, value) {
                    let name = if WORDS.contains(name) { name } else { "a word of the line" };
                    problems.0.push(Problem::new(path, line, format!("{name}: {found}"), allowed));
                }
            }
        }
        problems.or(HostKeyFile { hosts: hosts.into_iter().map(|(name, keys)| (name, Arc::new(keys))).collect() })
    }

    /// Returns the keys of a host; none if it may not connect.
    pub fn host(&self, nqn: &str) -> Option<&Arc<HostAuthenticationKeys>> {
        self.hosts.iter().find(|(name, _)| name == nqn).map(|(_, keys)| keys)
    }

    /// Returns all hosts with their keys.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &Arc<HostAuthenticationKeys>)> {
        self.hosts.iter().map(|(name, keys)| (&name[..], keys))
    }

    /// Returns warnings for who runs the server: a secret of more than one name proves neither (section 8.3.4.5.7), and a
    /// secret of a controller without one of the host never counts.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, (name, keys)) in self.hosts.iter().enumerate() {
            let shared = keys.dhchap.as_ref().and_then(|secret| {
                let others = self.hosts[at + 1..].iter().find(|(_, keys)| keys.has(secret));
                others.map(|(other, _)| format!("{name} and {other} have the same secret: give each host its own"))
            });
            let own =
                keys.dhchap.as_ref().zip(keys.dhchap_controller.as_ref()).filter(|(one, other)| one.is_same(other));
            found.extend(shared);
            found.extend(own.map(|_| format!("{name}: dhchap_key and dhchap_ctrl_key are the same secret")));
            if keys.dhchap_controller.is_some() && keys.dhchap.is_none() {
                found.push(format!("{name}: dhchap_ctrl_key has no effect without dhchap_key"));
            }
        }
        found
    }
}

/// Returns a warning if others than its owner may read a file, or none. Programs that keep keys in files warn so.
pub fn permission_warning(path: &str, mode: u32) -> Option<String> {
    let others = mode & 0o077;
    (others != 0)
        .then(|| format!("{path}: others may read or change its keys (mode {:04o}): chmod 600 {path}", mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
    const OTHER: &str = "DHHC-1:01:eNNXGjidEHHStbUi2Gmpps0JcnofReFfy+NaulguGgt327hz:";
    const TLS: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    #[test]
    fn key_file_lines_give_hosts_their_keys_and_preferences() {
        let text = format!(
            "# keys\n\nnqn.a dhchap_key={SECRET} dhchap_hash=hmac(sha384),sha512 # of a\nnqn.b tls_key={TLS}\n\
             nqn.a dhchap_ctrl_key={OTHER} dhchap_dhgroup=ffdhe8192,null\nnqn.c\n"
        );
        let file = HostKeyFile::parse("keys", &text).unwrap();
        let [a, b] = ["nqn.a", "nqn.b"].map(|name| file.host(name).unwrap());
        assert!(a.dhchap.is_some() && a.dhchap_controller.is_some() && a.tls.is_none());
        assert_eq!(a.hashes(), [Hash::Sha384, Hash::Sha512]);
        assert_eq!(a.groups(), [DhGroup::Ffdhe8192, DhGroup::Null]);
        assert!(b.tls.is_some() && b.dhchap.is_none() && b.hashes() == Hash::ALL && b.groups().len() == 6);
        assert!(file.host("nqn.c").is_some() && file.host("nqn.d").is_none());
        assert_eq!((file.hosts().count(), file.warnings()), (3, Vec::<String>::new()));
        assert!(!format!("{file:?}").contains("rPTE"));
    }

    #[test]
    fn all_key_file_errors_are_reported_with_lines_and_without_keys() {
        let text = format!(
            "nqn.a dhchap_key={SECRET} dhchap_key={OTHER}\n{SECRET} nqn.b\nnqn.b tls_key={SECRET} {OTHER}\n\
             nqn.c dhchap_hash=md5 dhchap_dhgroup=\n"
        );
        let problems = HostKeyFile::parse("keys", &text).unwrap_err().to_string();
        for part in
            ["keys:1", "given twice", "keys:2", "NQN of a host", "keys:3", "not a key", "keys:4", "sha256, sha384"]
        {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        for part in ["rPTE", "eNNX", "VRLb"] {
            assert!(!problems.contains(part), "{problems}");
        }
    }

    #[test]
    fn warnings_name_shared_secrets_and_key_files_readable_by_others() {
        let text = format!(
            "nqn.a dhchap_key={SECRET}\nnqn.b dhchap_key={OTHER} dhchap_ctrl_key={SECRET}\n\
             nqn.c dhchap_key={OTHER} dhchap_ctrl_key={OTHER}\nnqn.d dhchap_ctrl_key={SECRET}\n"
        );
        let warnings = HostKeyFile::parse("keys", &text).unwrap().warnings();
        assert_eq!(
            warnings,
            [
                "nqn.a and nqn.b have the same secret: give each host its own",
                "nqn.b and nqn.c have the same secret: give each host its own",
                "nqn.c: dhchap_key and dhchap_ctrl_key are the same secret",
                "nqn.d: dhchap_ctrl_key has no effect without dhchap_key",
            ]
        );
        assert_eq!(permission_warning("keys", 0o100_600), None);
        assert!(permission_warning("keys", 0o100_640).unwrap().contains("0640"));
    }
}
