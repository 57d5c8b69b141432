from pathlib import Path

import pytest

from harness.datasets.catalogue import member
from harness.errors import DataInvalid
from tests.datasets.archives import archive


def test_a_member_is_read_by_its_name(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    file = archive(tmp_path, {"a/b.txt": content, "../../evil": b"x", "/etc/evil": b"x"})
    assert b"".join(member(file, "a/b.txt")) == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.zip"]


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a": b"\0" * 50_000_000})
    assert file.stat().st_size < 100_000
    with pytest.raises(DataInvalid, match="more than 1,000,000 bytes"):
        list(member(file, "a", 1_000_000))


def test_a_false_size_is_not_believed(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a": b"\0" * 5_000_000})
    content = bytearray(file.read_bytes())
    entry = content.rindex(b"PK\x01\x02")  # the directory's claim
    content[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(DataInvalid):
        list(member(file, "a", 1_000_000))


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="has no b"):
        list(member(archive(tmp_path, {"a": b""}), "b"))


@pytest.mark.parametrize(
    ("damage", "what"),
    [("torn", "it"), ("no zip", "it"), ("checksum", "a"), ("password", "a"), ("compression", "a")],
)
def test_a_damaged_archive_is_a_message(tmp_path: Path, damage: str, what: str) -> None:
    file = archive(tmp_path, {"a": bytes(range(256)) * 100})
    content = bytearray(file.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    if damage == "torn":
        content = content[: len(content) // 2]
    elif damage == "no zip":
        content = bytearray(b"<html>not found</html>")
    elif damage == "checksum":
        content[60] ^= 0xFF
    elif damage == "password":
        content[6] |= 1
        content[entry + 8] |= 1
    else:
        content[8] = content[entry + 10] = 77
    file.write_bytes(content)
    with pytest.raises(DataInvalid, match=f": {what} cannot be unpacked"):
        list(member(file, "a"))
