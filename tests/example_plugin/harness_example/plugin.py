"""The declaration of the plug-in, which its entry point names."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="A part of each kind, as an example.",
    backends={"parrot": ".parrot:ParrotBackend"},
    tasks={"spelling": ".spelling:SpellingTask"},
    checkers={"shouting": ".shouting:ShoutingChecker"},
    judges={"politeness": ".politeness:PolitenessJudge"},
    measures={"prime": ".prime:PrimeMeasure"},
    filters={"shrugs": ".shrugs:ShrugFilter"},
)
