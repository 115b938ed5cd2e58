//! Which value wins, and what is remembered of where it came from.

use super::super::{Drive, presets, shipped};
use super::{messages, read, read_with};
use crate::config::Wait;
use crate::drive::Interface;
use crate::time::Span;

fn drive(text: &str, given: &[&str]) -> Drive {
    read_with(text, given).unwrap_or_else(|problems| panic!("{problems}"))
}

fn fitted(drive: &Drive) -> Vec<&str> {
    drive.fitted.iter().map(|mark| mark.key.as_str()).collect()
}

#[test]
fn every_shipped_drive_loads_under_its_own_name() {
    for name in shipped::names() {
        let drive = Drive::shipped(name).unwrap();
        assert_eq!(drive.name, name);
        assert!(!drive.summary.is_empty(), "{name}");
    }
    assert!(Drive::shipped("no such drive").is_none());
}

#[test]
fn every_preset_loads_and_has_a_summary() {
    let all = presets::all();
    assert!(all.len() > 30, "{}", all.len());
    for preset in all {
        let text = format!("interface = 'nvme'\n[{}]\npreset = '{}'\n", preset.section, preset.name);
        drive(&text, &[]);
        assert!(!preset.summary.is_empty(), "{preset:?}");
    }
}

#[test]
fn the_row_that_shows_how_a_memory_is_added_is_read_as_one() {
    let page = include_str!("../../../../../docs/adding-a-memory.md");
    let block = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let keys = block.lines().filter(|line| !["[", "summary", "fitted"].iter().any(|start| line.starts_with(start)));
    let keys: Vec<&str> = keys.collect();
    let fitted = "fitted = [{ key = 'media.read_ns', why = 'no source gives it' }]";
    let media = drive(&format!("interface = 'nvme'\n{fitted}\n[media]\n{}", keys.join("\n")), &[]).media;
    assert_eq!((media.read, media.channels, media.capacity_mib), (Span::from_ns(250), 2, 4096));
    assert!(block.lines().any(|line| line.starts_with("fitted = [{ key = \"read_ns\"")));
    assert!(keys.len() >= 12 && keys.iter().all(|line| line.contains(" # ")), "each value says where it comes from");
}

#[test]
fn the_derived_constants_of_the_papers_are_in_the_presets() {
    let prototype = Drive::shipped("dc-express-block").unwrap();
    let first_packet = Span::from_ns_f64(128.0 / prototype.media.bus_bytes_per_ns);
    assert_eq!(prototype.media.read + prototype.media.command + first_packet, Span::from_ns(368));
    let stages = prototype.stack.stages.iter();
    let software: Span = stages.map(|stage| stage.submit + stage.complete).sum();
    assert_eq!(software, Span::from_ns(506 + 1170 + 990));

    let card = drive("interface = 'nvme'\nmedia.preset = 'pcm-p5q'\n", &[]).media;
    let transfer = |bytes: f64| Span::from_ns_f64(bytes / card.bus_bytes_per_ns);
    let chip_access = (card.read + card.command + transfer(128.0)).as_ns();
    assert!((chip_access - 4485.0).abs() < 1.0, "{chip_access}");
    let reads_per_second = 1.0 / transfer(512.0).as_s();
    assert!((reads_per_second - 74_300.0).abs() < 100.0, "{reads_per_second}");
}

#[test]
fn layers_win_in_the_order_default_preset_shipped_file_set() {
    let text = "preset = 'nvme'\n[media]\ncommand_ns = 7\n[nvme]\nparse_ns = 1\n";
    let drive = drive(text, &["nvme.parse_ns=2", "nvme.parse_ns=3"]);
    assert_eq!(drive.media.stripe_bytes, 4096);
    assert_eq!(drive.media.read, Span::from_ns(110));
    assert_eq!(drive.host.wait, Wait::Sleep);
    assert_eq!(drive.media.command, Span::from_ns(7));
    assert_eq!(drive.nvme.parse, Span::from_ns(3));
    assert_eq!(drive.interface, Interface::Nvme);
}

#[test]
fn a_preset_given_on_the_command_line_replaces_the_files() {
    let drive = drive("preset = 'dc-express'\n", &["media.preset=dram"]);
    assert_eq!(drive.media.read, Span::from_ns(50));
    assert_eq!(drive.media.program, Span::ZERO);
}

#[test]
fn explicit_keys_survive_a_change_of_preset_and_preset_keys_do_not() {
    let text = "interface = 'nvme'\n[media]\npreset = 'nand-slc'\nchannels = 3\n";
    let drive = drive(text, &["media.preset=dram"]);
    assert_eq!(drive.media.channels, 3);
    assert_eq!(drive.media.read, Span::from_ns(50));
}

#[test]
fn a_drive_is_named_by_its_file_unless_it_says_otherwise() {
    let read = |file, text| Drive::from_toml(file, text, &[]).unwrap().name;
    assert_eq!(read("lab/mine.toml", "preset = 'nvme'"), "mine");
    assert_eq!(read("mine", "preset = 'nvme'\nname = 'yours'"), "yours");
    assert_eq!(read("", "preset = 'nvme'"), "drive");
    assert_eq!(drive("preset = 'nvme'", &["name=ours"]).name, "ours");
}

#[test]
fn a_mark_as_fitted_goes_when_the_value_is_replaced() {
    assert_eq!(fitted(&drive("preset = 'capi'\n", &[])), ["host.interrupt_ns", "capi.psl_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n[host]\ninterrupt_ns = 1\n", &[])), ["capi.psl_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n", &["capi.psl_ns=1"])), ["host.interrupt_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n[host]\npreset = 'power8-s812lc'\n", &[])), ["capi.psl_ns"]);
}

#[test]
fn a_file_may_mark_its_own_keys_as_fitted() {
    let text = "preset = 'nvme'\n[nvme]\nparse_ns = 9\n[[fitted]]\nkey = 'nvme.parse_ns'\nwhy = 'a guess'\n";
    let drive = drive(text, &[]);
    let mark = drive.fitted.iter().find(|mark| mark.key == "nvme.parse_ns").unwrap();
    assert_eq!(mark.why, "a guess");
}

#[test]
fn the_resolved_form_reads_back_to_an_equal_drive() {
    for name in shipped::names() {
        let given = ["dc_express.max_latency_us=1.234567", "link.bit_error_rate=1e-12", "stack.copy_bytes_per_ns=1.5"];
        let drive = drive(&format!("preset = '{name}'"), &given);
        let text = drive.to_toml();
        assert_eq!(read(&text).unwrap(), drive, "{text}");
    }
}

#[test]
fn the_resolved_form_gives_spans_in_the_unit_of_their_key() {
    let resolved = Drive::shipped("dc-express").unwrap().resolved();
    assert_eq!(resolved["dc_express"]["tag_ns"], 2.5);
    assert_eq!(resolved["dc_express"]["max_latency_us"], 0);
    assert_eq!(resolved["interface"], "dc-express");
    assert_eq!(resolved["media"]["technology"], "pcm");
    assert_eq!(resolved["fitted"][0]["key"], "host.interrupt_ns");
}

#[test]
fn the_explanation_tells_where_each_value_comes_from() {
    let text = "preset = 'dc-express'\n[media]\ncommand_ns = 7\n";
    let explanation = drive(text, &["media.read_ns=300"]).explain();
    let words = |key: &str| -> Vec<&str> {
        let line = explanation.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
        line.split_whitespace().take(4).collect()
    };
    assert_eq!(words("read_ns"), ["read_ns", "300", "ns", "--set"]);
    assert_eq!(words("command_ns"), ["command_ns", "7", "ns", "file"]);
    assert_eq!(words("program_ns"), ["program_ns", "120_000", "ns", "preset"]);
    assert_eq!(words("hop_ns"), ["hop_ns", "150", "ns", "default"]);
    assert_eq!(words("turnaround_ns"), ["turnaround_ns", "32", "ns", "shipped"]);
    assert_eq!(words("interrupt_ns"), ["interrupt_ns", "3470", "ns", "*"]);
    assert!(explanation.contains("[media] The memory behind the controller. (preset pcm-lpddr2-nvm)"));
}

#[test]
fn every_key_is_explained() {
    for name in shipped::names() {
        let drive = Drive::shipped(name).unwrap();
        let explanation = drive.explain();
        for key in drive.sections().iter().flat_map(|section| section.keys()) {
            assert!(explanation.contains(&format!("  {} ", key.name)), "{}", key.name);
            assert!(!key.about.is_empty(), "{}", key.name);
        }
    }
}

#[test]
fn a_description_must_say_which_interface_it_means() {
    assert!(messages("").contains("drive.toml: the interface is missing"));
    assert!(messages("interface = 3").starts_with("drive.toml:1: interface is 3; allowed: nvme, dc-express"));
}
