"""The tokens that an answer may have, from what is set and what is known of a model's limits."""

from typing import Final

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.completion import Completion
from eunoe.workers.models.endpoint.dialect import Sampling
from eunoe.workers.models.endpoint.profile import Profile
from eunoe.workers.models.endpoint.profile_keeper import Limited, ProfileKeeper
from eunoe.workers.models.endpoint.refusals import RefusalKind, RefusalReading
from eunoe.workers.models.questions.json_text import without_thoughts

_NEEDED_SHARE: Final = 0.5
"""The share of a prompt's tokens for its answer that should be left for the question to be asked."""
_LEAST_TOKENS: Final = 128
"""Tokens of an answer that must be left."""
_FRAME_TOKENS: Final = 32
"""Tokens of roles and marks around the texts of a prompt."""
_FIRST_THOUGHTS: Final = 2048
_MAX_THOUGHTS: Final = 16_384


class AnswerBounds:
    """The bounds of a model's answers; ``profile`` holds what refusals and cut answers have told of its limits.

    ``thoughts``, where it is given: tokens that a reasoning model may think for, beyond those of every prompt.
    """

    def __init__(self, profile: ProfileKeeper, sampling: Sampling) -> None:
        self._profile = profile
        self._sampling = sampling

    def fits(self, prompt: Prompt) -> bool:
        """Whether prompt and answer are within the known limits, and half of the answer's tokens are left."""
        bound = self.tokens(prompt)
        return bound is not None and bound >= _NEEDED_SHARE * prompt.max_tokens

    def tokens(self, prompt: Prompt, thoughts: int = 0) -> int | None:
        """The tokens to ask for; `None` where too few are left for the answer."""
        return self._bound(self._profile.now, prompt, thoughts)

    def _bound(self, profile: Profile, prompt: Prompt, thoughts: int) -> int | None:
        sampling = self._sampling
        wanted = prompt.max_tokens + max(thoughts, self._thinking())
        cap = min(filter(None, (profile.cap, sampling.max_output)), default=wanted)
        context = min(filter(None, (profile.context, sampling.context_window)), default=None)
        room = wanted if context is None else context - profile.tokens(prompt_text(prompt)) - _FRAME_TOKENS
        bound = min(wanted, cap, room)
        return bound if bound >= min(_LEAST_TOKENS, _NEEDED_SHARE * prompt.max_tokens) else None

    async def hold_back(self, prompt: Prompt) -> None:
        """Note the learned limits that make a question smaller: one of many is asked as if they were not known."""
        known = self._profile.now
        without = known.model_copy(update=dict.fromkeys(Limited))
        whole = self._bound(without, prompt, 0)
        for limit in Limited:
            one = without.model_copy(update={limit: getattr(known, limit)})
            if self._bound(one, prompt, 0) != whole:
                await self._profile.hold_back(limit)

    def took(self, completion: Completion, sent: int) -> None:
        """Note that a request for ``sent`` tokens was taken."""
        self._profile.took(Limited.CAP, sent)
        self._profile.took(Limited.CONTEXT, sent + (completion.tokens or (0, 0))[0])

    def more_thoughts(self, prompt: Prompt, completion: Completion, thoughts: int) -> int | None:
        """More tokens for thoughts, where these alone have used up what a cut answer could have.

        `None` where something was answered, or where the limits leave no more.
        """
        thought = thoughts or self._thinking()
        if without_thoughts(completion.content).strip() or thought >= _MAX_THOUGHTS:
            return None
        more = max(_FIRST_THOUGHTS, 2 * thought)
        return more if (self.tokens(prompt, more) or 0) > (self.tokens(prompt, thoughts) or 0) else None

    async def learn(self, prompt: Prompt, refusal: RefusalReading, thoughts: int, sent: int) -> None:
        """Learn from the refusal of a question that was too large; ``sent``: the tokens that were asked for.

        Raises `AnswerInvalid` where the question can be asked no smaller.
        """
        if refusal.kind is not RefusalKind.TOO_LARGE:
            return
        text = prompt_text(prompt)
        cap, context = refusal.cap, refusal.context
        if cap is None and context is None:
            if refusal.about_output:
                cap = max(1, sent // 2)
            else:
                context = int(0.9 * (self._profile.now.tokens(text) + sent))
        told = {Limited.CAP: cap, Limited.CONTEXT: context}
        believed = [await self._profile.refused(limit, tokens) for limit, tokens in told.items() if tokens is not None]
        if not all(believed):
            return  # larger ones were taken: it is asked again as it is
        if refusal.prompt_tokens is not None:
            await self._profile.count(text, refusal.prompt_tokens)
        bound = self.tokens(prompt, thoughts)
        if bound is None or bound >= sent:
            if bound is not None:
                await self._profile.underestimated(text)
            raise AnswerInvalid("the question is longer than the model takes", AnswerFault.TOO_LARGE)

    def _thinking(self) -> int:
        return max(self._sampling.thinking_tokens, self._profile.now.thinking_tokens)


def prompt_text(prompt: Prompt) -> str:
    """The text of both messages of a prompt, whose tokens are counted."""
    return f"{prompt.system}\n{prompt.user}"
