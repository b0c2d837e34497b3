"""Counts and costs of the questions to a model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def known(self) -> bool:
        """Whether a price is set."""
        return bool(self.prompt or self.completion)


@dataclass(slots=True)
class Usage:
    """Counts since the process started."""

    calls: int = 0
    """Questions asked, without corrections and retries."""
    corrections: int = 0
    """Questions asked again with the fault of the first answer named."""
    retries: int = 0
    """Requests sent again because the endpoint did not answer."""
    invalid: int = 0
    """Answers that were not of the form."""
    prompt_tokens: int = 0
    """The endpoint's count, or our own estimate where it returns none."""
    completion_tokens: int = 0

    def cost(self, prices: Prices) -> float:
        """The cost in dollars, by the prices that are set."""
        return (self.prompt_tokens * prices.prompt + self.completion_tokens * prices.completion) / 1e6
