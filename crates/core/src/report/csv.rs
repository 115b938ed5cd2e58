//! Comma-separated values.

/// A field, quoted where RFC 4180 wants it.
pub fn quoted(field: String) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}
