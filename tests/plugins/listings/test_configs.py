"""`harness configs`: the shipped run files."""

from tests.cli.command import ROOT, harness


def test_every_shipped_run_file_is_listed_with_what_it_does() -> None:
    listed = harness("configs").stdout.splitlines()
    names = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))
    assert [line.split()[0] for line in listed] == names
    assert all(len(line.split()) > 4 for line in listed)
