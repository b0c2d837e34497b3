"""The tables of stage respond."""

from eunoe.workers.tables import StageTables

NAME = "respond"
CITED = "cited"
TABLES = StageTables(left_out={CITED: "depends on what was known at the time of the ask"})
