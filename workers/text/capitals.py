"""Capital letters for patterns: names begin with them in any script that has them ("Öbb", "Łódź", "Анна")."""

CAPITAL = "[A-Z{}]".format("".join(chr(code) for code in range(0xC0, 0x530) if chr(code).isupper()))
"""A class of the capitals of the Latin, Greek, Cyrillic and Armenian scripts."""
