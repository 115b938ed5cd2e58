//! `phaselink fault`: adds, lists and clears fault rules of a served drive through its control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::report::Table;
use serde_json::Value;

use crate::ending::{CommandEnding, Failure};
use crate::output;

const EXAMPLES: &str = include_str!("../help/fault.txt");

/// Longest time that `phaselink fault` waits for the server's response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Add, list or clear fault rules of a drive that `phaselink serve` is serving, and change its paths.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Path of the server's control socket, as given to `phaselink serve --control`
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Fault rule to add: a line, as in 'for=500ms stall', or a table of [[faults]] as in a drive file
    /// (docs/faults.md); may be given more than once
    #[arg(long, value_name = "RULE")]
    add: Vec<String>,
    /// Number of a fault rule to remove, as --list prints it, or all; may be given more than once
    #[arg(long, value_name = "NUMBER|all")]
    clear: Vec<String>,
    /// Print all fault rules of the served drive, after --clear and --add; default without these two
    #[arg(long)]
    list: bool,
    /// New state of a path (optimized, non-optimized, inaccessible, lost or changing): its address as the server has
    /// announced it and the state, as in 'nvme-tcp://127.0.0.1:4420 inaccessible', the number of a namespace if it is
    /// about one alone, and after=TIME if the path is changing until then; may be given more than once
    #[arg(long, value_name = "ADDRESS STATE")]
    path_state: Vec<String>,
    /// Print all paths with their states, after --path-state
    #[arg(long)]
    paths: bool,
    /// Print each response of the server as a line of JSON in place of text
    #[arg(long)]
    json: bool,
}

/// Runs `phaselink fault`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let unreachable = |error: io::Error| {
        let found = format!("no server answers there: {error}");
        Problem::new(arguments.path.display().to_string(), None, found, "the PATH of phaselink serve --control")
    };
    let mut control = ControlConnection::connect(&arguments.path).map_err(unreachable)?;
    let (mut text, mut wrong) = (String::new(), Problems::default());
    for line in arguments.lines() {
        let answer = control.request_response(&line).map_err(unreachable)?;
        wrong.0.extend(problems_of_response(&answer));
        text += &if arguments.json { format!("{answer}\n") } else { response_for_people(&answer) };
    }
    output::print(&text)?;
    wrong.or(CommandEnding::Fine).map_err(Failure::from)
}

impl Arguments {
    /// Returns the lines that are sent to the control socket: first removals of fault rules, then additions, then changes
    /// of paths, then the requests for lists.
    fn lines(&self) -> Vec<String> {
        let clear = |number: &String| if number == "all" { String::from("clear") } else { format!("clear {number}") };
        let mut lines: Vec<String> = self.clear.iter().map(clear).collect();
        lines.extend(self.add.iter().map(|rule| format!("add {rule}")));
        lines.extend(self.path_state.iter().map(|change| format!("path {change}")));
        if self.paths {
            lines.push(String::from("paths"));
        }
        if self.list || lines.is_empty() {
            lines.push(String::from("list"));
        }
        // The control socket takes one rule per line, so join the lines of a rule.
        lines.iter().map(|line| line.replace(['\n', '\r'], " ")).collect()
    }
}

/// Connection to the control socket of a server.
struct ControlConnection(BufReader<UnixStream>);

impl ControlConnection {
    fn connect(path: &Path) -> io::Result<ControlConnection> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(ControlConnection(BufReader::new(stream)))
    }

    /// Sends a line to the server, and returns its response.
    fn request_response(&mut self, line: &str) -> io::Result<Value> {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        if self.0.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&answer)?)
    }
}

/// Returns the problems that a response of the server lists.
fn problems_of_response(answer: &Value) -> Vec<Problem> {
    let told = answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
    told.map(|text| text.split_once(": ").unwrap_or(("control", text)))
        .map(|(place, found)| Problem::new(place, None, found, ""))
        .collect()
}

/// Formats a response of the server for people.
fn response_for_people(answer: &Value) -> String {
    if let Some(number) = answer["added"].as_u64() {
        return format!("rule {number} holds\n");
    }
    if let Some(count) = answer["cleared"].as_u64() {
        return format!("{count} cleared\n");
    }
    if let Some(path) = answer["path"].as_str() {
        let verb = answer["after_ms"].as_u64().map_or(String::from("is"), |ms| format!("is changing, in {ms} ms"));
        return format!("{path} {verb} {}\n", answer["state"].as_str().unwrap_or_default());
    }
    if let Some(paths) = answer["paths"].as_array() {
        return path_table(paths);
    }
    answer["faults"].as_array().map_or(String::new(), |faults| table(faults))
}

fn path_table(paths: &[Value]) -> String {
    if paths.is_empty() {
        return String::from("no paths\n");
    }
    let mut table = Table::new().left("path").left("namespace").left("state");
    for path in paths {
        let text = |value: &Value| String::from(value.as_str().unwrap_or("-"));
        table.row([text(&path["address"]), String::from("all"), text(&path["state"])]);
        for (namespace, state) in path["namespaces"].as_object().into_iter().flatten() {
            table.row([text(&path["address"]), namespace.clone(), text(state)]);
        }
    }
    output::shown(&table)
}

fn table(faults: &[Value]) -> String {
    if faults.is_empty() {
        return String::from("no faults\n");
    }
    let mut table = Table::new().right("number").left("rule").right("met").right("happened");
    for fault in faults {
        let count = |key: &str| fault[key].as_u64().map_or(String::from("-"), |count| count.to_string());
        table.row([count("number"), rule(&fault["fault"]), count("met"), count("happened")]);
    }
    output::shown(&table)
}

/// Formats a fault rule in the syntax of `--add`.
fn rule(fault: &Value) -> String {
    let keys = fault.as_object().into_iter().flatten();
    keys.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}
