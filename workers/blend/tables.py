"""The tables of stage blend."""

from eunoe.workers.stage import StageTables

NAME = "blend"
TURNS = "turns"
TABLES = StageTables(digested=(TURNS,))
