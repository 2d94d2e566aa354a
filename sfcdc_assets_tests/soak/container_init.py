"""Process 1 of a container, as Docker's `init: true` has it: `python -S container_init.py COMMAND...`.

It hands signals on, collects processes whose parent has ended, and ends with its command; the kernel then kills
whatever else the container has.
"""

import os
import signal
import subprocess
import sys


def main() -> None:
    """Run the command to its end."""
    child = subprocess.Popen(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: os.kill(child.pid, sent))
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
