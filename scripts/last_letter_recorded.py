"""What each parser makes of the 150 recorded last-letter answers; where labels are wrong.

    python scripts/last_letter_recorded.py [RESPONSES.jsonl]

Without a path, the file of the data folder (HARNESS_DATA_DIR). docs/last_letter.md has the figures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import UserError
from harness.tasks.last_letter import RECORDED
from harness.tasks.last_letter.recorded import findings, read_recorded, report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", nargs="?", default=RECORDED)
    path = parser.parse_args().path
    try:
        found: Path = DataFolder(Settings().data_dir).file(path)
        print(report(findings(read_recorded(found))))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
