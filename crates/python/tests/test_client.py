"""A drive that the program serves, used from Python."""

import subprocess
import sys
import threading
import time

import pytest

import phaselink

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is served on Linux")


@pytest.fixture
def path(program, tmp_path):
    path = tmp_path / "drive.sock"
    # Serves until its input ends, whatever happens here.
    words = [program.path, "serve", "dc-express", "--shm", path, "--timing", "off", "--wait", "block", "--run", "cat"]
    server = subprocess.Popen(
        list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(500):
        if path.exists():
            break
        time.sleep(0.02)
    yield path
    server.stdin.close()
    server.wait(timeout=20)


def test_what_is_written_is_read_back(path):
    drive = phaselink.connect(path, queues=2)
    assert drive.capacity_bytes > 0 and drive.block_bytes > 0
    queue = drive.queue()
    data = bytes(range(256)) * 16
    queue.write(8192, data)
    queue.flush()
    assert queue.read(8192, 4096) == data
    with pytest.raises(OSError):
        queue.read(1, 4096)
    other = drive.queue()
    with pytest.raises(ValueError, match="all queues of this connection are taken"):
        drive.queue()
    read = []
    thread = threading.Thread(target=lambda: read.append(other.read(8192, 4096)))
    thread.start()
    thread.join()
    assert read == [data]
    queue.close()
    with pytest.raises(ValueError, match="this queue is closed"):
        queue.read(0, 512)


def test_a_path_where_nobody_is_is_an_error(tmp_path):
    with pytest.raises(OSError):
        phaselink.connect(tmp_path / "nobody.sock")
