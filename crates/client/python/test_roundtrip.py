"""What Python programs get from a served drive of 1 MiB: the path of its socket is the argument."""

import errno
import gc
import sys

import phaselink_client

drive = phaselink_client.connect(sys.argv[1], queues=2, depth=8)
with drive:
    assert (drive.capacity_bytes, drive.block_bytes) == (1 << 20, 512)
    queue, other = drive.queue(), drive.queue()
    try:
        drive.queue()
        raise AssertionError("there were only two queues")
    except phaselink_client.Error as error:
        assert error.errno == errno.EBUSY and "taken" in str(error), error

# What is written is read, from and into buffers of every kind, also longer than one transfer.
data = bytes(place * 7 % 251 for place in range(300 * 512))
for source in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
    queue.write(8192, bytes(len(data)))
    queue.write(8192, source)
    assert queue.read(8192, len(data)) == data
queue.flush()
found = bytearray(len(data) + 512)
queue.read_into(8192, memoryview(found)[512:])
assert found[512:] == data and not any(found[:512])

# Requests under way together, each with its own buffer.
buffers = [bytearray(4096) for _ in range(8)]
for place, buffer in enumerate(buffers):
    other.submit_read(8192 + place * 4096, buffer)
assert other.full and other.under_way == 8
try:
    other.submit_flush()
    raise AssertionError("the queue was full")
except phaselink_client.Error as error:
    assert error.errno == errno.EBUSY, error
gc.collect()
done = []
while other.under_way:
    done += other.poll()
assert len(done) == 8 and all(request.error is None and request.kind == "read" for request in done)
assert b"".join(buffers) == data[: 8 * 4096]

# Writes and flushes under way, and one beyond the end.
other.submit_write(0, b"a" * 512)
other.submit_flush()
wrong = other.submit_read(1 << 20, bytearray(512))
done = []
while other.under_way:
    done += other.poll()
assert [request.kind for request in done if request.error is None] in (["write", "flush"], ["flush", "write"]), done
assert wrong.error.errno == errno.EINVAL and "within the drive" in str(wrong.error), wrong
assert other.read(0, 512) == b"a" * 512

# Errors are exceptions with text.
for call in (lambda: queue.read(1 << 20, 512), lambda: queue.write(1, b"x" * 512), lambda: queue.read(0, 100)):
    try:
        call()
        raise AssertionError("the device should refuse this")
    except phaselink_client.Error as error:
        assert error.errno == errno.EINVAL, error
try:
    queue.read_into(0, bytes(512))
    raise AssertionError("bytes cannot be written")
except (TypeError, BufferError):
    pass
queue.close()
queue.close()
try:
    queue.flush()
    raise AssertionError("the queue was closed")
except ValueError:
    pass
try:
    phaselink_client.connect("/nowhere")
    raise AssertionError("nobody is there")
except phaselink_client.Error as error:
    assert error.errno == errno.ENOENT and error.filename == "/nowhere", error
