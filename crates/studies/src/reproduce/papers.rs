//! Papers whose results are reproduced and whose plans come with the program.

use super::{PAPERS, Reproduction};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::spelling;

/// Paper with the texts of its reproduction, the folder `reproductions/<name>`.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name of the paper, which is the name of its folder.
    pub name: &'static str,
    plan: &'static str,
    expected: &'static str,
    depends_on: &'static str,
}

/// Returns all papers whose results are reproduced.
pub fn all() -> impl Iterator<Item = Paper> {
    PAPERS.iter().map(|&(name, plan, expected, depends_on)| Paper { name, plan, expected, depends_on })
}

impl Paper {
    /// True if `validate` has taken over the paper's published results, so that its name is kept for a while only.
    pub fn is_in_validation(&self) -> bool {
        self.name == "modern"
    }

    /// Reads the paper's plan, published results and dependences.
    ///
    /// # Errors
    /// All problems of these texts.
    pub fn load(&self) -> Result<Reproduction, Problems> {
        Reproduction::load(self.name, self.plan, self.expected)?.with_dependence(self.depends_on)
    }
}

/// Returns the papers that count as reproductions, which are all but those whose results `validate` has taken over.
pub fn reproduction_papers() -> impl Iterator<Item = Paper> {
    all().filter(|paper| !paper.is_in_validation())
}

/// Returns the paper of this name.
///
/// # Errors
/// If there is no such paper.
pub fn find(name: &str) -> Result<Paper, Problems> {
    all().find(|paper| paper.name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|paper| paper.name).collect();
        let meant = spelling::question(nearest(name, &known));
        Problem::new("command line", None, format!("there is no paper `{name}`{meant}"), known.join(", ")).into()
    })
}

/// Returns the known paper whose name, or the first word of it, is most similar to `word`.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let first = |name: &'a str| name.split('-').next().unwrap_or(name);
    spelling::nearest(word, known.iter().copied()).or_else(|| {
        let meant = spelling::nearest(word, known.iter().copied().map(first))?;
        known.iter().copied().find(|name| first(name) == meant)
    })
}
