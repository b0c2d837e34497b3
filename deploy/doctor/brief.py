"""The checks at the start of a command, which wait for no client of the servers."""

from functools import partial

from eunoe.deploy.clients.models import Environment, uses_endpoint
from eunoe.deploy.doctor.embedder import check_embedder
from eunoe.deploy.doctor.findings import Check
from eunoe.deploy.doctor.model import check_model_briefly
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.embedders import asks_endpoint

BRIEF_LIMIT_S = 30.0


def brief_checks(settings: Settings, environment: Environment) -> list[Check]:
    """One question to the model and one text to the embedder's endpoint, where they are set, or seem to be meant."""
    limit_s = min(settings.model_timeout_seconds, BRIEF_LIMIT_S)
    meant = environment.get("OPENAI_API_KEY") or "model" in settings.model_fields_set
    found = []
    if uses_endpoint(settings, environment) or meant:
        found.append(Check("model", partial(check_model_briefly, settings, environment), limit_s))
    if asks_endpoint(settings.embedding):
        found.append(Check("embedder", partial(check_embedder, settings, environment), limit_s))
    return found
