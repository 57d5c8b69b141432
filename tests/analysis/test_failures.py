from harness.analysis.failures import without_values


def test_a_long_reason_is_cut() -> None:
    assert without_values("a\n b " * 200).startswith("a b a b")
    assert len(without_values("word " * 200)) == 300
