//! The examples of the front page: every command is run, and prints what the page shows (`common/page.rs`).
#![cfg(unix)]

mod common;

#[test]
fn every_command_of_the_front_page_prints_what_the_page_shows() {
    common::page::run("README.md");
}
