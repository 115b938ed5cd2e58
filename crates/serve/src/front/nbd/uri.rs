//! NBD addresses (the NBD project's doc/uri.md): `nbd://127.0.0.1:10809/export`, `nbd+unix:///export?socket=PATH`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use phaselink_core::number::low_u8;
use phaselink_core::problem::Problem;

/// TCP port that IANA has assigned to NBD.
const PORT: u16 = 10809;

/// Network address of an NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of the server's Unix socket.
    Unix(PathBuf),
    /// TCP address on the loopback interface.
    Tcp(SocketAddr),
}

/// Address of an NBD server, and the name of one of its exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Network address of the server.
    pub place: Address,
    /// Name of the export, the block device of the NBD server to which a client connects.
    pub export: String,
}

impl Uri {
    /// Parses the URI of an NBD export.
    ///
    /// # Errors
    /// If the text is no NBD URI, or if other machines can reach the address: the server does not authenticate clients.
    pub fn parse(text: &str) -> Result<Uri, Problem> {
        let problem = |found: &str, allowed: &str| Problem::new(text, None, found, allowed);
        let shape = "nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT";
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            let parts = rest.strip_prefix('/').and_then(|rest| rest.split_once("?socket="));
            let decoded = parts.and_then(|(export, path)| Some((percent_decode(export)?, percent_decode(path)?)));
            let (export, path) = decoded.ok_or_else(|| problem("not an address of a Unix socket", shape))?;
            if path.is_empty() {
                return Err(problem("the socket has no path", shape));
            }
            return Ok(Uri { place: Address::Unix(path.into()), export });
        }
        let rest = text.strip_prefix("nbd://").ok_or_else(|| problem("not an NBD address", shape))?;
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = percent_decode(export).ok_or_else(|| problem("the name of the export is not text", shape))?;
        let address = address(host).ok_or_else(|| problem("the host is no IP address", shape))?;
        if !address.ip().is_loopback() {
            return Err(problem("the address can be reached from other machines", "127.0.0.1, [::1] or localhost"));
        }
        Ok(Uri { place: Address::Tcp(address), export })
    }
}

/// Parses the host of an NBD URI, with or without a port: `127.0.0.1`, `localhost:10810`, `[::1]:10809`.
fn address(host: &str) -> Option<SocketAddr> {
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

/// Decodes percent-encoded bytes (`%41` is `A`); none if one is malformed, or if the result is no UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                low_u8(digit(rest.next())? << 4 | digit(rest.next())?)
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes the characters that have a meaning in a URI: `%`, `?`, `#` and control characters.
fn percent_encode(text: &str) -> String {
    let has_meaning = |character: char| matches!(character, '%' | '?' | '#') || character.is_ascii_control();
    let encoded = |character: char| match has_meaning(character) {
        true => format!("%{:02x}", u32::from(character)),
        false => character.to_string(),
    };
    text.chars().map(encoded).collect()
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = percent_encode(&self.export);
        match &self.place {
            Address::Unix(path) => write!(f, "nbd+unix:///{export}?socket={}", percent_encode(&path.to_string_lossy())),
            Address::Tcp(address) => write!(f, "nbd://{address}/{export}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_and_tcp_nbd_uris_parse_and_print_unchanged() {
        for text in ["nbd+unix:///?socket=/run/a b", "nbd://127.0.0.1:10810/disk", "nbd://[::1]:10809/"] {
            assert_eq!(Uri::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Uri::parse("nbd://localhost").unwrap().to_string(), "nbd://127.0.0.1:10809/");
        assert_eq!(Uri::parse("nbd://[::1]").unwrap().to_string(), "nbd://[::1]:10809/");
        let uri = Uri::parse("nbd+unix:///my%20disk?socket=x%3fy").unwrap();
        assert_eq!((uri.export.as_str(), uri.place), ("my disk", Address::Unix("x?y".into())));
    }

    #[test]
    fn reserved_characters_in_an_nbd_uri_print_escaped_and_parse_back() {
        for text in ["nbd+unix:///a%3fsocket=b?socket=100%25%3f", "nbd://[::1]:10809/%2541%23%0a"] {
            let uri = Uri::parse(text).unwrap();
            assert_eq!(uri.to_string(), text);
            assert_eq!(Uri::parse(&uri.to_string()).unwrap(), uri);
        }
    }

    #[test]
    fn nbd_address_reachable_from_other_machines_is_refused() {
        for text in ["nbd://0.0.0.0/", "nbd://192.168.1.1:10809/", "nbd://[::]/"] {
            let problem = Uri::parse(text).unwrap_err().to_string();
            assert!(problem.contains("can be reached from other machines"), "{problem}");
        }
    }

    #[test]
    fn malformed_nbd_uri_is_refused() {
        let wrong = [
            "",
            "nbd",
            "http://x",
            "nbd+unix:///x",
            "nbd+unix:///?socket=",
            "nbd://a b/",
            "nbd+unix:///%f?socket=x",
            "nbd+unix:///%+f?socket=x",
        ];
        for text in wrong {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }
}
