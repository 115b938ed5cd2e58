/* Writes, reads back by both calls, and asks for what does not exist. The path of the socket is the argument. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "phaselink.h"

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); return 1; } } while (0)

int main(int count, char **arguments)
{
    phaselink_client *client;
    phaselink_queue_pair *queue;
    unsigned char written[4096], found[4096];
    int slot, done;
    size_t place;

    CHECK(count == 2);
    CHECK(phaselink_connect("/nowhere", 1, 8, 1, &client) == -ENOENT);
    CHECK(phaselink_connect(arguments[1], 1, 8, 1, &client) == 0);
    CHECK(phaselink_capacity(client) == 1 << 20 && phaselink_block(client) == 512);
    queue = phaselink_queue(client);
    CHECK(queue != NULL && phaselink_queue(client) == NULL);
    phaselink_close(client);

    for (place = 0; place < sizeof written; place++)
        written[place] = (unsigned char)(place * 7 + place / 256);
    CHECK(phaselink_write(queue, 8192, written, sizeof written) == 0);
    CHECK(phaselink_flush(queue) == 0);
    CHECK(phaselink_read(queue, 8192, found, sizeof found) == 0);
    CHECK(memcmp(written, found, sizeof found) == 0);

    memset(found, 0, sizeof found);
    slot = phaselink_submit_read(queue, 8192, sizeof found);
    CHECK(slot >= 0);
    while ((done = phaselink_complete(queue, slot, found, sizeof found)) == 0)
        ;
    CHECK(done == 1 && memcmp(written, found, sizeof found) == 0);
    CHECK(phaselink_complete(queue, slot, found, sizeof found) == -EINVAL);
    CHECK(phaselink_read(queue, 1 << 20, found, 512) == -EINVAL);
    slot = phaselink_submit_flush(queue);
    CHECK(slot >= 0);
    while ((done = phaselink_complete(queue, slot, NULL, 0)) == 0)
        ;
    CHECK(done == 1);
    phaselink_queue_close(queue);
    return 0;
}
