"""A running SGLang server over HTTP: its settings and its model."""

from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from hicachectl.exits import BadInputError, UnreachableError, one_line
from hicachectl.patience import at_most

DEFAULT_TIMEOUT_S = 10.0
LONGEST_ANSWER_S = 60.0
LARGEST_ANSWER = 64 << 20
"""A server tells its arguments, and some state of its schedulers."""
INFO = ("/server_info", "/get_server_info")
MODEL = ("/model_info", "/get_model_info")
"""Newer path first; SGLang before 0.5.5 has the older one alone (entrypoints/http_server.py)."""


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself: its arguments and state, and its model (empty where it does not say)."""

    url: str
    info: dict[str, Any]
    model: dict[str, Any]


def ask(url: str, timeout: float = DEFAULT_TIMEOUT_S, api_key: str | None = None) -> Server:
    """Ask the server at URL; UnreachableError where none answers, BadInputError where it is no SGLang server."""
    base = (url if "://" in url else f"http://{url}").rstrip("/")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with (
            httpx.Client(timeout=timeout, headers=headers, trust_env=False) as client,
            at_most(LONGEST_ANSWER_S, client, lambda: f"{base} does not stop answering: is it an SGLang server?"),
        ):
            info = _first(client, base, INFO)
            model = _first(client, base, MODEL)
    except httpx.TimeoutException as error:
        raise UnreachableError(f"no answer from {base} within {timeout:g} s") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise BadInputError(f"'{one_line(url)}' is no server's URL: expected http://HOST:PORT") from error
    except httpx.HTTPError as error:
        raise UnreachableError(f"cannot reach a server at {base}: {one_line(str(error))}") from error
    if info is None:
        raise BadInputError(f"{base} has neither {INFO[0]} nor {INFO[1]}: is it an SGLang server?")
    return Server(base, info, model or {})


def _body(base: str, response: httpx.Response) -> bytes:
    """The whole body, of a bounded size."""
    found = bytearray()
    for piece in response.iter_bytes():
        found += piece
        if len(found) > LARGEST_ANSWER:
            raise BadInputError(f"{base} does not stop answering ({len(found)} bytes so far): is it an SGLang server?")
    return bytes(found)


def _first(client: httpx.Client, base: str, paths: tuple[str, ...]) -> dict[str, Any] | None:
    """The first of PATHS that the server has; None where it has none of them."""
    for path in paths:
        with client.stream("GET", f"{base}{path}") as response:
            content = _body(base, response)
        if response.status_code == httpx.codes.NOT_FOUND:
            continue
        if response.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise UnreachableError(f"{base}{path} asks for a key: set SGLANG_API_KEY")
        if response.status_code != httpx.codes.OK:
            raise UnreachableError(
                f"{base}{path} answered HTTP {response.status_code}: {one_line(content[:120].decode(errors='replace'))}"
            )
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(f"{base}{path} did not answer JSON: is it an SGLang server?") from error
        if not isinstance(body, dict):
            raise BadInputError(f"{base}{path} answered JSON, but no object: is it an SGLang server?")
        return body
    return None
