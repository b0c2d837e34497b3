"""English words by how much they tell, and words that must not be lost. Hand-written, for the offline compressor."""

import re

NEGATIONS = frozenset(
    """
    no not never none nobody nothing nowhere neither nor cannot without hardly barely scarcely seldom rarely
    unless except until stop stopped quit fail failed refuse refused deny denied
    """.split()  # noqa: SIM905 - a table of words
)

NUMBER_WORDS = frozenset(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million
    billion dozen half quarter first second third fourth fifth sixth seventh eighth ninth tenth once twice
    double triple both couple
    """.split()  # noqa: SIM905 - a table of words
)

FILLERS = frozenset(
    """
    um uh er erm hmm hm mm mhm oh ah aw wow ooh haha hahaha lol hey hi hello yeah yep yup ok okay well really
    just actually basically literally honestly totally definitely absolutely simply quite rather pretty very so
    too anyway anyways right sure please thanks sorry maybe perhaps kinda sorta gonna wanna gotta also even
    still
    """.split()  # noqa: SIM905 - a table of words
)

FUNCTION_WORDS = frozenset(
    """
    a an the this that these those some any each every such own other another same i me my mine myself you your
    yours yourself he him his himself she her hers herself it its itself we us our ours ourselves they them
    their theirs themselves who whom whose which what one's am is are was were be been being have has had having
    do does did doing will would shall should can could may might must ought let i'm i've i'd i'll you're you've
    you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll they're they've
    they'd they'll that's there's here's what's who's how's where's let's and or but if as because while though
    although since than whether of at by for with about against between into through during above below to from
    up down in out on off over under around among across toward towards upon onto within along there here then
    when where why how again further more most less least much many few lot lots bit all
    """.split()  # noqa: SIM905 - a table of words
)

COMMON_WORDS = frozenset(
    """
    get gets got getting go goes going went gone come comes came coming make makes made making take takes took
    taking give gives gave giving say says said saying tell tells told telling think thinks thought thinking
    know knows knew known see sees saw seen seeing look looks looked looking want wants wanted need needs needed
    feel feels felt feeling try tries tried trying seem seems seemed put keep kept find found use used ask asked
    talk talked talking mean means meant guess suppose hope like likes liked happen happened happens start
    started begin began help helps helped hear heard thing things something anything everything stuff way ways
    kind sort type part time times people person someone anyone everyone day days lately soon ever always often
    usually sometimes already yet now almost enough good great nice fine cool awesome amazing wonderful bad big
    small little new old long short sure glad happy able different important interesting fun whole around away
    back together especially certainly probably
    """.split()  # noqa: SIM905 - a table of words
)

GIVEN_NAMES = frozenset(
    """
    aaron abby adam adrian aisha alan albert alex alexander alexandra alice alicia alison amanda amber amy ana
    andre andrea andrew andy angela anita ann anna anne annie anthony anton arjun arthur ashley audrey barbara
    beatrice ben benjamin beth betty bill bob bobby boris brad brandon brenda brian bruce bruno calvin camila
    carl carla carlos carmen carol caroline catherine cathy charles charlie charlotte chen chloe chris christian
    christina christine cindy claire clara claudia colin connor craig cynthia daisy dan dana daniel daniela
    danny darren dave david dawn debbie deborah debra dennis derek diana diane diego dmitri dominic don donald
    donna doris dorothy doug douglas duncan dylan eddie edgar edith eduardo edward eileen elaine elena eli
    elijah elizabeth ella ellen emily emma eric erica erik erin ernest esther ethan eugene eva evan evelyn
    fatima felix fernando fiona florence frances francesca francis francisco frank fred gabriel gail gary gavin
    george gerald gina giovanni gloria gordon greg gregory gwen hannah harold harriet harry hassan heather
    hector heidi helen helena henry herbert hiroshi howard hugh hugo ian ibrahim igor ingrid irene iris isaac
    isabel isabella ivan jack jackie jacob jake james jamie jan jane janet janice jason javier jay jean jeff
    jeffrey jennifer jenny jeremy jerry jesse jessica jill jim jimmy joan joanna joanne joe joel johan john
    johnny jon jonas jonathan jordan jorge jose joseph josh joshua joy joyce juan juanita judith judy julia
    julian julie june justin karen karl kate katherine kathleen kathy katie kayla keith kelly ken kenneth kenji
    kevin kim kimberly kirsten klaus kristen kyle lara larry laura lauren laurie lawrence leah lee lena leo leon
    leonard leslie leticia liam lily linda lisa liz logan lola lorenzo louis louise lucas lucia lucy luis luke
    luna lydia madison maggie malik manuel marco marcus margaret maria marie marilyn mario marion marjorie mark
    marta martha martin marvin mary mateo matt matthew maurice max maya mei melanie melissa mia michael michelle
    miguel mike mila miriam mohamed mohammed molly monica morgan nadia nancy naomi natalie natasha nathan neil
    nicholas nick nicole nikolai nina noah nora norma norman oliver olivia omar oscar otto owen pablo pamela
    patricia patrick paul paula pauline pedro peggy penny pete peter phil philip phillip phyllis pierre priya
    rachel ralph ramon raquel raul ray raymond rebecca regina renee ricardo richard rick rita rob robert roberto
    robin rodney roger roland ron ronald rosa rose ross roy ruby russell ruth ryan sally sam samantha samuel
    sandra sara sarah scott sean sebastian sergei shannon sharon shaun sheila shirley simon sofia sonia sophia
    sophie stanley stella stephanie stephen steve steven stuart sue susan suzanne sven sylvia tamara tanya tara
    ted teresa terry theo theodore theresa thomas tiffany tim timothy tina todd tom tommy tony tracy travis
    tyler ursula valerie vanessa vera veronica victor victoria vincent viola virginia vivian vladimir walter
    wanda warren wayne wendy wei wesley will william willie xavier yolanda yuki yusuf yvonne zachary zoe
    """.split()  # noqa: SIM905 - a table of words
)

_NT = re.compile(r"n['’]t\Z")


def is_negation(word: str) -> bool:
    """Whether the word negates a sentence: not, never, without, …, and every word that ends in n't."""
    lower = word.lower()
    return lower in NEGATIONS or _NT.search(lower) is not None or lower in {"dont", "cant", "wont", "didnt", "isnt"}


def weight(word: str) -> int:
    """The weight of a word: 0 a filler, 1 a function word, 2 a common word, 3 any other."""
    lower = word.lower().replace("’", "'")
    for rank, words in enumerate((FILLERS, FUNCTION_WORDS, COMMON_WORDS)):
        if lower in words:
            return rank
    return 3
