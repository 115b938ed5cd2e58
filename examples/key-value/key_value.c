// Stores values by their keys in an NVMe drive that `phaselink serve` offers over vfio-user, without a driver in a kernel.
//
//     cc -O2 -o key_value key_value.c
//     ./key_value SOCKET store KEY VALUE [new | existing]
//     ./key_value SOCKET retrieve | exist | delete KEY
//     ./key_value SOCKET list [KEY]
//
// The exit code is 0, or 1 with a message.

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, ENTRIES = 16, TIMEOUT_S = 20, KEY_BYTES_MAX = 16 };
// Addresses of the host's memory for the drive.
enum {
    ADMIN_QUEUE = 1 * PAGE,
    ADMIN_COMPLETIONS = 2 * PAGE,
    QUEUE = 3 * PAGE,
    COMPLETIONS = 4 * PAGE,
    PAGE_LIST = 5 * PAGE,
    DATA = 16 * PAGE,
    DATA_BYTES = 2 << 20,
    MEMORY_BYTES = DATA + DATA_BYTES,
};
// vfio-user: numbers of messages (QEMU, docs/interop/vfio-user.rst).
enum { VERSION = 1, DMA_MAP = 2, REGION_READ = 9, REGION_WRITE = 10 };
// NVMe: registers, doorbells, opcodes of the administration (Base Specification 2.0).
enum { CAP_HIGH = 0x04, CC = 0x14, CSTS = 0x1c, AQA = 0x24, ASQ = 0x28, ACQ = 0x30, DOORBELLS = 0x1000 };
enum { CREATE_SUBMISSION_QUEUE = 0x01, CREATE_COMPLETION_QUEUE = 0x05 };
// Key Value Command Set Specification 1.0: opcodes and options of Store.
enum { STORE = 0x01, RETRIEVE = 0x02, LIST = 0x06, DELETE = 0x10, EXIST = 0x14 };
enum { IF_EXISTING = 1 << 8, IF_NEW = 1 << 9 };
// CAP.CSS in the upper half of CAP: command sets beside that of NVM.
enum { FURTHER_SETS = 1 << 11 };

struct header {
    uint16_t id, command;
    uint32_t bytes, flags, error;
};

struct region_access {
    uint64_t offset;
    uint32_t region, count, value;
};

struct submission {
    uint8_t opcode, flags;
    uint16_t command_id;
    uint32_t namespace_id;
    uint8_t key_low[8];
    uint64_t metadata, prp1, prp2;
    uint32_t dwords[4];
    uint8_t key_high[8];
};

struct queue {
    uint32_t number, commands, completions, tail, head, phase;
};

static int server;
static uint8_t *memory;
static struct queue admin = {0, ADMIN_QUEUE, ADMIN_COMPLETIONS, 0, 0, 1};
static struct queue io = {1, QUEUE, COMPLETIONS, 0, 0, 1};

static void fail(const char *text, const char *detail) {
    fprintf(stderr, "key_value: %s%s\n", text, detail);
    exit(1);
}

static void receive(void *into, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = recv(server, (uint8_t *)into + done, bytes - done, 0);
        if (count <= 0) fail("the server has gone", "");
        done += (size_t)count;
    }
}

// Sends a message with a descriptor, if it is not negative. Returns how many bytes of its reply `reply` holds.
static size_t ask(uint16_t command, const void *payload, size_t bytes, int descriptor, void *reply, size_t room) {
    struct header header = {0, command, (uint32_t)(sizeof header + bytes), 0, 0};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)payload, bytes}};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (descriptor >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &descriptor, sizeof descriptor);
    }
    if (sendmsg(server, &message, MSG_NOSIGNAL) != (ssize_t)(sizeof header + bytes)) fail("the server has gone", "");
    receive(&header, sizeof header);
    size_t length = header.bytes - sizeof header;
    if (length > room) fail("a reply is too long", "");
    receive(reply, length);
    if (header.error) fail("the server refuses a message: ", strerror((int)header.error));
    return length;
}

static uint32_t get_register(uint64_t offset) {
    struct region_access access = {offset, 0, 4, 0}, reply = {0};
    ask(REGION_READ, &access, 16, -1, &reply, sizeof reply);
    return reply.value;
}

static void set_register(uint64_t offset, uint32_t value) {
    struct region_access access = {offset, 0, 4, value}, reply;
    ask(REGION_WRITE, &access, 20, -1, &reply, sizeof reply);
}

static void wait_until(uint32_t is_ready) {
    for (time_t until = time(NULL) + TIMEOUT_S; (get_register(CSTS) & 3) != is_ready;)
        if (time(NULL) > until) fail("the controller does not start", "");
}

static const char *status_text(uint32_t status) {
    switch (status) {
    case 0x02: return "Invalid Field in Command";
    case 0x81: return "Capacity Exceeded";
    case 0x85: return "Invalid Value Size";
    case 0x86: return "Invalid Key Size";
    case 0x87: return "KV Key Does Not Exist";
    case 0x89: return "Key Exists";
    default: return "the command has failed";
    }
}

// Submits a command, and waits for its completion, whose dword 0 it returns.
static uint32_t submit(struct queue *queue, struct submission entry) {
    entry.command_id = (uint16_t)queue->tail;
    memcpy(memory + queue->commands + queue->tail * sizeof entry, &entry, sizeof entry);
    queue->tail = (queue->tail + 1) % ENTRIES;
    set_register(DOORBELLS + queue->number * 8, queue->tail);
    uint8_t *completion = memory + queue->completions + queue->head * 16;
    _Atomic uint16_t *last = (_Atomic uint16_t *)(completion + 14);
    for (time_t until = time(NULL) + TIMEOUT_S; (atomic_load(last) & 1) != queue->phase;)
        if (time(NULL) > until) fail("the drive does not complete a command", "");
    uint32_t result, status = atomic_load(last) >> 1 & 0x7ff;
    memcpy(&result, completion, sizeof result);
    queue->head = (queue->head + 1) % ENTRIES;
    queue->phase ^= queue->head == 0;
    set_register(DOORBELLS + queue->number * 8 + 4, queue->head);
    if (status) fail(status_text(status), "");
    return result;
}

// Has the drive execute a command for a key, with so many bytes of data.
static uint32_t command(uint8_t opcode, const void *key, size_t key_bytes, uint32_t bytes, uint32_t options) {
    if (key_bytes > KEY_BYTES_MAX) fail("a command has room for keys of up to 16 bytes", "");
    uint8_t padded[KEY_BYTES_MAX] = {0};
    memcpy(padded, key, key_bytes);
    struct submission entry = {.opcode = opcode, .namespace_id = 1, .prp1 = DATA};
    entry.dwords[0] = bytes;
    entry.dwords[1] = options | (uint32_t)key_bytes;
    memcpy(entry.key_low, padded, 8);
    memcpy(entry.key_high, padded + 8, 8);
    uint32_t pages = (bytes + PAGE - 1) / PAGE;
    for (uint64_t page = 1; pages > 2 && page < pages; page++) {
        uint64_t address = DATA + page * PAGE;
        memcpy(memory + PAGE_LIST + (page - 1) * 8, &address, sizeof address);
    }
    if (pages > 1) entry.prp2 = pages > 2 ? PAGE_LIST : DATA + PAGE;
    return submit(&io, entry);
}

static void connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) fail("the path of the socket is too long: ", path);
    strcpy(address.sun_path, path);
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(server, (struct sockaddr *)&address, sizeof address)) fail(path, ": nobody serves there");
    int descriptor = memfd_create("host", MFD_CLOEXEC);
    if (descriptor < 0 || ftruncate(descriptor, MEMORY_BYTES)) fail("no memory: ", strerror(errno));
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) fail("no memory: ", strerror(errno));
    uint8_t reply[64];
    uint16_t version[2] = {0, 1};
    ask(VERSION, version, sizeof version, -1, reply, sizeof reply);
    struct {
        uint32_t bytes, flags;
        uint64_t offset, address, size;
    } map = {32, 3, 0, 0, MEMORY_BYTES};
    ask(DMA_MAP, &map, sizeof map, descriptor, reply, sizeof reply);
    close(descriptor);
}

// Starts the controller with all command sets, and creates a pair of queues.
static void enable(void) {
    if (!(get_register(CAP_HIGH) & FURTHER_SETS)) fail("the drive has logical blocks alone; serve one with [key_value]", "");
    set_register(CC, 0);
    wait_until(0);
    set_register(AQA, (ENTRIES - 1) | (ENTRIES - 1) << 16);
    set_register(ASQ, ADMIN_QUEUE);
    set_register(ASQ + 4, 0);
    set_register(ACQ, ADMIN_COMPLETIONS);
    set_register(ACQ + 4, 0);
    set_register(CC, 1 | 6 << 4 | 6 << 16 | 4 << 20);
    wait_until(1);
    uint32_t size = (ENTRIES - 1) << 16 | 1;
    submit(&admin, (struct submission){.opcode = CREATE_COMPLETION_QUEUE, .prp1 = COMPLETIONS, .dwords = {size, 1}});
    submit(&admin, (struct submission){.opcode = CREATE_SUBMISSION_QUEUE, .prp1 = QUEUE, .dwords = {size, 1 | 1 << 16}});
}

static void store(const char *key, const char *value, const char *condition) {
    uint32_t options = !condition ? 0 : !strcmp(condition, "new") ? IF_NEW : IF_EXISTING;
    size_t bytes = strlen(value);
    if (bytes > DATA_BYTES) fail("a command moves at most 2 MiB", "");
    memcpy(memory + DATA, value, bytes);
    command(STORE, key, strlen(key), (uint32_t)bytes, options);
}

static void retrieve(const char *key) {
    uint32_t bytes = command(EXIST, key, strlen(key), 0, 0);
    uint32_t found = command(RETRIEVE, key, strlen(key), bytes, 0);
    fwrite(memory + DATA, 1, found < bytes ? found : bytes, stdout);
    putchar('\n');
}

// Prints all keys from one on, as many as fit a page at a time. A list begins with the last key of the one before.
static void list(const char *from) {
    uint8_t previous[KEY_BYTES_MAX];
    size_t previous_bytes = strlen(from), is_first = 1, fresh = 1;
    if (previous_bytes > KEY_BYTES_MAX) fail("a command has room for keys of up to 16 bytes", "");
    memcpy(previous, from, previous_bytes);
    while (fresh) {
        command(LIST, previous, previous_bytes, PAGE, 0);
        uint32_t count, at = DATA + 4;
        memcpy(&count, memory + DATA, sizeof count);
        fresh = 0;
        uint8_t last[KEY_BYTES_MAX];
        size_t last_bytes = 0;
        for (uint32_t key = 0; key < count; key++) {
            uint16_t bytes;
            memcpy(&bytes, memory + at, sizeof bytes);
            if (bytes > KEY_BYTES_MAX) fail("a listed key is too long", "");
            int is_known = !is_first && bytes == previous_bytes && !memcmp(memory + at + 2, previous, bytes);
            if (!is_known) {
                printf("%.*s\n", (int)bytes, (char *)memory + at + 2);
                memcpy(last, memory + at + 2, bytes);
                last_bytes = bytes;
                fresh++;
            }
            at += (2u + bytes + 3u) / 4 * 4;
        }
        if (fresh) {
            memcpy(previous, last, last_bytes);
            previous_bytes = last_bytes;
        }
        is_first = 0;
    }
}

int main(int count, char **words) {
    const char *verb = count > 2 ? words[2] : "";
    int is_store = !strcmp(verb, "store") && (count == 5 || count == 6), is_list = !strcmp(verb, "list") && count < 5;
    int is_known = !strcmp(verb, "retrieve") || !strcmp(verb, "exist") || !strcmp(verb, "delete");
    is_store &= count == 5 || !strcmp(words[5], "new") || !strcmp(words[5], "existing");
    if (!is_store && !is_list && !(is_known && count == 4))
        fail("give SOCKET and store KEY VALUE [new | existing], retrieve, exist or delete KEY, or list [KEY]", "");
    connect_to(words[1]);
    enable();
    if (is_store) store(words[3], words[4], count == 6 ? words[5] : NULL);
    if (is_list) list(count == 4 ? words[3] : "");
    if (!strcmp(verb, "retrieve")) retrieve(words[3]);
    if (!strcmp(verb, "exist")) printf("%u bytes\n", command(EXIST, words[3], strlen(words[3]), 0, 0));
    if (!strcmp(verb, "delete")) command(DELETE, words[3], strlen(words[3]), 0, 0);
    close(server);
    return 0;
}
