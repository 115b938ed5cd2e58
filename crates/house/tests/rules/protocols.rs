//! Names of protocols: each stands in the folders of its protocol and nowhere else.

use crate::sources::{Source, product, read};

/// Folders outside the list of protocols that belong to one protocol, by the words that may stand there.
const HOMES: [(&str, &[&str]); 8] = [
    ("crates/ring/src/", &["dc_express"]),
    ("crates/client/src/", &["dc_express"]),
    ("crates/serve/src/front/shm/", &["dc_express"]),
    ("crates/serve/src/front/vfio_user/", &["nvme"]),
    ("crates/serve/src/front/nvme_", &["nvme"]),
    ("crates/serve/src/front/mod.rs", &["nvme"]),
    ("crates/serve/src/lib.rs", &["nvme"]),
    ("crates/serve/src/nvme/", &["nvme"]),
];

/// One protocol of the list: its folder and all spellings of its name.
struct ProtocolSpellings {
    folder: String,
    spellings: Vec<String>,
}

/// The protocols, as the list of the core has them.
fn protocols() -> Vec<ProtocolSpellings> {
    let list = read("crates/core/src/protocol/mod.rs");
    let entry = |line: &str| {
        let (folder, rest) = line.trim().strip_suffix("\",")?.split_once(": ")?;
        let (section, name) = rest.split_once(" = \"")?;
        let spellings = vec![String::from(folder), section.to_lowercase(), String::from(name), name.replace('-', " ")];
        Some(ProtocolSpellings { folder: String::from(folder), spellings })
    };
    let names: Vec<ProtocolSpellings> = list.lines().filter_map(entry).collect();
    assert!(names.len() >= 6, "the list of protocols is read");
    names
}

/// Lines that name a protocol outside its folders.
fn find_protocol_name_violations(sources: &[Source]) -> Vec<String> {
    let (mut found, protocols) = (Vec::new(), protocols());
    for source in sources {
        let at_home = |name: &ProtocolSpellings| {
            let mut homes = HOMES.iter().filter(|(home, _)| source.path.starts_with(home));
            homes.any(|(_, folders)| folders.contains(&name.folder.as_str()))
        };
        let foreign: Vec<&ProtocolSpellings> = protocols.iter().filter(|name| !at_home(name)).collect();
        for line in source.text.lines() {
            let words = line.to_lowercase();
            let mut spellings = foreign.iter().flat_map(|name| &name.spellings);
            if let Some(name) = spellings.find(|name| contains_word_or_prefix(&words, name)) {
                found.push(format!("{} names {name}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

/// True if a text holds a word, or a longer word that begins with it.
fn contains_word_or_prefix(text: &str, word: &str) -> bool {
    let mut starts = text.match_indices(word).map(|(start, _)| start);
    starts.any(|start| !text[..start].ends_with(|sign: char| sign.is_alphanumeric()))
}

/// Sources below a folder, with paths from the root of the repository.
fn product_sources_in_folder(folder: &str) -> Vec<Source> {
    let sources = product(folder).into_iter();
    sources.map(|source| Source::new(&format!("{folder}/{}", source.path), &source.text)).collect()
}

#[test]
fn protocols_are_named_only_in_their_own_folders() {
    let mut sources = product_sources_in_folder("crates/core/src");
    sources.retain(|source| !source.path.starts_with("crates/core/src/protocol/"));
    for folder in ["studies", "embed", "embed-c", "serve", "cli", "phaselink", "ring", "client", "python", "wasm"] {
        sources.extend(product_sources_in_folder(&format!("crates/{folder}/src")));
    }
    sources.extend(product_sources_in_folder("benches"));
    crate::at_most(0, &find_protocol_name_violations(&sources));
}

#[test]
fn protocol_named_outside_its_folder_is_found() {
    let planted = |path: &str| [Source::new(path, "if interface == Interface::Nvme {}\nlet on = 1;")];
    let found = "crates/core/src/host/mod.rs names nvme: if interface == Interface::Nvme {}";
    assert_eq!(find_protocol_name_violations(&planted("crates/core/src/host/mod.rs")), [found]);
    assert_eq!(find_protocol_name_violations(&planted("crates/serve/src/nvme/set.rs")), [""; 0]);
    assert_eq!(find_protocol_name_violations(&planted("crates/serve/src/front/shm/serve.rs")).len(), 1);
}
