//! Timeline of faults as text, one event per line, for drives that are simulated, embedded or served.
//!
//! ```text
//!   at=2s for=500ms stall                          in a time
//!   at=request:1000 for=20requests error           at a request, for as many
//!   at=3s error rate=0.01 operation=read           until the next return
//!   at=request:9 from=2s until=4s error             at a request, counted in a time
//!   at=8s return
//! ```
//!
//! A line has words in any order: the kind of fault, its beginning `at=`, its length `for=`, and keys of that kind.
//! Each line is parsed into a fault rule ([`Fault`]), the form in which a drive stores it. [`Fault::line`] returns a
//! line that is parsed into an equal rule.

use serde_json::Value as Json;

use super::document::{Node, Place, Value, parse_value};
use super::fault::{Fault, FaultSubject, PowerCutMoment};
use super::fault_action::{FaultAction, FaultLength};
use super::section::Section;
use super::value::{KeyFault, KeyType, readable, stem, unit};
use crate::number::real;
use crate::problem::Problem;
use crate::spelling::{nearest, question};
use crate::time::{Span, Time};

/// Further names of kinds of faults in a fault timeline, beside those in fault rules.
const ALIASES: [(&str, FaultAction); 2] =
    [("lost-completion", FaultAction::DropCompletion), ("link", FaultAction::Retrain)];
/// Words of a fault timeline, each with the key of fault rules that it stands for. All other keys go by their names
/// without units.
const KEY_ALIASES: [(&str, &str); 3] =
    [("rate", "probability"), ("iops", "rate_iops"), ("mib_per_s", "rate_mib_per_s")];
/// Keys of fault rules that a fault timeline does not name. It gives them by the kind of fault, `at=` and `for=`.
const TIMED: [&str; 5] = ["action", "at", "first", "times", "for_us"];
/// Word that ends all earlier events of a fault timeline that have no length.
const RETURN: &str = "return";
/// Units of time and their lengths in picoseconds. A unit comes before others that it ends in.
const UNITS: [(&str, f64); 4] = [("ms", 1e9), ("us", 1e6), ("ns", 1e3), ("s", 1e12)];

/// Timeline of injected faults: its events, each as a fault rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultTimeline(pub Vec<Fault>);

/// Parsed line of a fault timeline: an event, or the end of earlier events.
enum FaultTimelineLine {
    Event { fault: Fault, has_end: bool },
    Return(Span),
}

/// Beginning or length of an event in a fault timeline: a time, or a number of requests.
enum TimelineAmount {
    Time(Span),
    Requests(u64),
}

impl FaultTimeline {
    /// Parses the lines of a fault timeline, each given with its position. Ignores blank lines and text from `#` on.
    pub(crate) fn read_lines<'a>(lines: impl Iterator<Item = (Place, &'a str)>) -> Result<FaultTimeline, Vec<Problem>> {
        let (mut events, mut problems) = (Vec::new(), Vec::new());
        for (place, line) in lines {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            match read_line(&place, line) {
                Ok(FaultTimelineLine::Event { fault, has_end }) => events.push((place, fault, has_end)),
                Ok(FaultTimelineLine::Return(at)) => end(&mut events, at),
                Err(problem) => problems.push(problem),
            }
        }
        problems
            .extend(events.iter().filter_map(|(place, fault, has_end)| missing_end_problem(place, fault, *has_end)));
        match problems.is_empty() {
            true => Ok(FaultTimeline(events.into_iter().map(|(_, fault, _)| fault).collect())),
            false => Err(problems),
        }
    }

    /// Parses the text of a file with a fault timeline, one event per line.
    pub(crate) fn read_text(file: &str, text: &str) -> Result<FaultTimeline, Vec<Problem>> {
        let place = |line: usize| Place { file: file.into(), line: Some(line) };
        FaultTimeline::read_lines(text.lines().enumerate().map(|(number, line)| (place(number + 1), line)))
    }
}

/// True if a text is a line of a fault timeline rather than the TOML table of a fault rule. Such a line has a
/// beginning, a length, or a word that could be a kind of fault. A table has quotes, or keys with spaces around `=`.
pub(crate) fn is_line(text: &str) -> bool {
    let is_table = text.starts_with('{') || text.contains(['"', '\'']) || text.contains(" =") || text.contains("= ");
    if is_table {
        return false;
    }
    let is_bare = |word: &str| !word.is_empty() && word.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-');
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_timed = words.iter().any(|word| word.starts_with("at=") || word.starts_with("for="));
    let is_known = |word: &&str| kind(word).is_some() || *word == RETURN;
    is_timed || words.iter().any(is_known) || (words.len() > 1 && words.iter().any(|word| is_bare(word)))
}

/// Ends all events that began before the time `at` of a `return` line and have no end yet.
fn end(events: &mut [(Place, Fault, bool)], at: Span) {
    for (_, fault, has_end) in events.iter_mut().filter(|(_, fault, has_end)| !has_end && fault.from < at) {
        *has_end = true;
        match fault.length() {
            FaultLength::Outage => fault.outage = at - fault.from,
            _ => fault.until = at,
        }
    }
}

/// Returns the problem of an event that has no end although its kind of fault needs one; otherwise `None`.
fn missing_end_problem(place: &Place, fault: &Fault, has_end: bool) -> Option<Problem> {
    (fault.length().needs_explicit_end() && !has_end).then(|| {
        let found = format!("{} has no end", fault.action.name());
        place.problem(found, "for=TIME, as in for=500ms, or a later line at=TIME return")
    })
}

fn kind(word: &str) -> Option<FaultAction> {
    let alias = ALIASES.iter().find(|(name, _)| *name == word).map(|(_, action)| *action);
    alias.or_else(|| FaultAction::ALL.into_iter().find(|action| action.name() == word))
}

fn fault_kind_names() -> impl Iterator<Item = &'static str> {
    let aliases = ALIASES.iter().map(|(name, _)| *name);
    FaultAction::ALL.into_iter().map(FaultAction::name).chain(aliases).chain([RETURN])
}

/// Parses one line of a timeline of faults, such as `at=2s for=500ms stall`.
fn read_line(place: &Place, line: &str) -> Result<FaultTimelineLine, Problem> {
    let wrong = |found: String, allowed: &str| place.problem(format!("`{line}`: {found}"), allowed);
    let (pairs, names): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.contains('='));
    let all = || fault_kind_names().collect::<Vec<_>>().join(", ");
    let &[name] = &names[..] else {
        let found = if names.is_empty() { String::from("no kind of fault") } else { names.join(" and ") };
        return Err(wrong(found, &format!("one of {}", all())));
    };
    let value = |key: &str| pairs.iter().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    let measured = |key: &str, read: fn(&str) -> Result<TimelineAmount, String>| {
        let read = |text| read(text).map_err(|allowed| wrong(format!("{key}={text}"), &allowed));
        value(key).map(read).transpose()
    };
    let (at, length) = (measured("at", parse_beginning)?, measured("for", length)?);
    if name == RETURN {
        return match (at, length, pairs.len()) {
            (Some(TimelineAmount::Time(at)), None, 1) => Ok(FaultTimelineLine::Return(at)),
            _ => Err(wrong(String::from("a return at no time"), "at=TIME return, as in at=9s return")),
        };
    }
    let Some(action) = kind(name) else {
        let meant = question(nearest(name, fault_kind_names()));
        return Err(wrong(format!("there is no fault {name}{meant}"), &all()));
    };
    let mut fault = Fault { action, ..Fault::default() };
    let is_at_request = matches!(at, Some(TimelineAmount::Requests(_)));
    let has_until = value("until").is_some();
    if (value("from").is_some() && !is_at_request) || (has_until && matches!(length, Some(TimelineAmount::Time(_)))) {
        let allowed = "from=TIME with at=request:NUMBER, until=TIME without for=TIME";
        return Err(wrong(String::from("a second beginning or end"), allowed));
    }
    set_event_beginning(&mut fault, at).map_err(|allowed| wrong(format!("{name} at a request"), allowed))?;
    for pair in &pairs {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != "at" && key != "for" {
            set(place, &mut fault, key, value).map_err(|allowed| wrong(String::from(*pair), &allowed))?;
        }
    }
    let has_end =
        last(&mut fault, is_at_request, length).map_err(|allowed| wrong(format!("the length of {name}"), allowed))?;
    Ok(FaultTimelineLine::Event { fault, has_end: has_end || has_until })
}

/// Sets the beginning of an event in its fault rule. An error says what is allowed.
fn set_event_beginning(fault: &mut Fault, at: Option<TimelineAmount>) -> Result<(), &'static str> {
    match at {
        None => {}
        Some(TimelineAmount::Time(at)) => fault.from = at,
        Some(TimelineAmount::Requests(number)) => {
            fault.first = number;
            if fault.action == FaultAction::PowerCut {
                (fault.at, fault.times) = (PowerCutMoment::Request, 1);
            }
            if !matches!(fault.subject(), FaultSubject::Request | FaultSubject::Interrupt | FaultSubject::Packet) {
                return Err("at=TIME, as in at=2s");
            }
        }
    }
    Ok(())
}

/// Sets the length of an event in its fault rule. Returns true if the event has an end. An error says what is allowed.
fn last(fault: &mut Fault, is_at_request: bool, length: Option<TimelineAmount>) -> Result<bool, &'static str> {
    match (length, fault.length()) {
        (None, FaultLength::Outage) if is_at_request => return Err("for=TIME, as in for=500ms"),
        // A fault that starts at a request and has no length ends with that request.
        (None, kind) if is_at_request && !kind.continues() && fault.until.is_zero() => fault.times = 1,
        (None, kind) => return Ok(kind == FaultLength::Forever),
        (Some(TimelineAmount::Time(span)), _) if span.is_zero() => return Err("for=TIME above 0"),
        (Some(TimelineAmount::Time(span)), FaultLength::Outage) => fault.outage = span,
        (Some(TimelineAmount::Time(_)), FaultLength::Forever) => {
            return Err("no for=: a removed device never returns");
        }
        (Some(TimelineAmount::Time(span)), _) if is_at_request => fault.lasts = span,
        (Some(TimelineAmount::Time(span)), _) => fault.until = fault.from + span,
        (Some(TimelineAmount::Requests(_)), kind) if !kind.is_counted() => return Err("for=TIME, as in for=500ms"),
        (Some(TimelineAmount::Requests(count)), _) => fault.times = count,
    }
    Ok(true)
}

/// Sets a key of an event's fault rule from text. An error says what is allowed.
fn set(place: &Place, fault: &mut Fault, given: &str, text: &str) -> Result<(), String> {
    let name = KEY_ALIASES.iter().find(|(alias, _)| *alias == given).map_or(given, |(_, key)| key);
    let keys: Vec<_> = fault.keys().into_iter().filter(|key| !TIMED.contains(&key.name)).collect();
    let names = || {
        let taken = keys.iter().filter(|key| fault.takes(key.name)).map(|key| word(key.name));
        format!("at, for, {}", taken.collect::<Vec<_>>().join(", "))
    };
    let Some(key) = keys.iter().find(|key| key.name == name || stem(key.name) == name) else { return Err(names()) };
    if !fault.takes(key.name) {
        return Err(names());
    }
    let (key, allowed) = (key.name, key.allowed.clone());
    let node = match unit(key) {
        "us" => match time(text) {
            Some(span) => parse_number_node(place, &span.write(key)),
            None => return Err(String::from("a time with its unit, as in 500ms, 20us or 2s")),
        },
        _ => parse_value(place, text).or_else(|_| parse_value(place, &format!("\"{text}\""))).ok(),
    };
    let result = node.map_or(Err(KeyFault::NotAllowed), |node| fault.set(key, &node));
    result.map_err(|_| allowed)
}

fn parse_number_node(place: &Place, number: &Json) -> Option<Node> {
    let value = number.as_u64().map(|whole| Value::Integer(whole.into())).or(number.as_f64().map(Value::Float))?;
    Some(Node { place: place.clone(), value, quote: number.to_string() })
}

/// Returns the word by which a fault timeline names a key of fault rules: its alias, or the key without its unit.
fn word(key: &'static str) -> &'static str {
    let alias = KEY_ALIASES.iter().find(|(_, name)| *name == key).map(|(alias, _)| *alias);
    alias.unwrap_or_else(|| stem(key))
}

/// Parses a time with its unit, such as `500ms`. `None` if it is invalid or too long.
fn time(text: &str) -> Option<Span> {
    let (number, ps) = UNITS.iter().find_map(|(unit, ps)| Some((text.strip_suffix(unit)?, ps)))?;
    let number: f64 = number.parse().ok().filter(|number: &f64| *number >= 0.0)?;
    let span = Span::from_ns_f64(number * ps / 1e3);
    (Time::ZERO + span < Time::NEVER && number * ps <= 1e14).then_some(span)
}

/// Parses a number of requests above 0.
fn parse_request_amount(number: &str) -> Option<u64> {
    number.parse().ok().filter(|number| *number > 0)
}

/// Returns the number in `20requests` or `1request`, or `None` for any other text.
fn request_count_digits(text: &str) -> Option<u64> {
    parse_request_amount(text.strip_suffix("requests").or_else(|| text.strip_suffix("request"))?)
}

/// Returns the number in `request:1000`, or `None` for any other text.
fn parse_request_number(text: &str) -> Option<u64> {
    parse_request_amount(text.strip_prefix("request:")?)
}

/// Parses the beginning of an event, a time or the number of a request. An error says what is allowed.
fn parse_beginning(text: &str) -> Result<TimelineAmount, String> {
    let found =
        parse_request_number(text).map(TimelineAmount::Requests).or_else(|| time(text).map(TimelineAmount::Time));
    found.ok_or_else(|| match request_count_digits(text) {
        Some(number) => format!("at=request:{number}, which is the number of a request; only for= counts requests"),
        None => String::from("at=TIME or at=request:NUMBER, as in at=2s or at=request:1000"),
    })
}

/// Parses the length of an event, a time or a number of requests. An error says what is allowed.
fn length(text: &str) -> Result<TimelineAmount, String> {
    let found =
        request_count_digits(text).map(TimelineAmount::Requests).or_else(|| time(text).map(TimelineAmount::Time));
    found.ok_or_else(|| match parse_request_number(text) {
        Some(number) => format!("for={number}requests, which is a count of requests; only at= names one"),
        None => String::from("for=TIME or for=NUMBERrequests, as in for=500ms or for=20requests"),
    })
}

/// Returns a time as text, in the largest of s, ms and us of which it is a whole number, otherwise in ns.
fn timeline_time_text(span: Span) -> String {
    let (ps, smallest) = (real(span.as_ps()), ("ns", 1e3));
    let fits = |(_, unit): &&(&str, f64)| ps >= *unit && ps % unit == 0.0;
    let (name, unit) = [UNITS[3], UNITS[0], UNITS[1]].iter().find(fits).copied().unwrap_or(smallest);
    format!("{}{name}", ps / unit)
}

impl Fault {
    /// Returns the kind of length that the fault has in a timeline.
    fn length(&self) -> FaultLength {
        self.action.row().length
    }

    /// Returns a line of a fault timeline that is parsed into this rule. If no line can express the rule, returns its
    /// TOML table.
    pub fn line(&self) -> String {
        let (line, place) = (self.words(), Place::whole("line"));
        let is_same = matches!(read_line(&place, &line), Ok(FaultTimelineLine::Event { fault, .. }) if fault == *self);
        let pair = |(key, value): (&str, Json)| format!("{key} = {value}");
        match is_same {
            true => line,
            false => format!("{{ {} }}", self.said().into_iter().map(pair).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Returns the line of a fault timeline for this rule, which may fail to express all of it.
    fn words(&self) -> String {
        let is_instant = self.length() == FaultLength::Outage;
        // A length in requests is counted from the triggering request, so it needs a line that names a request.
        let is_at_request =
            self.first > 1 || !self.lasts.is_zero() || self.subject() != self.fault_rule_at_time().subject();
        let mut words = Vec::new();
        match is_at_request {
            true => words.push(format!("at=request:{}", self.first)),
            false if self.from.is_zero() => {}
            false => words.push(format!("at={}", timeline_time_text(self.from))),
        }
        let (mut has_from, mut has_until) = (is_at_request && !self.from.is_zero(), !self.until.is_zero());
        match () {
            () if is_instant => {
                words.push(format!("for={}", timeline_time_text(self.outage)));
                has_from &= self.subject() == FaultSubject::Request;
            }
            () if !self.lasts.is_zero() => words.push(format!("for={}", timeline_time_text(self.lasts))),
            () if is_at_request && self.times == 1 && !has_until && !self.length().continues() => {}
            () if self.times > 0 => {
                words.push(format!("for={}requests", self.times));
            }
            () if has_until && !is_at_request && self.times == 0 => {
                words.push(format!("for={}", timeline_time_text(self.until - self.from)));
                has_until = false;
            }
            () => {}
        }
        words.push(String::from(self.action.name()));
        let is_said = |key: &str| match key {
            "outage_us" => !is_instant,
            "from_us" => has_from,
            "until_us" => has_until,
            key => !TIMED.contains(&key),
        };
        for (key, value) in self.said().into_iter().filter(|(key, _)| is_said(key)) {
            let shown = match &value {
                Json::String(text) => text.clone(),
                value if unit(key) == "us" => {
                    timeline_time_text(Span::from_ns_f64(value.as_f64().unwrap_or(0.0) * 1e3))
                }
                value => readable(value),
            };
            words.push(format!("{}={shown}", word(key)));
        }
        words.join(" ")
    }

    /// Returns this fault rule with a time as its trigger.
    fn fault_rule_at_time(&self) -> Fault {
        Fault { at: PowerCutMoment::Time, ..self.clone() }
    }
}

/// Timeline of faults as a value in a drive file: a list of lines.
impl KeyType for FaultTimeline {
    fn kind() -> String {
        String::from("list of lines of faults, as in [\"at=2s for=500ms stall\"]")
    }
    fn schema() -> Json {
        serde_json::json!({ "type": "array", "items": { "type": "string" } })
    }
    fn read(_: &str, node: &Node) -> Result<FaultTimeline, KeyFault> {
        let Value::Array(items) = &node.value else { return Err(KeyFault::NotAllowed) };
        let line = |item: &Node| match &item.value {
            Value::String(line) => Ok((item.place.clone(), line.clone())),
            _ => Err(item.place.problem(format!("a timeline holds {}", item.quote), "lines in quotes")),
        };
        let lines: Result<Vec<_>, Problem> = items.iter().map(line).collect();
        let lines = lines.map_err(|problem| KeyFault::Inside(vec![problem]))?;
        let lines = lines.iter().map(|(place, line)| (place.clone(), line.as_str()));
        FaultTimeline::read_lines(lines).map_err(KeyFault::Inside)
    }
    fn write(&self, _: &str) -> Json {
        self.0.iter().map(|fault| Json::from(fault.line())).collect()
    }
}

#[cfg(test)]
mod tests;
