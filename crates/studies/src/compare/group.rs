//! Results of all drives under the same jobs, and the sizes of the jobs that texts name.

use super::{Cell, LineLabel};
use crate::report::Table;
use crate::results::words::{counted, listed, size};

/// Results of all drives under the same jobs, in the order of the drives.
#[derive(Clone, Debug)]
pub struct ComparedGroup {
    /// Sizes of the jobs.
    pub label: LineLabel,
    /// Result of each drive; `None` for a drive whose queues are too short for the jobs.
    pub cells: Vec<Option<Cell>>,
}

/// Sizes of jobs that texts name: threads unless all groups have one thread, queue depth unless all have depth 1.
/// Sentences always name the block size, tables only if it differs.
#[derive(Clone, Copy, Debug)]
pub struct NamedJobSizes {
    block: bool,
    threads: bool,
    depth: bool,
}

/// Returns which sizes of jobs (threads, queue depth) texts about these groups must name.
pub fn named(groups: &[ComparedGroup]) -> NamedJobSizes {
    let blocks = || groups.iter().map(|group| group.label.bytes);
    NamedJobSizes {
        block: blocks().any(|bytes| bytes.is_none() || Some(bytes) != blocks().next()),
        threads: groups.iter().any(|group| group.label.threads != 1),
        depth: groups.iter().any(|group| group.label.iodepth != Some(1)),
    }
}

impl NamedJobSizes {
    /// Returns a table with the columns before that of the drive: block size, threads and depth, if they are named.
    pub fn table(self) -> Table {
        let table = if self.block { Table::new().left("block") } else { Table::new() };
        let headings = [(self.threads, "threads"), (self.depth, "depth")];
        headings.into_iter().filter(|(is_named, _)| *is_named).fold(table, |table, (_, text)| table.right(text))
    }

    /// Returns the cells of a table row before the drive's name: block size, threads and depth, if they are named.
    pub fn cells(self, label: &LineLabel) -> Vec<String> {
        let block = || label.bytes.map_or(String::from("mixed"), |bytes| size(bytes.into()));
        let depth = || label.iodepth.map_or(String::from("mixed"), |depth| depth.to_string());
        let threads = self.threads.then(|| label.threads.to_string());
        [self.block.then(block), threads, self.depth.then(depth)].into_iter().flatten().collect()
    }

    /// Returns the sizes of jobs as text, such as `4 KiB, 8 threads and depth 4`.
    pub fn place(self, label: &LineLabel) -> String {
        let block = label.bytes.map_or(String::from("mixed sizes"), |bytes| size(bytes.into()));
        let threads = self.threads.then(|| counted(label.threads.into(), "thread"));
        let depth = || label.iodepth.map_or(String::from("mixed depths"), |depth| format!("depth {depth}"));
        listed(&[Some(block), threads, self.depth.then(depth)].into_iter().flatten().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::workload::{BlockShare, Job};

    fn group(jobs: &[Job]) -> ComparedGroup {
        ComparedGroup { label: LineLabel::of(jobs), cells: Vec::new() }
    }

    fn job(threads: u32, iodepth: u32) -> Job {
        Job { threads, iodepth, ..Job::named("job") }
    }

    #[test]
    fn only_chosen_sizes_are_named() {
        let (one, eight) = (group(&[job(1, 1)]), group(&[job(8, 1)]));
        assert_eq!(named(std::slice::from_ref(&one)).place(&one.label), "4 KiB");
        let named = named(&[one.clone(), eight.clone()]);
        assert_eq!(named.cells(&eight.label), ["8"]);
        assert_eq!(named.place(&one.label), "4 KiB and 1 thread");
    }

    #[test]
    fn block_size_column_appears_only_if_sizes_differ() {
        let small = group(&[job(1, 1)]);
        let large = group(&[Job { read_blocks: vec![BlockShare { bytes: 8192, percent: 100.0 }], ..job(1, 1) }]);
        assert_eq!(named(&[small.clone(), small.clone()]).cells(&small.label), [""; 0]);
        assert_eq!(named(&[small.clone(), large.clone()]).cells(&large.label), ["8 KiB"]);
    }

    #[test]
    fn unequal_job_parameters_of_a_group_are_called_mixed() {
        let mixed = group(&[job(1, 4), Job { read_percent: 0.0, ..job(2, 8) }]);
        let label = mixed.label.clone();
        assert_eq!((label.threads, label.iodepth, label.rw, label.bytes), (3, None, None, Some(4096)));
        let named = named(&[mixed]);
        assert_eq!(named.place(&label), "4 KiB, 3 threads and mixed depths");
        assert_eq!(named.cells(&label), ["3", "mixed"]);
    }
}
