//! What a browser, or anything else on this machine, sends to the explorer's server.

use phaselink_serve::explore::http::{Asked, BODY_BYTES_MAX, HEAD_BYTES_MAX, Request, read};

use crate::Target;

pub(super) const EXPLORE: Target = Target { name: "explore", run, seeds, quick: 20_000 };

/// A request is read alike however its bytes are cut, and never asked to go on beyond what is kept of it.
fn run(input: &[u8]) {
    let whole = read(input);
    if let Asked::Whole(Request::Question(question)) = &whole {
        assert!(question.len() <= BODY_BYTES_MAX && question.len() < input.len());
    }
    if input.len() >= HEAD_BYTES_MAX + 4 + BODY_BYTES_MAX {
        assert_ne!(whole, Asked::Unfinished);
    }
    let half = read(&input[..input.len() / 2]);
    if half != Asked::Unfinished {
        assert_eq!(half, whole, "what follows a request that is decided does not change it");
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
