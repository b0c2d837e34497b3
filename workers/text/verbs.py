"""English verb forms for a change from the first to the third person. Hand-written tables."""

_PAST = frozenset(
    """
    was had did went got made came took gave said told saw heard felt found thought knew left met kept held
    began brought bought built caught chose drew drank drove ate fell flew forgot grew lost paid ran rode rang
    rose sold sent sang sat slept spoke spent stood stole swam taught threw understood wore won woke wrote
    broke became lay led meant sold shot shook hung hid fed fought froze dug did sought stuck swore tore wept
    bit bled lent spun spread quit died lied tied owed
    """.split()  # noqa: SIM905 - a table of words
)

_PARTICIPLES = frozenset(
    """
    been gone had done got gotten made come taken given said told seen heard felt found thought known left met
    kept held begun brought bought built caught chosen drawn drunk driven eaten fallen flown forgotten grown
    lost paid run ridden sold sent sung slept spoken spent stood stolen taught thrown understood worn won
    woken written broken become led meant
    """.split()  # noqa: SIM905 - a table of words
)

_BASE = frozenset(
    """
    accept add admire adopt adore agree aim answer appreciate argue attend avoid bake be become begin believe
    belong bike bring build buy call camp care carry carve catch celebrate change check cherish choose clean
    climb coach collect come compete consider continue cook count crave create cycle dance deal decide depend
    design deserve dislike dream draw drink drive earn eat enjoy exercise expect explore fall fear feel find
    finish fish fix fly follow forget garden get give go grow handle hang hate have hear help hike hold hope
    host intend jog join juggle keep know lack learn leave lift like listen live look lose love make manage
    mean meditate meet mentor mind miss move need notice offer open organize own paint pay photograph plan
    plant play practice practise prefer produce promise raise ran react record regret relax remember rent
    research ride run sail save say see sell send serve sew share ship sing sit skate skip sleep smell smoke speak
    spend stand start stay stop struggle study suffer support suspect swim take talk teach tell think train
    travel treasure treat try turn understand use value visit volunteer wait wake walk want watch wear win
    wish wonder work worry write
    """.split()  # noqa: SIM905 - a table of words
)

IRREGULAR = tuple(
    """
    become became, begin began begun, break broke broken, bring brought, build built, buy bought, catch caught,
    choose chose chosen, come came, dig dug, draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten,
    fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown, forget forgot forgotten,
    freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown, hang hung, hear heard,
    hide hid hidden, hold held, keep kept, know knew known, lead led, leave left, lend lent, lose lost, make made,
    mean meant, meet met, pay paid, ride rode ridden, ring rang rung, run ran, say said, see saw seen, sell sold,
    send sent, sing sang sung, sit sat, sleep slept, speak spoke spoken, spend spent, stand stood, steal stole stolen,
    stick stuck, swear swore sworn, swim swam swum, take took taken, teach taught, tear tore torn, tell told,
    think thought, throw threw thrown, understand understood, wake woke woken, wear wore worn, win won,
    write wrote written
    """.split(",")  # noqa: SIM905 - a table of words
)
"""The forms of verbs whose past is no ending, those of one verb in one text."""

_AGREEING = {"am": "is", "have": "has", "do": "does", "don't": "doesn't", "haven't": "hasn't", "go": "goes"}
_UNCHANGED = frozenset(
    """
    was had did will would can could should might must may wasn't hadn't didn't won't wouldn't can't couldn't
    shouldn't cannot mustn't
    """.split()  # noqa: SIM905 - a table of words
)


def third_person(verb: str) -> str | None:
    """The form after a name of a ``verb`` that stood after "I"; `None` for an unknown verb."""
    if verb in _AGREEING:
        return _AGREEING[verb]
    if is_past(verb) or verb in _UNCHANGED:
        return verb
    return _with_s(verb) if verb in _BASE else None


def is_past(verb: str) -> bool:
    """Whether the form is a past or a modal one, the same for all persons."""
    return verb in _PAST or verb in _UNCHANGED or (verb.endswith("ed") and len(verb) > 4 and verb not in _BASE)


def is_modal(verb: str) -> bool:
    """Whether the verb is a helper that is the same for all persons, as are the verbs that depend on it."""
    return verb in _UNCHANGED


def is_base(verb: str) -> bool:
    """Whether the verb is a known one in its plain form."""
    return verb in _BASE


def would_or_had(following: str) -> str:
    """The meaning of "'d" before the word ``following``: "would" or "had"."""
    if following == "better" or following in _PARTICIPLES or following.endswith("ed"):
        return "had"
    return "would"


def _with_s(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb}s"
