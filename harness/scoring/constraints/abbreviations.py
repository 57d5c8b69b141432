"""English abbreviations after which a period does not end a sentence.

Our own list, for machines without NLTK's English Punkt parameters: lower case,
without the final period, as Punkt's ``abbrev_types`` wants them. It is short on
purpose. A word that also ends sentences (``in.``, ``no.``) would do more harm here
than good, since nothing is known of the words that usually follow it.

>>> "dr" in ABBREVIATIONS
True
"""

TITLES = "adm capt col cmdr dr esq fr gen gov hon jr lt lieut maj messrs mlle mme mr mrs ms prof"
TITLES += " rep reps rev sen sens sgt sr st supt"

CALENDAR = "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri"

BUSINESS = "assn bros co corp dept inc ltd mfg plc univ"

PLACES = (
    "ave blvd calif colo conn fla hwy ill mass mich minn mt okla ore pa penn tenn va vt wash wis"
)

WRITING = "al approx cf ch ed eds eq fig figs ibid nos op pp sec viz vol vols vs e.g i.e ph.d"

UNITS = "ft lb lbs oz yr yrs"

ACRONYMS = "a.d a.m b.a b.c b.c.e d.c l.a m.a m.d n.c n.h n.j n.y p.m s.c u.k u.n u.s u.s.a"

ABBREVIATIONS = frozenset(
    " ".join((TITLES, CALENDAR, BUSINESS, PLACES, WRITING, UNITS, ACRONYMS)).split()
)
"""All of the above."""
