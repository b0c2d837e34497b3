"""Routes for those who operate the memory: processes, generations, what a rebuild changed."""

import asyncio
from datetime import UTC, datetime

from starlette.responses import Response

from eunoe.deploy.gateway.bodies import DifferenceQuery
from eunoe.deploy.gateway.calls import Call, answer
from eunoe.deploy.gateway.operation_results import (
    ExampleItem,
    GenerationDifference,
    GenerationItem,
    GenerationPage,
    KindDifference,
    ProcessItem,
    ProcessPage,
    TreeSize,
)
from eunoe.deploy.gateway.problems import not_found
from eunoe.deploy.inspect.differences import GenerationDiff, TreeShape, compare
from eunoe.deploy.inspect.remembered import read_both
from eunoe.deploy.observability.process_records import SILENT_S, read_processes

DIFF_COST = 10
"""Requests as which a comparison counts: it reads two whole conversations."""


async def list_processes(call: Call) -> Response:
    """The worker processes of the deployment, as they described themselves last."""
    now = datetime.now(UTC)
    found = await read_processes(call.gateway.processes)
    ages = [round(max(0.0, (now - one.at).total_seconds()), 1) for one in found]
    items = tuple(
        ProcessItem(status=one, age_s=age, silent=age > SILENT_S) for one, age in zip(found, ages, strict=True)
    )
    return answer(ProcessPage(processes=items, silent_after_s=SILENT_S))


async def list_generations(call: Call) -> Response:
    """The live generation, the first one, and those that rebuilds made."""
    items = tuple(
        GenerationItem(
            name=one.name,
            live=one.is_live,
            state=None if one.made is None else one.made.state,
            made_at=None if one.made is None else one.made.made_at,
            source=None if one.made is None else one.made.source,
            changes={} if one.made is None else one.made.changes,
        )
        for one in await call.gateway.states.generations()
    )
    return answer(GenerationPage(generations=items))


async def show_difference(call: Call) -> Response:
    """The memory of a conversation in two generations: what is in one only, and what changed."""
    query = call.query(DifferenceQuery)
    await call.admit(DIFF_COST)
    known = {one.name: one.is_live for one in await call.gateway.states.generations()}
    new = call.path["generation"]
    old = query.against or next(name for name, is_live in known.items() if is_live)
    if new not in known or old not in known:
        raise not_found("generation")
    stores = await call.gateway.states.store_of(old), await call.gateway.states.store_of(new)
    before, after = await read_both(*stores, call.key)
    if not before.sessions and not after.sessions:
        raise not_found("conversation")
    found = await asyncio.to_thread(compare, before, after, query.examples)
    return answer(_difference(old, new, found))


def _difference(old: str, new: str, found: GenerationDiff) -> GenerationDifference:
    kinds = tuple(
        KindDifference(
            kind=kind,
            old=tally.old,
            new=tally.new,
            only_old=tally.only_old,
            only_new=tally.only_new,
            changed=tally.changed,
            examples=tuple(ExampleItem(old=one.old, new=one.new) for one in tally.examples),
        )
        for kind, tally in found.tallies.items()
    )
    sessions, trees = found.sessions, tuple(map(_size, found.trees))
    return GenerationDifference(
        old=old, new=new, equal=found.is_equal, sessions=sessions, kinds=kinds, trees=(trees[0], trees[1])
    )


def _size(shape: TreeShape) -> TreeSize:
    return TreeSize(nodes=shape.nodes, leaves=shape.leaves, depth=shape.depth, fan_out=shape.fan_out)
