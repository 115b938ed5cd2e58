//! The explorer's page, asked for as a browser asks: what it answers is what the command line prints.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::common::{Ran, printed, program};
use serde_json::{Value, json};

/// A running server.
struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
}

impl Server {
    fn start() -> Server {
        let mut child = program().arg("explore").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let host = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).map(String::from);
        Server { child, host: host.unwrap_or_else(|| panic!("the address: {line}")) }
    }

    /// What the server sends back for these bytes: its status, and what follows the head.
    fn response_to_bytes(&self, bytes: &[u8]) -> (String, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(bytes).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (String::from(&head["HTTP/1.1 ".len()..][..3]), String::from(body))
    }

    fn ask_explorer_server(&self, question: &Value) -> Value {
        let (host, body) = (&self.host, question.to_string());
        let length = body.len();
        let head = format!("POST /ask HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {length}");
        let (status, text) = self.response_to_bytes(format!("{head}\r\n\r\n{body}").as_bytes());
        assert_eq!(status, "200", "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn explorer_figures_equal_the_command_line_bit_for_bit() {
    let server = Server::start();
    for (drive, set, job) in [
        ("nvme", vec!["link.lanes=8"], vec![["rw", "randread"], ["bs", "4k"], ["iodepth", "8"], ["number_ios", "500"]]),
        ("dc-express", vec![], vec![["rw", "randwrite"], ["bs", "512"], ["iodepth", "1"], ["number_ios", "300"]]),
        (
            "cxl",
            vec!["host.core_ghz=3.1"],
            vec![["rw", "randrw"], ["bs", "64"], ["iodepth", "1"], ["number_ios", "200"]],
        ),
    ] {
        let asked = json!({ "name": drive, "set": set });
        let flags: Vec<String> =
            job.iter().map(|[name, value]| format!("--{} {value}", name.replace('_', "-"))).collect();
        let changes: Vec<String> = set.iter().map(|text| format!("--set {text}")).collect();
        let line = format!("{drive} {} {}", changes.join(" "), flags.join(" "));
        let run = server.ask_explorer_server(&json!({ "verb": "run", "drive": asked, "job": job, "seed": 7 }));
        assert_eq!(format!("{:#}\n", run["answer"]), printed(&format!("run {line} --seed 7 --json")), "{line}");
        let predicted = server.ask_explorer_server(&json!({ "verb": "predict", "drive": asked, "job": job }));
        let printed: Value = serde_json::from_str(&printed(&format!("predict {line} --json"))).unwrap();
        assert_eq!(predicted["answer"], printed, "{line}");
    }
    let asked = json!({ "verb": "trace", "drive": { "name": "nvme" }, "rw": "randread", "bs": "4k", "iodepth": "1", "skip": 64, "seed": 1 });
    assert_eq!(server.ask_explorer_server(&asked)["answer"]["ladder"], printed("trace nvme --skip 64").as_str());
    server.stop();
}

#[test]
fn explorer_page_is_complete_and_loads_only_from_its_server() {
    let server = Server::start();
    let (status, page) =
        server.response_to_bytes(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.host).as_bytes());
    assert_eq!(status, "200");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("id=\"module\">\n</script>"), "there is no module, so that the page asks the server");
    assert!(!page.lines().any(|line| line.starts_with("@include") || line == "@module"));
    server.stop();
}

#[test]
fn explorer_refuses_foreign_and_malformed_requests() {
    let server = Server::start();
    let host = server.host.clone();
    for (head, status) in [
        (String::from("POST /ask HTTP/1.1\r\nHost: rebound.example"), "403"),
        (format!("POST /ask HTTP/1.1\r\nHost: {host}\r\nOrigin: http://other.example"), "403"),
        (format!("GET /etc/passwd HTTP/1.1\r\nHost: {host}"), "404"),
        (format!("PUT / HTTP/1.1\r\nHost: {host}"), "405"),
        (format!("POST /ask HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9999999"), "413"),
        (String::from("hello"), "400"),
    ] {
        assert_eq!(server.response_to_bytes(format!("{head}\r\n\r\n").as_bytes()).0, status, "{head}");
    }
    // A client that never completes its request must not block others.
    let mut slow = TcpStream::connect(&host).unwrap();
    slow.write_all(b"GET / HT").unwrap();
    let wrong =
        server.ask_explorer_server(&json!({ "verb": "run", "drive": { "name": "nvmee" }, "job": [], "seed": 1 }));
    assert!(wrong["text"].as_str().is_some_and(|text| text.contains("nvmee")), "{wrong}");
    let file =
        server.ask_explorer_server(&json!({ "verb": "check", "drive": { "text": "preset = \"/etc/passwd.toml\"" } }));
    assert!(file["answer"].is_null(), "no file is read: {file}");
    server.stop();
}

#[test]
fn taken_explorer_port_is_reported() {
    let server = Server::start();
    let port = server.host.rsplit_once(':').unwrap().1.to_string();
    let ran: Ran = program().args(["explore", "--port", &port]).output().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains(&format!("127.0.0.1:{port} cannot be served")), "{}", ran.stderr);
    server.stop();
}
