"""Children that end for good: their parent ends with a code that says whether another start helps."""

import pytest

from eunoe.deploy.exits import Exit, code_of
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.schemas.errors import EunoeError


class Ending(WorkerProcess):
    """A worker that ends with a code as soon as it is started."""

    def __init__(self, code: Exit) -> None:
        super().__init__(["tree"], {})
        self.code = code

    async def _run_once(self) -> tuple[int, str]:
        return self.code, "the last line"


@pytest.mark.parametrize(
    ("code", "own"),
    [(Exit.USAGE, Exit.USAGE), (Exit.INCOMPLETE, Exit.UNAVAILABLE), (Exit.FAILING, Exit.UNAVAILABLE)],
)
async def test_a_child_that_refuses_its_settings_refuses_those_of_its_parent(code: Exit, own: Exit):
    with pytest.raises(EunoeError, match=r"the worker of tree ended .* the last line") as met:
        await Ending(code).start()
    assert code_of(met.value) is own
