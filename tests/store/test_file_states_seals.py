"""A line is known by its seal, whatever it or the manifest contains."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataInvalid, StoreFailed
from harness.store.file_states import LineSeals, run_tag, seal_line

RUN_ID = "0123456789abcdef.fedcba9876543210"
LINE = seal_line(b'{"v":1,"text":"caf\xc3\xa9"}\n', run_tag(RUN_ID))


def seals(folder: Path, **manifest: Any) -> LineSeals:
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return LineSeals(folder)


def test_a_sealed_line_is_still_json() -> None:
    tag, _, checksum = json.loads(LINE).pop("run").partition(".")
    assert (tag, len(checksum)) == ("fedcba9876543210", 8)
    assert LINE.endswith(b'"}\n')


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (LINE.replace(b"caf", b"cat"), "was edited"),
        (LINE[:-11] + b"zzzzzzzz" + LINE[-3:], "was edited"),
        (LINE[:-11] + b"\xff\xff\xff\xff\xff\xff\xff\xff" + LINE[-3:], "was edited"),
        (LINE.replace(b"fedcba9876543210", b"fedcba9876543211"), "is from another run"),
        (LINE.replace(b"fedcba9876543210", b"\xff" * 16), "is from another run"),
        (LINE.replace(b'","run', b'", "run'), "has no seal"),
        (b'{"v":1}\n', "has no seal"),
        (b"\n", "has no seal"),
    ],
)
def test_other_lines_are_refused(tmp_path: Path, line: bytes, problem: str) -> None:
    checks = seals(tmp_path, id=RUN_ID, sealed=True)
    checks.check(LINE, tmp_path, 1)
    with pytest.raises(DataInvalid, match=f"line 7: this line {problem}"):
        checks.check(line, tmp_path, 7)


def test_lines_of_merged_runs_and_of_earlier_versions_are_accepted(tmp_path: Path) -> None:
    seals(tmp_path, id="another", merged_ids=[RUN_ID], sealed=True).check(LINE, tmp_path, 1)
    seals(tmp_path, id=RUN_ID).check(b'{"v":1}\n', tmp_path, 1)
    seals(tmp_path).check(b'{"v":1}\n', tmp_path, 1)


@pytest.mark.parametrize("manifest", [{"id": 5}, {"id": RUN_ID, "merged_ids": 5}, {"sealed": "no"}])
def test_a_damaged_manifest_is_a_message(tmp_path: Path, manifest: dict[str, Any]) -> None:
    with pytest.raises(StoreFailed, match=r"manifest\.json is damaged"):
        seals(tmp_path, **manifest)
