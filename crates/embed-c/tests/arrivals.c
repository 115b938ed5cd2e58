/* Submits arrivals that were recorded at the driver of a run, and checks the picosecond of every completion; then misuses the
 * drive in every way that C allows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phaselink_drive.h"

#define ROWS_MAX 4096

struct row {
    char drive[64], setting[64], operation[16];
    unsigned queue;
    uint64_t offset, bytes, submitted, completed, ticket;
};

static struct row rows[ROWS_MAX];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, phaselink_drive_error());
    exit(1);
}

/* Takes the next field of a line, which may be empty. */
static char *field(char **rest) {
    char *start = *rest, *end = strpbrk(start, ";\n");
    if (end) {
        *end = 0;
        *rest = end + 1;
    }
    return start;
}

static int read_rows(const char *path) {
    char line[512];
    int count = 0;
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) {
        perror(path);
        exit(1);
    }
    while (count < ROWS_MAX && fgets(line, sizeof line, file)) {
        char *rest = line;
        struct row *row = &rows[count++];
        snprintf(row->drive, sizeof row->drive, "%s", field(&rest));
        snprintf(row->setting, sizeof row->setting, "%s", field(&rest));
        row->queue = (unsigned)strtoul(field(&rest), NULL, 10);
        snprintf(row->operation, sizeof row->operation, "%s", field(&rest));
        row->offset = strtoull(field(&rest), NULL, 10);
        row->bytes = strtoull(field(&rest), NULL, 10);
        row->submitted = strtoull(field(&rest), NULL, 10);
        row->completed = strtoull(field(&rest), NULL, 10);
    }
    fclose(file);
    return count;
}

/* Submits the rows of one drive. */
static void replay(struct row *first, int count) {
    phaselink_drive *drive;
    phaselink_completion done;
    if (phaselink_drive_open(first->drive, first->setting, 1, PHASELINK_WITHOUT_DATA, &drive) != 0)
        fail(first->drive);
    for (int place = 0; place < count; place++) {
        struct row *row = &first[place];
        uint32_t kind = strcmp(row->operation, "read") == 0 ? PHASELINK_READ : PHASELINK_WRITE;
        phaselink_operation operation = {kind, 0, row->offset, row->bytes, NULL};
        uint16_t queue = (uint16_t)(row->queue % phaselink_drive_queues(drive));
        if (phaselink_drive_submit(drive, row->submitted, queue, &operation, &row->ticket) != 0)
            fail(row->drive);
    }
    for (int place = 0; place < count; place++) {
        struct row *row = &first[place];
        if (phaselink_drive_wait(drive, row->ticket, &done) != 0)
            fail(row->drive);
        if (done.at_ps != row->completed) {
            fprintf(stderr, "%s, row %d: %" PRIu64 " ps for %" PRIu64 "\n", row->drive, place, done.at_ps, row->completed);
            exit(1);
        }
    }
    phaselink_drive_close(drive);
}

static void expect(int found, int expected, const char *what) {
    if (found != expected || (expected < 0 && !*phaselink_drive_error())) {
        fprintf(stderr, "%s: %d for %d (%s)\n", what, found, expected, phaselink_drive_error());
        exit(1);
    }
}

static void misuse(void) {
    char page[4096] = {1};
    phaselink_drive *drive;
    phaselink_snapshot *snapshot;
    phaselink_completion done;
    uint64_t ticket;
    phaselink_operation write = {PHASELINK_WRITE, 0, 0, 4096, page}, read = {PHASELINK_READ, 0, 0, 4096, NULL};
    phaselink_operation odd = {PHASELINK_READ, 0, 3, 4096, NULL}, none = {PHASELINK_WRITE, 0, 0, 4096, NULL};
    phaselink_operation unknown = {99, 0, 0, 4096, NULL}, far = {PHASELINK_READ, 0, UINT64_MAX - 4095, 4096, NULL};
    phaselink_operation flush = {PHASELINK_FLUSH, 0, 0, 0, NULL};

    expect(phaselink_drive_open("no-such-drive", NULL, 1, 0, &drive), PHASELINK_EDESCRIPTION, "unknown drive");
    expect(phaselink_drive_open("nvme", "link.lanes=3", 1, 0, &drive), PHASELINK_EDESCRIPTION, "wrong setting");
    expect(phaselink_drive_open(NULL, NULL, 1, 0, &drive), PHASELINK_EARGUMENT, "null name");
    expect(phaselink_drive_open("nvme", NULL, 1, 64, &drive), PHASELINK_EARGUMENT, "unknown flag");
    expect(phaselink_drive_open("dc-express", NULL, 1, PHASELINK_STAGES, &drive), 0, "open");
    expect(phaselink_drive_advance(drive, 1000), 0, "advance");
    expect(phaselink_drive_advance(drive, 999), PHASELINK_EBACKWARDS, "backwards");
    expect(phaselink_drive_advance(drive, UINT64_MAX), PHASELINK_ETOOLATE, "too late");
    expect(phaselink_drive_submit(drive, 1000, 9999, &read, &ticket), PHASELINK_EQUEUE, "queue");
    expect(phaselink_drive_submit(drive, 1000, 0, &flush, &ticket), PHASELINK_EUNSUPPORTED, "unsupported");
    expect(phaselink_drive_submit(drive, 1000, 0, &odd, &ticket), PHASELINK_EUNALIGNED, "unaligned");
    expect(phaselink_drive_submit(drive, 1000, 0, &far, &ticket), PHASELINK_ERANGE, "range");
    expect(phaselink_drive_submit(drive, 1000, 0, &none, &ticket), PHASELINK_ENODATA, "no data");
    expect(phaselink_drive_submit(drive, 1000, 0, &unknown, &ticket), PHASELINK_EARGUMENT, "unknown operation");
    expect(phaselink_drive_submit(drive, 1000, 0, NULL, &ticket), PHASELINK_EARGUMENT, "null operation");
    expect(phaselink_drive_take(drive, 12345, &done), PHASELINK_ETICKET, "unknown ticket");
    expect(phaselink_drive_cut_power(drive, 1000, PHASELINK_DRAWN, 1), PHASELINK_ENOPOWER, "no power cuts");
    expect(phaselink_drive_inject_fault(drive, "action = \"eror\""), PHASELINK_EFAULT, "wrong fault");
    expect(phaselink_drive_submit(drive, 1000, 0, &write, &ticket), 0, "write");
    expect(phaselink_drive_take(drive, ticket, &done), PHASELINK_ENOTCOMPLETE, "not complete");
    snapshot = phaselink_drive_snapshot(drive);
    expect(phaselink_drive_wait(drive, ticket, &done), 0, "wait");
    expect(phaselink_drive_wait(drive, ticket, &done), PHASELINK_ETICKET, "twice");
    expect(phaselink_drive_submit(drive, phaselink_drive_now(drive), 0, &read, &ticket), 0, "read");
    expect(phaselink_drive_wait(drive, ticket, &done), 0, "wait for the read");
    if (done.bytes != sizeof page || memcmp(done.data, page, sizeof page) != 0)
        fail("the read returned other bytes");
    expect(phaselink_drive_restore(drive, snapshot), 0, "restore");
    expect(phaselink_drive_in_flight(drive) == 1, 1, "in flight again");
    phaselink_drive_close(drive);
    if (phaselink_drive_open("nvme", NULL, 1, 0, &drive) != 0)
        fail(phaselink_drive_error());
    expect(phaselink_drive_restore(drive, snapshot), PHASELINK_ESNAPSHOT, "snapshot of another drive");
    if (strstr(phaselink_drive_error(), "opened with another description") == NULL)
        fail(phaselink_drive_error());
    phaselink_snapshot_free(snapshot);
    phaselink_drive_close(drive);
}

static void images(void) {
    phaselink_drive *drive;
    phaselink_images *images;
    phaselink_completion done;
    uint64_t ticket;
    unsigned char byte, page[4096] = {9};
    const phaselink_operation write = {PHASELINK_WRITE, 0, 0, sizeof page, page};
    if (phaselink_drive_open("tlc-gen4", NULL, 5, PHASELINK_POWER_CUTS, &drive) != 0)
        fail(phaselink_drive_error());
    expect(phaselink_drive_submit(drive, 0, 0, &write, &ticket), 0, "write");
    expect(phaselink_drive_wait(drive, ticket, &done), 0, "wait");
    expect(phaselink_drive_images(drive, 1000, 1, &images), 0, "images");
    size_t whole = 0, place = phaselink_images_count(images);
    while (place-- > 0) {
        expect(phaselink_images_read(images, place, 0, &byte, 1), 0, "read of an image");
        whole += phaselink_images_explanation(images, place)[0] == 0 && byte == 9;
    }
    expect((int)whole, 1, "images with everything");
    place = 0;
    while (strstr(phaselink_images_explanation(images, place), "is missing") == NULL)
        place++;
    if (strstr(phaselink_images_explanation(images, place), "Flush command") == NULL ||
        strstr(phaselink_images_explanation(images, place), "seed 5") == NULL ||
        strstr(phaselink_images_explanation(images, place), phaselink_images_name(images, place)) == NULL)
        fail(phaselink_images_explanation(images, place));
    expect(phaselink_images_read(images, place, UINT64_MAX, &byte, 1), PHASELINK_ERANGE, "beyond the drive");
    expect(phaselink_images_read(images, 1 << 20, 0, &byte, 1), PHASELINK_EARGUMENT, "no such place");
    expect(phaselink_drive_cut_power_to(drive, phaselink_drive_now(drive), images, place), 0, "cut");
    expect(phaselink_drive_peek(drive, 0, &byte, 1), 0, "peek");
    expect(byte, 0, "byte of the missing write");
    expect(phaselink_drive_cut_power_to(drive, phaselink_drive_now(drive), images, place), PHASELINK_EIMAGE, "again");
    phaselink_images_free(images);
    phaselink_drive_close(drive);
}

/* An image of a recording is found by its name, and becomes a drive; `file` has a write that may be torn. */
static void recorded(const char *file) {
    phaselink_drive *drive;
    phaselink_images *images;
    unsigned char bytes[1024];
    expect(phaselink_recording_images(file, NULL, 100, 1, &images), 0, "images of a recording");
    if (phaselink_images_count(images) < 4)
        fail("a recording has too few images");
    phaselink_images_free(images);
    expect(phaselink_recording_images(file, "cut=1,missing=9", 1, 1, &images), PHASELINK_EDESCRIPTION, "no such image");
    expect(phaselink_recording_images("/no/such.rec", NULL, 1, 1, &images), PHASELINK_EDESCRIPTION, "no such file");
    expect(phaselink_recording_images(file, "cut=1,torn=1:1", 1, 1, &images), 0, "an image by its name");
    if (strstr(phaselink_images_explanation(images, 0), "AWUPF") == NULL)
        fail(phaselink_images_explanation(images, 0));
    if (phaselink_drive_open("tlc-gen4", NULL, 5, PHASELINK_POWER_CUTS, &drive) != 0)
        fail(phaselink_drive_error());
    expect(phaselink_drive_load_image(drive, images, 1), PHASELINK_EARGUMENT, "no such place");
    expect(phaselink_drive_load_image(drive, images, 0), 0, "load");
    expect(phaselink_drive_peek(drive, 0, bytes, sizeof bytes), 0, "peek");
    expect(bytes[0] * 256 + bytes[512], 7, "bytes of the torn write");
    phaselink_images_free(images);
    expect(phaselink_drive_drawn_image(drive, 1, &images), 0, "drawn image");
    const char *name = phaselink_images_name(images, 0);
    phaselink_images *again;
    expect(phaselink_drive_image(drive, name, &again), 0, "image by its name");
    expect(phaselink_drive_image(drive, "cut=9", &again), PHASELINK_EIMAGENAME, "no such image");
    phaselink_images_free(again);
    const phaselink_operation flush = {PHASELINK_FLUSH, 0, 0, 0, NULL};
    expect(phaselink_drive_submit(drive, 0, 0, &flush, NULL), 0, "flush");
    expect(phaselink_drive_load_image(drive, images, 0), PHASELINK_ELOAD, "load with an operation in flight");
    phaselink_images_free(images);
    phaselink_drive_close(drive);
}

int main(int count, char **words) {
    int total = read_rows(count > 1 ? words[1] : "arrivals.csv"), first = 0;
    for (int place = 1; place <= total; place++) {
        if (place == total || strcmp(rows[place].drive, rows[first].drive) != 0) {
            replay(&rows[first], place - first);
            first = place;
        }
    }
    misuse();
    images();
    if (count > 2)
        recorded(words[2]);
    printf("%d rows, version %s\n", total, phaselink_drive_version());
    return 0;
}
