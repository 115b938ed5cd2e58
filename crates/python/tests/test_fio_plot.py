"""The real fio-plot draws a folder of results."""

import subprocess
import sys

import pytest

import phaselink

pytest.importorskip("fio_plot")


@pytest.mark.parametrize("graph", [["-L"], ["-l"], ["-g"]][:2])
def test_fio_plot_draws_results(tmp_path, graph):
    folder = tmp_path / "nvme"
    folder.mkdir()
    for iodepth in (1, 2, 4):
        for numjobs in (1, 2):
            result = phaselink.run("nvme", rw="randread", bs="4k", iodepth=iodepth, numjobs=numjobs, number_ios=500)
            (folder / f"randread-{iodepth}-{numjobs}.json").write_text(result.to_json())
    words = ["-i", folder, "-T", "nvme", "-r", "randread", "-d", "1", "2", "4", "-n", "1", *graph, "-o", tmp_path / "plot.png"]
    words += ["-t", "iops"] if graph == ["-L"] else []
    code = "import sys; from fio_plot import main; sys.argv[0] = 'fio-plot'; main()"
    drawn = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stdout + drawn.stderr
    assert (tmp_path / "plot.png").stat().st_size > 10_000
