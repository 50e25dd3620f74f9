"""Instructions of a process that runs under callgrind, from one look to the next."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Counter"]


class Counter:
    """What callgrind has counted.

    Attributes:
        tool: what stands before the command of the process.

    Args:
        place: an empty folder, for the reports.
    """

    def __init__(self, place: Path) -> None:
        self.tool = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={place}/report"]
        self._place = place
        self._looks = 0

    def count(self, pid: int, wake: Callable[[], object]) -> int:
        """Instructions since the last look.

        Args:
            pid: the process.
            wake: makes it do something, for it reports only then.

        Raises:
            TimeoutError: it does not report.
        """
        command = ["callgrind_control", "-d", str(pid)]
        subprocess.run(command, check=True, capture_output=True)
        self._looks += 1
        report = self._place / f"report.{self._looks}"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            wake()
            text = report.read_text("utf-8") if report.exists() else ""
            found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            if found:
                return int(found[1])
            time.sleep(0.01)
        raise TimeoutError(f"{report} was not written")
