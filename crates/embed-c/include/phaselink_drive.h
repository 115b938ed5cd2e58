/* A modelled drive in virtual time, with real bytes, inside a C program. Link with libphaselink_drive.
 *
 * The program is the host's software, and time is its own, in picoseconds from 0. It submits operations at instants that it
 * chooses, advances the drive, and takes completions in order. The drive reads no clock and starts no thread, and the same calls
 * give the same completions. A drive belongs to one thread at a time.
 *
 * Functions that return int return 0 or more on success and a negative PHASELINK_E... otherwise, with a sentence in
 * phaselink_drive_error(). A call that fails leaves the drive as it was. */
#ifndef PHASELINK_DRIVE_H
#define PHASELINK_DRIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header; phaselink_drive_version() is that of the library. Both follow Semantic Versioning. */
#define PHASELINK_DRIVE_VERSION "0.3.0"
const char *phaselink_drive_version(void);

typedef struct phaselink_drive phaselink_drive;
typedef struct phaselink_snapshot phaselink_snapshot;
typedef struct phaselink_images phaselink_images;

/* Errors. */
enum {
    PHASELINK_EBACKWARDS = -1,    /* the instant lies before the drive's own */
    PHASELINK_ETOOLATE = -2,      /* the instant lies beyond 106 days */
    PHASELINK_EQUEUE = -3,        /* no such queue */
    PHASELINK_EUNSUPPORTED = -4,  /* the drive has no command for the operation */
    PHASELINK_EUNALIGNED = -5,    /* offset or length is no multiple of the block, or the length is zero */
    PHASELINK_ERANGE = -6,        /* the range ends beyond the drive */
    PHASELINK_ETOOLONG = -7,      /* the operation is too long */
    PHASELINK_ENODATA = -8,       /* a drive that keeps data got a write without any */
    PHASELINK_ETICKET = -9,       /* the ticket was taken, or never given out */
    PHASELINK_ENOTCOMPLETE = -10, /* the operation has not completed */
    PHASELINK_ENEVER = -11,       /* the operation never completes */
    PHASELINK_ENOPOWER = -12,     /* the drive was opened without PHASELINK_POWER_CUTS */
    PHASELINK_EIMAGE = -13,       /* the image belongs to another state */
    PHASELINK_ESEVERAL = -14,     /* not possible on a machine with several drives */
    PHASELINK_EFAULT = -15,       /* the rule of a fault cannot be applied */
    PHASELINK_ESNAPSHOT = -16,    /* the snapshot is one of a drive that was opened in another way */
    PHASELINK_EDRIVE = -17,       /* no such drive of the machine */
    PHASELINK_EIMAGENAME = -18,   /* the drive has no image of this name */
    PHASELINK_ELOAD = -19,        /* the image cannot be put on the drive */
    PHASELINK_EDESCRIPTION = -100,/* the description of the drive, or the file of a recording, is wrong */
    PHASELINK_EARGUMENT = -101    /* a pointer is null, a text is no UTF-8, or a number is none of the listed ones */
};

/* Sentence on the error of this thread's last call that failed; valid until the next. */
const char *phaselink_drive_error(void);

/* Flags of phaselink_drive_open. */
enum {
    PHASELINK_WITHOUT_DATA = 1, /* hold no bytes: times alone */
    PHASELINK_STAGES = 2,       /* keep the stages of each operation */
    PHASELINK_POWER_CUTS = 4,   /* follow what a power cut leaves */
    PHASELINK_HOST_SOFTWARE = 8 /* put the simulated software of the drive file's host in front of the drive */
};

/* Opens a drive: `drive` is the name of a shipped drive, the path of a drive file, or the text of one if it has a line end.
 * `settings` has a setting a line (`media.capacity_mib=64`), or is null. */
int phaselink_drive_open(const char *drive, const char *settings, uint64_t seed, uint32_t flags, phaselink_drive **opened);
void phaselink_drive_close(phaselink_drive *drive);

/* Capacity and block in bytes; number of queues; instant reached; operations in flight. */
uint64_t phaselink_drive_capacity(const phaselink_drive *drive);
uint32_t phaselink_drive_block(const phaselink_drive *drive);
uint16_t phaselink_drive_queues(const phaselink_drive *drive);
uint64_t phaselink_drive_now(const phaselink_drive *drive);
size_t phaselink_drive_in_flight(const phaselink_drive *drive);
/* 1 if completed writes may be lost with power unless a flush follows, otherwise 0. */
int phaselink_drive_is_volatile(const phaselink_drive *drive);

/* Kinds of operations. */
enum {
    PHASELINK_READ = 0,
    PHASELINK_WRITE = 1,
    PHASELINK_FLUSH = 2,
    PHASELINK_DISCARD = 3,
    PHASELINK_WRITE_ZEROES = 4
};

/* Flag of an operation: durable when it completes (force unit access). */
enum { PHASELINK_DURABLE = 1 };

typedef struct phaselink_operation {
    uint32_t kind;
    uint32_t flags;
    uint64_t offset;  /* first byte on the drive */
    uint64_t bytes;   /* length; both are 0 in a flush */
    const void *data; /* bytes of a write, copied by the call; null without data */
} phaselink_operation;

/* 1 if the drive has a command for operations of this kind, otherwise 0. */
int phaselink_drive_supports(const phaselink_drive *drive, uint32_t kind);

/* Submits an operation to a queue at `now_ps`, to which the drive advances. */
int phaselink_drive_submit(phaselink_drive *drive, uint64_t now_ps, uint16_t queue, const phaselink_operation *operation,
                           uint64_t *ticket);

/* Earliest instant at which an operation may complete; PHASELINK_NEVER if none is in flight. */
#define PHASELINK_NEVER UINT64_MAX
uint64_t phaselink_drive_next_at(const phaselink_drive *drive);

/* Advances to an instant; or to the next completion, if it comes before (then 1 is returned, otherwise 0). To the next
 * completion without an end, with PHASELINK_NEVER as the instant: if there is none, the drive stays at its instant. */
int phaselink_drive_advance(phaselink_drive *drive, uint64_t to_ps);
int phaselink_drive_advance_to_completion(phaselink_drive *drive, uint64_t to_ps);

/* Results of operations. */
enum {
    PHASELINK_SUCCESS = 0,
    PHASELINK_MEDIA_ERROR = 1,
    PHASELINK_TIMED_OUT = 2,
    PHASELINK_REMOVED = 3,
    PHASELINK_POWER_LOST = 4
};

typedef struct phaselink_completion {
    uint64_t ticket;
    uint64_t submitted_ps;
    uint64_t at_ps;
    uint32_t status;
    uint32_t reserved;
    const void *data; /* data of a successful read, valid until the next call with this drive; otherwise null */
    uint64_t bytes;   /* length of the data */
} phaselink_completion;

/* Takes the next completion in the order of time: returns 1, or 0 if there is none. */
int phaselink_drive_next_completion(phaselink_drive *drive, phaselink_completion *completion);
/* Takes the completion of one operation; phaselink_drive_wait advances the drive until it has completed. If it never completes, the
 * drive has advanced past all other completions. */
int phaselink_drive_take(phaselink_drive *drive, uint64_t ticket, phaselink_completion *completion);
int phaselink_drive_wait(phaselink_drive *drive, uint64_t ticket, phaselink_completion *completion);

/* Stage number `place`, from 0, of the completion that was taken last: its name and its time. Returns 1, or 0 if there are not so
 * many. Stages sum to the latency. */
int phaselink_drive_stage(const phaselink_drive *drive, size_t place, const char **name, uint64_t *time_ps);

/* Reads bytes as they are now, without an operation and without time. */
int phaselink_drive_peek(const phaselink_drive *drive, uint64_t offset, void *into, size_t bytes);

/* Injects faults from now on: a line of a timeline, as in "at=2s for=500ms stall", or one rule of a drive file's
 * [[faults]] in one line. */
int phaselink_drive_inject_fault(phaselink_drive *drive, const char *rule);

/* What a power cut leaves: everything that was submitted; only what had to survive; or a legal state drawn from `seed`. */
enum { PHASELINK_EVERYTHING = 0, PHASELINK_DURABLE_ONLY = 1, PHASELINK_DRAWN = 2 };
int phaselink_drive_cut_power(phaselink_drive *drive, uint64_t now_ps, uint32_t survival, uint64_t seed);

/* Up to `wanted` of the states that a power cut may leave now: all, if there are no more, otherwise states drawn from `seed`. Each has
 * a name, and an explanation with a line for each write that is missing or torn and one that says how to replay it; both live as long
 * as the list, and are null for a place that it does not have. */
int phaselink_drive_images(const phaselink_drive *drive, size_t wanted, uint64_t seed, phaselink_images **images);
size_t phaselink_images_count(const phaselink_images *images);
const char *phaselink_images_name(const phaselink_images *images, size_t place);
const char *phaselink_images_explanation(const phaselink_images *images, size_t place);
int phaselink_images_read(const phaselink_images *images, size_t place, uint64_t offset, void *into, size_t bytes);
/* Cuts the power, and leaves the drive in one of these states. */
int phaselink_drive_cut_power_to(phaselink_drive *drive, uint64_t now_ps, const phaselink_images *images, size_t place);
void phaselink_images_free(phaselink_images *images);
/* The state of this name, or the state that PHASELINK_DRAWN leaves with `seed`: a list of one. */
int phaselink_drive_image(const phaselink_drive *drive, const char *name, phaselink_images **images);
int phaselink_drive_drawn_image(const phaselink_drive *drive, uint64_t seed, phaselink_images **images);
/* States that a power cut may leave at any event of a recording that `phaselink crash --record` made: the one of this name, or if
 * `name` is null up to `wanted` of all. */
int phaselink_recording_images(const char *file, const char *name, size_t wanted, uint64_t seed, phaselink_images **images);
/* Replaces the bytes of the drive by those of a state, of this drive or of a recording, if no operation is in flight: an
 * application goes on with what a power cut has left. */
int phaselink_drive_load_image(phaselink_drive *drive, const phaselink_images *images, size_t place);

/* State of a drive, with its bytes and operations in flight, to which drives of the same description, seed and flags can
 * return; others refuse it. */
phaselink_snapshot *phaselink_drive_snapshot(const phaselink_drive *drive);
int phaselink_drive_restore(phaselink_drive *drive, const phaselink_snapshot *snapshot);
void phaselink_snapshot_free(phaselink_snapshot *snapshot);

#ifdef __cplusplus
}
#endif
#endif
