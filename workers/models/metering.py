"""What a model was asked, and what it cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def known(self) -> bool:
        """True: somebody said what tokens cost."""
        return bool(self.prompt or self.completion)


@dataclass(slots=True)
class Usage:
    """Counts since the process began."""

    calls: int = 0
    """Questions asked, correcting ones and repeated requests apart."""
    corrections: int = 0
    """Questions asked again with the fault of the first answer named."""
    retries: int = 0
    """Requests sent again because the endpoint did not answer them."""
    invalid: int = 0
    """Answers that were not of the form."""
    prompt_tokens: int = 0
    """The endpoint's own count, or ours where it gives none."""
    completion_tokens: int = 0

    def cost(self, prices: Prices) -> float:
        """Dollars, as far as the prices are known."""
        return (self.prompt_tokens * prices.prompt + self.completion_tokens * prices.completion) / 1e6
