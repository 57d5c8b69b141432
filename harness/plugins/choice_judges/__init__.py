"""Judges that choose or rate: named choices, the better of two answers, and a number."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Judges that choose or rate: named choices, the better of two answers, and a number.",
    judges={
        "choice": ".choice:Choice",
        "pairwise": ".choice:Pairwise",
        "score": ".score:NumberJudge",
    },
    section_builders={"judges.against": ".run_answers:answers_of"},
)
