"""The segment owner: a store client that lends memory to the store and does nothing else.

Run by path as `segment_owner.py MASTER BYTES`; exits with a sentence on stderr when the store does not take it.
"""

import signal
import sys

from mooncake.store import MooncakeDistributedStore

LOCAL_BUFFER = 16 * 1024 * 1024
"""The client's own copy buffer; it moves no objects, so the binding's default is plenty."""


def main() -> None:
    """Own a segment until killed."""
    master, size = sys.argv[1], int(sys.argv[2])
    store = MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", size, LOCAL_BUFFER, "tcp", "", master)
    if code != 0:
        sys.exit(f"the store refused a client that owns {size} bytes: setup returned {code}")
    print("serving", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
