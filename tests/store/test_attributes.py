"""One attribute of a span, found where it stands."""

from pathlib import Path

import pytest

from hicachectl import store
from hicachectl.store.attributes import attributes_of, is_plain, value_of
from tracers import vocabulary as v

SAMPLES = sorted(path.parent for path in (Path(__file__).parents[1] / "samples").rglob("run.json"))


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_one_attribute_is_what_decoding_all_of_them_gives(run: Path) -> None:
    """Whatever the real engine wrote: every attribute that a span has, and one that it has not."""
    texts = [bytes(span.raw) for span in store.read([run]).spans]
    plain = [text for text in texts if is_plain(text)]
    assert len(plain) > len(texts) / 2
    for text in plain:
        every = attributes_of(text)
        assert {key: value_of(text, key) for key in (*every, v.RUNNING)} == {v.RUNNING: None, **every}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"intValue":"-7"}', -7),
        (b'{"intValue":7}', 7),
        (b'{"intValue":"9223372036854775807"}', 9223372036854775807),
        (b'{"intValue":"seven"}', None),
        (b'{"stringValue":""}', ""),
        ('{"stringValue":"é"}'.encode(), "é"),
        (b'{"boolValue":false}', False),
        (b'{"doubleValue":1.5}', 1.5),
        (b'{"arrayValue":{"values":[]}}', []),
        (b'{"arrayValue":{}}', []),
        (b'{"arrayValue":{"values":[{"stringValue":"a]"},{"intValue":"2"}]}}', ["a]", 2]),
        (b'{"arrayValue":{"values":[{"stringValue":"a"},{"kvlistValue":{"values":[]}}]}}', ["a"]),
        (b'{"kvlistValue":{"values":[]}}', None),
        (b"{}", None),
    ],
    ids=str,
)
def test_a_value_of_any_kind_is_found(value: bytes, found: object) -> None:
    """Scalars and lists of any kind and shape, as decoding the whole would have them; of a key that comes twice, the last."""
    text = b'[{"key":"a","value":{"intValue":"1"}},{"key":"k","value":' + value + b'},{"key":"kk","value":{"intValue":"2"}}]'
    assert is_plain(text)
    assert value_of(text, "k") == attributes_of(text).get("k") == found
    twice = text.replace(b'"kk"', b'"k"')
    assert value_of(twice, "k") == attributes_of(twice)["k"] == 2


@pytest.mark.parametrize("text", [b'[{"key": "k","value":{"intValue":"1"}}]', b'[{"value":{"intValue":"1"},"key":"k"}]', b'[{"key":"\\u006b","value":{"intValue":"1"}}]', b"[]"])
def test_what_is_written_in_another_way_is_not_searched(text: bytes) -> None:
    """Blanks, another order, an escaped letter: there a key cannot be searched for, and all is decoded."""
    assert not is_plain(text)
    span = store.Span("name", "", "")
    span.raw = type(span.raw)(text)
    assert span.get("k") == attributes_of(text).get("k")
