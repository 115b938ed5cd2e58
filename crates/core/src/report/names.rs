//! Names of figures: one spelling in plans, results and tables.

/// Percentiles that results keep, by the name that plans and results for programs have for them.
pub const PERCENTILES: [(&str, f64); 6] =
    [("p50_ns", 50.0), ("p90_ns", 90.0), ("p95_ns", 95.0), ("p99_ns", 99.0), ("p99_9_ns", 99.9), ("p99_99_ns", 99.99)];

/// What figures were called once, and what they are called.
const EARLIER: [(&str, &str); 4] = [
    ("p999_ns", "p99_9_ns"),
    ("p9999_ns", "p99_99_ns"),
    ("bw_bytes", "bytes_per_s"),
    ("cores_per_gbps", "cores_per_gb_per_s"),
];

/// The name of a figure, if `name` is what it was called once.
pub fn renamed(name: &str) -> Option<&'static str> {
    EARLIER.iter().find(|(earlier, _)| *earlier == name).map(|(_, current)| *current)
}

/// The requests of a fio `rw`.
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
