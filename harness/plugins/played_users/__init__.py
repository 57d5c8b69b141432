"""Users of conversations that a model plays, with a goal."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Users of conversations that a model plays, with a goal (user: in a run file).",
    section_builders={"user": ".user:build_user"},
)
