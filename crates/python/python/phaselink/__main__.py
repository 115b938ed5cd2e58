"""The program: the command ``phaselink``, and ``python -m phaselink``."""

import signal
import sys

from . import _native


def main() -> None:
    """Run the command of this process's command line, and end with its exit code."""
    # Ctrl-C ends the program as it ends any other; Python would only note it until the command is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.main(["phaselink", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
