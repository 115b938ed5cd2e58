//! Date and time of a measurement, under the keys of fio's JSON output.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_S: u64 = 24 * 60 * 60;

/// Adds the present `timestamp`, `timestamp_ms` and `time` to a document in fio's format, after its version. Simulated
/// results have none, so that a description gives the same bytes at any time.
pub(crate) fn stamped(document: Value) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    at(document, now)
}

fn at(document: Value, now: Duration) -> Value {
    let Value::Object(keys) = document else { return document };
    let stamps = [
        ("timestamp", Value::from(now.as_secs())),
        ("timestamp_ms", Value::from(now.as_millis() as u64)),
        ("time", Value::from(asctime_date(now.as_secs()))),
    ];
    let mut stamped = Map::new();
    for (place, (key, value)) in keys.into_iter().enumerate() {
        stamped.insert(key, value);
        if place == 0 {
            stamped.extend(stamps.iter().map(|(key, value)| (String::from(*key), value.clone())));
        }
    }
    Value::Object(stamped)
}

/// Returns the present day in UTC, as in `2026-11-23`. If SOURCE_DATE_EPOCH is set, returns the day of that second, so
/// that a page can be reproduced byte by byte.
pub(super) fn day() -> String {
    let given = source_date_epoch();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = calendar_date_of_day(given.unwrap_or_else(now) / DAY_S);
    format!("{year}-{:02}-{:02}", month + 1, day + 1)
}

/// Returns true if SOURCE_DATE_EPOCH is set, so that pages must be equal on any machine and day.
pub(super) fn has_source_date_epoch() -> bool {
    source_date_epoch().is_some()
}

fn source_date_epoch() -> Option<u64> {
    std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok())
}

/// Converts a number of days since 1970 to year, month and day of the month; month and day are counted from 0.
fn calendar_date_of_day(day: u64) -> (u64, usize, u64) {
    let (mut year, mut rest) = (1970, day);
    while rest >= days_in_year(year) {
        rest -= days_in_year(year);
        year += 1;
    }
    let mut month = 0;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest)
}

/// Formats a time in seconds since 1970 as asctime does (C17, 7.27.3.1): `Mon Nov 23 05:01:43 2026`, in UTC.
fn asctime_date(seconds: u64) -> String {
    let (day, second) = (seconds / DAY_S, seconds % DAY_S);
    let (year, month, rest) = calendar_date_of_day(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (weekday, month) = (DAYS[(day % 7) as usize], MONTHS[month]);
    format!("{weekday} {month} {:2} {hour:02}:{minute:02}:{second:02} {year}", rest + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_in_month(year: u64, month: usize) -> u64 {
    match month {
        1 => 28 + u64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_equal_those_of_the_calendar() {
        assert_eq!(asctime_date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(asctime_date(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(asctime_date(1_795_410_103), "Mon Nov 23 05:01:43 2026");
    }

    #[test]
    fn timestamps_come_after_the_version() {
        let document = at(json!({ "fio version": "x", "jobs": [] }), Duration::from_millis(1500));
        let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["fio version", "timestamp", "timestamp_ms", "time", "jobs"]);
        assert_eq!((&document["timestamp"], &document["timestamp_ms"]), (&json!(1), &json!(1500)));
    }
}
