//! Tests of precedence between layers, and of the recorded origin of each value.

use expect_test::expect;

use super::super::{Described, Drive, KeyOverride, presets, refuse_files, shipped};
use super::{messages, read, read_with_overrides};
use crate::config::Wait;
use crate::config::section::Section;
use crate::drive::Interface;
use crate::problem::{Problem, Problems};
use crate::time::Span;

fn drive(text: &str, given: &[&str]) -> Drive {
    read_with_overrides(text, given).unwrap_or_else(|problems| panic!("{problems}"))
}

fn fitted(drive: &Drive) -> Vec<&str> {
    drive.fitted.iter().map(|mark| mark.key.as_str()).collect()
}

#[test]
fn shipped_drives_load_under_their_own_name() {
    for name in shipped::names() {
        let drive = Drive::shipped(name).unwrap();
        assert_eq!(drive.name, name);
        assert!(!drive.summary.is_empty(), "{name}");
    }
    assert!(Drive::shipped("no such drive").is_none());
}

#[test]
fn all_presets_load_and_have_a_summary() {
    let all = presets::all();
    assert!(all.len() > 30, "{}", all.len());
    for preset in all {
        let text = format!("interface = 'nvme'\n[{}]\npreset = '{}'\n", preset.section, preset.name);
        drive(&text, &[]);
        assert!(!preset.summary.is_empty(), "{preset:?}");
    }
}

#[test]
fn presets_contain_constants_derived_from_the_papers() {
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
fn layers_take_precedence_in_order_default_preset_shipped_file_set() {
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
fn command_line_preset_replaces_that_of_the_file() {
    let drive = drive("preset = 'dc-express'\n", &["media.preset=dram"]);
    assert_eq!(drive.media.read, Span::from_ns(50));
    assert_eq!(drive.media.program, Span::ZERO);
}

#[test]
fn preset_replaces_its_section_only_in_lower_layers() {
    let text = "interface = 'nvme'\n[media]\npreset = 'nand-slc'\nchannels = 3\nacknowledge = 'early'\n";
    let replaced = drive(text, &["media.preset=dram"]);
    assert_eq!(replaced.media, drive("interface = 'nvme'\nmedia.preset = 'dram'\n", &[]).media);
    let kept = drive(text, &["media.read_ns=70", "media.preset=dram", "media.channels=5"]).media;
    assert_eq!((kept.read, kept.channels), (Span::from_ns(70), 5), "the command line is one text");
    let lanes = drive("preset = 'nvme-ssd-gen3'\n", &[]).link.lanes;
    assert_eq!(lanes, 4, "its base has eight");
    assert_eq!(drive("preset = 'pcie-pcm-next'\n", &["link.preset=gen5-x4"]).link.lanes, 4);
}

#[test]
fn host_preset_keeps_the_drives_wait_method() {
    let waits = |text: &str| drive(text, &["host.preset=nehalem-2x4"]).host.wait;
    assert_eq!(waits("preset = 'nvme'\n"), Wait::Sleep);
    assert_eq!(waits("preset = 'nvme-polled'\n"), Wait::Spin);
}

#[test]
fn replaced_preset_values_are_in_the_notes() {
    let moved = drive("preset = 'nvme-ssd-gen3'\n", &["link.preset=gen3-x4", "media.preset=dram"]);
    let [note] = &moved.notes()[..] else { panic!("{:?}", moved.notes()) };
    assert!(note.starts_with("drive: media.preset = dram replaces "), "{note}");
    assert!(note.contains("capacity_mib = 1_144_409"), "{note}");
    assert!(moved.explain().contains("capacity_mib = 1_144_409"), "{}", moved.explain());
    let explained = Drive::shipped("nvme-ssd-gen3").unwrap();
    assert!(explained.explain().contains("the preset replaces lanes = 8\n"), "{}", explained.explain());
    assert!(explained.notes().is_empty(), "that is the drive's own doing");
}

/// Files in a folder `lab`, beside `lab/mine.toml`.
fn lab_files(path: &str) -> Result<String, Problem> {
    let text = match path {
        "lab/base.toml" => {
            "preset = 'nvme'\nname = 'base'\n[nvme]\nqueue_pairs = 3\n[media]\npreset = 'parts/cells.toml'\n"
        }
        "lab/parts/cells.toml" => {
            "assumed = [{ key = 'media.read_ns', low = 1, high = 9, why = 'a guess' }]\n\
             [media]\npreset = 'dram'\nread_ns = 5\n[link]\nlanes = 2\n"
        }
        "lab/round.toml" => "preset = 'round.toml'\n",
        "lab/wrong.toml" => "interface = 'nvme'\n[media]\nreed_ns = 5\n",
        _ => return Err(Problem::new(path, None, "cannot be read: no such file", "")),
    };
    Ok(String::from(text))
}

fn read_lab_drive(text: &str, given: &[&str]) -> Result<Drive, Problems> {
    let overrides: Vec<KeyOverride> = given.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_files("lab/mine.toml", text, &overrides, lab_files)
}

#[test]
fn user_file_can_be_a_preset_for_a_drive_or_section() {
    let whole = read_lab_drive("preset = 'base.toml'\n[nvme]\nparse_ns = 7\n", &[]).unwrap();
    assert_eq!((whole.name.as_str(), whole.nvme.queue_pairs, whole.nvme.parse), ("mine", 3, Span::from_ns(7)));
    assert!(whole.explain().contains("starts from the drive lab/base.toml, from nvme\n"), "{}", whole.explain());
    let cells =
        read_lab_drive("interface = 'nvme'\n[media]\npreset = 'parts/cells.toml'\nchannels = 2\n", &[]).unwrap();
    assert_eq!((cells.media.read, cells.media.channels, cells.link.lanes), (Span::from_ns(5), 2, whole.link.lanes));
    assert_eq!(whole.media.read, cells.media.read);
    for drive in [&whole, &cells] {
        assert!(drive.assumed.iter().any(|mark| mark.key == "media.read_ns" && mark.why == "a guess"));
    }
    let given = read_lab_drive("interface = 'nvme'\n", &["media.preset=lab/parts/cells.toml"]).unwrap();
    assert_eq!(given.media.read, cells.media.read, "paths on the command line are relative to nothing");
}

#[test]
fn problem_in_another_file_is_reported_there() {
    let problems = |text: &str| read_lab_drive(text, &[]).unwrap_err().to_string();
    let nowhere = problems("preset = 'nowhere.toml'\n");
    assert!(nowhere.starts_with("lab/mine.toml:1: preset is 'nowhere.toml': cannot be read"), "{nowhere}");
    assert_eq!(nowhere.lines().count(), 1, "{nowhere}");
    let round = problems("preset = 'round.toml'\n");
    assert!(round.contains("lab/round.toml:1: preset is 'round.toml': more than 16 files start from"), "{round}");
    let wrong = problems("interface = 'nvme'\n[media]\npreset = 'wrong.toml'\n");
    assert!(wrong.contains("lab/wrong.toml:3: unknown key reed_ns in [media]"), "{wrong}");
    let alone = read("preset = 'base.toml'\n").unwrap_err().to_string();
    assert!(alone.contains("cannot read other files here"), "{alone}");
}

#[test]
fn unnamed_drive_is_named_after_its_file() {
    let read = |file, text| Drive::from_toml(file, text, &[]).unwrap().name;
    assert_eq!(read("lab/mine.toml", "preset = 'nvme'"), "mine");
    assert_eq!(read("mine", "preset = 'nvme'\nname = 'yours'"), "yours");
    assert_eq!(read("", "preset = 'nvme'"), "drive");
    assert_eq!(drive("preset = 'nvme'", &["name=ours"]).name, "ours");
}

#[test]
fn fitted_mark_is_dropped_with_its_value() {
    assert_eq!(fitted(&drive("preset = 'capi'\n", &[])), ["host.interrupt_ns", "capi.psl_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n[host]\ninterrupt_ns = 1\n", &[])), ["capi.psl_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n", &["capi.psl_ns=1"])), ["host.interrupt_ns"]);
    assert_eq!(fitted(&drive("preset = 'capi'\n[host]\npreset = 'power8-s812lc'\n", &[])), ["capi.psl_ns"]);
}

#[test]
fn file_may_mark_its_own_keys_as_fitted_values() {
    let text = "preset = 'nvme'\n[nvme]\nparse_ns = 9\n[[fitted]]\nkey = 'nvme.parse_ns'\nwhy = 'a guess'\n";
    let drive = drive(text, &[]);
    let mark = drive.fitted.iter().find(|mark| mark.key == "nvme.parse_ns").unwrap();
    assert_eq!(mark.why, "a guess");
}

#[test]
fn resolved_drive_reads_back_equal() {
    for name in shipped::names() {
        let given = ["dc_express.max_latency_us=1.234567", "link.bit_error_rate=1e-12", "stack.copy_bytes_per_ns=1.5"];
        // A stack with I/O engines does not copy data, so `copy_bytes_per_ns` is not allowed there.
        let has_engines = Drive::shipped(name).unwrap().stack.has_engines();
        let drive = drive(&format!("preset = '{name}'"), &given[..if has_engines { 2 } else { 3 }]);
        let text = drive.to_toml();
        assert_eq!(read(&text).unwrap(), drive, "{text}");
    }
}

#[test]
fn resolved_drive_gives_spans_in_key_units() {
    let resolved = Drive::shipped("dc-express").unwrap().resolved();
    assert_eq!(resolved["dc_express"]["tag_ns"], 2.5);
    assert_eq!(resolved["dc_express"]["max_latency_us"], 0);
    assert_eq!(resolved["interface"], "dc-express");
    assert_eq!(resolved["media"]["technology"], "pcm");
    assert_eq!(resolved["fitted"][0]["key"], "host.interrupt_ns");
}

#[test]
fn explanation_shows_value_origins() {
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
    assert_eq!(words("turnaround_ns"), ["turnaround_ns", "32", "ns", "base"]);
    assert_eq!(words("interrupt_ns"), ["interrupt_ns", "3470", "ns", "*"]);
    assert!(explanation.contains("[media] The memory medium behind the drive's controller. (preset pcm-lpddr2-nvm)"));
}

#[test]
fn explanation_lists_all_keys_of_the_drives_parts() {
    for name in shipped::names() {
        let drive = Drive::shipped(name).unwrap();
        let explanation = drive.explain();
        let is_there = |section: &&dyn Section| match section.path() {
            "volume" => drive.volume.is_there(),
            "zones" => drive.zones.is_there(),
            "placement" => drive.placement.is_there(),
            "key_value" => drive.key_value.is_there(),
            _ => true,
        };
        for key in drive.sections().into_iter().filter(is_there).flat_map(|section| section.keys()) {
            assert!(explanation.contains(&format!("  {} ", key.name)), "{}", key.name);
            assert!(!key.about.is_empty(), "{}", key.name);
        }
    }
}

#[test]
fn drive_without_an_interface_is_rejected() {
    assert!(messages("").contains("drive.toml: the key interface is missing"));
    assert!(messages("interface = 3").starts_with("drive.toml:1: interface is 3; allowed: nvme, dc-express"));
}

fn stages(text: &str, given: &[&str]) -> Vec<String> {
    drive(text, given).stack.stages.into_iter().map(|stage| stage.name).collect()
}

#[test]
fn stages_with_a_position_join_the_preset_list() {
    let base = "preset = 'nvme'\n[stack]\npreset = 'linux-3.5-read-fio'\n";
    let own = stages(base, &[]);
    let [first, last] = [own.first().unwrap(), own.last().unwrap()];
    let added = format!(
        "stages = [{{ name = 'a', after = '{last}', submit_ns = 5 }}, {{ name = 'b', before = '{first}' }}, {{ name = 'c', before = 'a' }}]"
    );
    let joined = [vec![String::from("b")], own.clone(), vec![String::from("c"), String::from("a")]].concat();
    assert_eq!(stages(&format!("{base}{added}\n"), &[]), joined);
    assert_eq!(drive(&format!("{base}{added}\n"), &[]).stack.stages.last().unwrap().submit, Span::from_ns(5));
    // A stage that `--set` adds is appended to the stages of the file.
    let set = "stack.stages=[{ name = \"d\", after = \"a\" }]";
    assert_eq!(stages(&format!("{base}{added}\n"), &[set]), [joined, vec![String::from("d")]].concat());
    assert_eq!(stages(&format!("{base}stages = [{{ name = 'alone' }}]\n"), &[]), ["alone"]);
    assert_eq!(stages(&format!("{base}stages = []\n"), &[]), [""; 0]);
}

#[test]
fn stage_with_an_unknown_or_missing_position_is_refused() {
    let of = |list: &str| messages(&format!("preset = 'nvme'\n[stack]\npreset = 'linux-6'\nstages = [{list}]\n"));
    let unknown = of("{ name = 'a', after = 'block laier' }");
    assert!(
        unknown.contains(
            "drive.toml:4: stack.stages \"a\" goes after \"block laier\", which is no stage, did you mean block layer?"
        ),
        "{unknown}"
    );
    let some = of("{ name = 'a', after = 'block layer' }, { name = 'b' }");
    assert!(some.contains("stack.stages \"b\" has 0 of the keys before and after"), "{some}");
    let both = of("{ name = 'a', after = 'block layer', before = 'block layer' }");
    assert!(both.contains("stack.stages \"a\" has 2 of the keys before and after"), "{both}");
    assert!(
        of("{ name = 'a', after = 3 }").contains("stack.stages.after is 3; allowed: the name of a stage in quotes")
    );
    assert!(of("{ name = 'a', after = 'block layer', submit_us = 3 }").contains("unknown key submit_us"));
}

/// Sentence on the parts that a drive of this name and text does not state.
fn unstated(file: &str, text: &str, given: &[&str]) -> Option<String> {
    let overrides: Vec<KeyOverride> = given.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Described::read(file, text, &overrides, refuse_files).unwrap().unstated()
}

#[test]
fn own_drive_lists_its_unstated_parts() {
    let told = unstated("d.toml", "interface = 'nvme'\n[media]\nread_ns = 300\n", &[]).unwrap();
    expect!["d: not stated, and therefore assumed: link (PCI Express gen 2 x4) and host (1 core at 3.8 GHz)"]
        .assert_eq(&told);
    assert_eq!(unstated("d.toml", "preset = 'nvme'\n", &[]), None);
    assert_eq!(
        unstated("d.toml", "interface = 'nvme'\n[media]\nread_ns = 3\n[link]\nlanes = 4\n[host]\ncores = 4\n", &[]),
        None
    );
}

#[test]
fn flash_without_translation_is_said_to_be_written_in_place() {
    let told = unstated("d.toml", "preset = 'nvme'\n[media]\ntechnology = 'nand'\n", &[]).unwrap();
    expect![[r#"d: not stated, and therefore assumed: translation (none: each write programs its page in place, without erases or garbage collection; translation.mapping = "page" adds a layer)"#]].assert_eq(&told);
    let shipped = shipped::find("nvme").unwrap();
    assert_eq!(unstated(shipped.file, shipped.text, &["link.lanes=4"]), None);
    assert!(unstated(shipped.file, shipped.text, &["media.preset=nand-slc"]).unwrap().contains("in place"));
    assert_eq!(unstated("d.toml", "preset = 'tlc-gen4'\n", &[]), None);
}
