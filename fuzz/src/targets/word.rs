//! Targets that read typed words: addresses, parts of a drive, values of keys, lines of a sweep's state file.

use phaselink_core::drive_file::KeyOverride;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::shm::Share;
use phaselink_studies::sweep::search::Target as Bounds;
use phaselink_studies::sweep::{Hash, state};

use super::text;
use crate::Target;

/// Checks any words, read as each of these.
pub(super) const WORD: Target = Target { name: "word", run, seeds };

fn run(input: &[u8]) {
    let text = text(input);
    if let Ok(uri) = Uri::parse(&text) {
        assert_eq!(Uri::parse(&uri.to_string()).ok(), Some(uri));
    }
    let _ = Share::parse(&text);
    let _ = KeyOverride::parse(&text);
    let _ = Hash::parse(&text);
    let _ = Bounds::parse(&text);
    let _ = state::parse_state_line(&text);
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "nbd+unix:///disk?socket=/tmp/a%20b.sock",
        "nbd://127.0.0.1:10809/disk",
        "nbd://[::1]:0/",
        "nbd://localhost",
        "a.sock,offset=4k,size=1m,readonly",
        "media.read_ns=300",
        "link.generation=3",
        "0123456789abcdef0123456789abcdef",
        "p99<5us, iops>=1.5M",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
