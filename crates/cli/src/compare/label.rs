//! What tells the groups of a comparison apart, in tables and in sentences.

use phaselink_core::compare::Label;

use crate::describe;

/// Which sizes are worth naming: not that all jobs have one thread, or wait for each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    threads: bool,
    depth: bool,
}

fn block(label: &Label) -> String {
    label.bytes.map_or(String::from("mixed"), |bytes| describe::size(bytes.into()))
}

fn depth(label: &Label) -> String {
    label.iodepth.map_or(String::from("mixed"), |depth| depth.to_string())
}

impl Named {
    pub(super) fn of<'a>(labels: impl Iterator<Item = &'a Label> + Clone) -> Named {
        Named {
            threads: labels.clone().any(|label| label.threads != 1),
            depth: labels.clone().any(|label| label.iodepth != Some(1)),
        }
    }

    /// Headings of the columns between block and drive.
    pub(super) fn headings(self) -> impl Iterator<Item = &'static str> {
        [(self.threads, "threads"), (self.depth, "depth")].into_iter().filter_map(|(named, text)| named.then_some(text))
    }

    /// The cells of a row before the drive's name.
    pub(super) fn cells(self, label: &Label) -> Vec<String> {
        let threads = self.threads.then(|| label.threads.to_string());
        [Some(block(label)), threads, self.depth.then(|| depth(label))].into_iter().flatten().collect()
    }

    /// `4 KiB, 8 threads and depth 4`
    pub(super) fn place(self, label: &Label) -> String {
        let block = label.bytes.map_or(String::from("mixed sizes"), |bytes| describe::size(bytes.into()));
        let threads = self.threads.then(|| describe::counted(label.threads.into(), "thread"));
        let depth = || label.iodepth.map_or(String::from("mixed depths"), |depth| format!("depth {depth}"));
        let depth = self.depth.then(depth);
        describe::listed(&[Some(block), threads, depth].into_iter().flatten().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::workload::Job;

    fn job(threads: u32, iodepth: u32) -> Job {
        Job { threads, iodepth, ..Job::named("job") }
    }

    #[test]
    fn only_sizes_that_someone_has_chosen_are_named() {
        let label = Label::of(&[job(1, 1)]);
        let threads = Label::of(&[job(8, 1)]);
        assert_eq!(Named::of([&label].into_iter()).place(&label), "4 KiB");
        let named = Named::of([&label, &threads].into_iter());
        assert_eq!(named.headings().collect::<Vec<_>>(), ["threads"]);
        assert_eq!(named.cells(&threads), ["4 KiB", "8"]);
        assert_eq!(named.place(&label), "4 KiB and 1 thread");
    }

    #[test]
    fn what_jobs_of_a_group_do_not_share_is_mixed() {
        let label = Label::of(&[job(1, 4), Job { read_percent: 0.0, ..job(2, 8) }]);
        assert_eq!((label.threads, label.iodepth, label.rw, label.bytes), (3, None, None, Some(4096)));
        let named = Named::of([&label].into_iter());
        assert_eq!(named.place(&label), "4 KiB, 3 threads and mixed depths");
        assert_eq!(named.cells(&label), ["4 KiB", "3", "mixed"]);
    }
}
