"""The choice of the next dialect for a question that the endpoint refused or failed at."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.endpoint.client import code_of, refusal_of
from eunoe.workers.models.endpoint.dialect import Dialect, dialects_after
from eunoe.workers.models.questions.answer_forms import form_name

if TYPE_CHECKING:
    from openai import APIStatusError


class DialectChoice:
    """The dialects of one question, each tried once; ``understood``: the forms that the endpoint has answered."""

    def __init__(self, dialect: Dialect, form: type[Value], understood: Collection[str]) -> None:
        self.now = dialect
        self._form = form_name(form)
        self._understood = understood
        self._tried = {dialect}

    @property
    def _is_understood(self) -> bool:
        return self._form in self._understood

    def simplify(self) -> None:
        """Go on with a simpler dialect: some servers fail at a schema that they do not take.

        Raises `AnswerInvalid` where there is none, or where the form is understood.
        """
        others = () if self._is_understood else dialects_after(self.now, frozenset())
        if not self._go_on(others):
            raise AnswerInvalid(
                "the endpoint fails at this question, and answers others", AnswerFault.REFUSED
            ) from None

    def change(self, error: "APIStatusError", learned: Dialect) -> None:
        """Go on with ``learned``, what other calls know by now, or else with what the refusal leads to.

        Raises `AnswerInvalid` where all were tried, or where the prompt is at fault: nothing is named, and the form is
        understood.
        """
        if self._go_on([learned]):
            return
        named = refusal_of(error).parameters
        prompt_is_at_fault = not named and self._is_understood
        if not self._go_on(() if prompt_is_at_fault else dialects_after(self.now, named)):
            what = code_of(error) or error.status_code
            fault = AnswerFault.REFUSED if prompt_is_at_fault else AnswerFault.UNSUPPORTED
            raise AnswerInvalid(f"the endpoint refused this prompt ({what})", fault) from None

    def _go_on(self, others: Iterable[Dialect]) -> bool:
        """Go on with the first dialect that was not tried; returns whether there is one."""
        found = next((other for other in others if other not in self._tried), None)
        if found is None:
            return False
        self.now = found
        self._tried.add(found)
        return True
