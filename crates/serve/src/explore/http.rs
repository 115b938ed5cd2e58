//! As much of HTTP/1.1 as a page and its questions need (RFC 9112): the head of a request, and who may ask. No I/O.
//!
//! Pages of other sites run in the same browser. They may not ask: their `Origin` is told by the browser (RFC 6454), and
//! a name of theirs that is made to lead here stands in `Host`.

/// The longest head that is read.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest question: a drive file has some thousand bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Names of this machine for itself; what a tunnel from elsewhere leads here is called so, too.
const HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// What a client has sent so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// More is to come.
    Unfinished,
    Whole(Request<'a>),
    /// What the client is told instead of an answer.
    Refused(Status),
}

/// A request that may be answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The page.
    Page,
    /// A question.
    Question(&'a [u8]),
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    TooLarge,
}

impl Status {
    /// As the first line of an answer has it.
    pub fn words(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "413 Content Too Large",
        }
    }
}

/// What matters of a head.
#[derive(Debug, Default)]
struct Head<'a> {
    host: Option<&'a str>,
    origin: Option<&'a str>,
    body_bytes: Option<usize>,
    /// Something is said twice, or in a way that is not understood.
    is_unclear: bool,
}

/// Read what has come from a client.
pub fn read(bytes: &[u8]) -> Asked<'_> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        let is_too_long = bytes.len() >= HEAD_BYTES_MAX + 4;
        return if is_too_long { Asked::Refused(Status::TooLarge) } else { Asked::Unfinished };
    };
    if end > HEAD_BYTES_MAX {
        return Asked::Refused(Status::TooLarge);
    }
    match std::str::from_utf8(&bytes[..end]) {
        Ok(head) => with_head(head, &bytes[end + 4..]),
        Err(_) => Asked::Refused(Status::BadRequest),
    }
}

fn with_head<'a>(text: &'a str, body: &'a [u8]) -> Asked<'a> {
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, "HTTP/1.1" | "HTTP/1.0"] = words[..] else { return Asked::Refused(Status::BadRequest) };
    let head = Head::of(lines);
    if head.is_unclear {
        return Asked::Refused(Status::BadRequest);
    }
    if !head.is_ours() {
        return Asked::Refused(Status::Forbidden);
    }
    match (method, path) {
        ("GET", "/") => Asked::Whole(Request::Page),
        ("POST", "/ask") => question(&head, body),
        (_, "/" | "/ask") => Asked::Refused(Status::MethodNotAllowed),
        _ => Asked::Refused(Status::NotFound),
    }
}

fn question<'a>(head: &Head, body: &'a [u8]) -> Asked<'a> {
    match head.body_bytes {
        None => Asked::Refused(Status::BadRequest),
        Some(length) if length > BODY_BYTES_MAX => Asked::Refused(Status::TooLarge),
        Some(length) if body.len() < length => Asked::Unfinished,
        Some(length) => Asked::Whole(Request::Question(&body[..length])),
    }
}

impl<'a> Head<'a> {
    fn of(lines: impl Iterator<Item = &'a str>) -> Head<'a> {
        let mut head = Head::default();
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                head.is_unclear = true;
                continue;
            };
            head.note(name, value.trim_matches([' ', '\t']));
        }
        head
    }

    fn note(&mut self, name: &str, value: &'a str) {
        match name.to_ascii_lowercase().as_str() {
            "host" => self.is_unclear |= self.host.replace(value).is_some(),
            "origin" => self.is_unclear |= self.origin.replace(value).is_some(),
            "content-length" => {
                let length = Some(value).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let length = length.and_then(|text| text.parse().ok());
                self.is_unclear |= length.is_none() || self.body_bytes.is_some();
                self.body_bytes = length;
            }
            // Bodies in pieces are of no use to anybody here.
            "transfer-encoding" => self.is_unclear = true,
            _ => {}
        }
    }

    /// Whether the client means this machine, and no page from elsewhere has sent it.
    fn is_ours(&self) -> bool {
        let Some(host) = self.host else { return false };
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        HOSTS.contains(&name) && self.origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Asked<'_> {
        read(text.as_bytes())
    }

    #[test]
    fn a_page_and_a_question_are_read_whole() {
        assert_eq!(asked("GET / HTTP/1.1\r\nHost: 127.0.0.1:8\r\n\r\n"), Asked::Whole(Request::Page));
        let question =
            "POST /ask HTTP/1.1\r\nhost: localhost:8\r\nOrigin: http://localhost:8\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(asked(question), Asked::Whole(Request::Question(b"{}")));
        for end in 0..question.len() {
            assert_eq!(asked(&question[..end]), Asked::Unfinished, "{end} bytes");
        }
    }

    #[test]
    fn what_other_pages_send_is_refused() {
        for head in [
            "Host: rebound.example:8",
            "Host: 127.0.0.1:8\r\nOrigin: http://evil.example",
            "Host: 127.0.0.1:8\r\nOrigin: http://127.0.0.1:9",
            "Host: 127.0.0.1:8\r\nOrigin: https://127.0.0.1:8",
            "Host: 127.0.0.1:8\r\nOrigin: null",
            "Accept: */*",
        ] {
            let text = format!("POST /ask HTTP/1.1\r\n{head}\r\nContent-Length: 2\r\n\r\n{{}}");
            assert_eq!(asked(&text), Asked::Refused(Status::Forbidden), "{head}");
        }
    }

    #[test]
    fn what_is_unclear_too_long_or_unknown_is_refused() {
        let ours = "Host: localhost";
        for (text, status) in [
            (String::from("GET /\r\n\r\n"), Status::BadRequest),
            (format!("GET / HTTP/1.1\r\n{ours}\r\n{ours}\r\n\r\n"), Status::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{ours}\r\nContent-Length: +2\r\n\r\n"), Status::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{ours}\r\nTransfer-Encoding: chunked\r\n\r\n"), Status::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{ours}\r\n\r\n"), Status::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{ours}\r\nContent-Length: 1048577\r\n\r\n"), Status::TooLarge),
            (format!("GET /etc/passwd HTTP/1.1\r\n{ours}\r\n\r\n"), Status::NotFound),
            (format!("DELETE / HTTP/1.1\r\n{ours}\r\n\r\n"), Status::MethodNotAllowed),
            ("x".repeat(HEAD_BYTES_MAX + 4), Status::TooLarge),
        ] {
            assert_eq!(asked(&text), Asked::Refused(status), "{text:.60}");
        }
    }
}
