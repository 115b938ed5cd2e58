//! Writes that replace whole objects: each object of the region is written from its first byte to its last before the
//! thread begins another one, in order (a log of regions) or at random.

use crate::number::narrow;
use crate::request::Op;
use crate::workload::{AddressPattern, Job};

/// Objects of a region that a thread replaces one after the other.
#[derive(Clone, Debug)]
pub(super) struct ObjectReplacementTurns {
    object_bytes: u64,
    /// Number of whole objects in the region.
    objects: u64,
    /// Distance from one object of a sequential thread to its next one; `None` if objects are drawn at random.
    step: Option<u64>,
    /// Number of the object that is being written.
    object: u64,
    /// Number of bytes of the current object that have been written.
    written: u64,
    /// True if an object is deallocated before it is written again.
    trims: bool,
}

impl ObjectReplacementTurns {
    /// Makes the objects of thread `thread` of a job in a region of `region_bytes` bytes. The threads of a sequential
    /// job divide the objects: with n threads, each writes every n-th object.
    pub(super) fn new(job: &Job, region_bytes: u64, thread: u32) -> ObjectReplacementTurns {
        let (object_bytes, threads) = (job.object_bytes, u64::from(job.threads));
        let objects = region_bytes / object_bytes;
        let step = (job.pattern == AddressPattern::Sequential).then_some(threads);
        // The thread's current object ends with the first request, which then begins the thread's first own object.
        let object = (u64::from(thread) + objects - threads % objects) % objects;
        ObjectReplacementTurns { object_bytes, objects, step, object, written: object_bytes, trims: job.object_trim }
    }

    /// Returns the number of objects in the region.
    pub(super) fn count(&self) -> u64 {
        self.objects
    }

    /// Returns operation, offset in the region and length of the thread's next request: a write of `bytes` bytes, or the
    /// deallocation of the next object. `drawn` is the number of that object if objects are drawn at random.
    pub(super) fn take(&mut self, drawn: u64, bytes: u32) -> (Op, u64, u32) {
        if self.written == self.object_bytes {
            self.object = self.step.map_or(drawn, |step| (self.object + step) % self.objects);
            self.written = 0;
            if self.trims {
                return (Op::Discard, self.object * self.object_bytes, narrow::<u32, u64>(self.object_bytes));
            }
        }
        let offset = self.object * self.object_bytes + self.written;
        self.written += u64::from(bytes);
        (Op::Write, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(pattern: AddressPattern, threads: u32, thread: u32, object_trim: bool) -> ObjectReplacementTurns {
        let job = Job { pattern, threads, object_bytes: 8192, object_trim, ..Job::named("objects") };
        ObjectReplacementTurns::new(&job, 5 * 8192 + 4096, thread)
    }

    fn taken(mut turns: ObjectReplacementTurns, drawn: &[u64]) -> Vec<(Op, u64)> {
        drawn.iter().map(|drawn| turns.take(*drawn, 4096)).map(|(op, offset, _)| (op, offset / 4096)).collect()
    }

    #[test]
    fn drawn_object_is_written_whole_before_the_next() {
        let write = |block| (Op::Write, block);
        let found = taken(turns(AddressPattern::Random, 1, 0, false), &[3, 0, 1, 2, 1]);
        assert_eq!(found, [write(6), write(7), write(2), write(3), write(2)]);
    }

    #[test]
    fn sequential_objects_are_divided_among_threads_and_trimmed_first() {
        let object = |it: u64| [(Op::Discard, 2 * it), (Op::Write, 2 * it), (Op::Write, 2 * it + 1)];
        assert_eq!(
            taken(turns(AddressPattern::Sequential, 2, 0, true), &[0; 9]),
            [object(0), object(2), object(4)].concat()
        );
        assert_eq!(
            taken(turns(AddressPattern::Sequential, 2, 1, true), &[0; 9]),
            [object(1), object(3), object(0)].concat()
        );
    }
}
