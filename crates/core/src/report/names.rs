//! Words for what jobs do.

/// Returns the requests of a fio `rw` in words, as in `random reads`.
pub fn requests(rw: &str) -> &str {
    match rw {
        "read" => "sequential reads",
        "write" => "sequential writes",
        "rw" | "readwrite" => "sequential reads and writes",
        "randread" => "random reads",
        "randwrite" => "random writes",
        "randrw" => "random reads and writes",
        other => other,
    }
}
