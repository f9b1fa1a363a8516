"""From a question and a place to a report: hash, name, ask the store, judge, and look for the shape that fits instead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hicachectl.keys.neighbours import Fit, fit, guesses
from hicachectl.keys.objects import Layout, layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.presence import DEFAULT_THRESHOLD, PRESENT, Presence, engine_would
from hicachectl.keys.report import Report
from hicachectl.keys.shape import Shape
from hicachectl.mooncake.exists import Answers, Place, Way, exists, listed
from hicachectl.mooncake.master import spoken_by
from hicachectl.mooncake.probe.settings import installed_mooncake

DEFAULT_PORT = "SGLang's default port"
"""What `locate` says of an admin port that nothing but SGLang's default stands for."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: page keys of a prompt under a shape, and what the engine decides by.

    `tokens` is None where only page keys are known, as from a recording: then no other shape can be tried.
    """

    shape: Shape
    layout: Layout
    page_keys: Sequence[str]
    prompt_tokens: int
    tokens: Sequence[int] | None = None
    threshold: int = DEFAULT_THRESHOLD
    policy: str = "timeout"
    windows: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def of_tokens(tokens: Sequence[int], shape: Shape, **decides: object) -> Question:
    """The question for TOKENS under SHAPE; DECIDES are further fields of it."""
    keys = page_keys(
        tokens,
        shape.page_size,
        sglang=shape.sglang,
        bigram=shape.bigram,
        extra_key=shape.extra_key,
        cache_salt=shape.cache_salt,
    )
    return Question(shape, layout(shape), keys, len(tokens), tokens, **decides)  # type: ignore[arg-type]


def named(question: Question) -> Report:
    """Keys alone: nothing is asked of anybody."""
    return Report(question.shape, question.layout, question.page_keys, question.prompt_tokens, remarks=question.remarks)


def asked(question: Question, place: Place, way: Way = Way.auto, *, why: bool = False) -> Report:
    """Ask the store for every object; where WHY and nothing can be reached, look for the shape that its objects fit."""
    flat = [key for page_key in question.page_keys for key in question.layout.keys(page_key)]
    answers = exists(flat, place, way)
    width = len(question.layout.slots)
    rows = [answers.codes[start : start + width] for start in range(0, len(flat), width)]
    presence = Presence(question.shape, question.page_keys, rows, question.windows, question.layout)
    effects, remarks = list(answers.effect.side_effects), list(question.remarks)
    remarks += _remarks(answers, place) if flat else []
    fits = None
    if why and question.tokens is None:
        remarks.append("--why needs the tokens: a recording has page keys of one shape only")
    elif why and question.tokens is not None:
        fits, said, more = _fit(question, place, presence)
        remarks += said
        effects += [each for each in more if each not in effects]
    return Report(
        question.shape,
        question.layout,
        question.page_keys,
        question.prompt_tokens,
        presence,
        engine_would(presence, question.prompt_tokens, question.threshold, question.policy),
        fits,
        _store(place, answers),
        tuple(effects),
        tuple(remarks),
    )


def _store(place: Place, answers: Answers) -> dict[str, Any]:
    return {
        "master": place.settings.master_server_address,
        "admin": place.admin,
        "admin_found": place.found or None,
        "lookup": answers.effect.way.value,
        "releases": answers.releases or None,
    }


def _remarks(answers: Answers, place: Place) -> list[str]:
    found = [answers.effect.remark] if answers.effect.remark else []
    found += _foreign(answers)
    if answers.effect.way is not Way.client and place.found == DEFAULT_PORT:
        found.append(
            f"nobody said that {place.admin} is this master's admin port: it is {DEFAULT_PORT}; --admin says it"
        )
    return found


def _foreign(answers: Answers) -> list[str]:
    """What to say where the master that was asked by HTTP is not of the release of the Mooncake client beside this Python, as far as it tells."""
    own = installed_mooncake()
    if answers.effect.way is Way.client or not answers.releases or own is None or spoken_by(own).releases == answers.releases:
        return []
    return [f"the master answers as one of {answers.releases}, and the Mooncake client here is {own}: an engine with this client gets -900 (RPC_FAIL) from it, whatever is there"]


def _fit(question: Question, place: Place, presence: Presence) -> tuple[Fit | None, list[str], list[str]]:
    """The shape that fits instead, what there is to say, and what asking for it did to the store."""
    tokens = question.tokens or ()
    if presence.contiguous_pages:
        return None, ["objects of this shape are there, so no other shape was tried"], []
    there = listed(place)
    effects: list[str] = []
    if there is None:
        wanted = guesses(tokens, question.shape)
        answers = exists(wanted, place)
        there = [key for key, code in zip(wanted, answers.codes, strict=True) if code == PRESENT]
        effects = list(answers.effect.side_effects)
    found = fit(tokens, question.shape, there)
    said = (
        []
        if found
        else ["no neighbouring shape fits either: the store has no object of these tokens that could be recognised"]
    )
    return found, said, effects
