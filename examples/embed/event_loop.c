/* A small storage simulation: four clients read and write a drive that nobody has, a log is flushed, and then power fails.
 *
 *     cc event_loop.c -lphaselink_drive -o event_loop && ./event_loop tlc-gen4
 *
 * The loop is the whole of it: the program has events of its own (clients that think), the drive has completions, and whichever
 * comes first happens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phaselink_drive.h"

#define CLIENTS 4
#define ROUNDS 250
#define PAGE 4096
#define THINK_PS 5000000ULL /* 5 us between a completion and the client's next operation */

static char page[PAGE];

/* A client: when it submits next, the ticket that it waits for, and how much it has done. */
struct client {
    uint64_t submits_at, ticket;
    int waits, rounds;
};

static void check(int result) {
    if (result < 0) {
        fprintf(stderr, "%s\n", phaselink_drive_error());
        exit(1);
    }
}

static void submit(phaselink_drive *drive, int number, struct client *client) {
    uint64_t offset = (uint64_t)(number * ROUNDS + client->rounds) * 7919 % 1024 * PAGE;
    phaselink_operation operation = {client->rounds % 4 ? PHASELINK_READ : PHASELINK_WRITE, 0, offset, PAGE, page};
    check(phaselink_drive_submit(drive, client->submits_at, (uint16_t)(number % phaselink_drive_queues(drive)), &operation,
                                 &client->ticket));
    client->waits = 1;
    client->submits_at = PHASELINK_NEVER;
}

/* The next instant at which anything happens, and the client whose turn it is then, or -1 for the drive. */
static uint64_t next_event(const phaselink_drive *drive, const struct client *clients, int *who) {
    uint64_t next = phaselink_drive_next_at(drive);
    *who = -1;
    for (int number = 0; number < CLIENTS; number++) {
        if (clients[number].submits_at < next) {
            next = clients[number].submits_at;
            *who = number;
        }
    }
    return next;
}

int main(int count, char **words) {
    phaselink_drive *drive;
    struct client clients[CLIENTS] = {{0, 0, 0, 0}};
    phaselink_completion done;
    uint64_t next, latency_ps = 0, operations = 0;
    int who;

    if (strcmp(phaselink_drive_version(), PHASELINK_DRIVE_VERSION) != 0) {
        fprintf(stderr, "header %s, library %s\n", PHASELINK_DRIVE_VERSION, phaselink_drive_version());
        return 1;
    }
    memset(page, 'x', PAGE);
    check(phaselink_drive_open(count > 1 ? words[1] : "tlc-gen4", NULL, 1, PHASELINK_POWER_CUTS | PHASELINK_STAGES, &drive));
    while ((next = next_event(drive, clients, &who)) != PHASELINK_NEVER) {
        if (who >= 0) {
            submit(drive, who, &clients[who]);
            continue;
        }
        check(phaselink_drive_advance(drive, next));
        while (phaselink_drive_next_completion(drive, &done) == 1) {
            for (int number = 0; number < CLIENTS; number++) {
                struct client *client = &clients[number];
                if (client->waits && client->ticket == done.ticket) {
                    client->waits = 0;
                    client->submits_at = ++client->rounds < ROUNDS ? done.at_ps + THINK_PS : PHASELINK_NEVER;
                }
            }
            latency_ps += done.at_ps - done.submitted_ps;
            operations++;
        }
    }
    printf("%" PRIu64 " operations in %" PRIu64 " us, %" PRIu64 " ns each\n", operations, phaselink_drive_now(drive) / 1000000,
           latency_ps / operations / 1000);

    if (phaselink_drive_supports(drive, PHASELINK_FLUSH)) {
        phaselink_operation flush = {PHASELINK_FLUSH, 0, 0, 0, NULL};
        const char *stage;
        uint64_t ticket, time_ps;
        check(phaselink_drive_submit(drive, phaselink_drive_now(drive), 0, &flush, &ticket));
        check(phaselink_drive_wait(drive, ticket, &done));
        printf("a flush takes %" PRIu64 " ns:", (done.at_ps - done.submitted_ps) / 1000);
        for (size_t place = 0; phaselink_drive_stage(drive, place, &stage, &time_ps) == 1; place++)
            printf(" %s %" PRIu64 " ns", stage, time_ps / 1000);
        printf("\n");
    }
    check(phaselink_drive_cut_power(drive, phaselink_drive_now(drive), PHASELINK_DURABLE_ONLY, 0));
    check(phaselink_drive_peek(drive, 0, page, PAGE));
    printf("after a power cut, page 0 begins with %d\n", page[0]);
    phaselink_drive_close(drive);
    return 0;
}
