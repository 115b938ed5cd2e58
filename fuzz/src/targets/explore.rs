//! Requests that a browser, or any program on this machine, sends to the explorer's server.

use phaselink_serve::http::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HttpRoute, RequestState, parse_http_request};

use crate::Target;

/// Requests that the explorer's server answers.
const ROUTES: [HttpRoute; 2] = [
    HttpRoute { method: "GET", path: "/", has_body: false },
    HttpRoute { method: "POST", path: "/ask", has_body: true },
];

pub(super) const EXPLORE: Target = Target { name: "explore", run, seeds };

/// Checks that a request is read the same in one part and in two, and that the server never waits for more bytes than it keeps.
fn run(input: &[u8]) {
    let whole = parse_http_request(input, &ROUTES);
    if let RequestState::Complete { body, .. } = &whole {
        assert!(body.len() <= BODY_BYTES_MAX && body.len() < input.len());
    }
    if input.len() >= HEAD_BYTES_MAX + 4 + BODY_BYTES_MAX {
        assert_ne!(whole, RequestState::Incomplete);
    }
    let half = parse_http_request(&input[..input.len() / 2], &ROUTES);
    if half != RequestState::Incomplete {
        assert_eq!(half, whole, "bytes after a request that is decided do not change it");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n\r\n",
        "POST /ask HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080\r\nContent-Length: 18\r\n\r\n{\"verb\":\"catalog\"}",
        "POST /ask HTTP/1.1\r\nHost: other.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
