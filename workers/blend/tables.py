"""The tables of stage blend."""

from eunoe.workers.tables import StageTables

NAME = "blend"
TURNS = "turns"
TABLES = StageTables(digested=(TURNS,))
