//! Comma-separated values (RFC 4180).

/// Returns a field of comma-separated values, in quotes if RFC 4180 demands them.
pub fn quoted(field: String) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}
