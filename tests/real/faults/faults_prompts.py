"""The prompts of the shared engines: one a scenario, by length, so that no scenario meets another's pages."""

import random

from faults_bench import tokens

LENGTHS = {
    "f01": 597,
    "f02": 597,
    "f03": 200,
    "f04": 512,
    "f05": 597,
    "f05b": 597,
    "f06": 597,
    "f07": 480,
    "f09-0": 1400,
    "f09-1": 1400,
    "f09-2": 1400,
    "f09-3": 1400,
    "f12": 1200,
    "f13": 400,
    "f14": 400,
    "f16": 200,
    "f17": 597,
    "f18": 400,
    "f25": 40,
    "f26": 597,
    "f28": 330,
    "f28b": 330,
    "f29": 400,
    "f29b": 400,
    "f30": 597,
    "f31": 597,
    "f32a": 400,
    "f32b": 400,
    "f33": 400,
    "lookup": 400,
    "k10": 600,
    "k12": 400,
    "l03": 400,
    "r23": 400,
    "g04": 800,
    "w03": 3600,
}

PROMPTS = {name: tokens(length, seed) for seed, (name, length) in enumerate(LENGTHS.items(), start=1)}

FAMILIES = 12


def mixed(engine: int, count: int) -> list[dict[str, list[int]]]:
    """COUNT prompts in groups that are sent together: prefixes that both engines share, cold ones, short ones; the same for the same ENGINE."""
    rng = random.Random(engine)
    shared = [tokens(288 + 16 * family, 1000 + family) for family in range(FAMILIES)]
    prompts = {}
    for number in range(count):
        tail = tokens(rng.randrange(5, 200), 5000 + 100 * engine + number)
        kind = rng.random()
        prompts[f"mix{engine}-{number}"] = (rng.choice(shared) + tail) if kind < 0.75 else (tokens(300, 9000 + 100 * engine + number) + tail if kind < 0.9 else tail)
    groups = []
    while prompts:
        names = list(prompts)[: rng.randrange(1, 5)]
        groups.append({name: prompts.pop(name) for name in names})
    return groups
