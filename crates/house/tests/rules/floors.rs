//! Layers of a crate, as the tables of ARCHITECTURE.md list them: files import from lower layers, and from those before them in their own.

use crate::imports::imports;
use crate::sources::{Source, product, read};

/// Words before the folder in the head of a table of layers.
const HEAD: &str = "| floors of `";

/// Layers of one source folder.
struct FolderLayers {
    folder: String,
    /// Files and folders of each layer, the lowest first; `*` stands for any folder.
    rooms: Vec<Vec<String>>,
}

impl FolderLayers {
    /// All tables of layers in a page.
    fn read(page: &str) -> Vec<FolderLayers> {
        let tables = page.split(HEAD).skip(1).map(|table| {
            let folder = String::from(table.split('`').next().expect("a folder"));
            let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
            let rooms = |row: &str| {
                let cell = row.split('|').nth(2).expect("two columns");
                cell.split('`').skip(1).step_by(2).map(|room| String::from(room.trim_end_matches('/'))).collect()
            };
            FolderLayers { folder, rooms: rows.map(rooms).collect() }
        });
        tables.collect()
    }

    /// Every import that does not lead down, every file without a layer, and every entry of the table without a file.
    fn violations(&self, sources: &[Source]) -> Vec<String> {
        let homeless = sources.iter().filter(|source| self.room(&source.path).is_none());
        let mut found: Vec<String> =
            homeless.map(|source| format!("{}/{} stands on no floor", self.folder, source.path)).collect();
        let is_empty = |room: &&String| !sources.iter().any(|source| holds(room, &source.path));
        found.extend(self.rooms.iter().flatten().filter(is_empty).map(|room| format!("{room} holds no file")));
        for (file, imported) in imports(sources) {
            for other in imported.iter().filter(|other| !self.allows_import(&file, other)) {
                found.push(format!("{}/{file} imports {other}", self.folder));
            }
        }
        found
    }

    fn allows_import(&self, file: &str, other: &str) -> bool {
        match (self.room(file), self.room(other)) {
            (Some(own), Some(other)) => self.place(other) <= self.place(own),
            _ => true,
        }
    }

    /// The most specific entry of the table that holds a file.
    fn room(&self, path: &str) -> Option<&str> {
        let holding = self.rooms.iter().flatten().filter(|room| holds(room, path));
        holding.max_by_key(|room| room.matches('/').count()).map(String::as_str)
    }

    /// Place of an entry among all entries, from the lowest floor up and from left to right.
    fn place(&self, room: &str) -> usize {
        self.rooms.iter().flatten().position(|other| other == room).expect("an entry of the table")
    }
}

fn holds(room: &str, path: &str) -> bool {
    let (room, path): (Vec<&str>, Vec<&str>) = (room.split('/').collect(), path.split('/').collect());
    room.len() <= path.len() && room.iter().zip(&path).all(|(room, part)| *room == "*" || room == part)
}

#[test]
fn files_import_only_from_lower_layers_of_the_architecture_page() {
    let tables = FolderLayers::read(&read("ARCHITECTURE.md"));
    let folders: Vec<&str> = tables.iter().map(|table| table.folder.as_str()).collect();
    assert_eq!(folders, ["crates/core/src", "crates/studies/src", "crates/serve/src", "crates/cli/src"]);
    let violations: Vec<String> =
        tables.iter().flat_map(|floors| floors.violations(&product(&floors.folder))).collect();
    crate::at_most(0, &violations);
}

#[test]
fn import_from_a_higher_layer_or_a_later_entry_is_found() {
    let page = "text\n| floors of `x/src` | rooms |\n|---|---|\n| low | `time.rs` (a clock) `media/` |\n\
                | keys | `p/*/config.rs` |\n| high | `p/` `engine/` |\n\n| other | table |\n";
    let floors = FolderLayers::read(page).remove(0);
    assert_eq!(floors.rooms, [vec!["time.rs", "media"], vec!["p/*/config.rs"], vec!["p", "engine"]]);
    let planted = [
        Source::new("time.rs", "use crate::media::Media;"),
        Source::new("media/mod.rs", "use crate::{time::Time, engine::{self, Engine}};"),
        Source::new("p/nvme/config.rs", "use super::super::super::media::Media;"),
        Source::new("p/nvme/mod.rs", "use config::Config;\nuse crate::engine::Engine;"),
        Source::new("engine/mod.rs", "use super::p::nvme::config::Config;"),
        Source::new("lost.rs", "use crate::engine;"),
    ];
    let expected = [
        "x/src/lost.rs stands on no floor",
        "x/src/media/mod.rs imports engine/mod.rs",
        "x/src/p/nvme/mod.rs imports engine/mod.rs",
        "x/src/time.rs imports media/mod.rs",
    ];
    assert_eq!(floors.violations(&planted), expected);
    let gone: Vec<Source> = planted.into_iter().filter(|source| source.path.starts_with("engine")).collect();
    assert!(floors.violations(&gone).contains(&String::from("time.rs holds no file")));
}
