//! Addresses of NVMe/TCP ports: `127.0.0.1:4420` to serve, `nvme-tcp://127.0.0.1:4420/NQN?digests` to connect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use phaselink_core::problem::Problem;

use super::fabrics::is_valid_nqn;
use super::wire::Digests;

/// TCP port that IANA has assigned to NVMe over TCP.
const PORT: u16 = 4420;
/// Start of an address in the form in which it is announced.
pub const SCHEME: &str = "nvme-tcp://";
/// Option behind an address that lets the client follow discovery records to other addresses.
const FOLLOW_RECORDS: &str = "follow-records";
/// Form of an address of a target.
pub const FORM: &str =
    "nvme-tcp://127.0.0.1:PORT, with /NQN of a subsystem, ?digests, ?keys=FILE and ?follow-records if need be";

/// Parses the address of a port: an IP address or `localhost`, with or without a port, and perhaps with the scheme.
///
/// # Errors
/// If the text has another form, or other machines can reach the address and `is_public` does not allow that.
pub fn parse_port_address(text: &str, is_public: bool) -> Result<SocketAddr, Problem> {
    let problem = |found: &str, allowed: &str| Problem::new(text, None, found, allowed);
    let host = text.strip_prefix(SCHEME).unwrap_or(text).trim_end_matches('/');
    let address =
        parse_socket_address(host).ok_or_else(|| problem("not an IP address with a port", "127.0.0.1:4420"))?;
    if !address.ip().is_loopback() && !is_public {
        let allowed = "127.0.0.1, [::1] or localhost, or --beyond-loopback in a network that you trust";
        return Err(problem("the address can be reached from other machines", allowed));
    }
    Ok(address)
}

fn parse_socket_address(host: &str) -> Option<SocketAddr> {
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, PORT),
    };
    let ip = match name.trim_start_matches('[').trim_end_matches(']') {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

/// Target of a client: port, subsystem and digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAddress {
    /// Address of the port.
    pub port: SocketAddr,
    /// Name of the subsystem; none for the first that the discovery controller lists.
    pub subsystem: Option<String>,
    /// Digests that the client asks for.
    pub digests: Digests,
    /// File with the keys of the host, whose first line also names the host.
    pub keys: Option<String>,
    /// True if the client connects to any address that the discovery controller at the port names; otherwise only to that
    /// of the port.
    pub follows_records: bool,
}

impl TargetAddress {
    /// Returns the target at a port: the first subsystem there, without digests and keys.
    pub fn of(port: SocketAddr) -> TargetAddress {
        TargetAddress { port, subsystem: None, digests: Digests::default(), keys: None, follows_records: false }
    }

    /// Parses the address of a target.
    ///
    /// # Errors
    /// If the text has another form, or other machines can reach the address.
    pub fn parse(text: &str) -> Result<TargetAddress, Problem> {
        let problem = |found: &str| Problem::new(text, None, found, FORM);
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| problem("not an address of an NVMe/TCP port"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        let mut target = TargetAddress::of(parse_port_address(host, false)?);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                None if option == "digests" => target.digests = Digests { header: true, data: true },
                None if option == FOLLOW_RECORDS => target.follows_records = true,
                Some(("keys", file)) if !file.is_empty() => target.keys = Some(String::from(file)),
                _ => return Err(problem("the only options are `digests`, `keys=FILE` and `follow-records`")),
            }
        }
        if !name.is_empty() && !is_valid_nqn(name) {
            return Err(problem("the name of the subsystem is no NVMe Qualified Name"));
        }
        target.subsystem = (!name.is_empty()).then(|| String::from(name));
        Ok(target)
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.port)?;
        self.subsystem.iter().try_for_each(|name| write!(f, "/{name}"))?;
        let digests = (self.digests != Digests::default()).then(|| String::from("digests"));
        let follows = self.follows_records.then(|| String::from(FOLLOW_RECORDS));
        let options: Vec<String> =
            digests.into_iter().chain(self.keys.iter().map(|file| format!("keys={file}"))).chain(follows).collect();
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_addresses_parse_and_print_unchanged() {
        for text in [
            "nvme-tcp://127.0.0.1:4420",
            "nvme-tcp://[::1]:8009/nqn.2014-08.org.nvmexpress.discovery",
            "nvme-tcp://127.0.0.1:4420/nqn.1?digests",
            "nvme-tcp://127.0.0.1:4420?keys=a&follow-records",
        ] {
            assert_eq!(TargetAddress::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(TargetAddress::parse("nvme-tcp://localhost").unwrap().to_string(), "nvme-tcp://127.0.0.1:4420");
        for text in ["nvme-tcp://", "nvme-tcp://10.0.0.1", "nvme-tcp://127.0.0.1/iqn.1", "nvme-tcp://127.0.0.1?x", "x"]
        {
            assert!(TargetAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn port_reachable_from_other_machines_is_refused_without_the_public_flag() {
        assert!(parse_port_address("0.0.0.0:4420", false).is_err());
        assert_eq!(parse_port_address("0.0.0.0:4420", true).unwrap().port(), 4420);
        assert_eq!(parse_port_address("[::1]", false).unwrap().port(), 4420);
    }
}
