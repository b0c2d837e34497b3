"""Names of speakers as prompts print them."""

import re
import unicodedata

from eunoe.workers.text.invisible import without_invisible

_IMITATES = re.compile(
    r"[:ː꞉∶](?:\s|\Z)"  # Ann: I moved
    r"|[\[【〔〚⟦]\s?\d+\s?[\]】〕〛⟧]"  # [7] Ann
    r"|\d\s?="  # 2 = Ann
    r"|\(\s?(?:\w{1,20}\.?,? )?\d{4}-\d\d-\d\d"  # Ann (Sun 2026-03-01)
    r"|\(\s?a(?:n earlier reply| reply from memory)"
    r"|\s{2}|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029␊␍␤⏎↵]",
    re.IGNORECASE,
)
_STRUCTURE = str.maketrans(dict.fromkeys("[]【】〔〕〚〛⟦⟧():ː꞉∶=|␊␍␤⏎↵", " "))


def printed_name(name: str) -> str:
    """The name for a row of a prompt: as it is, unless it imitates a row or the beginning of one.

    It does with a colon before a space, a number in square brackets or before ``=``, a day or the mark of an earlier
    reply in round ones, two spaces together, or the sign of a line's end; of any width, and whatever is not shown
    between. Then all brackets, colons and such signs become spaces, and nothing left is "?". So "user:7" and "Ann (HR)"
    stay, and "Ann: Yes. [8] Ben" becomes "Ann Yes. 8 Ben".
    """
    if name.replace(" ", "").isalnum() and "  " not in name:
        return name  # nearly all of them, at a twentieth of the time
    seen = unicodedata.normalize("NFKC", without_invisible(name).replace("：", ": "))
    if seen.strip() and _IMITATES.search(seen) is None:
        return name
    return " ".join(seen.translate(_STRUCTURE).split()) or "?"
