"""What COLLIE's structures are arranged by."""

from harness.plugins.benchmarks.collie.task import CollieTask
from tests.plugins.benchmarks.collie.structures import STRUCTURES

EFFECTS = {effect.name: effect for effect in CollieTask.effects}


def test_position_effect() -> None:
    assert EFFECTS["position_effect"].levels == {
        "arbitrary": ("word02", "sent02"),
        "first": ("para01",),
        "last": ("word03", "para05", "pass01"),
    }


def test_a_structure_counts_what_its_level_says() -> None:
    level = {"word": "word", "sent": "sentence", "para": "paragraph"}
    for what, structures in EFFECTS["counting_level_effect"].levels.items():
        for structure in structures:
            counted, *inside = what.split(", ")
            unit, whole = counted.split(" in a ")
            assert whole == level[structure[:4]]
            assert unit in STRUCTURES[structure]
            for further in inside:
                assert further.removesuffix(" in each") in STRUCTURES[structure]


def test_a_structure_is_in_one_level() -> None:
    for effect in EFFECTS.values():
        structures = [one for level in effect.levels.values() for one in level]
        assert len(structures) == len(set(structures))
        assert set(structures) <= STRUCTURES.keys()
        assert effect.label == "structure"


def test_every_structure_is_explained() -> None:
    assert CollieTask.group_meanings == {"structure": STRUCTURES}
