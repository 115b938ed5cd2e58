//! Reader of fio job files, and of the same options as flags.
//!
//! The meaning of each option is that of fio's documentation; [`options`](super::options) lists the supported ones.
//! Where fio silently ignores a mistake, this reader reports it.

use super::check::JobPlace;
use super::draft::JobDraft;
use super::job_file::WrittenJobFile;
use super::options;
use crate::problem::{Problem, Problems, is_unprintable};

/// Largest number of characters of a job's name. Names stand in tables, whose cells have lengths below 2^16.
const NAME_CHARACTERS_MAX: usize = 1000;

/// Reads the jobs of a fio job file. All its mistakes are reported at once, in the order of their lines.
pub fn parse(file_name: &str, text: &str) -> Result<WrittenJobFile, Problems> {
    if text.trim_start().starts_with('{') {
        let allowed = "a fio job file, with options such as rw=randread below [NAME]";
        return Err(Problem::new(file_name, None, "the file is JSON", allowed).into());
    }
    let mut reader = JobFileReader::new(file_name);
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, strip_comment(line));
    }
    reader.finish()
}

/// Reads one job from options given as pairs, with the names and values of job files. An empty value stands for an
/// option without a value.
pub fn job_from_flags(flags: &[(&str, &str)]) -> Result<WrittenJobFile, Problems> {
    let lines: Vec<_> = flags.iter().map(|(name, text)| (*name, *text, None)).collect();
    let file = job_from_lines(JobPlace::new("command line", None), &lines)?;
    let unused = file.drafts.iter().flat_map(JobDraft::unused);
    Problems(repeated_option_problems(flags).chain(unused).collect()).or(file)
}

/// Returns a problem for each option that is given again, under the same or another name: only one value would count.
fn repeated_option_problems<'a>(flags: &'a [(&str, &str)]) -> impl Iterator<Item = Problem> + 'a {
    let first_name = |name: &str| match options::find(name)?.names[0] {
        "rwmixwrite" => Some("rwmixread"),
        first => Some(first),
    };
    flags.iter().enumerate().filter_map(move |(place, (name, text))| {
        let earlier = flags[..place].iter().find(|(earlier, _)| first_name(earlier) == first_name(name))?;
        let found = format!("both {}={} and {name}={text}", earlier.0, earlier.1);
        Some(Problem::new("command line", None, found, "one of them"))
    })
}

/// Reads one job from options, each with name, value and the number of its line in a file. `place` is the position of
/// the job.
pub fn job_from_lines(place: JobPlace, options: &[(&str, &str, Option<usize>)]) -> Result<WrittenJobFile, Problems> {
    let mut draft = JobDraft::new("job", place);
    let mut problems = Vec::new();
    for (name, text, line) in options {
        let text = Some(*text).filter(|text| !text.is_empty());
        problems.extend(options::set(&mut draft, name, text, *line).err());
    }
    problems.extend(draft.contradictory_engine_problem());
    Problems(problems).or(WrittenJobFile { drafts: vec![draft] })
}

/// Returns the line without its comment and surrounding blanks; as in fio, `;` and `#` start a comment anywhere.
fn strip_comment(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or_default().trim()
}

/// Section of a job file to which the options of the current line belong.
enum CurrentSection {
    /// No section: the line is above the first one.
    None,
    Global,
    Job(Box<JobDraft>),
}

/// Reader of a fio job file, with the jobs and problems found so far.
struct JobFileReader {
    file: String,
    /// Options of the `[global]` sections above the current line; every later job starts from them.
    defaults: JobDraft,
    section: CurrentSection,
    drafts: Vec<JobDraft>,
    problems: Vec<Problem>,
}

impl JobFileReader {
    fn new(file_name: &str) -> JobFileReader {
        JobFileReader {
            file: file_name.into(),
            defaults: JobDraft::new("", JobPlace::new(file_name, None)),
            section: CurrentSection::None,
            drafts: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() {
            return;
        }
        match line.strip_prefix('[') {
            Some(head) => self.head(number, line, head),
            None => self.option(number, line),
        }
    }

    /// Ends the current section and starts the one that the line `[head` names: `[global]` or a job.
    fn head(&mut self, number: usize, line: &str, head: &str) {
        self.end_section();
        let name = head.strip_suffix(']').map(str::trim).unwrap_or_default();
        if name.is_empty() {
            self.problem(number, format!("`{line}`"), "[global] or [NAME]");
        }
        if name.chars().count() > NAME_CHARACTERS_MAX || name.contains(is_unprintable) {
            self.problem(number, format!("`{line}`"), "a printable name of at most 1000 characters");
        }
        if name == "global" {
            self.section = CurrentSection::Global;
            return;
        }
        let mut draft = self.defaults.clone();
        draft.job.name = name.into();
        draft.given.clear();
        draft.place.line = Some(number);
        self.section = CurrentSection::Job(Box::new(draft));
    }

    /// Sets an option of the current section from a line with `name=value`, or with a name alone.
    fn option(&mut self, number: usize, line: &str) {
        let (name, text) = match line.split_once('=') {
            Some((name, text)) => (name.trim(), Some(text.trim())),
            None => (line, None),
        };
        let draft = match &mut self.section {
            CurrentSection::None => {
                return self.problem(number, format!("`{line}` outside of a section"), "[global] or [NAME] above it");
            }
            CurrentSection::Global => &mut self.defaults,
            CurrentSection::Job(draft) => draft,
        };
        self.problems.extend(options::set(draft, name, text, Some(number)).err());
    }

    fn end_section(&mut self) {
        if let CurrentSection::Job(draft) = std::mem::replace(&mut self.section, CurrentSection::None) {
            self.problems.extend(draft.contradictory_engine_problem());
            self.problems.extend(draft.unused());
            self.drafts.push(*draft);
        }
    }

    fn finish(mut self) -> Result<WrittenJobFile, Problems> {
        self.end_section();
        if self.drafts.is_empty() && self.problems.is_empty() {
            self.problems.push(Problem::new(self.file.clone(), None, "no job", "at least one section [NAME]"));
        }
        self.check_job_names();
        self.check_job_files();
        self.problems.sort_by_key(|problem| problem.line);
        Problems(self.problems).or(WrittenJobFile { drafts: self.drafts })
    }

    /// Reports jobs with the name of an earlier job: results and random numbers are identified by the job's name.
    fn check_job_names(&mut self) {
        for (index, draft) in self.drafts.iter().enumerate() {
            if self.drafts[..index].iter().any(|earlier| earlier.job.name == draft.job.name) {
                let found = format!("a second job `{}`", draft.job.name);
                self.problems.push(draft.place.problem("name", found, "a name of its own for each job"));
            }
        }
    }

    /// Reports a job that names another file than the first job that names one: all jobs run against one drive.
    fn check_job_files(&mut self) {
        let mut named = self.drafts.iter().filter(|draft| draft.filename.is_some());
        let Some(first) = named.next() else { return };
        if let Some(other) = named.find(|draft| draft.filename != first.filename) {
            let found = "a second filename: all jobs run against the one drive that is described";
            self.problems.push(other.place.problem("filename", found, "the same filename in all jobs, or none"));
        }
    }

    fn problem(&mut self, line: usize, found: String, allowed: &str) {
        self.problems.push(Problem::new(self.file.clone(), line, found, allowed));
    }
}

#[cfg(test)]
mod tests;
