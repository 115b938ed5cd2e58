//! HTTP/1.1 (RFC 9112) for two small servers on this machine, of the explorer's page and of the metrics. Parses
//! requests, decides who may send them, and formats responses, without I/O.
//!
//! Web pages of other sites run in the same browser as the user, and must not reach these servers. A browser names the
//! site in `ValueOrigin` (RFC 6454). A site that resolves its own name to this machine has that name in `Host`. Both are
//! checked.

use std::net::IpAddr;

/// Maximum length of the head of an HTTP request (request line and header fields), in bytes.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum length of the body of an HTTP request, in bytes. (The usual body, a drive file, has a few thousand.)
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// `Content-Type` of a plain-text response.
const TEXT: &str = "text/plain; charset=utf-8";

/// Combination of method and path that an HTTP server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// HTTP method in capitals, such as `GET`.
    pub method: &'static str,
    /// Path of the URL without a query, such as `/ask`.
    pub path: &'static str,
    /// True if the request must have a body, whose length the `Content-Length` field gives.
    pub has_body: bool,
}

/// State of an HTTP request of which some or all bytes have been received.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestState<'a> {
    /// The request is incomplete: more bytes have to arrive.
    Incomplete,
    /// The request is complete, and may be answered.
    Complete {
        /// Path of the route that the request matches.
        path: &'static str,
        /// Body of the request; empty for a route without a body.
        body: &'a [u8],
    },
    /// The request is refused: the response carries this status.
    Refused(HttpStatus),
}

/// Status of an HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
    /// The response carries the requested document.
    Ok,
    /// The request is malformed or ambiguous.
    BadRequest,
    /// The request does not name this machine as its host, or a page of another site sent it.
    Forbidden,
    /// No route of the server has the requested path.
    NotFound,
    /// The requested path exists, but not with the request's method.
    MethodNotAllowed,
    /// The head or the body of the request is longer than allowed.
    TooLarge,
    /// The server has as many clients as it allows, and refuses a further one.
    Unavailable,
}

impl HttpStatus {
    /// Returns the status code and the reason phrase, such as `404 Not Found`.
    pub fn status_line(self) -> &'static str {
        match self {
            HttpStatus::Ok => "200 OK",
            HttpStatus::BadRequest => "400 Bad Request",
            HttpStatus::Forbidden => "403 Forbidden",
            HttpStatus::NotFound => "404 Not Found",
            HttpStatus::MethodNotAllowed => "405 Method Not Allowed",
            HttpStatus::TooLarge => "413 Content Too Large",
            HttpStatus::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Security header fields of every HTTP response. A page may run its own scripts and connect to its own server only. No
/// other site may embed it in a frame, and no cache may store it.
const SECURITY_HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
     Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

/// Returns the bytes of an HTTP response with this status, content type and body. The connection closes after it.
pub fn response(status: HttpStatus, content_type: &str, body: &[u8]) -> Vec<u8> {
    let (status, length) = (status.status_line(), body.len());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         {SECURITY_HEADERS}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Returns the bytes of the response to a refused request. Its body is the status as plain text.
pub fn refusal(status: HttpStatus) -> Vec<u8> {
    response(status, TEXT, format!("{}\n", status.status_line()).as_bytes())
}

/// Header fields that decide if an HTTP request is answered: `Host`, `ValueOrigin` and `Content-Length`.
#[derive(Debug, Default)]
struct RequestHeaders<'a> {
    host: Option<&'a str>,
    origin: Option<&'a str>,
    body_bytes: Option<usize>,
    /// True if a header field is malformed, unsupported or given twice.
    is_invalid: bool,
}

/// Parses the bytes that a client has sent so far as an HTTP request. Refuses a request that matches none of `routes`,
/// is malformed or may come from another site.
pub fn parse_http_request<'a>(bytes: &'a [u8], routes: &[HttpRoute]) -> RequestState<'a> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        let is_too_long = bytes.len() >= HEAD_BYTES_MAX + 4;
        return if is_too_long { RequestState::Refused(HttpStatus::TooLarge) } else { RequestState::Incomplete };
    };
    if end > HEAD_BYTES_MAX {
        return RequestState::Refused(HttpStatus::TooLarge);
    }
    match std::str::from_utf8(&bytes[..end]) {
        Ok(head) => read_with_head(head, &bytes[end + 4..], routes),
        Err(_) => RequestState::Refused(HttpStatus::BadRequest),
    }
}

fn read_with_head<'a>(text: &'a str, body: &'a [u8], routes: &[HttpRoute]) -> RequestState<'a> {
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, "HTTP/1.1" | "HTTP/1.0"] = words[..] else {
        return RequestState::Refused(HttpStatus::BadRequest);
    };
    let head = RequestHeaders::parse(lines);
    if head.is_invalid {
        return RequestState::Refused(HttpStatus::BadRequest);
    }
    if !head.is_from_local_page() {
        return RequestState::Refused(HttpStatus::Forbidden);
    }
    match routes.iter().find(|route| (route.method, route.path) == (method, path)) {
        Some(route) if route.has_body => read_body(route.path, &head, body),
        Some(route) => RequestState::Complete { path: route.path, body: &[] },
        None if routes.iter().any(|route| route.path == path) => RequestState::Refused(HttpStatus::MethodNotAllowed),
        None => RequestState::Refused(HttpStatus::NotFound),
    }
}

fn read_body<'a>(path: &'static str, head: &RequestHeaders, body: &'a [u8]) -> RequestState<'a> {
    match head.body_bytes {
        None => RequestState::Refused(HttpStatus::BadRequest),
        Some(length) if length > BODY_BYTES_MAX => RequestState::Refused(HttpStatus::TooLarge),
        Some(length) if body.len() < length => RequestState::Incomplete,
        Some(length) => RequestState::Complete { path, body: &body[..length] },
    }
}

impl<'a> RequestHeaders<'a> {
    fn parse(lines: impl Iterator<Item = &'a str>) -> RequestHeaders<'a> {
        let mut head = RequestHeaders::default();
        for line in lines {
            match line.split_once(':') {
                Some((name, value)) => head.add_field(name, value.trim_matches([' ', '\t'])),
                None => head.is_invalid = true,
            }
        }
        head
    }

    fn add_field(&mut self, name: &str, value: &'a str) {
        match name.to_ascii_lowercase().as_str() {
            "host" => self.is_invalid |= self.host.replace(value).is_some(),
            "origin" => self.is_invalid |= self.origin.replace(value).is_some(),
            "content-length" => {
                let length = Some(value).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let length = length.and_then(|text| text.parse().ok());
                self.is_invalid |= length.is_none() || self.body_bytes.is_some();
                self.body_bytes = length;
            }
            // Chunked bodies are not supported.
            "transfer-encoding" => self.is_invalid = true,
            _ => {}
        }
    }

    /// Returns true if the request is for this machine under a loopback name, and no page of another site has sent it.
    fn is_from_local_page(&self) -> bool {
        let Some(host) = self.host else { return false };
        is_loopback(host) && self.origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
    }
}

/// Returns true if a `Host` field names this machine: `localhost`, or a loopback address, with or without a port.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address, port),
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && (name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: [HttpRoute; 2] = [
        HttpRoute { method: "GET", path: "/", has_body: false },
        HttpRoute { method: "POST", path: "/ask", has_body: true },
    ];

    fn read(text: &str) -> RequestState<'_> {
        parse_http_request(text.as_bytes(), &ROUTES)
    }

    #[test]
    fn http_request_is_incomplete_until_its_last_byte() {
        let page = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8\r\n\r\n";
        assert_eq!(read(page), RequestState::Complete { path: "/", body: b"" });
        let question =
            "POST /ask HTTP/1.1\r\nhost: localhost:8\r\nOrigin: http://localhost:8\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(read(question), RequestState::Complete { path: "/ask", body: b"{}" });
        for end in 0..question.len() {
            assert_eq!(read(&question[..end]), RequestState::Incomplete, "{end} bytes");
        }
    }

    #[test]
    fn request_from_a_foreign_page_is_forbidden() {
        for head in [
            "Host: rebound.example:8",
            "Host: 127.0.0.1.example:8",
            "Host: 127.0.0.1:8:8",
            "Host: [::1].example",
            "Host: 127.0.0.1:8\r\nOrigin: http://evil.example",
            "Host: 127.0.0.1:8\r\nOrigin: http://127.0.0.1:9",
            "Host: 127.0.0.1:8\r\nOrigin: https://127.0.0.1:8",
            "Host: 127.0.0.1:8\r\nOrigin: null",
            "Accept: */*",
        ] {
            let text = format!("POST /ask HTTP/1.1\r\n{head}\r\nContent-Length: 2\r\n\r\n{{}}");
            assert_eq!(read(&text), RequestState::Refused(HttpStatus::Forbidden), "{head}");
        }
    }

    #[test]
    fn loopback_names_are_allowed_with_and_without_port() {
        for host in ["localhost", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:9100"] {
            let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(read(&text), RequestState::Complete { path: "/", body: b"" }, "{host}");
        }
    }

    #[test]
    fn invalid_http_requests_are_refused_with_their_status() {
        let host = "Host: localhost";
        for (text, status) in [
            (String::from("GET /\r\n\r\n"), HttpStatus::BadRequest),
            (format!("GET / HTTP/1.1\r\n{host}\r\n{host}\r\n\r\n"), HttpStatus::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{host}\r\nContent-Length: +2\r\n\r\n"), HttpStatus::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{host}\r\nTransfer-Encoding: chunked\r\n\r\n"), HttpStatus::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{host}\r\n\r\n"), HttpStatus::BadRequest),
            (format!("POST /ask HTTP/1.1\r\n{host}\r\nContent-Length: 1048577\r\n\r\n"), HttpStatus::TooLarge),
            (format!("GET /etc/passwd HTTP/1.1\r\n{host}\r\n\r\n"), HttpStatus::NotFound),
            (format!("DELETE / HTTP/1.1\r\n{host}\r\n\r\n"), HttpStatus::MethodNotAllowed),
            ("x".repeat(HEAD_BYTES_MAX + 4), HttpStatus::TooLarge),
        ] {
            assert_eq!(read(&text), RequestState::Refused(status), "{text:.60}");
        }
    }
}
