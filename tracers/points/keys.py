"""Rows of page keys: none of its own.

Page keys are hashed per page, which is too hot to hook; the prompt's keys are worked out by the writer thread (`detail`)
and compared with the keys that the binding was given.
"""

from tracers.point import Point

POINTS: tuple[Point, ...] = ()
