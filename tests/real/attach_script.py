"""Plays a plan as `engine_script.py` does, and lets a test attach and detach, and ask the scheduler whether it is what it was.

The schedulers are spawned and import this file again: there a thread answers, by files, whether every attribute is the same object.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import engine_script

FOLDER = Path(os.environ["ATTACH_TEST_FOLDER"])
MAIN = "import sys; from hicachectl.cli import main; main()"
PATIENCE_S = 30.0
running = []


def attach(engine, run, words=()):
    """Attach to this process and its schedulers in a process of its own; what it said first."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored, which children inherit
    command = [sys.executable, "-c", MAIN, "trace", "--attach", str(os.getpid()), "--run", run, *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    said = []
    for line in process.stderr:
        said.append(line)
        if "attached to" in line:
            break
    running.append(process)
    return {"said": "".join(said)}


def refused(engine):
    """Try to attach once more."""
    done = subprocess.run([sys.executable, "-c", MAIN, "trace", "--attach", "all"], capture_output=True, text=True, check=False)
    return {"code": done.returncode, "said": done.stderr}


def detach(engine, how="key"):
    """End the attach, with a key or from elsewhere; its exit code and what it said last."""
    process = running.pop()
    if how == "key":
        process.send_signal(signal.SIGINT)
    elif how == "kill":
        process.kill()
    elif how == "elsewhere":
        subprocess.run([sys.executable, "-c", MAIN, "trace", "--detach"], check=True, capture_output=True)
    said = process.stderr.read()
    code = process.wait(PATIENCE_S)
    if how == "kill":
        time.sleep(3)
    return {"code": code, "said": said}


def remember(engine):
    """Have the scheduler keep what it is made of."""
    return _asked("remember")


def compare(engine):
    """What is another object now than when it was remembered, and what is there more."""
    return _asked("compare")


def _asked(what):
    (FOLDER / "asked").write_text(what)
    deadline = time.monotonic() + PATIENCE_S
    while not (answers := list(FOLDER.glob("answer-*"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    told = {path.name: json.loads(path.read_text()) for path in answers}
    for path in answers:
        path.unlink()
    (FOLDER / "asked").unlink()
    return {"told": told}


# -- in the scheduler --------------------------------------------------------------------------------------------------
def answer():
    """Wait for what is asked, and answer once a question."""
    kept, answered = {}, None
    while True:
        time.sleep(0.02)
        try:
            asked = (FOLDER / "asked").read_text()
        except OSError:
            answered = None
            continue
        if asked == answered or not asked:
            continue
        answered = asked
        try:
            now = snapshot()
        except KeyError:
            return
        except Exception as error:
            told = {"failed": f"{type(error).__name__}: {error}"}
        else:
            told = {"kept": len(now)} if asked == "remember" else difference(kept, now)
            kept = now if asked == "remember" else kept
        temporary = FOLDER / f"tmp-{os.getpid()}"
        temporary.write_text(json.dumps(told))
        temporary.rename(FOLDER / f"answer-{os.getpid()}")


def difference(kept, now):
    """Names of what is another object NOW, of what is there more, and of what is there no longer."""
    return {"other": sorted(name for name in now.keys() & kept.keys() if now[name] is not kept[name]), "more": sorted(now.keys() - kept.keys()), "less": sorted(kept.keys() - now.keys())}


def snapshot():
    """Every attribute of every class of SGLang and Mooncake that a hook point may touch, what hangs on the scheduler, and what the process has of ours."""
    found = {}
    for name in sorted(sys.modules):
        module = sys.modules[name]
        if name.partition(".")[0] not in ("sglang", "mooncake") or not hasattr(module, "__dict__"):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                found |= {f"{name}:{key}.{attribute}": each for attribute, each in list(vars(value).items()) if callable(each) or isinstance(each, (staticmethod, classmethod))}
            elif callable(value):
                found[f"{name}:{key}"] = value
    scheduler = _scheduler()
    parts = {"scheduler": scheduler, "tree": scheduler.tree_cache, "controller": scheduler.tree_cache.cache_controller, "store": scheduler.tree_cache.cache_controller.storage_backend, "flush": scheduler.flush_wrapper, "weights": scheduler.weight_updater}
    for part, owner in parts.items():
        found |= {f"{part}.{key}": value for key, value in _held(owner) if callable(value) or "hicachectl" in key}
    found |= {f"node {key}": type(value) for node in _nodes(scheduler.tree_cache) for key, value in _held(node)}
    found |= {f"finder {index}": finder for index, finder in enumerate(sys.meta_path)}
    found |= {f"thread {thread.name}": thread for thread in threading.enumerate() if thread.name.startswith("hicachectl")}
    return found


def _held(owner):
    """Attributes of OWNER by name, where it keeps them in slots too."""
    names = [*getattr(owner, "__dict__", ()), *(name for cls in type(owner).__mro__ for name in vars(cls).get("__slots__", ()))]
    return [(name, getattr(owner, name)) for name in names if hasattr(owner, name)]


def _scheduler():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_name != "run_scheduler_process":
        frame = frame.f_back
    if frame is None:
        raise KeyError("this process is no scheduler")
    return frame.f_locals["scheduler"]


def _nodes(tree):
    """Nodes of TREE; a tree core in Rust shows none to Python, and keeps nothing of ours."""
    try:
        waiting = [tree.root_node]
    except (AttributeError, NotImplementedError):
        waiting = []
    while waiting:
        node = waiting.pop()
        waiting += list(node.children.values())
        yield node


engine_script.STEPS |= {"attach": attach, "refused": refused, "detach": detach, "remember": remember, "compare": compare}

if __name__ == "__main__":
    engine_script.main()
elif __name__ == "__mp_main__":
    threading.Thread(target=answer, daemon=True).start()
