/* A DC Express device in shared memory, from user space. Link with libphaselink_client.
 *
 * `phaselink serve DRIVE --shm PATH` is the device. Functions that return int return 0 or more, or a negative error
 * number: -EINVAL (invalid offset or length), -EROFS, -ENOSPC, -EIO, -EPIPE (the device has gone),
 * -EBUSY (the queue is full),
 * and, from phaselink_connect, -EACCES, -EOPNOTSUPP (another version) and those of connect(2).
 * Offsets and lengths are in bytes, multiples of phaselink_block(). A queue belongs to one thread at a time. */
#ifndef PHASELINK_H
#define PHASELINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct phaselink_client phaselink_client;
typedef struct phaselink_queue_pair phaselink_queue_pair;

/* Connects to the socket at path, with up to 16 queues of up to 1023 commands each; writes is nonzero to allow
 * writes. */
int phaselink_connect(const char *path, uint32_t queues, uint32_t depth, int writes, phaselink_client **client);
/* Returns the bytes of the drive that this client sees, and the block size of which offsets and lengths are
 * multiples. */
uint64_t phaselink_capacity(const phaselink_client *client);
uint32_t phaselink_block(const phaselink_client *client);
/* Returns the next queue, or NULL when all have been taken. A queue stays usable after the client is closed. */
phaselink_queue_pair *phaselink_queue(phaselink_client *client);
void phaselink_queue_close(phaselink_queue_pair *queue);
void phaselink_close(phaselink_client *client);

/* Reads, writes or flushes, and waits by spinning. Requests of any length are split as needed. */
int phaselink_read(phaselink_queue_pair *queue, uint64_t offset, void *into, size_t bytes);
int phaselink_write(phaselink_queue_pair *queue, uint64_t offset, const void *from, size_t bytes);
int phaselink_flush(phaselink_queue_pair *queue);

/* Submits a transfer of up to 128 KiB; returns its slot. */
int phaselink_submit_read(phaselink_queue_pair *queue, uint64_t offset, uint32_t bytes);
int phaselink_submit_write(phaselink_queue_pair *queue, uint64_t offset, const void *from, uint32_t bytes);
/* Submits a flush of everything that has completed so far; returns its slot. */
int phaselink_submit_flush(phaselink_queue_pair *queue);
/* Returns 1 if the command in the slot has completed (a read's data is then in into, and the slot is free),
 * otherwise 0. */
int phaselink_complete(phaselink_queue_pair *queue, int slot, void *into, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
