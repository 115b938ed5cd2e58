//! Papers whose results are reproduced and that come with the program.

use super::{PAPERS, Reproduction};
use crate::problem::{Problem, Problems};
use crate::spelling;

/// A paper, which is the folder `reproductions/<name>`.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name of the folder.
    pub name: &'static str,
    plan: &'static str,
    expected: &'static str,
    depends_on: &'static str,
}

/// All papers.
pub fn all() -> impl Iterator<Item = Paper> {
    PAPERS.iter().map(|&(name, plan, expected, depends_on)| Paper { name, plan, expected, depends_on })
}

impl Paper {
    /// True if `validate` has its rows, and its name is kept for a while only.
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

/// The six papers: all but what `validate` has taken over.
pub fn counted() -> impl Iterator<Item = Paper> {
    all().filter(|paper| !paper.is_in_validation())
}

/// Paper of this name.
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

/// Paper whose name, or the first word of it, is most similar to `word`.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let first = |name: &'a str| name.split('-').next().unwrap_or(name);
    spelling::nearest(word, known.iter().copied()).or_else(|| {
        let meant = spelling::nearest(word, known.iter().copied().map(first))?;
        known.iter().copied().find(|name| first(name) == meant)
    })
}
