"""The declaration of a plug-in: what a module brings, before anything of it is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Members = Mapping[str, str]
"""Members of one kind: the place of each class or factory, by its name in run files.

A place has the form ``MODULE:NAME``. A module whose name begins with a dot is relative to the
declaration. The name ``FAMILY:*`` stands for all entries of a table, each of which is named
``FAMILY:ENTRY``.
"""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb of the command line.

    Attributes:
        summary: Its line in ``harness --help``.
        heading: The heading above this line.
        place: The place of its function, or of a `harness.cli.verbs.VerbGroup`.
        executes: Whether it executes Python files that run files, runs or arguments name.
        former_options: Former names of options, which are still accepted.
    """

    summary: str
    heading: str
    place: str
    executes: bool = False
    former_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What a plug-in brings: the object ``plugin`` of the module that its entry point names.

    The entry point is in the group ``harness``. The module should import nothing else, so
    that commands that do not need the plug-in stay fast.

    Attributes:
        summary: What the plug-in is for, in one line.
        requires: The plug-ins whose modules it imports, by the names of their entry points.
    """

    summary: str
    requires: tuple[str, ...] = ()
    tasks: Members = field(default_factory=dict)
    backends: Members = field(default_factory=dict)
    checkers: Members = field(default_factory=dict)
    judges: Members = field(default_factory=dict)
    metrics: Members = field(default_factory=dict)
    measures: Members = field(default_factory=dict)
    loaders: Members = field(default_factory=dict)
    filters: Members = field(default_factory=dict)
    post_processors: Members = field(default_factory=dict)
    observers: Members = field(default_factory=dict)
    verbs: Mapping[str, Verb] = field(default_factory=dict)
