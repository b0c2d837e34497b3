"""Speeds of an endpoint, and its tokens by script."""

import asyncio
from dataclasses import dataclass

from eunoe.deploy.doctor.endpoint.probe import Prober
from eunoe.deploy.doctor.findings import Findings
from eunoe.workers.text.tokens import count_tokens

_TEXTS = {
    "English": "She moved to Lyon last spring because her sister had opened a bakery there, and now she gets up at"
    " four every morning to knead the dough. On Sundays they walk along the river and plan next week's bread.",
    "German": "Im vergangenen Frühjahr ist sie nach Leipzig gezogen, weil ihre Schwester dort eine Bäckerei eröffnet"
    " hat. Seitdem steht sie um vier Uhr auf und knetet den Teig; sonntags spazieren sie am Kanal entlang.",
    "Korean": "지난봄에 언니가 빵집을 열어서 그녀는 부산으로 이사했다. 이제 매일 새벽 네 시에 일어나 반죽을 한다."
    " 일요일마다 둘은 강가를 걸으며 다음 주에 구울 빵을 의논한다.",
    "Chinese": "去年春天，因为姐姐在成都开了一家面包店，她也搬了过去。现在她每天凌晨四点起床揉面。"
    "每到星期天，姐妹俩就沿着河边散步，商量下个星期要烤什么面包。",
    "code": "def totals(rows: list[dict[str, float]]) -> dict[str, float]:\n    found = {}\n    for row in rows:\n"
    "        for name, value in row.items():\n            found[name] = found.get(name, 0.0) + value\n"
    "    return found\n",
}
SAMPLES = {name: f"{text}\n{text}" for name, text in _TEXTS.items()}
"""Script → a text of one to four hundred characters."""
TOLERATED = 0.15
"""Difference of our count of tokens that is not worth a word."""
_READ_TOKENS = 1_000
_READ = "Lamps stood along the road to the mill, and nobody had lit one since the autumn of the flood. "
_READ_SENTENCE_TOKENS = 21
_COUNTING = "Count from 1 to 150 in digits, separated by spaces, and write nothing else."
_FEW_TOKENS, _MANY_TOKENS = 48, 1024
_SOON_S = 2.0
"""Seconds for a few tokens, below which many are asked for: the time to the first token counts less then."""


@dataclass(frozen=True, slots=True)
class EndpointMeasures:
    """Measured figures."""

    tokens_a_second: float | None
    """Speed of writing an answer; `None` means not measured."""
    read_a_second: float | None
    """Speed of reading a prompt, in tokens a second; `None` means not measured."""
    counts: dict[str, int]
    """Script → tokens of its text in `SAMPLES`; empty where the endpoint does not count."""


async def measure_endpoint(prober: Prober, findings: Findings, *, timeout_s: float, longest: int) -> EndpointMeasures:
    """Measure the speed of an answer and of reading a prompt, and the tokens of short texts.

    ``timeout_s``: seconds a call may take; ``longest``: tokens of the longest answer that eunoe asks for.
    """
    findings.step("speed")
    speed = await _speed(prober, findings, timeout_s, longest)
    reading = await _reading_speed(prober, speed)
    findings.step("tokens by script")
    return EndpointMeasures(speed, reading, await _scripts(prober, findings))


async def _reading_speed(prober: Prober, speed: float | None) -> float | None:
    """Tokens of a prompt read in a second: a model on processors alone takes longer to read than to answer."""
    text = _READ * (_READ_TOKENS // _READ_SENTENCE_TOKENS)
    answer = await prober.chat(f"{text}\nIs this about lamps? Answer with the one word yes or no.", 16)
    if not answer.is_completion or not answer.seconds:
        return None
    writing = (answer.completion_tokens or 0) / speed if speed else 0.0
    return (answer.prompt_tokens or count_tokens(text)) / max(answer.seconds - writing, answer.seconds / 10)


async def _speed(prober: Prober, findings: Findings, timeout_s: float, longest: int) -> float | None:
    answer = await prober.chat(_COUNTING, _FEW_TOKENS)
    if answer.is_completion and answer.seconds < _SOON_S:
        answer = await prober.chat(_COUNTING, _MANY_TOKENS)
    if not answer.is_completion or not answer.seconds:
        findings.note(f"speed not measured: {answer.fault}")
        return None
    speed = (answer.completion_tokens or count_tokens(answer.text)) / answer.seconds
    needed = longest / speed if speed else float("inf")
    text = f"{speed:.0f} tokens a second"
    if needed > timeout_s:
        findings.warn(
            f"{text}: an answer of {longest} tokens takes {needed:.0f} s; a call may last {timeout_s:g} s",
            {"EUNOE_MODEL_TIMEOUT_SECONDS": f"{min(needed * 1.5, 3600):.0f}"},
        )
    else:
        findings.ok(text)
    return round(speed, 1)


async def _scripts(prober: Prober, findings: Findings) -> dict[str, int]:
    asked = await asyncio.gather(*(prober.chat(text, 16) for text in ("x", *SAMPLES.values())))
    counts = [answer.prompt_tokens for answer in asked]
    if any(count is None for count in counts) or not counts[0]:
        findings.note("the endpoint does not count the tokens of prompts: ours are estimates")
        return {}
    base = (counts[0] or 0) - 1
    found = {name: (count or 0) - base for (name, _), count in zip(SAMPLES.items(), counts[1:], strict=True)}
    off = {
        name: count_tokens(SAMPLES[name]) / tokens - 1
        for name, tokens in found.items()
        if tokens > 0 and abs(count_tokens(SAMPLES[name]) / tokens - 1) > TOLERATED
    }
    per_char = {name: round(tokens / len(SAMPLES[name]), 3) for name, tokens in found.items()}
    findings.ok("tokens per character: " + ", ".join(f"{name} {value:.2f}" for name, value in per_char.items()))
    if off:
        findings.note(
            "our count of tokens differs: " + ", ".join(f"{name} {share:+.0%}" for name, share in off.items())
        )
    return found
